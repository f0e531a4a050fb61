#include "search/tuning/example_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "search/cache/kernel_cache.h"
#include "search/pipeline.h"
#include "search/session.h"
#include "support/environment.h"
#include "support/files.h"
#include "support/kernel_like.h"

// Candidates are timed on data and at sizes such as programs have.
namespace luminal::search {
namespace {

using luminal::test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

TensorData numbers(std::vector<int64_t> dims, const std::vector<int32_t>& values) {
  return TensorData::of<int32_t>(std::move(dims), values);
}

/// The plan of Fast mode for a graph on the CPU, with the front end it belongs to.
struct Planned {
  std::shared_ptr<const FrontEnd> front_end;
  BackEndResult made;
  explicit Planned(Graph& graph) {
    const BackEnd target{.device = "cpu", .backend = backends::find_device("cpu")};
    front_end = std::make_shared<const FrontEnd>(run_front_end(graph, false, graph.search()));
    made = run_back_end(graph, front_end, target, bucket_of(front_end->dims, graph.dims()), Fast{},
                        graph.search());
  }
  [[nodiscard]] std::shared_ptr<const TensorData> of(const Graph& graph, const GraphTensor& tensor,
                                                     const DimMap& dims = {}) const {
    const runtime::Given given = timing_inputs(graph, made.plan, dims, graph.search());
    for (const auto& [number, data] : given)
      if (made.plan.tensors[static_cast<size_t>(number)].value == tensor.edge().source) return data;
    return nullptr;
  }
};

// --- What is refused

TEST(Examples, AreRefusedWithTheValuesAndWhatToDo) {
  Graph cx;
  cx.set_device("cpu");
  const GraphTensor tokens = cx.named_tensor("tokens", {4, "s"}, Dtype::I32);
  (tokens + 1).retrieve();
  cx.set_dim("s", 3);
  const auto error_with = [&](SearchOptions options) {
    cx.set_search(std::move(options));
    return error_of<Error>([&] { (void)cx.compile(Fast{}); });
  };
  EXPECT_EQ(
      error_with({.examples = {{"token", numbers({4, 1}, {1, 2, 3, 4})}}}),
      "[search] there is an example of 'token', and no input has that name; there are tokens; did you mean "
      "'tokens'?");
  EXPECT_EQ(error_with({.examples = {{"tokens", TensorData(Dtype::F32, {4, 1})}}}),
            "[search] the example of 'tokens' is f32[4, 1], and the input is i32[4, s]; give i32 numbers");
  const std::string rank =
      ", and the input is i32[4, s]; give one of that rank, with one element at least along named dims";
  EXPECT_EQ(error_with({.examples = {{"tokens", numbers({4}, {1, 2, 3, 4})}}}),
            "[search] the example of 'tokens' is i32[4]" + rank);
  EXPECT_EQ(error_with({.examples = {{"tokens", numbers({2, 2}, {1, 2, 3, 4})}}}),
            "[search] the example of 'tokens' is i32[2, 2]" + rank);
  EXPECT_EQ(error_with({.examples = {{"tokens", TensorData(Dtype::I32, {4, 0})}}}),
            "[search] the example of 'tokens' is i32[4, 0]" + rank);
  EXPECT_EQ(error_with({.sizes = {{{"t", 3}}}}),
            "[search] there is a size of 't', and no tensor has that dim; there are s; did you mean 's'?");
  cx.set_search({.examples = {{"tokens", numbers({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}}, .sizes = {{{"s", 2}}}});
  EXPECT_NO_THROW((void)cx.compile(Fast{}));
}

TEST(Examples, OfANameThatTwoInputsHaveAreRefused) {
  Graph cx;
  cx.set_device("cpu");
  (cx.named_tensor("x", {1}, Dtype::I32) + cx.named_tensor("x", {1}, Dtype::I32)).retrieve();
  cx.set_search({.examples = {{"x", numbers({1}, {1})}}});
  EXPECT_EQ(error_of<Error>([&] { (void)cx.compile(Fast{}); }),
            "[search] there is an example of 'x', and 2 inputs have that name; give each its own");
}

// --- What is drawn

TEST(Examples, AreCutAndRepeatedAlongEachAxis) {
  const auto data = std::make_shared<const TensorData>(numbers({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(fitted(data, {1, 2})->as<int32_t>(), ElementsAre(1, 2));
  EXPECT_THAT(fitted(data, {3, 4})->as<int32_t>(), ElementsAre(1, 2, 3, 1, 4, 5, 6, 4, 1, 2, 3, 1));
  EXPECT_EQ(fitted(data, {2, 3}), data);
  const auto deep = std::make_shared<const TensorData>(numbers({2, 1, 2}, {1, 2, 3, 4}));
  EXPECT_THAT(fitted(deep, {3, 2, 1})->as<int32_t>(), ElementsAre(1, 1, 3, 3, 1, 1));
  EXPECT_EQ(fitted(std::make_shared<const TensorData>(numbers({}, {7})), {})->as<int32_t>()[0], 7);
}

TEST(TimingInputs, TakeExamplesAtTheSizesThatAreTimed) {
  Graph cx;
  const GraphTensor tokens = cx.named_tensor("tokens", {"s"}, Dtype::I32);
  cx.set_dim("s", 5);
  const GraphTensor y = cx.tensor({50, 4}).index_select(0, tokens).exp().retrieve();
  cx.set_search({.examples = {{"tokens", numbers({3}, {7, 8, 9})}}});
  const Planned planned(cx);
  EXPECT_THAT(planned.of(cx, tokens, {{"s", 8}})->as<int32_t>(), ElementsAre(7, 8, 9, 7, 8, 9, 7, 8));
  EXPECT_THAT(planned.of(cx, tokens, {{"s", 2}})->as<int32_t>(), ElementsAre(7, 8));
}

TEST(TimingInputs, DrawPositionsWithinWhatTheyIndex) {
  Graph cx;
  const GraphTensor tokens = cx.named_tensor("tokens", {200}, Dtype::I32);
  (cx.tensor({50, 4}).index_select(0, tokens) * 2).retrieve();
  const auto drawn = Planned(cx).of(cx, tokens);
  const std::set<int32_t> different(drawn->as<int32_t>().begin(), drawn->as<int32_t>().end());
  EXPECT_GE(*different.begin(), 0);
  EXPECT_LT(*different.rbegin(), 50);
  EXPECT_GT(different.size(), 40U) << "spread over the rows";
}

TEST(TimingInputs, DrawLengthsWithinWhatTheyAreComparedWith) {
  Graph cx;
  const GraphTensor lengths = cx.named_tensor("lengths", {100}, Dtype::I32),
                    x = cx.named_tensor("x", {100, 30});
  cx.arange(30).unsqueeze(0).lt(lengths.unsqueeze(1)).where(x, 0).sum(1).retrieve();
  const auto drawn = Planned(cx).of(cx, lengths);
  const std::set<int32_t> different(drawn->as<int32_t>().begin(), drawn->as<int32_t>().end());
  EXPECT_GE(*different.begin(), 0);
  EXPECT_LT(*different.rbegin(), 30);
  EXPECT_GT(different.size(), 20U);
}

TEST(TimingInputs, KeepWhatTheGraphHolds) {
  Graph cx;
  const GraphTensor tokens = cx.named_tensor("tokens", {3}, Dtype::I32).set(std::vector<int32_t>{4, 4, 2});
  (cx.tensor({50, 4}).index_select(0, tokens) * 2).retrieve();
  EXPECT_THAT(Planned(cx).of(cx, tokens)->as<int32_t>(), ElementsAre(4, 4, 2));
}

TEST(RecordedValues, AreThoseOfARunOnTheExamples) {
  Graph cx;
  const GraphTensor tokens = cx.named_tensor("tokens", {2}, Dtype::I32);
  std::vector<float> rows(12);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const GraphTensor picked = cx.tensor({4, 3}).set(rows).index_select(0, tokens);
  const GraphTensor scores = (picked * 0.5).softmax(1);
  const GraphTensor y = scores.graph_break().exp().retrieve();
  cx.set_search({.examples = {{"tokens", numbers({2}, {3, 1})}}});
  const Planned planned(cx);
  const runtime::Given given = timing_inputs(cx, planned.made.plan, {}, cx.search());
  const auto backend = backends::find_device("cpu");
  const Leaves values = record_values(*backend, cx, planned.made.plan, {}, given, kNoDeadline).leaves;
  EXPECT_THAT(values.at(tokens.edge().source)->as<int32_t>(), ElementsAre(3, 1));
  EXPECT_THAT(values.at(picked.edge().source)->as<float>(), ElementsAre(9, 10, 11, 3, 4, 5));
  const auto probabilities = values.at(scores.edge().source)->as<float>();
  EXPECT_NEAR(probabilities[0] + probabilities[1] + probabilities[2], 1, 1e-5);
}

/// An example that an op refuses: candidates are timed on numbers that are drawn.
TEST(RecordedValues, AreNoneWhereTheExamplesAreRefused) {
  Graph cx;
  cx.set_device("cpu");
  GraphTensor tokens = cx.named_tensor("tokens", {2}, Dtype::I32);
  GraphTensor y = (cx.tensor({4, 3}).set(std::vector<float>(12, 1)).index_select(0, tokens) * 2).retrieve();
  cx.set_search({.examples = {{"tokens", numbers({2}, {3, 100})}}});
  Compiled compiled = cx.compile(Optimal{});
  tokens.set(std::vector<int32_t>{3, 2});
  compiled();
  EXPECT_THAT(y.data<float>(), testing::Each(2.F));
}

// --- What kernels see

/// Notes what the first buffer of a kernel holds when it is timed, in memory that contained processes share.
class Noting : public luminal::test::KernelLike {
 public:
  using KernelLike::KernelLike;
  void run(int stage, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
    KernelLike::run(stage, a, begin, end);
    const auto* positions = static_cast<const int32_t*>(a.buffers[0]);
    if (begin != 0 || stage != 0) return;
    const auto seen = seen_by().as<std::atomic<int64_t>>();
    const bool is_example = positions[0] == 11 && positions[1] == 13 && positions[2] == 17;
    ++seen[is_example ? 0 : 1];
    if (is_example && !dims().empty()) {
      const int64_t size = a.dims[0];
      if (size < kSizes) seen[static_cast<size_t>(2 + size)] = 1;
    }
  }
  static constexpr int64_t kSizes = 200;
  static SharedBytes& seen_by() {
    static SharedBytes bytes((2 + kSizes) * 8);
    return bytes;
  }
};

class NotingCpu : public luminal::test::CpuLike {
 public:
  NotingCpu() : CpuLike("cpu-noting-" + std::to_string(::getpid())) {}

 private:
  std::shared_ptr<const backends::Kernel> replaced(const codegen::Program&,
                                                   std::shared_ptr<const backends::Kernel> kernel) override {
    return std::make_shared<Noting>(std::move(kernel));
  }
};

TEST(Timing, RunsOnTheExamplesAtTheSizesThatAreNamed) {
  const auto seen = Noting::seen_by().as<std::atomic<int64_t>>();  // made before processes are
  const auto backend = std::make_shared<NotingCpu>();
  const std::string device = backend->target().name;
  const auto session = make_session({.device = device, .backend = backend});
  register_session(device, [session] { return session; });
  Graph cx;
  cx.set_device(device);
  const GraphTensor codes = cx.named_tensor("codes", {"s"}, Dtype::I32);
  GraphTensor y = (codes.cast(Dtype::F32) * 3).exp().sum(0).retrieve();
  cx.set_search(
      {.examples = {{"codes", numbers({3}, {11, 13, 17})}}, .sizes = {{{"s", 70}}, {{"s", 96}}, {{"s", 5}}}});
  cx.set_dim("s", 100);
  const Compiled compiled = cx.compile(Optimal{});
  EXPECT_GT(seen[0], 10) << "timed on the example";
  EXPECT_EQ(seen[2 + 70], 1);
  EXPECT_EQ(seen[2 + 96], 1);
  EXPECT_EQ(seen[2 + 5], 0) << "not in the bucket";
  EXPECT_THAT(compiled.details().timed_at, ElementsAre("s 70", "s 96"));
}

TEST(SizesToTime, AreThoseSeenAndTheGreatest) {
  Graph cx;
  cx.tensor({"s", "t"}).sum(0).retrieve();
  codegen::Bucket bucket;
  bucket.facts["s"] = {.min = 65, .max = 128, .multiple_of = 1};
  const auto at = [&](const SearchOptions& options, const std::vector<DimMap>& seen) {
    return sizes_to_time(cx, bucket, options, seen);
  };
  const auto s = [](int64_t size) { return DimMap{{"s", size}}; };
  EXPECT_THAT(at({}, {}), ElementsAre(s(128)));
  EXPECT_THAT(at({}, {{{"s", 100}, {"t", 7}}, s(64)}), ElementsAre(s(100), s(128)));
  EXPECT_THAT(at({}, {s(100), s(101), s(102), s(103)}), ElementsAre(s(100), s(101), s(128)));
  EXPECT_THAT(at({}, {s(128)}), ElementsAre(s(128)));
  EXPECT_THAT(at({.sizes = {s(70), s(7), s(70)}}, {s(100)}), ElementsAre(s(70)));
  EXPECT_THAT(at({.sizes = {s(7)}}, {s(100)}), ElementsAre(s(100), s(128)))
      << "none that is named lies in it";
}

TEST(SizesToTime, ThoseOfTheProgramAreTimed) {
  Graph cx;
  cx.set_device("cpu");
  GraphTensor x = cx.tensor({"n", 32});
  GraphTensor y = x.softmax(1).retrieve();
  x.set_dyn(std::vector<float>(100 * 32, 1), {100, 32});
  const Compiled compiled = cx.compile(Optimal{});
  EXPECT_THAT(compiled.details().timed_at, ElementsAre("n 100", "n 128"));
}

/// Other data and other sizes may make another kernel the fastest.
TEST(Examples, WhatWasChosenWithOthersIsNotTaken) {
  const luminal::test::TemporaryFolder folder;
  const luminal::test::EnvironmentVariable cache("LUMINAL_CACHE", folder.path().string());
  const SearchOptions none, one{.examples = {{"x", numbers({1}, {1})}}},
      two{.examples = {{"x", numbers({1}, {2})}}}, at{.sizes = {{{"s", 3}}}};
  std::set<std::string> keys;
  for (const SearchOptions* options : {&none, &one, &two, &at}) keys.insert(key_text_of_examples(*options));
  EXPECT_EQ(keys.size(), 4U);
  EXPECT_EQ(key_text_of_examples(none), "");
}

/// A kernel without named dims is the same for all buckets: it is chosen once.
TEST(Buckets, ShareKernelsThatDoNotDependOnTheirDims) {
  const luminal::test::TemporaryFolder folder;
  Cache cache(folder.path());
  const auto backend = backends::find_device("cpu");
  Graph cx;
  const GraphTensor y = cx.tensor({96, 80}).exp().sum(1).retrieve();
  const FrontEnd front_end = run_front_end(cx, false, {});
  const auto tuned_in = [&](int64_t top) {
    codegen::Bucket bucket;
    bucket.facts["s"] = {.min = top / 2 + 1, .max = top, .multiple_of = 1};
    Tuner tuner(*backend, cache, cx, {});
    std::vector<TuneRequest> open(1);
    open[0].spec = front_end.kernel_graph.tensors.back().spec;
    return tuner.tune(open, bucket)[0];
  };
  EXPECT_FALSE(tuned_in(64).from_cache);
  EXPECT_TRUE(tuned_in(128).from_cache);
}

}  // namespace
}  // namespace luminal::search
