// The choice of kernels against the exact answer of an integer program over the same fusions.
#include <gtest/gtest.h>

#include "luminal/luminal.h"
#include "support/cover_ilp.h"
#include "support/effort.h"
#include "support/guessed.h"
#include "unit/passes/random_graph.h"
#include "unit/search/pipeline.h"

namespace luminal::search {
namespace {

using test::CoverIlp;

class ExactCover : public testing::Test {
 protected:
  void SetUp() override {
    if (test::has_solver()) return;
    ASSERT_EQ(std::getenv("LUMINAL_TEST_CI"), nullptr)
        << "CI has to have cbc: tools/setup.sh --ci installs it";
    GTEST_SKIP() << "cbc is not installed (Debian: coinor-cbc; tools/setup.sh --ci)";
  }
};

/// What flips found, and the least that any choice over the same fusions costs.
struct Compared {
  double found = 0, least = 0;
  bool cyclic = false;
};

Compared compare(const CoverProblem& problem, SpecStore& store, const SpecCost& cost, int keep) {
  const Structure structure = structure_of(problem, store);
  CostTable costs(store, cost);
  const auto fusions = find_fusions(problem, structure, store, costs, keep);
  const CoverIlp program(problem, fusions);
  Compared result{.found = Selector(problem, structure, fusions).run().cost_us,
                  .cyclic = program.has_cycles()};
  const auto least = program.solve();
  EXPECT_TRUE(least) << "the solver did not come to an end";
  result.least = least.value_or(0);
  // The program knows every choice there is: a wrong constraint would show as a plan that beats it.
  EXPECT_GE(result.found, result.least * (1 - 1e-6));
  return result;
}

/// Alternatives that change places, so that classes can be computed from each other.
void add_cycles(CoverProblem& problem, const SpecStore& store, uint64_t seed) {
  std::mt19937_64 chance(seed);
  const auto kind = [&](size_t c) {
    const auto& list = problem.classes[c].alternatives;
    return list.empty() ? std::string()
                        : store.at(list[0].spec).outputs()[0].elements.to_string() +
                              std::string(name(store.at(list[0].spec).result().dtype()));
  };
  for (int repeat = 0; repeat < 40; ++repeat) {
    const size_t a = chance() % problem.classes.size(), b = chance() % problem.classes.size();
    if (a == b || kind(a).empty() || kind(a) != kind(b)) continue;
    const auto copied = problem.classes[b].alternatives;
    auto& own = problem.classes[a].alternatives;
    own.insert(own.end(), copied.begin(), copied.end());
  }
}

/// Sums over many e-graphs: one small graph may be unlucky.
void compare_random(int keep, bool with_cycles) {
  double found = 0, least = 0;
  int cyclic = 0;
  for (int64_t i = 0; i < effort::cases(25, 300); ++i) {
    const uint64_t seed = effort::seed(7000) + static_cast<uint64_t>(i);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    luminal::test::RandomGraph random(seed, luminal::test::RandomGraph::Kind::Tame, 24);
    const auto searched = test::search(random.graph());
    CoverProblem problem = searched.saturated.cover;
    if (with_cycles) add_cycles(problem, *searched.store, seed);
    const Compared one = compare(problem, *searched.store, test::roofline(), keep);
    EXPECT_LE(one.found, 1.25 * one.least) << "far off even for one small graph";
    found += one.found;
    least += one.least;
    cyclic += one.cyclic ? 1 : 0;
  }
  if (with_cycles) {
    EXPECT_GE(cyclic, 3) << "cycles are what this is about";
  }
  testing::Test::RecordProperty("loss", fmt::format("{:.4f}", found / least - 1));
  EXPECT_LE(found, 1.02 * least);
}

TEST_F(ExactCover, OfRandomGraphsWithEightFusions) { compare_random(8, false); }
TEST_F(ExactCover, OfRandomGraphsWithSixtyFourFusions) { compare_random(64, false); }
TEST_F(ExactCover, OfEGraphsWithCycles) { compare_random(8, true); }

/// No plan is 2 % cheaper: that is quicker to prove than what the cheapest costs.
void compare_graph(Graph& cx, std::initializer_list<int> keeps) {
  const auto searched = test::search(cx);
  const CoverProblem& problem = searched.saturated.cover;
  const Structure structure = structure_of(problem, *searched.store);
  const SpecCost cost = test::roofline();
  CostTable costs(*searched.store, cost);
  for (const int keep : keeps) {
    const auto fusions = find_fusions(problem, structure, *searched.store, costs, keep);
    const double found = Selector(problem, structure, fusions).run().cost_us;
    EXPECT_LE(test::GuessedChoice(problem, structure, fusions).true_cost_us, found * 1.01)
        << keep << " fusions";
    for (const double least : {0.02, 0.1, 0.2, 0.7}) {
      const test::GuessedChoice guessed(problem, structure, fusions, least);
      EXPECT_LE(guessed.true_cost_us, found * 1.02) << keep << " fusions, guesses from " << least;
    }
    // Far too high guesses lead to worse plans, but to plans.
    for (const double most : {2.0, 5.0, 10.0})
      EXPECT_GT(test::GuessedChoice(problem, structure, fusions, 0.02, most).true_cost_us, 0);
    const CoverIlp program(problem, fusions);
    EXPECT_EQ(program.is_there_one_below(found / 1.02), CoverIlp::Answer::No) << keep << " fusions";
    // A wrong constraint would forbid what flips found.
    EXPECT_EQ(program.is_there_one_below(found * 1.02), CoverIlp::Answer::Yes) << keep << " fusions";
  }
}

void add_training(Graph& cx, const GraphTensor& loss, const std::vector<GraphTensor>& weights,
                  std::unique_ptr<training::Adam>& adam) {
  const auto gradients = cx.run_pass(Autograd(weights, loss));
  adam = std::make_unique<training::Adam>(cx, weights, gradients, training::Adam::Options{});
  GraphTensor(loss).retrieve();
}

TEST_F(ExactCover, OfTheDigitNetworksTrainingStep) {
  Graph cx;
  const models::MnistCnn model(cx);
  const GraphTensor images = cx.tensor({64, 1, 28, 28}), labels = cx.tensor({64}, Dtype::I32);
  std::unique_ptr<training::Adam> adam;
  add_training(cx, training::cross_entropy(model.forward(images), labels), nn::params(model), adam);
  compare_graph(cx, {8, 64});
}

/// With 64 fusions the solver takes too long; flips with 64 are compared with flips with 8.
TEST_F(ExactCover, OfATransformer) {
  Graph cx;
  const nn::TransformerEncoder encoder(cx, 1, 64, 4, {.dim_feedforward = 128, .batch_first = true});
  encoder.forward(cx.tensor({8, 32, 64})).retrieve();
  compare_graph(cx, {8});
  const auto searched = test::search(cx);
  const CoverProblem& problem = searched.saturated.cover;
  const double eight = find_cover(problem, *searched.store, test::roofline(), {.fusions = 8}).cost_us;
  const double many = find_cover(problem, *searched.store, test::roofline(), {.fusions = 64}).cost_us;
  EXPECT_LE(eight, 1.02 * many);
}

}  // namespace
}  // namespace luminal::search
