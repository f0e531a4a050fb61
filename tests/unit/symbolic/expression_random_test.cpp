#include <gtest/gtest.h>

#include "luminal/error.h"
#include "oracle.h"

/// Random formulas against the naive meaning of trees: values, facts, comparisons, written forms.
namespace luminal {
namespace {

using oracle::Assignment;
using oracle::Random;
using oracle::Tree;
using oracle::Variable;

// --gtest_random_seed=N runs another sample; the seed is printed with a failure.
const uint64_t kSeed = 20240607 + static_cast<uint64_t>(GTEST_FLAG_GET(random_seed));

std::string describe(const Assignment& a) {
  std::string text;
  for (const auto& [name, value] : a.dims) text += name + "=" + std::to_string(value) + " ";
  for (size_t k = 0; k < a.indices.size(); ++k)
    text += "i" + std::to_string(k) + "=" + std::to_string(a.indices[k]) + " ";
  return text;
}

// Every value that the tree has, the expression has; and the value keeps the facts that the expression
// states.
void expect_same(const Tree& t, const Expression& e, const std::vector<Variable>& variables,
                 const Assignment& a) {
  const auto wanted = oracle::evaluate(t, variables, a);
  if (!wanted) return;  // a division by zero may have been removed, or values are too large
  SCOPED_TRACE(print(t, variables) + "  as  " + e.to_text() + "  at  " + describe(a));
  int64_t value = 0;
  try {
    value = e.exec(a.dims, a.indices);
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
    return;
  }
  ASSERT_EQ(value, static_cast<int64_t>(*wanted));
  ASSERT_GE(value, e.range().min);
  ASSERT_LE(value, e.range().max);
  if (e.divisor() == 0)
    ASSERT_EQ(value, 0);
  else
    ASSERT_EQ(value % e.divisor(), 0) << "divisor " << e.divisor();
}

// Subtrees are checked too, so a failure shows near its cause.
void expect_same_throughout(const std::shared_ptr<Tree>& t, const std::vector<Variable>& variables,
                            const std::vector<Assignment>& assignments) {
  if (t->left) expect_same_throughout(t->left, variables, assignments);
  if (t->right) expect_same_throughout(t->right, variables, assignments);
  if (testing::Test::HasFatalFailure()) return;
  const Expression e = oracle::build(*t, variables);
  for (const Assignment& a : assignments) expect_same(*t, e, variables, a);
}

class RandomExpressions : public testing::TestWithParam<bool> {
 protected:
  const std::vector<Variable> variables_ = GetParam() ? oracle::dims_and_indices() : oracle::dims();
  Random random_{kSeed + (GetParam() ? 1 : 0)};

  std::vector<Assignment> assignments(int count) {
    std::vector<Assignment> all;
    for (int i = 0; i < count; ++i) all.push_back(random_.assignment(variables_, GetParam()));
    return all;
  }
};

TEST_P(RandomExpressions, KeepTheirValues) {
  for (int i = 0; i < 4000; ++i) {
    const auto t = random_.tree(variables_, static_cast<int>(random_.between(1, 5)));
    ASSERT_NO_FATAL_FAILURE(expect_same_throughout(t, variables_, assignments(12)))
        << "seed " << kSeed << " tree " << i;
  }
}

TEST_P(RandomExpressions, ProofsHold) {
  int proven = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto ta = random_.tree(variables_, 2), tb = random_.tree(variables_, 2);
    const Expression a = build(*ta, variables_), b = build(*tb, variables_);
    const bool less = Expression::known_less(a, b), less_equal = Expression::known_less_equal(a, b),
               equal = Expression::known_equal(a, b);
    proven += less + less_equal + equal;
    for (const Assignment& at : assignments(12)) {
      const auto x = oracle::evaluate(*ta, variables_, at), y = oracle::evaluate(*tb, variables_, at);
      if (!x || !y) continue;
      const std::string what = a.to_text() + " and " + b.to_text() + " at " + describe(at);
      if (less) {
        ASSERT_TRUE(*x < *y) << what;
      }
      if (less_equal) {
        ASSERT_TRUE(*x <= *y) << what;
      }
      if (equal) {
        ASSERT_TRUE(*x == *y) << what;
      }
    }
  }
  EXPECT_GT(proven, 400) << "the proofs find nothing";
}

TEST_P(RandomExpressions, ReadBackAsTheSameNode) {
  for (int i = 0; i < 3000; ++i) {
    const auto t = random_.tree(variables_, static_cast<int>(random_.between(1, 4)));
    const Expression e = build(*t, variables_);
    ASSERT_EQ(Expression::parse(e.to_text()), e)
        << e.to_text() << "\n  became " << Expression::parse(e.to_text()).to_text();
    if (!GetParam()) {
      ASSERT_EQ(Expression::parse(e.to_string()), e) << e.to_string();
    }
  }
}

TEST_P(RandomExpressions, SubstitutionIsEvaluation) {
  for (int i = 0; i < 2000; ++i) {
    const auto t = random_.tree(variables_, 3);
    const Expression e = build(*t, variables_);
    const Assignment a = random_.assignment(variables_, GetParam());
    const auto wanted = oracle::evaluate(*t, variables_, a);
    if (!wanted) continue;
    DimMap some = a.dims;
    some.erase("s");
    const std::vector<Expression> indices(a.indices.begin(), a.indices.end());
    Expression part = e.substitute_indices(indices).substitute(some);
    part = part.substitute_flat_index(a.dims.find("z")->second);
    ASSERT_EQ(part.exec(a.dims), static_cast<int64_t>(*wanted)) << e.to_text() << " at " << describe(a);
    ASSERT_EQ(part.substitute("s", a.dims.find("s")->second).constant(), static_cast<int64_t>(*wanted))
        << e.to_text() << " became " << part.to_text() << " at " << describe(a);
  }
}

INSTANTIATE_TEST_SUITE_P(Pools, RandomExpressions, testing::Bool(),
                         [](const auto& p) { return p.param ? "DimsAndIndices" : "Dims"; });

}  // namespace
}  // namespace luminal
