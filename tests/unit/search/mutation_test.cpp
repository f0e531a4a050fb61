#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <map>
#include <optional>
#include <random>

#include "backends/device.h"
#include "codegen/schedule.h"
#include "luminal/luminal.h"
#include "pipeline.h"
#include "search/tuning/implementation.h"
#include "search/verification/judge.h"
#include "search/verification/oracle.h"
#include "search/verification/repetition.h"
#include "search/verification/test_inputs.h"
#include "search/verification/verify.h"
#include "support/effort.h"
#include "support/kernel_like.h"

// A tester of the verifier: kernels of every family that are right are made wrong in one place of their loops
// and compiled. Each mutant that computes anything else must be caught.
namespace luminal::search {
namespace {

using codegen::Instruction;
using Kind = Instruction::Kind;

/// Every place of a program where something can go wrong.
struct Site {
  Instruction* instruction;
  codegen::Stage* stage;
};

void collect(codegen::Block& block, codegen::Stage& stage, std::vector<Site>& sites) {
  for (Instruction& instruction : block) {
    sites.push_back({&instruction, &stage});
    collect(instruction.body, stage, sites);
  }
}

/// Changes one thing about an instruction; "" if there is nothing to change here.
std::string mutate(const Site& site, std::mt19937_64& random) {
  Instruction& i = *site.instruction;
  const auto coin = [&] { return random() % 2 == 0; };
  switch (i.kind) {
    case Kind::Load:
    case Kind::Gather:
    case Kind::Store:
    case Kind::Scatter:
      if (i.mask != codegen::kNone && coin()) {
        i.mask = codegen::kNone;
        return "a mask is dropped";
      }
      if (i.kind == Kind::Gather || i.kind == Kind::Scatter) return "";
      if (i.type.lanes > 1 && i.stride != 0 && random() % 4 == 0) {
        i.stride = i.stride == 1 ? 2 : 1;
        return "a stride is another";
      }
      i.index = coin() ? i.index + 1 : i.index - 1;
      return i.kind == Kind::Load ? "a load is off by one" : "a store is off by one";
    case Kind::LaneMask:
      i.index = coin() ? i.index + 1 : i.index - 1;
      return "a mask is a lane longer or shorter";
    case Kind::Index:
      i.index = i.index + 1;
      return "an index is one more";
    case Kind::Shuffle:
      if (i.pattern.size() < 2) return "";
      {
        const size_t a = random() % i.pattern.size(), b = (a + 1) % i.pattern.size();
        if (i.pattern[a] == i.pattern[b]) return "";
        std::swap(i.pattern[a], i.pattern[b]);
      }
      return "two lanes are swapped";
    case Kind::Loop:
      if (!i.next.empty() && coin()) {
        const size_t k = random() % i.next.size();
        if (i.next[k] == i.carried[k]) return "";
        i.next[k] = i.carried[k];
        return "an accumulator forgets";
      }
      i.extent = i.extent - 1;
      return "a loop's last pass is skipped";
    case Kind::Compute:
      if (i.op == ScalarOp::Constant && is_float(i.type.dtype)) {
        i.bits ^= uint64_t{1} << (i.type.dtype == Dtype::F64 ? 40 : i.type.dtype == Dtype::F32 ? 12 : 4);
        return "a constant is another";
      }
      for (const auto& [from, to] : {std::pair(ScalarOp::Add, ScalarOp::Sub),
                                     {ScalarOp::Sub, ScalarOp::Add},
                                     {ScalarOp::Mul, ScalarOp::Add},
                                     {ScalarOp::Maximum, ScalarOp::Minimum}})
        if (i.op == from) {
          i.op = to;
          return "an operation is another";
        }
      return "";
    case Kind::Reduce:
      if (i.op != ScalarOp::Add) return "";
      i.op = ScalarOp::Maximum;
      return "lanes are folded by another operation";
    default:
      return "";
  }
}

/// A stage's last task never runs.
std::string mutate_stage(codegen::Stage& stage) {
  stage.tasks = stage.tasks - 1;
  return "the last task is skipped";
}

/// All threads share one workspace.
class OneWorkspace : public luminal::test::KernelLike {
 public:
  using KernelLike::KernelLike;
  int64_t shared_bytes(std::span<const int64_t> dims) const override {
    return padded(KernelLike::shared_bytes(dims)) + KernelLike::local_bytes(dims);
  }
  int64_t local_bytes(std::span<const int64_t>) const override { return 0; }
  void run(int stage, const backends::LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    backends::LaunchArguments own = arguments;
    own.local = static_cast<std::byte*>(arguments.shared) +
                padded(KernelLike::shared_bytes({arguments.dims, dims().size()}));
    KernelLike::run(stage, own, begin, end);
  }

