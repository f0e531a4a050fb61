#include "kernel/coordinates.h"

#include <algorithm>
#include <unordered_map>

#include "base/hash.h"
#include "symbolic/interval.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

namespace luminal::kernel {

bool implied(const Expression& valid, const Expression& claim) {
  if (const auto known = claim.constant()) return *known != 0;
  return !valid.constant() && (valid & claim) == valid;
}

namespace {

/// Deals a formula out to axes. Levels with constant strides work like the digits of a number: at each level
/// a term keeps its coefficient modulo the extent and carries the rest outwards. A digit may be the remainder
/// or, for reads against an axis, the remainder less the extent: -213*u under strides 216 and 3 is -1*u at
/// 216 and 1*u at 3.
class Dealer {
 public:
  Dealer(std::span<const DenseAxis> axes, std::span<const Expression> extents, const Expression& valid)
      : axes_(axes), valid_(valid), parts_(axes.size(), Expression(0)) {
    for (const DenseAxis& a : axes) extents_.push_back(extents[static_cast<size_t>(a.axis)]);
    const symbolic::Node& v = valid.node();
    const auto add = [this](const symbolic::Node& n) {
      if (n.kind == symbolic::Kind::Negative) known_.push_back(-n.args[0] - 1);
    };
    if (v.kind == symbolic::Kind::And)
      for (const Expression& e : v.args) add(e.node());
    else
      add(v);
  }

  /// Strict: only by strides, without quotients.
  std::optional<std::vector<Expression>> run(const Expression& e, bool strict) {
    rest_ = symbolic::Polynomial(e);
    size_t levels = axes_.size();
    for (; levels > 0 && !axes_[levels - 1].stride.constant(); --levels) {
      auto [quotient, remainder] =
          symbolic::long_division(std::move(rest_).build(), axes_[levels - 1].stride);
      parts_[levels - 1] = quotient;
      rest_ = symbolic::Polynomial(remainder);
    }
    if (levels == 0) return std::nullopt;
    for (size_t k = 0; k + 1 < levels; ++k) {
      if (place(k)) continue;
      if (strict || !extents_[k].constant()) return std::nullopt;
      // What lies within is dealt out: the rest is a whole number of this level's strides.
      const Expression rest = std::move(rest_).build();
      parts_[k] = rest % extents_[k];
      rest_ = symbolic::Polynomial(rest / extents_[k]);
    }
    parts_[levels - 1] += std::move(rest_).build();
    for (size_t k = levels - 1; k + 1 < axes_.size(); ++k)
      if (!within(parts_[k], extents_[k])) return std::nullopt;
    return std::move(parts_);
  }

 private:
  [[nodiscard]] bool within(const Expression& c, const Expression& extent) const {
    const Range r = c.range();
    const auto size = extent.constant();
    if (size && r.min >= 0 && r.max < *size) return true;
    constexpr int kSteps = 4;
    return (proves_nonnegative(c, kSteps) || implied(valid_, c.gte(0))) &&
           (proves_nonnegative(extent - 1 - c, kSteps) || implied(valid_, c.lt(extent)));
  }

  /// Whether e >= 0 wherever the predicate holds: e is a sum of multiples of what the predicate says to be at
  /// least 0 and of something whose range is (Farkas' lemma, by elimination of one term after the other).
  [[nodiscard]] bool proves_nonnegative(const Expression& e, int steps) const {
    if (e.range().min >= 0) return true;
    if (steps == 0) return false;
    const symbolic::Polynomial p(e);
    for (const Expression& k : known_) {
      const symbolic::Polynomial q(k);
      for (const symbolic::Term& t : q.terms) {
        const auto same = std::ranges::find(p.terms, t.monomial, &symbolic::Term::monomial);
        if (same == p.terms.end() || same->coefficient % t.coefficient != 0) continue;
        const int64_t times = same->coefficient / t.coefficient;
        if (times > 0 && proves_nonnegative(e - Expression(times) * k, steps - 1)) return true;
        break;  // one way to use it is enough
      }
    }
    return false;
  }

  /// Chooses level k's digits so that it stays within its extent.
  bool place(size_t k) {
    const auto size = extents_[k].constant();
    if (!size || *size <= 0) return false;
    const int64_t n = *size;
    std::vector<int64_t> digits;
    std::vector<size_t> open;  // terms with a choice
    for (size_t t = 0; t < rest_.terms.size(); ++t) {
      const int64_t r = symbolic::floor_mod(rest_.terms[t].coefficient, n);
      digits.push_back(2 * r > n ? r - n : r);
      if (r != 0) open.push_back(t);
    }
    constexpr size_t kMostChoices = 4;
    const size_t choices = size_t{1} << std::min(open.size(), kMostChoices);
    for (size_t flips = 0; flips < choices; ++flips) {
      std::vector<int64_t> tried = digits;
      for (size_t j = 0; j < open.size() && j < kMostChoices; ++j)
        if ((flips >> j & 1) != 0) tried[open[j]] += tried[open[j]] > 0 ? -n : n;
      if (place(k, n, tried)) return true;
    }
    return false;
  }

