#include "scalar/block_fit.h"

#include <algorithm>
#include <cstring>

#include "base/vector_clones.h"

// Vectors of g++ and clang: arithmetic and comparisons lane by lane, on any processor.
namespace luminal {
namespace {

using Vector = float __attribute__((vector_size(kFitLanes * sizeof(float))));
/// Doubles as many as a register of AVX2 holds: longer vectors g++ keeps in memory.
constexpr size_t kWideLanes = kFitLanes / 2;
using Half = float __attribute__((vector_size(kWideLanes * sizeof(float))));
using Wide = double __attribute__((vector_size(kWideLanes * sizeof(double))));

template <class Vectors, class Lanes>
[[gnu::always_inline]] inline void copy(const Vectors& from, Lanes& to) {
  static_assert(sizeof(Vectors) == sizeof(Lanes));
  std::memcpy(&to, &from, sizeof(to));
}

/// Finds levels for values side by side. It is inlined into the functions below, for each processor, and takes vectors by
/// reference: by value they would lie elsewhere on each.
class Nearest {
 public:
  explicit Nearest(const FitLevels& levels)
      : table_(levels.are_all_whole ? std::span<const float>() : levels.values),
        first_(levels.values.front()),
        last_(levels.values.back()) {}

  [[gnu::always_inline]] inline void operator()(const Vector& value, Vector& level) const {
    table_.empty() ? round(value, level) : look_up(value, level);
  }

 private:
  /// Added to it a number of up to 2^22 has no room for a fraction: the sum is rounded to the nearest whole number, and to
  /// the even one of two.
  [[gnu::always_inline]] inline void round(const Vector& value, Vector& level) const {
    constexpr float kNoFraction = 12'582'912.0F;
    const Vector whole = (value + kNoFraction) - kNoFraction, first = Vector{} + first_,
                 last = Vector{} + last_;
    level = whole < first ? first : whole;
    level = level > last ? last : level;
  }
  [[gnu::always_inline]] inline void look_up(const Vector& value, Vector& level) const {
    level = Vector{} + first_;
    for (size_t j = 0; j + 1 < table_.size(); ++j) {
      const Vector above = Vector{} + table_[j + 1];
      level = value - table_[j] >= above - value ? above : level;
    }
  }

  std::span<const float> table_;
  float first_, last_;
};

}  // namespace

LUMINAL_VECTOR_CLONES void add_for_scale(const FitValues& group, const FitLevels& levels,
                                         const FitLanes& inverse, ScaleSums& sums) {
  const Nearest nearest(levels);
  Vector factor;
  copy(inverse, factor);
  Vector products{}, squares{};
  for (size_t i = 0; i < group.x.size(); ++i) {
    Vector level;
    nearest(factor * group.x[i], level);
    const Vector weighted = group.weight[i] * level;
    products += weighted * group.x[i];
    squares += weighted * level;
  }
  copy(products, sums.products);
  copy(squares, sums.squares);
}

LUMINAL_VECTOR_CLONES void add_for_regression(const FitValues& group, const FitLevels& levels, float base,
                                              const FitLanes& inverse, RegressionSums& sums) {
  const Nearest nearest(levels);
  Vector factor;
  copy(inverse, factor);
  Wide of_levels[2]{}, squares[2]{}, products[2]{};
  for (size_t i = 0; i < group.x.size(); ++i) {
    const double x = group.x[i], weight = group.weight[i];
    Vector level;
    nearest(factor * (group.x[i] - base), level);
    Half halves[2];
    copy(level, halves);
    for (size_t h = 0; h < 2; ++h) {
      const Wide wide = __builtin_convertvector(halves[h], Wide), weighted = weight * wide;
      of_levels[h] += weighted;
      squares[h] += weighted * wide;
      products[h] += weighted * x;
    }
  }
  copy(of_levels, sums.levels);
  copy(squares, sums.squares);
  copy(products, sums.products);
}

LUMINAL_VECTOR_CLONES void square_errors(const FitValues& group, const FitLevels& levels,
                                         const FitLanes& scale, const FitLanes& offset, FitLanes& errors) {
  const Nearest nearest(levels);
  Vector factor, base;
  copy(scale, factor);
  copy(offset, base);
  const Vector inverse = factor != 0 ? 1 / factor : Vector{};
  Vector sums{};
  for (size_t i = 0; i < group.x.size(); ++i) {
    Vector level;
    nearest((group.x[i] - base) * inverse, level);
    const Vector off = factor * level + base - group.x[i];
    sums += group.weight[i] * off * off;
  }
  copy(sums, errors);
}

LUMINAL_VECTOR_CLONES void nearest_levels(std::span<const float> x, const FitLevels& levels, float inverse,
                                          float offset, std::span<float> nearest_to) {
  const Nearest nearest(levels);
  for (size_t i = 0; i < x.size(); i += kFitLanes) {
    const size_t count = std::min(kFitLanes, x.size() - i);
    Vector value{}, level;
    std::memcpy(&value, &x[i], count * sizeof(float));
    nearest((value - offset) * inverse, level);
    std::memcpy(&nearest_to[i], &level, count * sizeof(float));
  }
}

}  // namespace luminal