 private:
  static int64_t padded(int64_t bytes) { return (bytes + 63) / 64 * 64; }
};

/// Tasks of the stage behind `early` do not wait for those of `early`.
class NoBarrier : public luminal::test::KernelLike {
 public:
  NoBarrier(std::shared_ptr<const backends::Kernel> kernel, int early)
      : KernelLike(std::move(kernel)), early_(early) {}
  int stage_count() const override { return KernelLike::stage_count() - 1; }
  int64_t tasks(int stage, std::span<const int64_t> dims) const override {
    if (stage != early_) return KernelLike::tasks(stage < early_ ? stage : stage + 1, dims);
    return KernelLike::tasks(early_, dims) + KernelLike::tasks(early_ + 1, dims);
  }
  void run(int stage, const backends::LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    if (stage != early_) return KernelLike::run(stage < early_ ? stage : stage + 1, arguments, begin, end);
    const int64_t first = KernelLike::tasks(early_, {arguments.dims, dims().size()});
    if (begin < first) KernelLike::run(early_, arguments, begin, std::min(end, first));
    if (end > first) KernelLike::run(early_ + 1, arguments, std::max(begin, first) - first, end - first);
  }

 private:
  int early_;
};

/// A graph of one kernel.
struct MutatedKernel {
  std::string name;
  std::function<GraphTensor(Graph&)> build;
  bool is_of_weights = false;  ///< all slots are frozen: stages of their own prepare what is packed
  bool repeats = false;        ///< the first inputs repeat, and their first positions are the measure of all
};

std::vector<MutatedKernel> subjects() {
  const auto input = [](Graph& cx, const Shape& dims) { return cx.tensor(dims); };
  return {
      {"elementwise", [=](Graph& cx) { return (input(cx, {37, 70}) * 3 + input(cx, {70})).exp(); }},
      {"transpose", [=](Graph& cx) { return input(cx, {70, 45}).transpose(0, 1).contiguous() * 2; }},
      {"padded", [=](Graph& cx) { return input(cx, {19, 33}).pad({{1, 2}, {3, 1}}) + 1; }},
      {"row sums", [=](Graph& cx) { return (input(cx, {33, 130}) * input(cx, {130})).sum(1); }},
      {"column sums", [=](Graph& cx) { return input(cx, {130, 45}).sum(0); }},
      {"maximum", [=](Graph& cx) { return input(cx, {33, 77}).max(1); }},
      {"softmax", [=](Graph& cx) { return input(cx, {17, 130}).softmax(-1); }},
      {"layer norm", [=](Graph& cx) { return input(cx, {17, 96}).layer_norm(-1); }},
      {"deviations of long rows",
       [=](Graph& cx) {
         const GraphTensor x = input(cx, {5, 2500});
         return (x - x.mean(1, true)).square().sum(1);
       }},
      {"product", [=](Graph& cx) { return input(cx, {33, 40}).matmul(input(cx, {40, 50})); }},
      {"product, relu",
       [=](Graph& cx) { return (input(cx, {20, 70}).matmul(input(cx, {70, 35})) + input(cx, {35})).relu(); }},
      {"many tasks", [=](Graph& cx) { return input(cx, {130, 64}).matmul(input(cx, {64, 260})); }},
      {"batched", [=](Graph& cx) { return input(cx, {3, 20, 17}).matmul(input(cx, {3, 17, 35})); }},
      {"convolution",
       [=](Graph& cx) {
         return conv2d(input(cx, {2, 3, 9, 11}), input(cx, {6, 3, 3, 3}), {.padding = {1, 1}});
       }},
      {"pooling", [=](Graph& cx) { return max_pool2d(input(cx, {2, 5, 12, 14}), {.kernel = {2, 2}}); }},
      {"matrix, vector", [=](Graph& cx) { return input(cx, {90, 64}).matmul(input(cx, {64, 1})); }},
      {"attention",
       [=](Graph& cx) {
         return attention(input(cx, {2, 71, 16}), input(cx, {2, 300, 16}), input(cx, {2, 300, 16}));
       }},
      {"causal attention",
       [=](Graph& cx) {
         return attention(input(cx, {2, 203, 16}), input(cx, {2, 203, 16}), input(cx, {2, 203, 16}),
                          {.causal = true});
       }},
      {"attention of one query",
       [=](Graph& cx) {
         return attention(input(cx, {3, 1, 16}), input(cx, {3, 301, 16}), input(cx, {3, 301, 16}));
       }},
      {"quantised weights",
       [=](Graph& cx) {
         return input(cx, {3, 64}).matmul(cx.tensor({40, 64}, Dtype::Q4_K).cast(Dtype::F32).transpose(0, 1));
       }},
      {"quantised weights, rounded activations",
       [=](Graph& cx) {
         const GraphTensor steps = cx.tensor({3, 2, 32}, Dtype::I8).cast(Dtype::F32);
         const GraphTensor weights = cx.tensor({40, 64}, Dtype::Q8_0).cast(Dtype::F32);
         return (steps * input(cx, {3, 2, 1})).merge_dims(1, 2).matmul(weights.transpose(0, 1));
       }},
      {"input gradient of a strided convolution",
       [=](Graph& cx) {
         const GraphTensor x = input(cx, {2, 3, 12, 14});
         const GraphTensor y = conv2d(x, input(cx, {6, 3, 3, 3}), {.stride = {2, 2}, .padding = {1, 1}});
         return cx.run_pass(Autograd({x}, (y * input(cx, {2, 6, 6, 7})).sum()))[0];
       }},
      {"experts that blocks of rows name",
       [=](Graph& cx) {
         const GraphTensor each = input(cx, {40, 1, 5, 130}).matmul(input(cx, {4, 130, 40}));
         const GraphTensor is_own = cx.tensor({40, 1}, Dtype::I64).eq(cx.arange(4));
         return is_own.unsqueeze(2).unsqueeze(3).where(each, 0).sum(1);
       }},
      {"rows of a table",
       [=](Graph& cx) {
         return cx.tensor({23}, Dtype::I64).one_hot(9).matmul(input(cx, {9, 40})) * input(cx, {40});
       }},
      {"product of weights", [=](Graph& cx) { return input(cx, {33, 40}).matmul(input(cx, {40, 50})); },
       true},
      // So many rows that no form takes all of them together: what a task keeps of rows is not what each other one keeps.
      {"rounded activations, weights in panels",
       [=](Graph& cx) {
         const GraphTensor steps = cx.tensor({5, 16, 32}, Dtype::I8).cast(Dtype::F32);
         const GraphTensor weights = cx.tensor({40, 512}, Dtype::Q4_K).cast(Dtype::F32);
         return (steps * input(cx, {5, 16, 1})).merge_dims(1, 2).matmul(weights.transpose(0, 1));
       },
       true},
      {"rows that repeat",
       [=](Graph& cx) { return input(cx, {300, 20}).matmul(input(cx, {20, 50})) + input(cx, {300, 50}); },
       false, true},
      {"elements that repeat",
       [=](Graph& cx) { return input(cx, {1100, 24}).matmul(input(cx, {24, 1})) * input(cx, {1100, 1}); },
       false, true},
      {"softmax of rows that repeat", [=](Graph& cx) { return input(cx, {300, 40}).softmax(-1); }, false,
       true},
  };
}

/// A kernel's unit between values of the graph.
Unit unit_of(const test::Searched& s, const Graph& graph, const CoverKernel& kernel) {
  Unit unit{.tensors = {}, .kernels = {{}}};
  const auto add = [&](int c, std::vector<int>& list) {
    for (const TensorId id : s.saturated.tensors_of[static_cast<size_t>(c)])
      if (const auto& value = s.kernel_graph.tensors[static_cast<size_t>(id)].value) {
        list.push_back(static_cast<int>(unit.tensors.size()));
        unit.tensors.push_back({graph.type(*value), *value, {}});
        return;
      }
    ADD_FAILURE() << "a tensor without a name";
  };
  for (const int c : kernel.inputs) add(c, unit.kernels[0].inputs);
  for (const int c : kernel.outputs) add(c, unit.kernels[0].outputs);
  return unit;
}

class Mutation : public testing::Test {
 protected:
  struct Counts {
    int made = 0, caught = 0, equal = 0, rounding = 0;
    std::vector<std::string> hardly_told, missed;
  };

