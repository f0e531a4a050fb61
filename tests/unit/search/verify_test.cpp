#include "search/verification/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <functional>
#include <thread>

#include "backends/device.h"
#include "backends/host/device.h"
#include "base/fail.h"
#include "base/stopwatch.h"
#include "codegen/schedule.h"
#include "kernel/canonical.h"
#include "luminal/luminal.h"
#include "search/encode/node_spec.h"
#include "search/verification/contain.h"
#include "search/verification/test_inputs.h"
#include "search/verification/trial.h"
#include "support/plain_kernel.h"
#include "unit/codegen/cases.h"

// Seeded faults: kernels that are wrong in the ways in which generated ones go wrong, each caught.
namespace luminal::search {
namespace {

/// A kernel written by hand: `body(buffers, begin, end)` over `tasks` tasks.
class HandKernel : public backends::HostKernel {
 public:
  using Body = std::function<void(const backends::LaunchArguments&, int64_t, int64_t)>;
  HandKernel(int64_t tasks, Body body) : tasks_(tasks), body_(std::move(body)) {}
  const std::vector<std::string>& dims() const override { return dims_; }
  int stage_count() const override { return 1; }
  int64_t tasks(int, std::span<const int64_t>) const override { return tasks_; }
  int64_t shared_bytes(std::span<const int64_t>) const override { return 256; }
  int64_t local_bytes(std::span<const int64_t>) const override { return 256; }
  void run(int, const backends::LaunchArguments& arguments, int64_t begin, int64_t end) const override {
    body_(arguments, begin, end);
  }
  std::vector<std::byte> binary() const override { return {}; }

