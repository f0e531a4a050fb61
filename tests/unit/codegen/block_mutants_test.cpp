#include <algorithm>
#include <cstring>
#include <iostream>
#include <random>

#include "codegen/schedules/ramp.h"
#include "luminal/error.h"
#include "support/effort.h"
#include "unit/codegen/block_programs.h"

// A tester of the race checker: kernels for blocks of threads that are right are made wrong in one place. The verifier,
// the checker or a comparison of results must find each of them; what none finds must give the same bits for further
// inputs as well, without a race.
namespace luminal::codegen {
namespace {

using namespace test_cases;
using Kind = Instruction::Kind;

struct Site {
  Stage* stage;
  Block* block;
  size_t position;
  [[nodiscard]] Instruction& instruction() const { return (*block)[position]; }
};

void collect(Stage& stage, Block& block, std::vector<Site>& sites) {
  for (size_t k = 0; k < block.size(); ++k) {
    sites.push_back({&stage, &block, k});
    collect(stage, block[k].body, sites);
  }
}

/// All variables of a stage as they stand in formulas.
std::vector<Expression> variables_of(const Stage& stage) {
  std::vector<Expression> list(static_cast<size_t>(stage.variable_count), 0);
  list[static_cast<size_t>(stage.task_variable)] = Expression::index(stage.task_variable, stage.tasks);
  if (stage.threads > 1)
    list[static_cast<size_t>(stage.thread_variable)] =
        Expression::index(stage.thread_variable, stage.threads);
  for_each_instruction(stage.body, [&](const Instruction& i) {
    if (i.kind != Kind::Loop) return;
    const bool plain = i.extent.to_indices().empty();
    list[static_cast<size_t>(i.variable)] =
        Expression::index(i.variable, plain ? i.extent : Expression(i.extent.range().max));
  });
  return list;
}

/// The formula with another one in place of a variable.
Expression with(const Expression& e, const Stage& stage, int variable, const Expression& other) {
  std::vector<Expression> values = variables_of(stage);
  values[static_cast<size_t>(variable)] = other;
  return e.substitute_indices(values);
}

/// A way to make a program wrong at one site; false where it changes nothing.
struct Change {
  const char* what;
  bool (*apply)(Program&, const Site&, std::mt19937_64&);
};

bool is_access(const Instruction& i) { return i.kind == Kind::Load || i.kind == Kind::Store; }

bool remove_barrier(Program&, const Site& s, std::mt19937_64&) {
  if (s.instruction().kind != Kind::Barrier) return false;
  s.block->erase(s.block->begin() + static_cast<std::ptrdiff_t>(s.position));
  return true;
}

bool divert_barrier(Program&, const Site& s, std::mt19937_64&) {
  if (s.instruction().kind != Kind::Barrier) return false;
  Stage& stage = *s.stage;
  const Type number{Dtype::I64, 1}, truth{Dtype::Bool, 1};
  const Id first = stage.value_count;
  stage.value_count += 3;
  stage.types.insert(stage.types.end(), {number, number, truth});
  const Expression half = Expression::index(stage.thread_variable, stage.threads).lt(stage.threads / 2);
  Instruction branch{.kind = Kind::If, .operands = {first + 2}, .body = {s.instruction()}};
  const Block made{{.kind = Kind::Index, .result = first, .type = number, .index = half},
                   {.kind = Kind::Compute, .result = first + 1, .type = number, .op = ScalarOp::Constant},
                   {.kind = Kind::Compute,
                    .result = first + 2,
                    .type = truth,
                    .op = ScalarOp::Ne,
                    .operands = {first, first + 1}},
                   std::move(branch)};
  const auto at = s.block->erase(s.block->begin() + static_cast<std::ptrdiff_t>(s.position));
  s.block->insert(at, made.begin(), made.end());
  return true;
}

bool shift_index(Program&, const Site& s, std::mt19937_64& random) {
  if (!is_access(s.instruction())) return false;
  s.instruction().index += random() % 2 == 0 ? 1 : -1;
  return true;
}

bool shift_bound(Program&, const Site& s, std::mt19937_64& random) {
  Instruction& i = s.instruction();
  if (i.kind != Kind::Index || !(i.index.range().min == 0 && i.index.range().max == 1)) return false;
  const std::set<int> used = i.index.to_indices();
  if (used.empty()) return false;
  const int v = *std::next(used.begin(), static_cast<std::ptrdiff_t>(random() % used.size()));
  const Expression own = variables_of(*s.stage)[static_cast<size_t>(v)];
  i.index = with(i.index, *s.stage, v, random() % 2 == 0 ? own + 1 : own - 1);
  return true;
}

bool swap_threads(Program&, const Site& s, std::mt19937_64& random) {
  Instruction& i = s.instruction();
  const int v = s.stage->thread_variable;
  if (!is_access(i) || !i.index.to_indices().contains(v)) return false;
  const Expression me = Expression::index(v, s.stage->threads);
  i.index = with(i.index, *s.stage, v,
                 random() % 2 == 0 ? Expression(s.stage->threads) - 1 - me : (me + 1) % s.stage->threads);
  return true;
}

bool change_stride(Program&, const Site& s, std::mt19937_64& random) {
  Instruction& i = s.instruction();
  const std::set<int> used = i.index.to_indices();
  if (!is_access(i) || used.empty()) return false;
  const int v = *std::next(used.begin(), static_cast<std::ptrdiff_t>(random() % used.size()));
  const Expression own = variables_of(*s.stage)[static_cast<size_t>(v)];
  i.index = with(i.index, *s.stage, v, random() % 2 == 0 ? own * 2 : own / 2);
  return true;
}

bool drop_guard(Program&, const Site& s, std::mt19937_64&) {
  if (s.instruction().kind != Kind::If) return false;
  const Block body = s.instruction().body;
  const auto at = s.block->erase(s.block->begin() + static_cast<std::ptrdiff_t>(s.position));
  s.block->insert(at, body.begin(), body.end());
  return true;
}

bool drop_mask(Program&, const Site& s, std::mt19937_64&) {
  Instruction& i = s.instruction();
  if (i.kind == Kind::Compute && i.op == ScalarOp::Select) {
    i.operands[2] = i.operands[1];
    return true;
  }
  if (i.mask == kNone) return false;
  i.mask = kNone;
  return true;
}

bool drop_tail(Program&, const Site& s, std::mt19937_64&) {
  if (s.instruction().kind != Kind::Loop) return false;
  s.instruction().extent -= 1;
  return true;
}

bool skip_task(Program&, const Site& s, std::mt19937_64&) {
  s.stage->tasks -= 1;
  return true;
}

bool shrink_memory(Program& program, const Site& s, std::mt19937_64&) {
  const int buffer = s.instruction().buffer;
  if (buffer < 0 || program.buffers[static_cast<size_t>(buffer)].space != Space::Block) return false;
  program.buffers[static_cast<size_t>(buffer)].elements -= 1;
  return true;
}

bool forget_sum(Program&, const Site& s, std::mt19937_64& random) {
  Instruction& i = s.instruction();
  if (i.kind != Kind::Loop || i.next.empty()) return false;
  const size_t k = random() % i.next.size();
  i.next[k] = i.carried[k];
  return true;
}

constexpr Change kChanges[] = {{"a barrier is removed", remove_barrier},
                               {"a barrier stands in a branch", divert_barrier},
                               {"an index is off by one", shift_index},
                               {"a bound is off by one", shift_bound},
                               {"threads are swapped", swap_threads},
                               {"a stride is another", change_stride},
                               {"a guard is dropped", drop_guard},
                               {"a mask is dropped", drop_mask},
                               {"a loop's last pass is skipped", drop_tail},
                               {"the last task is skipped", skip_task},
                               {"memory of the block is too small", shrink_memory},
                               {"a sum is forgotten", forget_sum}};

/// Numbers of all magnitudes; one of `each` floats is infinite.
TensorData wild_numbers(Dtype dtype, int64_t count, uint64_t seed, uint64_t each) {
  std::mt19937_64 random(seed);
  TensorData data(dtype, {count});
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    for (T& x : data.as<T>()) {
      const double magnitude = std::exp2(static_cast<double>(random() % 16) - 8);
      const double sign = random() % 2 == 0 ? 1 : -1;
      const bool is_infinite = is_float(dtype) && random() % each == 0;
      x = static_cast<T>(static_cast<float>(
          is_infinite ? INFINITY : sign * magnitude * (1 + static_cast<double>(random() % 1000) / 1000)));
    }
  });
  return data;
}

