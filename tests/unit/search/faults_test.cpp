#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "backends/device.h"
#include "luminal/luminal.h"
#include "search/cache/kernel_cache.h"
#include "search/encode/kernel_graph.h"
#include "search/session.h"
#include "search/tuning/tuner.h"
#include "search/verification/plan_check.h"
#include "support/files.h"
#include "support/kernel_like.h"
#include "support/plain_kernel.h"

// Faults seeded into whole searches: a device some of whose kernels are wrong gives right results all the
// same.
namespace luminal::search {
namespace {

using backends::Kernel;
using backends::LaunchArguments;

/// Called after a kernel's last stage ran, with everything it was given.
using Corrupt = std::function<void(const LaunchArguments&)>;

class CorruptedKernel : public test::KernelLike {
 public:
  CorruptedKernel(std::shared_ptr<const Kernel> kernel, Corrupt corrupt)
      : KernelLike(std::move(kernel)), corrupt_(std::move(corrupt)) {}
  void run(int stage, const LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    KernelLike::run(stage, arguments, begin, end);
    if (stage + 1 == stage_count() && begin == 0) corrupt_(arguments);
  }

 private:
  Corrupt corrupt_;
};

/// The CPU, some of whose kernels are wrong. Each has a name of its own, in every process, and so is kept out of what is
/// remembered of others.
class FaultyDevice : public test::CpuLike {
 public:
  using Choose = std::function<Corrupt(const codegen::Program&)>;  ///< null for what stays right
  FaultyDevice(const std::string& name, Choose choose)
      : CpuLike(fmt::format("{}-{}-{}", name, ::getpid(), ++count_)), choose_(std::move(choose)) {}
  std::atomic<int> corrupted{0};

 private:
  inline static int count_ = 0;

  std::shared_ptr<const Kernel> replaced(const codegen::Program& program,
                                         std::shared_ptr<const Kernel> kernel) override {
    const Corrupt corrupt = choose_(program);
    if (!corrupt) return kernel;
    ++corrupted;
    return std::make_shared<CorruptedKernel>(std::move(kernel), corrupt);
  }
  Choose choose_;
};

float& element(void* buffer, int64_t i) { return static_cast<float*>(buffer)[i]; }

/// Runs in a folder of its own, where replay files go.
class Faults : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::current_path(folder_.path()); }
  void TearDown() override { std::filesystem::current_path(before_); }

  [[nodiscard]] std::vector<std::string> replays() const {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("luminal-replay-")) files.push_back(entry.path());
    return files;
  }
  /// Compiles by measurement on `backend` and runs once.
  static void run(Graph& cx, std::shared_ptr<backends::Device> backend) {
    const std::string name = backend->target().name;
    const auto session = make_session({.device = name, .backend = std::move(backend)});
    register_session(name, [session] { return session; });
    cx.set_device(name);
    cx.compile(Optimal{})();
  }

  test::TemporaryFolder folder_;
  std::filesystem::path before_ = std::filesystem::current_path();
};

bool is_contraction(const codegen::Program& program) { return program.name.starts_with("contract"); }

