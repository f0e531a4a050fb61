#include "search/verification/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>
#include <optional>
#include <utility>

#include "base/fail.h"
#include "base/stopwatch.h"
#include "graph/data_input.h"
#include "search/verification/compare.h"
#include "search/verification/contain.h"
#include "search/verification/fault_record.h"
#include "search/verification/judge.h"
#include "search/verification/oracle.h"
#include "search/verification/test_inputs.h"
#include "search/verification/trial.h"

namespace luminal::search {
namespace {

/// What kernel k of the unit reads: tensors of the test case, and of those that were made.
std::vector<const TensorData*> inputs_of(const VerificationSuite& suite, size_t k,
                                         const VerificationCase& test_case,
                                         std::span<const TensorData> made) {
  std::vector<const TensorData*> inputs;
  for (const int input : suite.unit.kernels[k].inputs) {
    const auto& given = test_case.tensors[static_cast<size_t>(input)];
    inputs.push_back(given ? given.get() : &made[static_cast<size_t>(input)]);
  }
  return inputs;
}

std::unique_ptr<Rig> rig_of(const VerificationSuite& suite, size_t k, const backends::Kernel& kernel,
                            const VerificationCase& test_case, std::span<const TensorData> made,
                            const TrialOptions& options) {
  std::vector<TrialOutput> outputs;
  for (const int output : suite.unit.kernels[k].outputs) {
    const TensorType& type = suite.unit.tensors[static_cast<size_t>(output)].type;
    outputs.push_back({type.dtype, element_count(type.dims).exec(suite.dims)});
  }
  return make_rig(kernel, inputs_of(suite, k, test_case, made), outputs, suite.dims, options);
}

/// The kernels of a unit, each in memory of its own, to be run on one test case after the other.
class UnitRig {
 public:
  UnitRig(const VerificationSuite& suite, std::span<const backends::Kernel* const> kernels,
          const TrialOptions& options, Progress& progress)
      : suite_(suite), kernels_(kernels), options_(options), progress_(progress) {}

  /// Over what a launch of a part of the tasks runs.
  enum class Over : uint8_t { Unwritten, WhatIsThere };

  void overwrite(std::byte pattern) {
    for (const auto& rig : rigs_) rig->overwrite(pattern);
  }
  /// One launch. `number`: of the test case. With several kernels `made` gets what each of them computes. Before
  /// a part of the tasks outputs hold `kUnwritten`, unless it runs `over` what is there. Throws what is wrong as
  /// `Trouble`.
  void launch(const VerificationCase& test_case, size_t number, Split split,
              const std::optional<TaskPart>& part, Over over, std::vector<TensorData>& made) {
    const bool has_inputs = given_ == number && kernels_.size() == 1;
    for (size_t k = 0; k < kernels_.size(); ++k) {
      const bool is_overwritten = part && over == Over::Unwritten;
      const bool is_new = k == rigs_.size();
      if (is_new)
        rigs_.push_back(rig_for(k, test_case, made, is_overwritten ? kUnwritten : options_.pattern));
      Rig& rig = *rigs_[k];
      // Inputs that are there were looked at after the last launch: it changed none.
      if (!is_new && !has_inputs) rig.give(inputs_of(suite_, k, test_case, made));
      if (!is_new && is_overwritten) rig.overwrite(kUnwritten);
      rig.launch(split, part);
      ++progress_;
      if (const std::string trouble = rig.trouble(); !trouble.empty()) throw Trouble{trouble};
      if (kernels_.size() > 1) take(k, made);
    }
    given_ = number;
  }
  /// What the last launch computed: all tensors that the unit does, by number; the others are empty.
  void take(std::vector<TensorData>& made) const {
    for (size_t k = 0; k < kernels_.size(); ++k) take(k, made);
  }
  /// The same where it lies, until the next launch.
  void look(std::vector<Elements>& made) const {
    made.assign(suite_.unit.tensors.size(), {});
    for (size_t k = 0; k < kernels_.size(); ++k)
      for (size_t o = 0; o < suite_.unit.kernels[k].outputs.size(); ++o) {
        const auto number = static_cast<size_t>(suite_.unit.kernels[k].outputs[o]);
        made[number] = {suite_.unit.tensors[number].type.dtype, rigs_[k]->output(o)};
      }
  }
  /// Whether that is `made`, bit for bit.
  [[nodiscard]] bool equals(const std::vector<TensorData>& made) const {
    for (size_t k = 0; k < kernels_.size(); ++k)
      for (size_t o = 0; o < suite_.unit.kernels[k].outputs.size(); ++o) {
        const TensorData& data = made[static_cast<size_t>(suite_.unit.kernels[k].outputs[o])];
        const auto is = rigs_[k]->output(o);
        if (!is.empty() && std::memcmp(is.data(), data.bytes.data(), is.size()) != 0) return false;
      }
    return true;
  }