 private:
  std::vector<std::string> dims_;
  int64_t tasks_;
  Body body_;
};

template <class T>
T load(const void* buffer, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(buffer) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void store(void* buffer, int64_t i, T value) {
  std::memcpy(static_cast<char*>(buffer) + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

/// One kernel from the inputs to the result.
Unit single(const std::vector<GraphTensor>& inputs, const GraphTensor& result) {
  Unit unit;
  for (const GraphTensor& input : inputs)
    unit.tensors.push_back({{input.dtype(), input.dims()}, input.edge().source});
  unit.tensors.push_back({{result.dtype(), result.dims()}, result.edge().source});
  Unit::Kernel kernel;
  for (size_t i = 0; i < inputs.size(); ++i) kernel.inputs.push_back(static_cast<int>(i));
  kernel.outputs = {static_cast<int>(inputs.size())};
  unit.kernels = {kernel};
  return unit;
}

Verdict verdict_of(const VerificationSuite& suite, const backends::Kernel& kernel) {
  const backends::Kernel* list[] = {&kernel};
  return verify(suite, list, {.threads = 2, .keep_outputs = true});
}

constexpr int64_t kRows = 5, kColumns = 37;

/// y = sum over the columns of x * w.
struct RowSums {
  Graph cx;
  GraphTensor x = cx.tensor({kRows, kColumns}), w = cx.tensor({kColumns});
  GraphTensor y = (x * w).sum(1);
  VerificationSuite suite = prepare_suite(cx, cx.dims(), single({x, w}, y), {});

  template <class Each>
  HandKernel kernel(Each each) {
    return {kRows, [each](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
              for (int64_t r = begin; r < end; ++r) each(a.buffers, r);
            }};
  }
};

float row_sum(void* const* buffers, int64_t row, int64_t columns) {
  float total = 0;
  for (int64_t c = 0; c < columns; ++c)
    total += load<float>(buffers[0], row * kColumns + c) * load<float>(buffers[1], c);
  return total;
}

TEST(Verify, TakesAKernelThatIsRight) {
  RowSums sums;
  const auto verdict = verdict_of(
      sums.suite, sums.kernel([](void* const* b, int64_t r) { store(b[2], r, row_sum(b, r, kColumns)); }));
  EXPECT_FALSE(verdict.fault) << verdict.fault->message;
  EXPECT_EQ(sums.suite.skipped_share(), 0);
}

TEST(Verify, CatchesATailThatIsOneShort) {
  RowSums sums;
  const auto verdict =
      verdict_of(sums.suite,
                 sums.kernel([](void* const* b, int64_t r) { store(b[2], r, row_sum(b, r, kColumns - 1)); }));
  ASSERT_TRUE(verdict.fault);
  EXPECT_THAT(verdict.fault->message, testing::HasSubstr("integers inputs, 1 thread"));
}

TEST(Verify, CatchesAnAccumulatorInBf16) {
  RowSums sums;
  const auto verdict = verdict_of(sums.suite, sums.kernel([](void* const* b, int64_t r) {
    bfloat16 total(0);
    for (int64_t c = 0; c < kColumns; ++c)
      total =
          bfloat16(static_cast<float>(total) + load<float>(b[0], r * kColumns + c) * load<float>(b[1], c));
    store(b[2], r, static_cast<float>(total));
  }));
  ASSERT_TRUE(verdict.fault);
}

/// An element of a neighbouring row is seldom greater than the maximum of a long row of random numbers, and one of the row
/// seldom its maximum.
TEST(Verify, CatchesMaximaOfRowsWhoseEndsAreOff) {
  constexpr int64_t kMany = 32, kLong = 1000;
  Graph cx;
  const GraphTensor x = cx.tensor({kMany, kLong}), y = x.max(1);
  const VerificationSuite suite = prepare_suite(cx, {}, single({x}, y), {.kinds = {"plain"}});
  const auto fault_of = [&](int64_t before, int64_t after) {
    const HandKernel kernel(kMany, [=](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        float greatest = -std::numeric_limits<float>::infinity();
        const int64_t first = std::max(int64_t{0}, row * kLong - before),
                      last = std::min(kMany * kLong, (row + 1) * kLong + after);
        for (int64_t i = first; i < last; ++i) greatest = std::max(greatest, load<float>(a.buffers[0], i));
        store(a.buffers[1], row, greatest);
      }
    });
    return verdict_of(suite, kernel).fault;
  };
  EXPECT_FALSE(fault_of(0, 0));
  EXPECT_TRUE(fault_of(1, 0)) << "one of the row before";
  EXPECT_TRUE(fault_of(-1, 0)) << "without its first";
  EXPECT_TRUE(fault_of(0, 1)) << "one of the row behind";
  EXPECT_TRUE(fault_of(0, -1)) << "without its last";
}

TEST(Verify, CatchesAWriteBeyondTheOutput) {
  RowSums sums;
  const auto verdict = verdict_of(sums.suite, sums.kernel([](void* const* b, int64_t r) {
    store(b[2], r, row_sum(b, r, kColumns));
    if (r == kRows - 1) store(b[2], r + 1, 0.0F);
  }));
  ASSERT_TRUE(verdict.fault);
  EXPECT_THAT(verdict.fault->message, testing::HasSubstr("signal 11"));
}

TEST(Verify, CatchesAReadBeforeTheInput) {
  RowSums sums;
  const auto verdict = verdict_of(sums.suite, sums.kernel([](void* const* b, int64_t r) {
    const float before = load<float>(b[0], r - 1);
    store(b[2], r, row_sum(b, r, kColumns) + 0 * before);
  }));
  ASSERT_TRUE(verdict.fault);
}

TEST(Verify, CatchesAKernelThatTakesItsInputsForAligned) {
  RowSums sums;
  const auto verdict = verdict_of(sums.suite, sums.kernel([](void* const* b, int64_t r) {
    const bool is_aligned = reinterpret_cast<uintptr_t>(b[0]) % 64 == 0;
    store(b[2], r, row_sum(b, r, kColumns) + (is_aligned ? 0.0F : 1.0F));
  }));
  ASSERT_TRUE(verdict.fault);
}

TEST(Verify, CatchesAnElementThatIsNotWritten) {
  RowSums sums;
  const auto verdict = verdict_of(sums.suite, sums.kernel([](void* const* b, int64_t r) {
    if (r != 2) store(b[2], r, row_sum(b, r, kColumns));
  }));
  ASSERT_TRUE(verdict.fault);
}

TEST(Verify, CatchesAWriteToAnInput) {
  RowSums sums;
  const auto verdict = verdict_of(sums.suite, sums.kernel([](void* const* b, int64_t r) {
    store(b[2], r, row_sum(b, r, kColumns));
    store(b[1], r, 1.0F);
  }));
  ASSERT_TRUE(verdict.fault);
}

TEST(Verify, CatchesTasksThatDependOnEachOther) {
  RowSums sums;
  // Adds up in the thread's workspace and forgets to clear it.
  const auto verdict = verdict_of(
      sums.suite, HandKernel(kRows, [](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) {
          if (r == 0) store(a.local, 0, 0.0F);
          store(a.local, 0, load<float>(a.local, 0) + row_sum(a.buffers, r, kColumns));
          store(a.buffers[2], r, load<float>(a.local, 0));
        }
      }));
  ASSERT_TRUE(verdict.fault);
}

TEST(Verify, SurvivesAHang) {
  const HandKernel forever(1, [](const backends::LaunchArguments& a, int64_t, int64_t) {
    static std::atomic<bool> stop{false};
    while (!stop && a.buffers != nullptr) {
    }
  });
  const TensorData x(Dtype::F32, {1});
  const TensorData* inputs[] = {&x};
  const std::vector<TrialOutput> outputs{{Dtype::F32, 1}};
  const std::string trouble =
      run_trial(forever, inputs, outputs, {}, {}, Split::Whole, std::chrono::milliseconds(50)).trouble;
  EXPECT_EQ(trouble, "took more than 50 ms");
  EXPECT_TRUE(is_timeout(trouble));
}

TEST(Trial, WhatAnotherThreadDoesWrongIsTold) {
  const auto run_on_two = [](const HandKernel::Body& body, int seconds = 20) {
    const HandKernel kernel(2, body);
    const std::vector<TrialOutput> outputs{{Dtype::F32, 2}};
    return run_trial(kernel, {}, outputs, {}, {.threads = 2}, Split::Threads, std::chrono::seconds(seconds));
  };
  const TrialResult right = run_on_two([](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) store(a.buffers[0], i, static_cast<float>(i + 1));
  });
  ASSERT_EQ(right.trouble, "");
  EXPECT_THAT(right.outputs[0].as<float>(), testing::ElementsAre(1, 2));
  EXPECT_THAT(run_on_two([](const backends::LaunchArguments&, int64_t begin, int64_t) {
                if (begin > 0) ::raise(SIGSEGV);
              }).trouble,
              testing::HasSubstr("crashed with signal 11"));
  EXPECT_EQ(run_on_two(
                [](const backends::LaunchArguments&, int64_t begin, int64_t) {
                  for (std::atomic<bool> on = begin > 0; on;) std::this_thread::yield();
                },
                1)
                .trouble,
            "took more than 1000 ms");
}

/// Looks at a worker are further apart the longer it may be silent. Nobody waits for the next one when all have ended.
TEST(Contained, ReturnsWhenTheLastWorkerHasEnded) {
  const auto us_of = [](std::chrono::milliseconds timeout) {
    const auto start = std::chrono::steady_clock::now();
    static_cast<void>(run_contained([](Progress&) {}, timeout, Containment::Process));
    return 1e6 * seconds_since(start);
  };
  std::vector<double> often, seldom;
  for (int i = 0; i < 25; ++i) {
    often.push_back(us_of(std::chrono::milliseconds(50)));  // 1 ms apart
    seldom.push_back(us_of(std::chrono::seconds(20)));      // 10 ms apart
  }
  EXPECT_LT(median(seldom), 2 * median(often)) << "both take as long as to make a process";
}

TEST(Contained, AnItemThatCrashesOrHangsTakesNoOtherWithIt) {
  for (const int workers : {1, 2, 3, 7}) {
    const SharedBytes shared(5 * sizeof(std::atomic<int>));
    const auto ran = shared.as<std::atomic<int>>();
    const auto action = [&](size_t i, Progress&) {
      if (i == 1) *reinterpret_cast<volatile int*>(8) = 1;
      while (i == 3) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      ++ran[i];
    };
    const auto troubles = run_contained_each(5, action, std::chrono::milliseconds(200), workers);
    EXPECT_THAT(troubles, testing::ElementsAre("", testing::HasSubstr("crashed with signal 11"), "",
                                               "took more than 200 ms", ""));
    for (const size_t i : {0, 2, 4}) EXPECT_EQ(ran[i], 1) << "item " << i << " of " << workers << " workers";
  }
}

TEST(Contained, WhatABodyThrowsIsNoFaultOfTheKernel) {
  EXPECT_THAT(
      [] { (void)run_contained([](Progress&) { fail("no {} left", "paper"); }, std::chrono::seconds(5)); },
      testing::ThrowsMessage<Error>("no paper left"));
}

/// Ctrl-Z stops a search and what it contains. When it goes on, the kernel has the time that it had left.
TEST(Contained, TimeForWhichAllStandStillIsNotCounted) {
  const SharedBytes shared(2 * sizeof(std::atomic<bool>));
  std::atomic<bool>&begun = shared.as<std::atomic<bool>>()[0], &may_end = shared.as<std::atomic<bool>>()[1];
  constexpr std::chrono::milliseconds kTimeout{1000};
  const auto body = [&](Progress&) {
    begun = true;
    while (!may_end) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(kTimeout / 4);  // not done when it goes on
  };
  const pid_t search = ::fork();
  if (search == 0) {
    ::setpgid(0, 0);
    ::_exit(run_contained(body, kTimeout).empty() ? 0 : 1);
  }
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(-search, SIGSTOP);
  std::this_thread::sleep_for(2 * kTimeout);
  may_end = true;
  ::kill(-search, SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(search, &status, 0), search);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the kernel was blamed";
}

TEST(Contained, AProcessThatClosesItsFilesIsWaitedFor) {
  const SharedBytes shared(sizeof(std::atomic<bool>));
  std::atomic<bool>& is_done = shared.as<std::atomic<bool>>()[0];
  const auto body = [&](Progress&) {
    for (int file = 3; file < 256; ++file) ::close(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    is_done = true;
  };
  EXPECT_EQ(run_contained(body, std::chrono::seconds(5)), "");
  EXPECT_TRUE(is_done);
}

// Other threads hold locks of the library while a process is made: the child finds them free.
TEST(Contained, AProcessIsMadeWhileOtherThreadsBuildFormulas) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "GCC 12's AddressSanitizer takes no lock of its own allocator before a fork";
#endif
  std::atomic<bool> stop{false};
  std::vector<std::jthread> busy;
  for (int t = 0; t < 3; ++t)
    busy.emplace_back([&stop, t] {
      for (int64_t i = 0; !stop; ++i) (void)(Expression("held") * (i % 5000) + t).simplify();
    });
  for (int round = 0; round < 200; ++round)
    EXPECT_EQ(run_contained([&](Progress&) { (void)(Expression("held") * round + 12345).simplify(); },
                            std::chrono::seconds(20)),
              "");
  stop = true;
}

// Seven different squares, thousands of each: their roundings all go one way.
TEST(Verify, TakesALongSumInOneAccumulator) {
  constexpr int64_t kLong = 2048;
  Graph cx;
  const auto x = cx.tensor({40, kLong});
  const auto y = (x - 0.51F).square().sum(1);
  const VerificationSuite suite = prepare_suite(cx, {}, single({x}, y), {});
  const auto sums = [](int64_t skipped) {
    return HandKernel(40, [skipped](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float total = 0;
        for (int64_t c = skipped; c < kLong; ++c) {
          const float d = load<float>(a.buffers[0], r * kLong + c) - 0.51F;
          total += d * d;
        }
        store(a.buffers[1], r, total);
      }
    });
  };
  const auto verdict = verdict_of(suite, sums(0));
  EXPECT_FALSE(verdict.fault) << verdict.fault->message;
  EXPECT_TRUE(verdict_of(suite, sums(1)).fault);
}

TEST(Verify, CatchesAMissingTermAmongAMillion) {
  constexpr int64_t kTerms = 1'000'000;
  Graph cx;
  auto x = cx.tensor({1, kTerms});
  auto y = x.sum(1);
  const VerificationSuite suite = prepare_suite(cx, cx.dims(), single({x}, y), {});
  const auto sum_from = [&](int64_t first) {
    return HandKernel(1, [first](const backends::LaunchArguments& a, int64_t, int64_t) {
      double total = 0;
      for (int64_t i = first; i < kTerms; ++i) total += static_cast<double>(load<float>(a.buffers[0], i));
      store(a.buffers[1], 0, static_cast<float>(total));
    });
  };
  EXPECT_FALSE(verdict_of(suite, sum_from(0)).fault);
  // The first term may be 0 for integers; then the one after it.
  const float lost = suite.cases[0].tensors[0]->as<float>()[0];
  EXPECT_TRUE(verdict_of(suite, sum_from(lost == 0 ? 2 : 1)).fault);
}

TEST(Verify, CatchesAMissingRescale) {
  constexpr int64_t kLength = 64;
  Graph cx;
  auto x = cx.tensor({3, kLength});
  auto y = x.softmax(-1);
  const VerificationSuite suite = prepare_suite(cx, cx.dims(), single({x}, y), {});
  // Online softmax, with and without rescaling what was summed before a new maximum.
  const auto softmax = [](bool rescale) {
    return HandKernel(3, [rescale](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float m = -std::numeric_limits<float>::infinity(), l = 0;
        for (int64_t j = 0; j < kLength; ++j) {
          const float v = load<float>(a.buffers[0], r * kLength + j);
          if (v > m) {
            if (rescale) l *= std::exp(m - v);
            m = v;
          }
          l += std::exp(v - m);
        }
        for (int64_t j = 0; j < kLength; ++j)
          store(a.buffers[1], r * kLength + j, std::exp(load<float>(a.buffers[0], r * kLength + j) - m) / l);
      }
    });
  };
  const auto right = verdict_of(suite, softmax(true));
  EXPECT_FALSE(right.fault) << right.fault->message;
  EXPECT_TRUE(verdict_of(suite, softmax(false)).fault);
}