  bool place(size_t k, int64_t n, const std::vector<int64_t>& digits) {
    symbolic::Polynomial part;
    for (size_t t = 0; t < digits.size(); ++t)
      if (digits[t] != 0) part.terms.push_back({digits[t], rest_.terms[t].monomial});
    const Expression terms = std::move(part).build();
    const auto share = offset_within(terms, n);
    if (!share) return false;
    parts_[k] = terms + *share;
    symbolic::Polynomial carried;
    carried.constant = symbolic::floor_div(rest_.constant - *share, n);
    for (size_t t = 0; t < digits.size(); ++t)
      if (rest_.terms[t].coefficient != digits[t])
        carried.terms.push_back({(rest_.terms[t].coefficient - digits[t]) / n, rest_.terms[t].monomial});
    rest_ = std::move(carried);
    return true;
  }

  /// Whether both ends of the range are values: a sum of multiples of different axes of moderate size.
  [[nodiscard]] static bool has_exact_range(const Expression& e) {
    constexpr int64_t kModerate = int64_t{1} << 40;
    const Range r = e.range();
    return r.min > -kModerate && r.max < kModerate &&
           std::ranges::all_of(
               symbolic::Polynomial(e).terms,
               [](const symbolic::Term& t) {
                 return symbolic::kind_of(t.monomial) == symbolic::Kind::Index &&
                        t.monomial.node().args[0].constant().has_value();
               });
  }

  /// The share of the constant with which `terms` stays in 0 .. n - 1; the rest of it is a multiple of n.
  [[nodiscard]] std::optional<int64_t> offset_within(const Expression& terms, int64_t n) const {
    const Range r = terms.range();
    const int64_t first = symbolic::floor_mod(rest_.constant, n);
    constexpr int64_t kReach = 8;  // multiples of n looked at
    const bool decided = known_.empty() && has_exact_range(terms);
    for (const int64_t times : {0, -1, 1, -2, 2, -3, 3, -4, 4}) {
      const int64_t share = first + times * n;
      if (decided) {
        if (r.min + share >= 0 && r.max + share < n) return share;
        continue;
      }
      // Shares with which no value is within need no look.
      if (r.min > -kReach * n && r.min < INT64_MAX - kReach * n && r.min + share >= n) continue;
      if (r.max < kReach * n && r.max > INT64_MIN + kReach * n && r.max + share < 0) continue;
      if (within(terms + share, n)) return share;
    }
    return std::nullopt;
  }

  std::span<const DenseAxis> axes_;
  std::vector<Expression> extents_;
  const Expression& valid_;
  std::vector<Expression> known_;  ///< at least 0 where the predicate holds
  std::vector<Expression> parts_;
  symbolic::Polynomial rest_;
};

}  // namespace

std::optional<std::vector<Expression>> deal_out(const Expression& e, std::span<const DenseAxis> axes,
                                                std::span<const Expression> extents,
                                                const Expression& valid) {
  if (axes.empty()) return std::nullopt;
  return Dealer(axes, extents, valid).run(e, true);
}

namespace {

/// What coordinates depend on: a formula, a predicate, and the strides and extents of a dense order. Nodes of
/// formulas live as long as the process.
struct Query {
  std::vector<const symbolic::Node*> parts;
  friend bool operator==(const Query&, const Query&) = default;
  struct Hash {
    size_t operator()(const Query& q) const noexcept {
      uint64_t h = q.parts.size();
      for (const symbolic::Node* n : q.parts) h = combine(h, n->hash);
      return h;
    }
  };
};

std::vector<Expression> find_coordinates(const Expression& e, std::span<const DenseAxis> axes,
                                         std::span<const Expression> extents, const Expression& valid) {
  if (auto dealt = Dealer(axes, extents, valid).run(e, false)) return std::move(*dealt);
  std::vector<Expression> result;
  for (size_t k = 0; k < axes.size(); ++k) {
    const Expression quotient = e / axes[k].stride;
    const bool outermost = k + 1 == axes.size();  // the index lies within
    result.push_back(outermost ? quotient : quotient % extents[static_cast<size_t>(axes[k].axis)]);
  }
  return result;
}

}  // namespace

std::vector<Expression> coordinates_of(const Expression& e, std::span<const DenseAxis> axes,
                                       std::span<const Expression> extents, const Expression& valid) {
  if (axes.empty()) return {};
  // The same few maps are inverted for every kernel that holds a producer.
  constexpr size_t kMostRemembered = 1 << 16;
  static thread_local std::unordered_map<Query, std::vector<Expression>, Query::Hash> known;
  Query query;
  query.parts.reserve(2 + 2 * axes.size());
  query.parts = {&e.node(), &valid.node()};
  for (const DenseAxis& a : axes) {
    query.parts.push_back(&a.stride.node());
    query.parts.push_back(&extents[static_cast<size_t>(a.axis)].node());
  }
  if (const auto at = known.find(query); at != known.end()) return at->second;
  if (known.size() >= kMostRemembered) known.clear();
  return known.emplace(std::move(query), find_coordinates(e, axes, extents, valid)).first->second;
}

}  // namespace luminal::kernel
