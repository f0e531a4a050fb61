// Faults of the kinds that generated kernels have, seeded by a schedule that competes with the others, and by
// a law: each is caught by verification, told with a replay file, and `luminal explain --replay` shows it
// again.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <sstream>
#include <thread>

#include "cli/command.h"
#include "codegen/schedules/specialise.h"
#include "luminal/luminal.h"
#include "search/encode/kernel_graph.h"
#include "search/session.h"
#include "search/verification/plan_check.h"
#include "search/verification/replay.h"
#include "search/verification/test_inputs.h"
#include "support/effort.h"
#include "support/files.h"
#include "support/kernel_like.h"

namespace luminal::search {
namespace {

using codegen::Bucket;
using codegen::Candidate;
using codegen::Id;
using codegen::LoopKind;
using codegen::Parameters;
using codegen::StageBuilder;
using codegen::Target;
using kernel::KernelSpec;

enum Seeded : int64_t { kNothing, kTail, kNarrow, kTerm, kBeyond, kUnwritten, kRescale, kInPlace };
Seeded seeded = kNothing;
int64_t lost_term = -1;  ///< of kTerm

constexpr codegen::Type kF32{Dtype::F32, 1}, kI64{Dtype::I64, 1};

/// Whether `left` is `right`, as a scalar of a stage.
Id is_equal(StageBuilder& b, const Expression& left, int64_t right) {
  return b.compute(ScalarOp::Eq, {b.index(left), b.constant(kI64, static_cast<double>(right))});
}

/// y[row] = sum over the columns of the body of A[row, column] and, if there is one, B[column].
codegen::Program sums(const KernelSpec& spec, Seeded fault) {
  codegen::Program program = codegen::program_for(spec, "seeded");
  const kernel::Value& value = spec.result();
  const int64_t rows = spec.outputs()[0].elements.exec({});
  const int64_t columns = spec.slots()[0].elements.exec({}) / rows;
  StageBuilder b(program, rows);
  const auto term = [&](const Expression& column) {
    std::vector<Id> operands;
    for (const kernel::Operand& operand : value.operands)
      operands.push_back(b.load(operand.slot, operand.slot == 0 ? b.task() * columns + column : column));
    return b.inline_function(value.body, operands);
  };
  const auto add = [&](Id before, const Expression& first, const Expression& count) {
    return b.loop(
        count, LoopKind::Serial, {before}, [&](const Expression& column, std::span<const Id> carried) {
          const Id next = b.compute(ScalarOp::Add, {carried[0], term(first + column)});
          return std::vector<Id>{fault == kNarrow ? b.convert(b.convert(next, Dtype::BF16), Dtype::F32)
                                                  : next};
        })[0];
  };
  // Two pieces; the term between them is lost, or the last one.
  const int64_t middle = fault == kTerm ? lost_term : columns - 1;
  Id total = add(b.constant(kF32, 0), 0, middle);
  if (fault == kTerm) total = add(total, middle + 1, columns - middle - 1);
  if (fault != kTerm && fault != kTail) total = add(total, middle, 1);
  const int out = static_cast<int>(spec.slots().size());
  const auto write = [&] { b.store(out, b.task(), total); };
  const auto last = [&] { return is_equal(b, b.task(), rows - 1); };
  if (fault == kUnwritten)
    b.if_true(b.compute(ScalarOp::Not, {last()}), write);
  else
    write();
  if (fault == kBeyond) b.if_true(last(), [&] { b.store(out, b.task() + 1, total); });
  b.finish();
  return program;
}

/// Softmax of rows with one pass for maximum and sum, which forgets to bring what was summed before a new
/// maximum down to it.
codegen::Program softmax(const KernelSpec& spec) {
  codegen::Program program = codegen::program_for(spec, "seeded");
  const auto of = [&](Monoid monoid) -> const kernel::Value& {
    return *std::ranges::find(spec.values(), monoid, &kernel::Value::monoid);
  };
  const int64_t columns = spec.extents()[static_cast<size_t>(of(Monoid::Max).reduced[0])].exec({});
  StageBuilder b(program, spec.outputs()[0].elements.exec({}) / columns);
  const auto evaluate = [&](const kernel::Value& value, Id x, Id maximum, Id sum) {
    std::vector<Id> operands;
    for (const kernel::Operand& operand : value.operands) {
      const bool is_load = operand.kind == kernel::Operand::Kind::Load;
      const bool is_sum = !is_load && spec.values()[static_cast<size_t>(operand.value)].monoid == Monoid::Add;
      operands.push_back(is_load ? x : is_sum ? sum : maximum);
    }
    return b.inline_function(value.body, operands);
  };
  const auto load = [&](const Expression& column) { return b.load(0, b.task() * columns + column); };
  const auto state = b.loop(columns, LoopKind::Serial,
                            {b.constant(kF32, -std::numeric_limits<double>::infinity()), b.constant(kF32, 0)},
                            [&](const Expression& column, std::span<const Id> carried) {
                              const Id x = load(column),
                                       maximum = b.compute(ScalarOp::Maximum, {carried[0], x});
                              const Id term = evaluate(of(Monoid::Add), x, maximum, codegen::kNone);
                              return std::vector<Id>{maximum, b.compute(ScalarOp::Add, {carried[1], term})};
                            });
  b.loop(columns, LoopKind::Serial, [&](const Expression& column) {
    b.store(1, b.task() * columns + column, evaluate(spec.result(), load(column), state[0], state[1]));
  });
  b.finish();
  return program;
}

/// Elementwise, zeros first: right, unless the output lies over the input.
codegen::Program zeros_first(const KernelSpec& spec) {
  codegen::Program program = codegen::program_for(spec, "seeded");
  const Expression elements = spec.outputs()[0].elements;
  StageBuilder zeros(program, elements);
  zeros.store(1, zeros.task(), zeros.constant(kF32, 0));
  zeros.finish();
  StageBuilder b(program, elements);
  std::vector<Id> operands(spec.result().operands.size(), b.load(0, b.task()));
  b.store(1, b.task(), b.inline_function(spec.result().body, operands));
  b.finish();
  return program;
}

/// Whether the seeded fault is about specs of this kind.
bool takes(const KernelSpec& spec) {
  if (spec.outputs().size() != 1 || !spec.symbols().empty()) return false;
  const auto values = spec.values();
  if (seeded == kRescale) return values.size() == 3 && spec.slots().size() == 1;
  if (values.size() != 1) return false;
  if (seeded == kInPlace) return !values[0].monoid && spec.slots().size() == 1;
  return seeded != kNothing && values[0].monoid == Monoid::Add;
}

std::vector<Candidate> candidates(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  if (!takes(spec)) return {};
  // As good as the best of the others, so that it is tried; in place it has to be the one that is taken.
  double least = std::numeric_limits<double>::infinity();
  for (const codegen::Schedule* other : codegen::schedules())
    if (other->name != "seeded")
      for (const Candidate& candidate : other->candidates(spec, bucket, target))
        least = std::min(least, candidate.predicted_us);
  return {{{{"fault", seeded}}, seeded == kInPlace ? 0.0 : least}};
}

codegen::Program lower(const KernelSpec& spec, const Parameters& parameters, const Bucket&, const Target&) {
  const auto fault = static_cast<Seeded>(parameters.at("fault"));
  if (fault == kRescale) return softmax(spec);
  return fault == kInPlace ? zeros_first(spec) : sums(spec, fault);
}

const codegen::Schedule kSeeded{"seeded", "wrong on purpose", candidates, lower};

/// Another kernel, and a nap.
class SlowKernel : public test::KernelLike {
 public:
  using KernelLike::KernelLike;
  void run(int stage, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
    KernelLike::run(stage, a, begin, end);
    if (begin == 0) std::this_thread::sleep_for(std::chrono::milliseconds(4));
  }
};

/// The CPU under a name of its own: what is remembered of others says nothing of it. All kernels but the
/// seeded ones are slow, so that these win: a wrong kernel that loses is never looked at closely.
class NamedCpu : public test::CpuLike {
 public:
  NamedCpu() : CpuLike(fmt::format("cpu-seeded-{}-{}", ::getpid(), number++)) {}
  std::shared_ptr<const backends::Kernel> load(std::span<const std::byte> b) override {
    return cpu_->load(b);
  }

