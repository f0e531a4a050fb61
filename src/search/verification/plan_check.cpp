#include "search/verification/plan_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <tuple>
#include <unordered_map>

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

int64_t bytes_of(const PlanTensor& tensor, const DimMap& dims) {
  return luminal::size_bytes(tensor.dtype, element_count(tensor.dims).exec(dims));
}

std::string described(const runtime::Plan& plan, TensorIndex tensor) {
  const PlanTensor& t = tensor_at(plan, tensor);
  return fmt::format("tensor {} ({}{})", tensor, TensorType{t.dtype, t.dims}.to_string(),
                     t.value ? fmt::format(", value of #{}", t.value->node.index) : "");
}

/// The pairs of a launch of which the output lies where the input lay as the plan is going to run.
std::vector<runtime::InPlace> shared_pairs(const runtime::KernelLaunch& launch,
                                           const runtime::Blocks& planned) {
  const auto block_of = [&](TensorIndex tensor) { return planned.of_tensor[static_cast<size_t>(tensor)]; };
  std::vector<runtime::InPlace> pairs;
  for (const runtime::InPlace& pair : launch.in_place)
    if (block_of(launch.outputs[static_cast<size_t>(pair.output)]) ==
        block_of(launch.inputs[static_cast<size_t>(pair.input)]))
      pairs.push_back(pair);
  return pairs;
}

