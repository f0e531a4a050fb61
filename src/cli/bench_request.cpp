#include "cli/bench_request.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/fail.h"

namespace luminal::cli {
namespace {

using Json = nlohmann::json;

/// The members of a request. What is missing keeps its value.
class BenchRequestReader {
 public:
  explicit BenchRequestReader(const Json& request) : request_(request) {}

  void read(const char* name, std::string& out) const {
    if (const Json* value = find(name)) out = text(name, *value);
  }
  void read(const char* name, bool& out) const {
    const Json* value = find(name);
    if (value && !value->is_boolean()) wrong(name, *value, "true or false");
    if (value) out = value->get<bool>();
  }
  void read(const char* name, std::vector<std::string>& out) const {
    const Json* value = find(name);
    if (!value) return;
    if (!value->is_array()) wrong(name, *value, "a list of texts");
    out.clear();
    for (const Json& each : *value) out.push_back(text(name, each));
  }
  void read(const char* name, std::map<std::string, int64_t>& out) const {
    const Json* value = find(name);
    if (!value) return;
    if (!value->is_object()) wrong(name, *value, "an object of names and sizes");
    for (const auto& [dim, size] : value->items())
      out.insert_or_assign(dim, whole<int64_t>(name, size, 0, std::numeric_limits<int64_t>::max()));
  }
  template <class T>
  void read(const char* name, T& out, T least, T most) const {
    if (const Json* value = find(name)) out = whole<T>(name, *value, least, most);
  }
  void read_milliseconds(const char* name, double& out) const {
    constexpr double kMostMs = 60'000;
    const Json* value = find(name);
    if (!value) return;
    out = value->is_number() ? value->get<double>() : -1;
    if (!(out >= 0 && out <= kMostMs)) wrong(name, *value, fmt::format("a number from 0 to {}", kMostMs));
  }

 private:
  [[nodiscard]] const Json* find(const char* name) const {
    const auto found = request_.find(name);
    return found == request_.end() ? nullptr : &*found;
  }
  [[nodiscard]] static std::string text(const char* name, const Json& value) {
    if (!value.is_string()) wrong(name, value, "a text");
    return value.get<std::string>();
  }
  template <class T>
  [[nodiscard]] static T whole(const char* name, const Json& value, T least, T most) {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    const T number = fits ? value.get<T>() : T{};
    if (!fits || number < least || number > most)
      wrong(name, value, fmt::format("a whole number from {} to {}", least, most));
    return number;
  }
  [[noreturn]] static void wrong(const char* name, const Json& value, const std::string& expected) {
    constexpr size_t kMostShown = 60;
    std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > kMostShown) shown = shown.substr(0, kMostShown) + "...";
    fail<FormatError>("[bench] \"{}\" of a request takes {}, not {}", name, expected, shown);
  }

  const Json& request_;
};

}  // namespace

std::string BenchRequest::key() const { return Json{what, mode, grad, dims, seed, classes}.dump(); }

BenchRequest parse_bench_request(const std::string& line, const BenchRequest& usual) {
  const auto request = parse_bounded_json(line, "bench");
  if (!request.is_object())
    fail<FormatError>("[bench] a request is a JSON object, such as {{\"what\": FORMULA}}");
  BenchRequest out = usual;
  out.limits = request.contains("limits");
  if (out.limits) return out;
  if (!request.contains("what"))
    fail<FormatError>("[bench] a request says \"what\" to time: a formula, or the name of an example");
  const BenchRequestReader reader(request);
  reader.read("what", out.what);
  reader.read("mode", out.mode);
  reader.read("grad", out.grad);
  reader.read("dims", out.dims);
  reader.read<uint64_t>("seed", out.seed, 0, std::numeric_limits<uint64_t>::max());
  reader.read<int64_t>("classes", out.classes, 1, std::numeric_limits<int32_t>::max());
  reader.read_milliseconds("ms", out.ms);
  reader.read("report", out.report);
  reader.read("peak", out.peak);
  reader.read("last", out.last);
  return out;
}

}  // namespace luminal::cli