struct MutantRun {
  std::vector<TensorData> slots;
  DimMap dims;
  std::vector<TensorData> right;
};

bool same_bits(const TensorData& a, const TensorData& b) {
  bool same = true;
  visit_dtype(a.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < a.as<T>().size() && same; ++i) {
      const T x = a.as<T>()[i], y = b.as<T>()[i];
      const bool both_nan = std::isnan(static_cast<double>(x)) && std::isnan(static_cast<double>(y));
      same = both_nan || std::memcmp(&x, &y, sizeof x) == 0;
    }
  });
  return same;
}

/// What finds that a program is wrong; "" if nothing does.
std::string found_by(const Program& program, const std::vector<MutantRun>& runs) {
  std::string differs;
  for (const MutantRun& run : runs) {
    const RaceReport report = check_races(program, run.slots, run.dims, 1);
    if (report.found > 0) return std::string(name(report.findings[0].kind));
    for (size_t o = 0; o < run.right.size(); ++o)
      if (!same_bits(report.outputs[o], run.right[o])) differs = "results";
  }
  return differs;
}

class BlockMutants : public testing::Test {
 protected:
  struct Counts {
    int made = 0, redundant = 0;
    std::map<std::string, int> found;
    std::vector<std::string> missed;
  };

  static void add_run(std::vector<MutantRun>& runs, const Program& program, const DimMap& dims,
                      std::vector<TensorData> slots) {
    std::vector<TensorData> right = check_races(program, slots, dims, 1).outputs;
    runs.push_back({std::move(slots), dims, std::move(right)});
  }
  static std::vector<TensorData> wild_slots(const Case& c, const DimMap& dims, uint64_t seed,
                                            uint64_t infinite_each = 64) {
    std::vector<TensorData> slots;
    for (const kernel::Slot& s : c.spec.slots())
      slots.push_back(wild_numbers(s.dtype, s.elements.exec(dims), seed + slots.size(), infinite_each));
    return slots;
  }
  /// Small integers and wild numbers, also with so many infinities that some stand at the end of sums: what zeros are
  /// multiplied by there shows in no other way. Of a maximum only the greatest element is seen: each place in turn.
  [[nodiscard]] static std::vector<MutantRun> runs_of(const Program& program, const Case& c) {
    std::vector<MutantRun> runs;
    for (const DimMap& dims : c.sizes) {
      add_run(runs, program, dims, inputs_of(c.spec, dims));
      add_run(runs, program, dims, wild_slots(c, dims, 100));
      for (uint64_t seed = 200; seed < 600; seed += 100)
        add_run(runs, program, dims, wild_slots(c, dims, seed, 8));
      for (const kernel::Value& v : c.spec.values())
        if (v.monoid == Monoid::Max || v.monoid == Monoid::Min) {
          const int64_t length = group_of(c.spec.extents(), v.reduced).size().exec(dims);
          for (int64_t place = 0; place < length; ++place)
            for (const bool inner : {true, false})
              if (inner || c.spec.outputs()[0].elements != Expression(1))
                add_run(runs, program, dims,
                        extremes_at(c, dims, place, length, inner, *v.monoid == Monoid::Max));
        }
    }
    return runs;
  }
  /// The first slot has the greatest or least numbers where the axes of `length` positions, the inner ones or the outer
  /// ones of the tensor, are at `place`.
  static std::vector<TensorData> extremes_at(const Case& c, const DimMap& dims, int64_t place, int64_t length,
                                             bool inner, bool greatest) {
    std::vector<TensorData> slots = inputs_of(c.spec, dims);
    visit_dtype(slots[0].dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto elements = slots[0].as<T>();
      const int64_t count = std::ssize(elements);
      for (int64_t e = 0; e < count; ++e)
        if ((inner ? e % length : e / (count / length)) == place)
          elements[static_cast<size_t>(e)] = static_cast<T>(greatest ? 30.0F : -30.0F);
    });
    return slots;
  }
  /// Others, for those that nothing was found about.
  [[nodiscard]] static std::vector<MutantRun> further_runs(const Program& program, const Case& c,
                                                           uint64_t seed) {
    std::vector<MutantRun> runs;
    for (const DimMap& dims : c.sizes)
      for (uint64_t k = 1; k <= 4; ++k) add_run(runs, program, dims, wild_slots(c, dims, seed + 1000 * k));
    return runs;
  }

  /// `most` changes of one kind to a program.
  void change(const Program& right, const std::string& what, const Change& change, int most, const Case& c,
              const std::vector<MutantRun>& runs) {
    Counts& counts = counts_[change.what];
    for (int attempt = 0, made = 0; made < most && attempt < 40 * most; ++attempt) {
      Program mutant = right;
      std::vector<Site> sites;
      for (Stage& stage : mutant.stages) collect(stage, stage.body, sites);
      if (!change.apply(mutant, sites[random_() % sites.size()], random_)) continue;
      if (mutant.to_string() == right.to_string()) continue;
      ++made, ++counts.made;
      judge(mutant, fmt::format("{}: {}", what, change.what), right, c, runs, counts);
    }
  }

  void judge(const Program& mutant, const std::string& what, const Program& right, const Case& c,
             const std::vector<MutantRun>& runs, Counts& counts) {
    std::string found;
    try {
      verify(mutant, gpu());
    } catch (const InternalError&) {
      found = "verifier";
    }
    // What the verifier refuses for a barrier the checker has to find by itself.
    if (const bool is_run = found.empty() || std::string_view(what).ends_with("stands in a branch"); is_run) {
      const std::string by_run = found_by(mutant, runs);
      if (!found.empty() && by_run != "divergence")
        counts.missed.push_back(what + ": refused, and run without a finding");
      if (found.empty()) found = by_run;
    }
    if (!found.empty()) {
      ++counts.found[found];
    } else if (found_by(mutant, further_runs(right, c, random_() % 1000)).empty()) {
      ++counts.redundant;
    } else {
      counts.missed.push_back(what + "\n" + mutant.to_string());
    }
  }

  std::mt19937_64 random_{effort::seed(19)};
  std::map<std::string, Counts> counts_;
};

