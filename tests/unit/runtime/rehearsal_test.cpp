#include "runtime/rehearsal.h"

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

std::vector<int64_t> values(const Rehearsal& rehearsal, TensorIndex tensor) {
  std::vector<int64_t> list(kCount);
  std::memcpy(list.data(), rehearsal.bytes(tensor).data(), rehearsal.bytes(tensor).size());
  return list;
}

TEST(Rehearsal, KeepsEveryTensorWhereMemoryIsSeparate) {
  const Plan plan = two_launches(neighbours());
  Rehearsal rehearsal(plan, {}, count_up(), Rehearsal::Memory::Separate);
  rehearsal.run();
  EXPECT_EQ(values(rehearsal, 0)[7], 7);
  EXPECT_EQ(values(rehearsal, 1)[7], 14);
  EXPECT_EQ(values(rehearsal, 2)[7], 14 + 16);
  EXPECT_EQ(values(rehearsal, 2)[kCount - 1], 2 * (kCount - 1));
}

TEST(Rehearsal, SharesMemoryAsTheExecutorDoes) {
  const Plan plan = two_launches(neighbours());
  Rehearsal rehearsal(plan, {}, count_up(), Rehearsal::Memory::AsPlanned);
  EXPECT_EQ(rehearsal.bytes(1).data(), rehearsal.bytes(2).data());
  for (int launch = 0; launch < 2; ++launch) rehearsal.run_launch(launch);
  EXPECT_EQ(values(rehearsal, 2)[kCount - 1], 2 * (kCount - 1) + 2) << "the first one was overwritten before";
}

TEST(Rehearsal, StartsFromTheGivenDataAgain) {
  Plan plan = two_launches(elementwise(1, [](const int64_t* v) { return v[0] + 1; }, kCount));
  plan.results.clear();
  plan.updates = {{*plan.tensors[0].value, 2}};
  plan.launches[0].kernel->in_place = {{.output = 0, .input = 0}};
  Rehearsal rehearsal(plan, {}, count_up(), Rehearsal::Memory::AsPlanned);
  rehearsal.run();
  const std::vector<int64_t> once = values(rehearsal, 2);
  rehearsal.restore();
  rehearsal.run();
  EXPECT_EQ(values(rehearsal, 2), once);
  EXPECT_GT(rehearsal.sample_us(10), 0);
}

TEST(Rehearsal, SaysWhatIsNotGiven) {
  const Plan plan = two_launches(neighbours());
  EXPECT_THROW(Rehearsal(plan, {}, {}, Rehearsal::Memory::Separate), InternalError);
}

}  // namespace
}  // namespace luminal::runtime::test
