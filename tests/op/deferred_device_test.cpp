#include "support/deferred_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "graph/data_input.h"
#include "luminal/luminal.h"
#include "support/files.h"
#include "support/random_runs.h"

/// A device that shares no memory with the host and does everything late (tests/support/deferred_device.h)
/// runs what the CPU runs; and it would show if the compiler relied on shared memory, or forgot a copy or to
/// wait.
namespace luminal {
namespace {

using backends::Address;
using backends::Buffer;
using test::DeferredDevice;
using test::error_of;
using Omission = DeferredDevice::Omission;

/// The tests of this program find the device by its name.
class WithDeferredDevice : public testing::Environment {
  void SetUp() override { test::add_deferred_device(); }
};
[[maybe_unused]] const testing::Environment* const kWithDeferredDevice =
    testing::AddGlobalTestEnvironment(new WithDeferredDevice);

DeferredDevice& deferred() { return dynamic_cast<DeferredDevice&>(*backends::find_device("deferred")); }

// --- The device itself

TEST(DeferredDevice, WorkIsSeenWhenItIsWaitedFor) {
  DeferredDevice device;
  const Buffer memory(device, 64);
  const auto stream = device.make_stream();
  int64_t late = 0;
  bool ever_late = false;
  for (int64_t i = 1; i <= 100; ++i) {
    stream->upload(&i, memory.address(), 8);
    stream->copy(memory.address(), memory.address() + 8, 8);
    stream->download(memory.address() + 8, &late, 8);
    ever_late = ever_late || device.queued() > 0;
    stream->synchronise();
    ASSERT_EQ(late, i);
  }
  EXPECT_TRUE(ever_late);
}

TEST(DeferredDevice, StreamsWaitForEachOtherByEventsAlone) {
  DeferredDevice device;
  const Buffer memory(device, 64);
  const auto writer = device.make_stream(), reader = device.make_stream();
  const auto begin = device.make_event(), written = device.make_event();
  bool ever_unordered = false;
  for (int64_t i = 1; i <= 200; ++i) {
    int64_t got = 0;
    const bool ordered = i % 2 == 0;
    writer->record(*begin);
    writer->upload(&i, memory.address(), 8);
    writer->record(*written);
    if (ordered) reader->wait(*written);
    reader->download(memory.address(), &got, 8);
    reader->synchronise();
    written->wait();
    EXPECT_GE(device.elapsed_us(*begin, *written), 0);
    ASSERT_TRUE(got == i || !ordered);
    ever_unordered = ever_unordered || got != i;
  }
  EXPECT_TRUE(ever_unordered);
}

TEST(DeferredDevice, WhatDriversLeaveUndefinedIsAnError) {
  DeferredDevice device;
  const auto stream = device.make_stream();
  std::vector<float> values(4);
  const auto message_of = [&](const std::function<void()>& queue) {
    return error_of<DeviceError>([&] {
      queue();
      stream->synchronise();
    });
  };
  const Buffer memory(device, 16);
  stream->download(memory.address(), values.data(), 16);
  stream->synchronise();
  EXPECT_THAT(values, testing::Each(testing::Truly([](float x) { return std::isnan(x); })));
  EXPECT_EQ(message_of([&] { stream->upload(values.data(), memory.address() + 8, 16); }),
            "[deferred] bytes 8 to 24 of 16");
  EXPECT_THAT(message_of([&] { stream->copy(Address{values.data()}, memory.address(), 16); }),
              testing::HasSubstr("is no memory of the device any more, or never was"));
  EXPECT_THAT(message_of([&] {
                const auto blocker = device.make_event();
                const auto other = device.make_stream();
                for (int i = 0; i < 50; ++i) other->fill(memory.address(), std::byte{0}, 16);
                other->record(*blocker);
                stream->wait(*blocker);
                const Buffer freed(device, 16);
                stream->fill(freed.address(), std::byte{0}, 16);
              }),
              testing::HasSubstr("is no memory of the device any more, or never was"));
  const auto never = device.make_event();
  EXPECT_THROW((void)device.elapsed_us(*never, *never), DeviceError);
  stream->synchronise();  // told once
}

// --- Graphs on it

std::vector<float> counting(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 13) / 8 - 0.7F);
  return values;
}

TEST(OnTheDeferredDevice, RandomGraphsAreWhatTheyShouldBe) {
  test::expect_random_graphs_as_reference("deferred");
}

