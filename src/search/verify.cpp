#include "search/verify.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"
#include "base/log.h"
#include "graph/data_input.h"
#include "search/derive.h"
#include "search/oracle.h"

namespace luminal::search {
namespace {

using Data = std::shared_ptr<const TensorData>;

// --- Questions

/// A stream of random bits, a few instructions each: inputs have millions of elements.
/// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014 (SplitMix64).
class Bits {
 public:
  explicit Bits(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>((*this)() >> 11) * 0x1p-53;
  }
  int64_t integer(int64_t low, int64_t high) {  // short ranges: what the remainder prefers is nothing
    return low + static_cast<int64_t>((*this)() % static_cast<uint64_t>(high - low + 1));
  }

 private:
  uint64_t state_;
};

/// Numbers for a tensor of `dtype`, by the kind of question.
void draw(const std::string& kind, Dtype dtype, Bits random, std::span<double> out) {
  const auto fill = [&](auto&& next) {
    for (double& x : out) x = next();
  };
  const auto plain = [&] { return random.uniform(-2, 2); };
  if (dtype == Dtype::Bool) return fill([&] { return static_cast<double>(random.integer(0, 1)); });
  if (kind == "integers") return fill([&] { return static_cast<double>(random.integer(-3, 3)); });
  if (!is_float(dtype)) return fill([&] { return static_cast<double>(random.integer(-100, 100)); });
  if (kind == "wide") {
    const double range = dtype == Dtype::F16 ? 4 : 12;
    return fill(
        [&] { return std::copysign(std::exp2(random.uniform(-range, range)), random.uniform(-1, 1)); });
  }
  if (kind != "special") return fill(plain);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr std::array<double, 6> kSpecial{kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
                                           -0.0,      1e-40,      0};
  fill([&] {
    return random.integer(0, 19) == 0 ? kSpecial[static_cast<size_t>(random.integer(0, 5))] : plain();
  });
}

/// Corners of the tensor, borders of likely tiles along its last axes, and random places.
std::vector<int64_t> sample_positions(const std::vector<int64_t>& sizes, int samples, uint64_t seed) {
  int64_t total = 1;
  for (const int64_t size : sizes) total *= size;
  std::vector<int64_t> positions;
  if (total == 0) return positions;
  const size_t rank = sizes.size();
  const auto flat = [&](const std::vector<int64_t>& at) {
    int64_t position = 0;
    for (size_t a = 0; a < rank; ++a) position = position * sizes[a] + at[a];
    return position;
  };
  for (size_t corner = 0; corner < (size_t{1} << std::min<size_t>(rank, 4)); ++corner) {
    std::vector<int64_t> at(rank, 0);
    for (size_t a = 0; a < rank; ++a)
      if (corner >> (a % 4) & 1) at[a] = sizes[a] - 1;
    positions.push_back(flat(at));
  }
  std::mt19937_64 random(seed);
  const auto any = [&](int64_t size) { return std::uniform_int_distribution<int64_t>(0, size - 1)(random); };
  for (size_t back = 1; back <= std::min<size_t>(rank, 2); ++back) {
    const int64_t size = sizes[rank - back];
    for (int64_t tile = 4; tile <= 128 && tile <= size; tile *= 2) {
      for (const int64_t border : {tile - 1, tile, size / tile * tile - 1, size / tile * tile}) {
        if (border < 0 || border >= size) continue;
        std::vector<int64_t> at(rank);
        for (size_t a = 0; a < rank; ++a) at[a] = any(sizes[a]);
        at[rank - back] = border;
        positions.push_back(flat(at));
      }
    }
  }
  for (int i = 0; i < samples; ++i) positions.push_back(any(total));
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  return positions;
}

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

/// Fewer samples if judging these costs more than allowed.
ExamQuestion::Answer ask_oracle(const Graph& graph, const DimMap& dims, const Unit& unit,
                                const ExamQuestion& question, int tensor, const Value& value,
                                std::vector<int64_t> positions, int64_t operations) {
  for (;;) {
    Oracle oracle(graph, dims);
    oracle.operation_limit = operations;
    oracle.independent_roundings = question.name != "integers";
    for (const auto& [leaf, data] : given(unit, question)) oracle.set_leaf(leaf, data);
    try {
      return answer_of(oracle.at(value, positions), tensor, positions);
    } catch (const OracleLimit&) {
      constexpr int64_t kForOneElement = 10'000'000;
      if (positions.size() == 1 && operations >= kForOneElement) throw;
      if (positions.size() == 1) {
        operations = kForOneElement;
        continue;
      }
      std::vector<int64_t> fewer;
      for (size_t i = 0; i < positions.size(); i += 4) fewer.push_back(positions[i]);
      positions = std::move(fewer);
    }
  }
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

}  // namespace

Data exam_input(const std::string& name, size_t question, const TensorType& type, const DimMap& dims,
                uint64_t seed, size_t tensor) {
  TensorData numbers(Dtype::F64, exec(type.dims, dims));
  draw(name, type.dtype, Bits(combine(combine(seed, tensor), question)), numbers.as<double>());
  return std::make_shared<const TensorData>(
      convert(numbers, is_quantized(type.dtype) ? Dtype::F32 : type.dtype));
}

Exam prepare_exam(const Graph& graph, const DimMap& dims, const Unit& unit, const ExamOptions& options) {
  const std::vector<bool> computed = computed_tensors(unit);
  Exam exam{.unit = unit, .dims = dims, .seed = options.seed};
  bool judged = true;
  for (size_t t = 0; t < unit.tensors.size(); ++t) judged = judged && (computed[t] || unit.tensors[t].value);
  std::vector<bool> beyond(unit.tensors.size(), false);  // the oracle cannot tell
  const std::vector<size_t> outside = inputs_in_order(graph, unit, computed);
  std::vector<std::string> kinds{"integers", "plain", "wide"};
  if (options.special_values) kinds.emplace_back("special");
  if (options.first_only) kinds.resize(1);
  for (const std::string& kind : kinds) {
    ExamQuestion question{.name = kind,
                          .tensors = std::vector<Data>(unit.tensors.size()),
                          .derived = std::vector<bool>(unit.tensors.size(), false)};
    for (const size_t t : outside) {
      const TensorType& type = unit.tensors[t].type;
      if (judged && options.consistent)
        if (Data made = derive(graph, dims, unit, question, t)) {
          question.tensors[t] = std::move(made);
          question.derived[t] = true;
          continue;
        }
      question.tensors[t] = exam_input(kind, exam.questions.size(), type, dims, options.seed, t);
    }
    for (size_t t = 0; t < unit.tensors.size(); ++t) {
      if (!judged || !computed[t] || !unit.tensors[t].value || beyond[t]) continue;
      const std::vector<int64_t> positions =
          sample_positions(exec(unit.tensors[t].type.dims, dims), options.samples, combine(options.seed, t));
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

double Exam::skipped_share() const {
  double all = 0, skipped = 0;
  for (const ExamQuestion& question : questions)
    for (const ExamQuestion::Answer& answer : question.answers) {
      all += static_cast<double>(answer.known.size());
      skipped += static_cast<double>(std::ranges::count(answer.known, false));
    }
  return all == 0 ? 0 : skipped / all;
}

// --- Judging

namespace {

double element(const TensorData& data, int64_t position) {
  return visit_dtype(data.dtype, [&]<class T>(T) -> double {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>)
      return static_cast<double>(static_cast<float>(data.as<T>()[static_cast<size_t>(position)]));
    else
      return static_cast<double>(data.as<T>()[static_cast<size_t>(position)]);
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

std::optional<Fault> check_answers(const Exam& exam, const ExamQuestion& question,
                                   std::span<const TensorData> tensors, std::string_view how) {
  for (const ExamQuestion::Answer& answer : question.answers) {
    const TensorData& data = tensors[static_cast<size_t>(answer.tensor)];
    const TensorData wide = answer.integers.empty() ? TensorData() : convert(data, Dtype::I64);
    for (size_t i = 0; i < answer.positions.size(); ++i) {
      if (!answer.known[i]) continue;
      const int64_t position = answer.positions[i];
      if (!answer.integers.empty()) {
        const int64_t got = wide.as<int64_t>()[static_cast<size_t>(position)];
        if (got != answer.integers[i])
          return fault_at(exam, question, answer.tensor, position, static_cast<double>(got),
                          static_cast<double>(answer.integers[i]), 0, how);
      } else if (const double got = element(data, position);
                 !agrees(got, answer.values[i], answer.errors[i])) {
        return fault_at(exam, question, answer.tensor, position, got, answer.values[i], answer.errors[i],
                        how);
      }
    }
  }
  return std::nullopt;
}

struct Way {
  std::string name;
  TrialOptions options;
};

/// Different memory, different number of threads: a kernel that is right gives the same bits each time.
std::vector<Way> ways_to_run(int threads) {
  std::vector<Way> ways{
      {"1 thread",
       {.place = GuardedMemory::Place::AtEnd, .alignment = 1, .pattern = std::byte{0xff}, .threads = 1}},
      {"data at the start of a page",
       {.place = GuardedMemory::Place::AtStart, .alignment = 64, .pattern = std::byte{0x5a}, .threads = 1}}};
  if (threads > 1)
    ways.push_back({fmt::format("{} threads", threads),
                    {.place = GuardedMemory::Place::AtEnd, .pattern = std::byte{0xff}, .threads = threads}});
  return ways;
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

/// What goes wrong where the first output lies over an input, though the kernel is right beside it.
std::string in_place_trouble(const backends::Kernel& kernel, std::span<const TensorData> inputs,
                             std::span<const TrialOutput> outputs, const DimMap& dims, TrialOptions options,
                             int input, const TensorData& beside) {
  options.in_place = input;
  const TrialResult over = run_trial(kernel, inputs, outputs, dims, options);
  if (!over.trouble.empty()) return over.trouble;
  const int64_t at = first_difference(beside, over.outputs[0]);
  if (at < 0) return "";
  return fmt::format("element {} is {} where the output lies over input {}, and {} beside it", at,
                     element(over.outputs[0], at), input, element(beside, at));
}

/// All tensors after running the unit's kernels; trouble otherwise.
struct UnitRun {
  std::vector<TensorData> tensors;
  std::string trouble;
};

UnitRun run_unit(const Exam& exam, const ExamQuestion& question,
                 std::span<const backends::Kernel* const> kernels, const TrialOptions& options) {
  UnitRun run{.tensors = std::vector<TensorData>(exam.unit.tensors.size()), .trouble = {}};
  for (size_t k = 0; k < kernels.size(); ++k) {
    const Unit::Kernel& part = exam.unit.kernels[k];
    std::vector<TensorData> inputs;
    std::vector<TrialOutput> outputs;
    for (const int input : part.inputs) {
      const auto& given = question.tensors[static_cast<size_t>(input)];
      inputs.push_back(given ? *given : run.tensors[static_cast<size_t>(input)]);
    }
    for (const int output : part.outputs) {
      const TensorType& type = exam.unit.tensors[static_cast<size_t>(output)].type;
      outputs.push_back({type.dtype, element_count(type.dims).exec(exam.dims)});
    }
    TrialResult result = run_trial(*kernels[k], inputs, outputs, exam.dims, options);
    if (result.trouble.empty() && part.in_place >= 0)
      result.trouble = in_place_trouble(*kernels[k], inputs, outputs, exam.dims, options, part.in_place,
                                        result.outputs[0]);
    if (!result.trouble.empty()) {
      run.trouble = result.trouble;
      return run;
    }
    for (size_t o = 0; o < part.outputs.size(); ++o)
      run.tensors[static_cast<size_t>(part.outputs[o])] = std::move(result.outputs[o]);
  }
  return run;
}

}  // namespace

std::vector<std::optional<Fault>> judge_quickly(const Exam& exam,
                                                std::span<const backends::Kernel* const> candidates) {
  const ExamQuestion& question = exam.questions.at(0);
  Way way = ways_to_run(1)[0];
  way.options.contained = false;  // all of them share one process
  const std::vector<std::string> said = run_contained(
      candidates.size(),
      [&](size_t i) -> std::string {
        const UnitRun run = run_unit(exam, question, candidates.subspan(i, 1), way.options);
        if (!run.trouble.empty())
          return fmt::format("{} ({} inputs, {})", run.trouble, question.name, way.name);
        const std::optional<Fault> fault = check_answers(exam, question, run.tensors, way.name);
        return fault ? fault->message : std::string();
      },
      way.options.timeout);
  std::vector<std::optional<Fault>> faults(candidates.size());
  for (size_t i = 0; i < candidates.size(); ++i)
    if (!said[i].empty()) faults[i] = Fault{.message = said[i], .data = question.name};
  return faults;
}

Verdict judge(const Exam& exam, std::span<const backends::Kernel* const> kernels, int threads) {
  LUMINAL_CHECK(kernels.size() == exam.unit.kernels.size(), "{} kernels for a unit of {}", kernels.size(),
                exam.unit.kernels.size());
  std::vector<Way> ways = ways_to_run(threads);
  Verdict verdict;
  for (size_t q = 0; q < exam.questions.size(); ++q) {
    const ExamQuestion& question = exam.questions[q];
    std::vector<TensorData> first;
    for (size_t w = 0; w < ways.size(); ++w) {
      // The first question goes every way; the others, which differ in their data alone, go one way each.
      if (q > 0 && w != q % ways.size()) continue;
      Way& way = ways[w];
      way.options.contained = q == 0;
      UnitRun run = run_unit(exam, question, kernels, way.options);
      if (!run.trouble.empty())
        verdict.fault =
            Fault{.message = fmt::format("{} ({} inputs, {})", run.trouble, question.name, way.name),
                  .data = question.name};
      if (!verdict.fault) verdict.fault = check_answers(exam, question, run.tensors, way.name);
      for (size_t t = 0; !verdict.fault && !first.empty() && t < first.size(); ++t) {
        if (const int64_t at = first_difference(first[t], run.tensors[t]); at >= 0)
          verdict.fault = fault_at(exam, question, static_cast<int>(t), at, element(run.tensors[t], at),
                                   element(first[t], at), 0, way.name + ", not as with 1 thread");
      }
      if (verdict.fault) return verdict;
      if (first.empty()) first = std::move(run.tensors);
    }
    verdict.outputs.push_back(std::move(first));
  }
  return verdict;
}

namespace {

/// How far two right kernels may lie apart: the sampled bounds, grown with the values beyond the sampled
/// ones.
struct Margin {
  bool exact = false;
  double error = 0, scale = 0;
  [[nodiscard]] double at(double value) const {
    return 4 * error * (scale > 0 ? std::max(1.0, std::abs(value) / scale) : 1);
  }
};

Margin margin_of(const ExamQuestion::Answer& answer) {
  Margin margin{.exact = answer.integers.size() == answer.positions.size()};
  if (margin.exact) return margin;
  for (size_t i = 0; i < answer.values.size(); ++i) {
    margin.error = std::max(margin.error, answer.errors[i]);
    if (std::isfinite(answer.values[i])) margin.scale = std::max(margin.scale, std::abs(answer.values[i]));
  }
  margin.exact = margin.error == 0;
  return margin;
}

/// Where nobody was asked.
Margin wide_margin(const TensorData& data) {
  Margin margin{.exact = !is_float(data.dtype)};
  for (int64_t i = 0; i < data.element_count(); ++i)
    if (const double x = element(data, i); std::isfinite(x))
      margin.scale = std::max(margin.scale, std::abs(x));
  constexpr double kSteps = 1000;
  margin.error = kSteps * unit_roundoff(data.dtype) * std::max(margin.scale, 1.0);
  return margin;
}

}  // namespace

std::optional<Fault> compare_in_full(const Exam& exam, const Verdict& a, const Verdict& b) {
  constexpr std::string_view kHow = "against another candidate";
  for (size_t q = 0; q < exam.questions.size(); ++q) {
    const ExamQuestion& question = exam.questions[q];
    for (size_t t = 0; t < exam.unit.tensors.size(); ++t) {
      const TensorData &left = a.outputs[q][t], &right = b.outputs[q][t];
      if (left.bytes.empty()) continue;
      const auto answer =
          std::ranges::find(question.answers, static_cast<int>(t), &ExamQuestion::Answer::tensor);
      const bool asked = answer != question.answers.end();
      // Values that hang on a comparison too close to call may differ anywhere.
      if (asked && std::ranges::count(answer->known, false) != 0) continue;
      const Margin margin = asked ? margin_of(*answer) : wide_margin(left);
      if (margin.exact) {
        if (const int64_t at = first_difference(left, right); at >= 0)
          return fault_at(exam, question, static_cast<int>(t), at, element(right, at), element(left, at), 0,
                          kHow);
        continue;
      }
      for (int64_t i = 0; i < left.element_count(); ++i) {
        const double x = element(left, i), y = element(right, i);
        if (!agrees(y, x, margin.at(x)))
          return fault_at(exam, question, static_cast<int>(t), i, y, x, margin.at(x), kHow);
      }
    }
  }
  return std::nullopt;
}

}  // namespace luminal::search
