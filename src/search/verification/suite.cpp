#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/log.h"
#include "graph/data_input.h"
#include "kernel/cost.h"
#include "search/verification/ask_oracle.h"
#include "search/verification/derive.h"
#include "search/verification/oracle.h"
#include "search/verification/test_inputs.h"
#include "search/verification/verify.h"

/// Test cases of kernels: inputs, and what the oracle says must come of them.
namespace luminal::search {
namespace {

using Data = std::shared_ptr<const TensorData>;

/// Whether all inputs of a test case are finite: of others relaxed math promises nothing.
bool is_finite(const VerificationCase& test_case) {
  return test_case.name != "special" && std::ranges::all_of(test_case.ranges, [](const ValueRange& range) {
           return std::isfinite(range.reach());
         });
}

VerificationCase::Expectation expectation_of(const VerificationCase& test_case,
                                             const Oracle::Samples& samples, int tensor,
                                             std::vector<int64_t> positions) {
  VerificationCase::Expectation expectation{
      .tensor = tensor,
      .positions = std::move(positions),
      .known = {samples.known.begin(), samples.known.end()},
      .promised = std::vector<bool>(samples.known.size(), is_finite(test_case))};
  for (size_t i = 0; i < samples.unpromised.size(); ++i)
    if (samples.unpromised[i] != 0) expectation.promised[i] = false;
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
  Leaves leaves = test_case.origins;
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
  oracle.small_integers = test_case.name == "integers";
  oracle.independent_roundings = !oracle.small_integers && !rounds_one_way(test_case.name);
  for (const auto& [leaf, data] : given(unit, test_case)) oracle.set_leaf(leaf, data);
  return oracle;
}

/// Where tensors of these sizes are looked at, all of them and on all kinds of inputs: sums that several tensors read are
/// then evaluated once.
const std::vector<int64_t>& positions_in(const std::vector<int64_t>& sizes, const SuiteOptions& options) {
  constexpr size_t kMostCovering = 8192;  // samples that cover the longest axis
  constexpr size_t kMostKept = 32;
  using Key = std::tuple<std::vector<int64_t>, int, uint64_t, std::vector<int64_t>>;
  thread_local std::map<Key, std::vector<int64_t>> kept;
  Key key{sizes, options.samples, options.seed, options.tiles};
  if (const auto known = kept.find(key); known != kept.end()) return known->second;
  if (kept.size() >= kMostKept) kept.clear();
  return kept[std::move(key)] =
             covering_positions(sizes, options.samples, kMostCovering, options.seed, options.tiles);
}

std::vector<bool> computed_tensors(const Unit& unit) {
  std::vector<bool> computed(unit.tensors.size(), false);
  for (const Unit::Kernel& kernel : unit.kernels)
    for (const int output : kernel.outputs) computed[static_cast<size_t>(output)] = true;
  return computed;
}

/// Whether every tensor from outside is a value of the graph, so that the user's nodes judge what is made of them.
bool has_judge(const Unit& unit, const std::vector<bool>& computed) {
  for (size_t t = 0; t < unit.tensors.size(); ++t)
    if (!computed[t] && !unit.tensors[t].value) return false;
  return true;
}

/// From what the tensors from outside are made: the tensors themselves, or values of the graph behind those
/// that depend on each other.
Origins origins_of(const Graph& graph, const DimMap& dims, const Unit& unit,
                   const std::vector<bool>& computed) {
  // What relates tensors of one kernel is about as large as they are: no contraction.
  constexpr int64_t kLeast = 1'000'000, kTimesElements = 4;
  int64_t elements = 0;
  std::vector<Names> outside;
  for (size_t t = 0; t < unit.tensors.size(); ++t) {
    elements += element_count(unit.tensors[t].type.dims).exec(dims);
    if (computed[t]) continue;
    outside.push_back(unit.tensors[t].aliases);
    outside.back().insert(outside.back().begin(), *unit.tensors[t].value);
  }
  return common_origins(graph, dims, std::move(outside),
                        {.of_one_node = std::max(kLeast, kTimesElements * elements)});
}

/// What is known of a tensor, under any of its names.
ValueRange known_range(const ValueRanges* ranges, const Unit::Tensor& tensor) {
  if (ranges == nullptr || !tensor.value) return {};
  Names names = tensor.aliases;
  names.insert(names.begin(), *tensor.value);
  for (const Value& name : names)
    if (const auto known = ranges->find(name); known != ranges->end()) return known->second;
  return {};
}

/// Draws the inputs of a test case.
class InputMaker {
 public:
  /// `consistent`: see SuiteOptions.
  InputMaker(const Graph& graph, const DimMap& dims, const Unit& unit, const SuiteOptions& options,
             bool consistent)
      : graph_(graph),
        dims_(dims),
        unit_(unit),
        seed_(options.seed),
        ranges_(options.ranges),
        periods_(options.periods),
        computed_(computed_tensors(unit)) {
    std::unordered_map<Value, size_t> tensor_of;
    for (size_t t = 0; t < unit.tensors.size(); ++t) {
      if (computed_[t]) continue;
      drawn_.push_back(t);
      if (consistent) tensor_of.emplace(*unit.tensors[t].value, t);
    }
    if (!consistent) return;
    drawn_.clear();
    for (const Names& names : origins_of(graph, dims, unit, computed_).tensors) {
      const auto known = tensor_of.extract(names[0]);
      if (known.empty())
        behind_.push_back(names[0]);
      else
        drawn_.push_back(known.mapped());
    }
    for (size_t t = 0; t < unit.tensors.size(); ++t)
      if (!computed_[t] && tensor_of.contains(*unit.tensors[t].value)) derived_.push_back(t);
  }

