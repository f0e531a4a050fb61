#include "search/verification/plan_check.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <random>

#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/team.h"
#include "graph/data_input.h"
#include "search/verification/derive.h"
#include "search/verification/fault_record.h"
#include "search/verification/judge.h"
#include "search/verification/oracle.h"
#include "search/verification/test_inputs.h"
#include "search/verification/verify.h"
#include "search/watch.h"

namespace luminal::search {
namespace {

using runtime::Launch;
using runtime::PlanTensor;
using runtime::TensorIndex;

const PlanTensor& tensor_at(const runtime::Plan& plan, TensorIndex tensor) {
  return plan.tensors[static_cast<size_t>(tensor)];
}

std::string described(const runtime::Plan& plan, TensorIndex tensor) {
  const PlanTensor& t = tensor_at(plan, tensor);
  return fmt::format("tensor {} ({}{})", tensor, TensorType{t.dtype, t.dims}.to_string(),
                     t.value ? fmt::format(", value of #{}", t.value->node.index) : "");
}

/// Whether an output lies where an input lay.
bool overwrites_input(const runtime::KernelLaunch& launch, const runtime::PlanRunner& run) {
  return std::ranges::any_of(launch.in_place, [&](const runtime::InPlace& pair) {
    const TensorIndex output = launch.outputs[static_cast<size_t>(pair.output)];
    const TensorIndex input = launch.inputs[static_cast<size_t>(pair.input)];
    return run.size_bytes(output) > 0 && run.address(output) == run.address(input);
  });
}

/// Each launch that overwrites an input runs once more on the inputs that the separate run has for it, so that one that
/// reads what it has overwritten is named, even if no result of the plan shows it.
std::optional<PlanFault> check_in_place(const runtime::Plan& plan, runtime::PlanRunner& planned,
                                        const runtime::PlanRunner& separate) {
  for (int number = 0; number < static_cast<int>(plan.launches.size()); ++number) {
    const Launch& launch = plan.launches[static_cast<size_t>(number)];
    if (!launch.kernel || !overwrites_input(*launch.kernel, planned)) continue;
    for (const TensorIndex input : launch.kernel->inputs) planned.copy(separate, input);
    planned.run_launch(number);
    for (const TensorIndex output : launch.kernel->outputs)
      if (!planned.equals(separate, output))
        return PlanFault{
            .kind = PlanFault::Kind::InPlace,
            .launch = number,
            .message = fmt::format("{} ({}) computes other values for {} in place of an input than beside it",
                                   launch.name, launch.origin, described(plan, output))};
  }
  return std::nullopt;
}

std::optional<PlanFault> check_order(const runtime::Plan& plan, runtime::PlanRunner& planned,
                                     const runtime::PlanRunner& separate) {
  planned.run();
  const auto check = [&](TensorIndex tensor) -> std::optional<PlanFault> {
    if (planned.equals(separate, tensor)) return std::nullopt;
    return PlanFault{.kind = PlanFault::Kind::Order,
                     .launch = -1,
                     .message = fmt::format("{} depends on how launches overlap", described(plan, tensor))};
  };
  for (const runtime::PlanResult& result : plan.results)
    if (auto fault = check(result.tensor)) return fault;
  for (const runtime::PlanUpdate& update : plan.updates)
    if (auto fault = check(update.next)) return fault;
  return std::nullopt;
}

/// Judges results of launches by the user's nodes, between values that have a name there.
class Judge {
 public:
  Judge(const Graph& graph, const runtime::Plan& plan, const DimMap& dims, const runtime::Given& given,
        const runtime::PlanRunner& run, MathMode math)
      : graph_(graph), plan_(plan), dims_(dims), given_(given), run_(run), math_(math) {
    for (TensorIndex tensor = 0; tensor < static_cast<int>(plan.tensors.size()); ++tensor) {
      const PlanTensor& t = tensor_at(plan, tensor);
      if (!t.value || (t.role != PlanTensor::Role::Constant && !holds(tensor))) continue;
      const Elements elements = elements_at(tensor);
      const int64_t expected = luminal::size_bytes(t.dtype, element_count(t.dims).exec(dims));
      LUMINAL_CHECK(static_cast<int64_t>(elements.bytes.size()) == expected, "{} bytes instead of {} for {}",
                    elements.bytes.size(), expected, described(plan, tensor));
      leaves_.try_emplace(*t.value, elements);
    }
  }