  struct Trouble {
    std::string text;
  };

 private:
  void take(size_t k, std::vector<TensorData>& made) const {
    made.resize(suite_.unit.tensors.size());
    const Unit::Kernel& part = suite_.unit.kernels[k];
    for (size_t o = 0; o < part.outputs.size(); ++o) {
      const auto number = static_cast<size_t>(part.outputs[o]);
      const TensorType& type = suite_.unit.tensors[number].type;
      TensorData& data = made[number];
      if (data.bytes.empty()) data = TensorData(type.dtype, exec(type.dims, suite_.dims));
      std::ranges::copy(rigs_[k]->output(o), data.bytes.begin());
    }
  }
  [[nodiscard]] std::unique_ptr<Rig> rig_for(size_t k, const VerificationCase& test_case,
                                             const std::vector<TensorData>& made, std::byte pattern) const {
    TrialOptions options = options_;
    options.pattern = pattern;
    return rig_of(suite_, k, *kernels_[k], test_case, made, options);
  }

  const VerificationSuite& suite_;
  std::span<const backends::Kernel* const> kernels_;
  TrialOptions options_;
  Progress& progress_;
  std::vector<std::unique_ptr<Rig>> rigs_;
  size_t given_ = 0;  ///< number of the test case whose inputs are there
};

constexpr std::byte kNaN{0xff};  // in every float dtype; rigs begin with it
constexpr std::byte kOtherPattern = kUnwritten;

}  // namespace

bool runs_all_tasks(const Unit& unit, std::string_view kind) {
  const auto is_sum = [](const kernel::Value& value) {
    return !value.monoid || *value.monoid == Monoid::Add;
  };
  bool has_only_sums = true;
  for (const Unit::Kernel& kernel : unit.kernels) {
    if (kernel.spec.empty()) return true;
    has_only_sums = has_only_sums && std::ranges::all_of(kernel.spec.values(), is_sum);
  }
  return kind == (has_only_sums ? "integers" : "plain");
}

/// All runs of one judgement.
class CaseVerifier::Runs {
 public:
  Runs(const VerificationSuite& about, std::span<const backends::Kernel* const> kernels,
       const VerifyOptions& options, Progress& progress)
      : suite_{.unit = about.unit, .dims = about.dims, .seed = about.seed, .cases = {}, .graph = about.graph},
        kernels_(kernels.begin(), kernels.end()),
        options_(options),
        progress_(progress),
        is_long_(options.is_long),
        turns_(turns()) {}

  [[nodiscard]] std::optional<TaskPart> next_part(const VerificationCase& test_case) const {
    if (options_.only_part && kernels_.size() == 1) {
      const TaskPart part = larger_part();
      if (leaves_tasks_out(*kernels_[0], suite_.dims, part)) return part;
    }
    const bool spares_reference = spares_reference_ && number_ > 0;  // the first one is repeated in full
    if (!may_run_a_part() && !spares_reference) return std::nullopt;
    if (runs_all_tasks(suite_.unit, test_case.name)) return std::nullopt;
    // Small integers hide what is multiplied by zero; infinities and NaN show it, wherever it is.
    return with_enough_elements(test_case.name == "special" ? larger_part() : some_part());
  }
  [[nodiscard]] bool is_long() const { return is_long_; }
  void lend_memory() {
    if (is_long_) give_memory_back();
  }
  void spare_reference() { spares_reference_ = options_.in_parts && kernels_.size() == 1; }
  std::optional<Fault> compare(const VerificationCase& test_case, const std::vector<TensorData>* reference) {
    return check(test_case, reference, "once more");
  }
  [[nodiscard]] int64_t compared() const { return compared_; }

