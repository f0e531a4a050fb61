#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "search/session.h"
#include "search/tuning/plan_search.h"
#include "support/kernel_like.h"

// Kernels that win each by itself and lose together: `Optimal` is never slower than `Fast`.
namespace luminal::search {
namespace {

using namespace std::chrono_literals;

bool tempting_is_there = false;

std::vector<codegen::Candidate> candidates(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                           const codegen::Target& target) {
  if (!tempting_is_there) return {};
  std::optional<codegen::Candidate> best;
  for (const codegen::Schedule* other : codegen::schedules()) {
    if (other->name == "tempting") continue;
    for (const codegen::Candidate& candidate : other->candidates(spec, bucket, target))
      if (!best || candidate.predicted_us < best->predicted_us) best = candidate;
  }
  return {{best->parameters, 1.2 * best->predicted_us}};
}

/// The best other kernel, under another name.
codegen::Program lower(const kernel::KernelSpec& spec, const codegen::Parameters& parameters,
                       const codegen::Bucket& bucket, const codegen::Target& target) {
  for (const codegen::Schedule* other : codegen::schedules()) {
    if (other->name == "tempting") continue;
    for (const codegen::Candidate& candidate : other->candidates(spec, bucket, target))
      if (candidate.parameters == parameters) {
        codegen::Program program = other->lower(spec, parameters, bucket, target);
        program.name = "tempting";
        return program;
      }
  }
  throw InternalError("no such candidate");
}

const codegen::Schedule kTempting{"tempting", "fast alone", candidates, lower};

/// Naps where it takes turns with others of its kind.
class Tempting : public luminal::test::KernelLike {
 public:
  using KernelLike::KernelLike;
  void run(int stage, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
    KernelLike::run(stage, a, begin, end);
    if (begin != 0 || stage != 0) return;
    turns = last == this ? 0 : turns + 1;
    last = this;
    if (turns > 1) std::this_thread::sleep_for(10ms);
  }

 private:
  static inline std::atomic<const void*> last = nullptr;
  static inline std::atomic<int> turns = 0;
};

class Steady : public luminal::test::KernelLike {
 public:
  using KernelLike::KernelLike;
  void run(int stage, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
    KernelLike::run(stage, a, begin, end);
    if (begin == 0 && stage == 0) std::this_thread::sleep_for(1ms);
  }
};

class TemptedCpu : public luminal::test::CpuLike {
 public:
  TemptedCpu() : CpuLike("cpu-tempted-" + std::to_string(::getpid())) {}

 private:
  std::shared_ptr<const backends::Kernel> replaced(const codegen::Program& program,
                                                   std::shared_ptr<const backends::Kernel> kernel) override {
    if (program.name == "tempting") return std::make_shared<Tempting>(std::move(kernel));
    return std::make_shared<Steady>(std::move(kernel));
  }
};

TEST(Optimal, TakesFastsPlanUnlessAnotherIsFaster) {
  const auto taken = [](std::vector<double> us, std::optional<size_t> by_model) {
    return plan_to_take(us, by_model);
  };
  EXPECT_EQ(taken({100}, {}), 0U);
  EXPECT_EQ(taken({100, 99, 98.6}, {}), 0U) << "none is clearly faster";
  EXPECT_EQ(taken({100, 98, 97.9}, {}), 2U);
  EXPECT_EQ(taken({100, 101}, 1), 0U);
  EXPECT_EQ(taken({100, 100}, 1), 1U) << "not faster";
  EXPECT_EQ(taken({100, 99.5}, 1), 1U) << "a little slower";
  EXPECT_EQ(taken({100, 98, 99}, 2), 1U);
  EXPECT_EQ(taken({100, 98, 97}, 2), 2U);
}

TEST(Optimal, KeepsTheFasterPlanOfFastModeAndSaysSo) {
  codegen::register_schedule(kTempting);
  tempting_is_there = true;
  const auto backend = std::make_shared<TemptedCpu>();
  const std::string device = backend->target().name;
  const auto session = make_session({.device = device, .backend = backend});
  register_session(device, [session] { return session; });
  Graph cx;
  cx.set_device(device);
  const GraphTensor x = cx.tensor({32, 8}).set(std::vector<float>(256, 0.5F));
  GraphTensor y = ((x * 2).sum(1).graph_break().exp() + 1).retrieve();
  const CompileReport fast = cx.compile(Fast{}).details();
  Compiled compiled = cx.compile(Optimal{});
  tempting_is_there = false;
  const CompileReport report = compiled.details();
  EXPECT_THAT(report.note, testing::HasSubstr("the plan of Fast mode is kept"));
  EXPECT_EQ(report.plan_key, fast.plan_key);
  EXPECT_EQ(report.measured_us, report.fast_us);
  ASSERT_EQ(report.kernels.size(), 2U);
  for (const KernelReport& kernel : report.kernels) {
    EXPECT_NE(kernel.schedule, "tempting");
    const auto left = std::ranges::find(kernel.rejected, "tempting", &KernelReport::Rejected::schedule);
    ASSERT_NE(left, kernel.rejected.end());
    EXPECT_EQ(left->reason, "faster alone, slower in the whole plan");
    EXPECT_LT(left->measured_us, kernel.measured_us);
  }
  compiled();
  EXPECT_THAT(y.data<float>(), testing::Each(testing::FloatNear(std::exp(8.F) + 1, 1e-2F)));
}

}  // namespace
}  // namespace luminal::search