TEST_F(BlockMutants, AreAllFound) {
  std::vector<Case> cases = block_cases();
  std::ranges::shuffle(cases, random_);
  const int programs = static_cast<int>(effort::cases(3, 10)), each = static_cast<int>(effort::cases(1, 3));
  for (const Schedule* family : block_families()) {
    const std::vector<Parameters> corners = corners_of(*family);
    int made = 0;
    for (const Case& c : cases) {
      if (made == programs || family->candidates(c.spec, c.bucket, gpu()).empty()) continue;
      ++made;
      const Parameters& parameters = corners[random_() % corners.size()];
      const Program right = family->lower(c.spec, parameters, c.bucket, gpu());
      const std::vector<MutantRun> runs = runs_of(right, c);
      ASSERT_EQ(found_by(right, runs), "") << family->name << " " << c.name;
      for (const Change& one : kChanges)
        change(right, fmt::format("{} {} {}", family->name, c.name, to_string(parameters)), one, each, c,
               runs);
    }
  }
  int all = 0, redundant = 0;
  std::cout << fmt::format("{:34} {:>6} {:>10}  found by\n", "change", "made", "redundant");
  for (const auto& [what, counts] : counts_) {
    std::string by;
    for (const auto& [finder, count] : counts.found)
      by += fmt::format("{}{} {}", by.empty() ? "" : ", ", finder, count);
    std::cout << fmt::format("{:34} {:6} {:10}  {}\n", what, counts.made, counts.redundant, by);
    EXPECT_GT(counts.made, 0) << what;
    EXPECT_TRUE(!counts.found.empty() || !effort::full_effort()) << what;
    for (const std::string& missed : counts.missed) ADD_FAILURE() << missed;
    all += counts.made, redundant += counts.redundant;
  }
  std::cout << fmt::format("{} programs were changed, {} of them in what nothing depends on\n", all,
                           redundant);
  EXPECT_GE(all - redundant, effort::cases(80, 700));
}

}  // namespace
}  // namespace luminal::codegen
