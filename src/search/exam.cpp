#include <algorithm>
#include <unordered_map>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "graph/data_input.h"
#include "search/arbiter.h"
#include "search/derive.h"
#include "search/oracle.h"
#include "search/test_inputs.h"
#include "search/verify.h"

/// Test cases of kernels: inputs, and what the oracle says must come of them.
namespace luminal::search {
namespace {

using Data = std::shared_ptr<const TensorData>;

ExamQuestion::Answer answer_of(const Oracle::Samples& samples, int tensor, std::vector<int64_t> positions) {
  ExamQuestion::Answer answer{.tensor = tensor, .positions = std::move(positions), .known = samples.known};
  if (samples.values.dtype == Dtype::F64) {
    const auto values = samples.values.as<double>();
    answer.values.assign(values.begin(), values.end());
    answer.errors = samples.errors;
    answer.errors.resize(values.size());
  } else {
    const TensorData wide = convert(samples.values, Dtype::I64);
    const auto values = wide.as<int64_t>();
    answer.integers.assign(values.begin(), values.end());
  }
  return answer;
}

/// What the question gives so far, by the values of the graph.
Leaves given(const Unit& unit, const ExamQuestion& question) {
  Leaves leaves;
  for (size_t t = 0; t < unit.tensors.size(); ++t) {
    if (!question.tensors[t] || question.derived[t]) continue;
    leaves.emplace(*unit.tensors[t].value, question.tensors[t]);
    for (const Value& alias : unit.tensors[t].aliases) leaves.emplace(alias, question.tensors[t]);
  }
  return leaves;
}

Oracle oracle_for(const Graph& graph, const DimMap& dims, const Unit& unit, const ExamQuestion& question) {
  Oracle oracle(graph, dims);
  // Of few different values the roundings go one way.
  oracle.independent_roundings = question.name != "integers" && question.name != "constant";
  for (const auto& [leaf, data] : given(unit, question)) oracle.set_leaf(leaf, data);
  return oracle;
}

constexpr size_t kMostCovering = 8192;  ///< samples that cover the longest axis
ExamQuestion::Answer ask_oracle(const Graph& graph, const DimMap& dims, const Unit& unit,
                                const ExamQuestion& question, int tensor, const Value& value,
                                std::vector<int64_t> positions, int64_t operations) {
  const Oracle::Samples samples =
      ask_within(operations, [&] { return oracle_for(graph, dims, unit, question); }, value, positions);
  return answer_of(samples, tensor, std::move(positions));
}

std::vector<bool> computed_tensors(const Unit& unit) {
  std::vector<bool> computed(unit.tensors.size(), false);
  for (const Unit::Kernel& kernel : unit.kernels)
    for (const int output : kernel.outputs) computed[static_cast<size_t>(output)] = true;
  return computed;
}

/// Tensors from outside, those that the graph computes later behind those it computes them from.
std::vector<size_t> inputs_in_order(const Graph& graph, const Unit& unit, const std::vector<bool>& computed) {
  std::unordered_map<NodeId, size_t> place;
  for (const NodeId id : graph.topological_order()) place.emplace(id, place.size());
  std::vector<size_t> outside;
  for (size_t t = 0; t < unit.tensors.size(); ++t)
    if (!computed[t]) outside.push_back(t);
  std::ranges::stable_sort(outside, {}, [&](size_t t) {
    const auto& value = unit.tensors[t].value;
    return value && place.contains(value->node) ? place.at(value->node) : 0;
  });
  return outside;
}

/// What the graph makes of the inputs that are there already, if these determine it; null if not.
Data derive(const Graph& graph, const DimMap& dims, const Unit& unit, const ExamQuestion& question,
            size_t tensor) {
  const Unit::Tensor& wanted = unit.tensors[tensor];
  if (!is_computed(*graph.node(wanted.value->node).op)) return nullptr;
  const Data made = evaluate_from(graph, dims, given(unit, question), *wanted.value);
  if (!made || made->element_count() == 0) return nullptr;
  return made;
}

/// All kinds, or four of them where inputs alone take long to make.
std::vector<std::string> kinds_for(const DimMap& dims, const Unit& unit, const ExamOptions& options) {
  if (options.first_only) return {std::string(kInputKinds[0])};
  constexpr int64_t kMany = int64_t{1} << 23;
  int64_t elements = 0;
  for (const Unit::Tensor& tensor : unit.tensors) elements += element_count(tensor.type.dims).exec(dims);
  if (elements > kMany) return {"integers", "plain", "extreme", "special"};
  return {std::begin(kInputKinds), std::end(kInputKinds)};
}

}  // namespace

Exam prepare_exam(const Graph& graph, const DimMap& dims, const Unit& unit, const ExamOptions& options) {
  const std::vector<bool> computed = computed_tensors(unit);
  Exam exam{.unit = unit, .dims = dims, .seed = options.seed, .graph = &graph};
  bool judged = true;
  for (size_t t = 0; t < unit.tensors.size(); ++t) judged = judged && (computed[t] || unit.tensors[t].value);
  std::vector<bool> beyond(unit.tensors.size(), false);  // the oracle cannot tell
  const std::vector<size_t> outside = inputs_in_order(graph, unit, computed);
  for (const std::string& kind : kinds_for(dims, unit, options)) {
    throw_if_cancelled();
    ExamQuestion question{.name = kind,
                          .tensors = std::vector<Data>(unit.tensors.size()),
                          .derived = std::vector<bool>(unit.tensors.size(), false),
                          .beyond_laws = !options.strict && is_beyond_relaxed_math(kind)};
    for (const size_t t : outside) {
      const TensorType& type = unit.tensors[t].type;
      if (judged && options.consistent)
        if (Data made = derive(graph, dims, unit, question, t)) {
          question.tensors[t] = std::move(made);
          question.derived[t] = true;
          continue;
        }
      question.tensors[t] = test_input(kind, exam.questions.size(), type, dims, options.seed, t);
    }
    for (size_t t = 0; t < unit.tensors.size(); ++t) {
      if (!judged || !computed[t] || !unit.tensors[t].value || beyond[t]) continue;
      const std::vector<int64_t> positions = covering_positions(
          exec(unit.tensors[t].type.dims, dims), options.samples, kMostCovering, combine(options.seed, t));
      if (positions.empty()) continue;
      // What a law says is equal to it has to be equal by the user's nodes as well.
      std::vector<Value> values = unit.tensors[t].aliases;
      values.insert(values.begin(), *unit.tensors[t].value);
      try {
        for (const Value& value : values)
          question.answers.push_back(ask_oracle(graph, dims, unit, question, static_cast<int>(t), value,
                                                positions, options.operations));
      } catch (const OracleGap& gap) {
        debug(3, "{}; judged by comparison", gap.what());
        beyond[t] = true;
      }
    }
    exam.questions.push_back(std::move(question));
  }
  return exam;
}

std::optional<Ruling> rule_on(const Exam& exam, const ExamQuestion& question, int tensor, int64_t position) {
  const Unit::Tensor& asked = exam.unit.tensors[static_cast<size_t>(tensor)];
  if (exam.graph == nullptr || !asked.value) return std::nullopt;
  const std::vector<bool> computed = computed_tensors(exam.unit);
  for (size_t t = 0; t < exam.unit.tensors.size(); ++t)
    if (!computed[t] && !exam.unit.tensors[t].value) return std::nullopt;
  Oracle oracle = oracle_for(*exam.graph, exam.dims, exam.unit, question);
  try {
    const ExamQuestion::Answer answer =
        answer_of(oracle.at(*asked.value, {&position, 1}), tensor, {position});
    if (!answer.integers.empty()) return Ruling{.integer = answer.integers[0], .known = answer.known[0]};
    return Ruling{.value = answer.values[0], .bound = answer.errors[0], .known = answer.known[0]};
  } catch (const OracleGap&) {
    return std::nullopt;
  }
}

double Exam::skipped_share() const {
  double all = 0, skipped = 0;
  for (const ExamQuestion& question : questions)
    for (const ExamQuestion::Answer& answer : question.answers) {
      if (is_beyond_relaxed_math(question.name)) continue;
      all += static_cast<double>(answer.known.size());
      skipped += static_cast<double>(std::ranges::count(answer.known, false));
    }
  return all == 0 ? 0 : skipped / all;
}

}  // namespace luminal::search
