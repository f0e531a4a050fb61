#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cmath>
#include <random>
#include <thread>
#include <utility>

#include "base/stopwatch.h"
#include "cli/search_line.h"
#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "luminal/search_progress.h"
#include "search/cache/kernel_cache.h"
#include "search/verification/contain.h"
#include "support/environment.h"

// How long searches take, what they tell meanwhile, and how they end early.
namespace luminal::search {
namespace {

using namespace std::chrono_literals;

/// A training step of a small language model, one block. Sizes differ, so that nothing is remembered.
struct GptStep {
  Graph cx;
  GraphTensor loss;

  explicit GptStep(int64_t size, std::string_view device = "cpu") {
    constexpr int64_t kTokens = 16, kVocabulary = 33;
    cx.set_device(device);
    const nn::Embedding embed(cx, kVocabulary, size);
    const nn::TransformerEncoderBlock block(
        cx, size, 2, {.dim_feedforward = 2 * size, .dropout = 0, .batch_first = true, .norm_first = true});
    std::vector<GraphTensor> weights = nn::params(embed);
    for (const GraphTensor& weight : nn::params(block)) weights.push_back(weight);
    int seed = 0;
    for (GraphTensor& weight : weights) {
      TensorData data(Dtype::F32, exec(weight.dims(), {}));
      for (float& x : data.as<float>()) {
        ++seed;
        x = 0.3F * std::sin(static_cast<float>(seed * seed % 1009));
      }
      weight.set(std::move(data));
    }
    std::vector<int32_t> tokens(kTokens), next(kTokens);
    for (int64_t i = 0; i < kTokens; ++i)
      tokens[static_cast<size_t>(i)] = static_cast<int32_t>(i * 5 % kVocabulary),
      next[static_cast<size_t>(i)] = static_cast<int32_t>(i * 7 % kVocabulary);
    const GraphTensor in = cx.tensor({1, kTokens}, Dtype::I32).set(tokens);
    const GraphTensor out = cx.tensor({kTokens}, Dtype::I32).set(next);
    const GraphTensor hidden = block.forward(embed.forward(in), {.causal = true});
    const GraphTensor logits = hidden.merge_dims(0, 1).matmul(embed.weight.permute({1, 0}));
    loss = training::cross_entropy(logits, out).retrieve();
    const training::SGD update(cx, weights, cx.run_pass(Autograd(weights, loss)), {.learning_rate = 0.01});
  }
  /// The losses of two steps.
  std::pair<float, float> losses(Compiled& compiled) {
    compiled();
    const float first = loss.item();
    compiled();
    return {first, loss.item()};
  }
};

double seconds_of(GptStep& step, const CompilationMode& mode, CompileReport* report = nullptr) {
  KernelCache::of_process().clear();
  const auto start = std::chrono::steady_clock::now();
  const Compiled compiled = step.cx.compile(mode);
  const double seconds = seconds_since(start);
  if (report != nullptr) *report = compiled.details();
  return seconds;
}

bool is_loaded() {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 && load > 0.8 * std::thread::hardware_concurrency();
}

TEST(TimeBudget, IsKeptFromTheFirstMoment) {
  GptStep first(24);
  (void)seconds_of(first, Fast{});  // the machine's limits, and the laws, are read once
  int64_t size = 24;
  for (const auto budget : {200ms, 1000ms, 5000ms}) {
    GptStep plain(size += 4), searched(size + 2);
    const double fast_s = seconds_of(plain, Fast{});
    CompileReport report;
    const double took_s = seconds_of(searched, TimeBudget{budget}, &report);
    if (is_loaded()) GTEST_SKIP() << "the machine is busy: times say nothing";
    // What a compile has to do at least is what Fast mode does.
    const double budget_s = std::chrono::duration<double>(budget).count();
    EXPECT_LT(took_s, 1.1 * std::max(budget_s, 1.2 * fast_s) + 0.05) << "of " << budget_s << " s";
    EXPECT_GT(report.kernels.size(), 0U);
  }
}

TEST(TimeBudget, WhereNothingIsLeftForMeasuringThePlanIsThatOfFastMode) {
  GptStep plain(40), searched(40);
  CompileReport fast, report;
  (void)seconds_of(plain, Fast{}, &fast);
  (void)seconds_of(searched, TimeBudget{1ms}, &report);
  EXPECT_EQ(report.plan_key, fast.plan_key);
  EXPECT_THAT(report.note, testing::HasSubstr("this is the plan of Fast mode"));
  for (const KernelReport& kernel : report.kernels) EXPECT_EQ(kernel.measured_us, 0);
}

TEST(SearchProgress, TellsTheStepsOfASearch) {
  // An earlier run may have timed all.
  const luminal::test::EnvironmentVariable cache("LUMINAL_CACHE", "off");
  GptStep step(42);
  std::vector<SearchProgress> told;
  // Long enough for a busy machine; it ends as soon as all is seen.
  const SearchProgressScope scope([&](const SearchProgress& progress) {
    told.push_back(progress);
    std::this_thread::sleep_for(120ms);  // so that no step passes between two calls
    return progress.step != "timing kernels";
  });
  (void)step.cx.compile(TimeBudget{60'000ms});
  ASSERT_FALSE(told.empty());
  double before = 0;
  for (const SearchProgress& progress : told) {
    EXPECT_GE(progress.elapsed_s, before);
    EXPECT_NEAR(progress.left_s, std::max(0.0, 60 - progress.elapsed_s), 1e-6);
    EXPECT_LE(progress.done, progress.total);
    before = progress.elapsed_s;
  }
  EXPECT_THAT(told, testing::Contains(testing::Field(&SearchProgress::step, "timing kernels")));
}

TEST(SearchProgress, ASearchThatIsEndedReturnsAPlanThatIsRight) {
  std::mt19937 random(7);
  for (int round = 0; round < 10; ++round) {
    const int64_t size = 44 + 2 * round;
    GptStep reference(size, "reference"), searched(size);
    const auto patience = std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 4000)(random));
    const auto start = std::chrono::steady_clock::now();
    bool ended = false;
    const SearchProgressScope scope([&](const SearchProgress&) {
      ended = std::chrono::steady_clock::now() - start > patience;
      return !ended;
    });
    Compiled compiled = searched.cx.compile(Optimal{}), truth = reference.cx.compile(Fast{});
    const auto is = searched.losses(compiled), must = reference.losses(truth);
    EXPECT_NEAR(is.first, must.first, 1e-3F * std::abs(must.first)) << patience.count() << " ms";
    EXPECT_NEAR(is.second, must.second, 1e-3F * std::abs(must.second)) << patience.count() << " ms";
    const CompileReport report = compiled.details();
    if (!ended) continue;
    // Either all that runs was verified, or what was not is Fast mode's.
    const bool is_fasts = testing::Value(
        report.note, testing::AnyOf(testing::HasSubstr("this is the plan of Fast mode"),
                                    testing::HasSubstr("those that were not are the ones of Fast mode")));
    for (const KernelReport& kernel : report.kernels)
      EXPECT_TRUE(kernel.verified || is_fasts) << kernel.name << ": " << report.note;
  }
}

/// It does where it makes the plan faster and something was left to verify: in one of several searches at least.
TEST(SearchProgress, WhatIsVerifiedRunsThoughTheSearchIsEnded) {
  const luminal::test::EnvironmentVariable cache("LUMINAL_CACHE",
                                                 "off");  // an earlier run may have verified all
  bool kept = false;
  for (int64_t size = 70; size < 90 && !kept; size += 2) {
    GptStep reference(size, "reference"), searched(size);
    bool ended = false;
    const SearchProgressScope scope([&](const SearchProgress& progress) {
      std::this_thread::sleep_for(120ms);  // so that no step passes between two calls
      ended = progress.step == "verifying kernels" && progress.done > 0;
      return !ended;
    });
    Compiled compiled = searched.cx.compile(Optimal{}), truth = reference.cx.compile(Fast{});
    const auto is = searched.losses(compiled), must = reference.losses(truth);
    EXPECT_NEAR(is.first, must.first, 1e-3F * std::abs(must.first));
    EXPECT_NEAR(is.second, must.second, 1e-3F * std::abs(must.second));
    const CompileReport report = compiled.details();
    const auto verified = std::ranges::count(report.kernels, true, &KernelReport::verified);
    kept = ended && verified > 0 && std::cmp_less(verified, report.kernels.size());
    if (kept) {
      EXPECT_THAT(report.note, testing::HasSubstr("those that were not are the ones of Fast mode"));
    }
  }
  EXPECT_TRUE(kept);
}

TEST(SearchProgress, TheLineOfATerminalSaysStepBestAndTimeLeft) {
  EXPECT_EQ(cli::search_text({.step = "timing kernels",
                              .done = 5,
                              .total = 73,
                              .best_us = 111'400,
                              .elapsed_s = 72.9,
                              .left_s = 34}),
            "searching 1:12  timing kernels 5/73  best 111.4 ms  0:34 left");
  EXPECT_EQ(cli::search_text({.step = "choosing kernels"}), "searching 0:00  choosing kernels");
}

TEST(SearchProgress, ScopesNest) {
  EXPECT_EQ(SearchProgressScope::current(), nullptr);
  const SearchProgressScope outer([](const SearchProgress&) { return true; });
  const auto* const of_outer = SearchProgressScope::current();
  {
    const SearchProgressScope inner([](const SearchProgress&) { return false; });
    EXPECT_FALSE((*SearchProgressScope::current())({}));
  }
  EXPECT_EQ(SearchProgressScope::current(), of_outer);
}

TEST(Contained, WhatIsNotFinishedInTimeIsTold) {
  const auto start = std::chrono::steady_clock::now();
  const auto action = [&](size_t item, Progress& progress) {
    while (item == 1) {
      ++progress;
      std::this_thread::sleep_for(1ms);
    }
  };
  const auto results = run_contained_each(3, action, 20s, 1, Containment::Process, start + 300ms);
  EXPECT_THAT(results, testing::ElementsAre("", kNoTimeLeft, kNoTimeLeft));
  EXPECT_LT(seconds_since(start), 10);
}

}  // namespace
}  // namespace luminal::search