TEST(Verify, ALawThatIsWrongOnTheUsersNodesIsCaughtThroughValuesNobodyNamed) {
  Graph cx;
  auto x = cx.tensor({4, 8});
  auto y = (x * 3 + 1).sum(1);
  // As if a law had moved the factor and the offset out of the sum, and forgotten that the offset counts 8
  // times.
  Unit unit;
  unit.tensors = {{{Dtype::F32, {4, 8}}, x.edge().source, {}},
                  {{Dtype::F32, {4}}, {}, {}},
                  {{Dtype::F32, {4}}, y.edge().source, {}}};
  unit.kernels = {{{0}, {1}}, {{1}, {2}}};
  const VerificationSuite suite = prepare_suite(cx, cx.dims(), unit, {});
  const HandKernel inner(4, [](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float total = 0;
      for (int64_t c = 0; c < 8; ++c) total += load<float>(a.buffers[0], r * 8 + c);
      store(a.buffers[1], r, total);
    }
  });
  const auto outer = [](float offset) {
    return HandKernel(4, [offset](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) store(a.buffers[1], r, load<float>(a.buffers[0], r) * 3 + offset);
    });
  };
  const HandKernel right = outer(8), wrong = outer(1);
  const backends::Kernel* good[] = {&inner, &right};
  const backends::Kernel* bad[] = {&inner, &wrong};
  EXPECT_FALSE(verify(suite, good, {.threads = 2}).fault);
  EXPECT_TRUE(verify(suite, bad, {.threads = 2}).fault);
}

