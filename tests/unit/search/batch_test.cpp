#include "search/verification/batch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "luminal/luminal.h"
#include "pipeline.h"
#include "search/verification/contain.h"
#include "search/verification/reference.h"
#include "support/plain_kernel.h"

// Kernels judged side by side, in contained processes.
namespace luminal::search {
namespace {

constexpr int64_t kBatched = 64;

/// Elements of y = x * 3, each a task; `change` is applied to what it makes of x. Counts what it ran.
std::shared_ptr<test::PlainKernel> triple(std::function<float(float x, int64_t i)> change,
                                          std::atomic<int>* runs = nullptr) {
  return std::make_shared<test::PlainKernel>(
      kBatched, [change = std::move(change), runs](void* const* buffers, int64_t i) {
        const float x = static_cast<const float*>(buffers[0])[i];
        static_cast<float*>(buffers[1])[i] = x * 3 + change(x, i);
        if (runs != nullptr) ++*runs;
      });
}

float right(float, int64_t) { return 0; }
/// Right on the small integers that come first.
float wrong_between_integers(float x, int64_t i) {
  return i == 17 && std::isfinite(x) && x != std::floor(x) ? 1 : 0;
}

/// What a candidate for x * 3 gets. `soak`: launches that take longer count as long ones.
FullVerdict verdict_on(const backends::Kernel& candidate, std::vector<const backends::Kernel*> independent,
                       std::optional<size_t> peer, std::chrono::milliseconds soak, int workers) {
  Graph cx;
  const auto x = cx.tensor({kBatched});
  const auto y = (x * 3).retrieve();
  Subject subject{.graph = &cx, .unit = {}, .sizes = {{}}, .options = {}};
  subject.unit.tensors = {{cx.type(x.edge().source), x.edge().source, {}},
                          {cx.type(y.edge().source), y.edge().source, {}}};
  subject.unit.kernels = {{.inputs = {0}, .outputs = {1}, .spec = encode(cx).tensors.back().spec}};
  const FullCheck check{.subject = &subject,
                        .candidate = &candidate,
                        .independent = std::move(independent),
                        .peer = peer,
                        .split = {},
                        .options = {.threads = 1, .in_parts = false, .soak = soak}};
  return verify_in_full({&check, 1}, workers)[0];
}

/// Launches that count as long ones: further inputs are compared with what a peer makes of them.
class Peers : public testing::Test {
 protected:
  static FullVerdict verdict(const backends::Kernel& candidate, const backends::Kernel& plain,
                             const backends::Kernel& peer) {
    return verdict_on(candidate, {&plain, &peer}, 1, std::chrono::milliseconds(0), 1);
  }