  std::shared_ptr<const backends::HostKernel> compile(const codegen::Program& program) {
    try {
      codegen::verify(program);
      return std::dynamic_pointer_cast<const backends::HostKernel>(backend_->compile(program));
    } catch (const std::exception&) {
      return nullptr;  // no program
    }
  }

  /// Inputs, and what an independent kernel makes of them.
  struct Judged {
    VerificationSuite suite;
    Verdict reference;
  };
  /// A kernel of the graph that mutants are made of.
  struct Subject {
    std::string name;
    const Graph& graph;
    Unit unit;
    std::shared_ptr<const backends::Kernel> independent;
    std::optional<Repetition> repetition = {};
    std::shared_ptr<const backends::Kernel> of_first_positions = nullptr;

    [[nodiscard]] Judged judged(uint64_t seed) const {
      Judged judged{prepare_suite(graph, {}, unit, {.seed = seed}), {}};
      if (repetition) judged.suite.cases[0] = repeating_case(seed);
      const backends::Kernel* list[] = {independent.get()};
      judged.reference = verify(judged.suite, list, {.keep_outputs = true, .launches = 0});
      EXPECT_FALSE(judged.reference.fault) << name << ": " << judged.reference.fault->message;
      if (repetition) judged.reference.outputs[0] = made_at_first_positions(judged);
      accept_beyond_laws(judged.suite, judged.reference);
      return judged;
    }

