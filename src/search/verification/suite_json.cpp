#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"
#include "search/verification/test_inputs.h"
#include "search/verification/verify.h"

/// Suites as text: what a replay file holds.
namespace luminal::search {
namespace {

using nlohmann::json;

constexpr int64_t kMostElements = int64_t{1} << 31;  ///< of a tensor in a file that is trusted

/// JSON has no infinities and no NaN.
json number(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}
double number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  const auto text = value.get<std::string>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return text == "inf" ? kInfinity : text == "-inf" ? -kInfinity : std::numeric_limits<double>::quiet_NaN();
}

json numbers(std::span<const double> values) {
  json list = json::array();
  for (const double x : values) list.push_back(number(x));
  return list;
}
std::vector<double> numbers_of(const json& list) {
  std::vector<double> values;
  for (const json& x : list) values.push_back(number_of(x));
  return values;
}

std::vector<double> quantiles_of(const json& list) {
  std::vector<double> quantiles = numbers_of(list);
  const bool has_nan = std::ranges::any_of(quantiles, [](double x) { return std::isnan(x); });
  if (quantiles.empty() || has_nan || !std::ranges::is_sorted(quantiles))
    fail<FormatError>("[replay] {} quantiles of an input are not numbers in ascending order",
                      quantiles.size());
  return quantiles;
}

uint64_t hash_of(const TensorData& data) { return hash_bytes(data.bytes.data(), data.bytes.size()); }

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::byte b : bytes) {
    text += kDigits[static_cast<size_t>(b) >> 4];
    text += kDigits[static_cast<size_t>(b) & 15];
  }
  return text;
}

TensorData data_of(const std::string& hex, const TensorType& type, const DimMap& dims) {
  const int64_t bytes = size_bytes(type.dtype, element_count(type.dims).exec(dims));
  if (hex.size() != 2 * static_cast<size_t>(bytes))
    fail<FormatError>("[replay] a tensor of {} bytes has {} hexadecimal digits; expected two a byte", bytes,
                      hex.size());
  TensorData data(type.dtype, exec(type.dims, dims));
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail<FormatError>("[replay] '{}' is not a hexadecimal digit", c);
  };
  for (size_t i = 0; i < data.bytes.size(); ++i)
    data.bytes[i] = static_cast<std::byte>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
  return data;
}

json case_json(const VerificationCase& test_case) {
  json expectations = json::array(), inputs = json::array();
  for (const VerificationCase::Expectation& expectation : test_case.expectations)
    expectations.push_back({{"tensor", expectation.tensor},
                            {"positions", expectation.positions},
                            {"values", numbers(expectation.values)},
                            {"errors", numbers(expectation.errors)},
                            {"integers", expectation.integers},
                            {"known", expectation.known},
                            {"promised", expectation.promised}});
  for (size_t t = 0; t < test_case.tensors.size(); ++t) {
    const auto& tensor = test_case.tensors[t];
    // What was drawn can be drawn again; what the graph made of it is written down.
    if (tensor && test_case.derived[t])
      inputs.push_back(hex_of(tensor->bytes));
    else if (tensor && !test_case.ranges[t].quantiles.empty())
      inputs.push_back({{"hash", hash_of(*tensor)}, {"quantiles", numbers(test_case.ranges[t].quantiles)}});
    else
      inputs.push_back(tensor ? json(hash_of(*tensor)) : json());
  }
  return {{"name", test_case.name},
          {"beyond_laws", test_case.beyond_laws},
          {"inputs", inputs},
          {"expectations", expectations}};
}

template <class T>
T whole(const json& value) {
  return whole_number<T>(value, "replay");
}

/// Every tensor is an input, or what one kernel makes; and it is there before a kernel reads it.
void check_given(const VerificationCase& test_case, const Unit& unit) {
  std::vector<bool> there;
  for (const auto& tensor : test_case.tensors) there.push_back(tensor != nullptr);
  for (const Unit::Kernel& kernel : unit.kernels) {
    for (const int input : kernel.inputs)
      if (!there[static_cast<size_t>(input)])
        fail<FormatError>("[replay] tensor {} is read before a kernel makes it", input);
    for (const int output : kernel.outputs) {
      if (there[static_cast<size_t>(output)])
        fail<FormatError>("[replay] tensor {} exists before a kernel makes it", output);
      there[static_cast<size_t>(output)] = true;
    }
  }
  if (const auto missing = std::ranges::find(there, false); missing != there.end())
    fail<FormatError>("[replay] tensor {} is neither an input nor made by a kernel", missing - there.begin());
}