  /// What laws say is equal to an input, so that nothing computes it.
  std::optional<PlanFault> check_inputs() const {
    for (TensorIndex tensor = 0; tensor < static_cast<int>(plan_.tensors.size()); ++tensor)
      if (tensor_at(plan_, tensor).role == PlanTensor::Role::Input && holds(tensor))
        for (const luminal::Value& alias : tensor_at(plan_, tensor).aliases)
          if (auto wrong = verify(tensor, alias, nullptr))
            return PlanFault{
                .kind = PlanFault::Kind::Value, .launch = -1, .tensor = tensor, .message = *wrong};
    return std::nullopt;
  }

  std::optional<PlanFault> check(int number) const {
    const Launch& launch = plan_.launches[static_cast<size_t>(number)];
    if (!launch.kernel) return std::nullopt;
    for (const TensorIndex output : launch.kernel->outputs)
      for (const luminal::Value& value : names_of(output))
        if (auto wrong = verify(output, value, &launch))
          return PlanFault{.kind = PlanFault::Kind::Value,
                           .launch = number,
                           .tensor = output,
                           .message = fmt::format("{} ({}): {}", launch.name, launch.origin, *wrong)};
    return std::nullopt;
  }

 private:
  [[nodiscard]] std::vector<luminal::Value> names_of(TensorIndex tensor) const {
    const PlanTensor& t = tensor_at(plan_, tensor);
    std::vector<luminal::Value> names = t.aliases;
    if (t.value) names.insert(names.begin(), *t.value);
    return names;
  }

  [[nodiscard]] Elements elements_at(TensorIndex tensor) {
    const PlanTensor& t = tensor_at(plan_, tensor);
    if (t.role == PlanTensor::Role::Constant) return elements_of(*t.constant);
    // Runs beside it leave it as it is.
    if (t.role == PlanTensor::Role::Input) return elements_of(*given_.at(tensor));
    if (const std::span<const std::byte> in_place = run_.view(tensor); !in_place.empty())
      return {t.dtype, in_place};
    return {t.dtype, copies_.emplace_back(run_.bytes(tensor))};
  }

  /// The run has the tensor, and it is not empty.
  [[nodiscard]] bool holds(TensorIndex tensor) const { return run_.size_bytes(tensor) > 0; }

  void add_known(KnownElements& leaves, const luminal::Value& value) const {
    if (const auto known = leaves_.find(value); known != leaves_.end()) leaves.insert(*known);
  }

  [[nodiscard]] KnownElements given_leaves() const {
    KnownElements leaves;
    for (const PlanTensor& tensor : plan_.tensors)
      if (tensor.role != PlanTensor::Role::Computed && tensor.value) add_known(leaves, *tensor.value);
    return leaves;
  }

  /// What a launch has in hand: its inputs and its other outputs, and what is given.
  [[nodiscard]] KnownElements leaves_of(const Launch& launch) const {
    KnownElements leaves = given_leaves();
    for (const auto* tensors : {&launch.inputs(), &launch.outputs()})
      for (const TensorIndex tensor : *tensors)
        if (const auto& value = tensor_at(plan_, tensor).value) add_known(leaves, *value);
    return leaves;
  }

  /// Of a launch's inputs those that the others do not determine, and what is given: beside a row and its mean, both
  /// of which it reads, it may compute the mean anew.
  [[nodiscard]] KnownElements origins_of(const Launch& launch) const {
    std::vector<Names> inputs;
    for (const TensorIndex tensor : launch.inputs())
      if (tensor_at(plan_, tensor).value) inputs.push_back(names_of(tensor));
    KnownElements leaves = given_leaves();
    for (const Names& origin : common_origins(graph_, dims_, std::move(inputs), {}).tensors)
      add_known(leaves, origin[0]);
    return leaves;
  }

