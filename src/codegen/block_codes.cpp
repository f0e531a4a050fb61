#include "codegen/block_codes.h"

#include <algorithm>
#include <optional>

#include "scalar/block_operations.h"
#include "scalar/block_positions.h"

namespace luminal::codegen {

using CodeOp = BlockExpression::Op;
using CodeNode = BlockExpression::Node;

std::optional<PartRange> part_range(const BlockFormat& format, const CodeNode& node) {
  if (node.is_float) return std::nullopt;
  if (!node.has_bytes) {
    const auto [min, max] = std::ranges::minmax(values_by_position(format, node));
    return PartRange{min, max};
  }
  if (node.op == CodeOp::Byte) return PartRange{0, UINT8_MAX};
  if (node.op == CodeOp::SignedByte) return PartRange{INT8_MIN, INT8_MAX};
  if (node.op == CodeOp::Table) {
    const auto [min, max] = std::ranges::minmax(node.table);
    return PartRange{min, max};
  }
  const auto a = part_range(format, *node.a);
  const auto b = node.b ? part_range(format, *node.b) : std::nullopt;
  if (node.op == CodeOp::And) {  // one side that is not negative is enough
    if (b && b->min >= 0) return PartRange{0, a && a->min >= 0 ? std::min(a->max, b->max) : b->max};
    return a && a->min >= 0 ? std::optional(PartRange{0, a->max}) : std::nullopt;
  }
  if (!a || !b) return std::nullopt;
  const bool natural = a->min >= 0 && b->min >= 0;
  switch (node.op) {
    case CodeOp::Add:
      return PartRange{a->min + b->min, a->max + b->max};
    case CodeOp::Subtract:
      return PartRange{a->min - b->max, a->max - b->min};
    case CodeOp::Multiply:
      return natural && a->max * b->max <= INT32_MAX
                 ? std::optional(PartRange{a->min * b->min, a->max * b->max})
                 : std::nullopt;
    case CodeOp::Or: {
      int64_t bits = 1;
      while (bits <= std::max(a->max, b->max)) bits *= 2;
      return natural ? std::optional(PartRange{0, bits - 1}) : std::nullopt;
    }
    case CodeOp::ShiftLeft:
      return natural && b->max < 24 && a->max < 256 ? std::optional(PartRange{0, a->max << b->max})
                                                    : std::nullopt;
    case CodeOp::ShiftRight:
      return natural && b->max < 32 ? std::optional(PartRange{0, a->max >> b->min}) : std::nullopt;
    default:
      return std::nullopt;
  }
}

namespace {

/// The same at all positions of a block, whatever its bytes.
std::optional<int32_t> constant_part(const BlockFormat& format, const CodeNode& node) {
  if (node.has_bytes || node.is_float) return std::nullopt;
  const auto values = values_by_position(format, node);
  const bool same = std::ranges::all_of(values, [&](int32_t v) { return v == values[0]; });
  return same ? std::optional(values[0]) : std::nullopt;
}

/// What `node` is where its part `code` is `value`.
int32_t level_of(const BlockFormat& format, const CodeNode& node, const CodeNode* code, int32_t value) {
  if (&node == code) return value;
  if (const auto constant = constant_part(format, node)) return *constant;
  const int32_t a = level_of(format, *node.a, code, value);
  if (node.op == CodeOp::Table) return node.table[static_cast<size_t>(a)];
  const int32_t b = node.b ? level_of(format, *node.b, code, value) : 0;
  int32_t result = 0;
  with_whole_operation(node.op, [&](auto f) { result = f(a, b); });
  return result;
}

}  // namespace

LevelCodes level_codes(const BlockFormat& format, int most) {
  const CodeNode* at = format.level.node().get();
  while (at != nullptr && at->has_bytes && at->op != CodeOp::Byte) {
    const auto range = part_range(format, *at);
    if (range && range->min >= 0 && range->max < most) {
      LevelCodes found{.code = at};
      for (int32_t code = 0; code <= range->max; ++code)
        found.levels.push_back(level_of(format, *format.level.node(), at, code));
      return found;
    }
    // Further down only where all but one part is the same for all elements.
    if (at->b == nullptr || constant_part(format, *at->b))
      at = at->a.get();
    else
      at = constant_part(format, *at->a) ? at->b.get() : nullptr;
  }
  return {};
}

}  // namespace luminal::codegen
