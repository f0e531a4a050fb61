#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/memory.h"
#include "search/test_inputs.h"
#include "search/verify.h"

/// Exams as text: what a replay file holds.
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
    fail<FormatError>("[replay] {} digits for {} bytes", hex.size(), bytes);
  TensorData data(type.dtype, exec(type.dims, dims));
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    fail<FormatError>("[replay] '{}' is no hexadecimal digit", c);
  };
  for (size_t i = 0; i < data.bytes.size(); ++i)
    data.bytes[i] = static_cast<std::byte>(digit(hex[2 * i]) * 16 + digit(hex[2 * i + 1]));
  return data;
}

json question_json(const ExamQuestion& question) {
  json answers = json::array(), inputs = json::array();
  for (const ExamQuestion::Answer& answer : question.answers)
    answers.push_back({{"tensor", answer.tensor},
                       {"positions", answer.positions},
                       {"values", numbers(answer.values)},
                       {"errors", numbers(answer.errors)},
                       {"integers", answer.integers},
                       {"known", answer.known}});
  for (size_t t = 0; t < question.tensors.size(); ++t) {
    const auto& tensor = question.tensors[t];
    // What was drawn can be drawn again; what the graph made of it is written down.
    if (tensor && question.derived[t])
      inputs.push_back(hex_of(tensor->bytes));
    else
      inputs.push_back(tensor ? json(hash_of(*tensor)) : json());
  }
  return {{"name", question.name},
          {"beyond_laws", question.beyond_laws},
          {"inputs", inputs},
          {"answers", answers}};
}

template <class T>
T whole(const json& value) {
  return whole_number<T>(value, "replay");
}

/// Every tensor is an input, or what one kernel makes; and it is there before a kernel reads it.
void check_given(const ExamQuestion& question, const Unit& unit) {
  std::vector<bool> there;
  for (const auto& tensor : question.tensors) there.push_back(tensor != nullptr);
  for (const Unit::Kernel& kernel : unit.kernels) {
    for (const int input : kernel.inputs)
      if (!there[static_cast<size_t>(input)])
        fail<FormatError>("[replay] tensor {} is read before it is there", input);
    for (const int output : kernel.outputs) {
      if (there[static_cast<size_t>(output)])
        fail<FormatError>("[replay] tensor {} is made and there already", output);
      there[static_cast<size_t>(output)] = true;
    }
  }
  if (const auto missing = std::ranges::find(there, false); missing != there.end())
    fail<FormatError>("[replay] tensor {} is neither given nor made", missing - there.begin());
}

ExamQuestion question_of(const json& text, const Exam& exam) {
  ExamQuestion question{.name = text.at("name").get<std::string>()};
  if (std::ranges::find(kInputKinds, question.name) == std::end(kInputKinds))
    fail<FormatError>("[replay] unknown kind of inputs '{}'", question.name);
  question.beyond_laws = text.at("beyond_laws").get<bool>();
  const json& inputs = text.at("inputs");
  if (inputs.size() != exam.unit.tensors.size())
    fail<FormatError>("[replay] a question has {} inputs for {} tensors", inputs.size(),
                      exam.unit.tensors.size());
  for (size_t t = 0; t < inputs.size(); ++t) {
    question.tensors.emplace_back();
    question.derived.push_back(inputs[t].is_string());
    if (inputs[t].is_null()) continue;
    if (inputs[t].is_string()) {
      question.tensors[t] = std::make_shared<const TensorData>(
          data_of(inputs[t].get<std::string>(), exam.unit.tensors[t].type, exam.dims));
      continue;
    }
    question.tensors[t] =
        test_input(question.name, exam.questions.size(), exam.unit.tensors[t].type, exam.dims, exam.seed, t);
    if (hash_of(*question.tensors[t]) != whole<uint64_t>(inputs[t]))
      fail<FormatError>(
          "[replay] the random inputs come out otherwise than when the file was written; replay it with "
          "the build that wrote it");
  }
  check_given(question, exam.unit);
  for (const json& entry : text.at("answers")) {
    ExamQuestion::Answer answer{.tensor = whole<int>(entry.at("tensor")),
                                .positions = whole_numbers<int64_t>(entry.at("positions"), "replay"),
                                .values = numbers_of(entry.at("values")),
                                .errors = numbers_of(entry.at("errors")),
                                .integers = whole_numbers<int64_t>(entry.at("integers"), "replay"),
                                .known = entry.at("known").get<std::vector<bool>>()};
    const auto count = answer.positions.size();
    const bool sizes_fit =
        answer.known.size() == count &&
        (answer.integers.size() == count || (answer.values.size() == count && answer.errors.size() == count));
    if (!sizes_fit || answer.tensor < 0 || static_cast<size_t>(answer.tensor) >= exam.unit.tensors.size())
      fail<FormatError>("[replay] an answer's lists do not fit each other");
    if (question.tensors[static_cast<size_t>(answer.tensor)])
      fail<FormatError>("[replay] an answer is about tensor {}, which is an input", answer.tensor);
    const int64_t elements =
        element_count(exam.unit.tensors[static_cast<size_t>(answer.tensor)].type.dims).exec(exam.dims);
    for (const int64_t position : answer.positions)
      if (position < 0 || position >= elements)
        fail<FormatError>("[replay] position {} of a tensor of {} elements", position, elements);
    question.answers.push_back(std::move(answer));
  }
  return question;
}

