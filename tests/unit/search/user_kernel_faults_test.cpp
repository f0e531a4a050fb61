#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <vector>

#include "backends/device.h"
#include "luminal/luminal.h"
#include "luminal/user_kernel.h"
#include "search/session.h"
#include "support/files.h"
#include "support/fresh_name.h"

// Kernels of a program's own that are far faster than the generated ones, and wrong in ways that samples do
// not show: none of them is taken.
namespace luminal {
namespace {

constexpr int64_t kRows = 500, kColumns = 128, kRowTerms = 1500;

/// sum over k of 2 + (k < x): 64,000 sums of 1,500 terms for a generated kernel, a formula for one who knows
/// it.
GraphTensor row_step_sum(const GraphTensor& x, int64_t terms = kRowTerms) {
  Graph cx = x.graph();
  const GraphTensor k = cx.arange(terms).cast(Dtype::F32);
  return (k.lt(x.unsqueeze(-1)).cast(Dtype::F32) + 2).sum(-1);
}
float row_step_sum(float x, int64_t terms = kRowTerms) {
  const auto most = static_cast<float>(terms);
  return 2 * most + (x > 0 ? std::min(std::ceil(x), most) : 0);
}

/// What one call of the kernel sees, and what it has seen before.
struct SeenCall {
  const float* in;
  float* out;
  int64_t begin, end;             ///< rows
  int64_t launch;                 ///< 1, 2, ...: counted by the call that does row 0
  std::span<const float> before;  ///< what the rows of `out` held before the call
};
using Wrong = std::function<void(const SeenCall&)>;
struct Case {
  std::string name;
  Wrong wrong;  ///< after the call has written what is right
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Spoils elements at which `is_wrong(row, column, x)`.
Wrong spoil(const std::function<bool(int64_t, int64_t, float)>& is_wrong) {
  return [is_wrong](const SeenCall& seen) {
    for (int64_t row = seen.begin; row < seen.end; ++row)
      for (int64_t column = 0; column < kColumns; ++column) {
        const int64_t at = row * kColumns + column;
        if (is_wrong(row, column, seen.in[at])) seen.out[at] += 1;
      }
  };
}
/// Leaves elements as they were.
Wrong leave_out(const std::function<bool(int64_t, int64_t)>& is_left_out) {
  return [is_left_out](const SeenCall& seen) {
    for (int64_t row = seen.begin; row < seen.end; ++row)
      for (int64_t column = 0; column < kColumns; ++column)
        if (is_left_out(row, column))
          seen.out[row * kColumns + column] =
              seen.before[static_cast<size_t>((row - seen.begin) * kColumns + column)];
  };
}
Wrong at_launch(const std::function<bool(int64_t)>& is_wrong) {
  return [is_wrong](const SeenCall& seen) {
    if (seen.begin == 0 && is_wrong(seen.launch)) seen.out[0] += 1;
  };
}

std::vector<Case> cases() {
  const auto every = [](int64_t step) {
    return spoil([step](int64_t, int64_t column, float) { return column > 0 && column % step == 0; });
  };
  return {
      {"columns_of_64", every(64)},
      {"columns_of_96", every(96)},
      {"the_last_column", spoil([](int64_t, int64_t column, float) { return column == kColumns - 1; })},
      {"one_row", spoil([](int64_t row, int64_t, float) { return row == 377; })},
      {"one_column", spoil([](int64_t, int64_t column, float) { return column == 41; })},
      {"one_element", spoil([](int64_t row, int64_t column, float) { return row == 377 && column == 41; })},
      {"a_row_left_out", leave_out([](int64_t row, int64_t) { return row == 377; })},
      {"a_column_left_out", leave_out([](int64_t, int64_t column) { return column == 41; })},
      {"an_element_left_out",
       leave_out([](int64_t row, int64_t column) { return row == 377 && column == 41; })},
      {"one_in_a_thousand",
       spoil([](int64_t row, int64_t column, float) { return (row * kColumns + column) % 1009 == 1000; })},
      {"above_1e5", spoil([](int64_t, int64_t, float x) { return std::abs(x) > 1e5F; })},
      {"below_1e-6", spoil([](int64_t, int64_t, float x) { return x != 0 && std::abs(x) < 1e-6F; })},
      {"negative_zero", spoil([](int64_t, int64_t, float x) { return x == 0 && std::signbit(x); })},
      {"in_the_range_of_the_inputs", spoil([](int64_t, int64_t, float x) { return x >= 5000 && x <= 5004; })},
      {"one_value", spoil([](int64_t, int64_t, float x) { return x == 255.0F; })},
      {"nan", spoil([](int64_t, int64_t, float x) { return std::isnan(x); })},
      {"infinity", spoil([](int64_t, int64_t, float x) { return std::isinf(x); })},
      {"the_second_launch", at_launch([](int64_t launch) { return launch == 2; })},
      {"every_1000th_launch", at_launch([](int64_t launch) { return launch % 1000 == 0; })},
      {"left_out_at_every_1000th_launch",
       [](const SeenCall& seen) {
         if (seen.begin == 0 && seen.launch % 1000 == 0) seen.out[41] = seen.before[41];
       }},
      {"some_tasks_in_a_call",
       [](const SeenCall& seen) {
         if (seen.end - seen.begin >= 40 && seen.end - seen.begin <= 130)
           seen.out[seen.begin * kColumns] += 1;
       }},
      {"several_tasks_in_a_call",
       [](const SeenCall& seen) {
         if (seen.end - seen.begin > 1) seen.out[(seen.end - 1) * kColumns] += 1;
       }},
      {"one_task_in_a_call",
       [](const SeenCall& seen) {
         if (seen.end - seen.begin == 1) seen.out[seen.begin * kColumns] += 1;
       }},
      {"an_input_that_is_not_aligned",
       [](const SeenCall& seen) {
         if (reinterpret_cast<uintptr_t>(seen.in) % 64 != 0) seen.out[seen.begin * kColumns] += 1;
       }},
      {"an_output_that_is_not_aligned",
       [](const SeenCall& seen) {
         if (reinterpret_cast<uintptr_t>(seen.out) % 64 != 0) seen.out[seen.begin * kColumns] += 1;
       }},
      {"reads_8_KiB_beyond",
       [](const SeenCall& seen) {
         if (seen.end == kRows) (void)*static_cast<const volatile float*>(seen.in + kRows * kColumns + 2048);
       }},
      {"writes_far_beyond",
       [](const SeenCall& seen) {
         if (seen.end == kRows) *static_cast<volatile float*>(seen.out + (int64_t{1} << 34)) = 1;
       }},
      {"exits",
       [](const SeenCall& seen) {
         if (seen.begin == 0) ::_exit(0);
       }},
      {"crashes_at_the_third_launch",
       [](const SeenCall& seen) {
         if (seen.begin == 0 && seen.launch == 3) std::abort();
       }},
      {"loops_at_the_third_launch",
       [](const SeenCall& seen) {
         for (volatile bool goes_on = seen.begin == 0 && seen.launch == 3; goes_on;) {
         }
       }},
  };
}

class UserKernelFaults : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    static const auto session =
        search::make_session({.device = "cpu-user-faults", .backend = backends::make_cpu_device()});
    register_session("cpu-user-faults", [] { return session; });
    std::filesystem::current_path(folder_.path());  // where replay files go
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  static UserKernel kernel(const std::string& name, const Wrong& wrong, int64_t terms) {
    auto launches = std::make_shared<std::atomic<int64_t>>(0);
    return {.name = name,
            .run =
                [wrong, launches, terms](const KernelCall& call) {
                  const auto* in = static_cast<const float*>(call.inputs[0]);
                  auto* out = static_cast<float*>(call.output);
                  const int64_t launch = call.begin == 0 ? ++*launches : launches->load();
                  const std::vector<float> before(out + call.begin * kColumns, out + call.end * kColumns);
                  for (int64_t i = call.begin * kColumns; i < call.end * kColumns; ++i)
                    out[i] = row_step_sum(in[i], terms);
                  if (wrong) wrong({in, out, call.begin, call.end, launch, before});
                },
            .tasks = kRows};
  }
  /// The schedules of the plan, after the result was compared.
  static std::vector<std::string> taken(const std::string& name, const Wrong& wrong,
                                        const CompilationMode& mode = Optimal{}, int64_t terms = kRowTerms) {
    Graph cx;
    std::vector<float> data(kRows * kColumns);
    for (size_t i = 0; i < data.size(); ++i) data[i] = 10 * static_cast<float>(i % 1000) - 100;
    const GraphTensor x = cx.tensor({kRows, kColumns}).set(data);
    GraphTensor y = with_kernel(kernel(name, wrong, terms), {x}, [terms](std::span<const GraphTensor> in) {
                      return row_step_sum(in[0], terms);
                    }).retrieve();
    cx.set_device("cpu-user-faults");
    Compiled compiled = cx.compile(mode);
    compiled();
    std::vector<float> right;
    for (const float value : data) right.push_back(row_step_sum(value, terms));
    EXPECT_THAT(y.data<float>(), testing::ElementsAreArray(right));
    std::vector<std::string> names;
    const CompileReport report = compiled.details();
    if (!wrong) {  // what is generated may have been verified in an earlier run
      EXPECT_GT(report.compared, 0);
    }
    for (const KernelReport& each : report.kernels) names.push_back(each.schedule);
    return names;
  }

