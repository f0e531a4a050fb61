// Floats to blocks, for any format whose description is scale * level + offset with an f16 (or e8m0) factor and whole
// multiples of it for groups. Where GGML's reference (ggml-quants.c) states one result, this is it to the bit; for the
// formats where it searches, so does this, by weighted least squares over candidates of each group's scale.
#include "scalar/block_encode.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "base/fail.h"
#include "base/vector_clones.h"
#include "luminal/block_format.h"
#include "luminal/dtype.h"
#include "scalar/block_fields.h"
#include "scalar/block_fit.h"

namespace luminal {
namespace {

/// How a format's scale follows from the values of a block.
enum class EncodeRule {
  Nearest,     ///< the greatest magnitude is `greatest` levels
  Extreme,     ///< the value of greatest magnitude, sign included, is the least level
  Range,       ///< the least value is level 0, the greatest the last one
  PowerOfTwo,  ///< the exponent of the greatest magnitude
  Search
};
struct EncodeRuleOf {
  std::string_view format;
  EncodeRule rule;
  float greatest = 0;
};
constexpr EncodeRuleOf kEncodeRules[] = {
    {"Q8_0", EncodeRule::Nearest, 127}, {"TQ1_0", EncodeRule::Nearest, 1}, {"TQ2_0", EncodeRule::Nearest, 1},
    {"Q4_0", EncodeRule::Extreme},      {"Q5_0", EncodeRule::Extreme},     {"Q4_1", EncodeRule::Range},
    {"Q5_1", EncodeRule::Range},        {"MXFP4", EncodeRule::PowerOfTwo}, {"Q2_K", EncodeRule::Search},
    {"Q3_K", EncodeRule::Search},       {"Q4_K", EncodeRule::Search},      {"Q5_K", EncodeRule::Search},
    {"Q6_K", EncodeRule::Search},       {"IQ4_NL", EncodeRule::Search},    {"IQ4_XS", EncodeRule::Search}};

const EncodeRuleOf* encode_rule(const BlockFormat& format) {
  const auto* found = std::ranges::find(kEncodeRules, format.name, &EncodeRuleOf::format);
  return found == std::end(kEncodeRules) ? nullptr : found;
}

/// To the nearest whole number, and away from 0 where two are.
LUMINAL_VECTOR_CLONES void round_all(std::span<const float> x, float inverse, std::span<int32_t> whole) {
  for (size_t i = 0; i < x.size(); ++i) {
    const float value = x[i] * inverse;
    const auto towards_0 = static_cast<int32_t>(value);
    const float rest = value - static_cast<float>(towards_0);
    whole[i] = towards_0 + (rest >= 0.5F ? 1 : 0) - (rest <= -0.5F ? 1 : 0);
  }
}

float as_half(float value) { return static_cast<float>(float16(value)); }
float inverse_of(float scale) { return scale != 0 ? 1 / scale : 0; }

/// A factor of a description: an f16 in the block, times whole numbers by group where there are any.
class FactorField {
 public:
  FactorField(const BlockExpression& expression, const BlockFormat& format) {
    using Op = BlockExpression::Op;
    const BlockExpression::Node* node = expression.node().get();
    if (node->op == Op::MultiplyFloats) {
      LUMINAL_CHECK(node->b->op == Op::ToFloat, "the factor of {} is no whole number", format.name);
      multiple_.emplace(BlockExpression(node->b->a), format);
      node = node->a.get();
    }
    if (node->op == Op::F16Bits) find_half(*node->a, format);
    if (node->op == Op::F32Bits) code_.emplace(BlockExpression(node->a), format);
  }

  [[nodiscard]] const std::optional<BlockField>& multiple() const { return multiple_; }
  void write_half(float value, std::span<std::byte> block) const {
    const uint16_t bits = float16(value).bits;
    block[low_] = static_cast<std::byte>(bits & 255), block[high_] = static_cast<std::byte>(bits >> 8);
  }
  void write_multiples(std::span<const int32_t> by_group, std::span<std::byte> block) const {
    multiple_->write(by_group, block);
  }
  /// An f32 that a table holds.
  void write_coded(float value, std::span<std::byte> block) const {
    const int32_t bits = std::bit_cast<int32_t>(value);
    code_->write({&bits, 1}, block);
  }

