#include <algorithm>

#include "luminal/error.h"
#include "symbolic/interval.h"
#include "symbolic/memo.h"
#include "symbolic/polynomial.h"
#include "symbolic/prove.h"

/// Comparisons, min and max, and the bitwise operations that stand for logic on 0 and 1.
namespace luminal::symbolic {
namespace {

constexpr size_t kMaxCompared = 12;  // arguments among which pairs are compared

// Runs a rewrite that may overflow where the original does not.
template <class F>
auto attempt(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const Error&) {
    return {};
  }
}

// c*m + k < 0 for an m that is 0 or 1 and decides it.
Expression negative_boolean(const Expression& m, bool when_one) {
  if (when_one) return m;
  if (kind_of(m) != Kind::Negative) return subtract(constant(1), m);
  return negative(subtract(constant(-1), m.node().args[0]));
}

// x/n < k is x < k*n and x/n >= k is x >= k*n, for a constant n > 0.
std::optional<Expression> negative_quotient(const Polynomial& p) {
  const Term& t = p.terms[0];
  if (kind_of(t.monomial) != Kind::FloorDiv || (t.coefficient != 1 && t.coefficient != -1))
    return std::nullopt;
  const Expression &x = t.monomial.node().args[0], &n = t.monomial.node().args[1];
  if (kind_of(n) != Kind::Constant || n.node().value <= 0) return std::nullopt;
  const int64_t by = n.node().value;
  if (t.coefficient == 1) return negative(add(x, constant(checked_mul(p.constant, by))));
  return negative(subtract(constant(checked_sub(checked_mul(checked_add(p.constant, 1), by), 1)), x));
}

// Whether n is at least 1 wherever the sum has a value at all: proven, or because an index variable of it
// runs below n.
bool is_positive_in(const Polynomial& p, const Expression& n) {
  if (proves_nonnegative(subtract(n, constant(1)))) return true;
  return std::ranges::any_of(p.terms, [&](const Term& t) {
    return std::ranges::any_of(factors(t.monomial), [&](const Expression& f) {
      return kind_of(f) == Kind::Index && f.node().args[0] == n;
    });
  });
}

// a < 0 exactly if a/n < 0 for n > 0: by the factor that does not vary of a term, where that makes it
// shorter. (6*i + j >= 6 with j below 6 is i >= 1.)
std::optional<Expression> negative_divided(const Expression& a, const Polynomial& p) {
  if (p.terms.size() < 2) return std::nullopt;
  for (const Term& t : p.terms) {
    if (t.coefficient == INT64_MIN) continue;
    std::vector<Expression> fixed;
    for (const Expression& f : factors(t.monomial))
      if (!f.node().uses_index) fixed.push_back(f);
    const Expression number = constant(std::abs(t.coefficient));
    for (const Expression& n : {number, multiply(number, monomial_of(std::move(fixed)))}) {
      if (n == 1 || !is_positive_in(p, n)) continue;
      if (const Expression quotient = divide(a, n); quotient.node().size < a.node().size)
        return negative(quotient);
    }
  }
  return std::nullopt;
}

Expression negative_uncached(const Expression& a) {
  if (proves_nonnegative(a)) return constant(0);
  if (attempt([&] { return proves_nonnegative(subtract(constant(-1), a)); })) return constant(1);
  Polynomial p(a);
  if (p.terms.size() == 1) {
    const Term t = p.terms[0];
    if (is_boolean(t.monomial)) return negative_boolean(t.monomial, p.constant >= 0);
    if (const auto simpler = attempt([&] { return negative_quotient(p); })) return *simpler;
  }
  if (const auto simpler = attempt([&] { return negative_divided(a, p); })) return *simpler;
  int64_t g = 0;
  for (const Term& t : p.terms) g = gcd(g, t.coefficient);
  if (g > 1) {  // g*t + c < 0 exactly if t + floor(c/g) < 0
    for (Term& t : p.terms) t.coefficient /= g;
    p.constant = floor_div(p.constant, g);
    return negative(std::move(p).build());
  }
  return raw(Kind::Negative, {a});
}

std::vector<Expression> flatten(Kind kind, const Expression& a, const Expression& b) {
  std::vector<Expression> args;
  for (const Expression& e : {a, b}) {
    if (kind_of(e) == kind)
      args.insert(args.end(), e.node().args.begin(), e.node().args.end());
    else
      args.push_back(e);
  }
  std::ranges::sort(args, [](const Expression& x, const Expression& y) { return compare(x, y) < 0; });
  const auto repeated = std::ranges::unique(args);
  args.erase(repeated.begin(), repeated.end());
  return args;
}

// Takes the constants out of `args` and folds them.
int64_t fold_constants(std::vector<Expression>& args, int64_t neutral, int64_t (*fold)(int64_t, int64_t)) {
  int64_t result = neutral;
  std::erase_if(args, [&](const Expression& e) {
    if (kind_of(e) != Kind::Constant) return false;
    result = fold(result, e.node().value);
    return true;
  });
  return result;
}

// Only differences of at most one term are looked at: longer ones are seldom decided and cost time.
bool short_and_nonnegative(const Expression& e) {
  return Polynomial(e).terms.size() <= 1 && proves_nonnegative(e);
}

// x < 0 implies y < 0.
bool implies(const Expression& x, const Expression& y) {
  if (kind_of(x) != Kind::Negative || kind_of(y) != Kind::Negative) return false;
  return attempt([&] { return short_and_nonnegative(subtract(x.node().args[0], y.node().args[0])); });
}
// x < 0 and y < 0 never hold together: both at most -1, their sum at most -2.
bool exclude(const Expression& x, const Expression& y) {
  if (kind_of(x) != Kind::Negative || kind_of(y) != Kind::Negative) return false;
  return attempt(
      [&] { return short_and_nonnegative(add(add(x.node().args[0], y.node().args[0]), constant(1))); });
}
// One of x < 0 and y < 0 always holds: otherwise both are at least 0, and so is their sum.
bool cover(const Expression& x, const Expression& y) {
  if (kind_of(x) != Kind::Negative || kind_of(y) != Kind::Negative) return false;
  return attempt([&] {
    return short_and_nonnegative(subtract(subtract(constant(-1), x.node().args[0]), y.node().args[0]));
  });
}

template <class Drop>
void drop_pairwise(std::vector<Expression>& args, Drop redundant) {
  if (args.size() > kMaxCompared) return;
  for (size_t i = 0; i < args.size();) {
    const bool gone = std::ranges::any_of(
        args, [&](const Expression& other) { return !(other == args[i]) && redundant(args[i], other); });
    if (gone)
      args.erase(args.begin() + static_cast<ptrdiff_t>(i));
    else
      ++i;
  }
}

template <class Test>
bool any_pair(const std::vector<Expression>& args, Test test) {
  if (args.size() > kMaxCompared) return false;
  for (size_t i = 0; i < args.size(); ++i)
    for (size_t k = i + 1; k < args.size(); ++k)
      if (test(args[i], args[k])) return true;
  return false;
}

Expression finish(Kind kind, std::vector<Expression> args) {
  return args.size() == 1 ? args[0] : raw(kind, std::move(args));
}

Expression and_uncached(const Expression& a, const Expression& b) {
  std::vector<Expression> args = flatten(Kind::And, a, b);
  int64_t mask = fold_constants(args, -1, [](int64_t x, int64_t y) { return x & y; });
  if (args.empty() || mask == 0) return constant(mask);
  if (std::ranges::any_of(args, is_boolean)) {
    if ((mask & 1) == 0) return constant(0);
    mask = -1;
  }
  drop_pairwise(args, [](const Expression& x, const Expression& by) { return implies(by, x); });
  if (any_pair(args, exclude)) return constant(0);
  if (mask != -1) args.insert(args.begin(), constant(mask));
  return finish(Kind::And, std::move(args));
}

Expression or_uncached(const Expression& a, const Expression& b) {
  std::vector<Expression> args = flatten(Kind::Or, a, b);
  const int64_t bits = fold_constants(args, 0, [](int64_t x, int64_t y) { return x | y; });
  if (args.empty() || bits == -1) return constant(bits);
  if ((bits & 1) != 0) {  // a 0 or 1 adds nothing to an odd number
    std::erase_if(args, is_boolean);
    if (args.empty()) return constant(bits);
  }
  drop_pairwise(args, [](const Expression& x, const Expression& by) { return implies(x, by); });
  if (bits == 0 && std::ranges::all_of(args, is_boolean) && any_pair(args, cover)) return constant(1);
  if (bits != 0) args.insert(args.begin(), constant(bits));
  return finish(Kind::Or, std::move(args));
}

Expression extreme_uncached(Kind kind, const Expression& a, const Expression& b) {
  const bool smallest = kind == Kind::Min;
  std::vector<Expression> args = flatten(kind, a, b);
  bool any = false;
  int64_t best = 0;
  std::erase_if(args, [&](const Expression& e) {
    if (kind_of(e) != Kind::Constant) return false;
    const int64_t v = e.node().value;
    best = !any ? v : (smallest ? std::min(best, v) : std::max(best, v));
    return any = true;
  });
  if (any) args.insert(args.begin(), constant(best));
  drop_pairwise(args, [smallest](const Expression& x, const Expression& by) {
    return smallest ? proves_less_equal(by, x) : proves_less_equal(x, by);
  });
  return finish(kind, std::move(args));
}

}  // namespace

