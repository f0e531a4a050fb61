#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "luminal/luminal.h"
#include "search/cache/kernel_cache.h"
#include "support/environment.h"
#include "support/files.h"

// What LUMINAL_DEBUG and LUMINAL_DUMP tell of a compile.
namespace luminal::search {
namespace {

using test::EnvironmentVariable;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Rows of exp(x) over their sum: one kernel. Returns what is told until it has run once.
std::string told(const CompilationMode& mode) {
  KernelCache::of_process().clear();  // what is there already is not made, and not told
  Graph cx;
  cx.set_device("cpu");
  const GraphTensor x = cx.named_tensor("x", {2, 3}).set(std::vector<float>(6, 1.0F));
  GraphTensor y = x.softmax(1).retrieve();
  testing::internal::CaptureStderr();
  cx.compile(mode)();
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(y.data<float>(), testing::Each(testing::FloatNear(1.F / 3, 1e-6F)));
  return text;
}

TEST(Told, NothingUnlessAsked) { EXPECT_EQ(told(Fast{}), ""); }

TEST(Told, ALineOfEachCompile) {
  const EnvironmentVariable level("LUMINAL_DEBUG", "1");
  (void)told(Fast{});  // tells the devices, if nobody did before
  const std::string text = told(Fast{});
  EXPECT_THAT(text, HasSubstr("cpu: compiled (fast) in "));
  EXPECT_THAT(text, HasSubstr("1 kernels in 1 launches"));
  EXPECT_THAT(text, ContainsRegex("encode [0-9.]+ ms"));
  EXPECT_THAT(text, Not(HasSubstr("search:")));
}

TEST(Told, WhatWasTakenBesideTheBestThatWasNot) {
  const EnvironmentVariable level("LUMINAL_DEBUG", "3");
  EXPECT_THAT(told(Fast{}),
              ContainsRegex("search: [a-z]+_[0-9a-f]+: [a-z]+ .*, predicted [0-9.]+ us; best rejected: .* "
                            "slower by the model"));
}

TEST(Told, SourceAndMachineCode) {
  {
    const EnvironmentVariable level("LUMINAL_DEBUG", "4");
    const std::string text = told(Fast{});
    EXPECT_THAT(text, HasSubstr("kernel f32[2,3]"));
    EXPECT_THAT(text, ContainsRegex("stage 0: task i0 in [0-9]")) << "launch sizes";
    EXPECT_THAT(text, HasSubstr("define ")) << "source";
    EXPECT_THAT(text, Not(HasSubstr("[rule]")));
  }
  const EnvironmentVariable level("LUMINAL_DEBUG", "7");
  const std::string text = told(Fast{});
  EXPECT_THAT(text, HasSubstr("[saturate]"));
  EXPECT_THAT(text, HasSubstr("[rule] kernel-slot-read: "));
  EXPECT_THAT(text, HasSubstr("\tret"));
}

TEST(Told, WhyAGraphIsCompiledAnew) {
  const EnvironmentVariable level("LUMINAL_DEBUG", "1");
  Graph cx;
  cx.set_device("cpu");
  GraphTensor x = cx.tensor({"n"}), y = (x * 2).retrieve();
  const auto at = [&](int64_t n) {
    x.set_dyn(std::vector<float>(static_cast<size_t>(n), 1), {n});
    testing::internal::CaptureStderr();
    cx.execute();
    EXPECT_EQ(y.data<float>().size(), static_cast<size_t>(n));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(at(1), Not(HasSubstr("compiled anew")));
  EXPECT_THAT(at(3), HasSubstr("compiled anew because sizes left the bucket: n 3..4 instead of n 1"));
  EXPECT_THAT(at(4), Not(HasSubstr("compiled")));
  // At most eight live at once: the oldest is gone after eight more, the others are there.
  for (const int64_t n : {6, 9, 20, 40, 70, 130, 260}) EXPECT_THAT(at(n), HasSubstr("compiled anew"));
  EXPECT_THAT(at(3), Not(HasSubstr("compiled")));
  EXPECT_THAT(at(1), HasSubstr("compiled anew"));
}

TEST(Dumped, EveryStage) {
  const luminal::test::TemporaryFolder folder;
  const EnvironmentVariable dump("LUMINAL_DUMP", (folder.path() / "made" / "dump").string());
  EXPECT_EQ(told(Fast{}), "");
  std::map<std::string, std::string> by_ending;  // "_graph.txt"; of a kernel's files ".txt"
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() / "made" / "dump")) {
    const std::string name = entry.path().filename().string();
    const bool is_stage = name.find('_') == 16;  // behind the plan's key
    by_ending[name.substr(is_stage ? 16 : name.find('.'))] = luminal::test::content_of(entry.path());
  }
  EXPECT_EQ(by_ending.size(), 7U);
  EXPECT_THAT(by_ending["_graph.txt"], HasSubstr("input \"x\""));
  EXPECT_THAT(by_ending["_egraph.txt"], HasSubstr("max j in 3: A[i,j]"));
  EXPECT_THAT(by_ending["_plan.txt"], HasSubstr("result "));
  EXPECT_THAT(by_ending["_report.txt"], HasSubstr("where A = x f32[2, 3]"));
  EXPECT_THAT(by_ending[".txt"], HasSubstr("stage 0"));
  EXPECT_THAT(by_ending[".ll"], HasSubstr("define "));
  EXPECT_THAT(by_ending[".s"], HasSubstr("ret"));
}

TEST(Dumped, AFolderThatCannotBeWrittenIsToldOnceAndStopsNothing) {
  const luminal::test::TemporaryFolder folder;
  const EnvironmentVariable dump("LUMINAL_DUMP", (folder.file("file", "no folder") / "below").string());
  const std::string text = told(Fast{});
  EXPECT_THAT(text, HasSubstr("[dump] cannot write to LUMINAL_DUMP='"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(told(Fast{}), "");
}

}  // namespace
}  // namespace luminal::search