/// Makes the kernels that are right slow, so that a busy machine does not let one of them lead: what does not lead is
/// never verified.
void linger(const LaunchArguments& /*arguments*/) {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

TEST_F(Faults, AFamilyThatIsWrongIsToldAndNotUsed) {
  // The last element of a tile's border is not written: seen by sampling.
  auto backend =
      std::make_shared<FaultyDevice>("cpu-wrong-contract", [](const codegen::Program& program) -> Corrupt {
        if (!is_contraction(program)) return linger;
        return [](const LaunchArguments& a) { element(a.buffers[2], 33 * 48 - 1) += 1; };
      });
  Graph cx;
  const auto a = cx.tensor({33, 40}).set(std::vector<float>(33 * 40, 0.5F));
  const auto b = cx.tensor({40, 48}).set(std::vector<float>(40 * 48, 2.0F));
  auto product = a.matmul(b).retrieve();
  run(cx, backend);
  EXPECT_GT(backend->corrupted, 0);
  EXPECT_THAT(product.data<float>(), testing::Each(40.0F));
  EXPECT_FALSE(replays().empty());
}

/// One element, wrong in the same way whatever the parameters, where plain loops would take too long to
/// compare with.
TEST_F(Faults, AFamilyThatIsWrongInOneElementOfALargeProductFallsByFreivaldsCheck) {
  constexpr int64_t kSize = 300;
  FaultyDevice backend("cpu-wrong-element", [](const codegen::Program& program) -> Corrupt {
    if (!is_contraction(program)) return linger;
    return [](const LaunchArguments& a) { element(a.buffers[2], 77 * kSize + 123) += 1; };
  });
  FaultyDevice right("cpu-right-element", [](const codegen::Program& program) -> Corrupt {
    return is_contraction(program) ? Corrupt() : linger;
  });
  Graph cx;
  const auto a = cx.tensor({kSize, kSize}), b = cx.tensor({kSize, kSize});
  auto product = a.matmul(b).retrieve();
  const KernelGraph program = encode(cx);
  std::vector<TuneRequest> open(1);
  open[0].spec = program.tensors.back().spec;
  Cache cache(folder_.path());
  for (FaultyDevice* each : {&backend, &right}) {
    Tuner tuner(*each, cache, cx, {.longest_plain_us = 0});
    std::vector<Tuned> tuned = tuner.tune(open, {});
    EXPECT_EQ(tuned[0].schedule, "contract");
    Tuned* winners[] = {&tuned[0]};
    tuner.confirm(winners);
    EXPECT_TRUE(tuned[0].verified);
    if (each == &right) {
      EXPECT_EQ(tuned[0].schedule, "contract");
      EXPECT_EQ(tuner.phases().proven, kSize * kSize);
    } else {
      EXPECT_NE(tuned[0].schedule, "contract");
      EXPECT_TRUE(std::ranges::any_of(
          tuned[0].tried, [](const Tried& t) { return t.rejected.find("Freivalds") != std::string::npos; }));
    }
  }
}

TEST_F(Faults, AKernelThatIsRightAloneAndWrongInPlaceRunsBesideItsInput) {
  auto backend = std::make_shared<FaultyDevice>("cpu-wrong-in-place", [](const codegen::Program&) -> Corrupt {
    return [](const LaunchArguments& a) {
      if (a.buffers[0] == a.buffers[1]) element(a.buffers[1], 5) += 1;
    };
  });
  Graph cx;
  const auto state = cx.tensor({64}).set(std::vector<float>(64, 1.0F));
  state.assign((state * 3).exp());
  run(cx, backend);
  EXPECT_GT(backend->corrupted, 0);
  EXPECT_THAT(state.data<float>(), testing::Each(testing::FloatEq(std::exp(3.0F))));
  EXPECT_FALSE(replays().empty());
}

/// Right at the upper end of the bucket, where it is timed; wrong in the tail of every other size.
TEST_F(Faults, AKernelThatIsWrongAtTheOtherEndOfItsBucketIsNotUsed) {
  auto backend =
      std::make_shared<FaultyDevice>("cpu-wrong-tail", [](const codegen::Program& program) -> Corrupt {
        if (!program.name.starts_with("map")) return linger;
        return [](const LaunchArguments& a) {
          if (a.dims[0] % 16 != 0) element(a.buffers[1], a.dims[0] - 1) += 1;
        };
      });
  Graph cx;
  GraphTensor x = cx.tensor({"n"}), y = (x * 3 + 1).retrieve();
  x.set_dyn(std::vector<float>(50, 2.0F), {50});
  run(cx, backend);
  EXPECT_GT(backend->corrupted, 0);
  EXPECT_THAT(y.data<float>(), testing::Each(7.0F));
  ASSERT_FALSE(replays().empty());
  bool at_the_bottom = false;
  for (const std::string& file : replays())
    at_the_bottom = at_the_bottom || luminal::test::content_of(file).find("n = 33") != std::string::npos;
  EXPECT_TRUE(at_the_bottom);
}

/// Zero where NaN or infinities are due: told where every bit counts.
TEST_F(Faults, InStrictModeNaNsAndInfinitiesAreJudged) {
  constexpr int64_t kCount = 64 * 64;
  for (const MathMode mode : {MathMode::Strict, MathMode::Relaxed}) {
    const bool strict = mode == MathMode::Strict;
    auto backend = std::make_shared<FaultyDevice>(strict ? "cpu-finite-strict" : "cpu-finite",
                                                  [](const codegen::Program&) -> Corrupt {
                                                    return [](const LaunchArguments& a) {
                                                      for (int64_t i = 0; i < kCount; ++i)
                                                        if (!std::isfinite(element(a.buffers[1], i)))
                                                          element(a.buffers[1], i) = 0;
                                                    };
                                                  });
    Graph cx;
    cx.set_search({.math = mode});
    auto y = (cx.tensor({64, 64}).set(std::vector<float>(kCount, 1.0F)) * 2 + 1).retrieve();
    if (strict) {
      EXPECT_THROW(run(cx, backend), InternalError) << "all kernels are wrong";
      EXPECT_FALSE(replays().empty());
    } else {
      run(cx, backend);  // this mode promises nothing of them
      EXPECT_THAT(y.data<float>(), testing::Each(3.0F));
    }
  }
}

TEST_F(Faults, ARememberedChoiceThatFallsIsForgottenAndFoundAnew) {
  FaultyDevice backend("cpu-wrong-memory", [](const codegen::Program& program) -> Corrupt {
    if (!program.name.starts_with("nest")) return nullptr;
    return [](const LaunchArguments& a) { element(a.buffers[1], 0) += 1; };
  });
  Graph cx;
  const auto x = cx.tensor({300, 300});
  auto y = x.exp().retrieve();
  const KernelGraph program = encode(cx);
  const KernelGraph::Tensor& made = program.tensors.back();
  const TensorType type{Dtype::F32, {300, 300}};
  Unit unit{.tensors = {{type, x.edge().source, {}}, {type, y.edge().source, {}}}, .kernels = {{{0}, {1}}}};
  Cache cache(folder_.path());
  const codegen::Bucket bucket;
  const auto nest = codegen::find_schedule("nest").candidates(made.spec, bucket, backend.target());
  ASSERT_FALSE(nest.empty());
  // As if imported from a machine where it was right: measured, not verified here.
  std::vector<KernelRequest> requests(1);
  requests[0].spec = made.spec;
  requests[0].implementation = {&codegen::find_schedule("nest"), nest[0].parameters};
  const auto kernel = KernelCache::of_process().make(backend, cache, requests);
  const CacheKey key = tuning_key(made.spec, bucket, backend.target());
  cache.store(key, {.schedule = "nest",
                    .parameters = nest[0].parameters,
                    .code = kernel[0].code,
                    .measured_us = 1,
                    .effort = 8});
  Tuner tuner(backend, cache, cx, {});
  std::vector<TuneRequest> open(1);
  open[0].spec = made.spec;
  open[0].unit = unit;
  std::vector<Tuned> tuned = tuner.tune(open, bucket);
  EXPECT_TRUE(tuned[0].from_cache);
  Tuned* winners[] = {&tuned[0]};
  tuner.confirm(winners);
  EXPECT_NE(tuned[0].schedule, "nest");
  EXPECT_TRUE(tuned[0].verified);
  EXPECT_FALSE(tuned[0].from_cache);
  ASSERT_TRUE(cache.find(key));
  EXPECT_EQ(cache.find(key)->schedule, tuned[0].schedule);
}

TEST_F(Faults, WhatIsNotVerifiedInTimeSaysSo) {
  FaultyDevice backend("cpu-no-time", [](const codegen::Program&) -> Corrupt { return nullptr; });
  Graph cx;
  auto y = cx.tensor({30, 30}).exp().retrieve();
  const KernelGraph program = encode(cx);
  Cache cache(folder_.path());
  Tuner tuner(backend, cache, cx, {.verify_by = Clock::now()});
  std::vector<TuneRequest> open(1);
  open[0].spec = program.tensors.back().spec;
  std::vector<Tuned> tuned = tuner.tune(open, {});
  Tuned* winners[] = {&tuned[0]};
  tuner.confirm(winners);
  EXPECT_FALSE(tuned[0].verified);
}

TEST_F(Faults, WhatTimeDidNotReachIsTriedWhereAllElseIsWrong) {
  // Without time each spec gets one kernel, and here that one is wrong.
  std::atomic<bool> first = true;
  FaultyDevice backend("cpu-first-wrong", [&](const codegen::Program&) -> Corrupt {
    if (!first.exchange(false)) return nullptr;
    return [](const LaunchArguments& a) { element(a.buffers[1], 7) += 1; };
  });
  Graph cx;
  auto y = (cx.tensor({30, 30}) * 3).sum(1).retrieve();
  const KernelGraph program = encode(cx);
  Cache cache(folder_.path());
  Tuner tuner(backend, cache, cx, {.deadline = Clock::now()});
  std::vector<TuneRequest> open(1);
  open[0].spec = program.tensors.back().spec;
  std::vector<Tuned> tuned = tuner.tune(open, {});
  Tuned* winners[] = {&tuned[0]};
  tuner.confirm(winners);
  EXPECT_EQ(backend.corrupted, 1);
  EXPECT_TRUE(tuned[0].verified);
  EXPECT_TRUE(tuned[0].kernel);
  EXPECT_FALSE(replays().empty());
}

// --- Plans

/// Output i is f of input i.
std::shared_ptr<test::PlainKernel> elementwise(std::function<float(float)> f) {
  return std::make_shared<test::PlainKernel>(8, [f = std::move(f)](void* const* buffers, int64_t i) {
    element(buffers[1], i) = f(element(buffers[0], i));
  });
}

/// y = (x * 2) + 1 over two launches; the tensor between them has no name.
runtime::Plan chain(const GraphTensor& x, const GraphTensor& y, float offset) {
  runtime::Plan plan;
  plan.tensors = {{.dims = {8}, .value = x.edge().source, .role = runtime::PlanTensor::Role::Input},
                  {.dims = {8}},
                  {.dims = {8}, .value = y.edge().source}};
  plan.launches.resize(2);
  plan.launches[0].kernel = {elementwise([](float v) { return v * 2; }), {0}, {1}, {}};
  plan.launches[1].kernel = {elementwise([offset](float v) { return v + offset; }), {1}, {2}, {}};
  plan.results = {{y.edge().source, 2}};
  return plan;
}

TEST(PlanCheck, ALawThatIsWrongBetweenUnnamedValuesIsSeenInThePlan) {
  Graph cx;
  const auto x = cx.tensor({8});
  auto y = (x * 2 + 1).retrieve();
  const runtime::Plan right = chain(x, y, 1), wrong = chain(x, y, 1.001F);
  const auto device = backends::make_null_device();
  EXPECT_FALSE(check_plan(*device, cx, right, {}, [&] { return plan_inputs(cx, right, {}, 1); }));
  const auto fault = check_plan(*device, cx, wrong, {}, [&] { return plan_inputs(cx, wrong, {}, 1); });
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, PlanFault::Kind::Value);
  EXPECT_EQ(fault->launch, 1);
}

