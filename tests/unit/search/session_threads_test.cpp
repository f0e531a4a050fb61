#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "base/thread.h"
#include "luminal/autograd.h"
#include "luminal/cancel.h"
#include "luminal/function.h"
#include "luminal/graph.h"
#include "search/cache/kernel_cache.h"
#include "support/files.h"
#include "support/threads.h"

// Compiled graphs that several threads run, use from inside, and stop.
namespace luminal::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using luminal::test::in_threads;

/// A state that grows by one in each run, and a result of several kernels that is worked out of it.
TEST(CpuThreads, OneCompiledGraphIsCalledFromFour) {
  Graph cx;
  cx.set_device("cpu");
  GraphTensor x = cx.tensor({64, 64}).set(std::vector<float>(64 * 64, 0.0F));
  x.assign(x + 1);
  GraphTensor y = x.matmul(x.transpose(0, 1)).softmax(1).sum(1).retrieve();
  Compiled run = cx.compile(Fast{});
  constexpr int kThreads = 4, kRuns = 25;
  const auto wrong = in_threads(kThreads, [&](int) {
    for (int k = 0; k < kRuns; ++k) {
      run();
      for (const float sum : y.data<float>())
        if (std::abs(sum - 1) > 1e-5F) throw Error("a softmax of sum " + std::to_string(sum));
    }
  });
  EXPECT_THAT(wrong, testing::Each(""));
  EXPECT_THAT(x.data<float>(), testing::Each(kThreads * kRuns));
}

TEST(CpuThreads, SizesChangeWhileOthersRun) {
  Graph cx;
  cx.set_device("cpu");
  GraphTensor x = cx.named_tensor("x", {"n", 8});
  x.set(std::vector<float>(8, 1.0F));
  GraphTensor y = (x * 2).sum(1).retrieve();
  Compiled run = cx.compile(Fast{});
  const auto wrong = in_threads(3, [&](int i) {
    for (int k = 1; k <= 20; ++k) {
      if (i == 0)
        x.set(std::vector<float>(static_cast<size_t>(8 * (k % 5 + 1)), 1.0F));
      else
        run();
    }
  });
  EXPECT_THAT(wrong, testing::Each(""));
  EXPECT_THAT(y.data<float>(), testing::Each(16));
}

TEST(CpuThreads, CodeOfARunMayNotRunItsGraph) {
  Graph cx;
  cx.set_device("cpu");
  GraphTensor x = cx.tensor({2}).set({1, 2});
  bool nested = true;
  GraphTensor y =
      (function(cx, "again", {x * 3}, {x.type()},
                [&](auto inputs, auto outputs) {
                  if (nested) cx.execute();
                  std::ranges::copy(inputs[0]->template as<float>(), outputs[0].template as<float>().begin());
                })[0] +
       1)
          .retrieve();
  EXPECT_THAT(test::error_of<Error>([&] { cx.execute(); }),
              HasSubstr("[execute] function 'again' runs the graph that is running"));
  nested = false;
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(4, 7));
}

/// A training step that takes a search of a second and more, in the process's caches or not.
GraphTensor step_of(Graph& cx) {
  cx.set_device("cpu");
  GraphTensor x = cx.tensor({32, 48}).set(std::vector<float>(32 * 48, 0.5F));
  GraphTensor w = cx.tensor({48, 40}).set(std::vector<float>(48 * 40, 0.01F));
  GraphTensor v = cx.tensor({40, 24}).set(std::vector<float>(40 * 24, 0.02F));
  GraphTensor loss = x.matmul(w).tanh().matmul(v).log_softmax(1).mean().retrieve();
  const auto gradients = cx.run_pass(Autograd({w, v}, loss));
  w.assign(w - gradients[0] * 0.1);
  v.assign(v - gradients[1] * 0.1);
  return loss;
}

TEST(CpuThreads, ASearchThatIsStoppedLeavesNothingBehindAndMayBeginAgain) {
  KernelCache::of_process().clear();
  Graph cx;
  const GraphTensor loss = step_of(cx);
  std::stop_source stop;
  cx.set_stop_token(stop.get_token());
  std::thread other([&] {  // the search has begun when it compiles
    while (KernelCache::of_process().size() == 0) std::this_thread::yield();
    stop.request_stop();
  });
  std::string report;
  try {
    report = cx.compile(Optimal{}).report();
  } catch (const Cancelled& error) {
    EXPECT_STREQ(error.what(), "[cancel] stopped before it was finished, as requested");
  }
  other.join();
  EXPECT_EQ(report, "") << "the search was done before it was stopped";
  cx.set_stop_token({});
  Compiled run = cx.compile(Fast{});
  run();
  EXPECT_LT(loss.data<float>()[0], 0);
}

TEST(CpuThreads, PlansRunOnTheThreadsThatThereAre) {
  const ThreadLimit limit(0);
  Graph cx;
  const GraphTensor loss = step_of(cx);
  cx.execute();
  EXPECT_LT(loss.data<float>()[0], 0);
}

}  // namespace
}  // namespace luminal::search
