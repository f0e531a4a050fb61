#include "search/verification/judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/fail.h"
#include "kernel/overflow.h"
#include "search/verification/ask_oracle.h"
#include "search/verification/compare.h"
#include "search/verification/element.h"
#include "search/verification/test_inputs.h"

namespace luminal::search {

double element(const Elements& data, int64_t position) {
  return visit_dtype(data.dtype,
                     [&]<class T>(T) { return widened(data.as<T>()[static_cast<size_t>(position)]); });
}

namespace {

int64_t integer(const Elements& data, int64_t position) {
  return visit_dtype(data.dtype, [&]<class T>(T) -> int64_t {
    if constexpr (std::is_integral_v<T>)
      return static_cast<int64_t>(data.as<T>()[static_cast<size_t>(position)]);
    else
      return 0;
  });
}

}  // namespace

bool agrees(double got, double expected, double bound) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return got == expected || std::abs(got - expected) <= bound;
}

Fault fault_at(const VerificationSuite& suite, const VerificationCase& test_case, int tensor,
               int64_t position, double got, double expected, double bound, std::string_view how) {
  std::vector<int64_t> sizes = exec(suite.unit.tensors[static_cast<size_t>(tensor)].type.dims, suite.dims);
  std::vector<int64_t> at(sizes.size());
  int64_t rest = position;
  for (size_t a = sizes.size(); a-- > 0; rest /= sizes[a]) at[a] = rest % sizes[a];
  return {.message = fmt::format("tensor {} at [{}] is {}, must be {} +- {:.3g} ({} inputs, {})", tensor,
                                 fmt::join(at, ", "), got, expected, bound, test_case.name, how),
          .data = test_case.name,
          .position = position,
          .got = got,
          .expected = expected,
          .bound = bound};
}

int64_t first_difference(const TensorData& a, const TensorData& b) {
  if (a.bytes.size() == b.bytes.size() && std::memcmp(a.bytes.data(), b.bytes.data(), a.bytes.size()) == 0)
    return -1;
  const auto width = static_cast<size_t>(element_bytes(a.dtype));
  for (int64_t i = 0; i < a.element_count(); ++i) {
    const size_t at = static_cast<size_t>(i) * width;
    if (std::memcmp(&a.bytes[at], &b.bytes[at], width) == 0) continue;
    if (is_float(a.dtype) && std::isnan(element(a, i)) && std::isnan(element(b, i))) continue;
    return i;
  }
  return -1;
}

namespace {

/// Whether sample i of an expectation is what the tensor holds.
bool is_right(const VerificationCase::Expectation& expectation, size_t i, const Elements& data) {
  const int64_t position = expectation.positions[i];
  return expectation.integers.empty()
             ? agrees(element(data, position), expectation.values[i], expectation.errors[i])
             : integer(data, position) == expectation.integers[i];
}

bool is_unwritten(const Elements& data, int64_t position) {
  const auto width = static_cast<size_t>(element_bytes(data.dtype));
  const auto element = data.bytes.subspan(static_cast<size_t>(position) * width, width);
  return std::ranges::all_of(element, [](std::byte b) { return b == kUnwritten; });
}

/// Which elements of one test case the spec of a unit's only kernel leaves open.
class OpenElements {
 public:
  OpenElements(const VerificationSuite& suite, const VerificationCase& test_case)
      : suite_(suite), test_case_(test_case) {}

  /// False where there is no spec to ask, or asking takes too long.
  bool contain(int tensor, int64_t position) {
    const Unit::Kernel& kernel = suite_.unit.kernels[0];
    if (suite_.unit.kernels.size() != 1 || kernel.spec.empty()) return false;
    if (!finder_) {
      std::vector<const TensorData*> slots;
      for (const int input : kernel.inputs)
        slots.push_back(test_case_.tensors[static_cast<size_t>(input)].get());
      finder_.emplace(kernel.spec, slots, suite_.dims);
    }
    const auto output = std::ranges::find(kernel.outputs, tensor) - kernel.outputs.begin();
    const bool is_open = finder_->overflows(static_cast<size_t>(output), position).value_or(false);
    found_ += is_open ? 1 : 0;
    return is_open;
  }
  /// Further answers are not worth their time: some are known to be open, and to find that takes long.
  [[nodiscard]] bool are_enough() const {
    constexpr int64_t kManyTerms = 1'000'000;
    return found_ > 0 && finder_->terms() >= kManyTerms;
  }