  /// Whether a launch's element is right given what the launch reads. It may compute anew what another launch
  /// has computed too (the mean of a row, from which it subtracts), in another order of summation.
  [[nodiscard]] bool is_right_by_its_inputs(const Launch& launch, const luminal::Value& name,
                                            int64_t position, double is) const {
    return is_right_by(leaves_of(launch), name, position, is) ||
           is_right_by(origins_of(launch), name, position, is);
  }

  [[nodiscard]] bool is_right_by(const KnownElements& leaves, const luminal::Value& name, int64_t position,
                                 double is) const {
    Oracle oracle(graph_, dims_);
    oracle.share_leaves(leaves, name);
    try {
      const Oracle::Samples right = oracle.at(name, std::span(&position, 1));
      if (right.errors.empty()) return false;
      return !right.known[0] ||
             agrees(is, convert(right.values, Dtype::F64).as<double>()[0], right.errors[0]);
    } catch (const OracleGap&) {
      return false;
    }
  }

  /// `launch`: what computes the tensor; none for a given one.
  std::optional<std::string> verify(TensorIndex tensor, const luminal::Value& name,
                                    const Launch* launch) const {
    const PlanTensor& t = tensor_at(plan_, tensor);
    const Elements data = leaves_.at(*t.value);
    if (data.bytes.empty()) return std::nullopt;
    constexpr int kAnywhere = 16;
    constexpr size_t kCovering = 256;
    std::vector<int64_t> positions =
        covering_positions(exec(t.dims, dims_), kAnywhere, kCovering, static_cast<uint64_t>(tensor));
    Oracle::Samples right;
    try {
      Oracle oracle(graph_, dims_);
      oracle.share_leaves(leaves_, name);
      right = ask_within({}, oracle, name, positions);
    } catch (const OracleGap& gap) {
      debug(3, "{}; its value was compared with the plainest kernel only", gap.what());
      return std::nullopt;
    }
    for (size_t i = 0; i < positions.size(); ++i) {
      const double is = element(data, positions[i]);
      const double must = element(right.values, static_cast<int64_t>(i));
      const double bound = right.errors.empty() ? 0 : right.errors[i];
      const bool is_comparable = right.known[i] && (math_ == MathMode::Strict || std::isfinite(must));
      if (!is_comparable || agrees(is, must, bound)) continue;
      if (launch != nullptr && is_right_by_its_inputs(*launch, name, positions[i], is)) continue;
      return fmt::format("{} is {} at {}, must be {} +- {:.3g}", described(plan_, tensor), is, positions[i],
                         must, bound);
    }
    return std::nullopt;
  }