TEST(PlanCheck, EachTensorOfAValueIsJudged) {
  Graph cx;
  const auto x = cx.tensor({8});
  auto y = (x * 2).retrieve();
  for (const float off : {0.F, 1.F}) {
    runtime::Plan plan = chain(x, y, off);
    plan.tensors[1].value = y.edge().source;
    plan.launches[1].kernel->inputs = {0};
    plan.launches[1].kernel->kernel = elementwise([off](float v) { return v * 2 + off; });
    const auto device = backends::make_null_device();
    const auto fault = check_plan(*device, cx, plan, {}, [&] { return plan_inputs(cx, plan, {}, 1); });
    ASSERT_EQ(fault.has_value(), off != 0);
    if (fault) {
      EXPECT_EQ(fault->tensor, 2);
    }
  }
}

/// What was computed gives its memory back where all together take much, the last that is needed no sooner than its
/// readers are judged.
TEST(PlanCheck, LongChainsHoldAPartOfWhatTheyCompute) {
  constexpr int kLaunches = 30;
  constexpr int64_t kCount = int64_t{1} << 24;  // 64 MB each
  for (const int wrong : {-1, kLaunches - 3}) {
    Graph cx;
    GraphTensor y = cx.tensor({kCount});
    runtime::Plan plan;
    plan.tensors = {{.dims = {kCount}, .value = y.edge().source, .role = runtime::PlanTensor::Role::Input}};
    for (int launch = 0; launch < kLaunches; ++launch) {
      y = y + 1;
      const float step = launch == wrong ? 1.5F : 1.F;
      plan.tensors.push_back({.dims = {kCount}, .value = y.edge().source});
      plan.launches.emplace_back().kernel = {
          std::make_shared<test::PlainKernel>(1,
                                              [step](void* const* buffers, int64_t) {
                                                for (int64_t i = 0; i < kCount; ++i)
                                                  element(buffers[1], i) = element(buffers[0], i) + step;
                                              }),
          {launch},
          {launch + 1},
          {}};
    }
    y.retrieve();
    plan.results = {{y.edge().source, kLaunches}};
    EXPECT_LT(check_bytes(plan, {}), separate_bytes(plan, {}) * 3 / 4);
    const auto device = backends::make_null_device();
    const auto fault = check_plan(*device, cx, plan, {}, [&] { return plan_inputs(cx, plan, {}, 1); });
    ASSERT_EQ(fault.has_value(), wrong >= 0);
    if (fault) {
      EXPECT_EQ(fault->launch, wrong);
    }
  }
}

