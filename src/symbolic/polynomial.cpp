#include "symbolic/polynomial.h"

#include <algorithm>
#include <iterator>

#include "luminal/error.h"
#include "symbolic/interval.h"
#include "symbolic/memo.h"

namespace luminal::symbolic {
namespace {

constexpr size_t kMaxProductTerms = 256;  // beyond, a product of sums stays factored

bool by_content(const Expression& a, const Expression& b) { return compare(a, b) < 0; }

// c * floor(x / n) * rest with n | x is c/g * (x / (n/g)) * rest for g = gcd(c, n). Empty if it does not
// apply.
std::optional<Expression> cancel_exact_quotient(const Term& term) {
  for (const Expression& f : factors(term.monomial)) {
    if (kind_of(f) != Kind::FloorDiv) continue;
    const Expression &x = f.node().args[0], &n = f.node().args[1];
    if (kind_of(n) != Kind::Constant || n.node().value <= 1) continue;
    if (x.node().divisor % n.node().value != 0) continue;
    const int64_t g = gcd(term.coefficient, n.node().value);
    if (g == 1) continue;
    const Expression rest = *remove_factors(term.monomial, f);
    return multiply(constant(term.coefficient / g), multiply(divide(x, constant(n.node().value / g)), rest));
  }
  return std::nullopt;
}

bool has_factor(const Polynomial& p, const Expression& factor) {
  return std::ranges::any_of(p.terms, [&](const Term& t) {
    return std::ranges::any_of(factors(t.monomial), [&](const Expression& f) { return f == factor; });
  });
}

// p - parts, if every term of `parts` stands in p as it is.
std::optional<Polynomial> cancel(const Polynomial& p, const Polynomial& parts) {
  Polynomial left = add(p, parts, -1);
  if (parts.terms.empty() || left.terms.size() + parts.terms.size() != p.terms.size()) return std::nullopt;
  return left;
}

// c*rest*(x % n) + c*rest*n*(x / n) is c*rest*x: how an index that was split and merged again becomes whole.
std::optional<Expression> recombine_remainder(const Polynomial& p, size_t at) {
  const Term& term = p.terms[at];
  for (const Expression& f : factors(term.monomial)) {
    if (kind_of(f) != Kind::Mod) continue;
    const Expression &x = f.node().args[0], &n = f.node().args[1];
    const Expression quotient = divide(x, n);
    if (!has_factor(p, quotient)) continue;
    const Expression scale = multiply(constant(term.coefficient), *remove_factors(term.monomial, f));
    Polynomial rest = p;
    rest.terms.erase(rest.terms.begin() + static_cast<ptrdiff_t>(at));
    const Polynomial parts(multiply(scale, multiply(n, quotient)));
    const Polynomial whole(multiply(scale, x));
    if (auto left = cancel(rest, parts)) return add(*left, whole).build();
  }
  return std::nullopt;
}

// c*rest*(x % k) + c*rest*k*((x/k) % j) is c*rest*(x % (k*j)), for k and j above 0.
std::optional<Expression> join_remainders(const Polynomial& p, size_t at) {
  const Term& term = p.terms[at];
  for (const Expression& f : factors(term.monomial)) {
    if (kind_of(f) != Kind::Mod) continue;
    const Expression &x = f.node().args[0], &k = f.node().args[1];
    if (k.node().range.min < 0) continue;
    const Expression quotient = divide(x, k);
    const Expression others = *remove_factors(term.monomial, f);
    for (const Term& t : p.terms)
      for (const Expression& h : factors(t.monomial)) {
        if (kind_of(h) != Kind::Mod || h == f || !(h.node().args[0] == quotient)) continue;
        const Expression& j = h.node().args[1];
        if (j.node().range.min < 0) continue;
        const Expression scale = multiply(constant(term.coefficient), others);
        Polynomial rest = p;
        rest.terms.erase(rest.terms.begin() + static_cast<ptrdiff_t>(at));
        const Polynomial parts(multiply(scale, multiply(k, h)));
        const Polynomial whole(multiply(scale, modulo(x, multiply(k, j))));
        if (auto left = cancel(rest, parts)) return add(*left, whole).build();
      }
  }
  return std::nullopt;
}

bool has_division(const Expression& monomial) {
  return std::ranges::any_of(factors(monomial), [](const Expression& f) {
    return kind_of(f) == Kind::FloorDiv || kind_of(f) == Kind::Mod;
  });
}

std::optional<Expression> recombine(const Polynomial& p) {
  for (size_t i = 0; i < p.terms.size(); ++i) {
    if (!has_division(p.terms[i].monomial)) continue;
    try {
      if (const auto exact = cancel_exact_quotient(p.terms[i])) {
        Polynomial rest = p;
        rest.terms.erase(rest.terms.begin() + static_cast<ptrdiff_t>(i));
        return add(rest, Polynomial(*exact)).build();
      }
      if (const auto whole = recombine_remainder(p, i)) return whole;
      if (const auto joined = join_remainders(p, i)) return joined;
    } catch (const Error&) {  // the rewritten form overflows where this one does not: leave it
    }
  }
  return std::nullopt;
}

// Factors of both, sorted; a factor that is 0 or 1 is its own square.
Expression multiply_monomials(const Expression& a, const Expression& b) {
  const auto fa = factors(a), fb = factors(b);
  std::vector<Expression> merged;
  merged.reserve(fa.size() + fb.size());
  std::ranges::merge(fa, fb, std::back_inserter(merged), by_content);
  const auto last = std::unique(merged.begin(), merged.end(), [](const Expression& x, const Expression& y) {
    return x == y && is_boolean(x);
  });
  merged.erase(last, merged.end());
  return monomial_of(std::move(merged));
}

void append(std::vector<Term>& terms, int64_t coefficient, const Expression& monomial) {
  if (coefficient != 0) terms.push_back({coefficient, monomial});
}

// Sorts and adds up equal monomials.
void collect(std::vector<Term>& terms) {
  std::ranges::sort(terms, by_content, &Term::monomial);
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    Term t = terms[i++];
    while (i < terms.size() && terms[i].monomial == t.monomial)
      t.coefficient = checked_add(t.coefficient, terms[i++].coefficient);
    if (t.coefficient != 0) terms[kept++] = t;
  }
  terms.resize(kept);
}

}  // namespace

