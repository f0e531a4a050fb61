#include "luminal/user_kernel.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <set>

#include "backends/device.h"
#include "luminal/luminal.h"
#include "search/session.h"
#include "support/files.h"
#include "support/fresh_name.h"

// Kernels of a program's own compete with the generated ones, and are judged like them. They are the
// process's: each test has sizes of its own.
namespace luminal {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;
using testing::Pointwise;

class UserKernels : public testing::Test {
 protected:
  void SetUp() override {
    static const auto session =
        search::make_session({.device = "cpu-own", .backend = backends::make_cpu_device()});
    register_session("cpu-own", [] { return session; });
    std::filesystem::current_path(folder_.path());  // where replay files go
  }
  void TearDown() override { std::filesystem::current_path(before_); }

  static Compiled compile(Graph& cx, const CompilationMode& mode = Optimal{}) {
    cx.set_device("cpu-own");
    Compiled compiled = cx.compile(mode);
    compiled();
    return compiled;
  }
  static std::set<std::string> taken(const Compiled& compiled) {
    std::set<std::string> names;
    for (const KernelReport& kernel : compiled.details().kernels) names.insert(kernel.schedule);
    return names;
  }
  /// Why a kernel of this name was not taken, wherever it was tried.
  static std::vector<std::string> reasons(const Compiled& compiled, std::string_view name) {
    std::vector<std::string> list;
    for (const KernelReport& kernel : compiled.details().kernels)
      for (const auto& other : kernel.rejected)
        if (other.schedule == name) list.push_back(other.reason);
    return list;
  }
  [[nodiscard]] bool has_replay() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (entry.path().filename().string().starts_with("luminal-replay-")) return true;
    return false;
  }

 private:
  test::TemporaryFolder folder_;
  std::filesystem::path before_ = std::filesystem::current_path();
};

constexpr int64_t kTerms = 60'000;
constexpr double kRounding = 1e-3;  ///< of their sum

/// sum over k of 2 + (k < x): many terms for a generated kernel, a formula for one who knows it.
GraphTensor step_sum(const GraphTensor& x) {
  Graph cx = x.graph();
  const GraphTensor k = cx.arange(kTerms).cast(Dtype::F32);
  return (k.lt(x.unsqueeze(1)).cast(Dtype::F32) + 2).sum(1);
}
double step_sum(double x) {
  const auto n = static_cast<double>(kTerms);
  return 2 * n + (x > 0 ? std::min(std::ceil(x), n) : 0);
}
UserKernel step_kernel(const std::string& name, int64_t size, double factor = 1) {
  return {.name = name,
          .run =
              [factor](const KernelCall& call) {
                const auto* x = static_cast<const float*>(call.inputs[0]);
                for (int64_t i = call.begin; i < call.end; ++i)
                  static_cast<float*>(call.output)[i] = static_cast<float>(factor * step_sum(double{x[i]}));
              },
          .tasks = size};
}
Definition steps() {
  return [](std::span<const GraphTensor> in) { return step_sum(in[0]); };
}

std::vector<float> ramp(int64_t count, float from = 0, float step = 0.01F) {
  std::vector<float> list(static_cast<size_t>(count));
  for (size_t i = 0; i < list.size(); ++i) list[i] = from + step * static_cast<float>(i);
  return list;
}

TEST_F(UserKernels, TheFasterOneIsTakenWhereTimesAreMeasured) {
  const std::string name = test::fresh_name("steps");
  const auto build = [&](Graph& cx) {
    const GraphTensor x = cx.tensor({40}).set(ramp(40));
    return (with_kernel(step_kernel(name, 40), {x}, steps()) * 2).retrieve();
  };
  Graph cx, quick;
  const GraphTensor y = build(cx), same = build(quick);
  const Compiled measured = compile(cx);
  EXPECT_TRUE(taken(measured).contains(name)) << measured.report();
  ASSERT_EQ(measured.details().user_kernels.size(), 1U);
  EXPECT_EQ(measured.details().user_kernels[0].outcome, "taken");
  EXPECT_GT(measured.details().user_kernels[0].generated_us, measured.details().user_kernels[0].measured_us);
  for (const KernelReport& kernel : measured.details().kernels)
    if (kernel.schedule == name) {
      EXPECT_TRUE(kernel.verified);
      EXPECT_THAT(kernel.loops(), HasSubstr("native " + name));
      EXPECT_FALSE(kernel.rejected.empty());
    }
  EXPECT_FALSE(taken(compile(quick, Fast{})).contains(name));
  for (int i = 0; i < 40; ++i) {
    EXPECT_NEAR(y.data<float>()[static_cast<size_t>(i)] / (2 * step_sum(0.01 * i)), 1, kRounding);
    EXPECT_NEAR(same.data<float>()[static_cast<size_t>(i)] / (2 * step_sum(0.01 * i)), 1, kRounding);
  }
}