TEST(Verify, AnInputThatTheGraphMakesOfAnotherCanBeMadeSo) {
  Graph cx;
  const auto x = cx.tensor({4, 8});
  const auto peak = x.max(1);
  const auto y = x.exp().sum(1) * peak;
  const Unit unit = single({x, peak}, y);
  // Reads the row only, and finds the largest element of it once more.
  const HandKernel anew(4, [](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float total = 0, largest = -std::numeric_limits<float>::infinity();
      for (int64_t c = 0; c < 8; ++c) {
        total += std::exp(load<float>(a.buffers[0], r * 8 + c));
        largest = std::max(largest, load<float>(a.buffers[0], r * 8 + c));
      }
      store(a.buffers[2], r, total * largest);
    }
  });
  EXPECT_TRUE(verdict_of(prepare_suite(cx, {}, unit, {}), anew).fault);
  const VerificationSuite consistent = prepare_suite(cx, {}, unit, {.consistent = true});
  EXPECT_EQ(consistent.cases[0].derived, (std::vector<bool>{false, true, false}));
  const auto verdict = verdict_of(consistent, anew);
  EXPECT_FALSE(verdict.fault) << verdict.fault->message;
}

TEST(Verify, WhatTakesTooLongToJudgeIsLeftToComparison) {
  Graph cx;
  const auto x = cx.tensor({3400, 3400});
  const VerificationSuite suite = prepare_suite(cx, {}, single({x}, x.sum()), {.kinds = {"integers"}});
  EXPECT_TRUE(suite.cases[0].expectations.empty());
}

TEST(Verify, CandidatesAreComparedInFull) {
  RowSums sums;
  const auto plain = [](void* const* b, int64_t r) { store(b[2], r, row_sum(b, r, kColumns)); };
  const Verdict good = verdict_of(sums.suite, sums.kernel(plain));
  ASSERT_FALSE(good.fault);
  // Where no sample lies and no other test case looks: one element is off by little.
  const auto off = sums.kernel(
      [](void* const* b, int64_t r) { store(b[2], r, row_sum(b, r, kColumns) + (r == 3 ? 1e-3F : 0)); });
  VerificationSuite blind = sums.suite;
  for (VerificationCase& test_case : blind.cases)
    for (VerificationCase::Expectation& expectation : test_case.expectations)
      std::ranges::replace_if(expectation.positions, [](int64_t position) { return position == 3; }, 2);
  for (VerificationCase& test_case : blind.cases)
    for (VerificationCase::Expectation& expectation : test_case.expectations) {
      for (size_t i = 0; i < expectation.positions.size(); ++i)
        expectation.known[i] = expectation.positions[i] != 2;
    }
  const backends::Kernel* list[] = {&off};
  EXPECT_FALSE(verify(blind, list, {}).fault);
  const Verdict verdict = verify(blind, list, {.reference = &good});
  ASSERT_TRUE(verdict.fault);
  EXPECT_THAT(verdict.fault->message, testing::HasSubstr("tensor 2 at [3]"));
  EXPECT_THAT(verdict.fault->message, testing::HasSubstr("beside an independent kernel"));
  EXPECT_GT(verdict.compared, 0);
}

