#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/ops.h"
#include "support/files.h"

// Values in the memory of a device that the host cannot read: moved, fetched when asked for, replaced.
namespace luminal {
namespace {

using test::error_of;
using testing::ElementsAre;

int fetches = 0;

class FarValue : public DeviceValue {
 public:
  explicit FarValue(TensorData data) : data_(std::move(data)) {}
  [[nodiscard]] std::string_view device() const override { return "far"; }
  [[nodiscard]] const std::vector<int64_t>& dims() const override { return data_.dims; }
  [[nodiscard]] TensorData to_host() const override {
    ++fetches;
    return data_;
  }

 private:
  TensorData data_;
};

/// Adds 1 to the first state, far away.
class FarExecutable : public Executable {
 public:
  void run(Graph& graph, const Options&) override {
    const Value state = graph.state_updates().at(0).state;
    auto far = graph.device_value(state);
    TensorData data = far ? dynamic_cast<const FarValue&>(*far).to_host() : *graph.value(state);
    fetches -= far ? 1 : 0;  // on the device itself
    for (float& v : data.as<float>()) v += 1;
    graph.store(state, std::make_shared<FarValue>(std::move(data)), true);
  }
  [[nodiscard]] std::string report() const override { return "far"; }
};

class FarSession : public Session {
 public:
  [[nodiscard]] std::string_view device() const override { return "far"; }
  [[nodiscard]] std::unique_ptr<Executable> compile(Graph&, const CompilationMode&) override {
    return std::make_unique<FarExecutable>();
  }
  [[nodiscard]] std::shared_ptr<const DeviceValue> to_device(const TensorData& data) override {
    return std::make_shared<FarValue>(data);
  }
};

class DeviceValues : public testing::Test {
 protected:
  void SetUp() override {
    (void)session_devices();  // those of the build come first: the first one is the default
    register_session("far", [] { return std::make_shared<FarSession>(); });
    fetches = 0;
  }
  Graph cx;
  GraphTensor x = cx.tensor({2}).set(std::vector<float>{1, 2});
  Value value = x.edge().source;
};

TEST_F(DeviceValues, MoveThereAndBack) {
  cx.set_device("far");
  EXPECT_EQ(cx.device_value(value), nullptr);
  cx.to_device(x);
  ASSERT_NE(cx.device_value(value), nullptr);
  EXPECT_TRUE(cx.is_pinned(value));
  EXPECT_EQ(fetches, 0);
  EXPECT_THAT(x.data<float>(), ElementsAre(1, 2));
  EXPECT_THAT(x.data<float>(), ElementsAre(1, 2));
  EXPECT_EQ(fetches, 1);  // kept on the host as well
  cx.from_device(x);
  EXPECT_EQ(cx.device_value(value), nullptr);
  EXPECT_THAT(x.data<float>(), ElementsAre(1, 2));
  EXPECT_EQ(fetches, 1);
}

TEST_F(DeviceValues, StatesStayThereUntilTheyAreReadOrSet) {
  cx.set_device("far");
  x.assign(x + 1);
  for (int run = 0; run < 5; ++run) cx.execute();
  EXPECT_EQ(fetches, 0);
  EXPECT_THAT(x.data<float>(), ElementsAre(6, 7));
  EXPECT_EQ(fetches, 1);
  cx.execute();
  EXPECT_THAT(x.data<float>(), ElementsAre(7, 8));  // not what was fetched before
  x.set(std::vector<float>{0, 0});
  EXPECT_EQ(cx.device_value(value), nullptr);
  cx.execute();
  EXPECT_THAT(x.data<float>(), ElementsAre(1, 1));
}

TEST_F(DeviceValues, AreReadByOtherDevices) {
  cx.set_device("far");
  x.assign(x + 1);
  cx.execute();
  cx.set_device("reference");
  const GraphTensor y = (x * 10).retrieve();
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(20, 30));
  EXPECT_THAT(x.data<float>(), ElementsAre(3, 4));
}

TEST_F(DeviceValues, DevicesInHostMemoryMoveNothing) {
  cx.set_device("reference");
  const void* memory = cx.value(value)->bytes.data();
  cx.to_device(x);
  EXPECT_EQ(cx.value(value)->bytes.data(), memory);
  EXPECT_EQ(cx.device_value(value), nullptr);
}

TEST_F(DeviceValues, AnEmptyTensorIsAnError) {
  const GraphTensor empty = cx.tensor({3});
  EXPECT_THAT(error_of<Error>([&] { cx.to_device(empty); }),
              testing::StartsWith("[to_device] #1 f32[3] (made at device_values_test.cpp:120) has no value; "
                                  "it is an input; give its data with set()"));
  EXPECT_THAT(
      error_of<Error>([&] { cx.from_device(empty); }),
      testing::StartsWith(
          "[from_device] #1 f32[3] (made at device_values_test.cpp:120) has no value; it is an input"));
}

TEST_F(DeviceValues, SwapWithOthers) {
  cx.set_device("far");
  const GraphTensor y = cx.tensor({2}).set(std::vector<float>{3, 4});
  cx.to_device(x);
  cx.swap_tensors(x, y);
  EXPECT_THAT(x.data<float>(), ElementsAre(3, 4));
  EXPECT_THAT(y.data<float>(), ElementsAre(1, 2));
  EXPECT_NE(cx.device_value(y.edge().source), nullptr);
}

// --- Taking and presence

TEST_F(DeviceValues, OnlyWhatNobodyElseHoldsIsTaken) {
  auto held = cx.value(value);
  EXPECT_EQ(cx.take(value), nullptr);
  EXPECT_THAT(x.data<float>(), ElementsAre(1, 2));
  const void* memory = held->bytes.data();
  held.reset();
  const auto taken = cx.take(value);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(taken->bytes.data(), memory);
  EXPECT_EQ(cx.value(value), nullptr);
  EXPECT_EQ(cx.take(value), nullptr);
}

TEST_F(DeviceValues, PresenceCountsComputedValuesOnly) {
  GraphTensor kept = (x + 1).keep();
  const uint64_t start = cx.presence();
  x.set(std::vector<float>{5, 6});
  cx.set_device("reference");
  EXPECT_EQ(cx.presence(), start);
  cx.execute();
  const uint64_t after = cx.presence();
  EXPECT_GT(after, start);  // it is there now, and the next run reads it
  cx.execute();
  EXPECT_EQ(cx.presence(), after);
  EXPECT_THAT(kept.data<float>(), ElementsAre(6, 7));
  kept.drop();
  EXPECT_GT(cx.presence(), after);
}

}  // namespace
}  // namespace luminal