/// The whole search: candidates timed by the device's events, judged by copies, whole plans beside each
/// other.
TEST(OnTheDeferredDevice, SearchesAreWhatTheyAreElsewhere) {
  Graph cx;
  cx.set_device("deferred");
  const GraphTensor x = cx.tensor({24, 40}).set(counting(24 * 40)), w = cx.tensor({40, 16});
  GraphTensor(w).set(counting(40 * 16));
  const GraphTensor product = x.matmul(w), y = product.softmax(1).retrieve(),
                    sums = (product.sum(0) * 2).retrieve();
  Compiled compiled = cx.compile(Optimal{});
  compiled();
  const std::vector<float> got = y.data<float>(), got_sums = sums.data<float>();
  const CompileReport report = compiled.details();
  EXPECT_EQ(report.device, "deferred");
  for (const KernelReport& kernel : report.kernels) EXPECT_TRUE(kernel.verified) << kernel.name;
  EXPECT_GT(deferred().launches(), 0);
  cx.set_device("reference");
  cx.execute();
  EXPECT_THAT(got, testing::Pointwise(testing::FloatNear(1e-5F), y.data<float>()));
  EXPECT_THAT(got_sums, testing::Pointwise(testing::FloatNear(1e-3F), sums.data<float>()));
}

/// Two layers, their loss, and the step of an optimizer with momentum.
struct Training {
  Graph cx;
  GraphTensor x = cx.tensor({"batch", 12}), target = cx.tensor({"batch", 3});
  GraphTensor first = cx.tensor({12, 16}), second = cx.tensor({16, 3}), loss;
  std::unique_ptr<training::SGD> optimizer;

  explicit Training(const char* device) {
    loss = training::mse(x.matmul(first).relu().matmul(second), target);
    const auto gradients = cx.run_pass(Autograd({first, second}, loss));
    optimizer =
        std::make_unique<training::SGD>(cx, std::vector{first, second}, gradients,
                                        training::SGD::Options{.learning_rate = 0.05, .momentum = 0.9});
    loss.retrieve();
    first.set(counting(12 * 16));
    second.set(counting(16 * 3));
    cx.set_device(device);
  }
  float step(int64_t batch) {
    x.set_dyn(counting(batch * 12), {batch, 12});
    target.set_dyn(counting(batch * 3), {batch, 3});
    cx.execute();
    return loss.data<float>()[0];
  }
};

TEST(OnTheDeferredDevice, TrainingFollowsTheReference) {
  Training here("deferred"), reference("reference");
  size_t allocations = 0;
  for (int step = 0; step < 12; ++step) {
    const int64_t batch = step % 3 == 2 ? 5 : 8;
    ASSERT_NEAR(here.step(batch), reference.step(batch), 1e-4) << "step " << step;
    if (step == 6) allocations = deferred().allocations();
  }
  EXPECT_LE(deferred().allocations(), allocations) << "a run keeps nothing that the next one does not use";
  EXPECT_THAT(here.first.data<float>(),
              testing::Pointwise(testing::FloatNear(1e-4F), reference.first.data<float>()));
  // What a user reads stays readable, and what a user sets is taken.
  here.second.set(counting(16 * 3));
  reference.second.set(counting(16 * 3));
  EXPECT_NEAR(here.step(8), reference.step(8), 1e-4);
}

/// Keys of a growing sequence: a state of which each run writes one row and reads all.
struct Decoding {
  Graph cx;
  GraphTensor query = cx.tensor({1, 6}), place = cx.tensor({1, 6}, Dtype::I64), keys = cx.tensor({8, 6});
  GraphTensor scores;

  explicit Decoding(const char* device) {
    const GraphTensor next = keys.scatter(0, place, query * 0.5F);
    scores = query.matmul(next.transpose(0, 1)).softmax(1).retrieve();
    keys.assign(next);
    keys.set(std::vector<float>(48, 0));
    cx.set_device(device);
  }
  std::vector<float> token(int64_t at) {
    query.set(std::vector<float>(6, static_cast<float>(at % 3) - 0.5F));
    place.set(std::vector<int64_t>(6, at));
    cx.execute();
    return scores.data<float>();
  }
};

TEST(OnTheDeferredDevice, AStateGrowsRowByRow) {
  Decoding here("deferred"), reference("reference");
  for (int64_t at = 0; at < 8; ++at)
    ASSERT_THAT(here.token(at), testing::Pointwise(testing::FloatNear(1e-5F), reference.token(at))) << at;
  EXPECT_NE(here.cx.device_value(here.keys.edge().source), nullptr) << "it lies there between runs";
  const auto held = here.cx.value(here.keys.edge().source);
  const std::vector<float> before(held->as<float>().begin(), held->as<float>().end());
  (void)here.token(0);
  EXPECT_THAT(held->as<float>(), testing::ElementsAreArray(before)) << "a reader's copy does not change";
}