  std::optional<Fault> add(const VerificationCase& test_case, const std::vector<TensorData>* reference,
                           bool is_last, const std::optional<TaskPart>& part) {
    part_ = options_.launches < 1 ? part : next_part(test_case);
    ++number_;
    lend_memory();
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = thread_cpu_seconds();
    // A long launch does two things at once: other inputs, dealt out in another way.
    const bool takes_turn = is_long_ && turn_ < turns_.size();
    const std::string how = takes_turn ? turns_[turn_].how : number_ == 1 ? "1 thread" : "after others";
    UnitRig* rig = nullptr;
    if (auto fault = takes_turn ? take_turn(test_case, rig) : plain_run(test_case, how, rig)) return fault;
    note_outputs(*rig, is_last);
    if (options_.launches < 1 && std::chrono::steady_clock::now() - start >= options_.soak)
      give_memory_back();
    if (auto fault = check(test_case, reference, how)) return fault;
    if (part_ && reference != nullptr && !is_much_in_common_) {
      part_.reset();
      if (auto fault = plain_run(test_case, how, rig)) return fault;
      note_outputs(*rig, is_last);
      if (auto fault = check(test_case, reference, how)) return fault;
    }
    if (takes_turn && number_ == 2 && !options_.is_long && turn_ < turns_.size())
      if (auto fault = second_turn(test_case, reference)) return fault;
    if (options_.launches < 1) return std::nullopt;
    // Whether an element is read before it is overwritten is no matter of its value.
    if (!is_long_ && !part_)
      if (auto fault = in_place(test_case, made_)) return fault;
    if (number_ == 1 && !is_long_ && !options_.only_part) {
      // In processor time, so that a busy machine does not get less verification.
      is_long_ = (thread_cpu_seconds() - cpu_start) * 1e3 >= static_cast<double>(options_.soak.count());
      if (rig_ && rig == rig_.get()) {
        if (!is_long_)
          if (auto fault = repeat(test_case)) return fault;
        if (!is_long_ || may_run_a_part())
          if (auto fault = after_other_inputs(test_case)) return fault;
      }
      if (is_long_) rig_.reset();
    }
    if (is_long_ && !is_last) return std::nullopt;
    return other_turns(test_case);
  }
  [[nodiscard]] std::vector<TensorData>& made() { return made_; }

 private:
  /// A way to deal tasks out, in memory of another kind.
  struct Turn {
    Split split;
    TrialOptions place;
    std::string how;
    bool is_at_start = false;  ///< of a page, where launches are long: nothing is copied then
  };
  static constexpr TrialOptions kAtStart{
      .place = GuardedMemory::Place::AtStart, .alignment = 64, .pattern = kOtherPattern};

  [[nodiscard]] bool may_run_a_part() const { return options_.in_parts && is_long_ && kernels_.size() == 1; }
  [[nodiscard]] TaskPart some_part() const {
    double whole = 0;
    const size_t number = number_ + options_.only_part.value_or(0);
    return {.middle = std::modf(std::numbers::phi * static_cast<double>(number), &whole)};
  }

  /// More of the tasks where the results are few: of a hundred elements a fault in one of a hundred may be none.
  [[nodiscard]] TaskPart with_enough_elements(TaskPart part) const {
    constexpr double kEnough = 1024;
    constexpr int64_t kRanges = 3, kAll = kRanges;
    double least = std::numeric_limits<double>::infinity();  // elements of a result
    for (const Unit::Kernel& kernel : suite_.unit.kernels)
      for (const int output : kernel.outputs) {
        const Shape& dims = suite_.unit.tensors[static_cast<size_t>(output)].type.dims;
        least = std::min(least, static_cast<double>(element_count(dims).exec(suite_.dims)));
      }
    if (kRanges * least < kEnough * static_cast<double>(part.one_in))
      part.one_in = std::max(kAll, static_cast<int64_t>(kRanges * least / kEnough));
    return part;
  }

  [[nodiscard]] TaskPart larger_part() const {
    TaskPart part = some_part();
    part.one_in = 32, part.at_least = 2;
    return part;
  }

  [[nodiscard]] std::unique_ptr<UnitRig> rig_for(TrialOptions options) const {
    // What is not judged here is launched between guards elsewhere, and a part after another test case was.
    options.reads_large_where_they_lie = options_.launches < 1 || (part_ && number_ > 1);
    return std::make_unique<UnitRig>(suite_, kernels_, options, progress_);
  }