 private:
  luminal::test::TemporaryFolder folder_;
  std::filesystem::path before_ = std::filesystem::current_path();
};

TEST_F(UserKernelFaults, TheRightOneIsTaken) {
  const std::string name = test::fresh_name("right");
  // So many terms that it is the fastest by far, instrumented by a sanitizer and on a busy machine too.
  EXPECT_THAT(taken(name, nullptr, Optimal{}, 16 * kRowTerms), testing::Contains(name));
}

TEST_P(UserKernelFaults, IsNotTaken) {
  const std::string name = test::fresh_name("wrong");
  EXPECT_THAT(taken(name, GetParam().wrong), testing::Not(testing::Contains(name)));
}

INSTANTIATE_TEST_SUITE_P(All, UserKernelFaults, testing::ValuesIn(cases()), [](const auto& each) {
  std::string name = each.param.name;
  std::ranges::replace(name, '-', '_');
  return name;
});

/// Wrong at one number of the program's data, which no test case draws: where the plan is run as a whole, on this data,
/// the kernel falls, and no law is blamed for it.
TEST_F(UserKernelFaults, WrongOnTheDataAloneIsNoFaultOfALaw) {
  const std::string name = test::fresh_name("wrong_on_the_data");
  constexpr float kWrongAt = 4321.0625F;
  Graph cx;
  std::vector<float> data(kRows * kColumns);
  for (size_t i = 0; i < data.size(); ++i) data[i] = 10 * static_cast<float>(i % 1000) + 0.5F;
  data[0] = kWrongAt;
  const GraphTensor x = cx.tensor({kRows, kColumns}).set(data);
  constexpr int64_t kTerms = kRowTerms + 1;  // kernels of the other tests, which would take part, sum others
  const UserKernel wrong{.name = name,
                         .run =
                             [](const KernelCall& call) {
                               const auto* in = static_cast<const float*>(call.inputs[0]);
                               auto* out = static_cast<float*>(call.output);
                               for (int64_t i = call.begin * kColumns; i < call.end * kColumns; ++i)
                                 out[i] = row_step_sum(in[i], kTerms) + (in[i] == kWrongAt ? 1.0F : 0.0F);
                             },
                         .tasks = kRows};
  const GraphTensor sums =
      with_kernel(wrong, {x}, [](std::span<const GraphTensor> in) { return row_step_sum(in[0], kTerms); });
  GraphTensor y = (sums.graph_break() * 2).retrieve();
  cx.set_device("cpu-user-faults");
  Compiled compiled = cx.compile(Optimal{});
  compiled();
  EXPECT_EQ(y.data<float>()[0], 2 * row_step_sum(kWrongAt, kTerms));
  EXPECT_EQ(y.data<float>()[1], 2 * row_step_sum(10.5F, kTerms));
  const CompileReport report = compiled.details();
  for (const KernelReport& each : report.kernels) EXPECT_NE(each.schedule, name);
  EXPECT_THAT(report.note, testing::HasSubstr(name + " is wrong and not used"));
}

/// A time budget that leaves no time to verify leaves none for a kernel of the program's own.
TEST_F(UserKernelFaults, AreNotTakenUnverifiedWithinABudget) {
  const auto cases_of = cases();
  const Wrong& wrong = std::ranges::find(cases_of, "one_element", [](const Case& c) {
                         return std::string_view(c.name);
                       })->wrong;
  for (const int milliseconds : {10, 40, 80, 120, 160, 200, 300}) {
    const std::string name = test::fresh_name("within_a_budget");
    EXPECT_THAT(taken(name, wrong, TimeBudget{std::chrono::milliseconds(milliseconds)}),
                testing::Not(testing::Contains(name)))
        << milliseconds;
  }
}

/// Wrong at one size of a named dim alone: one remainder of a vector's length, or the size that the graph is run at.
TEST_F(UserKernelFaults, WrongAtOneSizeOfANamedDim) {
  const auto is_taken = [&](const std::string& what, const std::function<bool(int64_t)>& is_wrong) {
    const std::string name = test::fresh_name(what);
    Graph cx;
    GraphTensor x = cx.tensor({"n", kColumns});
    const UserKernel wrong{.name = name,
                           .run =
                               [is_wrong](const KernelCall& call) {
                                 const auto* in = static_cast<const float*>(call.inputs[0]);
                                 auto* out = static_cast<float*>(call.output);
                                 for (int64_t i = call.begin * kColumns; i < call.end * kColumns; ++i)
                                   out[i] = row_step_sum(in[i]) + (is_wrong(call.dims[0]) ? 1.0F : 0.0F);
                               },
                           .tasks = "n"};
    const GraphTensor y = with_kernel(wrong, {x}, [](std::span<const GraphTensor> in) {
                            return row_step_sum(in[0]);
                          }).retrieve();
    x.set_dyn(std::vector<float>(50 * kColumns, 3), {50, kColumns});
    cx.set_device("cpu-user-faults");
    Compiled compiled = cx.compile(Optimal{});
    compiled();
    const CompileReport report = compiled.details();
    return std::ranges::any_of(report.kernels,
                               [&](const KernelReport& kernel) { return kernel.schedule == name; });
  };
  EXPECT_FALSE(is_taken("remainder", [](int64_t n) { return n % 16 == 7; }));
  EXPECT_FALSE(is_taken("remainder_of_32", [](int64_t n) { return n % 32 == 23; }));
  EXPECT_FALSE(is_taken("from_50_to_63", [](int64_t n) { return n >= 50 && n < 64; }));
}

}  // namespace
}  // namespace luminal