/// Of two runs, with each tensor in memory of its own and as planned, the second need not be where one that was timed made
/// the same.
TEST(PlanCheck, ARunAsPlannedWithTheSameResultsIsNotMadeOnceMore) {
  Graph cx;
  const auto x = cx.tensor({8});
  auto y = (x * 2 + 1).retrieve();
  const SharedBytes shared(sizeof(std::atomic<int>));  // seen by the process that runs the plan
  std::atomic<int>& elements = shared.as<std::atomic<int>>()[0];
  runtime::Plan plan = chain(x, y, 1);
  plan.launches[0].kernel->kernel = elementwise([&elements](float v) {
    ++elements;
    return v * 2;
  });
  const auto device = backends::make_null_device();
  const auto inputs = [&] { return plan_inputs(cx, plan, {}, 1); };
  runtime::PlanRunner timed(*device, plan, {}, inputs(), runtime::PlanRunner::Memory::AsPlanned);
  timed.run();
  const auto digest = timed.digest();
  ASSERT_TRUE(digest.has_value());
  const auto elements_of_check = [&](std::optional<uint64_t> known) {
    elements = 0;
    EXPECT_FALSE(check_plan(*device, cx, plan, {}, inputs, MathMode::Strict, kNoDeadline, known));
    return elements.load();
  };
  EXPECT_EQ(elements_of_check(std::nullopt), 16);
  EXPECT_EQ(elements_of_check(digest), 8);
  EXPECT_EQ(elements_of_check(*digest + 1), 16);
}

