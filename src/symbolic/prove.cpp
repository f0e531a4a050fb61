#include "symbolic/prove.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "luminal/error.h"
#include "symbolic/interval.h"
#include "symbolic/memo.h"
#include "symbolic/polynomial.h"

namespace luminal::symbolic {
namespace {

constexpr size_t kMaxTerms = 32;     // of a formula that a proof looks at
constexpr int kMaxSteps = 48;        // eliminations in one proof, over all cases
constexpr size_t kMaxShifted = 512;  // partial products while shifting

// Lower bounds that the existence of an index value implies: its extent is at least 1.
struct Known {
  std::vector<std::pair<Expression, int64_t>> at_least;

  [[nodiscard]] int64_t lower(const Expression& atom) const {
    int64_t bound = atom.node().range.min;
    for (const auto& [known, value] : at_least)
      if (known == atom) bound = std::max(bound, value);
    return bound;
  }

  void add_positive(const Expression& e) {
    if (e.node().range.min >= 1) return;
    if (kind_of(e) == Kind::Product) {  // all factors positive if none is negative
      for (const Expression& f : e.node().args)
        if (f.node().range.min < 0) return;
      for (const Expression& f : e.node().args) add_positive(f);
    } else if (kind_of(e) == Kind::Sum && e.node().terms.size() == 1) {  // c*m + k >= 1
      const Term& t = e.node().terms[0];
      if (t.coefficient <= 0) return;
      const int128 least = -floor_div_wide(int128{e.node().value} - 1, t.coefficient);
      if (kind_of(t.monomial) == Kind::Product) {
        if (least >= 1) add_positive(t.monomial);
      } else {
        at_least.emplace_back(t.monomial, saturate(least));
      }
    } else if (kind_of(e) != Kind::Sum) {
      at_least.emplace_back(e, 1);
    }
  }

 private:
  static int128 floor_div_wide(int128 a, int64_t b) { return a / b - ((a % b != 0) && a < 0); }
};

// The extent without the clamp that says "or nothing": max(0, x) >= 1 means that it is x.
Expression inhabited_extent(const Expression& index) {
  const Expression extent = index.node().args[0];
  if (kind_of(extent) == Kind::Max && extent.node().args.size() == 2)
    for (int k : {0, 1}) {
      const Expression& clamp = extent.node().args[static_cast<size_t>(k)];
      if (clamp.node().range.max <= 0) return extent.node().args[static_cast<size_t>(1 - k)];
    }
  return extent;
}

void know_indices_of(const Expression& e, Known& known) {
  const Node& n = e.node();
  if (!n.uses_index) return;
  if (n.kind == Kind::Index) return known.add_positive(inhabited_extent(e));
  for (const Expression& a : n.args) know_indices_of(a, known);
  for (const Term& t : n.terms) know_indices_of(t.monomial, known);
}

// Every atom replaced by its lower bound plus something that is not negative: if all coefficients of the
// result are then at least 0, so is the polynomial.
bool nonnegative_after_shift(const Polynomial& p, const Known& known) {
  struct Partial {
    int128 coefficient;
    std::vector<const Node*> shifted;
  };
  std::vector<Partial> sum;
  sum.push_back({p.constant, {}});
  for (const Term& t : p.terms) {
    std::vector<Partial> product;
    product.push_back({t.coefficient, {}});
    for (const Expression& f : factors(t.monomial)) {
      const int64_t low = known.lower(f);
      if (!finite(low)) return false;
      const size_t count = product.size();
      if (low != 0)
        for (size_t i = 0; i < count; ++i) {
          const int128 c = product[i].coefficient;
          if (c > INT64_MAX || c < -INT64_MAX) return false;
          product.push_back({c * low, product[i].shifted});
        }
      for (size_t i = 0; i < count; ++i) product[i].shifted.push_back(&f.node());
      if (product.size() > kMaxShifted) return false;
    }
    for (Partial& part : product) {
      const auto same = std::ranges::find(sum, part.shifted, &Partial::shifted);
      if (same == sum.end())
        sum.push_back(std::move(part));
      else
        same->coefficient += part.coefficient;
    }
    if (sum.size() > kMaxShifted) return false;
  }
  return std::ranges::all_of(sum, [](const Partial& part) { return part.coefficient >= 0; });
}

bool plainly_nonnegative(const Polynomial& p, const Known& known) {
  const Range r = range_of(p);
  if (r.min >= 0) return true;
  return r.max >= 0 && p.terms.size() <= kMaxTerms && nonnegative_after_shift(p, known);
}

// The formula seen as coefficient * atom + rest; empty if the atom stands in a power.
struct Linear {
  Polynomial coefficient, rest;
};
std::optional<Linear> collect(const Polynomial& p, const Expression& atom) {
  Linear result;
  result.rest.constant = p.constant;
  for (const Term& t : p.terms) {
    const auto others = remove_factors(t.monomial, atom);
    if (!others) {
      result.rest.terms.push_back(t);
      continue;
    }
    if (remove_factors(*others, atom)) return std::nullopt;
    result.coefficient = add(result.coefficient, Polynomial(*others), t.coefficient);
  }
  return result;
}

// A proof of p >= 0: eliminate one atom after the other by the bound that makes p smallest.
class Proof {
 public:
  explicit Proof(const Expression& e) { know_indices_of(e, known_); }

