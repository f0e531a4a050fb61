#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "luminal/luminal.h"
#include "runtime/machine.h"
#include "search/cache/kernel_cache.h"
#include "search/program_key.h"
#include "search/tuning/plan_search.h"
#include "support/cache_rows.h"
#include "support/files.h"
#include "unit/search/pipeline.h"

// What a search remembers of its plan: the costs by which the same cover is found again, and each kernel's
// choice. Nothing that stands there instead may break a compile, or make it wrong.
namespace luminal::search {
namespace {

namespace fs = std::filesystem;

/// Two kernels at least: a product that two others read.
struct Searching {
  Graph cx;
  test::Searched searched;
  explicit Searching(const SearchOptions& given = {}) : options(given) {
    const GraphTensor x = cx.tensor({24, 40}), w = cx.tensor({40, 16});
    const GraphTensor product = x.matmul(w);
    product.softmax(1).retrieve();
    (product.sum(0) * 2).retrieve();
    searched = test::search(cx, options);
  }
  PlanSearchResult find(Cache& cache) {
    static const auto backend = backends::make_cpu_device();
    return search_plan({.graph = cx,
                        .kernel_graph = searched.kernel_graph,
                        .saturated = searched.saturated,
                        .store = *searched.store,
                        .backend = *backend,
                        .cache = cache,
                        .limits = runtime::machine_limits(*backend),
                        .bucket = bucket,
                        .options = options,
                        .loops = loops},
                       program_parts(cx, searched.kernel_graph, backend->target(), bucket, options), {});
  }
  SearchOptions options;
  codegen::Bucket bucket;
  LoopBodies bodies;
  Loops loops{bodies, {}};
};

/// A cover whose kernels all have something that runs.
void expect_whole(const PlanSearchResult& found) {
  ASSERT_FALSE(found.cover.kernels.empty());
  for (const CoverKernel& kernel : found.cover.kernels) {
    ASSERT_TRUE(found.kernels.contains(kernel.spec));
    EXPECT_TRUE(found.kernels.at(kernel.spec).kernel);
    EXPECT_TRUE(found.kernels.at(kernel.spec).verified);
  }
}

TEST(PlanMemory, AFilledCacheIsNotMeasuredAgain) {
  const luminal::test::TemporaryFolder folder;
  Cache cache(folder.path());
  const PlanSearchResult cold = Searching().find(cache);
  expect_whole(cold);
  EXPECT_GT(cold.phases.timed, 0);
  EXPECT_FALSE(cold.rounds.empty());
  KernelCache::of_process().clear();  // as in another process
  const PlanSearchResult warm = Searching().find(cache);
  expect_whole(warm);
  EXPECT_EQ(warm.phases.timed, 0);
  EXPECT_EQ(warm.phases.verified, 0);
  EXPECT_EQ(warm.phases.compiled, 0) << "code is generated anew";
  EXPECT_GT(warm.phases.loaded, 0);
  EXPECT_TRUE(warm.rounds.empty());
  EXPECT_EQ(warm.cover.kernels.size(), cold.cover.kernels.size());
}

bool is_plan(const std::string& content) {
  return content.find("\"schedule\":\"plan\"") != std::string::npos;
}

int64_t plans_in(const fs::path& folder) {
  return std::ranges::count_if(luminal::test::read_choices(folder / "tuning.db"),
                               [](const auto& row) { return is_plan(row.content); });
}

/// With laws of a program's own another plan may be the best.
TEST(PlanMemory, IsOneForEachTextOfAProgramsLaws) {
  const luminal::test::TemporaryFolder folder;
  Cache cache(folder.path());
  const std::string law = R"(; slots-own-exchange (strict)
; Of a symmetric kernel.
(rule ((= t (Op k)) (symmetric k 0 1) (= o (swap k 0 1)))
      ((union t (Op o)))
      :ruleset strict :name "slots-own-exchange")
)";
  const auto search = [&](const std::string& rules, int64_t plans) {
    const int64_t before = cache.statistics().choices;
    const PlanSearchResult found = Searching({.rules = rules}).find(cache);
    EXPECT_EQ(plans_in(folder.path()), plans) << "the plan is remembered apart";
    // By a moment's noise a search may look at one kernel more; otherwise the kernels are the same.
    if (found.phases.timed == 0) {
      EXPECT_EQ(cache.statistics().choices, before + 1);
    }
  };
  search("", 1);
  search(law, 2);
  search(law + "; and nothing else\n", 3);
  const int64_t all = cache.statistics().choices;
  EXPECT_EQ(Searching({.rules = law}).find(cache).phases.timed, 0);
  EXPECT_EQ(cache.statistics().choices, all);
}

/// Gives every choice the content that `change` makes of it, with the check sum that belongs to it. Returns
/// how many it changed.
int rewrite(const fs::path& folder, const std::function<std::string(const std::string&)>& change) {
  std::vector<luminal::test::ChoiceRow> rows = luminal::test::read_choices(folder / "tuning.db");
  int changed = 0;
  for (luminal::test::ChoiceRow& row : rows) {
    const std::string next = change(row.content);
    changed += next == row.content ? 0 : 1;
    row.content = next;
  }
  luminal::test::write_choices(folder / "tuning.db", rows);
  return changed;
}

std::string table(double scale, const std::string& more = "") {
  return fmt::format(R"({{"code":0,"costs":{{"scale":{}{}}},"parameters":{{}},"schedule":"plan"}})", scale,
                     more);
}

/// Rewrites a filled cache and searches again.
void expect_survives(const std::string& what, const std::function<std::string(const std::string&)>& change) {
  SCOPED_TRACE(what);
  const luminal::test::TemporaryFolder folder;
  {
    Cache cache(folder.path());
    expect_whole(Searching().find(cache));
  }
  EXPECT_GT(rewrite(folder.path(), change), 0);
  KernelCache::of_process().clear();
  Cache cache(folder.path());
  expect_whole(Searching().find(cache));
  KernelCache::of_process().clear();
  Cache again(folder.path());
  expect_whole(Searching().find(again));
}

TEST(PlanMemory, TablesThatHoldNoCostsAreFoundAnew) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto plan_is = [](const std::string& content) {
    return [content](const std::string& row) { return is_plan(row) ? content : row; };
  };
  expect_survives("no scale", plan_is(R"({"code":0,"parameters":{},"schedule":"plan"})"));
  expect_survives("no number", plan_is(table(kNaN)));
  expect_survives("zero", plan_is(table(0)));
  expect_survives("below zero", plan_is(table(-3)));
  expect_survives("infinite", plan_is(table(std::numeric_limits<double>::infinity())));
  expect_survives("a cost that is none", plan_is(table(1, R"(,"0123456789abcdef":-1)")));
  expect_survives("costs of nothing", plan_is(table(1, R"(,"what is this":1.5)")));
  expect_survives("a huge scale", plan_is(table(1e300)));
  expect_survives("a kernel's choice", plan_is(R"({"code":1,"parameters":{"inner":1},"schedule":"nest"})"));
}

TEST(PlanMemory, ChoicesThatMakeNoKernelAreFoundAnew) {
  const auto kernel_is = [](const std::string& content) {
    return [content](const std::string& row) { return is_plan(row) ? row : content; };
  };
  expect_survives("a family that is gone", kernel_is(R"({"code":1,"parameters":{},"schedule":"gone"})"));
  expect_survives("no parameters", kernel_is(R"({"code":1,"parameters":{},"schedule":"nest"})"));
  expect_survives(
      "odd parameters",
      kernel_is(R"({"code":1,"parameters":{"inner":-7,"lanes":3,"stored":9},"schedule":"nest"})"));
  expect_survives("a plan", kernel_is(table(1)));
  expect_survives("other code", [](const std::string& row) {
    const size_t at = row.find("\"code\":") + 7;
    return is_plan(row) ? row : row.substr(0, at) + "7" + row.substr(row.find(',', at));
  });
}

}  // namespace
}  // namespace luminal::search