TEST_F(UserKernels, AWrongOneIsToldAndNotUsed) {
  const std::string name = test::fresh_name("wrong");
  Graph cx;
  const GraphTensor x = cx.tensor({41}).set(ramp(41));
  const GraphTensor y = with_kernel(step_kernel(name, 41, 1.01), {x}, steps()).retrieve();
  const Compiled compiled = compile(cx);
  EXPECT_FALSE(taken(compiled).contains(name));
  const CompileReport details = compiled.details();
  ASSERT_EQ(details.user_kernels.size(), 1U) << compiled.report();
  const std::string& outcome = details.user_kernels[0].outcome;
  EXPECT_THAT(outcome, Not(testing::AnyOf("slower", "", KernelReport::Rejected::kNotTimed)));
  // Without it two kernels may be faster than one: then none of the plan's was an alternative to it.
  for (const std::string& why : reasons(compiled, name)) EXPECT_EQ(why, outcome);
  EXPECT_TRUE(has_replay());
  EXPECT_NEAR(y.data<float>()[7] / step_sum(0.07), 1, kRounding);
}

/// One element is left to the tasks of nobody.
TEST_F(UserKernels, OneThatLeavesElementsOutIsNotUsed) {
  const std::string name = test::fresh_name("gap");
  UserKernel kernel = step_kernel(name, 42);
  Graph cx;
  const GraphTensor x = cx.tensor({43}).set(ramp(43));
  const GraphTensor y = with_kernel(kernel, {x}, steps()).retrieve();
  EXPECT_FALSE(taken(compile(cx)).contains(name));
  EXPECT_NEAR(y.data<float>()[42] / step_sum(0.42), 1, kRounding);
}

TEST_F(UserKernels, NamedDimsReachTheKernel) {
  const std::string name = test::fresh_name("dynamic");
  const Expression n = Expression::dim("n", {.min = 1, .max = 64});
  UserKernel kernel = step_kernel(name, 0);
  kernel.tasks = n;
  static std::atomic<int64_t> seen{0};
  kernel.run = [run = kernel.run](const KernelCall& call) {
    seen = call.dims.size() == 1 ? call.dims[0] : -1;
    run(call);
  };
  Graph cx;
  const GraphTensor x = cx.tensor({n});
  const GraphTensor y = with_kernel(kernel, {x}, steps()).retrieve();
  cx.set_device("cpu-own");
  Compiled compiled = cx.compile(Optimal{});
  for (const int64_t size : {40, 33, 5}) {
    cx.set_dim("n", size);
    GraphTensor(x).set_dyn(ramp(size), {size});
    compiled();
    EXPECT_TRUE(taken(compiled).contains(name)) << size << "\n" << compiled.report();
    EXPECT_EQ(seen, size);
    EXPECT_EQ(y.data<float>().size(), static_cast<size_t>(size));
    EXPECT_NEAR(y.data<float>().back() / step_sum(0.01 * static_cast<double>(size - 1)), 1, kRounding);
  }
}

/// Inputs come in the order of the definition, whatever order the spec has them in; views are made dense; the
/// workspaces are there.
TEST_F(UserKernels, SeesItsInputsAsTheDefinitionNamesThem) {
  const std::string name = test::fresh_name("difference");
  static std::atomic<int> calls{0}, bad{0};
  const auto run = [](const KernelCall& call) {
    ++calls;
    const auto* a = static_cast<const float*>(call.inputs[0]);
    const auto* b = static_cast<const float*>(call.inputs[1]);
    const auto* bias = static_cast<const float*>(call.inputs[2]);
    auto* local = reinterpret_cast<float*>(call.local);
    if (reinterpret_cast<uintptr_t>(local) % 64 != 0 || call.shared == nullptr) ++bad;
    for (int64_t i = call.begin; i < call.end; ++i) {
      for (int64_t j = 0; j < 8; ++j) local[j] = a[i * 8 + j] - b[j * 6 + i];
      for (int64_t j = 0; j < 8; ++j)
        static_cast<float*>(call.output)[i * 8 + j] =
            static_cast<float>(step_sum(double{local[j] + bias[j]}));
    }
  };
  const UserKernel kernel{.name = name, .run = run, .tasks = 6, .shared_bytes = 100, .local_bytes = 32};
  Graph cx;
  const GraphTensor a = cx.tensor({8, 6}).set(ramp(48)), b = cx.tensor({8, 6}).set(ramp(48, 5, 0.5F)),
                    bias = cx.tensor({8}).set(ramp(8, 1));
  const GraphTensor y = with_kernel(kernel, {a.t(), b, bias}, [](std::span<const GraphTensor> in) {
                          return step_sum((in[0] - in[1].t() + in[2]).reshape({48})).reshape({6, 8});
                        }).retrieve();
  const Compiled compiled = compile(cx);
  EXPECT_TRUE(taken(compiled).contains(name)) << compiled.report();
  EXPECT_GT(calls, 0);
  EXPECT_EQ(bad, 0);
  std::vector<float> expected;
  for (size_t i = 0; i < 6; ++i)
    for (size_t j = 0; j < 8; ++j)
      expected.push_back(static_cast<float>(
          step_sum(double{ramp(48)[j * 6 + i] - ramp(48, 5, 0.5F)[j * 6 + i] + ramp(8, 1)[j]})));
  EXPECT_THAT(y.data<float>(), Pointwise(testing::FloatNear(40), expected));
}