 private:
  void find_half(const BlockExpression::Node& bits, const BlockFormat& format) {
    std::vector<std::byte> block(static_cast<size_t>(format.block_bytes));
    for (const size_t at : bytes_read(bits, 0)) {
      block[at] = std::byte{1};
      (evaluate_whole(bits, block, 0) == 1 ? low_ : high_) = at;
      block[at] = std::byte{0};
    }
  }
  std::optional<BlockField> multiple_, code_;
  size_t low_ = 0, high_ = 0;
};

/// A run of values with one scale: values, weights and where their levels go.
struct EncodeGroup {
  std::span<const float> x, weight;
  std::span<int32_t> level;
  float scale = 0, offset = 0;
  [[nodiscard]] FitValues values() const { return {x, weight}; }
};

class BlockEncoder {
 public:
  BlockEncoder(const BlockFormat& format, const EncodeRuleOf& rule)
      : rule_(rule), level_(format.level, format), scale_(format.scale, format) {
    if (!format.offset.empty()) offset_.emplace(format.offset.front(), format);
    levels_.assign(level_.values().begin(), level_.values().end());
    whole_steps_ = levels_.back() - levels_.front() == static_cast<float>(levels_.size() - 1);
  }

  void encode(std::span<const float> x, std::span<const float> importance, std::span<std::byte> block) const {
    std::ranges::fill(block, std::byte{0});
    std::array<int32_t, 256> level{};
    const std::span<int32_t> levels = std::span(level).first(x.size());
    switch (rule_.rule) {
      case EncodeRule::Nearest:
        return by_nearest(x, levels, block);
      case EncodeRule::Extreme:
        return by_extreme(x, levels, block);
      case EncodeRule::Range:
        return by_range(x, levels, block);
      case EncodeRule::PowerOfTwo:
        return by_power(x, levels, block);
      case EncodeRule::Search:
        return by_search(x, importance, levels, block);
    }
  }

 private:
  void by_nearest(std::span<const float> x, std::span<int32_t> level, std::span<std::byte> block) const {
    float most = 0;
    for (const float value : x) most = std::max(most, std::fabs(value));
    const float scale = most / rule_.greatest, inverse = inverse_of(scale);
    round_all(x, inverse, level);
    scale_.write_half(scale, block);
    level_.write(level, block);
  }

  void by_extreme(std::span<const float> x, std::span<int32_t> level, std::span<std::byte> block) const {
    const float extreme = extreme_of(x), least = levels_.front(), scale = extreme / least;
    const float inverse = inverse_of(scale), last = levels_.back() - least;
    for (size_t i = 0; i < x.size(); ++i)
      level[i] = static_cast<int32_t>(std::clamp(x[i] * inverse + (0.5F - least), 0.0F, last)) +
                 static_cast<int32_t>(least);
    scale_.write_half(scale, block);
    level_.write(level, block);
  }

  void by_range(std::span<const float> x, std::span<int32_t> level, std::span<std::byte> block) const {
    const auto [low, high] = std::ranges::minmax(x);
    const float last = levels_.back(), scale = (high - low) / last, inverse = inverse_of(scale);
    for (size_t i = 0; i < x.size(); ++i)
      level[i] = static_cast<int32_t>(std::clamp((x[i] - low) * inverse + 0.5F, 0.0F, last));
    scale_.write_half(scale, block);
    offset_->write_half(low, block);
    level_.write(level, block);
  }

  void by_power(std::span<const float> x, std::span<int32_t> level, std::span<std::byte> block) const {
    const float most = std::fabs(extreme_of(x));
    // The greatest level is 12, between 2^3 and 2^4. Below 2^-127 scales end, and the description's table holds halves.
    const float power = most > 0 ? std::floor(std::log2(most)) - 3 : -128;
    const float scale = std::ldexp(1.0F, static_cast<int>(std::max(power, -128.0F)));
    for (size_t i = 0; i < x.size(); ++i) {
      float least = std::fabs(x[i]);
      for (const float candidate : levels_) {
        const float error = std::fabs(scale * candidate - x[i]);
        const auto whole = static_cast<int32_t>(candidate);
        if (error < least || (error == least && std::abs(whole) < std::abs(level[i])))
          least = error, level[i] = whole;
      }
    }
    scale_.write_coded(scale, block);
    level_.write(level, block);
  }