  const SharedBytes shared_{sizeof(std::atomic<int>)};
  std::atomic<int>& runs_of_peer_ = shared_.as<std::atomic<int>>()[0];
};

TEST_F(Peers, StandInForPlainLoopsOnFurtherInputs) {
  const auto candidate = triple(right), plain = triple(right), peer = triple(right, &runs_of_peer_);
  const FullVerdict found = verdict(*candidate, *plain, *peer);
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_GE(runs_of_peer_, kBatched);
  EXPECT_GE(found.compared, 2 * kBatched);
}

TEST_F(Peers, ThatAreWrongDoNotBringDownWhatIsRight) {
  const auto candidate = triple(right), plain = triple(right),
             peer = triple(wrong_between_integers, &runs_of_peer_);
  const FullVerdict found = verdict(*candidate, *plain, *peer);
  EXPECT_FALSE(found.fault) << found.fault->message;
  EXPECT_GE(runs_of_peer_, kBatched);
}

// With as many processes as kinds of inputs each of them sees one kind.
TEST(SharedOutKinds, DoNotHideWhatALaunchKeepsForTheNext) {
  for (const int workers : {1, 2, 4, 6}) {
    const auto plain = triple(right);
    auto last = std::make_shared<std::optional<float>>();
    const auto keeps = triple([last](float x, int64_t i) {
      if (i != 17) return 0.0F;
      const float before = last->value_or(x);
      *last = x;
      return std::isfinite(x) && std::isfinite(before) ? 3 * before - 3 * x : 0;
    });
    const FullVerdict found = verdict_on(*keeps, {plain.get()}, {}, std::chrono::milliseconds(10), workers);
    ASSERT_TRUE(found.fault) << workers << " processes";
    EXPECT_EQ(found.fault->position, 17);
  }
}

TEST_F(Peers, DoNotHideWhatIsWrong) {
  const auto plain = triple(right), wrong = triple(wrong_between_integers);
  const auto other = triple([](float x, int64_t i) { return 2 * wrong_between_integers(x, i); });
  for (const auto& peer :
       {triple(right), other, wrong}) {  // right, wrong in another way, wrong in the same way
    const FullVerdict found = verdict(*wrong, *plain, *peer);
    ASSERT_TRUE(found.fault);
    EXPECT_EQ(found.fault->position, 17);
  }
}

/// Elements of y = x * 3 over a named dim, each a task; `change` is applied to what it makes of element i of n.
class NamedTriple : public backends::HostKernel {
 public:
  using Change = std::function<float(int64_t n, int64_t i)>;
  /// `runs`: tasks of each size, none if null.
  explicit NamedTriple(Change change, std::span<std::atomic<int>> runs = {})
      : change_(std::move(change)), runs_(runs) {}
  [[nodiscard]] const std::vector<std::string>& dims() const override { return dims_; }
  [[nodiscard]] int stage_count() const override { return 1; }
  [[nodiscard]] int64_t tasks(int, std::span<const int64_t> sizes) const override { return sizes[0]; }
  [[nodiscard]] int64_t shared_bytes(std::span<const int64_t>) const override { return 0; }
  [[nodiscard]] int64_t local_bytes(std::span<const int64_t>) const override { return 0; }
  void run(int, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
    const int64_t n = a.dims[0];
    for (int64_t i = begin; i < end; ++i)
      static_cast<float*>(a.buffers[1])[i] = static_cast<const float*>(a.buffers[0])[i] * 3 + change_(n, i);
    if (!runs_.empty()) runs_[static_cast<size_t>(n)] += static_cast<int>(end - begin);
  }
  [[nodiscard]] std::vector<std::byte> binary() const override { return {}; }

 private:
  std::vector<std::string> dims_{"n"};
  Change change_;
  std::span<std::atomic<int>> runs_;
};

/// Sizes of a named dim beyond the first two.
class FurtherSizes : public testing::Test {
 protected:
  static constexpr int64_t kTop = 512, kLeast = 257, kCount = 64;