    [[nodiscard]] VerificationCase repeating_case(uint64_t seed) const {
      SuiteOptions options{.seed = seed, .periods = periods_at(*repetition, unit, {})};
      options.kinds = {std::string(kInputKinds[0])};
      return prepare_suite(graph, {}, unit, options).cases[0];
    }
    [[nodiscard]] std::vector<TensorData> made_at_first_positions(const Judged& judged) const {
      VerificationSuite first = search::of_first_positions(*repetition, judged.suite);
      first.cases = {judged.suite.cases[0]};
      first.cases[0].expectations.clear();
      const backends::Kernel* list[] = {of_first_positions.get()};
      const Verdict made = verify(first, list, {.keep_outputs = true, .launches = 0});
      EXPECT_FALSE(made.fault) << name << ": " << made.fault->message;
      return repeated(*repetition, judged.suite, made.outputs[0]);
    }
  };

  /// Whether it is caught, also where launches are taken for long: other inputs then come with other splits.
  static std::optional<Fault> fault_of(const Judged& judged, const backends::Kernel& kernel, bool as_long) {
    const backends::Kernel* wrong[] = {&kernel};
    VerifyOptions options{.threads = 2, .reference = &judged.reference, .timeout = std::chrono::seconds(5)};
    if (as_long) options.soak = std::chrono::milliseconds(0), options.is_long = true;
    return verify(judged.suite, wrong, options).fault;
  }

  /// Parts of the tasks of launches that are really long compute many more elements than these small ones have. Further
  /// inputs make up for that where what is wrong shows in few of them.
  static bool is_caught_as_long(const Subject& subject, const Judged& judged,
                                const backends::Kernel& kernel) {
    constexpr uint64_t kMoreInputs = 8;
    if (fault_of(judged, kernel, true)) return true;
    for (uint64_t more = 1; more <= kMoreInputs; ++more)
      if (fault_of(subject.judged(judged.suite.seed + more), kernel, true)) return true;
    return false;
  }

