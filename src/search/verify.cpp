#include "search/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fail.h"
#include "base/stopwatch.h"
#include "graph/data_input.h"
#include "search/arbiter.h"
#include "search/compare.h"
#include "search/contain.h"
#include "search/element.h"
#include "search/fault_record.h"
#include "search/trial.h"

namespace luminal::search {
namespace {

double element(const TensorData& data, int64_t position) {
  return visit_dtype(data.dtype,
                     [&]<class T>(T) { return widened(data.as<T>()[static_cast<size_t>(position)]); });
}

int64_t integer(const TensorData& data, int64_t position) {
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

namespace {

Fault fault_at(const Exam& exam, const ExamQuestion& question, int tensor, int64_t position, double got,
               double expected, double bound, std::string_view how) {
  std::vector<int64_t> sizes = exec(exam.unit.tensors[static_cast<size_t>(tensor)].type.dims, exam.dims);
  std::vector<int64_t> at(sizes.size());
  int64_t rest = position;
  for (size_t a = sizes.size(); a-- > 0; rest /= sizes[a]) at[a] = rest % sizes[a];
  return {.message = fmt::format("tensor {} at [{}] is {}, must be {} +- {:.3g} ({} inputs, {})", tensor,
                                 fmt::join(at, ", "), got, expected, bound, question.name, how),
          .data = question.name,
          .position = position,
          .got = got,
          .expected = expected,
          .bound = bound};
}

/// The first element whose bits differ, or -1. Two NaN are equal.
int64_t first_difference(const TensorData& a, const TensorData& b) {
  if (a.bytes == b.bytes) return -1;
  const auto width = static_cast<size_t>(element_bytes(a.dtype));
  for (int64_t i = 0; i < a.element_count(); ++i) {
    const size_t at = static_cast<size_t>(i) * width;
    if (std::memcmp(&a.bytes[at], &b.bytes[at], width) == 0) continue;
    if (is_float(a.dtype) && std::isnan(element(a, i)) && std::isnan(element(b, i))) continue;
    return i;
  }
  return -1;
}

/// Whether sample i of an answer is what the tensor holds.
bool is_right(const ExamQuestion::Answer& answer, size_t i, const TensorData& data) {
  const int64_t position = answer.positions[i];
  return answer.integers.empty() ? agrees(element(data, position), answer.values[i], answer.errors[i])
                                 : integer(data, position) == answer.integers[i];
}

std::optional<Fault> check_answers(const Exam& exam, const ExamQuestion& question,
                                   std::span<const TensorData> tensors, std::string_view how) {
  for (const ExamQuestion::Answer& answer : question.answers) {
    const TensorData& data = tensors[static_cast<size_t>(answer.tensor)];
    for (size_t i = 0; i < answer.positions.size(); ++i) {
      if (!answer.known[i] || is_right(answer, i, data)) continue;
      const bool whole = !answer.integers.empty();
      return fault_at(exam, question, answer.tensor, answer.positions[i], element(data, answer.positions[i]),
                      whole ? static_cast<double>(answer.integers[i]) : answer.values[i],
                      whole ? 0 : answer.errors[i], how);
    }
  }
  return std::nullopt;
}

/// Whether what lies far from the independent kernel's result is a fault: the user's nodes decide where they
/// can be asked.
bool is_fault(const Exam& exam, const ExamQuestion& question, int tensor, const Mismatch& m,
              const TensorData& got, const TensorData& reference) {
  const std::optional<Ruling> ruling = rule_on(exam, question, tensor, m.position);
  if (!ruling) {
    constexpr double kWithoutJudge = 4;
    return !agrees(m.got, m.expected, kWithoutJudge * m.margin);
  }
  if (!ruling->known) return false;
  const auto fits = [&](const TensorData& data) {
    return is_float(data.dtype) ? agrees(element(data, m.position), ruling->value, ruling->bound)
                                : integer(data, m.position) == ruling->integer;
  };
  if (fits(got)) return false;
  // Beyond the laws the independent kernel is the measure, unless it is off as well.
  return !question.beyond_laws || fits(reference);
}

std::optional<Fault> compare_in_full(const Exam& exam, const ExamQuestion& question,
                                     std::span<const TensorData> tensors,
                                     std::span<const TensorData> reference) {
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (reference[t].bytes.empty()) continue;
    const auto answer =
        std::ranges::find(question.answers, static_cast<int>(t), &ExamQuestion::Answer::tensor);
    const Margins margins = answer != question.answers.end() ? Margins(*answer) : Margins(reference[t]);
    for (const Mismatch& m : mismatches(reference[t], tensors[t].bytes, margins))
      if (is_fault(exam, question, static_cast<int>(t), m, tensors[t], reference[t]))
        return fault_at(exam, question, static_cast<int>(t), m.position, m.got, m.expected, m.margin,
                        "beside an independent kernel");
  }
  return std::nullopt;
}

/// The kernels of a unit, each in memory of its own, to be run on one question after the other.
class UnitRig {
 public:
  UnitRig(const Exam& exam, std::span<const backends::Kernel* const> kernels, const TrialOptions& options,
          Progress& progress)
      : exam_(exam), kernels_(kernels), options_(options), progress_(progress) {}

  void soil(std::byte pattern) {
    for (const auto& rig : rigs_) rig->soil(pattern);
  }
  /// All tensors that the unit computes, by number; the others are empty. Throws what is wrong as `Trouble`.
  std::vector<TensorData> run(const ExamQuestion& question, Split split) {
    std::vector<TensorData> made(exam_.unit.tensors.size());
    for (size_t k = 0; k < kernels_.size(); ++k) {
      Rig& rig = prepared(k, question, made);
      rig.launch(split);
      ++progress_;
      if (const std::string trouble = rig.trouble(); !trouble.empty()) throw Trouble{trouble};
      const Unit::Kernel& part = exam_.unit.kernels[k];
      for (size_t o = 0; o < part.outputs.size(); ++o) {
        const auto number = static_cast<size_t>(part.outputs[o]);
        TensorData data(exam_.unit.tensors[number].type.dtype,
                        exec(exam_.unit.tensors[number].type.dims, exam_.dims));
        std::ranges::copy(rig.output(o), data.bytes.begin());
        made[number] = std::move(data);
      }
    }
    return made;
  }

  struct Trouble {
    std::string text;
  };

 private:
  Rig& prepared(size_t k, const ExamQuestion& question, const std::vector<TensorData>& made) {
    const Unit::Kernel& part = exam_.unit.kernels[k];
    std::vector<const TensorData*> inputs;
    for (const int input : part.inputs) {
      const auto& given = question.tensors[static_cast<size_t>(input)];
      inputs.push_back(given ? given.get() : &made[static_cast<size_t>(input)]);
    }
    if (k < rigs_.size()) {
      rigs_[k]->give(inputs);
      return *rigs_[k];
    }
    std::vector<TrialOutput> outputs;
    for (const int output : part.outputs) {
      const TensorType& type = exam_.unit.tensors[static_cast<size_t>(output)].type;
      outputs.push_back({type.dtype, element_count(type.dims).exec(exam_.dims)});
    }
    return *rigs_.emplace_back(make_rig(*kernels_[k], inputs, outputs, exam_.dims, options_));
  }

  const Exam& exam_;
  std::span<const backends::Kernel* const> kernels_;
  TrialOptions options_;
  Progress& progress_;
  std::vector<std::unique_ptr<Rig>> rigs_;
};

constexpr std::byte kNaN{0xff};  // in every float dtype; rigs begin with it
constexpr std::byte kOtherDirt{0x5a};

/// All runs of one judgement, inside the contained process.
class Judgement {
 public:
  Judgement(const Exam& exam, std::span<const backends::Kernel* const> kernels, const JudgeOptions& options,
            Progress& progress)
      : exam_(exam), kernels_(kernels), options_(options), progress_(progress) {}

  /// `keep(tensors)` gets what each question's first run made.
  std::optional<Fault> run(const std::function<void(const std::vector<TensorData>&)>& keep) {
    UnitRig rig = rig_for({.alignment = 1});
    for (size_t q = 0; q < exam_.questions.size(); ++q) {
      // Every second question finds the outputs and the workspace of the one before.
      if (q % 2 == 1) rig.soil(kOtherDirt);
      std::vector<TensorData> made;
      if (auto fault =
              run_once(rig, exam_.questions[q], Split::Whole, q == 0 ? "1 thread" : "after others", made))
        return fault;
      if (auto fault = check(q, made)) return fault;
      keep(made);
      if (q == 0) first_ = std::move(made);
    }
    if (exam_.questions.empty() || options_.launches < 1) return std::nullopt;
    if (auto fault = repeat(rig)) return fault;
    if (auto fault = other_splits()) return fault;
    return in_place();
  }

 private:
  [[nodiscard]] UnitRig rig_for(const TrialOptions& options) const {
    return {exam_, kernels_, options, progress_};
  }

  std::optional<Fault> run_once(UnitRig& rig, const ExamQuestion& question, Split split, std::string_view how,
                                std::vector<TensorData>& made) const {
    try {
      made = rig.run(question, split);
      return std::nullopt;
    } catch (const UnitRig::Trouble& trouble) {
      return Fault{.message = fmt::format("{} ({} inputs, {})", trouble.text, question.name, how),
                   .data = question.name};
    }
  }

  std::optional<Fault> check(size_t q, std::span<const TensorData> made) const {
    const ExamQuestion& question = exam_.questions[q];
    const bool lawless = question.beyond_laws && options_.reference == nullptr;
    if (!lawless)
      if (auto fault = check_answers(exam_, question, made, q == 0 ? "1 thread" : "after others"))
        return fault;
    if (options_.reference == nullptr) return std::nullopt;
    return compare_in_full(exam_, question, made, options_.reference->outputs[q]);
  }

  /// The first question once more: the bits have to be the same.
  std::optional<Fault> run_again(UnitRig& rig, Split split, const std::string& how) const {
    const ExamQuestion& question = exam_.questions[0];
    std::vector<TensorData> made;
    if (auto fault = run_once(rig, question, split, how, made)) return fault;
    for (size_t t = 0; t < made.size(); ++t)
      if (const int64_t at = first_difference(first_[t], made[t]); at >= 0)
        return fault_at(exam_, question, static_cast<int>(t), at, element(made[t], at),
                        element(first_[t], at), 0, how + ", not as at first");
    return std::nullopt;
  }

  std::optional<Fault> repeat(UnitRig& rig) const {
    const auto start = std::chrono::steady_clock::now();
    for (int launch = 2; launch <= options_.launches; ++launch) {
      if (auto fault = run_again(rig, Split::Whole, fmt::format("launch {} on the same inputs", launch)))
        return fault;
      if (seconds_since(start) * 1e3 > static_cast<double>(options_.soak.count())) break;
    }
    return std::nullopt;
  }

  std::optional<Fault> other_splits() const {
    UnitRig at_start =
        rig_for({.place = GuardedMemory::Place::AtStart, .alignment = 64, .pattern = kOtherDirt});
    if (auto fault = run_again(at_start, Split::Singles, "a call for each task, data at the start of a page"))
      return fault;
    if (auto fault = run_again(at_start, Split::Uneven, "calls of 1, 2, 3, ... tasks")) return fault;
    if (options_.threads < 2) return std::nullopt;
    UnitRig threads = rig_for({.threads = options_.threads});
    const int launches = std::min(options_.launches, 4);  // who comes first is chance
    const auto start = std::chrono::steady_clock::now();
    for (int launch = 0; launch < launches; ++launch) {
      threads.soil(launch % 2 == 0 ? kOtherDirt : kNaN);
      if (auto fault = run_again(threads, Split::Threads, fmt::format("{} threads", options_.threads)))
        return fault;
      if (seconds_since(start) * 1e3 > static_cast<double>(options_.soak.count())) break;
    }
    return std::nullopt;
  }

  /// Kernels whose first output may lie over an input compute the same there.
  std::optional<Fault> in_place() const {
    if (std::ranges::all_of(exam_.unit.kernels, [](const auto& part) { return part.in_place < 0; }))
      return std::nullopt;
    for (const ExamQuestion& question : exam_.questions) {
      std::vector<TensorData> made;
      UnitRig beside = rig_for({});
      if (auto fault = run_once(beside, question, Split::Whole, "1 thread", made)) return fault;
      for (size_t k = 0; k < kernels_.size(); ++k)
        if (auto fault = in_place(question, k, made)) return fault;
    }
    return std::nullopt;
  }

  std::optional<Fault> in_place(const ExamQuestion& question, size_t k,
                                std::span<const TensorData> made) const {
    const Unit::Kernel& part = exam_.unit.kernels[k];
    if (part.in_place < 0) return std::nullopt;
    std::vector<const TensorData*> inputs;
    std::vector<TrialOutput> outputs;
    for (const int input : part.inputs) {
      const auto& given = question.tensors[static_cast<size_t>(input)];
      inputs.push_back(given ? given.get() : &made[static_cast<size_t>(input)]);
    }
    for (const int output : part.outputs) {
      const TensorData& beside = made[static_cast<size_t>(output)];
      outputs.push_back({beside.dtype, beside.element_count()});
    }
    const auto rig = make_rig(*kernels_[k], inputs, outputs, exam_.dims, {.in_place = part.in_place});
    rig->launch(Split::Whole);
    const TensorData& beside = made[static_cast<size_t>(part.outputs[0])];
    TensorData over(beside.dtype, beside.dims);
    std::ranges::copy(rig->output(0), over.bytes.begin());
    std::string trouble = rig->trouble();
    if (const int64_t at = first_difference(beside, over); trouble.empty() && at >= 0)
      trouble = fmt::format("element {} is {} where the output lies over input {}, and {} beside it", at,
                            element(over, at), part.in_place, element(beside, at));
    if (trouble.empty()) return std::nullopt;
    return Fault{.message = fmt::format("{} ({} inputs, in place)", trouble, question.name),
                 .data = question.name};
  }

  const Exam& exam_;
  std::span<const backends::Kernel* const> kernels_;
  const JudgeOptions& options_;
  Progress& progress_;
  std::vector<TensorData> first_;
};

/// Memory for what a unit computes on each question, seen by the process that computes it.
class SharedOutputs {
 public:
  explicit SharedOutputs(const Exam& exam) : exam_(exam) {
    for (const ExamQuestion& question : exam.questions) {
      std::vector<SharedBytes>& row = bytes_.emplace_back();
      for (size_t t = 0; t < exam.unit.tensors.size(); ++t) {
        const TensorType& type = exam.unit.tensors[t].type;
        row.emplace_back(
            question.tensors[t] ? 0 : size_bytes(type.dtype, element_count(type.dims).exec(exam.dims)));
      }
    }
  }
  void set(size_t question, std::span<const TensorData> made) {
    for (size_t t = 0; t < made.size(); ++t)
      std::ranges::copy(made[t].bytes, bytes_[question][t].bytes().data());
  }
  [[nodiscard]] std::vector<std::vector<TensorData>> get() const {
    std::vector<std::vector<TensorData>> all;
    for (const std::vector<SharedBytes>& row : bytes_) {
      std::vector<TensorData>& made = all.emplace_back(row.size());
      for (size_t t = 0; t < row.size(); ++t) {
        if (row[t].bytes().empty()) continue;
        const TensorType& type = exam_.unit.tensors[t].type;
        made[t] = TensorData(type.dtype, exec(type.dims, exam_.dims));
        std::ranges::copy(row[t].bytes(), made[t].bytes.begin());
      }
    }
    return all;
  }

 private:
  const Exam& exam_;
  std::vector<std::vector<SharedBytes>> bytes_;
};

int64_t outputs_of(const Exam& exam) {
  int64_t count = 0;
  for (const ExamQuestion& question : exam.questions)
    for (size_t t = 0; t < exam.unit.tensors.size(); ++t)
      if (!question.tensors[t]) count += element_count(exam.unit.tensors[t].type.dims).exec(exam.dims);
  return count;
}

}  // namespace

Verdict judge_uncontained(const Exam& exam, std::span<const backends::Kernel* const> kernels,
                          const JudgeOptions& options, Progress& progress) {
  LUMINAL_CHECK(kernels.size() == exam.unit.kernels.size(), "{} kernels for a unit of {}", kernels.size(),
                exam.unit.kernels.size());
  Verdict verdict;
  Judgement judgement(exam, kernels, options, progress);
  verdict.fault = judgement.run([&](const std::vector<TensorData>& made) {
    if (options.keep_outputs) verdict.outputs.push_back(made);
  });
  if (options.reference != nullptr) verdict.compared = outputs_of(exam);
  return verdict;
}

Verdict judge(const Exam& exam, std::span<const backends::Kernel* const> kernels,
              const JudgeOptions& options) {
  const SharedBytes shared_fault(sizeof(FaultRecord));
  FaultRecord& fault = shared_fault.as<FaultRecord>()[0];
  std::optional<SharedOutputs> kept;
  if (options.keep_outputs) kept.emplace(exam);
  const std::string trouble = run_contained(
      [&](Progress& progress) {
        const Verdict verdict = judge_uncontained(exam, kernels, options, progress);
        if (verdict.fault) fault.set(*verdict.fault);
        for (size_t q = 0; q < verdict.outputs.size(); ++q) kept->set(q, verdict.outputs[q]);
      },
      options.timeout, containment_of(*kernels[0]));
  Verdict verdict;
  if (!trouble.empty())
    verdict.fault = Fault{.message = trouble, .data = exam.questions.empty() ? "" : exam.questions[0].name};
  else
    verdict.fault = fault.get();
  if (kept && !verdict.fault) verdict.outputs = kept->get();
  if (options.reference != nullptr) verdict.compared = outputs_of(exam);
  return verdict;
}

void accept_beyond_laws(Exam& exam, const Verdict& reference) {
  for (size_t q = 0; q < exam.questions.size(); ++q) {
    if (!exam.questions[q].beyond_laws) continue;
    for (ExamQuestion::Answer& answer : exam.questions[q].answers)
      for (size_t i = 0; i < answer.positions.size(); ++i)
        if (!is_right(answer, i, reference.outputs[q][static_cast<size_t>(answer.tensor)]))
          answer.known[i] = false;
  }
}

}  // namespace luminal::search
