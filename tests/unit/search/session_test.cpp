#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include <chrono>
#include <cmath>
#include <thread>

#include "luminal/compile_report.h"
#include "luminal/graph.h"
#include "search/bucket.h"
#include "search/cache/kernel_cache.h"
#include "unit/codegen/specs.h"

namespace luminal::search {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CpuSession : public testing::Test {
 protected:
  void SetUp() override { cx.set_device("cpu"); }
  Graph cx;
};

TEST_F(CpuSession, RunsAGraph) {
  const GraphTensor x = cx.tensor({2, 3}).set({1, 2, 3, 4, 5, 6});
  GraphTensor rows = (x * 2).sum(1).retrieve(), product = x.matmul(x.transpose(0, 1)).retrieve();
  cx.execute();
  EXPECT_THAT(rows.data<float>(), ElementsAre(12, 30));
  EXPECT_THAT(product.data<float>(), ElementsAre(14, 32, 32, 77));
}

TEST_F(CpuSession, HandsOutWhatIsAskedTwiceAndWhatIsAnInput) {
  GraphTensor x = cx.tensor({2, 2}).set({1, 2, 3, 4});
  x.retrieve();
  GraphTensor same = (x * 1.0).retrieve(), flat = (x.reshape({4}) * 1.0).retrieve();
  cx.execute();
  EXPECT_THAT(x.data<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(same.data<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(flat.data<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(cx.value(flat.edge().source)->dims, std::vector<int64_t>{4});
}

TEST_F(CpuSession, StatesTakeTheirNextValuesAtOnce) {
  const GraphTensor a = cx.tensor({2}).set({1, 2}), b = cx.tensor({2}).set({10, 20});
  a.assign(b);
  b.assign(a + b);
  cx.execute();
  EXPECT_THAT(a.data<float>(), ElementsAre(10, 20));
  EXPECT_THAT(b.data<float>(), ElementsAre(11, 22));
  cx.execute();
  EXPECT_THAT(a.data<float>(), ElementsAre(11, 22));
  EXPECT_THAT(b.data<float>(), ElementsAre(21, 42));
}

TEST_F(CpuSession, KeptValuesAreNotComputedAgain) {
  GraphTensor x = cx.tensor({2}).set({1, 2});
  GraphTensor kept = (x * 2).keep();
  GraphTensor sum = (kept + 1).retrieve();
  cx.execute();
  EXPECT_THAT(sum.data<float>(), ElementsAre(3, 5));
  x.set({100, 200});
  cx.execute();
  EXPECT_THAT(sum.data<float>(), ElementsAre(3, 5));
}

TEST_F(CpuSession, OpsWithCodeOfTheirOwnRunBetweenKernels) {
  const GraphTensor table = cx.tensor({3, 2}).set({1, 2, 3, 4, 5, 6});
  const GraphTensor index = cx.tensor({2}, Dtype::I64).set({2, 0});
  GraphTensor y = ((table * 10).index_select(0, index) + 1).retrieve();
  auto step = cx.compile(Fast{});
  step();
  EXPECT_THAT(y.data<float>(), ElementsAre(51, 61, 11, 21));
  EXPECT_THAT(step.report(), HasSubstr("ops_outside_plan: 1"));
}

TEST_F(CpuSession, ABreakInTheGraphKeepsItsValueInMemory) {
  GraphTensor x = cx.tensor({3}).set({1, 2, 3});
  GraphTensor y = ((x * 2).graph_break() + 1).retrieve();
  auto step = cx.compile(Fast{});
  step();
  EXPECT_THAT(y.data<float>(), ElementsAre(3, 5, 7));
  EXPECT_THAT(step.report(), HasSubstr("2 kernels"));
  EXPECT_THAT(step.report(), HasSubstr("ops_outside_plan: 0")) << "the value is there: nothing copies it";
}

TEST_F(CpuSession, ABreakIsItsInputByAnotherName) {
  GraphTensor x = cx.tensor({2, 3}).set({1, 2, 3, 4, 5, 6}), state = cx.tensor({3}).set({1, 2, 3});
  GraphTensor of_input = x.graph_break().retrieve();
  const GraphTensor product = (x * 2).retrieve();
  GraphTensor twice = product.graph_break().graph_break().retrieve();
  GraphTensor turned = product.transpose(0, 1).graph_break().retrieve();
  const GraphTensor before = state.graph_break().retrieve();
  state.assign(before * 10 + twice.sum(0));
  GraphTensor sum = (of_input + twice).retrieve();
  auto step = cx.compile(Fast{});
  EXPECT_THAT(step.report(), HasSubstr("ops_outside_plan: 0"));
  for (int run = 0; run < 2; ++run) step();
  EXPECT_THAT(of_input.data<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(product.data<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(twice.data<float>(), ElementsAre(2, 4, 6, 8, 10, 12));
  EXPECT_THAT(turned.data<float>(), ElementsAre(2, 8, 4, 10, 6, 12));
  EXPECT_THAT(sum.data<float>(), ElementsAre(3, 6, 9, 12, 15, 18));
  EXPECT_THAT(before.data<float>(), ElementsAre(20, 34, 48))
      << "as the state was, though it is written in place";
  EXPECT_THAT(state.data<float>(), ElementsAre(210, 354, 498));
}

/// Values that breaks keep apart lie where others lay before: memory does not grow with their number.
TEST_F(CpuSession, BreaksTakeNoMemoryOfTheirOwn) {
  const auto peak_bytes = [](int breaks) {
    Graph graph;
    graph.set_device("cpu");
    GraphTensor x = graph.tensor({256, 256});
    for (int i = 0; i < breaks; ++i) x = (x + x.sum(1, true)).graph_break();
    x.retrieve();
    return graph.compile(Fast{}).details().arena_bytes;
  };
  EXPECT_LE(peak_bytes(20), peak_bytes(3));
}

TEST_F(CpuSession, SizesChooseTheVariant) {
  GraphTensor x = cx.tensor({"n", 2});
  GraphTensor y = (x.sum(1) + 1).retrieve();
  for (const int64_t n : {3, 1, 4, 17, 0, 32, 3}) {
    std::vector<float> data(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i);
    x.set_dyn(data, {n, 2});
    cx.execute();
    const auto result = y.data<float>();
    ASSERT_EQ(result.size(), static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(result[static_cast<size_t>(i)], static_cast<float>(4 * i + 2));
  }
}

// Every family has a prediction for a tensor without elements: not a number would shut it out of all plans.
// What programs take for the time of compiling must not be more than what passed.
TEST_F(CpuSession, EncodingIsPartOfTheFirstPlansTimeAlone) {
  GraphTensor x = cx.named_tensor("x", {"n", 8});
  (x.softmax(-1) * 2).retrieve();
  const auto set = [&](int64_t rows) { x.set(TensorData(Dtype::F32, {rows, 8})); };
  set(100);
  Compiled compiled = cx.compile(Fast{});
  const auto encoding_s = [&] {
    const CompileReport report = compiled.details();
    EXPECT_EQ(report.phases[0].first, "encode");
    return report.phases[0].second + report.phases[1].second;
  };
  compiled();
  EXPECT_GT(encoding_s(), 0);
  set(300);
  const auto begin = std::chrono::steady_clock::now();
  compiled();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(encoding_s(), 0);
  EXPECT_LE(compiled.details().total_s, passed.count());
}

TEST_F(CpuSession, AnyDimMayBeEmptyOrOne) {
  const Expression n = Expression::dim("n");
  const auto wide = [&](Shape dims) { return cx.tensor(std::move(dims)); };
  std::vector<GraphTensor> inputs{wide({n, 8}), wide({8, n}), wide({n, 40}), wide({40, n})};
  std::vector<GraphTensor> results{inputs[0].sum(1),
                                   inputs[0].sum(0),
                                   inputs[1].sum(1),
                                   inputs[0].softmax(1),
                                   inputs[1].softmax(0),
                                   inputs[0].layer_norm(1),
                                   inputs[0].transpose(0, 1).exp(),
                                   inputs[2].matmul(inputs[3]),
                                   inputs[3].matmul(inputs[2])};
  for (GraphTensor& result : results) result.retrieve();
  for (const int64_t size : {0, 1, 2}) {
    for (GraphTensor& input : inputs) {
      const auto dims = input.dims();
      const int64_t rows = dims[0] == n ? size : dims[0].exec({}),
                    columns = dims[1] == n ? size : dims[1].exec({});
      input.set_dyn(std::vector<float>(static_cast<size_t>(rows * columns), 1.0F), {rows, columns});
    }
    ASSERT_NO_THROW(cx.execute()) << "n = " << size;
    EXPECT_THAT(results[1].data<float>(), testing::Each(static_cast<float>(size)));
    EXPECT_THAT(results[8].data<float>(), testing::Each(static_cast<float>(size)));
  }
}

TEST_F(CpuSession, EqualKernelsAreCompiledOnce) {
  const size_t before = KernelCache::of_process().size();
  GraphTensor y = (cx.tensor({7, 11}).set(std::vector<float>(77, 1)) * 1.25 + 0.75).sum(0).retrieve();
  cx.execute();
  const size_t after = KernelCache::of_process().size();
  EXPECT_GT(after, before);
  Graph other;
  other.set_device("cpu");
  GraphTensor z = (other.tensor({7, 11}).set(std::vector<float>(77, 2)) * 1.25 + 0.75).sum(0).retrieve();
  other.execute();
  EXPECT_EQ(KernelCache::of_process().size(), after);
  EXPECT_FLOAT_EQ(z.data<float>()[0], 7 * 3.25F);
}

/// Two graphs, each compiled and run in a thread of its own: they share the team, the kernels in memory and
/// on disk, the language and its specs.
TEST(CpuSessions, OfSeveralThreadsDoNotDisturbEachOther) {
  const auto work = [](int number, std::string& wrong) {
    for (int round = 0; round < 2; ++round) {
      Graph cx;
      cx.set_device("cpu");
      GraphTensor x = cx.tensor({"n", 16});
      GraphTensor y = ((x * (number + 1)).exp().sum(1) + x.matmul(x.transpose(0, 1)).sum(1)).retrieve();
      std::vector<Compiled> compiled{cx.compile(Fast{}),
                                     cx.compile(TimeBudget{std::chrono::milliseconds(30)})};
      for (const int64_t n : {3, 5}) {
        const std::vector<float> data(static_cast<size_t>(n * 16), 0.125F);
        x.set_dyn(data, {n, 16});
        const float right =
            16 * std::exp(0.125F * static_cast<float>(number + 1)) + static_cast<float>(n) * 0.25F;
        for (Compiled& each : compiled) {
          each();
          for (const float got : y.data<float>())
            if (std::abs(got - right) > 1e-4F * right) wrong = "got " + std::to_string(got);
        }
      }
    }
  };
  std::vector<std::string> wrong(2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) threads.emplace_back(work, i, std::ref(wrong[static_cast<size_t>(i)]));
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, testing::Each(""));
}

TEST_F(CpuSession, MovingValuesToItAndBackChangesNothing) {
  GraphTensor x = cx.tensor({3}).set({1, 2, 3}), y = (x + 1).retrieve();
  cx.to_device(x);
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 3, 4));
  EXPECT_THAT(x.data<float>(), ElementsAre(1, 2, 3));
  cx.from_device(x);
  x.set({4, 5, 6});
  cx.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(5, 6, 7));
}

TEST_F(CpuSession, TracesLaunches) {
  GraphTensor y = (cx.tensor({4}).set({1, 2, 3, 4}) + 1).retrieve();
  const auto trace = cx.execute_debug();
  ASSERT_EQ(trace.size(), 1U);
  EXPECT_GT(trace[0].time_us, 0);
}

TEST(Bucket, IsJudgedAtEveryRemainderThatTheGraphTakes) {
  Graph cx;
  const Expression past = "past";
  const GraphTensor rows = cx.tensor({80}).slice_along(0, past - 40, past) + 1;
  const auto judged = [&](const Dims& dims, const DimMap& sizes) {
    return sizes_to_judge(cx, bucket_of(dims, sizes));
  };
  const std::vector<DimMap> one = judged({{"n", {}}}, {{"n", 50}});
  EXPECT_EQ(one.front(), (DimMap{{"n", 33}}));
  std::set<int64_t> remainders;
  for (const DimMap& sizes : one) remainders.insert(sizes.at("n") % 32);
  EXPECT_EQ(remainders.size(), 31U) << "all of a short bucket but its top, which is judged first";
  std::map<std::string, std::set<int64_t>> of_two;
  for (const DimMap& sizes : judged({{"m", {}}, {"n", {}}}, {{"m", 100}, {"n", 50}}))
    for (const auto& [name, size] : sizes) of_two[name].insert(size % 64);
  EXPECT_EQ(of_two["m"].size(), 64U);
  EXPECT_EQ(of_two["n"].size(), 32U);
  EXPECT_EQ(judged({{"n", {}}}, {{"n", 48}}).front(), (DimMap{{"n", 48}}));
  EXPECT_TRUE(judged({{"n", {}}}, {{"n", 1}}).empty());
  for (const DimMap& sizes : judged({{"past", {}}}, {{"past", 50}}))
    EXPECT_GE(sizes.at("past"), 40) << "no slice begins before its tensor";
}

TEST(Bucket, AKernelIsJudgedOnceAtWhatIsOneSizeToIt) {
  const auto of = [](const Expression& rows, std::span<const DimMap> list) {
    return distinct_for(codegen::test_cases::Matmul{.m = rows, .n = 3, .k = 2}.spec().spec, list);
  };
  const DimMap top{{"m", 4}, {"n", 9}}, low{{"m", 3}, {"n", 5}}, lower{{"m", 3}, {"n", 6}};
  const std::vector<DimMap> list{top, low, lower};
  EXPECT_THAT(of("m", list), ElementsAre(top, low));
  EXPECT_THAT(of("n", list), ElementsAre(top, low, lower));
  EXPECT_THAT(of(Expression("m") * "n", list), ElementsAre(top, low, lower));
  EXPECT_THAT(of(7, list), ElementsAre(top));
}

// Eight rows in all: measuring at more would read beyond the tensor.
TEST(Bucket, EndsWhereTwoDimsTogetherExceedATensor) {
  Graph cx;
  const Expression past = "past", fresh = "new";
  const GraphTensor rows = cx.tensor({8}).slice_along(0, 0, past + fresh) + 1;
  const Dims dims{{"new", {}}, {"past", {}}};
  const auto of = [&](int64_t filled, int64_t count) {
    const DimMap sizes{{"new", count}, {"past", filled}};
    return admitted(cx, bucket_of(dims, sizes), sizes);
  };
  EXPECT_EQ(of(2, 1).facts, bucket_of(dims, {{"new", 1}, {"past", 2}}).facts);
  EXPECT_EQ(of(5, 1).facts.at("past"), (DimFacts{.min = 5, .max = 7}));
  EXPECT_EQ(of(5, 3).facts.at("new"), (DimFacts{.min = 3, .max = 3}));
  EXPECT_EQ(of(5, 3).facts.at("past"), (DimFacts{.min = 5, .max = 5}));
  EXPECT_EQ(of(3, 3).facts.at("new"), (DimFacts{.min = 3, .max = 4}));
  EXPECT_EQ(of(3, 3).facts.at("past"), (DimFacts{.min = 3, .max = 4}));
}

TEST(Bucket, IsThePowerOfTwoAroundASize) {
  const auto of = [](int64_t n) { return bucket_of({{"n", {}}}, {{"n", n}}).facts.at("n"); };
  EXPECT_EQ(of(0), (DimFacts{0, 0, 1}));
  EXPECT_EQ(of(1), (DimFacts{1, 1, 1}));
  EXPECT_EQ(of(2), (DimFacts{2, 2, 1}));
  EXPECT_EQ(of(3), (DimFacts{3, 4, 1}));
  EXPECT_EQ(of(50), (DimFacts{33, 64, 1}));
  EXPECT_EQ(of(48), (DimFacts{48, 64, 16}));
  EXPECT_EQ(of(16), (DimFacts{16, 16, 16}));
  for (int64_t n = 0; n < 300; ++n) EXPECT_TRUE(holds(bucket_of({{"n", {}}}, {{"n", n}}), {{"n", n}})) << n;
  EXPECT_FALSE(holds(bucket_of({{"n", {}}}, {{"n", 48}}), {{"n", 50}}));
  EXPECT_FALSE(holds(bucket_of({{"n", {}}}, {{"n", 50}}), {{"n", 65}}));
  // No size beyond what is promised, and none that breaks a promise.
  const Dims promised{{"n", {.min = 20, .max = 300}}, {"m", {.min = 24, .max = 96, .multiple_of = 24}}};
  const codegen::Bucket bucket = bucket_of(promised, {{"n", 290}, {"m", 72}});
  EXPECT_EQ(bucket.facts.at("n"), (DimFacts{.min = 257, .max = 300}));
  EXPECT_EQ(bucket.facts.at("m"), (DimFacts{.min = 72, .max = 96, .multiple_of = 24}));
  EXPECT_EQ(bucket_of(promised, {{"n", 21}, {"m", 48}}).facts.at("n"), (DimFacts{.min = 20, .max = 32}));
  EXPECT_EQ(bucket_of(promised, {{"n", 21}, {"m", 48}}).facts.at("m"),
            (DimFacts{.min = 48, .max = 48, .multiple_of = 48}));
}

}  // namespace
}  // namespace luminal::search