/// A launch that overwrites an input, once more in copies of its inputs: one that reads what it has overwritten is named,
/// even if no result of the plan shows it.
std::optional<PlanFault> check_in_place(const runtime::Plan& plan, int number, const runtime::Blocks& planned,
                                        runtime::PlanRunner& separate) {
  const Launch& launch = plan.launches[static_cast<size_t>(number)];
  if (!launch.kernel) return std::nullopt;
  const std::vector<runtime::InPlace> pairs = shared_pairs(*launch.kernel, planned);
  if (pairs.empty()) return std::nullopt;
  const auto output = separate.differs_in_place(number, pairs);
  if (!output) return std::nullopt;
  return PlanFault{
      .kind = PlanFault::Kind::InPlace,
      .launch = number,
      .message = fmt::format("{} ({}) computes other values for {} in place of an input than beside it",
                             launch.name, launch.origin, described(plan, *output))};
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

/// Which tensors a check of a plan holds: what was computed is judged some launches at a time, and the first that nothing
/// needs any more give their memory back where all together take much.
class Held {
 public:
  Held(const runtime::Plan& plan, const DimMap& dims) : plan_(plan), last_(plan.tensors.size(), kUnused) {
    for (const PlanTensor& tensor : plan.tensors) bytes_.push_back(bytes_of(tensor, dims));
    const auto at = [](TensorIndex tensor) { return static_cast<size_t>(tensor); };
    for (const runtime::PlanResult& result : plan.results) last_[at(result.tensor)] = kAlways;
    for (const runtime::PlanUpdate& update : plan.updates) last_[at(update.next)] = kAlways;
    for (int number = static_cast<int>(plan.launches.size()); number-- > 0;) {
      const Launch& launch = plan.launches[at(number)];
      int last = number;
      for (const TensorIndex output : launch.outputs()) {
        last_[at(output)] = std::max(last_[at(output)], number);
        // What nobody named is judged by what its readers make of it, from what it was made of.
        if (!plan.tensors[at(output)].value) last = std::max(last, last_[at(output)]);
      }
      for (const TensorIndex input : launch.inputs()) last_[at(input)] = std::max(last_[at(input)], last);
    }
  }

  /// A launch is about to run.
  void add(int number) {
    for (const TensorIndex output : plan_.launches[static_cast<size_t>(number)].outputs()) {
      open_.push_back(output);
      bytes_open_ += bytes_[static_cast<size_t>(output)];
      bytes_held_ += bytes_[static_cast<size_t>(output)];
    }
    most_held_ = std::max(most_held_, bytes_held_);
  }
  /// It is time to judge what was added.
  [[nodiscard]] bool are_many() const { return bytes_open_ > kMostOpen; }
  /// Launches up to this one were judged: what is not held any more.
  std::vector<TensorIndex> dropped(int number) {
    judged_.insert(judged_.end(), open_.begin(), open_.end());
    open_.clear();
    bytes_open_ = 0;
    std::vector<TensorIndex> dropped;
    std::erase_if(judged_, [&](TensorIndex tensor) {
      if (bytes_held_ <= kMostHeld || last_[static_cast<size_t>(tensor)] > number) return false;
      bytes_held_ -= bytes_[static_cast<size_t>(tensor)];
      dropped.push_back(tensor);
      return true;
    });
    return dropped;
  }
  [[nodiscard]] int64_t most() const { return most_held_; }

 private:
  static constexpr int kUnused = -1, kAlways = std::numeric_limits<int>::max();
  static constexpr int64_t kMostOpen = int64_t{1} << 27, kMostHeld = int64_t{3} << 27;
  const runtime::Plan& plan_;
  std::vector<int> last_;  ///< launch that needs it, by tensor
  std::vector<int64_t> bytes_;
  std::vector<TensorIndex> open_, judged_;
  int64_t bytes_open_ = 0, bytes_held_ = 0, most_held_ = 0;
};

/// Judges results of launches by the user's nodes, between values that have a name there.
class Judge {
 public:
  Judge(const Graph& graph, const runtime::Plan& plan, const DimMap& dims, const runtime::Given& given,
        const runtime::PlanRunner& run, MathMode math)
      : graph_(graph), plan_(plan), dims_(dims), given_(given), run_(run), math_(math) {
    for (TensorIndex tensor = 0; tensor < static_cast<int>(plan.tensors.size()); ++tensor) {
      const PlanTensor::Role role = tensor_at(plan, tensor).role;
      if (role == PlanTensor::Role::Constant || (role == PlanTensor::Role::Input && holds(tensor)))
        add(tensor);
    }
  }

  /// What a launch made: it may be asked about, and others are judged by it.
  void add(TensorIndex tensor) {
    const PlanTensor& t = tensor_at(plan_, tensor);
    if (!t.value) return;
    const Elements elements = elements_at(tensor);
    const int64_t expected = bytes_of(t, dims_);
    LUMINAL_CHECK(static_cast<int64_t>(elements.bytes.size()) == expected, "{} bytes instead of {} for {}",
                  elements.bytes.size(), expected, described(plan_, tensor));
    elements_.emplace(tensor, elements);
    leaves_.try_emplace(*t.value, elements);
  }
  /// Its memory is about to go.
  void remove(TensorIndex tensor) {
    const auto own = elements_.extract(tensor);
    if (own.empty()) return;
    const auto leaf = leaves_.find(*tensor_at(plan_, tensor).value);
    if (leaf != leaves_.end() && leaf->second.bytes.data() == own.mapped().bytes.data()) leaves_.erase(leaf);
    copies_.erase(tensor);
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
    return {t.dtype, copies_.try_emplace(tensor, run_.bytes(tensor)).first->second};
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
    const Elements data = elements_.at(tensor);
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
  std::unordered_map<TensorIndex, TensorData::Bytes> copies_;  ///< of tensors that lie on a device
  std::unordered_map<TensorIndex, Elements> elements_;         ///< of tensors that are there
  KnownElements leaves_;                                       ///< by value; several tensors may hold one
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

namespace {

/// What kernels pack of weights.
int64_t prepared_bytes(const runtime::Plan& plan, const DimMap& dims) {
  int64_t total = 0;
  for (const runtime::Launch& launch : plan.launches)
    if (launch.kernel && launch.kernel->kernel)
      total += launch.kernel->kernel->prepared_bytes(backends::sizes_of(*launch.kernel->kernel, dims));
  return total;
}

}  // namespace

int64_t check_bytes(const runtime::Plan& plan, const DimMap& dims) {
  Held held(plan, dims);
  for (int number = 0; number < static_cast<int>(plan.launches.size()); ++number) {
    held.add(number);
    if (held.are_many()) std::ignore = held.dropped(number);
  }
  int64_t given = 0;
  for (const PlanTensor& tensor : plan.tensors)
    if (tensor.role != PlanTensor::Role::Computed) given += bytes_of(tensor, dims);
  return given + held.most() + prepared_bytes(plan, dims);
}

int64_t separate_bytes(const runtime::Plan& plan, const DimMap& dims) {
  int64_t total = prepared_bytes(plan, dims);
  for (const PlanTensor& tensor : plan.tensors) total += bytes_of(tensor, dims);
  return total;
}

void draw_own_inputs(const Graph& graph, const runtime::Plan& plan) {
  for (const TensorIndex tensor : runtime::tensors_to_give(plan))
    if (const auto& value = tensor_at(plan, tensor).value) (void)graph.value(*value);
}

namespace {

/// Runs a plan launch by launch, each tensor in memory of its own.
class PlanCheck {
 public:
  PlanCheck(backends::Device& device, const Graph& graph, const runtime::Plan& plan, const DimMap& dims,
            const runtime::Given& given, MathMode math, std::chrono::steady_clock::time_point until,
            Progress& progress)
      : plan_(plan),
        planned_(runtime::assign_blocks(plan)),
        run_(device, plan, dims, given, runtime::PlanRunner::Memory::Separate),
        judge_(graph, plan, dims, given, run_, math),
        held_(plan, dims),
        until_(until),
        progress_(progress) {}

  std::optional<PlanFault> run() {
    if (auto fault = judge_.check_inputs()) return fault;
    const auto count = static_cast<int>(plan_.launches.size());
    int first = 0;  // that is not judged
    for (int number = 0; number < count; ++number) {
      held_.add(number);
      run_.run_launch(number);
      for (const TensorIndex output : plan_.launches[static_cast<size_t>(number)].outputs())
        judge_.add(output);
      ++progress_;
      if (auto fault = check_in_place(plan_, number, planned_, run_)) return fault;
      if (number + 1 < count && !held_.are_many()) continue;
      if (auto fault = judge_launches(first, number + 1)) return fault;
      for (const TensorIndex tensor : held_.dropped(number)) {
        judge_.remove(tensor);
        run_.release(tensor);
      }
      first = number + 1;
    }
    return std::nullopt;
  }
  /// Holds results and next states.
  [[nodiscard]] const runtime::PlanRunner& made() const { return run_; }

 private:
  std::optional<PlanFault> judge_launches(int first, int end) {
    std::vector<std::optional<PlanFault>> faults(static_cast<size_t>(end - first));
    Team::shared().for_each(faults.size(), [&](size_t launch) {
      if (!is_over(until_)) faults[launch] = judge_.check(first + static_cast<int>(launch));
      ++progress_;
    });
    for (std::optional<PlanFault>& fault : faults)
      if (fault) return std::move(fault);
    return std::nullopt;
  }

  const runtime::Plan& plan_;
  runtime::Blocks planned_;
  runtime::PlanRunner run_;
  Judge judge_;
  Held held_;
  std::chrono::steady_clock::time_point until_;
  Progress& progress_;
};

std::optional<PlanFault> check_plan_uncontained(backends::Device& device, const Graph& graph,
                                                const runtime::Plan& plan, const DimMap& dims,
                                                const runtime::Given& given, MathMode math,
                                                std::chrono::steady_clock::time_point until,
                                                std::optional<uint64_t> digest, Progress& progress) {
  PlanCheck check(device, graph, plan, dims, given, math, until, progress);
  if (auto fault = check.run()) return fault;
  // A run as planned that was timed made the same.
  if (is_over(until) || (digest && check.made().digest() == digest)) return std::nullopt;
  runtime::PlanRunner planned(device, plan, dims, given, runtime::PlanRunner::Memory::AsPlanned);
  ++progress;
  return check_order(plan, planned, check.made());
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