TEST(Trial, LargeInputsMayBeReadWhereTheyLie) {
  constexpr int64_t kMany = (int64_t{1} << 20) + 3;
  TensorData ones(Dtype::F32, {kMany}), twos(Dtype::F32, {kMany});
  std::ranges::fill(ones.as<float>(), 1.0F);
  std::ranges::fill(twos.as<float>(), 2.0F);
  std::vector<const void*> read;
  const HandKernel kernel(1, [&](const backends::LaunchArguments& a, int64_t, int64_t) {
    read.push_back(a.buffers[0]);
    store(a.buffers[1], 0, load<float>(a.buffers[0], kMany - 1));
  });
  const std::vector<TrialOutput> outputs{{Dtype::F32, 1}};
  for (const bool there : {false, true}) {
    read.clear();
    const TensorData *first[] = {&ones}, *second[] = {&twos};
    const auto rig = make_rig(kernel, first, outputs, {}, {.reads_large_where_they_lie = there});
    rig->launch(Split::Whole);
    EXPECT_EQ(load<float>(rig->output(0).data(), 0), 1);
    rig->give(second);
    rig->launch(Split::Whole);
    EXPECT_EQ(load<float>(rig->output(0).data(), 0), 2);
    EXPECT_EQ(rig->trouble(), "");
    EXPECT_EQ(read[0] == ones.bytes.data(), there);
    EXPECT_EQ(read[1] == twos.bytes.data(), there);
  }
}

// Nothing is copied, and yet neither side may be touched and nothing written.
TEST(Trial, LargeInputsOfThePoolAreSeenBetweenGuards) {
  constexpr int64_t kMany = int64_t{1} << 18;
  const auto touch = [](const void* data, int64_t at) { (void)static_cast<const volatile float*>(data)[at]; };
  const auto trouble_of = [](const std::function<void(void*)>& body) {
    return run_contained(
        [&](Progress&) {
          TensorData ones(Dtype::F32, {kMany});
          std::ranges::fill(ones.as<float>(), 1.0F);
          const TensorData* inputs[] = {&ones};
          bool is_copied = true;
          const HandKernel kernel(1, [&](const backends::LaunchArguments& a, int64_t, int64_t) {
            ones.as<float>()[7] = 7.0F;
            is_copied = load<float>(a.buffers[0], 7) != 7.0F;
            body(a.buffers[0]);
          });
          const std::vector<TrialOutput> outputs{{Dtype::F32, 1}};
          const auto rig = make_rig(kernel, inputs, outputs, {}, {});
          rig->launch(Split::Whole);
          if (is_copied || load<float>(ones.bytes.data(), kMany - 1) != 1.0F) std::abort();
        },
        std::chrono::seconds(20), Containment::Process);
  };
  EXPECT_EQ(trouble_of([&](void* data) { touch(data, kMany - 1); }), "");
  EXPECT_NE(trouble_of([&](void* data) { touch(data, kMany); }), "");
  EXPECT_NE(trouble_of([&](void* data) { touch(data, -1); }), "");
  EXPECT_NE(trouble_of([](void* data) { store(data, kMany / 2, 2.0F); }), "");
}

// What a kernel wrote there would be what later launches read.
TEST(Trial, InputsThatAreReadWhereTheyLieCannotBeWritten) {
  constexpr int64_t kMany = int64_t{1} << 20;
  TensorData ones(Dtype::F32, {kMany});
  std::ranges::fill(ones.as<float>(), 1.0F);
  const TensorData* inputs[] = {&ones};
  const std::vector<TrialOutput> outputs{{Dtype::F32, 1}};
  for (const int64_t at : {int64_t{0}, kMany / 2, kMany - 1}) {
    const HandKernel kernel(1, [&](const backends::LaunchArguments& a, int64_t, int64_t) {
      store(a.buffers[0], at, 7.0F);
      store(a.buffers[1], 0, load<float>(a.buffers[0], at));
    });
    const TrialResult result = run_trial(kernel, inputs, outputs, {}, {.reads_large_where_they_lie = true},
                                         Split::Whole, std::chrono::seconds(20));
    EXPECT_NE(result.trouble, "") << at;
    EXPECT_EQ(ones.as<float>()[static_cast<size_t>(at)], 1.0F);
  }
}

/// Memory that an earlier rig had is out of reach of a later launch, and so is a workspace that a kernel has not asked for.
TEST(Trial, WhatIsNotTheLaunchsOwnIsOutOfReach) {
  enum class Touches : uint8_t { Nothing, EarlierOutput, NoWorkspace };
  for (const Touches touches : {Touches::Nothing, Touches::EarlierOutput, Touches::NoWorkspace}) {
    const std::string trouble = run_contained(
        [&](Progress&) {
          void* kept = nullptr;
          const test::PlainKernel first(1, [&](void* const* buffers, int64_t) {
            kept = buffers[0];
            store(buffers[0], 0, 1.0F);
          });
          const std::vector<TrialOutput> large{{Dtype::F32, 5000}}, small{{Dtype::F32, 1}};
          make_rig(first, {}, large, {}, {})->launch(Split::Whole);
          store(kept, 0, 3.0F);  // nothing runs
          const HandKernel second(1, [&](const backends::LaunchArguments& a, int64_t, int64_t) {
            store(a.buffers[0], 0, 2.0F);
            if (touches == Touches::EarlierOutput) store(kept, 0, 2.0F);
            if (touches == Touches::NoWorkspace) store(a.prepared, 0, 2.0F);
          });
          make_rig(second, {}, small, {}, {})->launch(Split::Whole);
        },
        std::chrono::seconds(20), Containment::Process);
    if (touches == Touches::Nothing)
      EXPECT_EQ(trouble, "");
    else
      EXPECT_THAT(trouble, testing::StartsWith("crashed with signal 11")) << static_cast<int>(touches);
  }
}

