#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stop_token>
#include <thread>
#include <vector>

#include "luminal/cancel.h"
#include "luminal/compile_report.h"
#include "luminal/error.h"
#include "luminal/function.h"
#include "luminal/graph.h"
#include "support/files.h"
#include "support/threads.h"

// A graph that several threads use, that is used from inside its own run, that was moved from, and that is to
// stop.
namespace luminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using luminal::test::in_threads;

TEST(Turns, RunsOfOneGraphFromSeveralThreadsTakeTurns) {
  Graph cx;
  GraphTensor count = cx.tensor({3}).set({0, 0, 0});
  count.assign(count + 1);
  GraphTensor next = (count * 2).retrieve();
  Compiled run = cx.compile(Fast{});
  constexpr int kThreads = 4, kRuns = 50;
  const auto wrong = in_threads(kThreads, [&](int i) {
    for (int k = 0; k < kRuns; ++k) {
      if (i % 2 == 0)
        run();
      else
        cx.execute();
      (void)next.data<float>();
    }
  });
  EXPECT_THAT(wrong, testing::Each(""));
  EXPECT_THAT(count.data<float>(), ElementsAre(200, 200, 200));
  EXPECT_EQ(cx.step(), 200U);
}

TEST(Turns, ValuesAreSetAndReadWhileOthersRun) {
  Graph cx;
  GraphTensor x = cx.named_tensor("x", {"n"});
  x.set(std::vector<float>{1, 2});
  GraphTensor y = (x * 2).retrieve();
  const auto wrong = in_threads(4, [&](int i) {
    for (int k = 1; k <= 50; ++k) {
      if (i == 0) x.set(std::vector<float>(static_cast<size_t>(k % 7 + 1), 3.0F));
      if (i == 1) cx.execute();
      if (i == 2 && cx.step() > 0)
        for (const float value : y.data<float>())
          if (value != 2 && value != 4 && value != 6) throw Error("read " + std::to_string(value));
      if (i == 3) (void)x.data<float>();
    }
  });
  EXPECT_THAT(wrong, testing::Each(""));
}

TEST(Turns, ThreadsWithGraphsOfTheirOwnDisturbNobody) {
  const auto wrong = in_threads(4, [](int i) {
    for (int round = 1; round <= 10; ++round) {
      Graph cx;
      GraphTensor x = cx.named_tensor("x", {"rows", 2});
      GraphTensor y = (x * (i + round)).sum(1).retrieve();
      for (const int64_t rows : {1, 3}) {
        x.set_dyn(std::vector<float>(static_cast<size_t>(2 * rows), 1.0F), {rows, 2});
        cx.execute();
        if (y.data<float>() !=
            std::vector<float>(static_cast<size_t>(rows), 2.0F * static_cast<float>(i + round)))
          throw Error("wrong: " + y.to_string());
      }
    }
  });
  EXPECT_THAT(wrong, testing::Each(""));
}

/// One function in a graph that does `inside` when it runs. What became of it.
std::string in_function(const std::function<void(Graph&, GraphTensor&)>& inside) {
  Graph cx;
  GraphTensor x = cx.tensor({2}).set({1, 2});
  const GraphTensor y = function(cx, "again", {x}, {x.type()}, [&](auto, auto outputs) {
    outputs[0].template as<float>()[0] = 7;
    inside(cx, x);
  })[0];
  GraphTensor z = (y + 1).retrieve();
  try {
    cx.execute();
  } catch (const Error& error) {
    return error.what();
  }
  EXPECT_THAT(z.data<float>(), ElementsAre(8, 1));
  return "";
}

TEST(Turns, CodeOfARunMayNotRunOrChangeItsGraph) {
  EXPECT_THAT(in_function([](Graph& cx, GraphTensor&) { cx.execute(); }),
              testing::StartsWith(
                  "[execute] function 'again' runs the graph that is running; set its inputs and read its "
                  "values there, and run it after the run has returned (made at turn_test.cpp:"));
  EXPECT_THAT(in_function([](Graph& cx, GraphTensor&) { (void)cx.compile(Fast{}); }),
              HasSubstr("[compile] function 'again' runs the graph that is running"));
  EXPECT_EQ(in_function([](Graph&, GraphTensor& x) { (void)x.exp(); }).substr(0, 48),
            "[exp] function 'again' changes the graph that is");
  EXPECT_THAT(in_function([](Graph&, GraphTensor& x) { x.keep(); }),
              HasSubstr("[keep] function 'again' changes the graph that is running; change it after"));
}

TEST(Turns, CodeOfARunReadsAndSetsValuesAndRunsOtherGraphs) {
  EXPECT_EQ(in_function([](Graph&, GraphTensor& x) {
              EXPECT_THAT(x.data<float>(), ElementsAre(1, 2));
              x.set({5, 6});
            }),
            "");
  EXPECT_EQ(in_function([](Graph&, GraphTensor&) {
              Graph other;
              GraphTensor u = other.tensor({1}).set({3});
              GraphTensor v = (u * 2).retrieve();
              other.execute();
              EXPECT_THAT(v.data<float>(), ElementsAre(6));
            }),
            "");
}