 private:
  std::shared_ptr<const backends::Kernel> replaced(const codegen::Program& p,
                                                   std::shared_ptr<const backends::Kernel> kernel) override {
    if (p.name.starts_with("seeded")) return kernel;
    return std::make_shared<SlowKernel>(std::move(kernel));
  }
  static inline int number = 0;
};

/// Runs in a folder of its own, where replay files go.
class SeededFaults : public testing::Test {
 protected:
  static void SetUpTestSuite() { codegen::register_schedule(kSeeded); }
  void SetUp() override {
    std::filesystem::current_path(folder_.path());
    const auto backend = std::make_shared<NamedCpu>();
    device_ = backend->target().name;
    register_session(device_,
                     [session = make_session({.device = device_, .backend = backend})] { return session; });
    cx.set_device(device_);
  }
  void TearDown() override {
    seeded = kNothing;
    std::filesystem::current_path(before_);
  }

  /// Data that no rounding hides a fault in.
  GraphTensor input(const std::vector<int64_t>& dims) {
    int64_t count = 1;
    for (const int64_t d : dims) count *= d;
    std::vector<float> data;
    for (int64_t i = 0; i < count; ++i) data.push_back(static_cast<float>(i * 7 % 11) - 5);
    return cx.tensor(Shape(dims.begin(), dims.end())).set(data);
  }

