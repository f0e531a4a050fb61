#include "search/verification/reference.h"

#include <algorithm>
#include <cstring>

#include "base/stopwatch.h"
#include "kernel/axes.h"
#include "search/verification/judge.h"
#include "search/verification/test_inputs.h"

namespace luminal::search {

Subject on_kind(const FullCheck& check, const std::string& kind, bool is_first,
                const std::map<size_t, int64_t>& periods) {
  Subject subject = *check.subject;
  subject.options.kinds = {kind};
  if (is_first) subject.options.periods = periods;
  if (!is_first || subject.options.form_passed) subject.options.operations /= SuiteOptions::kFurther;
  return subject;
}

ReferenceMaker::ReferenceMaker(const FullCheck& check, size_t size, bool is_first_part, int threads,
                               FullRecord& record, Progress& progress)
    : check_(check),
      threads_(threads),
      record_(record),
      progress_(progress),
      periods_(is_first_part ? periods_to_draw(size) : std::map<size_t, int64_t>{}),
      is_sumless_(check.split && check.split->parts->is_sum && check.peer && !record.needs_whole) {}

void ReferenceMaker::prove(const VerificationSuite& suite, std::span<const TensorData> made) {
  const auto output = static_cast<size_t>(suite.unit.kernels[0].outputs[0]);
  const Proof proof = search::prove_sum(suite, *check_.split, suite.cases[0], made[output], progress_);
  if (!proof.is_proven) begin_with_whole();
  record_.proven += proof.proven;
}

const std::vector<TensorData>* ReferenceMaker::make(const VerificationSuite& suite, bool is_first,
                                                    bool is_long, const std::optional<TaskPart>& part) {
  is_by_peer_ = false;
  if (is_first && is_sumless_) return nullptr;
  if (is_first && !periods_.empty()) return made_at_first_positions(suite);
  if (!is_first && has_no_sum()) {
    const auto* made = made_by_peer(suite, part);
    if (made == nullptr) begin_with_whole();
    is_by_peer_ = true;
    return made;
  }
  if (is_first && check_.split) prove_sum(suite);
  if (record_.fault.get()) return nullptr;
  // Most loops run a part in no time, but a sum is always made of all tasks.
  const bool is_whole = sum_ || !part;
  const bool decides = is_first || runs_all_tasks(suite.unit, suite.cases[0].name);
  if (!decides && ((is_whole && is_long) || are_others_enough(suite)))
    if (const auto* made = made_by_peer(suite, part)) {
      is_by_peer_ = true;
      return made;
    }
  const auto start = std::chrono::steady_clock::now();
  const auto* made = sum_ ? made_by_sum(suite, is_first) : made_by_kernel(suite, is_first, part);
  own_us_ = 1e6 * seconds_since(start);
  return made;
}

const std::vector<TensorData>* ReferenceMaker::make_without_peer(const VerificationSuite& suite) {
  if (has_no_sum()) begin_with_whole();
  is_by_peer_ = false;
  return sum_ ? made_by_sum(suite, false) : made_by_kernel(suite, false, std::nullopt);
}

/// Inputs that are made of others do not repeat.
std::map<size_t, int64_t> ReferenceMaker::periods_to_draw(size_t size) const {
  const Subject& subject = *check_.subject;
  if (!check_.first_positions || record_.needs_whole || subject.options.consistent) return {};
  if (check_.split && !check_.peer) return {};
  return periods_at(*check_.first_positions->repetition, subject.unit, subject.sizes[size]);
}

const std::vector<TensorData>* ReferenceMaker::made_at_first_positions(const VerificationSuite& suite) {
  record_.running = kFirstPositions;
  const FullCheck::FirstPositions& first = *check_.first_positions;
  const VerificationSuite about = of_first_positions(*first.repetition, suite);
  VerificationCase test_case = suite.cases[0];
  test_case.expectations.clear();  // they are of all positions
  const auto start = std::chrono::steady_clock::now();
  if (first.split) {
    SplitVerifier verifier(about, *first.split, 0, threads_, progress_);
    const Proof proof = verifier.add(test_case);
    if (!proof.is_proven) begin_with_whole();
    record_.proven += proof.proven;
    repeated_ = repeated(*first.repetition, suite, verifier.made());
  } else {
    CaseVerifier verifier(about, {&first.plain, 1}, {.launches = 0}, progress_);
    if (verifier.add(test_case, nullptr, true)) begin_with_whole();
    repeated_ = repeated(*first.repetition, suite, verifier.made());
  }
  // The user's nodes judge what the first positions made as well.
  if (check_expectations(suite, suite.cases[0], elements_of(std::span(repeated_)),
                         suite.cases[0].beyond_laws ? Samples::Promised : Samples::All, false, "repeated"))
    begin_with_whole();
  own_us_ = 1e6 * seconds_since(start) * times(*first.repetition, suite.dims);
  return &repeated_;
}

void ReferenceMaker::begin_with_whole() {
  record_.needs_whole = true;
  throw BeginAnew();
}

/// Whether a peer does where launches are short: loops take much longer than it, and the kind is one more of those on
/// which the user's nodes determine the results.
bool ReferenceMaker::are_others_enough(const VerificationSuite& suite) const {
  constexpr double kTimes = 4;
  const std::string_view kind = suite.cases[0].name;
  const bool is_one_more = kind == "plain" || kind == "wide" || kind == "constant" || kind == kGraphKind;
  return is_one_more && check_.launch_us > 0 && own_us_ > std::max(kSlowUs, kTimes * check_.launch_us);
}

const std::vector<TensorData>* ReferenceMaker::made_by_peer(const VerificationSuite& suite,
                                                            const std::optional<TaskPart>& part) {
  if (!check_.peer || *record_.fell[*check_.peer].get() != '\0') return nullptr;
  record_.running = kIndependent + static_cast<int>(*check_.peer);
  if (!peer_)
    peer_ = std::make_unique<CaseVerifier>(suite, std::span(check_.independent).subspan(*check_.peer, 1),
                                           VerifyOptions{.launches = 0}, progress_);
  const auto fault = peer_->add(suite.cases[0], nullptr, false, part);
  if (!fault) return &peer_->made();
  peer_.reset();
  record_.fell[*check_.peer].set(fault->message);
  return nullptr;
}

const std::vector<TensorData>* ReferenceMaker::made_by_kernel(const VerificationSuite& suite, bool is_first,
                                                              const std::optional<TaskPart>& part) {
  for (; kernel_ < check_.independent.size(); ++kernel_) {
    if (*record_.fell[kernel_].get() != '\0') continue;
    record_.running = kIndependent + static_cast<int>(kernel_);
    if (!plain_)
      plain_ = std::make_unique<CaseVerifier>(suite, std::span(check_.independent).subspan(kernel_, 1),
                                              VerifyOptions{.launches = 0}, progress_);
    const auto fault = plain_->add(suite.cases[0], nullptr, false, part);
    if (!fault) return &plain_->made();
    plain_.reset();
    record_.fell[kernel_].set(fault->message);
    if (!is_first) throw BeginAnew();
  }
  return nullptr;
}

/// Finds a sum that whole numbers prove.
void ReferenceMaker::prove_sum(const VerificationSuite& suite) {
  record_.running = kCandidate;  // and its like
  sum_.reset();
  std::optional<Fault> fault;
  for (; record_.next_sum < check_.split->sums.size(); ++record_.next_sum) {
    auto sum = std::make_unique<SplitVerifier>(suite, *check_.split, record_.next_sum, threads_, progress_);
    const Proof result = sum->add(suite.cases[0]);
    if (result.is_proven) {
      record_.proven += result.proven;
      sum_ = std::move(sum);
      return;
    }
    if (!result.fault) return;
    fault = result.fault;
  }
  if (!fault || !check_.falls_with_sums) return;
  fault->message = "no kernel of its sum is right: " + fault->message;
  record_.fault.set(*fault);
}

const std::vector<TensorData>* ReferenceMaker::made_by_sum(const VerificationSuite& suite, bool is_first) {
  record_.running = kCandidate;
  if (!is_first && sum_->add(suite.cases[0]).fault) {
    ++record_.next_sum;
    throw BeginAnew();
  }
  return &sum_->made();
}

std::optional<Expression> outermost_length(const kernel::KernelSpec& spec) {
  const auto names_dims = [](const Expression& e) { return !e.to_symbols().empty(); };
  std::optional<int> outermost;
  for (size_t axis = 0; axis < spec.extents().size(); ++axis) {
    if (!names_dims(spec.extents()[axis])) continue;
    if (outermost) return std::nullopt;
    outermost = static_cast<int>(axis);
  }
  if (!outermost) return std::nullopt;
  // Index variables carry their extents. An output's index that names none has no axis outside of this one.
  constexpr int64_t kAnyLength = int64_t{1} << 32;
  std::vector<Expression> variables = kernel::axis_variables(spec.extents());
  variables[static_cast<size_t>(*outermost)] = Expression::index(*outermost, kAnyLength);
  const auto depends = [&](const Expression& e) { return names_dims(e.substitute_indices(variables)); };
  for (const kernel::Value& value : spec.values()) {
    if (std::ranges::find(value.reduced, *outermost) != value.reduced.end()) return std::nullopt;
    for (const kernel::Operand& operand : value.operands)
      if (depends(operand.index) ||
          std::ranges::any_of(operand.masks, [&](const auto& mask) { return depends(mask.predicate); }))
        return std::nullopt;
  }
  if (std::ranges::any_of(spec.outputs(), [&](const auto& output) { return depends(output.index); }))
    return std::nullopt;
  return spec.extents()[static_cast<size_t>(*outermost)];
}

LongestReference::LongestReference(const FullCheck& check, std::string first_kind, int threads,
                                   FullRecord& record, Progress& progress)
    : check_(check), kind_(std::move(first_kind)), threads_(threads), record_(record), progress_(progress) {
  const Subject& subject = *check.subject;
  const kernel::KernelSpec& spec = subject.unit.kernels[0].spec;
  if (spec.empty() || subject.options.consistent) return;  // inputs that are made of others depend on sizes
  const auto length = outermost_length(spec);
  if (!length) return;
  for (size_t size = kFirstSizes; size < subject.sizes.size(); ++size)
    if (size_ == 0 || length->exec(subject.sizes[size]) > length->exec(subject.sizes[size_])) size_ = size;
}

void LongestReference::make() {
  record_.tried_size = size_;
  ReferenceMaker references(check_, size_, true, threads_, record_, progress_);
  const VerificationSuite suite = prepare_suite(on_kind(check_, kind_, true, references.periods()), size_);
  const std::vector<TensorData>* made = references.make(suite, true, false, std::nullopt);
  std::optional<CaseVerifier> candidate;
  if (references.is_sumless()) {
    record_.running = kCandidate;
    candidate.emplace(suite, std::span(&check_.candidate, 1), VerifyOptions{.launches = 0}, progress_);
    if (!candidate->add(suite.cases[0], nullptr, true)) {
      references.prove(suite, candidate->made());
      made = &candidate->made();
    }
  }
  record_.running = kNobody;
  if (record_.fault.get()) return;
  record_.tried_size = record_.size;
  if (made != nullptr) made_ = *made;
  inputs_ = suite.cases[0].tensors;
  is_made_ = true;
}

const std::vector<TensorData>* LongestReference::beginning_for(const VerificationSuite& suite) {
  if (size_ == 0) return nullptr;
  if (!is_made_) make();
  if (made_.empty()) return nullptr;
  // Inputs are functions of their kind, their number and their size.
  for (size_t t = 0; t < inputs_.size(); ++t) {
    const auto &own = suite.cases[0].tensors[t], &longest = inputs_[t];
    if (!own || own->bytes.size() == longest->bytes.size()) continue;
    if (own->bytes.size() > longest->bytes.size() ||
        std::memcmp(own->bytes.data(), longest->bytes.data(), own->bytes.size()) != 0)
      return nullptr;
  }
  beginning_.resize(suite.unit.tensors.size());
  for (const int output : suite.unit.kernels[0].outputs) {
    const auto t = static_cast<size_t>(output);
    TensorData& beginning = beginning_[t];
    beginning.dtype = made_[t].dtype;
    beginning.dims = exec(suite.unit.tensors[t].type.dims, suite.dims);
    const auto bytes = static_cast<std::ptrdiff_t>(size_bytes(beginning.dtype, beginning.element_count()));
    beginning.bytes.assign(made_[t].bytes.begin(), made_[t].bytes.begin() + bytes);
  }
  return &beginning_;
}

}  // namespace luminal::search