  /// In memory that other test cases use as well: every second one finds the outputs and the workspace of the
  /// one before.
  std::optional<Fault> plain_run(const VerificationCase& test_case, std::string_view how, UnitRig*& rig) {
    // What is no candidate is run once, on all threads that there are.
    const bool is_reference = options_.launches < 1 && options_.threads > 1;
    if (!rig_)
      rig_ =
          is_reference ? rig_for({.alignment = 1, .threads = options_.threads}) : rig_for({.alignment = 1});
    else if (number_ % 2 == 0)
      rig_->overwrite(kOtherPattern);
    rig = rig_.get();
    return run_once(*rig_, test_case, is_reference ? Split::Threads : Split::Whole, how);
  }

  /// Of large tensors, of which fresh memory takes longer than the launch: the next rig gets it.
  void give_memory_back() {
    rig_.reset();
    turn_rig_.reset();
  }

  /// What the last launch computed is looked at where it lies, unless later launches have to be compared with it or
  /// others want to have it.
  void note_outputs(const UnitRig& rig, bool is_last) {
    const bool is_compared_later = !is_long_ || (is_last && turn_ < turns_.size());
    if (options_.launches < 1 || options_.keep_outputs || is_compared_later) {
      rig.take(made_);
      seen_ = elements_of(std::span(made_));
    } else {
      rig.look(seen_);
    }
  }

  std::optional<Fault> run_once(UnitRig& rig, const VerificationCase& test_case, Split split,
                                std::string_view how) {
    return run_once(rig, test_case, number_, split, part_, UnitRig::Over::Unwritten, how);
  }
  /// `number`: of the test case; 0 for one that is none of the suite's.
  std::optional<Fault> run_once(UnitRig& rig, const VerificationCase& test_case, size_t number, Split split,
                                const std::optional<TaskPart>& part, UnitRig::Over over,
                                std::string_view how) {
    try {
      rig.launch(test_case, number, split, part, over, between_);
      return std::nullopt;
    } catch (const UnitRig::Trouble& trouble) {
      return Fault{.message = fmt::format("{} ({} inputs, {})", trouble.text, test_case.name, how),
                   .data = test_case.name};
    }
  }

  std::optional<Fault> check(const VerificationCase& test_case, const std::vector<TensorData>* reference,
                             std::string_view how) {
    const bool is_lawless = test_case.beyond_laws && reference == nullptr;
    const auto which = is_lawless ? Samples::Promised : Samples::All;
    if (auto fault = check_expectations(suite_, test_case, seen_, which, part_.has_value(), how))
      return fault;
    if (reference == nullptr) return std::nullopt;
    // The tasks of an independent kernel may be other parts of the outputs.
    constexpr double kMuch = 1.0 / 1024;
    Comparison comparison = compare_in_full(suite_, test_case, seen_, *reference, part_.has_value());
    is_much_in_common_ = comparison.least_share >= kMuch;
    compared_ += comparison.compared;
    return std::move(comparison.fault);
  }

  /// The same test case once more: the bits have to be the same.
  std::optional<Fault> run_again(UnitRig& rig, const VerificationCase& test_case, Split split,
                                 const std::string& how) {
    if (auto fault = run_once(rig, test_case, split, how)) return fault;
    return unlike_the_first(rig, test_case, how);
  }

  [[nodiscard]] std::optional<Fault> unlike_the_first(const UnitRig& rig, const VerificationCase& test_case,
                                                      const std::string& how) const {
    if (rig.equals(made_)) return std::nullopt;
    std::vector<TensorData> again;
    rig.take(again);
    for (size_t t = 0; t < again.size(); ++t)
      if (const int64_t at = first_difference(made_[t], again[t]); at >= 0)
        return fault_at(suite_, test_case, static_cast<int>(t), at, element(again[t], at),
                        element(made_[t], at), 0, how + ", unlike the first launch");
    return std::nullopt;
  }

  /// On the same inputs: over another pattern, so that what a launch leaves out shows, and every seventh time over what
  /// the launch before has left.
  std::optional<Fault> repeat(const VerificationCase& test_case) {
    constexpr int kAsItIs = 7;
    const auto start = std::chrono::steady_clock::now();
    for (int launch = 2; launch <= options_.launches; ++launch) {
      if (launch % kAsItIs != 0) rig_->overwrite(launch % 2 == 1 ? kOtherPattern : kNaN);
      if (auto fault =
              run_again(*rig_, test_case, Split::Whole, fmt::format("launch {} on the same inputs", launch)))
        return fault;
      if (seconds_since(start) * 1e3 > static_cast<double>(options_.soak.count())) break;
    }
    return std::nullopt;
  }