Unit unit_of(const json& text) {
  Unit unit;
  for (const json& tensor : text.at("tensors")) {
    Unit::Tensor entry{.type = {parse_dtype(tensor.at("dtype").get<std::string>()), {}}, .value = {}};
    for (const json& size : tensor.at("dims")) {
      const auto extent = whole<int64_t>(size);
      if (extent < 0 || extent > (int64_t{1} << 40)) fail<FormatError>("[replay] a dim of {}", extent);
      entry.type.dims.emplace_back(extent);
    }
    int64_t elements = 1;
    for (const Expression& size : entry.type.dims)
      if (__builtin_mul_overflow(elements, *size.constant(), &elements)) elements = kMostElements + 1;
    if (elements > kMostElements)
      fail<FormatError>("[replay] a tensor of more than {} elements", kMostElements);
    unit.tensors.push_back(std::move(entry));
  }
  for (const json& kernel : text.at("kernels"))
    unit.kernels.push_back({whole_numbers<int>(kernel.at("inputs"), "replay"),
                            whole_numbers<int>(kernel.at("outputs"), "replay"),
                            whole<int>(kernel.at("in_place"))});
  for (const Unit::Kernel& kernel : unit.kernels) {
    if (kernel.in_place >= static_cast<int>(kernel.inputs.size()) ||
        (kernel.in_place >= 0 && kernel.outputs.empty()))
      fail<FormatError>("[replay] a kernel of {} inputs runs over number {}", kernel.inputs.size(),
                        kernel.in_place);
    for (const auto* list : {&kernel.inputs, &kernel.outputs})
      for (const int tensor : *list)
        if (tensor < 0 || static_cast<size_t>(tensor) >= unit.tensors.size())
          fail<FormatError>("[replay] a kernel names tensor {} of {}", tensor, unit.tensors.size());
    if (kernel.in_place < 0) continue;
    const auto bytes_of = [&](int tensor) {
      const TensorType& type = unit.tensors[static_cast<size_t>(tensor)].type;
      return size_bytes(type.dtype, *element_count(type.dims).constant());
    };
    const int input = kernel.inputs[static_cast<size_t>(kernel.in_place)];
    if (bytes_of(kernel.outputs[0]) > bytes_of(input))
      fail<FormatError>("[replay] tensor {} has no room over tensor {}", kernel.outputs[0], input);
  }
  return unit;
}

/// The inputs of all questions are held at once. Errors: Error if there is no memory for them.
void check_memory_for(const Unit& unit, size_t questions) {
  double bytes = 0;
  for (const Unit::Tensor& tensor : unit.tensors)
    bytes += static_cast<double>(size_bytes(tensor.type.dtype, *element_count(tensor.type.dims).constant()));
  check_memory(static_cast<size_t>(bytes * static_cast<double>(questions + 1)));
}

}  // namespace

std::string to_json(const Exam& exam) {
  json tensors = json::array(), kernels = json::array(), questions = json::array();
  for (const Unit::Tensor& tensor : exam.unit.tensors)
    tensors.push_back({{"dtype", name(tensor.type.dtype)}, {"dims", exec(tensor.type.dims, exam.dims)}});
  for (const Unit::Kernel& kernel : exam.unit.kernels)
    kernels.push_back(
        {{"inputs", kernel.inputs}, {"outputs", kernel.outputs}, {"in_place", kernel.in_place}});
  for (const ExamQuestion& question : exam.questions) questions.push_back(question_json(question));
  json dims = json::object();
  for (const auto& [name, size] : exam.dims) dims[name] = size;
  return json{{"exam", 1},          {"seed", exam.seed},  {"dims", dims},
              {"tensors", tensors}, {"kernels", kernels}, {"questions", questions}}
      .dump(1);
}

Exam parse_exam(std::string_view text) {
  try {
    const json parsed = parse_bounded_json(text, "replay");
    if (parsed.at("exam") != 1)
      fail<FormatError>("[replay] the file's version is {}, not 1", parsed.at("exam").dump());
    Exam exam{.unit = unit_of(parsed), .dims = {}, .seed = whole<uint64_t>(parsed.at("seed"))};
    for (const auto& [name, size] : parsed.at("dims").items()) {
      exam.dims[name] = whole<int64_t>(size);
      if (exam.dims[name] < 0 || exam.dims[name] > kMostElements)
        fail<FormatError>("[replay] dim '{}' is {}", name, exam.dims[name]);
    }
    check_memory_for(exam.unit, parsed.at("questions").size());
    for (const json& question : parsed.at("questions")) exam.questions.push_back(question_of(question, exam));
    return exam;
  } catch (const json::exception& error) {
    fail<FormatError>("[replay] this is no replay file: {}", error.what());
  }
}

}  // namespace luminal::search