  /// Up to `most` mutants of one candidate.
  void try_candidate(const Subject& subject, const Judged& judged, const codegen::Program& right,
                     const std::string& family, int most) {
    const auto& [suite, reference] = judged;
    const auto original = compile(right);
    ASSERT_TRUE(original);
    const backends::Kernel* list[] = {original.get()};
    const Verdict passed =
        verify(suite, list, {.threads = 2, .reference = &reference, .keep_outputs = true, .in_parts = false});
    ASSERT_FALSE(passed.fault) << subject.name << ": " << passed.fault->message << "\n" << right.to_string();
    Counts& counts = counts_[family];
    for (int attempt = 0, made = 0; made < most && attempt < 8 * most; ++attempt) {
      codegen::Program mutant = right;
      std::vector<Site> sites;
      for (codegen::Stage& stage : mutant.stages) collect(stage.body, stage, sites);
      const size_t at = random_() % (sites.size() + mutant.stages.size());
      const std::string what =
          at < sites.size() ? mutate(sites[at], random_) : mutate_stage(mutant.stages[at - sites.size()]);
      if (what.empty()) continue;
      const auto kernel = compile(mutant);
      if (!kernel) continue;
      ++made, ++counts.made;
      const backends::Kernel* wrong[] = {kernel.get()};
      const Verdict verdict = verify(suite, wrong,
                                     {.threads = 2,
                                      .reference = &reference,
                                      .keep_outputs = true,
                                      .in_parts = false,
                                      .timeout = std::chrono::seconds(5)});
      if (verdict.fault) {
        ++counts.caught;
        if (!is_caught_as_long(subject, judged, *kernel))
          counts.missed.push_back(fmt::format("{} ({}), as a long launch: {}; as a short one: {}",
                                              subject.name, family, what, verdict.fault->message));
      } else if (same_bits(passed, verdict)) {
        ++counts.equal;
      } else if (const Beyond beyond = beyond_rounding(suite, passed, verdict); beyond.told > 0) {
        constexpr double kHardly = 0.05;
        const double share = static_cast<double>(beyond.told) / static_cast<double>(beyond.differ);
        (share < kHardly ? counts.hardly_told : counts.missed)
            .push_back(fmt::format("{} ({}): {}; of {} results that differ the user's nodes tell {}: {}",
                                   subject.name, family, what, beyond.differ, beyond.told, beyond.first));
      } else {
        ++counts.rounding;
      }
    }
  }

  /// Mutants in which threads get in each other's way.
  void try_races(const Subject& subject, const Judged& judged, const codegen::Program& right) {
    const auto original = compile(right);
    ASSERT_TRUE(original);
    const auto try_one = [&](const backends::Kernel& kernel, const std::string& what) {
      Counts& counts = counts_["races"];
      ++counts.made;
      if (fault_of(judged, kernel, false) && fault_of(judged, kernel, true))
        ++counts.caught;
      else
        counts.missed.push_back(fmt::format("{} ({}): {}", subject.name, right.name, what));
    };
    // The stages of phases read nothing of each other, nor do two that prepare: the third one reads both.
    if (original->stage_count() > 1 && right.name != "phases")
      try_one(NoBarrier(original, preparing_stages(right) > 1 ? 1 : 0),
              "a stage does not wait for the one before");
    if (original->local_bytes({}) > 0 && original->tasks(original->stage_count() - 1, {}) > 1)
      try_one(OneWorkspace(original), "threads share their workspace");
  }

  static bool same_bits(const Verdict& a, const Verdict& b) {
    for (size_t q = 0; q < a.outputs.size(); ++q)
      for (size_t t = 0; t < a.outputs[q].size(); ++t)
        if (a.outputs[q][t].bytes != b.outputs[q][t].bytes) return false;
    return true;
  }
  /// Results of common inputs that differ by more than 1e-5 of their value, and of these what the user's nodes tell to be
  /// wrong: what is further off than twice the oracle's bound for the element, since a result may be off by the greatest
  /// bound of those of its magnitude. (Where scores of attention are 10^7, a unit in their last place is a factor e of a
  /// weight: bounds are wider than most of the results.)
  struct Beyond {
    int64_t differ = 0, told = 0;
    std::string first;  ///< of those that are told
  };
  static Beyond beyond_rounding(const VerificationSuite& suite, const Verdict& a, const Verdict& b) {
    constexpr size_t kCommonKinds = 3, kAtOnce = 64;  // elements: the oracle limits its work
    Beyond beyond;
    for (size_t q = 0; q < kCommonKinds; ++q)
      for (size_t t = 0; t < a.outputs[q].size(); ++t) {
        const auto x = a.outputs[q][t].as<float>(), y = b.outputs[q][t].as<float>();
        std::vector<int64_t> differ;
        for (size_t i = 0; i < x.size(); ++i)
          if (std::abs(x[i] - y[i]) > 1e-5F * std::max(1.0F, std::abs(x[i])))
            differ.push_back(static_cast<int64_t>(i));
        for (size_t first = 0; first < differ.size(); first += kAtOnce)
          judge(suite, suite.cases[q], t,
                std::span(differ).subspan(first, std::min(kAtOnce, differ.size() - first)), y, beyond);
      }
    return beyond;
  }
  static void judge(const VerificationSuite& suite, const VerificationCase& inputs, size_t tensor,
                    std::span<const int64_t> positions, std::span<const float> is, Beyond& beyond) {
    Oracle oracle(*suite.graph, suite.dims);
    oracle.small_integers = inputs.name == "integers";
    oracle.independent_roundings = !oracle.small_integers;
    for (size_t t = 0; t < inputs.tensors.size(); ++t)
      if (inputs.tensors[t]) oracle.set_leaf(*suite.unit.tensors[t].value, inputs.tensors[t]);
    const Oracle::Samples right = oracle.at(*suite.unit.tensors[tensor].value, positions);
    beyond.differ += static_cast<int64_t>(positions.size());
    for (size_t i = 0; i < positions.size(); ++i) {
      const double got = is[static_cast<size_t>(positions[i])], must = right.values.as<double>()[i];
      if (!right.known[i] || agrees(got, must, 2 * right.errors[i])) continue;
      if (beyond.told++ == 0)
        beyond.first =
            fault_at(suite, inputs, static_cast<int>(tensor), positions[i], got, must, right.errors[i], "")
                .message;
    }
  }

