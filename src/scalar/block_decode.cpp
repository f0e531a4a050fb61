#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "base/fail.h"
#include "luminal/block_format.h"
#include "luminal/dtype.h"
#include "scalar/block_operations.h"
#include "scalar/block_positions.h"

namespace luminal {
namespace {

/// A description as a list of steps, each over a batch of positions at once: what depends on the position alone is
/// computed when the list is made. Values of floats are their bits.
class BlockProgram {
 public:
  explicit BlockProgram(const BlockFormat& format)
      : elements_(static_cast<size_t>(format.block_elements)),
        block_bytes_(static_cast<size_t>(format.block_bytes)),
        batch_(std::max<size_t>(1, kLanes / elements_)) {
    scale_ = add(format.scale.node());
    level_ = add(format.level.node());
    if (!format.offset.empty()) offset_ = add(format.offset.front().node());
  }

  /// Of a node without bytes.
  [[nodiscard]] std::span<const int32_t> by_position(const BlockExpression::Node& node) const {
    const Place place = places_.at(&node);
    LUMINAL_CHECK(!place.is_computed, "an expression of bytes has no values by position");
    return std::span(constants_[place.number]).first(elements_);
  }

  void run(std::span<const std::byte> blocks, std::span<float> values) const {
    static thread_local std::vector<Lanes> computed;
    if (computed.size() < steps_.size()) computed.resize(steps_.size());
    while (!values.empty()) {
      const size_t count = std::min(batch_ * elements_, values.size());
      for (size_t k = 0; k < steps_.size(); ++k)
        compute(steps_[k], lanes(computed, steps_[k].a), lanes(computed, steps_[k].b), computed[k], blocks,
                count);
      const Lanes &scale = lanes(computed, scale_), &level = lanes(computed, level_);
      for (size_t k = 0; k < count; ++k)
        values[k] = std::bit_cast<float>(scale[k]) * static_cast<float>(level[k]);
      if (offset_) {
        const Lanes& offset = lanes(computed, *offset_);
        for (size_t k = 0; k < count; ++k) values[k] += std::bit_cast<float>(offset[k]);
      }
      values = values.subspan(count);
      blocks = blocks.subspan(count / elements_ * block_bytes_);
    }
  }

 private:
  using Op = BlockExpression::Op;
  using Node = BlockExpression::Node;
  static constexpr size_t kLanes = 256;
  using Lanes = std::array<int32_t, kLanes>;
  /// What a step makes from the bytes, or what is the same in all blocks.
  struct Place {
    bool is_computed = false;
    size_t number = 0;
  };
  struct Step {
    Op op = Op::Whole;
    Place a, b;
    std::span<const int32_t> table;
  };

  [[nodiscard]] const Lanes& lanes(const std::vector<Lanes>& computed, Place place) const {
    return place.is_computed ? computed[place.number] : constants_[place.number];
  }

  Place add(const std::shared_ptr<const Node>& node) {
    if (const auto found = places_.find(node.get()); found != places_.end()) return found->second;
    const Place none{false, 0}, a = node->a ? add(node->a) : none, b = node->b ? add(node->b) : none;
    const Step step{node->op, a, b, node->table};
    Place place{node->has_bytes, node->has_bytes ? steps_.size() : constants_.size()};
    if (node->has_bytes) {
      if (step.op == Op::Byte) check_byte(*node, constants_[a.number]);
      steps_.push_back(step);
    } else {
      constants_.push_back(constant(*node, step));
    }
    return places_[node.get()] = place;
  }

  [[nodiscard]] Lanes constant(const Node& node, const Step& step) const {
    Lanes out{};
    if (step.op == Op::Whole) {
      out.fill(node.whole);
    } else if (step.op == Op::Position) {
      for (size_t k = 0; k < kLanes; ++k) out[k] = static_cast<int32_t>(k % elements_);
    } else {
      compute(step, constants_[step.a.number], constants_[step.b.number], out, {}, kLanes);
    }
    return out;
  }

  /// Descriptions read within their blocks.
  void check_byte(const Node& node, const Lanes& places) const {
    LUMINAL_CHECK(!node.a->has_bytes, "the place of a byte depends on bytes");
    for (size_t k = 0; k < batch_ * elements_; ++k) {
      LUMINAL_CHECK(places[k] >= 0 && static_cast<size_t>(places[k]) < block_bytes_,
                    "byte {} of a block of {} is read", places[k], block_bytes_);
    }
  }

  void compute(const Step& step, const Lanes& a, const Lanes& b, Lanes& out, std::span<const std::byte> bytes,
               size_t count) const {
    const auto each = [&](auto f) {
      for (size_t k = 0; k < count; ++k) out[k] = f(a[k], b[k]);
    };
    switch (step.op) {
      case Op::Whole:
      case Op::Position:
        return;
      case Op::Byte:
        for (size_t begin = 0, block = 0; begin < count; begin += elements_, block += block_bytes_)
          for (size_t k = begin; k < begin + elements_; ++k)
            out[k] = std::to_integer<int32_t>(bytes[block + static_cast<size_t>(a[k])]);
        return;
      case Op::Table:
        return each([&](int32_t x, int32_t) { return step.table[static_cast<size_t>(x)]; });
      case Op::F32Bits:
        return each([](int32_t x, int32_t) { return x; });
      case Op::F16Bits:  // neighbours mostly share their scale
        for (size_t k = 0; k < count; ++k) {
          float16 half;
          half.bits = static_cast<uint16_t>(a[k]);
          out[k] = k > 0 && a[k] == a[k - 1] ? out[k - 1] : std::bit_cast<int32_t>(static_cast<float>(half));
        }
        return;
      case Op::ToFloat:
        return each([](int32_t x, int32_t) { return std::bit_cast<int32_t>(static_cast<float>(x)); });
      case Op::MultiplyFloats:
        return each([](int32_t x, int32_t y) {
          return std::bit_cast<int32_t>(std::bit_cast<float>(x) * std::bit_cast<float>(y));
        });
      case Op::Add:
      case Op::Subtract:
      case Op::Multiply:
      case Op::Divide:
      case Op::Modulo:
      case Op::And:
      case Op::Or:
      case Op::ShiftLeft:
      case Op::ShiftRight:
      case Op::SignedByte:
        with_whole_operation(step.op, each);
        return;
    }
  }

  size_t elements_, block_bytes_, batch_;
  std::map<const Node*, Place> places_;
  std::vector<Lanes> constants_;
  std::vector<Step> steps_;
  Place scale_, level_;
  std::optional<Place> offset_;
};

/// Made once for each format.
const BlockProgram& block_program(const BlockFormat& format) {
  static const std::map<std::string_view, BlockProgram> programs = [] {
    std::map<std::string_view, BlockProgram> all;
    for (const BlockFormat& each : block_formats()) all.emplace(each.name, BlockProgram(each));
    return all;
  }();
  return programs.at(format.name);
}

}  // namespace

std::span<const int32_t> values_by_position(const BlockFormat& format,
                                            const BlockExpression::Node& expression) {
  return block_program(format).by_position(expression);
}

void decode_blocks(const BlockFormat& format, std::span<const std::byte> blocks, std::span<float> values) {
  const auto elements = static_cast<size_t>(format.block_elements),
             bytes = static_cast<size_t>(format.block_bytes);
  if (values.size() % elements != 0 || blocks.size() != values.size() / elements * bytes)
    fail<ShapeError>(
        "[decode_blocks] {} values of {} are blocks of {} values in {} bytes; {} bytes were given",
        values.size(), format.name, elements, bytes, blocks.size());
  block_program(format).run(blocks, values);
}

}  // namespace luminal