  /// Once more on the same inputs after a launch on others, over what that has left: nothing of it may show. Of long
  /// launches, a part of the tasks; where a launch is known to be long, what others leave is there before the first one
  /// (take_turn). Kinds are shared out among processes, so that the next kind need not come here.
  std::optional<Fault> after_other_inputs(const VerificationCase& test_case) {
    constexpr std::string_view kHow = "after other inputs";
    const auto part = may_run_a_part() ? std::optional(some_part()) : std::nullopt;
    if (auto fault = run_others(*rig_, test_case, part)) return fault;
    if (auto fault =
            run_once(*rig_, test_case, number_, Split::Whole, part, UnitRig::Over::WhatIsThere, kHow))
      return fault;
    return unlike_the_first(*rig_, test_case, std::string(kHow));
  }

  /// A launch on inputs that are none of the suite's, over what is there.
  std::optional<Fault> run_others(UnitRig& rig, const VerificationCase& test_case,
                                  const std::optional<TaskPart>& part) {
    VerificationCase other{.name = test_case.name == "plain" ? "wide" : "plain",
                           .tensors = test_case.tensors,
                           .derived = test_case.derived};
    for (size_t t = 0; t < other.tensors.size(); ++t)
      if (other.tensors[t] != nullptr)
        other.tensors[t] = drawn_input(suite_.unit, suite_.dims, suite_.seed + 1, other.name, t);
    constexpr size_t kNoNumber = 0;
    return run_once(rig, other, kNoNumber, Split::Whole, part, UnitRig::Over::WhatIsThere, "other inputs");
  }

  /// The next turn on a test case.
  std::optional<Fault> take_turn(const VerificationCase& test_case, UnitRig*& rig) {
    const Turn& turn = turns_[turn_];
    const bool goes_on =
        turn_rig_ && is_long_ && turn.is_at_start && turn_ > 0 && turns_[turn_ - 1].is_at_start;
    if (!goes_on) {
      turn_rig_.reset();  // its memory goes to the next one
      turn_rig_ = rig_for(is_long_ && turn.is_at_start ? kAtStart : turn.place);
    }
    ++turn_;
    rig = turn_rig_.get();
    if (number_ == 1 && may_run_a_part()) {
      TaskPart part = some_part();
      part.of_first_stage = true;
      if (auto fault = run_others(*rig, test_case, part)) return fault;
    }
    return run_once(*turn_rig_, test_case, turn.split, turn.how);
  }

  /// Of a long launch, on the second kind of inputs: threads find by chance that a stage does not wait for the one
  /// before, a call for each task always, but not on kinds that leave the results undetermined.
  std::optional<Fault> second_turn(const VerificationCase& test_case,
                                   const std::vector<TensorData>* reference) {
    UnitRig* rig = nullptr;
    const std::string& how = turns_[turn_].how;
    if (auto fault = take_turn(test_case, rig)) return fault;
    note_outputs(*rig, false);
    return check(test_case, reference, how);
  }

  /// Those that no test case took, on this one: the bits have to be the same. Who comes first among threads is
  /// chance, so these run a few times.
  std::optional<Fault> other_turns(const VerificationCase& test_case) {
    while (turn_ < turns_.size()) {
      const Turn& turn = turns_[turn_];
      UnitRig* rig = nullptr;
      if (auto fault = take_turn(test_case, rig)) return fault;
      if (auto fault = unlike_the_first(*rig, test_case, turn.how)) return fault;
      if (turn.split != Split::Threads || is_long_) continue;
      const auto start = std::chrono::steady_clock::now();
      for (int launch = 1; launch < std::min(options_.launches, 4); ++launch) {
        if (seconds_since(start) * 1e3 > static_cast<double>(options_.soak.count())) break;
        turn_rig_->overwrite(launch % 2 == 1 ? kOtherPattern : kNaN);
        if (auto fault = run_again(*turn_rig_, test_case, turn.split, turn.how)) return fault;
      }
    }
    turn_rig_.reset();
    return std::nullopt;
  }