Polynomial::Polynomial(const Expression& e) : constant(constant_part(e)) {
  const Terms own(e);
  terms.assign(own.begin(), own.end());
}

void Polynomial::add(const Expression& e, int64_t scale) {
  constant = checked_add(constant, checked_mul(constant_part(e), scale));
  for (const Term& t : Terms(e)) {
    const int64_t coefficient = checked_mul(t.coefficient, scale);
    const auto at = std::ranges::partition_point(
        terms, [&](const Term& other) { return compare(other.monomial, t.monomial) < 0; });
    if (at == terms.end() || !(at->monomial == t.monomial)) {
      if (coefficient != 0) terms.insert(at, {coefficient, t.monomial});
      continue;
    }
    at->coefficient = checked_add(at->coefficient, coefficient);
    if (at->coefficient == 0) terms.erase(at);
  }
}

Expression Polynomial::build() && {
  if (terms.empty()) return symbolic::constant(constant);
  if (const auto simpler = recombine(*this)) return *simpler;
  if (constant == 0 && terms.size() == 1 && terms[0].coefficient == 1) return terms[0].monomial;
  Node n;
  n.kind = Kind::Sum;
  n.value = constant;
  n.terms = std::move(terms);
  return intern(std::move(n));
}

std::span<const Expression> factors(const Expression& monomial) {
  if (kind_of(monomial) == Kind::Product) return monomial.node().args;
  return {&monomial, 1};
}

Expression monomial_of(std::vector<Expression> sorted_factors) {
  if (sorted_factors.empty()) return constant(1);
  if (sorted_factors.size() == 1) return sorted_factors[0];
  return raw(Kind::Product, std::move(sorted_factors));
}

std::optional<Expression> remove_factors(const Expression& monomial, const Expression& divisor) {
  const auto all = factors(monomial), gone = factors(divisor);
  std::vector<Expression> rest;
  size_t g = 0;
  for (const Expression& f : all) {
    if (g < gone.size() && f == gone[g])
      ++g;
    else
      rest.push_back(f);
  }
  if (g < gone.size()) return std::nullopt;
  return monomial_of(std::move(rest));
}

Polynomial add(const Polynomial& a, const Polynomial& b, int64_t scale_of_b) {
  Polynomial sum;
  sum.constant = checked_add(a.constant, checked_mul(b.constant, scale_of_b));
  sum.terms.reserve(a.terms.size() + b.terms.size());
  auto x = a.terms.begin();
  for (const Term& t : b.terms) {
    int order = -1;
    while (x != a.terms.end() && (order = compare(x->monomial, t.monomial)) < 0) sum.terms.push_back(*x++);
    int64_t coefficient = checked_mul(t.coefficient, scale_of_b);
    if (x != a.terms.end() && order == 0) coefficient = checked_add(coefficient, (x++)->coefficient);
    append(sum.terms, coefficient, t.monomial);
    order = -1;
  }
  sum.terms.insert(sum.terms.end(), x, a.terms.end());
  return sum;
}

Polynomial multiply(const Polynomial& p, const Polynomial& q) {
  Polynomial result;
  result.constant = checked_mul(p.constant, q.constant);
  result.terms.reserve((p.terms.size() + 1) * (q.terms.size() + 1));
  for (const Term& t : p.terms) append(result.terms, checked_mul(t.coefficient, q.constant), t.monomial);
  for (const Term& u : q.terms) append(result.terms, checked_mul(u.coefficient, p.constant), u.monomial);
  for (const Term& t : p.terms)
    for (const Term& u : q.terms)
      append(result.terms, checked_mul(t.coefficient, u.coefficient),
             multiply_monomials(t.monomial, u.monomial));
  collect(result.terms);
  return result;
}

Range range_of(const Polynomial& p) {
  Range r{p.constant, p.constant};
  for (const Term& t : p.terms) r = add(r, mul({t.coefficient, t.coefficient}, t.monomial.node().range));
  return r;
}

Expression add(const Expression& a, const Expression& b) {
  if (is_constant(a, 0)) return b;
  if (is_constant(b, 0)) return a;
  return Memo<struct Adding>::of(a, b, [&] { return add(Polynomial(a), Polynomial(b)).build(); });
}

Expression subtract(const Expression& a, const Expression& b) {
  if (is_constant(b, 0)) return a;
  if (a == b) return constant(0);
  return Memo<struct Subtracting>::of(a, b, [&] { return add(Polynomial(a), Polynomial(b), -1).build(); });
}

Expression multiply(const Expression& a, const Expression& b) {
  if (is_constant(a, 1)) return b;
  if (is_constant(b, 1)) return a;
  if (is_constant(a, 0) || is_constant(b, 0)) return constant(0);
  return Memo<struct Multiplying>::of(a, b, [&] {
    const Polynomial p(a), q(b);
    if ((p.terms.size() + 1) * (q.terms.size() + 1) > kMaxProductTerms) return multiply_monomials(a, b);
    return multiply(p, q).build();
  });
}

}  // namespace luminal::symbolic