  void fill(VerificationCase& test_case) const {
    test_case.ranges.resize(unit_.tensors.size());
    if (test_case.name == kGraphKind)
      for (size_t t = 0; t < unit_.tensors.size(); ++t)
        test_case.ranges[t] = known_range(ranges_.get(), unit_.tensors[t]);
    for (const size_t t : drawn_) test_case.tensors[t] = draw(test_case, t);
    if (derived_.empty()) return;
    for (size_t k = 0; k < behind_.size(); ++k) {
      const Unit::Tensor tensor{.type = graph_.type(behind_[k]), .value = behind_[k], .aliases = {}};
      const ValueRange range =
          test_case.name == kGraphKind ? known_range(ranges_.get(), tensor) : ValueRange{};
      test_case.origins.emplace(
          behind_[k], test_input(test_case.name, tensor.type, dims_, seed_, unit_.tensors.size() + k, range));
    }
    std::vector<Value> wanted;
    for (const size_t t : derived_) wanted.push_back(*unit_.tensors[t].value);
    const std::vector<Data> made = evaluate_from(graph_, dims_, given(unit_, test_case), wanted);
    for (size_t k = 0; k < derived_.size(); ++k) {
      const size_t t = derived_[k];
      test_case.derived[t] = made[k] && made[k]->element_count() > 0;
      test_case.tensors[t] = test_case.derived[t] ? made[k] : draw(test_case, t);
    }
  }

 private:
  [[nodiscard]] Data draw(const VerificationCase& test_case, size_t t) const {
    const auto period = periods_.find(t);
    return drawn_input(unit_, dims_, seed_, test_case.name, t, test_case.ranges[t],
                       period == periods_.end() ? 0 : period->second);
  }