/// Host code in the middle, and results that are inputs or constants.
TEST(OnTheDeferredDevice, HostOpsGetCopies) {
  Graph cx;
  cx.set_device("deferred");
  const GraphTensor x = cx.tensor({3}).set(std::vector<float>{3, 1, 2});
  const GraphTensor sorted = function(cx, "sort", {x * 2}, {x.type()}, [](auto inputs, auto outputs) {
    const auto from = inputs[0]->template as<float>();
    std::ranges::partial_sort_copy(from, outputs[0].template as<float>());
  })[0];
  const GraphTensor y = (sorted + x).retrieve(), plain = (cx.constant(2.0F) + 0).retrieve();
  for (int run = 0; run < 3; ++run) {
    cx.execute();
    EXPECT_THAT(y.data<float>(), testing::ElementsAre(5, 5, 8));
    EXPECT_THAT(plain.data<float>(), testing::ElementsAre(2));
  }
}

TEST(OnTheDeferredDevice, AFailedRunLeavesStatesAsTheyWere) {
  Graph cx;
  cx.set_device("deferred");
  GraphTensor x = cx.tensor({2}).set(std::vector<float>{1, 2}), state = cx.tensor({2});
  state.set(std::vector<float>{5, 6});
  bool fails = true;
  const GraphTensor checked = function(cx, "check", {x + 1}, {x.type()}, [&](auto inputs, auto outputs) {
    if (fails) throw Error("[check] not now");
    std::ranges::copy(inputs[0]->template as<float>(), outputs[0].template as<float>().begin());
  })[0];
  state.assign(state * 2 + checked);
  for (int run = 0; run < 2; ++run) {
    EXPECT_THROW(cx.execute(), Error);
    EXPECT_THAT(state.data<float>(), testing::ElementsAre(5, 6));
  }
  fails = false;
  cx.execute();
  EXPECT_THAT(state.data<float>(), testing::ElementsAre(12, 15));
  fails = true;
  EXPECT_THROW(cx.execute(), Error);
  EXPECT_THAT(state.data<float>(), testing::ElementsAre(12, 15));
}

/// Other devices read what lies there, and the other way round.
TEST(OnTheDeferredDevice, ValuesMoveBetweenDevices) {
  Graph cx;
  GraphTensor state = cx.tensor({2}).set(std::vector<float>{1, 2});
  state.assign(state * 3);
  for (const char* device : {"deferred", "cpu", "deferred", "reference", "deferred"}) {
    cx.set_device(device);
    cx.execute();
  }
  EXPECT_THAT(state.data<float>(), testing::ElementsAre(243, 486));
  cx.to_device(state);
  ASSERT_NE(cx.device_value(state.edge().source), nullptr);
  EXPECT_EQ(cx.device_value(state.edge().source)->device(), "deferred");
  cx.from_device(state);
  EXPECT_EQ(cx.device_value(state.edge().source), nullptr);
  EXPECT_THAT(state.data<float>(), testing::ElementsAre(243, 486));
}

// --- It is able to fail

/// Runs what needs uploads, downloads around host code, a copy of a state that is held, and waiting. Returns
/// all that came of it.
std::vector<float> everything() {
  std::vector<float> all;
  const auto add = [&](const TensorData& data) {
    std::ranges::copy(data.as<float>(), std::back_inserter(all));
  };
  Graph cx;
  cx.set_device("deferred");
  const GraphTensor x = cx.tensor({2}).set(std::vector<float>{4, 3});
  const GraphTensor negated = function(cx, "negate", {x * 2}, {x.type()}, [](auto inputs, auto outputs) {
    std::ranges::transform(inputs[0]->template as<float>(), outputs[0].template as<float>().begin(),
                           std::negate<>());
  })[0];
  const GraphTensor y = (negated + x).retrieve();
  cx.execute();
  add(*cx.value(y.edge().source));

  Graph counter;
  counter.set_device("deferred");
  GraphTensor state = counter.tensor({2}).set(std::vector<float>{1, 2});
  state.assign(state + 1);
  std::shared_ptr<const DeviceValue> held;  // so that the next run updates a copy
  for (int run = 0; run < 3; ++run) {
    counter.execute();
    held = counter.device_value(state.edge().source);
    add(held->to_host());
  }
  return all;
}

TEST(OnTheDeferredDevice, AForgottenStepIsSeen) {
  const std::vector<float> right = everything();
  EXPECT_THAT(right, testing::ElementsAre(-4, -3, 2, 3, 3, 4, 4, 5));
  for (const Omission omission :
       {Omission::Upload, Omission::Download, Omission::Copy, Omission::Synchronise}) {
    deferred().omit(omission);
    bool seen = false;
    try {
      const std::vector<float> got = everything();
      seen = got != right;
    } catch (const std::exception&) {
      seen = true;
    }
    deferred().omit(Omission::None);
    EXPECT_TRUE(seen) << "omission " << static_cast<int>(omission);
  }
  EXPECT_EQ(everything(), right);
}

}  // namespace
}  // namespace luminal