  /// Compiles and runs; returns what was told.
  std::string told_by(const CompilationMode& mode) {
    testing::internal::CaptureStderr();
    cx.compile(mode)();
    return testing::internal::GetCapturedStderr();
  }
  [[nodiscard]] std::vector<float> as_by_reference(const GraphTensor& y) {
    cx.set_device("reference");
    cx.execute();
    return y.data<float>();
  }

  /// What stands in a file of the folder, in which nothing but a replay file is.
  [[nodiscard]] std::string replay_content() const {
    std::string content;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      content = test::content_of(entry.path());
    return content;
  }
  /// What the command says of each replay file.
  std::vector<std::string> replayed() {
    std::vector<std::string> said;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (!entry.path().filename().string().starts_with("luminal-replay-")) continue;
      std::ostringstream out, err;
      cli::Console console{out, err};
      const int code = cli::run(
          std::vector<std::string>{"explain", "--replay", entry.path().string(), "--loops"}, console);
      EXPECT_EQ(err.str(), "");
      EXPECT_NE(code, 0) << "not wrong any more:\n" << out.str();
      said.push_back(out.str());
    }
    return said;
  }

  void expect_caught(Seeded fault, const GraphTensor& y, const std::string& complaint) {
    seeded = fault;
    const std::string told = told_by(Optimal{});
    EXPECT_THAT(told, testing::HasSubstr("a kernel is wrong and not used (seeded"));
    EXPECT_THAT(told, testing::HasSubstr("luminal explain --replay ./luminal-replay-"));
    const auto got = y.data<float>();
    EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(1e-4F), as_by_reference(y)));
    const auto said = replayed();
    ASSERT_FALSE(said.empty());
    EXPECT_THAT(said, testing::Each(testing::HasSubstr("-- loops")));
    EXPECT_THAT(said, testing::Contains(testing::ContainsRegex("found now: .*" + complaint)));
  }

  Graph cx;
  test::TemporaryFolder folder_;
  std::filesystem::path before_ = std::filesystem::current_path();
  std::string device_;
};

TEST_F(SeededFaults, AMissingRescale) {
  GraphTensor y = input({3, 64}).softmax(-1).retrieve();
  expect_caught(kRescale, y, "must be");
}

TEST_F(SeededFaults, AnOffByOneTail) {
  GraphTensor y = (input({5, 37}) * input({37})).sum(1).retrieve();
  expect_caught(kTail, y, "must be");
}

TEST_F(SeededFaults, ABf16Accumulator) {
  GraphTensor y = (input({5, 37}) * input({37})).sum(1).retrieve();
  expect_caught(kNarrow, y, "must be");
}

TEST_F(SeededFaults, ASumOfAMillionTermsMissingOne) {
  constexpr int64_t kTerms = 1'000'000;
  // The first term that is not 0 where sums are exact.
  const auto integers = test_input("integers", {Dtype::F32, {1, kTerms}}, {}, 0, 0);
  const auto terms = integers->as<float>();
  lost_term = std::ranges::find_if(terms, [](float x) { return x != 0; }) - terms.begin();
  GraphTensor y = input({1, kTerms}).sum(1).retrieve();
  expect_caught(kTerm, y, "must be");
}