  const Graph& graph_;
  const runtime::Plan& plan_;
  const DimMap& dims_;
  const runtime::Given& given_;
  const runtime::PlanRunner& run_;
  MathMode math_;
  std::deque<TensorData::Bytes> copies_;  ///< of tensors that lie on a device
  KnownElements leaves_;
};

}  // namespace

uint64_t number_of(const luminal::Value& value) {
  return combine(static_cast<uint64_t>(value.node.index), static_cast<uint64_t>(value.output));
}

runtime::Given plan_inputs(const Graph& graph, const runtime::Plan& plan, const DimMap& dims, uint64_t seed) {
  runtime::Given given;
  for (const TensorIndex tensor : runtime::tensors_to_give(plan)) {
    const PlanTensor& t = tensor_at(plan, tensor);
    const std::vector<int64_t> sizes = exec(t.dims, dims);
    if (t.value)
      if (auto own = graph.value(*t.value); own && own->dims == sizes && own->dtype == t.dtype) {
        given[tensor] = std::move(own);
        continue;
      }
    given[tensor] = test_input("positive", {t.dtype, t.dims}, dims, seed,
                               t.value ? number_of(*t.value) : static_cast<uint64_t>(tensor));
  }
  return given;
}

int64_t separate_bytes(const runtime::Plan& plan, const DimMap& dims) {
  int64_t total = 0;
  for (const PlanTensor& tensor : plan.tensors)
    total += size_bytes(tensor.dtype, element_count(tensor.dims).exec(dims));
  return total;
}

void draw_own_inputs(const Graph& graph, const runtime::Plan& plan) {
  for (const TensorIndex tensor : runtime::tensors_to_give(plan))
    if (const auto& value = tensor_at(plan, tensor).value) (void)graph.value(*value);
}

namespace {

std::optional<PlanFault> check_plan_uncontained(backends::Device& device, const Graph& graph,
                                                const runtime::Plan& plan, const DimMap& dims,
                                                const runtime::Given& given, MathMode math,
                                                std::chrono::steady_clock::time_point until,
                                                std::optional<uint64_t> digest, Progress& progress) {
  using runtime::PlanRunner;
  PlanRunner separate(device, plan, dims, given, PlanRunner::Memory::Separate);
  separate.run();
  ++progress;
  {  // copies of the judge make room for the next runner
    const Judge judge(graph, plan, dims, given, separate, math);
    if (auto fault = judge.check_inputs()) return fault;
    std::vector<std::optional<PlanFault>> faults(plan.launches.size());
    Team::shared().for_each(faults.size(), [&](size_t launch) {
      if (!is_over(until)) faults[launch] = judge.check(static_cast<int>(launch));
      ++progress;
    });
    for (std::optional<PlanFault>& fault : faults)
      if (fault) return std::move(fault);
  }
  if (is_over(until)) return std::nullopt;
  // A run as planned that was timed made the same.
  const bool is_in_order = digest && separate.digest() == digest;
  const auto may_overwrite = [](const Launch& launch) {
    return launch.kernel && !launch.kernel->in_place.empty();
  };
  if (is_in_order && std::ranges::none_of(plan.launches, may_overwrite)) return std::nullopt;
  PlanRunner planned(device, plan, dims, given, PlanRunner::Memory::AsPlanned);
  ++progress;
  const std::optional<PlanFault> wrong = is_in_order ? std::nullopt : check_order(plan, planned, separate);
  ++progress;
  if (auto fault = check_in_place(plan, planned, separate)) return fault;
  return wrong;
}

/// A plan's fault on its way out of a contained process.
struct PlanFaultRecord {
  bool is_there;
  PlanFault::Kind kind;
  int launch;
  TensorIndex tensor;
  SharedText<2000> message;
};

}  // namespace

std::optional<PlanFault> check_plan(backends::Device& device, const Graph& graph, const runtime::Plan& plan,
                                    const DimMap& dims, const std::function<runtime::Given()>& inputs,
                                    MathMode math, std::chrono::steady_clock::time_point until,
                                    std::optional<uint64_t> digest) {
  constexpr std::chrono::seconds kTimeout{60};  // of one run
  const SharedBytes shared(sizeof(PlanFaultRecord));
  PlanFaultRecord& record = shared.as<PlanFaultRecord>()[0];
  const std::string trouble = run_contained(
      [&](Progress& progress) {
        const runtime::Given given = inputs();
        ++progress;
        const auto fault =
            check_plan_uncontained(device, graph, plan, dims, given, math, until, digest, progress);
        if (!fault) return;
        record.kind = fault->kind, record.launch = fault->launch, record.tensor = fault->tensor;
        record.message.set(fault->message);
        record.is_there = true;
      },
      kTimeout, containment_of(device), until);
  if (record.is_there)
    return PlanFault{.kind = record.kind,
                     .launch = record.launch,
                     .tensor = record.tensor,
                     .message = record.message.get()};
  if (trouble.empty() || trouble == kNoTimeLeft) return std::nullopt;
  return PlanFault{
      .kind = PlanFault::Kind::Order, .launch = -1, .message = fmt::format("a plan as a whole {}", trouble)};
}

}  // namespace luminal::search