/// Also where one thread does everything, so that nothing is left to chance.
TEST(Trial, WhatATaskWritesOverALaterOnesResultStays) {
  constexpr int64_t kMany = 18, kFrom = 6, kTo = 12;
  const HandKernel kernel(kMany, [](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      store(a.buffers[0], task, 1.0F);
      if (task == kFrom) store(a.buffers[0], kTo, -1.0F);
    }
  });
  const TrialOutput outputs[] = {{Dtype::F32, kMany}};
  const TrialResult result = run_trial(kernel, {}, outputs, {}, {.threads = 1}, Split::Threads);
  ASSERT_EQ(result.trouble, "");
  for (int64_t task = 0; task < kMany; ++task)
    EXPECT_EQ(result.outputs[0].as<float>()[static_cast<size_t>(task)], task == kTo ? -1 : 1) << task;
}

TEST(Trial, APartOfTheTasksHasTheFirstTheLastAndSomeBetween) {
  const auto ranges = [](int64_t tasks, double middle) {
    std::vector<std::pair<int64_t, int64_t>> list;
    for (const TaskRange& range : ranges_of(tasks, TaskPart{.middle = middle, .one_in = 32}))
      list.emplace_back(range.begin, range.end);
    return list;
  };
  using testing::ElementsAre;
  using testing::Pair;
  EXPECT_THAT(ranges(3, 0.5), ElementsAre(Pair(0, 3)));
  EXPECT_THAT(ranges(10, 0.0), ElementsAre(Pair(0, 1), Pair(1, 2), Pair(9, 10)));
  EXPECT_THAT(ranges(320, 0.5), ElementsAre(Pair(0, 10), Pair(155, 165), Pair(310, 320)));
  EXPECT_THAT(ranges(320, 1.0), ElementsAre(Pair(0, 10), Pair(300, 310), Pair(310, 320)));
  EXPECT_EQ(ranges_of(320, std::nullopt).size(), 1U);
  EXPECT_EQ(ranges_of(320, TaskPart{.one_in = 8})[0].end, 40);
  EXPECT_EQ(ranges_of(320, TaskPart{.one_in = 16, .at_least = 8})[0].end, 20);
  EXPECT_EQ(ranges_of(64, TaskPart{.one_in = 16, .at_least = 8})[0].end, 8);
  EXPECT_EQ(ranges_of(24, TaskPart{.one_in = 16, .at_least = 8}).size(), 1U);
}

/// y = 2 x on so many rows, a task each; task t computes row (t + shift) mod their number.
template <int64_t kRows>
struct DoubledRows {
  static constexpr int64_t kMany = kRows, kWide = 8;
  Graph cx;
  GraphTensor x = cx.tensor({kMany, kWide});
  GraphTensor y = x * 2;
  VerificationSuite suite = prepare_suite(cx, cx.dims(), single({x}, y), {});
  std::atomic<int64_t> rows{0};

  /// Says that the kernel folds nothing. What nobody says anything of may be a maximum.
  void tell_spec() {
    ScalarBuilder b;
    const Scalar twice = b.mul(b.input(0, Dtype::F32), b.constant(Dtype::F32, 2));
    const Expression at = Expression::index(0, kMany) * kWide + Expression::index(1, kWide);
    suite.unit.kernels[0].spec = kernel::KernelSpec(kernel::SpecParts{
        .extents = {kMany, kWide},
        .slots = {{Dtype::F32, kMany * kWide}},
        .values = {{.axes = {0, 1},
                    .reduced = {},
                    .monoid = std::nullopt,
                    .body = b.finish(twice),
                    .operands = {{.dtype = Dtype::F32, .slot = 0, .index = at, .masks = {}}}}},
        .outputs = {{0, at, kMany * kWide}}});
  }

  /// `change`: of what is written.
  template <class Change>
  HandKernel kernel(int64_t shift, Change change) {
    return {kMany, [this, shift, change](const backends::LaunchArguments& a, int64_t begin, int64_t end) {
              for (int64_t task = begin; task < end; ++task, ++rows)
                for (int64_t i = 0, row = (task + shift) % kMany; i < kWide; ++i) {
                  const float in = load<float>(a.buffers[0], row * kWide + i);
                  store(a.buffers[1], row * kWide + i, change(row, in));
                }
            }};
  }
  /// The first fault of long launches beside an independent kernel that runs the same parts of its tasks, and how
  /// many rows both have computed.
  std::optional<Fault> fault_of(const HandKernel& kernel, const HandKernel& independent) {
    const backends::Kernel *candidates[] = {&kernel}, *references[] = {&independent};
    Progress progress{0};
    CaseVerifier candidate(suite, candidates, {.threads = 2, .soak = std::chrono::milliseconds(0)}, progress);
    CaseVerifier reference(suite, references, {.launches = 0}, progress);
    for (const VerificationCase& test_case : suite.cases) {
      if (auto fault = reference.add(test_case, nullptr, false, candidate.next_part(test_case))) return fault;
      const bool is_last = &test_case == &suite.cases.back();
      if (auto fault = candidate.add(test_case, &reference.made(), is_last)) return fault;
    }
    return std::nullopt;
  }
};