  // --- Search

  void by_search(std::span<const float> x, std::span<const float> importance, std::span<int32_t> level,
                 std::span<std::byte> block) const {
    std::array<float, 256> weight{};
    weigh(x, importance, weight);
    std::vector<EncodeGroup> groups = groups_of(x, std::span(weight).first(x.size()), level);
    for (EncodeGroup& group : groups) offset_ ? fit_with_offset(group) : fit_scale(group);
    if (!scale_.multiple()) {
      const float scale = as_half(groups.front().scale);
      scale_.write_half(scale, block);
      assign(groups.front(), scale, 0);
    } else {
      choose_multiples(groups, block);
    }
    level_.write(level, block);
  }

  /// Large values weigh more, as GGML has it for Q4_K.
  static void weigh(std::span<const float> x, std::span<const float> importance, std::span<float> weight) {
    float squares = 0;
    for (const float value : x) squares += value * value;
    const float variance = 2 * squares / static_cast<float>(x.size());
    for (size_t i = 0; i < x.size(); ++i)
      weight[i] = !importance.empty() ? importance[i] * std::sqrt(variance + x[i] * x[i])
                                      : std::sqrt(variance) + std::fabs(x[i]);
  }

  [[nodiscard]] std::vector<EncodeGroup> groups_of(std::span<const float> x, std::span<const float> weight,
                                                   std::span<int32_t> level) const {
    const size_t count = scale_.multiple() ? scale_.multiple()->group_count() : 1, size = x.size() / count;
    std::vector<EncodeGroup> groups;
    for (size_t at = 0; at < x.size(); at += size)
      groups.push_back({x.subspan(at, size), weight.subspan(at, size), level.subspan(at, size)});
    return groups;
  }