TEST(Turns, ALoaderMayNotRunItsGraph) {
  Graph cx;
  GraphTensor x = cx.named_tensor("batch", {1});
  GraphTensor y = (x + 1).retrieve();
  x.set_deferred([&] {
    cx.execute();
    return TensorData::of<float>({1}, std::vector{1.0F});
  });
  EXPECT_THAT(test::error_of<Error>([&] { cx.execute(); }),
              HasSubstr("[execute] the loader of input 'batch' runs the graph that is running"));
  x.set_deferred([&] {
    (void)(x + 2).retrieve();  // before anything is computed a graph may still grow
    return TensorData::of<float>({1}, std::vector{1.0F});
  });
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2));
}

TEST(Turns, AnErrorInsideARunLeavesTheGraphUsable) {
  Graph cx;
  bool fails = true;
  GraphTensor x = cx.tensor({1}).set({1});
  GraphTensor y = function(cx, "moody", {x}, {x.type()},
                           [&](auto inputs, auto outputs) {
                             if (fails) throw Error("not now");
                             outputs[0].template as<float>()[0] = inputs[0]->template as<float>()[0];
                           })[0]
                      .retrieve();
  EXPECT_EQ(test::error_of<Error>([&] { cx.execute(); }), "not now");
  fails = false;
  const auto wrong = in_threads(2, [&](int) { cx.execute(); });  // the turn was given back
  EXPECT_THAT(wrong, testing::Each(""));
  EXPECT_THAT(y.data<float>(), ElementsAre(1));
}

TEST(Turns, AChangeWhileAnotherThreadRunsIsAnError) {
  Graph cx;
  std::atomic<bool> inside{false}, seen{false};
  GraphTensor x = cx.tensor({1}).set({1});
  GraphTensor y = function(cx, "slow", {x}, {x.type()},
                           [&](auto, auto) {
                             inside = true;
                             while (!seen) std::this_thread::yield();
                           })[0]
                      .retrieve();
  std::thread runner([&] { cx.execute(); });
  while (!inside) std::this_thread::yield();
  const std::string added = test::error_of<Error>([&] { (void)x.exp(); });
  const std::string marked = test::error_of<Error>([&] { x.keep(); });
  seen = true;
  runner.join();
  EXPECT_THAT(added, HasSubstr("[exp] another thread is using this graph; change a graph from one thread"));
  EXPECT_THAT(marked, HasSubstr("[keep] another thread is using this graph"));
}

TEST(MovedFrom, GraphsAndCompiledOnesSaySo) {
  Graph first;
  GraphTensor x = first.tensor({1}).set({1});
  GraphTensor y = (x + 1).retrieve();
  Compiled run = first.compile(Fast{});
  Graph second = std::move(first);
  const std::string message =
      "[graph] this Graph or Compiled was moved from; use the one that it was moved to";
  EXPECT_EQ(test::error_of<Error>([&] { first.execute(); }), message);      // NOLINT: that is the point
  EXPECT_EQ(test::error_of<Error>([&] { (void)first.nodes(); }), message);  // NOLINT
  EXPECT_THAT(test::error_of<Error>([&] { first.set_dim("n", 1); }), testing::StartsWith(message));  // NOLINT
  EXPECT_EQ(test::error_of<Error>([&] { (void)first.tensor({1}); }).substr(0, message.size()),
            message);                                                       // NOLINT
  EXPECT_EQ(test::error_of<Error>([&] { (void)first.state(); }), message);  // NOLINT
  Compiled other = std::move(run);
  EXPECT_EQ(test::error_of<Error>([&] { run(); }), message);                // NOLINT
  EXPECT_EQ(test::error_of<Error>([&] { (void)run.report(); }), message);   // NOLINT
  EXPECT_EQ(test::error_of<Error>([&] { (void)run.details(); }), message);  // NOLINT
  other();
  EXPECT_THAT(y.data<float>(), ElementsAre(2));
  first = Graph();  // and one that is given a graph again is one
  EXPECT_EQ(first.node_count(), 0U);
}

TEST(Cancel, ARequestedStopEndsRunsAndCompilesUntilThereIsAnotherToken) {
  Graph cx;
  GraphTensor x = cx.tensor({1}).set({1});
  x.assign(x + 1);
  Compiled run = cx.compile(Fast{});
  std::stop_source stop;
  cx.set_stop_token(stop.get_token());
  run();
  stop.request_stop();
  EXPECT_EQ(test::error_of<Cancelled>([&] { run(); }),
            "[cancel] stopped before it was finished, as requested");
  EXPECT_THROW(cx.execute(), Cancelled);
  EXPECT_THROW((void)cx.compile(Optimal{}), Cancelled);
  EXPECT_THAT(x.data<float>(), ElementsAre(2));  // what was not run changed nothing
  cx.set_stop_token({});
  run();
  EXPECT_THAT(x.data<float>(), ElementsAre(3));
}

}  // namespace
}  // namespace luminal