 private:
  const VerificationSuite& suite_;
  const VerificationCase& test_case_;
  std::optional<kernel::OverflowFinder> finder_;
  int64_t found_ = 0;
};

}  // namespace

std::optional<Fault> check_expectations(const VerificationSuite& suite, const VerificationCase& test_case,
                                        std::span<const Elements> tensors, Samples which, bool in_part,
                                        std::string_view how) {
  OpenElements open(suite, test_case);
  const auto is_open = [&](int tensor, int64_t position) {
    return test_case.beyond_laws && (open.are_enough() || open.contain(tensor, position));
  };
  for (const VerificationCase::Expectation& expectation : test_case.expectations) {
    const Elements& data = tensors[static_cast<size_t>(expectation.tensor)];
    for (size_t i = 0; i < expectation.positions.size(); ++i) {
      if (!expectation.known[i] || is_right(expectation, i, data)) continue;
      if (which == Samples::Promised && !expectation.promised[i]) continue;
      if (in_part && is_unwritten(data, expectation.positions[i])) continue;
      if (!expectation.promised[i] && is_open(expectation.tensor, expectation.positions[i])) continue;
      const bool whole = !expectation.integers.empty();
      return fault_at(suite, test_case, expectation.tensor, expectation.positions[i],
                      element(data, expectation.positions[i]),
                      whole ? static_cast<double>(expectation.integers[i]) : expectation.values[i],
                      whole ? 0 : expectation.errors[i], how);
    }
  }
  return std::nullopt;
}

namespace {

/// Judges what a kernel made of one test case where it lies far from what an independent kernel made: the user's nodes
/// decide where they can be asked, elsewhere the spec says what is left open.
class MismatchJudge {
 public:
  /// What the oracle says of one element belongs to `margins` then, as what it said of samples does.
  MismatchJudge(const VerificationCase& test_case, int tensor, const VerificationCase::Expectation* samples,
                const Elements& got, const TensorData& reference, Margins& margins, CaseOracle& oracle,
                OpenElements& open)
      : case_(test_case),
        tensor_(tensor),
        got_(got),
        reference_(elements_of(reference)),
        margins_(margins),
        oracle_(oracle),
        open_(open) {
    for (size_t i = 0; samples != nullptr && i < samples->positions.size(); ++i)
      truths_.emplace(samples->positions[i], truth_of(*samples, i));
  }

  struct Limits {
    int64_t least;       ///< elements, or two of which each takes very long
    int64_t operations;  ///< of the oracle, about, if as many were asked about
    int64_t of_one;      ///< nobody is asked where one element takes more
  };
  /// The first of them that is a fault. Those that are within the margins by now are left aside. Ends within the limits
  /// where those that were asked about are right.
  std::optional<Mismatch> find_fault(std::span<const Mismatch> mismatches, const Limits& limits) {
    constexpr int64_t kOneByOne = 2, kMostTimes = 3;
    int64_t asked = 0;
    const int64_t before = oracle_.operations();
    for (size_t i = 0; i < mismatches.size(); ++i) {
      const Mismatch& m = mismatches[i];
      if (is_within_by_now(m)) continue;
      if (open_.are_enough()) break;
      if (can_ask_ && !truths_.contains(m.position)) {
        const int64_t spent = oracle_.operations() - before;
        if (spent >= limits.operations &&
            (asked >= limits.least || (asked >= kOneByOne && spent >= kMostTimes * limits.operations)))
          break;
        // Those before tell what one costs, and so how many can be afforded; at most as many as those at once, for the
        // first may be cheap by what is known of another tensor. Where that is few, one answer may tell of the others.
        const int64_t affordable = (limits.operations - spent) * asked / std::max<int64_t>(1, spent);
        const int64_t next = std::clamp(affordable, int64_t{1}, std::max(int64_t{1}, asked));
        asked += ask_about(mismatches.subspan(i), next, limits.of_one);
      }
      if (is_fault(m)) return m;
    }
    return std::nullopt;
  }
  /// Of those that were beyond the margins, what is within them now and still differs in leading digits.
  [[nodiscard]] std::vector<Mismatch> doubtful_by_now(std::span<const Mismatch> beyond) const {
    std::vector<Mismatch> doubtful;
    for (const Mismatch& m : beyond)
      if (is_within_by_now(m) && is_doubtful(m.got, m.expected, margins_.at(m.expected)))
        doubtful.push_back({m.position, m.got, m.expected, margins_.at(m.expected)});
    return doubtful;
  }