  /// `plain_runs`: tasks of the kernel that the candidate is compared with, by size. `launch_us`: what a launch of the
  /// candidate is said to take.
  static FullVerdict verdict(const backends::Kernel& candidate, int workers = 1,
                             std::span<std::atomic<int>> plain_runs = {}, double launch_us = 0) {
    Graph cx;
    const auto x = cx.tensor({"n"});
    const auto y = (x * 3).retrieve();
    Subject subject{.graph = &cx, .unit = {}, .sizes = {{{"n", kTop}}}, .options = {}};
    for (int64_t n = kLeast; n < kLeast + kCount; ++n) subject.sizes.push_back({{"n", n}});
    subject.unit.tensors = {{cx.type(x.edge().source), x.edge().source, {}},
                            {cx.type(y.edge().source), y.edge().source, {}}};
    subject.unit.kernels = {{.inputs = {0}, .outputs = {1}, .spec = encode(cx).tensors.back().spec}};
    const NamedTriple plain([](int64_t, int64_t) { return 0.0F; }, plain_runs);
    const FullCheck check{.subject = &subject,
                          .candidate = &candidate,
                          .independent = {&plain},
                          .peer = std::nullopt,
                          .split = {},
                          .options = {.threads = 1, .soak = std::chrono::milliseconds(1)},
                          .launch_us = launch_us};
    return verify_in_full({&check, 1}, workers)[0];
  }
};

TEST_F(FurtherSizes, RunSomeOfTheTasksAndAtEveryFifthAllOfThem) {
  const SharedBytes shared((kTop + 1) * sizeof(std::atomic<int>));
  const auto runs = shared.as<std::atomic<int>>();
  const NamedTriple right([](int64_t, int64_t) { return 0.0F; }, runs);
  const FullVerdict found = verdict(right);
  EXPECT_FALSE(found.fault) << found.fault->message;
  int all = 0, some = 0;
  for (int64_t n = kLeast + 1; n < kLeast + kCount; ++n) {
    const int ran = runs[static_cast<size_t>(n)];
    EXPECT_GT(ran, 0) << n;
    (ran >= n ? all : some) += 1;
  }
  EXPECT_EQ(all, kCount / 5);
  EXPECT_EQ(some, kCount - 1 - kCount / 5);
}

// What takes long is dealt out in one way at each of these sizes, in every way at some of them.
TEST_F(FurtherSizes, RunAllTasksOnceWhereLaunchesAreLong) {
  constexpr double kLongUs = 1e6;
  const SharedBytes shared((kTop + 1) * sizeof(std::atomic<int>));
  const auto runs = shared.as<std::atomic<int>>();
  const NamedTriple right([](int64_t, int64_t) { return 0.0F; }, runs);
  EXPECT_FALSE(verdict(right, 1, {}, kLongUs).fault);
  int all = 0;
  for (int64_t n = kLeast + 1; n < kLeast + kCount; ++n) {
    const int ran = runs[static_cast<size_t>(n)];
    EXPECT_LT(ran, n + n / 8) << n;  // before the only launch of all, a part on other inputs
    if (ran >= n) ++all;
  }
  EXPECT_EQ(all, kCount / 5);
  for (const bool in_one_call : {true, false}) {  // tasks that are one call, or begin one
    class WrongInCalls : public NamedTriple {
     public:
      explicit WrongInCalls(bool of_one)
          : NamedTriple([](int64_t, int64_t) { return 0.0F; }), of_one_(of_one) {}
      void run(int stage, const backends::LaunchArguments& a, int64_t begin, int64_t end) const override {
        NamedTriple::run(stage, a, begin, end);
        if (a.dims[0] <= kLeast || a.dims[0] == kTop) return;
        if (of_one_ ? end - begin == 1 : begin > 0 && end - begin > 1)
          static_cast<float*>(a.buffers[1])[begin] += 1;
      }

     private:
      bool of_one_;
    };
    EXPECT_TRUE(verdict(WrongInCalls(in_one_call), 1, {}, kLongUs).fault) << in_one_call;
  }
}

// One check and several processors: each process has a part of the sizes, and does there what a single one does.
TEST_F(FurtherSizes, AreDealtOutToAllProcesses) {
  const auto runs_with = [](int workers) {
    const SharedBytes shared((kTop + 1) * sizeof(std::atomic<int>));
    const auto runs = shared.as<std::atomic<int>>();
    const NamedTriple right([](int64_t, int64_t) { return 0.0F; }, runs);
    const FullVerdict found = verdict(right, workers);
    EXPECT_FALSE(found.fault) << found.fault->message;
    return std::vector<int>(runs.begin() + kLeast + 1, runs.begin() + kLeast + kCount);
  };
  const std::vector<int> alone = runs_with(1);
  for (const int workers : {2, 3}) EXPECT_EQ(runs_with(workers), alone) << workers << " processes";
}

TEST_F(FurtherSizes, ShowWhatIsWrongAtOneOfThem) {
  for (const int64_t wrong : {kLeast + 1, kLeast + 6, kLeast + 20, kLeast + kCount - 1})
    for (const char* where : {"first", "last", "every 8th"}) {
      const NamedTriple candidate([&](int64_t n, int64_t i) {
        const bool is_there = where[0] == 'f' ? i == 0 : where[0] == 'l' ? i == n - 1 : i % 8 == 7;
        return n == wrong && is_there ? 1.0F : 0.0F;
      });
      for (const int workers : {1, 2, 3})
        EXPECT_TRUE(verdict(candidate, workers).fault) << where << " of " << wrong << ", " << workers;
    }
}

// At each of them the first elements are those of the longest.
TEST_F(FurtherSizes, AreComparedWithOneReferenceWhereOnlyTheirLengthDiffers) {
  for (const int workers : {1, 2}) {
    const SharedBytes shared((kTop + 1) * sizeof(std::atomic<int>));
    const auto runs = shared.as<std::atomic<int>>();
    const NamedTriple right([](int64_t, int64_t) { return 0.0F; });
    const FullVerdict found = verdict(right, workers, runs);
    EXPECT_FALSE(found.fault) << found.fault->message;
    EXPECT_GE(found.compared, kCount / 5 * kLeast);
    for (int64_t n = kLeast + 1; n < kLeast + kCount - 1; ++n)
      EXPECT_EQ(runs[static_cast<size_t>(n)], 0) << n << ", " << workers << " processes";
    // Once for each part of the check.
    EXPECT_GE(runs[kLeast + kCount - 1], kLeast + kCount - 1);
    EXPECT_LE(runs[kLeast + kCount - 1], 2 * (kLeast + kCount - 1));
  }
}

TEST_F(FurtherSizes, TellTheSizeOfAFault) {
  constexpr int64_t kWrong = kLeast + 9;
  const NamedTriple candidate([](int64_t n, int64_t) { return n == kWrong ? 1.0F : 0.0F; });
  const FullVerdict found = verdict(candidate);
  ASSERT_TRUE(found.fault);
  EXPECT_EQ(found.size, 1 + kWrong - kLeast);  // behind the top
}

std::optional<Expression> outermost_length_of(const std::function<GraphTensor(Graph& cx)>& make) {
  Graph cx;
  make(cx).retrieve();
  return outermost_length(encode(cx).tensors.back().spec);
}

TEST(OutermostLength, IsANamedDimThatNothingElseDependsOn) {
  const Expression n("n"), two_n = Expression("n") * 2;
  const auto rows = [](Graph& cx) { return cx.tensor({"n", 8}) * cx.tensor({8}).expand_dim(0, "n"); };
  EXPECT_EQ(outermost_length_of(rows), n);
  EXPECT_EQ(outermost_length_of([](Graph& cx) { return cx.tensor({"n", 8}).sum(1); }), n);
  EXPECT_EQ(outermost_length_of([](Graph& cx) { return cx.tensor({"n", 2, 8}).merge_dims(0, 1).sum(1); }),
            two_n);
}

TEST(OutermostLength, IsNoneWhereValuesOrPlacesDependOnADim) {
  const auto none = [](const std::function<GraphTensor(Graph & cx)>& make) {
    return !outermost_length_of(make).has_value();
  };
  EXPECT_TRUE(none([](Graph& cx) { return cx.tensor({4, 8}) * 3; })) << "no named dim";
  EXPECT_TRUE(none([](Graph& cx) { return cx.tensor({"n", 8}).sum(0); })) << "folded";
  EXPECT_TRUE(none([](Graph& cx) { return cx.tensor({8, "n"}).sum(0); })) << "read with a stride of n";
  EXPECT_TRUE(none([](Graph& cx) { return cx.tensor({"n"}).expand_dim(0, 8) * 3; })) << "written with one";
  EXPECT_TRUE(none([](Graph& cx) { return cx.tensor({"n", "n"}).sum(1); })) << "folded as well";
  EXPECT_TRUE(none([](Graph& cx) { return cx.tensor({"b", 8, "n"}).sum(1); })) << "two of them";
  EXPECT_TRUE(none([](Graph& cx) { return cx.tensor({"n", 8}).pad({{1, 1}, {0, 0}}) * 2; }))
      << "masked by it";
}

}  // namespace
}  // namespace luminal::search