/// The second kernel reads a row and its mean, and computes the mean anew, rounded in another way: what it subtracts
/// from the row is right within the bound of a mean.
TEST(PlanCheck, AKernelMayComputeAnewWhatItReads) {
  Graph cx;
  const auto x = cx.tensor({8}), row = x * 2, mean = row.mean(0);
  auto centred = (row - mean).retrieve(), scaled = (row * mean).retrieve();
  for (const float off : {0.F, 1e-7F, 1e-3F}) {
    const auto mean_of = [](const void* r) {
      float sum = 0;
      for (int64_t i = 0; i < 8; ++i) sum += element(const_cast<void*>(r), i);
      return sum / 8;
    };
    runtime::Plan plan;
    plan.tensors = {{.dims = {8}, .value = x.edge().source, .role = runtime::PlanTensor::Role::Input},
                    {.dims = {8}, .value = row.edge().source},
                    {.dims = {}, .value = mean.edge().source},
                    {.dims = {8}, .value = centred.edge().source},
                    {.dims = {8}, .value = scaled.edge().source}};
    plan.launches.resize(3);
    plan.launches[0].kernel = {elementwise([](float v) { return v * 2; }), {0}, {1}, {}};
    plan.launches[1].kernel = {std::make_shared<test::PlainKernel>(8,
                                                                   [&](void* const* buffers, int64_t i) {
                                                                     if (i == 0)
                                                                       element(buffers[1], 0) =
                                                                           mean_of(buffers[0]);
                                                                   }),
                               {1},
                               {2},
                               {}};
    plan.launches[2].kernel = {
        std::make_shared<test::PlainKernel>(8,
                                            [&, off](void* const* buffers, int64_t i) {
                                              const float own = mean_of(buffers[0]) * (1 + off),
                                                          x_i = element(buffers[0], i);
                                              element(buffers[2], i) = x_i - own;
                                              element(buffers[3], i) = x_i * element(buffers[1], 0);
                                            }),
        {1, 2},
        {3, 4},
        {}};
    plan.results = {{centred.edge().source, 3}, {scaled.edge().source, 4}};
    const auto device = backends::make_null_device();
    const auto fault = check_plan(*device, cx, plan, {}, [&] { return plan_inputs(cx, plan, {}, 1); });
    EXPECT_EQ(fault.has_value(), off > 1e-5F) << off << (fault ? fault->message : "");
  }
}

TEST(PlanCheck, TakesTheGraphsOwnDataWhereItFits) {
  Graph cx;
  const auto x = cx.tensor({8}).set(std::vector<float>(8, 7.0F));
  auto y = (x * 2 + 1).retrieve();
  const runtime::Plan plan = chain(x, y, 1);
  EXPECT_THAT(plan_inputs(cx, plan, {}, 1).at(0)->as<float>(), testing::Each(7.0F));
}

}  // namespace
}  // namespace luminal::search