  static float extreme_of(std::span<const float> x) {
    return *std::ranges::max_element(x, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
  }

  [[nodiscard]] FitLevels levels() const { return {levels_, whole_steps_}; }

  /// The scale whose levels leave the least error, where the value of greatest magnitude is near the first or the
  /// last level.
  void fit_scale(EncodeGroup& group) const {
    const float extreme = extreme_of(group.x);
    if (extreme == 0) return;
    constexpr size_t kCandidates = 38;  // of two levels
    const float step = whole_steps_ ? 0.1F : 1;
    const auto inverse_at = [&](size_t candidate) {
      const float level = candidate % 2 == 0 ? levels_.front() : levels_.back();
      return (level + step * static_cast<float>(static_cast<int>(candidate / 2) - 9)) / extreme;
    };
    float best = 0;
    for (size_t first = 0; first < kCandidates; first += kFitLanes) {
      FitLanes inverse{};
      const size_t count = std::min(kFitLanes, kCandidates - first);
      for (size_t k = 0; k < count; ++k) inverse[k] = inverse_at(first + k);
      ScaleSums sums;
      add_for_scale(group.values(), levels(), inverse, sums);
      for (size_t k = 0; k < count; ++k) {
        const float products = sums.products[k], squares = sums.squares[k];
        if (squares <= 0 || products * products <= best * squares) continue;
        best = products * products / squares, group.scale = products / squares;
      }
    }
  }

  /// Scale and offset (at most 0) by linear regression on the levels that candidates of the scale give.
  void fit_with_offset(EncodeGroup& group) const {
    const auto [low, high] = std::ranges::minmax(group.x);
    const float least = std::min(low, 0.0F), last = levels_.back();
    group.offset = least;
    if (high <= least) return;
    double weights = 0, weighted = 0;
    for (size_t i = 0; i < group.x.size(); ++i) {
      const double weight = group.weight[i];
      weights += weight, weighted += weight * group.x[i];
    }
    constexpr size_t kCandidates = 37;
    float best = INFINITY;
    for (size_t first = 0; first < kCandidates; first += kFitLanes) {
      FitLanes inverse{};
      const size_t count = std::min(kFitLanes, kCandidates - first);
      for (size_t k = 0; k < count; ++k)
        inverse[k] = (last - 0.9F + 0.05F * static_cast<float>(first + k)) / (high - least);
      RegressionSums sums;
      add_for_regression(group.values(), levels(), least, inverse, sums);
      FitLanes scale{}, offset{}, error;
      std::array<bool, kFitLanes> is_solved{};
      for (size_t k = 0; k < count; ++k) {
        const double wl = sums.levels[k], wll = sums.squares[k], wlx = sums.products[k];
        const double determinant = weights * wll - wl * wl;
        if (determinant <= 0) continue;
        is_solved[k] = true;
        double factor = (weights * wlx - wl * weighted) / determinant,
               below = (wll * weighted - wl * wlx) / determinant;
        if (below > 0) below = 0, factor = wlx / wll;
        scale[k] = static_cast<float>(factor), offset[k] = static_cast<float>(below);
      }
      square_errors(group.values(), levels(), scale, offset, error);
      for (size_t k = 0; k < count; ++k)
        if (is_solved[k] && error[k] < best)
          best = error[k], group.scale = scale[k], group.offset = offset[k];
    }
  }

  void assign(EncodeGroup& group, float scale, float offset) const {
    std::array<float, 256> nearest{};
    nearest_levels(group.x, levels(), inverse_of(scale), offset, std::span(nearest).first(group.x.size()));
    for (size_t i = 0; i < group.x.size(); ++i) group.level[i] = static_cast<int32_t>(nearest[i]);
  }

  /// The block's factor for numbers of groups: the one of greatest magnitude takes the extreme multiple.
  static float factor_of(const std::vector<float>& wanted, const BlockField& multiple) {
    const float extreme = extreme_of(wanted);
    const auto first = static_cast<float>(multiple.values().front()),
               last = static_cast<float>(multiple.values().back());
    return as_half(extreme / (-first > last ? first : last));
  }

  void choose_multiples(std::vector<EncodeGroup>& groups, std::span<std::byte> block) const {
    std::vector<float> scales, offsets;
    for (const EncodeGroup& group : groups) scales.push_back(group.scale), offsets.push_back(group.offset);
    const float factor = factor_of(scales, *scale_.multiple());
    const float below = offset_ ? factor_of(offsets, *offset_->multiple()) : 0;
    std::vector<int32_t> multiples, minima;
    for (EncodeGroup& group : groups) {
      const auto [multiple, minimum] = best_multiples(group, factor, below);
      assign(group, factor * static_cast<float>(multiple), below * static_cast<float>(minimum));
      multiples.push_back(multiple), minima.push_back(minimum);
    }
    scale_.write_half(factor, block);
    scale_.write_multiples(multiples, block);
    if (!offset_) return;
    offset_->write_half(below, block);
    offset_->write_multiples(minima, block);
  }

  /// Of the multiples next to what the fit wants.
  [[nodiscard]] std::pair<int32_t, int32_t> best_multiples(const EncodeGroup& group, float factor,
                                                           float below) const {
    constexpr size_t kNear = 3;
    struct Near {
      std::array<int32_t, kNear> values{};
      size_t count = 0;
    };
    const auto near = [](float wanted, float unit, const std::vector<int32_t>& values) {
      const float at = std::nearbyint(wanted * inverse_of(unit));
      Near result;
      for (const float step : {0.0F, -1.0F, 1.0F})
        if (at + step >= static_cast<float>(values.front()) && at + step <= static_cast<float>(values.back()))
          result.values[result.count++] = static_cast<int32_t>(at + step);
      return result;
    };
    const Near minima =
        offset_ ? near(group.offset, below, offset_->multiple()->values()) : Near{.values = {}, .count = 1};
    const Near multiples = near(group.scale, factor, scale_.multiple()->values());
    std::pair<int32_t, int32_t> best{0, 0};
    float least = INFINITY;
    for (size_t m = 0; m < multiples.count; ++m) {
      const float multiple = static_cast<float>(multiples.values[m]);
      FitLanes scale, offset{}, error;
      scale.fill(factor * multiple);
      for (size_t k = 0; k < minima.count; ++k) offset[k] = below * static_cast<float>(minima.values[k]);
      square_errors(group.values(), levels(), scale, offset, error);
      for (size_t k = 0; k < minima.count; ++k)
        if (error[k] < least) least = error[k], best = {multiples.values[m], minima.values[k]};
    }
    return best;
  }

  const EncodeRuleOf& rule_;
  BlockField level_;
  FactorField scale_;
  std::optional<FactorField> offset_;
  std::vector<float> levels_;
  bool whole_steps_ = false;
};

/// Made when it is first asked for.
const BlockEncoder& encoder_of(const BlockFormat& format) {
  static const std::map<std::string_view, std::shared_ptr<std::once_flag>> once = [] {
    std::map<std::string_view, std::shared_ptr<std::once_flag>> flags;
    for (const EncodeRuleOf& rule : kEncodeRules)
      flags.emplace(rule.format, std::make_shared<std::once_flag>());
    return flags;
  }();
  static std::map<std::string_view, std::unique_ptr<BlockEncoder>> encoders = [] {
    std::map<std::string_view, std::unique_ptr<BlockEncoder>> empty;
    for (const EncodeRuleOf& rule : kEncodeRules) empty.emplace(rule.format, nullptr);
    return empty;
  }();
  std::unique_ptr<BlockEncoder>& encoder = encoders.at(format.name);
  std::call_once(*once.at(format.name), [&] {
    encoder = std::make_unique<BlockEncoder>(*find_block_format(format.name), *encode_rule(format));
  });
  return *encoder;
}

void check_encodable(const BlockFormat& format, std::span<const float> values) {
  constexpr float kMostHalf = 65504;
  for (size_t i = 0; i < values.size(); ++i)
    if (!(std::fabs(values[i]) <= kMostHalf))
      fail<Error>("[encode_blocks] value {} is {}; blocks of {} hold numbers up to {}", i, values[i],
                  format.name, kMostHalf);
}

}  // namespace

bool can_encode(const BlockFormat& format) { return encode_rule(format) != nullptr; }

void encode_blocks(const BlockFormat& format, std::span<const float> values, std::span<std::byte> blocks,
                   std::span<const float> importance) {
  const auto elements = static_cast<size_t>(format.block_elements),
             bytes = static_cast<size_t>(format.block_bytes);
  if (!can_encode(format))
    fail<DtypeError>("[encode_blocks] {} is read, but not written; q4_k and iq4_xs are near in size",
                     format.name);
  if (values.size() % elements != 0 || blocks.size() != values.size() / elements * bytes)
    fail<ShapeError>(
        "[encode_blocks] {} values of {} are blocks of {} values in {} bytes; there is room for {} bytes",
        values.size(), format.name, elements, bytes, blocks.size());
  if (!importance.empty() && importance.size() != values.size())
    fail<ShapeError>("[encode_blocks] {} importances were given for {} values", importance.size(),
                     values.size());
  check_encodable(format, values);
  for (const float weight : importance)
    if (!(weight >= 0) || !std::isfinite(weight))
      fail<Error>("[encode_blocks] an importance is {}; it must be a number from 0 on", weight);
  encode_finite_blocks(format, values, blocks, importance);
}

void encode_finite_blocks(const BlockFormat& format, std::span<const float> values,
                          std::span<std::byte> blocks, std::span<const float> importance) {
  const auto elements = static_cast<size_t>(format.block_elements),
             bytes = static_cast<size_t>(format.block_bytes);
  const BlockEncoder& encoder = encoder_of(format);
  for (size_t at = 0; at < values.size(); at += elements)
    encoder.encode(values.subspan(at, elements),
                   importance.empty() ? importance : importance.subspan(at, elements),
                   blocks.subspan(at / elements * bytes, bytes));
}

}  // namespace luminal
