#include "kernel/coordinates.h"

#include "symbolic/interval.h"
#include "symbolic/node.h"
#include "symbolic/polynomial.h"

namespace luminal::kernel {

bool implied(const Expression& valid, const Expression& claim) {
  if (const auto known = claim.constant()) return *known != 0;
  return !valid.constant() && (valid & claim) == valid;
}

namespace {

class Dealer {
 public:
  Dealer(const Expression& e, std::span<const DenseAxis> axes, std::span<const Expression> extents,
         const Expression& valid)
      : axes_(axes), valid_(valid), parts_(axes.size(), Expression(0)) {
    for (const DenseAxis& a : axes) extents_.push_back(extents[static_cast<size_t>(a.axis)]);
    deal(e);
  }

  std::optional<std::vector<Expression>> run() {
    for (size_t k = 0; k + 1 < axes_.size(); ++k)
      if (!place_offset(k)) return std::nullopt;
    parts_.back() += offset_;
    return std::move(parts_);
  }

 private:
  /// Each term to the outermost axis whose stride divides it; what is left of the constant goes with
  /// place_offset.
  void deal(const Expression& e) {
    const symbolic::Polynomial p(e);
    offset_ = p.constant;
    for (const symbolic::Term& t : p.terms) {
      for (size_t k = axes_.size(); k-- > 0;) {
        const auto stride = axes_[k].stride.constant();
        if (stride && t.coefficient % *stride == 0) {
          parts_[k] += Expression(t.coefficient / *stride) * t.monomial;
          break;
        }
        if (stride && t.monomial.divisor() == 1) continue;
        if (const auto q = symbolic::divide_exact(Expression(t.coefficient) * t.monomial, axes_[k].stride)) {
          parts_[k] += *q;
          break;
        }
      }
    }
  }

  [[nodiscard]] bool within(const Expression& c, const Expression& extent) const {
    const Range r = c.range();
    const auto size = extent.constant();
    if (size && r.min >= 0 && r.max < *size) return true;
    return implied(valid_, c.gte(0)) && implied(valid_, c.lt(extent));
  }

  /// Finds the share of the offset with which axis k's part stays in its extent; the rest is carried
  /// outwards.
  bool place_offset(size_t k) {
    const auto size = extents_[k].constant();
    if (!size) {
      parts_[k] += offset_;
      offset_ = 0;
      return within(parts_[k], extents_[k]);
    }
    if (*size <= 0) return false;
    const Range r = parts_[k].range();
    const int64_t first = symbolic::floor_mod(offset_, *size);
    // Shares are `first` plus a multiple of the size; those with which no value is within need no look.
    constexpr int64_t kReach = 8;
    for (const int64_t times : {0, -1, 1, -2, 2, -3, 3, -4, 4}) {
      const int64_t share = first + times * *size;
      if (symbolic::finite(r.min) && r.min > -kReach * *size && r.min + share >= *size) continue;
      if (symbolic::finite(r.max) && r.max < kReach * *size && r.max + share < 0) continue;
      const Expression c = parts_[k] + share;
      if (!within(c, extents_[k])) continue;
      parts_[k] = c;
      offset_ = symbolic::floor_div(offset_ - share, *size);
      return true;
    }
    return false;
  }

  std::span<const DenseAxis> axes_;
  std::vector<Expression> extents_;
  const Expression& valid_;
  std::vector<Expression> parts_;
  int64_t offset_ = 0;
};

}  // namespace

std::optional<std::vector<Expression>> deal_out(const Expression& e, std::span<const DenseAxis> axes,
                                                std::span<const Expression> extents,
                                                const Expression& valid) {
  if (axes.empty()) return std::nullopt;
  return Dealer(e, axes, extents, valid).run();
}

std::vector<Expression> coordinates_of(const Expression& e, std::span<const DenseAxis> axes,
                                       std::span<const Expression> extents, const Expression& valid) {
  if (axes.empty()) return {};
  if (auto dealt = deal_out(e, axes, extents, valid)) return std::move(*dealt);
  std::vector<Expression> result;
  for (size_t k = 0; k < axes.size(); ++k) {
    const Expression quotient = e / axes[k].stride;
    const bool outermost = k + 1 == axes.size();  // the index lies within
    result.push_back(outermost ? quotient : quotient % extents[static_cast<size_t>(axes[k].axis)]);
  }
  return result;
}

}  // namespace luminal::kernel
