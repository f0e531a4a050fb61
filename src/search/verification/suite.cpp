#include <algorithm>
#include <unordered_map>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "graph/data_input.h"
#include "search/verification/ask_oracle.h"
#include "search/verification/derive.h"
#include "search/verification/oracle.h"
#include "search/verification/test_inputs.h"
#include "search/verification/verify.h"

/// Test cases of kernels: inputs, and what the oracle says must come of them.
namespace luminal::search {
namespace {

using Data = std::shared_ptr<const TensorData>;

VerificationCase::Expectation expectation_of(const Oracle::Samples& samples, int tensor,
                                             std::vector<int64_t> positions) {
  VerificationCase::Expectation expectation{
      .tensor = tensor, .positions = std::move(positions), .known = samples.known};
  if (samples.values.dtype == Dtype::F64) {
    const auto values = samples.values.as<double>();
    expectation.values.assign(values.begin(), values.end());
    expectation.errors = samples.errors;
    expectation.errors.resize(values.size());
  } else {
    const TensorData wide = convert(samples.values, Dtype::I64);
    const auto values = wide.as<int64_t>();
    expectation.integers.assign(values.begin(), values.end());
  }
  return expectation;
}

/// What the test case gives so far, by the values of the graph.
Leaves given(const Unit& unit, const VerificationCase& test_case) {
  Leaves leaves;
  for (size_t t = 0; t < unit.tensors.size(); ++t) {
    if (!test_case.tensors[t] || test_case.derived[t]) continue;
    leaves.emplace(*unit.tensors[t].value, test_case.tensors[t]);
    for (const Value& alias : unit.tensors[t].aliases) leaves.emplace(alias, test_case.tensors[t]);
  }
  return leaves;
}

Oracle oracle_for(const Graph& graph, const DimMap& dims, const Unit& unit,
                  const VerificationCase& test_case) {
  Oracle oracle(graph, dims);
  // Of few different values the roundings go one way.
  oracle.independent_roundings = test_case.name != "integers" && test_case.name != "constant";
  for (const auto& [leaf, data] : given(unit, test_case)) oracle.set_leaf(leaf, data);
  return oracle;
}

constexpr size_t kMostCovering = 8192;  ///< samples that cover the longest axis
VerificationCase::Expectation ask_oracle(const Graph& graph, const DimMap& dims, const Unit& unit,
                                         const VerificationCase& test_case, int tensor, const Value& value,
                                         std::vector<int64_t> positions, int64_t operations) {
  const Oracle::Samples samples =
      ask_within(operations, [&] { return oracle_for(graph, dims, unit, test_case); }, value, positions);
  return expectation_of(samples, tensor, std::move(positions));
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
Data derive(const Graph& graph, const DimMap& dims, const Unit& unit, const VerificationCase& test_case,
            size_t tensor) {
  const Unit::Tensor& wanted = unit.tensors[tensor];
  if (!is_computed(*graph.node(wanted.value->node).op)) return nullptr;
  const Data made = evaluate_from(graph, dims, given(unit, test_case), *wanted.value);
  if (!made || made->element_count() == 0) return nullptr;
  return made;
}

}  // namespace

std::vector<std::string> input_kinds(const DimMap& dims, const Unit& unit) {
  constexpr int64_t kMany = int64_t{1} << 23;
  int64_t elements = 0;
  for (const Unit::Tensor& tensor : unit.tensors) elements += element_count(tensor.type.dims).exec(dims);
  if (elements > kMany) return {"integers", "plain", "extreme", "special"};
  return {std::begin(kInputKinds), std::end(kInputKinds)};
}

VerificationSuite prepare_suite(const Graph& graph, const DimMap& dims, const Unit& unit,
                                const SuiteOptions& options) {
  const std::vector<bool> computed = computed_tensors(unit);
  VerificationSuite suite{.unit = unit, .dims = dims, .seed = options.seed, .graph = &graph};
  bool judged = true;
  for (size_t t = 0; t < unit.tensors.size(); ++t) judged = judged && (computed[t] || unit.tensors[t].value);
  std::vector<bool> beyond(unit.tensors.size(), false);  // the oracle cannot tell
  const std::vector<size_t> outside = inputs_in_order(graph, unit, computed);
  for (const std::string& kind : options.kinds.empty() ? input_kinds(dims, unit) : options.kinds) {
    throw_if_cancelled();
    VerificationCase test_case{.name = kind,
                               .tensors = std::vector<Data>(unit.tensors.size()),
                               .derived = std::vector<bool>(unit.tensors.size(), false),
                               .beyond_laws = !options.strict && is_beyond_relaxed_math(kind)};
    for (const size_t t : outside) {
      const TensorType& type = unit.tensors[t].type;
      if (judged && options.consistent)
        if (Data made = derive(graph, dims, unit, test_case, t)) {
          test_case.tensors[t] = std::move(made);
          test_case.derived[t] = true;
          continue;
        }
      test_case.tensors[t] = test_input(kind, type, dims, options.seed, t);
    }
    const int64_t operations = suite.cases.empty() ? options.operations : options.operations * 2 / 5;
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
          test_case.expectations.push_back(
              ask_oracle(graph, dims, unit, test_case, static_cast<int>(t), value, positions, operations));
      } catch (const OracleGap& gap) {
        debug(3, "{}; judged by comparison", gap.what());
        beyond[t] = true;
      }
    }
    suite.cases.push_back(std::move(test_case));
  }
  return suite;
}

std::optional<OracleValue> ask_oracle(const VerificationSuite& suite, const VerificationCase& test_case,
                                      int tensor, int64_t position) {
  const Unit::Tensor& asked = suite.unit.tensors[static_cast<size_t>(tensor)];
  if (suite.graph == nullptr || !asked.value) return std::nullopt;
  const std::vector<bool> computed = computed_tensors(suite.unit);
  for (size_t t = 0; t < suite.unit.tensors.size(); ++t)
    if (!computed[t] && !suite.unit.tensors[t].value) return std::nullopt;
  Oracle oracle = oracle_for(*suite.graph, suite.dims, suite.unit, test_case);
  try {
    const VerificationCase::Expectation expectation =
        expectation_of(oracle.at(*asked.value, {&position, 1}), tensor, {position});
    if (!expectation.integers.empty())
      return OracleValue{.integer = expectation.integers[0], .known = expectation.known[0]};
    return OracleValue{
        .value = expectation.values[0], .bound = expectation.errors[0], .known = expectation.known[0]};
  } catch (const OracleGap&) {
    return std::nullopt;
  }
}

double VerificationSuite::skipped_share() const {
  double all = 0, skipped = 0;
  for (const VerificationCase& test_case : cases)
    for (const VerificationCase::Expectation& expectation : test_case.expectations) {
      if (is_beyond_relaxed_math(test_case.name)) continue;
      all += static_cast<double>(expectation.known.size());
      skipped += static_cast<double>(std::ranges::count(expectation.known, false));
    }
  return all == 0 ? 0 : skipped / all;
}

}  // namespace luminal::search