  const Graph& graph_;
  const DimMap& dims_;
  const Unit& unit_;
  uint64_t seed_;
  std::shared_ptr<const ValueRanges> ranges_;
  std::map<size_t, int64_t> periods_;
  std::vector<bool> computed_;
  std::vector<size_t> drawn_, derived_;  ///< of the unit's tensors
  std::vector<Value> behind_;            ///< drawn, and no tensor of the unit
};

/// Whether all that the kernels compute is known, and nothing of it is a sum or another fold.
bool is_elementwise(const Unit& unit) {
  return std::ranges::all_of(unit.kernels, [](const Unit::Kernel& kernel) {
    return !kernel.spec.empty() && std::ranges::none_of(kernel.spec.values(), [](const kernel::Value& value) {
      return value.monoid.has_value();
    });
  });
}

}  // namespace

bool has_dependent_inputs(const Graph& graph, const DimMap& dims, const Unit& unit) {
  const std::vector<bool> computed = computed_tensors(unit);
  if (!has_judge(unit, computed)) return false;
  std::vector<Value> outside;
  for (size_t t = 0; t < unit.tensors.size(); ++t)
    if (!computed[t]) outside.push_back(*unit.tensors[t].value);
  const std::vector<Names> origins = origins_of(graph, dims, unit, computed).tensors;
  return !std::ranges::all_of(outside, [&](const Value& value) {
    return std::ranges::find(origins, value, [](const Names& names) { return names[0]; }) != origins.end();
  });
}

std::vector<std::string> input_kinds(const Graph& graph, const DimMap& dims, const Unit& unit,
                                     const SuiteOptions& options) {
  constexpr int64_t kMany = int64_t{1} << 23, kLongDerivation = int64_t{1} << 24;
  constexpr double kLong = 3e8;
  int64_t elements = 0;
  for (const Unit::Tensor& tensor : unit.tensors) elements += element_count(tensor.type.dims).exec(dims);
  double operations = 0;
  for (const Unit::Kernel& kernel : unit.kernels)
    operations += kernel.spec.empty() ? 0 : kernel::work_of(kernel.spec, dims).flops;
  std::vector<std::string> kinds(std::begin(kInputKinds), std::end(kInputKinds));
  const bool is_long = elements > kMany || operations > kLong;
  if (is_long || is_elementwise(unit)) kinds = {"integers", "plain", "extreme", "special", "graph"};
  const std::vector<bool> computed = computed_tensors(unit);
  if (std::ranges::find(computed, false) == computed.end()) return {kinds[0]};  // nothing is read
  if (options.consistent && has_judge(unit, computed) &&
      origins_of(graph, dims, unit, computed).operations > kLongDerivation)
    kinds = {"integers", "plain", "graph"};  // few already, without special ones
  else if (options.form_passed)
    std::erase_if(kinds, [&](const std::string& kind) {
      return kind != "integers" && kind != "special" && !runs_all_tasks(unit, kind);
    });
  bool is_known = false;
  for (size_t t = 0; t < unit.tensors.size(); ++t)
    is_known =
        is_known || (!computed[t] && !known_range(options.ranges.get(), unit.tensors[t]).quantiles.empty());
  if (!is_known) std::erase(kinds, kGraphKind);
  return kinds;
}

namespace {

/// Whether laws of relaxed math may make something else of a test case than the user's nodes: its kind, or numbers of
/// the graph that lie beyond those of the other kinds that the nodes judge.
bool is_beyond_laws(const VerificationCase& test_case) {
  constexpr double kWide = 0x1p12;
  return is_beyond_relaxed_math(test_case.name) ||
         std::ranges::any_of(test_case.ranges,
                             [](const ValueRange& range) { return !(range.reach() <= kWide); });
}

}  // namespace

Data drawn_input(const Unit& unit, const DimMap& dims, uint64_t seed, std::string_view kind, size_t t,
                 const ValueRange& range, int64_t period) {
  constexpr int64_t kLarge = int64_t{1} << 16, kTimes = 16;
  const auto length = [&](const Unit::Tensor& tensor) { return element_count(tensor.type.dims).exec(dims); };
  int64_t longest = 0;
  for (const Unit::Tensor& tensor : unit.tensors) longest = std::max(longest, length(tensor));
  const bool is_short = longest >= kLarge && length(unit.tensors[t]) * kTimes <= longest;
  return test_input(kind, unit.tensors[t].type, dims, seed, t, range,
                    is_short ? Subnormals::None : Subnormals::Some, period);
}

VerificationSuite prepare_suite(const Graph& graph, const DimMap& dims, const Unit& unit,
                                const SuiteOptions& options) {
  const std::vector<bool> computed = computed_tensors(unit);
  VerificationSuite suite{.unit = unit, .dims = dims, .seed = options.seed, .graph = &graph};
  const bool has_oracle = has_judge(unit, computed);
  std::vector<bool> beyond(unit.tensors.size(), false);  // the oracle cannot tell
  for (const int tensor : options.unsampled) beyond[static_cast<size_t>(tensor)] = true;
  const InputMaker inputs(graph, dims, unit, options, has_oracle && options.consistent);
  for (const std::string& kind :
       options.kinds.empty() ? input_kinds(graph, dims, unit, options) : options.kinds) {
    throw_if_cancelled();
    VerificationCase test_case{.name = kind,
                               .tensors = std::vector<Data>(unit.tensors.size()),
                               .derived = std::vector<bool>(unit.tensors.size(), false)};
    inputs.fill(test_case);
    test_case.beyond_laws = !options.strict && is_beyond_laws(test_case);
    const OracleBudget budget{
        .operations = suite.cases.empty() ? options.operations : options.operations / SuiteOptions::kFurther,
        .of_one = options.of_one_sample};
    std::optional<Oracle> oracle;
    if (has_oracle) oracle.emplace(oracle_for(graph, dims, unit, test_case));
    for (size_t t = 0; t < unit.tensors.size(); ++t) {
      if (!oracle || !computed[t] || !unit.tensors[t].value || beyond[t]) continue;
      const std::vector<int64_t>& positions = positions_in(exec(unit.tensors[t].type.dims, dims), options);
      if (positions.empty()) continue;
      // What a law says is equal to it has to be equal by the user's nodes as well.
      std::vector<Value> values = options.one_name ? std::vector<Value>{} : unit.tensors[t].aliases;
      values.insert(values.begin(), *unit.tensors[t].value);
      try {
        for (const Value& value : values) {
          std::vector<int64_t> affordable = positions;
          const int64_t before = oracle->operations();
          const Oracle::Samples samples = ask_within(budget, *oracle, value, affordable);
          test_case.expectations.push_back(
              expectation_of(test_case, samples, static_cast<int>(t), std::move(affordable)));
          test_case.expectations.back().operations = oracle->operations() - before;
        }
      } catch (const OracleGap& gap) {
        debug(3, "{}; its value is compared with another kernel only", gap.what());
        beyond[t] = true;
      }
    }
    suite.cases.push_back(std::move(test_case));
  }
  return suite;
}

OracleValue truth_of(const VerificationCase::Expectation& samples, size_t i) {
  OracleValue truth{.known = samples.known[i], .promised = samples.promised[i]};
  if (!samples.integers.empty())
    truth.integer = samples.integers[i];
  else
    truth.value = samples.values[i], truth.bound = samples.errors[i];
  return truth;
}

CaseOracle::CaseOracle(const VerificationSuite& suite, const VerificationCase& test_case)
    : suite_(suite), case_(test_case) {}
CaseOracle::~CaseOracle() = default;

std::optional<std::vector<OracleValue>> CaseOracle::ask(int tensor, std::span<const int64_t> positions,
                                                        int64_t of_one) {
  const Unit& unit = suite_.unit;
  const Unit::Tensor& asked = unit.tensors[static_cast<size_t>(tensor)];
  if (suite_.graph == nullptr || !asked.value) return std::nullopt;
  if (!has_judge(unit, computed_tensors(unit))) return std::nullopt;
  if (!oracle_) oracle_ = std::make_unique<Oracle>(oracle_for(*suite_.graph, suite_.dims, unit, case_));
  oracle_->allow(static_cast<int64_t>(positions.size()) * of_one);
  try {
    const VerificationCase::Expectation answers = expectation_of(
        case_, oracle_->at(*asked.value, positions), tensor, {positions.begin(), positions.end()});
    std::vector<OracleValue> truths;
    for (size_t i = 0; i < positions.size(); ++i) truths.push_back(truth_of(answers, i));
    return truths;
  } catch (const OracleGap&) {
    return std::nullopt;
  }
}

int64_t CaseOracle::operations() const { return oracle_ ? oracle_->operations() : 0; }

double VerificationSuite::skipped_share() const {
  double all = 0, skipped = 0;
  for (const VerificationCase& test_case : cases)
    for (const VerificationCase::Expectation& expectation : test_case.expectations) {
      if (is_beyond_laws(test_case)) continue;
      all += static_cast<double>(expectation.known.size());
      skipped += static_cast<double>(std::ranges::count(expectation.known, false));
    }
  return all == 0 ? 0 : skipped / all;
}

}  // namespace luminal::search