Expression negative(const Expression& a) {
  if (a.node().range.min >= 0) return constant(0);
  if (a.node().range.max < 0) return constant(1);
  return Memo<struct Comparing>::of(a, a, [&] { return negative_uncached(a); });
}

Expression bit_and(const Expression& a, const Expression& b) {
  if (a == b) return a;
  if (is_constant(a, 0) || is_constant(b, 0)) return constant(0);
  if (is_constant(a, -1) || (is_constant(a, 1) && is_boolean(b))) return b;
  if (is_constant(b, -1) || (is_constant(b, 1) && is_boolean(a))) return a;
  return Memo<struct Conjoining>::of(a, b, [&] { return and_uncached(a, b); });
}

Expression bit_or(const Expression& a, const Expression& b) {
  if (a == b || is_constant(b, 0)) return a;
  if (is_constant(a, 0)) return b;
  return Memo<struct Disjoining>::of(a, b, [&] { return or_uncached(a, b); });
}

Expression minimum(const Expression& a, const Expression& b) {
  if (a == b) return a;
  return Memo<struct Smallest>::of(a, b, [&] { return extreme_uncached(Kind::Min, a, b); });
}

Expression maximum(const Expression& a, const Expression& b) {
  if (a == b) return a;
  return Memo<struct Greatest>::of(a, b, [&] { return extreme_uncached(Kind::Max, a, b); });
}

}  // namespace luminal::symbolic
