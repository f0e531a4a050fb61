#include "runtime/plan_runner.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "unit/runtime/fakes.h"

namespace luminal::runtime::test {
namespace {

constexpr int64_t kCount = 200;

/// out[i] = in[i] + in[the next one, around]: right by itself, wrong in place.
std::shared_ptr<FakeKernel> neighbours() {
  const auto body = [](const TaskView& view, int64_t) {
    for (int64_t i = 0; i < kCount; ++i)
      view.buffer(1)[i] = view.buffer(0)[i] + view.buffer(0)[(i + 1) % kCount];
  };
  return std::make_shared<FakeKernel>(
      std::vector<FakeKernel::Stage>{{[](int64_t) { return int64_t{1}; }, body}}, kCount);
}

/// input -> double it -> `last`, which may take the memory of what it reads.
Plan two_launches(std::shared_ptr<const backends::Kernel> last) {
  Graph cx;
  const auto x = cx.tensor({kCount}, Dtype::I64);
  Plan plan;
  plan.tensors = {
      {.dtype = Dtype::I64, .dims = {kCount}, .value = x.edge().source, .role = PlanTensor::Role::Input},
      {.dtype = Dtype::I64, .dims = {kCount}},
      {.dtype = Dtype::I64, .dims = {kCount}}};
  plan.launches.resize(2);
  plan.launches[0].kernel = {elementwise(1, [](const int64_t* v) { return v[0] * 2; }, kCount), {0}, {1}, {}};
  plan.launches[1].kernel = {std::move(last), {1}, {2}, {{.output = 0, .input = 0}}};
  plan.results = {{x.edge().source, 2}};
  return plan;
}

Given count_up() {
  TensorData data(Dtype::I64, {kCount});
  std::iota(data.as<int64_t>().begin(), data.as<int64_t>().end(), int64_t{0});
  return {{0, std::make_shared<const TensorData>(std::move(data))}};
}

std::vector<int64_t> values(const PlanRunner& runner, TensorIndex tensor) {
  std::vector<int64_t> list(kCount);
  std::memcpy(list.data(), runner.bytes(tensor).data(), runner.bytes(tensor).size());
  return list;
}

TEST(PlanRunner, KeepsEveryTensorWhereMemoryIsSeparate) {
  const Plan plan = two_launches(neighbours());
  PlanRunner runner(host_device(), plan, {}, count_up(), PlanRunner::Memory::Separate);
  runner.run();
  EXPECT_EQ(values(runner, 0)[7], 7);
  EXPECT_EQ(values(runner, 1)[7], 14);
  EXPECT_EQ(values(runner, 2)[7], 14 + 16);
  EXPECT_EQ(values(runner, 2)[kCount - 1], 2 * (kCount - 1));
}

TEST(PlanRunner, SharesMemoryAsTheExecutorDoes) {
  const Plan plan = two_launches(neighbours());
  PlanRunner runner(host_device(), plan, {}, count_up(), PlanRunner::Memory::AsPlanned);
  EXPECT_TRUE(runner.address(1) == runner.address(2));
  for (int launch = 0; launch < 2; ++launch) runner.run_launch(launch);
  EXPECT_EQ(values(runner, 2)[kCount - 1], 2 * (kCount - 1) + 2) << "the first one was overwritten before";
}

/// Plans that are timed against each other hold one copy of the weights.
TEST(PlanRunner, ReadsWhatNoLaunchWritesWhereItLies) {
  const Plan plan = two_launches(neighbours());
  const Given given = count_up();
  PlanRunner first(host_device(), plan, {}, given, PlanRunner::Memory::AsPlanned),
      second(host_device(), plan, {}, given, PlanRunner::Memory::Separate);
  const backends::Address lies{const_cast<std::byte*>(given.at(0)->bytes.data())};
  EXPECT_TRUE(first.address(0) == lies);
  EXPECT_TRUE(second.address(0) == lies);
  second.run();
  TensorData other(Dtype::I64, {kCount});
  std::ranges::fill(other.as<int64_t>(), int64_t{5});
  second.give(0, std::make_shared<const TensorData>(std::move(other)));
  second.run();
  EXPECT_EQ(values(second, 2)[7], 20);
  EXPECT_EQ(given.at(0)->as<int64_t>()[7], 7);
}

TEST(PlanRunner, StartsFromTheGivenDataAgain) {
  Plan plan = two_launches(elementwise(1, [](const int64_t* v) { return v[0] + 1; }, kCount));
  plan.results.clear();
  plan.updates = {{*plan.tensors[0].value, 2}};
  plan.launches[0].kernel->in_place = {{.output = 0, .input = 0}};
  PlanRunner runner(host_device(), plan, {}, count_up(), PlanRunner::Memory::AsPlanned);
  runner.run();
  const std::vector<int64_t> once = values(runner, 2);
  runner.restore();
  runner.run();
  EXPECT_EQ(values(runner, 2), once);
  EXPECT_GT(runner.sample_us(10), 0);
}

TEST(PlanRunner, TellsWhichOutputDiffersInPlaceOfAnInput) {
  const Plan plan = two_launches(neighbours());
  PlanRunner runner(host_device(), plan, {}, count_up(), PlanRunner::Memory::Separate);
  for (int launch = 0; launch < 2; ++launch) runner.run_launch(launch);
  const std::vector<int64_t> before = values(runner, 1), made = values(runner, 2);
  const auto pairs = plan.launches[1].kernel->in_place;
  EXPECT_EQ(runner.differs_in_place(1, pairs), 2) << "its last element reads what was overwritten";
  EXPECT_EQ(values(runner, 1), before) << "the input itself was overwritten";
  EXPECT_EQ(values(runner, 2), made);
  const Plan other = two_launches(elementwise(1, [](const int64_t* v) { return v[0] + 1; }, kCount));
  PlanRunner right(host_device(), other, {}, count_up(), PlanRunner::Memory::Separate);
  for (int launch = 0; launch < 2; ++launch) right.run_launch(launch);
  EXPECT_EQ(right.differs_in_place(1, pairs), std::nullopt);
}

TEST(PlanRunner, ATensorThatWasReleasedGetsMemoryAgain) {
  const Plan plan = two_launches(neighbours());
  PlanRunner runner(host_device(), plan, {}, count_up(), PlanRunner::Memory::Separate);
  for (int launch = 0; launch < 2; ++launch) runner.run_launch(launch);
  const std::vector<int64_t> made = values(runner, 2);
  runner.release(1);
  EXPECT_EQ(runner.address(1), backends::Address{});
  EXPECT_EQ(values(runner, 2), made);
  runner.run();
  EXPECT_EQ(values(runner, 1)[7], 14);
  EXPECT_EQ(values(runner, 2), made);
}

TEST(PlanRunner, DigestIsOfWhatOneRunMade) {
  Plan plan = two_launches(elementwise(1, [](const int64_t* v) { return v[0] + 1; }, kCount));
  plan.updates = {{*plan.tensors[0].value, 2}};
  PlanRunner first(host_device(), plan, {}, count_up(), PlanRunner::Memory::AsPlanned),
      second(host_device(), plan, {}, count_up(), PlanRunner::Memory::Separate);
  EXPECT_FALSE(first.digest().has_value());
  first.run(), second.run();
  ASSERT_TRUE(first.digest().has_value());
  EXPECT_EQ(first.digest(), second.digest());
  first.run();
  EXPECT_FALSE(first.digest().has_value());
  first.restore();
  first.run();
  EXPECT_EQ(first.digest(), second.digest());
  TensorData other(Dtype::I64, {kCount});
  other.as<int64_t>()[7] = 5;
  second.give(0, std::make_shared<const TensorData>(std::move(other)));
  second.restore();
  second.run();
  EXPECT_NE(first.digest(), second.digest());
}

TEST(PlanRunner, SaysWhatIsNotGiven) {
  const Plan plan = two_launches(neighbours());
  EXPECT_THROW(PlanRunner(host_device(), plan, {}, {}, PlanRunner::Memory::Separate), InternalError);
}

}  // namespace
}  // namespace luminal::runtime::test