 private:
  /// Beyond the margins when these were found, and no further off than elements that were asked about since may be.
  [[nodiscard]] bool is_within_by_now(const Mismatch& m) const {
    const double margin = margins_.exact() ? 0 : margins_.at(m.expected);
    return margin > m.margin && !truths_.contains(m.position) && agrees(m.got, m.expected, margin);
  }
  [[nodiscard]] bool is_fault(const Mismatch& m) {
    const auto answer = truths_.find(m.position);
    if (answer == truths_.end()) {
      constexpr double kWithoutJudge = 4;
      return !agrees(m.got, m.expected, kWithoutJudge * m.margin) && !open_.contain(tensor_, m.position);
    }
    const OracleValue& truth = answer->second;
    if (!truth.known || fits(got_, m.position, truth)) return false;
    // Beyond the laws the independent kernel is the measure, unless it is off as well.
    return !case_.beyond_laws || truth.promised ||
           (fits(reference_, m.position, truth) && !open_.contain(tensor_, m.position));
  }

  /// Asks about the first `most` of them of which nothing is known. What nobody can say of these, or not in time,
  /// nobody is asked about others.
  int64_t ask_about(std::span<const Mismatch> mismatches, int64_t most, int64_t of_one) {
    std::vector<int64_t> positions;
    for (const Mismatch& m : mismatches) {
      if (static_cast<int64_t>(positions.size()) >= most) break;
      if (is_within_by_now(m) || truths_.contains(m.position)) continue;
      if (std::ranges::find(positions, m.position) == positions.end()) positions.push_back(m.position);
    }
    const auto answers = oracle_.ask(tensor_, positions, of_one);
    can_ask_ = answers.has_value();
    for (size_t i = 0; can_ask_ && i < positions.size(); ++i) {
      const OracleValue& truth = truths_.emplace(positions[i], (*answers)[i]).first->second;
      if (is_float(got_.dtype) && truth.known && std::isfinite(truth.value))
        margins_.add(truth.value, truth.bound);
    }
    return static_cast<int64_t>(positions.size());
  }
  static bool fits(const Elements& data, int64_t position, const OracleValue& truth) {
    return is_float(data.dtype) ? agrees(element(data, position), truth.value, truth.bound)
                                : integer(data, position) == truth.integer;
  }

  const VerificationCase& case_;
  int tensor_;
  const Elements got_, reference_;
  Margins& margins_;
  CaseOracle& oracle_;
  OpenElements& open_;
  std::unordered_map<int64_t, OracleValue> truths_;  ///< by position
  bool can_ask_ = true;
};

/// Whether any sample is known: all may hang on comparisons that are too close to call.
bool says_something(const VerificationCase::Expectation& samples) {
  return std::ranges::find(samples.known, true) != samples.known.end();
}

/// How many roundings right kernels may lie apart where the user's nodes cannot be asked.
double roundings_in(const VerificationSuite& suite, std::string_view kind) {
  double roundings = 1000;
  if (!rounds_one_way(kind)) return roundings;
  for (const Unit::Kernel& kernel : suite.unit.kernels) {
    const kernel::KernelSpec& spec = kernel.spec;
    if (spec.empty()) continue;
    for (const kernel::Value& value : spec.values()) {
      double terms = 1;
      for (const int axis : value.reduced)
        terms *= static_cast<double>(spec.extents()[static_cast<size_t>(axis)].exec(suite.dims));
      roundings = std::max(roundings, terms);
    }
  }
  return roundings;
}

}  // namespace