  std::shared_ptr<backends::Device> backend_ = backends::make_cpu_device();
  std::mt19937_64 random_{effort::seed(14)};
  std::map<std::string, Counts> counts_;
};

TEST_F(Mutation, WrongKernelsAreCaught) {
  const int most = static_cast<int>(effort::cases(3, 32));
  const int candidates = static_cast<int>(effort::cases(1, 3));
  CoverCosts costs{test::roofline(), nullptr, nullptr};
  costs.large_bytes = 0;  // of attention nothing but the result
  for (const MutatedKernel& mutated : subjects()) {
    Graph cx;
    const GraphTensor result = mutated.build(cx).retrieve();
    const test::Searched s = test::search(cx);
    const Cover cover = find_cover(s.saturated.cover, *s.store, costs, {});
    ASSERT_EQ(cover.kernels.size(), 1U) << mutated.name;
    const kernel::KernelSpec& found_spec = s.store->at(cover.kernels[0].spec);
    const kernel::KernelSpec spec =
        kernel::with_frozen(found_spec, std::vector<bool>(found_spec.slots().size(), mutated.is_of_weights));
    Unit unit = unit_of(s, cx, cover.kernels[0]);
    unit.kernels[0].spec = spec;
    const codegen::Schedule& nest = codegen::find_schedule("nest");
    codegen::Parameters plain = nest.candidates(spec, {}, backend_->target()).front().parameters;
    plain["lanes"] = 1;
    const auto as_loops = [&](const kernel::KernelSpec& which) {
      return compile(nest.lower(which, plain, {}, backend_->target()));
    };
    Subject subject{mutated.name, cx, unit, as_loops(spec)};
    ASSERT_TRUE(subject.independent);
    if (mutated.repeats) {
      subject.repetition = repetition_of(spec, {});
      ASSERT_TRUE(subject.repetition) << mutated.name;
      subject.of_first_positions = as_loops(subject.repetition->spec);
      ASSERT_TRUE(subject.of_first_positions);
    }
    const Judged judged = subject.judged(effort::seed(0));
    for (const codegen::Schedule* schedule : codegen::built_in_schedules()) {
      auto found = schedule->candidates(spec, {}, backend_->target());
      if (found.size() > static_cast<size_t>(candidates)) found.resize(static_cast<size_t>(candidates));
      for (const codegen::Candidate& candidate : found) {
        const codegen::Program right = schedule->lower(spec, candidate.parameters, {}, backend_->target());
        try_candidate(subject, judged, right, std::string(schedule->name), most);
        try_races(subject, judged, right);
      }
    }
  }
  std::cout << "family    mutants  caught  the same bits  rounding  hardly told  missed\n";
  for (const auto& [family, c] : counts_) {
    std::cout << fmt::format("{:8} {:8} {:7} {:14} {:9} {:12} {:7}\n", family, c.made, c.caught, c.equal,
                             c.rounding, c.hardly_told.size(), c.missed.size());
    for (const std::string& each : c.hardly_told) std::cout << each << "\n";
    EXPECT_GT(c.caught, 0) << family;
    for (const std::string& missed : c.missed) ADD_FAILURE() << missed;
  }
  for (const codegen::Schedule* schedule : codegen::built_in_schedules())
    // Those for blocks are made wrong in tests/unit/codegen/block_mutants_test.cpp.
    EXPECT_TRUE(schedule->for_blocks || counts_.contains(std::string(schedule->name)))
        << schedule->name << " took none of the graphs: add one to subjects()";
}

}  // namespace
}  // namespace luminal::search