VerificationCase case_of(const json& text, const VerificationSuite& suite) {
  VerificationCase test_case{.name = text.at("name").get<std::string>()};
  if (std::ranges::find(kInputKinds, test_case.name) == std::end(kInputKinds))
    fail<FormatError>("[replay] unknown kind of inputs '{}'; expected {}", test_case.name,
                      fmt::join(kInputKinds, ", "));
  test_case.beyond_laws = text.at("beyond_laws").get<bool>();
  const json& inputs = text.at("inputs");
  if (inputs.size() != suite.unit.tensors.size())
    fail<FormatError>("[replay] a test case has {} inputs for {} tensors; expected one each", inputs.size(),
                      suite.unit.tensors.size());
  test_case.ranges.resize(inputs.size());
  for (size_t t = 0; t < inputs.size(); ++t) {
    test_case.tensors.emplace_back();
    test_case.derived.push_back(inputs[t].is_string());
    if (inputs[t].is_null()) continue;
    if (inputs[t].is_string()) {
      test_case.tensors[t] = std::make_shared<const TensorData>(
          data_of(inputs[t].get<std::string>(), suite.unit.tensors[t].type, suite.dims));
      continue;
    }
    if (inputs[t].is_object()) test_case.ranges[t].quantiles = quantiles_of(inputs[t].at("quantiles"));
    test_case.tensors[t] =
        drawn_input(suite.unit, suite.dims, suite.seed, test_case.name, t, test_case.ranges[t]);
    const json& hash = inputs[t].is_object() ? inputs[t].at("hash") : inputs[t];
    if (hash_of(*test_case.tensors[t]) != whole<uint64_t>(hash))
      fail<FormatError>(
          "[replay] the random inputs differ from those of the build that wrote the file; replay it with "
          "that "
          "build");
  }
  check_given(test_case, suite.unit);
  for (const json& entry : text.at("expectations")) {
    VerificationCase::Expectation expectation{
        .tensor = whole<int>(entry.at("tensor")),
        .positions = whole_numbers<int64_t>(entry.at("positions"), "replay"),
        .values = numbers_of(entry.at("values")),
        .errors = numbers_of(entry.at("errors")),
        .integers = whole_numbers<int64_t>(entry.at("integers"), "replay"),
        .known = entry.at("known").get<std::vector<bool>>(),
        .promised = entry.at("promised").get<std::vector<bool>>()};
    const auto count = expectation.positions.size();
    const bool sizes_fit = expectation.known.size() == count && expectation.promised.size() == count &&
                           (expectation.integers.size() == count ||
                            (expectation.values.size() == count && expectation.errors.size() == count));
    if (!sizes_fit)
      fail<FormatError>(
          "[replay] an expectation at {} positions has {} integers, {} values, {} errors and {} known and {} "
          "promised "
          "flags; expected one of each kind, or integers alone, for each position",
          count, expectation.integers.size(), expectation.values.size(), expectation.errors.size(),
          expectation.known.size(), expectation.promised.size());
    if (expectation.tensor < 0 || static_cast<size_t>(expectation.tensor) >= suite.unit.tensors.size())
      fail<FormatError>("[replay] an expectation is about tensor {}, but there are {}", expectation.tensor,
                        suite.unit.tensors.size());
    if (test_case.tensors[static_cast<size_t>(expectation.tensor)])
      fail<FormatError>("[replay] an expectation is about tensor {}, which is an input", expectation.tensor);
    const int64_t elements =
        element_count(suite.unit.tensors[static_cast<size_t>(expectation.tensor)].type.dims).exec(suite.dims);
    for (const int64_t position : expectation.positions)
      if (position < 0 || position >= elements)
        fail<FormatError>("[replay] position {} is outside a tensor of {} elements", position, elements);
    test_case.expectations.push_back(std::move(expectation));
  }
  return test_case;
}