TEST_F(SeededFaults, AWriteOneElementPastATile) {
  GraphTensor y = (input({5, 37}) * input({37})).sum(1).retrieve();
  expect_caught(kBeyond, y, "signal 11|outside output");
}

TEST_F(SeededFaults, AnUnwrittenElement) {
  GraphTensor y = (input({5, 37}) * input({37})).sum(1).retrieve();
  expect_caught(kUnwritten, y, "must be");
}

/// A law that does nothing here: plans with laws of a program are run and judged as a whole in Fast mode too.
constexpr std::string_view kHarmless = R"(; view-read-twice (strict)
; Says again what a law of ours says.
(rule ((= t (Op k)) (use k i x) (= x (Op c)) (copy-only c) (= o (compose k i c)))
      ((union t t))
      :ruleset strict :name "view-read-twice")
)";

TEST_F(SeededFaults, AKernelThatIsRightAloneAndWrongInPlace) {
  seeded = kInPlace;
  const GraphTensor state = cx.tensor({64}).set(std::vector<float>(64, 1.0F));
  state.assign((state * 3).exp());
  cx.set_search({.rules = std::string(kHarmless)});
  const std::string told = told_by(Fast{});
  EXPECT_THAT(told, testing::HasSubstr("a plan is wrong and not used"));
  EXPECT_THAT(told, testing::HasSubstr("luminal explain --replay ./luminal-replay-"));
  EXPECT_THAT(state.data<float>(), testing::Each(testing::FloatEq(std::exp(3.0F))));
  EXPECT_THAT(replayed(), testing::ElementsAre(testing::HasSubstr("where the output lies over input 0")));
}

/// Every kernel is what its spec says, and its spec is not what the user wrote.
constexpr std::string_view kWrongLaw = R"(; slots-any-exchange (strict)
; Wrong: as if every kernel were symmetric.
(rule ((= t (Op k)) (use k i x) (use k j y) (< i j))
      ((union t (Op (swap k i j))))
      :ruleset strict :name "slots-any-exchange")
)";

TEST_F(SeededFaults, ALawThatIsRightOnTheSpecAndWrongOnTheUsersNodes) {
  for (const CompilationMode& mode : {CompilationMode(Fast{}), CompilationMode(Optimal{})}) {
    Graph other;
    other.set_device(device_);
    other.set_search({.rules = std::string(kHarmless) + std::string(kWrongLaw)});
    const auto x = other.tensor({4}).set(std::vector<float>{1, 2, 3, 4}),
               y = other.tensor({4}).set(std::vector<float>{9, 8, 7, 6});
    // Both orders are wanted: by the wrong law they are one value.
    auto a = (x / y).retrieve(), b = (y / x).retrieve();
    testing::internal::CaptureStderr();
    Compiled compiled = other.compile(mode);
    compiled();
    const std::string told = testing::internal::GetCapturedStderr();
    // The law and what it made wrong are named, and no other law is left out.
    EXPECT_THAT(
        told, testing::ContainsRegex("again without 'slots-any-exchange', by which f32\\[4\\] .* is wrong"));
    EXPECT_THAT(told, testing::HasSubstr("luminal explain --replay ./luminal-replay-"));
    EXPECT_THAT(compiled.details().laws_left_out, testing::ElementsAre("slots-any-exchange"));
    EXPECT_THAT(compiled.report(), testing::HasSubstr("laws left out: slots-any-exchange"));
    EXPECT_THAT(a.data<float>(), testing::ElementsAre(testing::FloatEq(1.F / 9), 0.25F,
                                                      testing::FloatEq(3.F / 7), testing::FloatEq(4.F / 6)));
    EXPECT_THAT(b.data<float>(), testing::ElementsAre(9, 4, testing::FloatEq(7.F / 3), 1.5F));
    const auto said = replayed();
    ASSERT_FALSE(said.empty());
    EXPECT_THAT(said, testing::Each(testing::ContainsRegex("found now: .*must be")));
    std::filesystem::remove_all(folder_.path());
    std::filesystem::create_directory(folder_.path());
    std::filesystem::current_path(folder_.path());
  }
}

/// The spec of the only kernel of a graph.
template <class Build>
KernelSpec spec_of(Build build) {
  Graph cx;
  build(cx.tensor({8})).retrieve();
  return encode(cx).tensors.back().spec;
}