  bool nonnegative(const Polynomial& p) {
    if (plainly_nonnegative(p, known_)) return true;
    if (range_of(p).max < 0 || p.terms.size() > kMaxTerms || ++steps_ > kMaxSteps) return false;
    for (const bool indices : {true, false})
      for (const Term& t : p.terms)
        for (const Expression& atom : factors(t.monomial)) {
          if ((kind_of(atom) == Kind::Index) != indices) continue;
          if (const auto decided = try_eliminate(p, atom)) return *decided;
        }
    return false;
  }

 private:
  // Empty if this atom cannot be eliminated; otherwise whether the rest proves it.
  std::optional<bool> try_eliminate(const Polynomial& p, const Expression& atom) {
    const Kind kind = kind_of(atom);
    if (kind == Kind::Dim || kind == Kind::Sum || kind == Kind::Flat) return std::nullopt;
    const auto linear = collect(p, atom);
    if (!linear) return std::nullopt;
    const Polynomial& c = linear->coefficient;
    const bool up = plainly_nonnegative(c, known_);                        // p grows with the atom
    const bool down = !up && plainly_nonnegative(add({}, c, -1), known_);  // p shrinks as the atom grows
    if (kind == Kind::Min || kind == Kind::Max) return by_cases(*linear, atom, up, down);
    if (!up && !down) return std::nullopt;
    if (kind == Kind::FloorDiv)
      if (const auto bound = quotient_bound(*linear, atom, up))
        if (nonnegative(add(linear->rest, Polynomial(*bound)))) return true;
    const auto value = bound_of(atom, down);
    if (!value) return std::nullopt;
    return nonnegative(with(*linear, *value));
  }

  static Polynomial with(const Linear& linear, const Expression& value) {
    return add(linear.rest, multiply(linear.coefficient, Polynomial(value)));
  }

  // An atom equals one of its arguments: all cases prove it; one does if it bounds the atom from the right
  // side.
  bool by_cases(const Linear& linear, const Expression& atom, bool up, bool down) {
    const bool one_suffices = kind_of(atom) == Kind::Min ? down : up;
    const auto holds = [&](const Expression& arg) { return nonnegative(with(linear, arg)); };
    const auto& args = atom.node().args;
    return one_suffices ? std::ranges::any_of(args, holds) : std::ranges::all_of(args, holds);
  }

  // c*floor(x/n) for c = k*n: between k*(x - n + 1) and k*x. Returns the lower bound of the product.
  std::optional<Expression> quotient_bound(const Linear& linear, const Expression& atom, bool up) {
    const Expression &x = atom.node().args[0], &n = atom.node().args[1];
    if (!plainly_nonnegative(Polynomial(n - 1), known_)) return std::nullopt;
    const auto k = divide_exact(Polynomial(linear.coefficient).build(), n);
    if (!k) return std::nullopt;
    return multiply(*k, up ? x - n + 1 : x);
  }

  // The greatest (or least) value of an atom.
  std::optional<Expression> bound_of(const Expression& atom, bool greatest) {
    const Node& n = atom.node();
    if (n.kind == Kind::Index) {
      if (!greatest) return constant(0);
      return inhabited_extent(atom) - 1;
    }
    const int64_t end = greatest ? n.range.max : n.range.min;
    if (n.kind == Kind::Mod && greatest && !finite(end)) {
      const Expression top = n.args[1] - 1;
      if (plainly_nonnegative(Polynomial(top), known_)) return top;
      return std::nullopt;
    }
    if (!finite(end)) return std::nullopt;
    return constant(end);
  }

  Known known_;
  int steps_ = 0;
};

}  // namespace

bool proves_nonnegative(const Expression& e) {
  if (e.node().range.min >= 0) return true;
  if (e.node().range.max < 0) return false;
  if (kind_of(e) == Kind::Dim || kind_of(e) == Kind::Constant) return false;
  const auto prove = [&] {
    try {
      return constant(Proof(e).nonnegative(Polynomial(e)) ? 1 : 0);
    } catch (const Error&) {  // an intermediate overflowed: nothing is known
      return constant(0);
    }
  };
  return is_constant(Memo<struct Proving>::of(e, e, prove), 1);
}

bool proves_less_equal(const Expression& a, const Expression& b) {
  if (a == b) return true;
  const Range x = a.node().range, y = b.node().range;
  if (x.max <= y.min) return true;
  if (x.min > y.max) return false;
  try {
    return proves_nonnegative(subtract(b, a));
  } catch (const Error&) {
    return false;
  }
}

bool proves_less(const Expression& a, const Expression& b) {
  const Range x = a.node().range, y = b.node().range;
  if (x.max < y.min) return true;
  if (x.min >= y.max) return false;
  try {
    return proves_nonnegative(subtract(subtract(b, a), constant(1)));
  } catch (const Error&) {
    return false;
  }
}

bool proves_positive(const Expression& e, const Expression& context) {
  if (e.node().range.min >= 1) return true;
  if (e.node().range.max < 1) return false;
  Known known;
  know_indices_of(context, known);
  if (known.at_least.empty() && kind_of(e) != Kind::Sum) return false;
  try {
    if (kind_of(e) == Kind::Product)
      return std::ranges::all_of(e.node().args, [&](const Expression& f) { return known.lower(f) >= 1; });
    const Expression less_one = subtract(e, constant(1));
    return plainly_nonnegative(Polynomial(less_one), known) || proves_nonnegative(less_one);
  } catch (const Error&) {
    return false;
  }
}

bool proves_nonzero(const Expression& e, const Expression& context) {
  const Range r = e.node().range;
  return r.min > 0 || r.max < 0 || proves_positive(e, context);
}

}  // namespace luminal::symbolic