Unit unit_of(const json& text) {
  Unit unit;
  for (const json& tensor : text.at("tensors")) {
    Unit::Tensor entry{.type = {parse_dtype(tensor.at("dtype").get<std::string>()), {}}, .value = {}};
    for (const json& size : tensor.at("dims")) {
      const auto extent = whole<int64_t>(size);
      if (extent < 0 || extent > (int64_t{1} << 40))
        fail<FormatError>("[replay] a dim is {}; expected 0 to 2^40", extent);
      entry.type.dims.emplace_back(extent);
    }
    int64_t elements = 1;
    for (const Expression& size : entry.type.dims)
      if (__builtin_mul_overflow(elements, *size.constant(), &elements)) elements = kMostElements + 1;
    if (elements > kMostElements)
      fail<FormatError>("[replay] a tensor has more than {} elements", kMostElements);
    unit.tensors.push_back(std::move(entry));
  }
  for (const json& kernel : text.at("kernels"))
    unit.kernels.push_back({whole_numbers<int>(kernel.at("inputs"), "replay"),
                            whole_numbers<int>(kernel.at("outputs"), "replay"),
                            whole<int>(kernel.at("in_place"))});
  for (const Unit::Kernel& kernel : unit.kernels) {
    if (kernel.in_place >= static_cast<int>(kernel.inputs.size()) ||
        (kernel.in_place >= 0 && kernel.outputs.empty()))
      fail<FormatError>("[replay] a kernel with {} inputs runs in place of input {}", kernel.inputs.size(),
                        kernel.in_place);
    for (const auto* list : {&kernel.inputs, &kernel.outputs})
      for (const int tensor : *list)
        if (tensor < 0 || static_cast<size_t>(tensor) >= unit.tensors.size())
          fail<FormatError>("[replay] a kernel names tensor {}, but there are {}", tensor,
                            unit.tensors.size());
    if (kernel.in_place < 0) continue;
    const auto bytes_of = [&](int tensor) {
      const TensorType& type = unit.tensors[static_cast<size_t>(tensor)].type;
      return size_bytes(type.dtype, *element_count(type.dims).constant());
    };
    const int input = kernel.inputs[static_cast<size_t>(kernel.in_place)];
    if (bytes_of(kernel.outputs[0]) > bytes_of(input))
      fail<FormatError>("[replay] tensor {} is larger than tensor {}, in whose place it is written",
                        kernel.outputs[0], input);
  }
  return unit;
}

/// The inputs of all cases are held at once. Errors: Error if there is no memory for them.
void check_memory_for(const Unit& unit, size_t cases) {
  double bytes = 0;
  for (const Unit::Tensor& tensor : unit.tensors)
    bytes += static_cast<double>(size_bytes(tensor.type.dtype, *element_count(tensor.type.dims).constant()));
  check_memory(static_cast<size_t>(bytes * static_cast<double>(cases + 1)));
}

}  // namespace

std::string to_json(const VerificationSuite& suite) {
  json tensors = json::array(), kernels = json::array(), cases = json::array();
  for (const Unit::Tensor& tensor : suite.unit.tensors)
    tensors.push_back({{"dtype", name(tensor.type.dtype)}, {"dims", exec(tensor.type.dims, suite.dims)}});
  for (const Unit::Kernel& kernel : suite.unit.kernels)
    kernels.push_back(
        {{"inputs", kernel.inputs}, {"outputs", kernel.outputs}, {"in_place", kernel.in_place}});
  for (const VerificationCase& test_case : suite.cases) cases.push_back(case_json(test_case));
  json dims = json::object();
  for (const auto& [name, size] : suite.dims) dims[name] = size;
  return json{{"suite", 2},         {"seed", suite.seed}, {"dims", dims},
              {"tensors", tensors}, {"kernels", kernels}, {"cases", cases}}
      .dump(1);
}

VerificationSuite parse_suite(std::string_view text) {
  try {
    const json parsed = parse_bounded_json(text, "replay");
    if (parsed.at("suite") != 2)
      fail<FormatError>("[replay] the suite's version is {}, not 2; replay it with the build that wrote it",
                        parsed.at("suite").dump());
    VerificationSuite suite{.unit = unit_of(parsed), .dims = {}, .seed = whole<uint64_t>(parsed.at("seed"))};
    for (const auto& [name, size] : parsed.at("dims").items()) {
      suite.dims[name] = whole<int64_t>(size);
      if (suite.dims[name] < 0 || suite.dims[name] > kMostElements)
        fail<FormatError>("[replay] dim '{}' is {}; expected 0 to {}", name, suite.dims[name], kMostElements);
    }
    check_memory_for(suite.unit, parsed.at("cases").size());
    for (const json& test_case : parsed.at("cases")) suite.cases.push_back(case_of(test_case, suite));
    return suite;
  } catch (const json::exception& error) {
    fail<FormatError>("[replay] this is no replay file: {}", error.what());
  }
}

}  // namespace luminal::search
