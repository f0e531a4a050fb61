#include <gtest/gtest.h>

#include <cstring>

#include "luminal/passes.h"
#include "random_graph.h"
#include "support/effort.h"

/// The generic passes on random graphs: the same results as the plain graph, bit for bit in strict mode,
/// within the rounding that the generator bounds in the others.
namespace luminal {
namespace {

using test::RandomGraph;
constexpr uint64_t kGraphs = 1000;

enum class RandomPass { Unused, Cse, Arithmetic, Single, Order, All };
constexpr RandomPass kPasses[] = {RandomPass::Unused, RandomPass::Cse,   RandomPass::Arithmetic,
                                  RandomPass::Single, RandomPass::Order, RandomPass::All};

void run_pass(RandomPass pass, MathMode mode, Graph& cx) {
  switch (pass) {
    case RandomPass::Unused:
      (void)cx.run_pass(RemoveUnusedNodes());
      return;
    case RandomPass::Cse:
      (void)cx.run_pass(CSE(mode));
      return;
    case RandomPass::Arithmetic:
      (void)cx.run_pass(ArithmeticElimination(mode));
      return;
    case RandomPass::Single:
      (void)cx.run_pass(RemoveSingleReductions(mode));
      return;
    case RandomPass::Order:
      (void)cx.run_pass(DepthFirst());
      return;
    case RandomPass::All:
      (void)cx.run_pass(std::tuple(GenericPasses(mode), DepthFirst()));
  }
}

std::vector<TensorData> results_of(RandomGraph& random) {
  random.graph().execute();
  std::vector<TensorData> results;
  for (const RandomGraph::Item& output : random.outputs()) results.push_back(output.tensor.data());
  return results;
}

/// How many nodes all passes together removed.
int64_t check_strict(uint64_t seed) {
  RandomGraph plain(seed, RandomGraph::Kind::Wild);
  const auto before = static_cast<int64_t>(plain.graph().node_count());
  const std::vector<TensorData> expected = results_of(plain);
  int64_t removed = 0;
  for (const RandomPass pass : kPasses) {
    RandomGraph compiled(seed, RandomGraph::Kind::Wild);
    run_pass(pass, MathMode::Strict, compiled.graph());
    removed = before - static_cast<int64_t>(compiled.graph().node_count());
    const std::vector<TensorData> actual = results_of(compiled);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i].dtype, expected[i].dtype);
      EXPECT_EQ(actual[i].dims, expected[i].dims);
      EXPECT_TRUE(actual[i].bytes == expected[i].bytes)
          << "pass " << static_cast<int>(pass) << " output " << i << "\n"
          << to_text(expected[i]) << "\n"
          << to_text(actual[i]) << "\n"
          << plain.graph().to_string() << "\n"
          << compiled.graph().to_string();
    }
    if (testing::Test::HasFailure()) break;
  }
  return removed;
}

TEST(GenericPasses, StrictModeKeepsEveryBit) {
  const uint64_t first = effort::seed(1);
  int64_t removed = 0;
  for (uint64_t seed = first; seed < first + kGraphs; ++seed) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    removed += check_strict(seed);
    if (HasFailure()) return;
  }
  EXPECT_GT(removed, static_cast<int64_t>(kGraphs));  // they did something
}

void check_real(uint64_t seed, MathMode mode) {
  RandomGraph plain(seed, RandomGraph::Kind::Tame);
  const std::vector<TensorData> expected = results_of(plain);
  for (const RandomPass pass : kPasses) {
    RandomGraph compiled(seed, RandomGraph::Kind::Tame);
    run_pass(pass, mode, compiled.graph());
    const std::vector<TensorData> actual = results_of(compiled);
    for (size_t i = 0; i < expected.size(); ++i) {
      const std::vector<double> want = plain.outputs()[i].tensor.data<double>();
      const std::vector<double> got = compiled.outputs()[i].tensor.data<double>();
      ASSERT_EQ(got.size(), want.size());
      for (size_t k = 0; k < want.size(); ++k) {
        ASSERT_TRUE(std::isfinite(want[k])) << "the generator's bounds are wrong";
        ASSERT_NEAR(got[k], want[k], 2 * plain.outputs()[i].error)
            << "pass " << static_cast<int>(pass) << " output " << i << "\n"
            << plain.graph().to_string() << "\n"
            << compiled.graph().to_string();
      }
    }
  }
}

TEST(GenericPasses, RelaxedModeStaysWithinTheRoundingBound) {
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + kGraphs; ++seed) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    check_real(seed, MathMode::Relaxed);
    if (HasFatalFailure()) return;
  }
}

TEST(GenericPasses, FastModeStaysWithinTheRoundingBound) {
  const uint64_t first = effort::seed(1);
  for (uint64_t seed = first; seed < first + kGraphs; ++seed) {
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    check_real(seed, MathMode::Fast);
    if (HasFatalFailure()) return;
  }
}

TEST(GenericPasses, WildGraphsTellTheModesApart) {
  int different = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    RandomGraph plain(seed, RandomGraph::Kind::Wild), compiled(seed, RandomGraph::Kind::Wild);
    run_pass(RandomPass::All, MathMode::Fast, compiled.graph());
    const std::vector<TensorData> expected = results_of(plain), actual = results_of(compiled);
    for (size_t i = 0; i < expected.size(); ++i) different += expected[i].bytes != actual[i].bytes ? 1 : 0;
  }
  EXPECT_GT(different, 0);  // so the strict test would see a law of another mode
}

}  // namespace
}  // namespace luminal