  [[nodiscard]] std::vector<Turn> turns() const {
    // Inputs need not be copied where they begin a page.
    const TrialOptions next_to_start{
        .place = GuardedMemory::Place::NextToStart, .alignment = 1, .pattern = kOtherPattern};
    std::vector<Turn> list;
    if (!options_.deals_out) return list;
    if (options_.threads > 1)
      list.push_back(
          {Split::Threads, {.threads = options_.threads}, fmt::format("{} threads", options_.threads)});
    list.push_back({Split::Singles, kAtStart, "a call for each task, data at the start of a page", true});
    list.push_back({Split::Uneven, next_to_start, "calls of 1, 2, 3, ... tasks", true});
    if (options_.only_turn) return {list[*options_.only_turn % list.size()]};
    return list;
  }

  /// Kernels whose first output may lie over an input compute there what they `made` beside it.
  std::optional<Fault> in_place(const VerificationCase& test_case, std::span<const TensorData> made) {
    in_place_rigs_.resize(kernels_.size());
    for (size_t k = 0; k < kernels_.size(); ++k)
      if (auto fault = in_place(test_case, k, made)) return fault;
    return std::nullopt;
  }

  std::optional<Fault> in_place(const VerificationCase& test_case, size_t k,
                                std::span<const TensorData> made) {
    const Unit::Kernel& part = suite_.unit.kernels[k];
    if (part.in_place < 0) return std::nullopt;
    std::unique_ptr<Rig>& rig = in_place_rigs_[k];
    if (rig)
      rig->give(inputs_of(suite_, k, test_case, made));
    else
      rig = rig_of(suite_, k, *kernels_[k], test_case, made, {.in_place = part.in_place});
    rig->launch(Split::Whole);
    const TensorData& beside = made[static_cast<size_t>(part.outputs[0])];
    TensorData over(beside.dtype, beside.dims);
    std::ranges::copy(rig->output(0), over.bytes.begin());
    std::string trouble = rig->trouble();
    if (const int64_t at = first_difference(beside, over); trouble.empty() && at >= 0)
      trouble = fmt::format("element {} is {} where the output lies over input {}, and {} beside it", at,
                            element(over, at), part.in_place, element(beside, at));
    if (trouble.empty()) return std::nullopt;
    return Fault{.message = fmt::format("{} ({} inputs, in place)", trouble, test_case.name),
                 .data = test_case.name};
  }

  const VerificationSuite suite_;  ///< without test cases
  const std::vector<const backends::Kernel*> kernels_;
  const VerifyOptions options_;
  Progress& progress_;
  size_t number_ = 0;             ///< of the test case, from 1
  std::optional<TaskPart> part_;  ///< of the tasks, that this test case runs
  int64_t compared_ = 0;
  bool is_much_in_common_ = true;  ///< with the independent kernel, that was compared last
  std::vector<TensorData> made_;
  std::vector<Elements> seen_;       ///< what the launch computed that was looked at last, by Unit tensor
  std::vector<TensorData> between_;  ///< what later kernels of a unit read of earlier ones
  std::unique_ptr<UnitRig> rig_, turn_rig_;
  bool spares_reference_ = false;
  bool is_long_ = false;  ///< one launch, with what is looked at after it, takes as long as repetitions may
  const std::vector<Turn> turns_;
  size_t turn_ = 0;                                  ///< the next one
  std::vector<std::unique_ptr<Rig>> in_place_rigs_;  ///< by kernel
};

CaseVerifier::CaseVerifier(const VerificationSuite& about, std::span<const backends::Kernel* const> kernels,
                           const VerifyOptions& options, Progress& progress) {
  LUMINAL_CHECK(kernels.size() == about.unit.kernels.size(), "{} kernels for a unit of {}", kernels.size(),
                about.unit.kernels.size());
  runs_ = std::make_unique<Runs>(about, kernels, options, progress);
}
CaseVerifier::~CaseVerifier() = default;

std::optional<Fault> CaseVerifier::add(const VerificationCase& test_case,
                                       const std::vector<TensorData>* reference, bool is_last,
                                       const std::optional<TaskPart>& part) {
  return runs_->add(test_case, reference, is_last, part);
}
std::optional<TaskPart> CaseVerifier::next_part(const VerificationCase& test_case) const {
  return runs_->next_part(test_case);
}
std::optional<Fault> CaseVerifier::compare(const VerificationCase& test_case,
                                           const std::vector<TensorData>* reference) {
  return runs_->compare(test_case, reference);
}
void CaseVerifier::lend_memory() { runs_->lend_memory(); }
void CaseVerifier::spare_reference() { runs_->spare_reference(); }
bool CaseVerifier::is_long() const { return runs_->is_long(); }
int64_t CaseVerifier::compared() const { return runs_->compared(); }
std::vector<TensorData>& CaseVerifier::made() { return runs_->made(); }

namespace {

/// Memory for what a unit computes on each test case, seen by the process that computes it.
class SharedOutputs {
 public:
  explicit SharedOutputs(const VerificationSuite& suite) : suite_(suite) {
    for (const VerificationCase& test_case : suite.cases) {
      std::vector<SharedBytes>& row = bytes_.emplace_back();
      for (size_t t = 0; t < suite.unit.tensors.size(); ++t) {
        const TensorType& type = suite.unit.tensors[t].type;
        row.emplace_back(
            test_case.tensors[t] ? 0 : size_bytes(type.dtype, element_count(type.dims).exec(suite.dims)));
      }
    }
  }
  void set(size_t test_case, std::span<const TensorData> made) {
    for (size_t t = 0; t < made.size(); ++t)
      std::ranges::copy(made[t].bytes, bytes_[test_case][t].bytes().data());
  }
  [[nodiscard]] std::vector<std::vector<TensorData>> get() const {
    std::vector<std::vector<TensorData>> all;
    for (const std::vector<SharedBytes>& row : bytes_) {
      std::vector<TensorData>& made = all.emplace_back(row.size());
      for (size_t t = 0; t < row.size(); ++t) {
        if (row[t].bytes().empty()) continue;
        const TensorType& type = suite_.unit.tensors[t].type;
        made[t] = TensorData(type.dtype, exec(type.dims, suite_.dims));
        std::ranges::copy(row[t].bytes(), made[t].bytes.begin());
      }
    }
    return all;
  }

