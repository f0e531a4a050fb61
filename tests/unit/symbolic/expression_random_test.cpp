#include <gtest/gtest.h>

#include <algorithm>

#include "luminal/error.h"
#include "oracle.h"
#include "symbolic/node.h"

/// Random formulas against the naive meaning of trees: values, facts, comparisons, written forms.
namespace luminal {
namespace {

using oracle::Assignment;
using oracle::Random;
using oracle::Tree;
using oracle::Variable;

// --gtest_random_seed=N runs another sample; the seed is printed with a failure.
uint64_t expression_seed() { return 20240607 + static_cast<uint64_t>(GTEST_FLAG_GET(random_seed)); }

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
  Random random_{expression_seed() + (GetParam() ? 1 : 0)};

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
        << "seed " << expression_seed() << " tree " << i;
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
  for (int i = 0; i < 1500; ++i) {
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

using Child = std::shared_ptr<Tree>;

Child number(int64_t value) {
  auto t = std::make_shared<Tree>();
  t->value = value;
  return t;
}

/// Dividends of the form c*q + low and divisors c*d: the shape of every index of a reshaped tensor.
class NestedDivisions {
 public:
  NestedDivisions(const std::vector<Variable>& variables, Random& random)
      : variables_(variables), random_(random) {
    const Child i0 = index(0), i1 = index(1), i2 = index(2), i3 = index(3), i4 = index(4), i5 = index(5);
    const Child s = dim("s"), t = dim("t");
    const auto times = [](const Child& a, const Child& b) { return node('*', a, b); };
    const auto plus = [](const Child& a, const Child& b) { return node('+', a, b); };
    fitting_ = {{number(4), i2},
                {number(6), i5},
                {number(8), plus(times(number(2), i2), number(1))},
                {number(12), times(number(2), i5)},
                {number(24), plus(times(number(6), i2), i5)},
                {number(24), plus(times(number(4), i5), i2)},
                {number(28), plus(times(number(4), i5), i2)},
                {s, i0},
                {t, i1},
                {s, node('-', node('-', s, number(1)), i0)},
                {number(6), node('-', number(5), i5)},
                {plus(s, number(2)), i3},
                {plus(s, number(2)), plus(i0, number(1))},
                {times(s, t), i4},
                {times(s, t), plus(times(t, i0), i1)},
                {times(s, t), plus(times(s, i1), i0)},
                {times(number(4), s), plus(times(number(4), i0), i2)},
                {times(number(6), t), plus(times(t, i5), i1)}};
  }

  struct Case {
    Child factor, left, quotient, low, dividend, divisor;
  };
  /// low lies in 0 .. factor - 1 and `left` is never negative.
  Case fitting() {
    const auto& [factor, low] = random_.pick(fitting_);
    return made(factor, low, left(), quotient(read_by(*low)));
  }
  /// One of these is broken, or not.
  Case any() {
    auto [factor, low] = random_.pick(fitting_);
    Child by = left();
    switch (random_.between(0, 6)) {
      case 0:
        low = random_.pick(fitting_).second;
        break;
      case 1:
        factor = random_.pick(fitting_).first;
        break;
      case 2:
        low = node('+', low, number(random_.between(-3, 3)));
        break;
      case 3:
        low = node('n', low, number(0));
        break;
      case 4:
        by = random_.pick(std::vector<Child>{number(-2), number(-3), number(-8), dim("v"), index(5)});
        break;
      case 5:
        factor = node('n', factor, number(0));
        break;
      default:
        break;
    }
    Case c = made(factor, low, by, quotient({}));
    if (random_.chance(20)) c.divisor = node('+', c.divisor, number(random_.between(-2, 2)));
    if (random_.chance(20)) c.dividend = node('n', c.dividend, number(0));
    if (random_.chance(20)) c.dividend = node('+', c.dividend, number(random_.between(-30, 30)));
    return c;
  }

 private:
  Child variable(size_t k) const {
    auto t = std::make_shared<Tree>();
    t->op = 'v';
    t->variable = k;
    return t;
  }
  Child index(int axis) const {
    return variable(
        static_cast<size_t>(std::ranges::find(variables_, axis, &Variable::axis) - variables_.begin()));
  }
  Child dim(std::string_view name) const {
    return variable(
        static_cast<size_t>(std::ranges::find(variables_, name, &Variable::name) - variables_.begin()));
  }
  Child left() {
    return random_.chance(60) ? number(random_.pick(std::vector<int64_t>{2, 3, 4, 8, 9, 12, 32}))
                              : dim(random_.pick(std::vector<std::string>{"s", "t", "u", "w"}));
  }
  /// A sum of multiples of variables but these, of either sign.
  Child quotient(const std::vector<size_t>& but) {
    Child q = number(random_.between(-3, 3));
    for (int64_t k = random_.between(1, 3); k > 0; --k) {
      const auto any = static_cast<size_t>(random_.between(0, static_cast<int64_t>(variables_.size()) - 1));
      if (std::ranges::count(but, any) == 0)
        q = node('+', q, node('*', number(random_.between(-5, 5)), variable(any)));
    }
    return q;
  }
  static std::vector<size_t> read_by(const Tree& t) {
    if (t.op == 'v') return {t.variable};
    std::vector<size_t> read;
    for (const Child& side : {t.left, t.right})
      if (side) std::ranges::copy(read_by(*side), std::back_inserter(read));
    return read;
  }
  static Case made(const Child& factor, const Child& low, const Child& by, const Child& q) {
    return {factor, by, q, low, node('+', node('*', factor, q), low), node('*', factor, by)};
  }

  const std::vector<Variable>& variables_;
  Random& random_;
  std::vector<std::pair<Child, Child>> fitting_;  ///< a factor and what stays below it
};

TEST(NestedDivision, HoldsForEverySignAndDivisor) {
  const auto variables = oracle::dims_and_indices();
  Random random(expression_seed() + 2);
  NestedDivisions divisions(variables, random);
  for (int i = 0; i < 1500; ++i) {
    const auto c = divisions.any();
    std::vector<Assignment> at;
    for (int k = 0; k < 10; ++k) at.push_back(random.assignment(variables, true));
    for (const char op : {'/', '%'}) {
      const Child t = node(op, c.dividend, c.divisor);
      ASSERT_NO_FATAL_FAILURE(expect_same_throughout(t, variables, at))
          << "seed " << expression_seed() << " case " << i;
    }
    // What was cut apart finds together again.
    const Child whole =
        node('+', node('*', node('/', c.dividend, c.divisor), c.divisor), node('%', c.dividend, c.divisor));
    ASSERT_NO_FATAL_FAILURE(expect_same_throughout(whole, variables, at))
        << "seed " << expression_seed() << " case " << i;
  }
}

TEST(NestedDivision, LeavesWhatLiesBelowTheFactorOut) {
  const auto variables = oracle::dims_and_indices();
  Random random(expression_seed() + 3);
  NestedDivisions divisions(variables, random);
  for (int i = 0; i < 5000; ++i) {
    const auto c = divisions.fitting();
    const auto built = [&](const Child& t) { return oracle::build(*t, variables); };
    const Expression a = built(c.dividend), by = built(c.divisor), factor = built(c.factor);
    const Expression q = built(c.quotient), left = built(c.left);
    // Long division may find more: where `left` may be 0, that 4*left/left stays is no loss.
    const auto found = [](const Expression& e, const Expression& wanted) {
      return e == wanted || e.node().size < wanted.node().size;
    };
    const Expression remainder = factor * (q % left) + built(c.low);
    ASSERT_PRED2(found, a / by, q / left)
        << a.to_text() << " over " << by.to_text() << ": " << (a / by).to_text() << "\n wanted "
        << (q / left).to_text() << "\nseed " << expression_seed() << " case " << i;
    ASSERT_PRED2(found, a % by, remainder)
        << a.to_text() << " mod " << by.to_text() << ": " << (a % by).to_text() << "\n wanted "
        << remainder.to_text() << "\nseed " << expression_seed() << " case " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Pools, RandomExpressions, testing::Bool(),
                         [](const auto& p) { return p.param ? "DimsAndIndices" : "Dims"; });

}  // namespace
}  // namespace luminal
