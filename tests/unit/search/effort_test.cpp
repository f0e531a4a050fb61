#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "backends/device.h"
#include "base/team.h"
#include "luminal/luminal.h"
#include "search/encode/kernel_graph.h"
#include "search/tuning/candidates.h"
#include "search/tuning/costs.h"
#include "search/tuning/implementation.h"
#include "search/tuning/remembered.h"
#include "search/tuning/tuner.h"
#include "support/files.h"
#include "unit/search/pipeline.h"

// How much is looked at where: by the share of a plan's time that there is to gain from.
namespace luminal::search {
namespace {

TEST(Effort, GrowsWithTheShare) {
  EXPECT_EQ(effort_for(0, 8), 1);
  EXPECT_EQ(effort_for(0.0009, 8), 1);
  EXPECT_EQ(effort_for(0.004, 8), 2);
  EXPECT_EQ(effort_for(0.019, 8), 4);
  EXPECT_EQ(effort_for(0.02, 8), 8);
  EXPECT_EQ(effort_for(1, 8), 8);
  EXPECT_EQ(effort_for(0.01, 3), 3) << "more than there may be";
}

class Candidacy : public testing::Test {
 protected:
  static kernel::KernelSpec spec_of(const std::function<GraphTensor(Graph&)>& formula) {
    Graph cx;
    auto result = formula(cx).retrieve();
    return encode(cx).tensors.back().spec;
  }
  /// Kernels for which several families compete.
  static std::vector<kernel::KernelSpec> specs() {
    return {spec_of([](Graph& cx) { return cx.tensor({96, 80}).matmul(cx.tensor({80, 64})); }),
            spec_of([](Graph& cx) { return cx.tensor({300, 200}).sum(1); }),
            spec_of([](Graph& cx) { return cx.tensor({64, 50}).permute({1, 0}).exp(); })};
  }
  std::shared_ptr<backends::Device> device_ = backends::find_device("cpu");
};

TEST_F(Candidacy, OneCandidateIsTheModelsChoice) {
  for (const kernel::KernelSpec& spec : specs()) {
    const Implementation choice = best_by_model(spec, {}, device_->target());
    for (const int most : {1, 2, 8}) {
      const Candidates found = find_candidates(spec, {}, device_->target(), most);
      ASSERT_FALSE(found.promising.empty());
      EXPECT_EQ(found.promising[0].schedule, choice.schedule->name) << spec.to_string();
      EXPECT_EQ(found.promising[0].parameters, choice.parameters) << spec.to_string();
      EXPECT_LE(found.promising.size(), static_cast<size_t>(std::max(most, 6)));
      if (most < 3) {
        EXPECT_EQ(found.promising.size(), static_cast<size_t>(most)) << spec.to_string();
      }
    }
  }
}

/// Places are kept for the first of each family that is worth a look, not for those that are far behind.
TEST_F(Candidacy, NoPlaceStaysEmptyWhileOneIsNearTheBest) {
  constexpr double kNear = 1.5;
  std::vector<kernel::KernelSpec> all = specs();
  all.push_back(spec_of([](Graph& cx) { return cx.tensor({200, 200}).matmul(cx.tensor({200, 200})); }));
  for (const kernel::KernelSpec& spec : all) {
    const double best_us = best_by_model(spec, {}, device_->target()).predicted_us;
    size_t near = 0;
    for (const codegen::Schedule* family : codegen::schedules())
      for (const codegen::Candidate& candidate : family->candidates(spec, {}, device_->target()))
        near += candidate.predicted_us <= kNear * best_us ? 1 : 0;
    for (const size_t most : {2U, 4U, 8U}) {
      const Candidates found = find_candidates(spec, {}, device_->target(), static_cast<int>(most));
      EXPECT_GE(found.promising.size(), std::min(near, most)) << most << "\n" << spec.to_string();
    }
  }
}

/// Searches that differ in a moment's noise come to one kernel.
TEST(Merit, OfEquallyFastCandidatesTheModelsFirstIsTaken) {
  const auto leader_of = [](const std::vector<double>& us) {
    Job job;
    for (const double each : us) job.tried.push_back({.schedule = "nest", .measured_us = each});
    return job.by_merit();
  };
  EXPECT_THAT(leader_of({10.1, 10, 12}), testing::ElementsAre(0, 1, 2));
  EXPECT_THAT(leader_of({10.2, 10, 12}), testing::ElementsAre(1, 0, 2));
  EXPECT_THAT(leader_of({12, 10.1, 11, 10}), testing::ElementsAre(1, 3, 2, 0));
  EXPECT_THAT(leader_of({0, 10, 0}), testing::ElementsAre(1, 0, 2)) << "what was not timed comes last";
  EXPECT_THAT(leader_of({0, 0}), testing::ElementsAre(0, 1));
  EXPECT_THAT(leader_of({}), testing::ElementsAre());
}

/// Where another bucket was searched, what won there meets the model's choice.
TEST(Merit, WhatWonInAnotherBucketIsTriedBesideTheModelsChoice) {
  Candidates found;
  for (const char* family : {"contract", "map", "nest", "reduce"})
    found.promising.push_back({.schedule = family});
  found.hopeless.push_back({.schedule = "row"});
  const auto names_of = [](const std::vector<Tried>& list) {
    std::vector<std::string> names;
    for (const Tried& each : list) names.push_back(each.schedule);
    return names;
  };
  const Candidates few = narrowed(found, {.schedule = "nest", .parameters = {}});
  EXPECT_THAT(names_of(few.promising), testing::ElementsAre("contract", "nest"));
  EXPECT_THAT(names_of(few.hopeless), testing::ElementsAre("map", "reduce", "row"));
  EXPECT_EQ(narrowed(found, {.schedule = "stream", .parameters = {}}).promising.size(), 4U);
  EXPECT_EQ(narrowed(found, {.schedule = "contract", .parameters = {}}).promising.size(), 1U);
}

/// Tiles and tasks grow with sizes: the other bucket's choice, to the number, is hardly ever a candidate here.
TEST(Merit, OfAFamilyTheOneMostLikeWhatWonInAnotherBucketIsTried) {
  Candidates found;
  const std::vector<codegen::Parameters> of_tiles{
      {{"task", 10}, {"tile", 14}, {"pack", 0}, {"depth", 0}},
      {{"task", 10}, {"tile", 9}, {"pack", 0}, {"depth", 0}},
      {{"task", 2}, {"tile", 9}, {"pack", 2}, {"depth", 256}},
      {{"task", 3}, {"tile", 9}, {"pack", 2}, {"depth", 256}},
  };
  for (const codegen::Parameters& parameters : of_tiles)
    found.promising.push_back({.schedule = "contract", .parameters = parameters});
  found.promising.push_back({.schedule = "nest", .parameters = of_tiles[0]});
  const auto tried_beside = [&](const codegen::Parameters& elsewhere) {
    const Candidates few = narrowed(found, {.schedule = "contract", .parameters = elsewhere});
    EXPECT_EQ(few.promising.size() + few.hopeless.size(), found.promising.size());
    EXPECT_EQ(few.promising[0].parameters, of_tiles[0]) << "the model's choice";
    std::vector<codegen::Parameters> tried;
    for (size_t i = 1; i < few.promising.size(); ++i) tried.push_back(few.promising[i].parameters);
    return tried;
  };
  EXPECT_THAT(tried_beside({{"task", 7}, {"tile", 8}, {"pack", 2}, {"depth", 256}}),
              testing::ElementsAre(of_tiles[2]))
      << "the model's better one of two that are equally like it";
  EXPECT_THAT(tried_beside({{"task", 3}, {"tile", 8}, {"pack", 2}, {"depth", 256}}),
              testing::ElementsAre(of_tiles[3]));
  EXPECT_THAT(tried_beside({{"task", 9}, {"tile", 14}, {"pack", 0}, {"depth", 0}}), testing::ElementsAre())
      << "the model's choice is the one most like it";
  EXPECT_THAT(tried_beside({{"task", 9}, {"tile", 9}, {"pack", 0}, {"depth", 0}}),
              testing::ElementsAre(of_tiles[1]));
  EXPECT_THAT(tried_beside({}), testing::ElementsAre()) << "nothing is like it: the family's first";
}

TEST_F(Candidacy, EachFamilyHasACandidateShouldAllOthersFall) {
  for (const kernel::KernelSpec& spec : specs())
    for (const int most : {1, 2, 8}) {
      const Candidates found = find_candidates(spec, {}, device_->target(), most);
      for (const codegen::Schedule* family : codegen::schedules()) {
        const auto first = codegen::best_of(*family, spec, {}, device_->target());
        if (!first) continue;
        const auto is_first = [&](const Tried& tried) {
          return tried.schedule == family->name && tried.parameters == first->parameters;
        };
        EXPECT_EQ(std::ranges::count_if(found.promising, is_first) +
                      std::ranges::count_if(found.hopeless, is_first),
                  1)
            << family->name << " " << most << "\n"
            << spec.to_string();
      }
    }
}

TEST_F(Candidacy, WhatWasFoundWithLittleEffortServesNoLargerShare) {
  const kernel::KernelSpec spec = specs()[0];
  const luminal::test::TemporaryFolder folder;
  Cache cache(folder.path());
  const auto tuned_at = [&](double share) {
    const Graph cx;
    Tuner tuner(*device_, cache, cx, {});
    std::vector<TuneRequest> open(1);
    open[0].spec = spec;
    open[0].share = share;
    return tuner.tune(open, {})[0];
  };
  const Tuned cheap = tuned_at(0);
  EXPECT_FALSE(cheap.from_cache);
  EXPECT_EQ(cheap.tried.size(), 1U);
  EXPECT_GT(cheap.measured_us, 0);
  EXPECT_TRUE(tuned_at(0).from_cache);
  const Tuned thorough = tuned_at(1);
  EXPECT_FALSE(thorough.from_cache);
  EXPECT_GT(thorough.tried.size(), 1U);
  for (const double share : {1.0, 0.01, 0.0}) {
    const Tuned known = tuned_at(share);
    EXPECT_TRUE(known.from_cache);
    EXPECT_EQ(known.parameters, thorough.parameters);
  }
}

/// They are verified on fewer inputs then, in whatever batch they come.
TEST_F(Candidacy, KernelsOfAFormWaitForTheFirstOfThem) {
  const auto cases_at = [&](const std::vector<int64_t>& columns) {
    const luminal::test::TemporaryFolder folder;
    Cache cache(folder.path());
    const Graph cx;
    Tuner tuner(*device_, cache, cx, {});
    std::vector<TuneRequest> requests;
    // The model's choice alone, for a race may end with other lanes, or another family, from one size to the next.
    for (const int64_t n : columns)
      requests.push_back(
          {.spec = spec_of([n](Graph& own) { return own.tensor({64, n}).sum(1); }), .share = 0});
    std::vector<Tuned> tuned = tuner.tune(requests, {});
    std::vector<Tuned*> winners;
    for (Tuned& each : tuned) winners.push_back(&each);
    tuner.confirm(winners);
    for (const Tuned& each : tuned) EXPECT_TRUE(each.verified);
    EXPECT_GT(tuner.phases().compared, static_cast<int64_t>(columns.size()) * 64) << "each is compared";
    return tuner.phases().cases;
  };
  std::vector<int64_t> columns;
  const int64_t more_than_processors = Team::shared().size() + 10;
  for (int64_t n = 0; n < more_than_processors; ++n) columns.push_back(501 + n);
  const int64_t one = cases_at({500}), many = cases_at(columns);
  columns.push_back(500);
  const int64_t further = cases_at(columns) - many;
  EXPECT_GT(further, 0);
  EXPECT_LT(further, one);
  EXPECT_EQ(many, one + (more_than_processors - 1) * further);
}

/// Compiles of one executable share what passed. Each bucket's kernel runs at all the bucket's sizes all the same.
TEST_F(Candidacy, AFormThatPassedForOneBucketShowsLessForTheNext) {
  const auto cases_of = [&](int64_t top, const std::shared_ptr<PassedForms>& passed) {
    const luminal::test::TemporaryFolder folder;
    Cache cache(folder.path());
    const Graph cx;
    codegen::Bucket bucket;
    bucket.facts.emplace("n", DimFacts{.min = top / 2 + 1, .max = top});
    Tuner tuner(*device_, cache, cx, {.passed_forms = passed});
    const TuneRequest request{.spec = spec_of([](Graph& own) { return own.tensor({"n", 500}).sum(1); }),
                              .share = 0};
    std::vector<Tuned> tuned = tuner.tune({&request, 1}, bucket);
    Tuned* const winner = tuned.data();
    tuner.confirm({&winner, 1});
    EXPECT_TRUE(tuned[0].verified);
    return tuner.phases().cases;
  };
  const auto shared = std::make_shared<PassedForms>();
  (void)cases_of(128, shared);
  EXPECT_EQ(shared->size(), 1U);
  const int64_t next = cases_of(256, shared);
  EXPECT_LT(next, cases_of(256, std::make_shared<PassedForms>()));
  constexpr int64_t kSizes = 64;
  EXPECT_GT(next, kSizes);
}

TEST(Costs, ArePredictionsScaledByWhatTakesTime) {
  Graph cx;
  const GraphTensor large = cx.tensor({256, 256}).matmul(cx.tensor({256, 256})).retrieve();
  std::vector<GraphTensor> small;
  for (int64_t n = 3; n < 12; ++n) small.push_back(cx.tensor({n}).exp().retrieve());
  const GraphTensor unknown = cx.tensor({77, 5}).sum(1).retrieve();
  const luminal::search::test::Searched searched = luminal::search::test::search(cx);
  const auto backend = backends::find_device("cpu");
  const luminal::test::TemporaryFolder folder;
  Cache cache(folder.path());
  const kernel::MachineLimits limits;
  const SearchOptions options;
  const codegen::Bucket bucket;
  const LoopBodies bodies;
  const Loops loops{bodies, {}};
  const PlanSearchContext context{.graph = cx,
                                  .kernel_graph = searched.kernel_graph,
                                  .saturated = searched.saturated,
                                  .store = *searched.store,
                                  .backend = *backend,
                                  .cache = cache,
                                  .limits = limits,
                                  .bucket = bucket,
                                  .options = options,
                                  .loops = loops};
  const auto id_of = [&](const GraphTensor& tensor) {
    for (const KernelGraph::Tensor& made : searched.kernel_graph.tensors)
      if (made.value == tensor.edge().source) return searched.store->intern(made.spec);
    throw InternalError("the tensor is no kernel's");
  };
  Costs costs(context);
  const double predicted_us = costs.of(id_of(unknown)), large_us = costs.of(id_of(large));
  // Many small kernels are five times as fast as predicted, the large one takes twice as long.
  double total_us = 2 * large_us, total_predicted_us = large_us;
  for (const GraphTensor& each : small) {
    const double us = costs.of(id_of(each));
    total_us += us / 5;
    total_predicted_us += us;
    costs.set(id_of(each), us / 5);
  }
  costs.set(id_of(large), 2 * large_us);
  costs.calibrate();
  EXPECT_NEAR(costs.of(id_of(unknown)), predicted_us * total_us / total_predicted_us, 1e-6 * predicted_us);
  EXPECT_GT(costs.of(id_of(unknown)), predicted_us);
  EXPECT_EQ(costs.of(id_of(large)), 2 * large_us) << "what was measured is not scaled";
}

}  // namespace
}  // namespace luminal::search