 private:
  const VerificationSuite& suite_;
  std::vector<std::vector<SharedBytes>> bytes_;
};

}  // namespace

int64_t outputs_of(const VerificationSuite& suite) {
  int64_t count = 0;
  for (const VerificationCase& test_case : suite.cases)
    for (size_t t = 0; t < suite.unit.tensors.size(); ++t)
      if (!test_case.tensors[t]) count += element_count(suite.unit.tensors[t].type.dims).exec(suite.dims);
  return count;
}

Verdict verify_uncontained(const VerificationSuite& suite, std::span<const backends::Kernel* const> kernels,
                           const VerifyOptions& options, Progress& progress) {
  Verdict verdict;
  CaseVerifier verifier(suite, kernels, options, progress);
  for (size_t q = 0; q < suite.cases.size() && !verdict.fault; ++q) {
    const auto* reference = options.reference == nullptr ? nullptr : &options.reference->outputs[q];
    verdict.fault = verifier.add(suite.cases[q], reference, q + 1 == suite.cases.size());
    if (options.keep_outputs) verdict.outputs.push_back(std::exchange(verifier.made(), {}));
  }
  verdict.compared = verifier.compared();
  return verdict;
}

Verdict verify(const VerificationSuite& suite, std::span<const backends::Kernel* const> kernels,
               const VerifyOptions& options) {
  const SharedBytes shared_fault(sizeof(FaultRecord));
  FaultRecord& fault = shared_fault.as<FaultRecord>()[0];
  const SharedBytes shared_compared(sizeof(int64_t));
  int64_t& compared = shared_compared.as<int64_t>()[0];
  std::optional<SharedOutputs> kept;
  if (options.keep_outputs) kept.emplace(suite);
  const std::string trouble = run_contained(
      [&](Progress& progress) {
        const Verdict verdict = verify_uncontained(suite, kernels, options, progress);
        if (verdict.fault) fault.set(*verdict.fault);
        compared = verdict.compared;
        for (size_t q = 0; q < verdict.outputs.size(); ++q) kept->set(q, verdict.outputs[q]);
      },
      options.timeout, containment_of(*kernels[0]));
  Verdict verdict;
  if (!trouble.empty())
    verdict.fault = Fault{.message = trouble, .data = suite.cases.empty() ? "" : suite.cases[0].name};
  else
    verdict.fault = fault.get();
  if (kept && !verdict.fault) verdict.outputs = kept->get();
  verdict.compared = compared;
  return verdict;
}

}  // namespace luminal::search
