// Formats: llama.cpp, tools/imatrix/imatrix.cpp.
#include "models/importance.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/fail.h"
#include "base/file.h"
#include "luminal/gguf.h"

namespace luminal::models {
namespace {

void add_importance(Importance& all, const std::string& name, std::vector<float> values) {
  for (const float value : values)
    if (!(value >= 0) || !std::isfinite(value))
      fail<FormatError>("[quantize] the importance matrix holds {} for '{}'; it must be finite and 0 or more",
                        value, name);
  all.insert_or_assign(name, std::move(values));
}

/// Sums of squares [matrices, inputs] and how many inputs each sum is of.
Importance importance_of_gguf(const std::filesystem::path& path) {
  constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
  const GgufFile file(path);
  const GgufValue* type = file.find("general.type");
  if (!type || *type != GgufValue(std::string("imatrix")))
    fail<FormatError>("[quantize] '{}' is a GGUF file, but no importance matrix (general.type is {})",
                      path.string(), type ? to_text(*type) : "missing");
  Importance all;
  for (const GgufTensorInfo& tensor : file.tensors()) {
    if (!tensor.name.ends_with(kSums)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - kSums.size());
    const TensorData sums = file.read_f32(tensor.name), counts = file.read_f32(name + std::string(kCounts));
    const auto matrices = static_cast<size_t>(counts.element_count());
    std::vector<float> means(sums.as<float>().begin(), sums.as<float>().end());
    if (matrices == 0 || means.size() % matrices != 0)
      fail<FormatError>("[quantize] the importance matrix has {} numbers for '{}' and {} counts",
                        means.size(), name, matrices);
    const size_t inputs = means.size() / matrices;
    for (size_t i = 0; i < means.size(); ++i) {
      const float count = counts.as<float>()[i / inputs];
      means[i] = count > 0 ? means[i] / count : 1;  // an expert that was never used
    }
    add_importance(all, name, std::move(means));
  }
  return all;
}

/// The older format: counts and names in front of the numbers of each weight.
class LegacyImportance {
 public:
  LegacyImportance(std::string_view bytes, std::string where) : bytes_(bytes), where_(std::move(where)) {}

  Importance read() {
    Importance all;
    const int32_t entries = number("entries");
    if (entries < 1) fail<FormatError>("{} has {} entries", where_, entries);
    for (int32_t i = 0; i < entries; ++i) {
      const std::string name(take(static_cast<size_t>(count("letters of a name")), "a name"));
      const auto calls = static_cast<float>(number("calls"));
      std::vector<float> values(static_cast<size_t>(count("numbers")));
      const std::string_view raw = take(values.size() * sizeof(float), "numbers");
      std::memcpy(values.data(), raw.data(), raw.size());
      if (calls > 0)
        for (float& value : values) value /= calls;
      add_importance(all, name, std::move(values));
    }
    return all;
  }

 private:
  std::string_view take(size_t size, std::string_view what) {
    if (size > bytes_.size())
      fail<FormatError>("{} ends within {}; it is cut short, or no importance matrix", where_, what);
    const std::string_view piece = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return piece;
  }
  int32_t number(std::string_view what) {
    int32_t value = 0;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  /// Of things that take bytes, checked before anything is allocated.
  int32_t count(std::string_view what) {
    const int32_t value = number(what);
    if (value < 1 || static_cast<size_t>(value) > bytes_.size())
      fail<FormatError>("{} announces {} {}, but {} bytes follow; it is cut short, or no importance matrix",
                        where_, value, what, bytes_.size());
    return value;
  }

  std::string_view bytes_;
  std::string where_;
};

}  // namespace

Importance read_importance(const std::filesystem::path& path) {
  const std::string bytes = read_file(path, size_t{1} << 32);
  if (bytes.starts_with("GGUF")) return importance_of_gguf(path);
  return LegacyImportance(bytes, fmt::format("[quantize] '{}'", path.string())).read();
}

}  // namespace luminal::models