TEST_F(SeededFaults, ALawThatIsWrongBetweenValuesNobodyNamed) {
  const GraphTensor x = cx.tensor({8}), y = (x * 2 + 1).retrieve();
  // What a wrong law might have made of it: the value in between has no name, so the kernels are judged
  // together.
  SpecStore store(MathMode::Relaxed);
  PlanFacts facts;
  runtime::Plan plan;
  plan.tensors = {{.dims = {8}, .value = x.edge().source, .role = runtime::PlanTensor::Role::Input},
                  {.dims = {8}},
                  {.dims = {8}, .value = y.edge().source}};
  const auto backend = backends::make_cpu_device();
  for (const KernelSpec& spec : {spec_of([](const GraphTensor& a) { return a * 2; }),
                                 spec_of([](const GraphTensor& a) { return a + 1.001; })}) {
    const Implementation implementation = best_by_model(spec, {}, backend->target());
    const int number = static_cast<int>(plan.launches.size());
    plan.launches.push_back(
        {.kernel = runtime::KernelLaunch{backend->compile(implementation.schedule->lower(
                                             spec, implementation.parameters, {}, backend->target())),
                                         {number},
                                         {number + 1},
                                         {}}});
    facts.kernel_of.push_back(facts.list.size());
    facts.list.push_back({store.intern(spec), implementation, {}, plan.launches.size() - 1, 1});
  }
  plan.results = {{y.edge().source, 2}};
  const auto fault = check_plan(*backend, cx, plan, {}, [&] { return plan_inputs(cx, plan, {}, 1); });
  ASSERT_TRUE(fault);
  const auto replay = replay_of(cx, plan, facts, store, *fault);
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->kernels.size(), 2U);
  EXPECT_THAT(write_replay(*replay, 1), testing::HasSubstr("luminal explain --replay"));
  EXPECT_THAT(replayed(), testing::ElementsAre(testing::ContainsRegex("found now: +tensor 2 .*must be")));
}

TEST_F(SeededFaults, AReplayFileThatIsDamagedIsRefused) {
  seeded = kTail;
  GraphTensor y = (input({5, 37}) * input({37})).sum(1).retrieve();
  (void)told_by(Optimal{});
  const std::string content = replay_content();
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string text = content;
    const size_t at = text.find(old);
    EXPECT_NE(at, std::string::npos) << old;
    return text.replace(at, old.size(), now);
  };
  EXPECT_THROW((void)replay_kernel(with("\"seeded\"", "\"no such family\"")), FormatError);
  EXPECT_THROW((void)replay_kernel(with("\"fault\": 1", "\"other\": 1")), FormatError);
  EXPECT_THROW((void)replay_kernel(with("\"luminal-replay\": 5", "\"luminal-replay\": 1")), FormatError);
  EXPECT_THROW((void)replay_kernel(with("\"in_place\": -1", "\"in_place\": 9")), FormatError);
  for (size_t length = 0; length < content.size(); length += 97)
    EXPECT_THROW((void)replay_kernel(content.substr(0, length)), FormatError) << length;
}

// Whatever stands in the file: it is judged, or refused in a line.
TEST_F(SeededFaults, AReplayFileOfOtherNumbersIsJudgedOrRefused) {
  seeded = kTail;
  GraphTensor y = (input({5, 37}) * input({37})).sum(1).retrieve();
  (void)told_by(Optimal{});
  const std::string content = replay_content();
  std::mt19937_64 random(effort::seed(1));
  int refused = 0;
  for (int64_t i = 0; i < effort::cases(200, 5000); ++i) {
    std::string damaged = content;
    for (int k = 0; k < 2; ++k) {
      size_t at = random() % damaged.size();
      while (damaged[at] == ' ' || damaged[at] == '\n') at = random() % damaged.size();
      damaged[at] = "0123456789-,:[]{}\"x."[random() % 20];
    }
    try {
      (void)replay_kernel(damaged);
    } catch (const Error& error) {
      ++refused;
      const std::string said = error.what();
      EXPECT_EQ(said.find("internal error"), std::string::npos) << said;
      EXPECT_LT(std::ranges::count(said, '\n'), 30) << said;
    }
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace luminal::search