using Doubled = DoubledRows<1000>;

TEST(Verify, LongLaunchesRunAPartOfTheTasksOnFurtherInputs) {
  Doubled doubled;
  doubled.tell_spec();
  const auto twice = [](int64_t, float in) { return 2 * in; };
  const auto fault = doubled.fault_of(doubled.kernel(0, twice), doubled.kernel(0, twice));
  EXPECT_FALSE(fault) << fault->message;
  EXPECT_GE(doubled.rows, 2 * Doubled::kMany);  // integers
  EXPECT_LE(doubled.rows, 7 * Doubled::kMany);  // of 15 and more
  for (const int64_t wrong : {int64_t{0}, Doubled::kMany - 1}) {
    const auto loses = [wrong](int64_t row, float in) {
      return row == wrong && std::abs(in) > 100 ? 0 : 2 * in;  // no integer and no plain number is
    };
    const auto seen = doubled.fault_of(doubled.kernel(0, loses), doubled.kernel(0, twice));
    ASSERT_TRUE(seen) << "row " << wrong;
    EXPECT_THAT(seen->message, testing::HasSubstr(fmt::format("tensor 1 at [{}, ", wrong)));
  }
}

/// Of 480 results a part would be too few to show what is wrong in one of a hundred.
TEST(Verify, LongLaunchesOfFewResultsRunAllTasks) {
  DoubledRows<60> doubled;
  doubled.tell_spec();
  const auto twice = [](int64_t, float in) { return 2 * in; };
  for (int64_t wrong = 0; wrong < doubled.kMany; ++wrong) {
    const auto loses = [wrong](int64_t row, float in) {
      return row == wrong && std::abs(in) > 100 ? 0 : 2 * in;  // no integer and no plain number is
    };
    EXPECT_TRUE(doubled.fault_of(doubled.kernel(0, loses), doubled.kernel(0, twice))) << "row " << wrong;
  }
}

/// Short launches beside an independent kernel that takes long: the first kind of inputs runs in full and again in every
/// way, whichever kind that is; the others run parts.
TEST(Verify, ASlowIndependentKernelIsSparedOnFurtherInputs) {
  const auto twice = [](int64_t, float in) { return 2 * in; };
  for (const bool spares : {false, true})
    for (const size_t first : {size_t{0}, size_t{2}}) {
      Doubled doubled;
      doubled.tell_spec();
      doubled.suite.cases.erase(doubled.suite.cases.begin(),
                                doubled.suite.cases.begin() + static_cast<std::ptrdiff_t>(first));
      const HandKernel kernel = doubled.kernel(0, twice), plain = doubled.kernel(0, twice);
      const backends::Kernel *candidates[] = {&kernel}, *references[] = {&plain};
      Progress progress{0};
      CaseVerifier candidate(doubled.suite, candidates, {.soak = std::chrono::seconds(10)}, progress);
      CaseVerifier reference(doubled.suite, references, {.launches = 0}, progress);
      if (spares) candidate.spare_reference();
      int64_t rows_of_reference = 0;
      for (const VerificationCase& test_case : doubled.suite.cases) {
        const int64_t before = doubled.rows;
        ASSERT_FALSE(reference.add(test_case, nullptr, false, candidate.next_part(test_case)));
        rows_of_reference += doubled.rows - before;
        const auto fault =
            candidate.add(test_case, &reference.made(), &test_case == &doubled.suite.cases.back());
        ASSERT_FALSE(fault) << fault->message;
      }
      const auto kinds = static_cast<int64_t>(doubled.suite.cases.size());
      EXPECT_GE(rows_of_reference, Doubled::kMany);
      if (spares)
        EXPECT_LE(rows_of_reference, Doubled::kMany * (1 + (kinds - 1) / 2));
      else
        EXPECT_EQ(rows_of_reference, Doubled::kMany * kinds);
    }
}

TEST(Verify, LongLaunchesRunAllTasksWhereTheyMayBeMaxima) {
  Doubled doubled;
  const auto twice = [](int64_t, float in) { return 2 * in; };
  const auto rounds = [](int64_t row, float in) {  // a row that is in no part
    return row == 417 ? 2 * std::rint(in) : 2 * in;
  };
  const auto seen = doubled.fault_of(doubled.kernel(0, rounds), doubled.kernel(0, twice));
  ASSERT_TRUE(seen);
  EXPECT_THAT(seen->message, testing::HasSubstr("tensor 1 at [417, "));
  EXPECT_EQ(seen->data, "plain");
}

/// The kernel of y, with its spec.
Unit described(const Graph& cx, const GraphTensor& x, const GraphTensor& y) {
  Unit unit = single({x}, y);
  unit.kernels[0].spec = kernel::canonical(spec_of(cx, y.edge().source.node).parts).spec;
  return unit;
}

TEST(Verify, LongLaunchesRunAllTasksOnTheKindThatShowsWhatIsLeftOut) {
  Graph cx;
  const GraphTensor x = cx.tensor({33, 20});
  const auto kinds = [&](const Unit& unit) {
    std::vector<std::string_view> all;
    for (const std::string_view kind : kInputKinds)
      if (runs_all_tasks(unit, kind)) all.push_back(kind);
    return all;
  };
  EXPECT_THAT(kinds(described(cx, x, x.sum(1))), testing::ElementsAre("integers"));
  EXPECT_THAT(kinds(described(cx, x, x.sin())), testing::ElementsAre("integers"));
  EXPECT_THAT(kinds(described(cx, x, x.max(1))), testing::ElementsAre("plain"));
  EXPECT_THAT(kinds(single({x}, x.sum(1))), testing::ElementsAreArray(kInputKinds));
}