TEST_F(UserKernels, ItsOutputSharesNoMemory) {
  const std::string name = test::fresh_name("update");
  static std::atomic<int> shared{0}, calls{0};
  const UserKernel kernel{.name = name, .run = [](const KernelCall& call) {
                            ++calls;
                            if (call.output == call.inputs[0]) ++shared;
                            const auto* x = static_cast<const float*>(call.inputs[0]);
                            for (int i = 0; i < 64; ++i)
                              static_cast<float*>(call.output)[i] =
                                  static_cast<float>(step_sum(double{x[i]}));
                          }};
  Graph cx;
  const GraphTensor state = cx.tensor({64}).set(ramp(64));
  state.assign(with_kernel(kernel, {state}, steps()));
  const Compiled compiled = compile(cx);
  EXPECT_TRUE(taken(compiled).contains(name));
  EXPECT_GT(calls, 0);
  EXPECT_EQ(shared, 0);
  EXPECT_NEAR(state.data<float>()[63] / step_sum(0.63), 1, kRounding);
}

TEST_F(UserKernels, GradientsAreThoseOfTheDefinition) {
  Graph cx;
  const GraphTensor x = cx.tensor({5}).set(ramp(5, -1, 0.5F));
  const UserKernel cube{.name = test::fresh_name("cube"), .run = [](const KernelCall& call) {
                          for (int i = 0; i < 5; ++i) {
                            const float v = static_cast<const float*>(call.inputs[0])[i];
                            static_cast<float*>(call.output)[i] = v * v * v;
                          }
                        }};
  const GraphTensor y =
      with_kernel(cube, {x}, [](std::span<const GraphTensor> in) { return in[0] * in[0] * in[0]; });
  const GraphTensor slope = cx.run_pass(Autograd({x}, y.sum()))[0].retrieve();
  compile(cx);
  std::vector<float> expected;
  for (const float v : ramp(5, -1, 0.5F)) expected.push_back(3 * v * v);
  EXPECT_THAT(slope.data<float>(), Pointwise(testing::FloatNear(1e-5F), expected));
}

/// Another version is timed anew; the version that is there keeps its code.
TEST_F(UserKernels, VersionsAreApart) {
  const std::string name = test::fresh_name("version");
  const auto result = [&](UserKernel kernel) {
    Graph cx;
    const GraphTensor x = cx.tensor({42}).set(ramp(42));
    const GraphTensor y = with_kernel(kernel, {x}, steps()).retrieve();
    const Compiled compiled = compile(cx);
    std::string parameters;
    for (const KernelReport& k : compiled.details().kernels)
      if (k.schedule == name) parameters = k.parameters;
    return parameters;
  };
  EXPECT_EQ(result(step_kernel(name, 42)), "version=1");
  EXPECT_EQ(result(step_kernel(name, 42, 3)), "version=1");  // the first code, which is right
  UserKernel slow = step_kernel(name, 42);
  slow.version = 2;
  slow.run = [run = slow.run](const KernelCall& call) {
    for (int i = 0; i < 500; ++i) run(call);  // much longer than a launch takes
  };
  EXPECT_EQ(result(slow), "version=1");
}

TEST_F(UserKernels, MistakesAreTold) {
  const auto message = [](const UserKernel& kernel, std::vector<TensorType> types,
                          const Definition& definition) {
    try {
      add_kernel(kernel, types, definition);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  const TensorType vector{Dtype::F32, {40}};
  const auto run = [](const KernelCall&) {};
  EXPECT_THAT(message({.name = "my kernel", .run = run}, {vector}, steps()),
              HasSubstr("'my kernel' is not an identifier"));
  EXPECT_THAT(message({.name = "empty"}, {vector}, steps()), HasSubstr("no code to run"));
  EXPECT_THAT(message({.name = "lonely", .run = run}, {}, steps()), HasSubstr("0 inputs"));
  EXPECT_THAT(message({.name = "map", .run = run}, {vector}, steps()), HasSubstr("'map'"));
  EXPECT_THAT(
      message({.name = "foreign", .run = run, .tasks = Expression::dim("rows", {})}, {vector}, steps()),
      HasSubstr("dim 'rows', which no input has"));
  EXPECT_THAT(message({.name = "unread", .run = run}, {vector, vector}, steps()),
              HasSubstr("no single kernel"));
  EXPECT_THAT(message({.name = "sorted", .run = run}, {vector},
                      [](std::span<const GraphTensor> in) { return in[0].cumsum(0).cumsum(0).softmax(0); }),
              HasSubstr("no single kernel"));
}

}  // namespace
}  // namespace luminal