Comparison compare_in_full(const VerificationSuite& suite, const VerificationCase& test_case,
                           std::span<const Elements> tensors, std::span<const TensorData> reference,
                           bool in_part) {
  Comparison comparison;
  OpenElements open(suite, test_case);
  CaseOracle oracle(suite, test_case);
  const auto unwritten = in_part ? std::optional(kUnwritten) : std::nullopt;
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (reference[t].bytes.empty()) continue;
    const auto sampled = std::ranges::find(test_case.expectations, static_cast<int>(t),
                                           &VerificationCase::Expectation::tensor);
    const VerificationCase::Expectation* samples =
        sampled != test_case.expectations.end() ? &*sampled : nullptr;
    Margins margins = samples != nullptr && says_something(*samples)
                          ? Margins(*samples)
                          : Margins(reference[t], roundings_in(suite, test_case.name));
    const Mismatches found = mismatches(reference[t], tensors[t].bytes, margins, unwritten);
    comparison.compared += found.compared;
    if (const int64_t elements = reference[t].element_count(); elements > 0)
      comparison.least_share = std::min(comparison.least_share,
                                        static_cast<double>(found.compared) / static_cast<double>(elements));
    if (found.beyond.empty() && found.doubtful.empty()) continue;
    MismatchJudge judge(test_case, static_cast<int>(t), samples, tensors[t], reference[t], margins, oracle,
                        open);
    // A sample was allowed a quarter of what one takes here, and others may cost more than it. Beyond the laws most of what
    // differs is left open.
    constexpr int64_t kOfOne = 4 * Oracle::kUsuallyAllowed;
    constexpr MismatchJudge::Limits kBeyond{.least = 8, .operations = 10'000'000, .of_one = kOfOne},
        kBeyondLaws{.least = 8, .operations = 500'000, .of_one = kOfOne},
        kDoubtful{.least = 2, .operations = 500'000, .of_one = 2'000'000};
    std::optional<Mismatch> wrong =
        judge.find_fault(found.beyond, test_case.beyond_laws ? kBeyondLaws : kBeyond);
    if (!wrong) {
      std::vector<Mismatch> doubtful = judge.doubtful_by_now(found.beyond);
      doubtful.insert(doubtful.end(), found.doubtful.begin(), found.doubtful.end());
      wrong = judge.find_fault(doubtful, kDoubtful);
    }
    if (!wrong) continue;
    Fault fault = fault_at(suite, test_case, static_cast<int>(t), wrong->position, wrong->got,
                           wrong->expected, wrong->margin, "beside an independent kernel");
    fault.is_by_reference = true;
    comparison.fault = std::move(fault);
    break;
  }
  return comparison;
}

void accept_beyond_laws(VerificationCase& test_case, const std::vector<TensorData>& reference) {
  if (!test_case.beyond_laws) return;
  for (VerificationCase::Expectation& expectation : test_case.expectations)
    for (size_t i = 0; i < expectation.positions.size(); ++i)
      if (!expectation.promised[i] &&
          !is_right(expectation, i, elements_of(reference[static_cast<size_t>(expectation.tensor)])))
        expectation.known[i] = false;
}

void accept_beyond_laws(VerificationSuite& suite, const Verdict& reference) {
  for (size_t q = 0; q < suite.cases.size(); ++q) accept_beyond_laws(suite.cases[q], reference.outputs[q]);
}

}  // namespace luminal::search