TEST(Verify, FewerKindsOfInputsWhereNothingIsFoldedOrAKernelOfTheSameFormPassed) {
  using testing::ElementsAre;
  const auto kinds = [](const auto& build, bool form_passed) {
    Graph cx;
    const GraphTensor x = cx.tensor({33, 20}), y = build(x);
    return input_kinds(cx, {}, described(cx, x, y), {.form_passed = form_passed});
  };
  const auto sum = [](const GraphTensor& x) { return x.sum(1); };
  const auto maximum = [](const GraphTensor& x) { return x.max(1); };
  const auto elementwise = [](const GraphTensor& x) { return x.sin(); };
  EXPECT_THAT(kinds(sum, false), ElementsAre("integers", "plain", "wide", "extreme", "special", "constant"));
  EXPECT_THAT(kinds(sum, true), ElementsAre("integers", "special"));
  EXPECT_THAT(kinds(maximum, true), ElementsAre("integers", "plain", "special"));
  EXPECT_THAT(kinds(elementwise, false), ElementsAre("integers", "plain", "extreme", "special"));
  EXPECT_THAT(kinds(elementwise, true), ElementsAre("integers", "special"));
}

TEST(Verify, PartsThatHaveLittleInCommonAreNoComparison) {
  Doubled doubled;
  doubled.tell_spec();
  // Rows 400 to 430 are in no part of the candidate's: they are seen because all of it runs.
  const auto loses = [](int64_t row, float in) {
    return row >= 400 && row < 430 && std::abs(in) > 100 ? 0 : 2 * in;
  };
  const auto twice = [](int64_t, float in) { return 2 * in; };
  for (VerificationCase& test_case : doubled.suite.cases) test_case.expectations.clear();
  const auto seen = doubled.fault_of(doubled.kernel(0, loses), doubled.kernel(400, twice));
  ASSERT_TRUE(seen);
  EXPECT_THAT(seen->message, testing::HasSubstr("tensor 1 at [4"));
}

/// The kernel and the one beside it are wrong alike, where relaxed math is no excuse: on finite numbers from which no
/// great sum is made.
TEST(Verify, AFaultThatAllKernelsHaveIsNoneOfTheLaws) {
  Doubled doubled;
  doubled.tell_spec();
  const auto cut = [](int64_t, float in) { return std::abs(in) > 1e6F ? std::copysign(2e6F, in) : 2 * in; };
  const auto seen = doubled.fault_of(doubled.kernel(0, cut), doubled.kernel(0, cut));
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->data, "extreme");
}

/// Sums that are too great for the promise of relaxed math are what the kernels say.
TEST(Verify, WhatRelaxedMathDoesNotPromiseIsLeftToTheKernels) {
  const auto promised = [](float scale) {
    Graph cx;
    const GraphTensor x = cx.tensor({4, 8}), y = x.sum(1);
    SuiteOptions options{.kinds = {"graph"}};
    const ValueRange range{{-scale, scale}};
    options.ranges = std::make_shared<const ValueRanges>(ValueRanges{{x.edge().source, range}});
    const VerificationSuite suite = prepare_suite(cx, {}, single({x}, y), options);
    EXPECT_TRUE(suite.cases[0].beyond_laws);
    const std::vector<bool>& flags = suite.cases[0].expectations[0].promised;
    return std::ranges::count(flags, true) == std::ssize(flags);
  };
  EXPECT_TRUE(promised(1e20F));
  EXPECT_FALSE(promised(1e32F));
  EXPECT_FALSE(promised(INFINITY));
}

TEST(Verify, SuitesAreWrittenAndReadForReplays) {
  RowSums sums;
  const VerificationSuite again = parse_suite(to_json(sums.suite));
  const auto right = sums.kernel([](void* const* b, int64_t r) { store(b[2], r, row_sum(b, r, kColumns)); });
  const auto wrong =
      sums.kernel([](void* const* b, int64_t r) { store(b[2], r, row_sum(b, r, kColumns) + 1); });
  EXPECT_FALSE(verdict_of(again, right).fault);
  ASSERT_TRUE(verdict_of(again, wrong).fault);
  EXPECT_EQ(verdict_of(again, wrong).fault->message, verdict_of(sums.suite, wrong).fault->message);
  EXPECT_THROW((void)parse_suite("{\"suite\": 2}"), FormatError);
}

/// Rows as long as a vector: the vectors behind the last row of A would read what is not there.
TEST(Trial, VectorsBehindTheLastResultReadNothing) {
  namespace cases = codegen::test_cases;
  const auto device = backends::make_cpu_device();
  const int64_t columns = device->target().lanes(4);
  const kernel::KernelSpec spec =
      cases::Matmul{.m = 10, .n = columns, .k = 4, .turned_b = true, .epilogue = true}.spec().spec;
  const codegen::Parameters p{{"along", 0}, {"unroll", 8}, {"rows", 1},
                              {"task", 1},  {"splits", 1}, {"held", 0}};
  const auto kernel = device->compile(codegen::find_schedule("reduce").lower(spec, p, {}, device->target()));
  const std::vector<TensorData> slots = cases::inputs_of(spec, {});
  std::vector<const TensorData*> inputs;
  for (const TensorData& slot : slots) inputs.push_back(&slot);
  const TrialOutput output{Dtype::F32, 10 * columns};
  const TrialResult result = run_trial(*kernel, inputs, {&output, 1}, {});
  ASSERT_EQ(result.trouble, "");
  cases::expect_equal(result.outputs[0], kernel::evaluate(spec, slots, {})[0], 0, spec.to_string());
}

}  // namespace
}  // namespace luminal::search
