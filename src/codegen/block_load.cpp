#include "codegen/block_load.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/fail.h"
#include "codegen/block_codes.h"
#include "codegen/block_reader.h"
#include "luminal/block_format.h"
#include "scalar/block_positions.h"

namespace luminal::codegen {
namespace {

using BlockOp = BlockExpression::Op;
using BlockNode = BlockExpression::Node;

const BlockFormat& format_of(const StageBuilder& b, int buffer) {
  return block_format(b.program().buffers[static_cast<size_t>(buffer)].dtype);
}

/// Lanes anywhere.
class ScatteredReader : public BlockReader {
 public:
  ScatteredReader(StageBuilder& b, int buffer, Id indices, Id mask)
      : BlockReader(b, buffer, format_of(b, buffer), b.type(indices).lanes), mask_(mask) {
    const auto number = [&](int64_t value) {
      return b.constant_bits({Dtype::I64, lanes_}, static_cast<uint64_t>(value));
    };
    const Id elements = number(format_.block_elements);
    position_ = b.convert(b.compute(ScalarOp::FloorMod, {indices, elements}), Dtype::I32);
    block_begin_ = b.compute(
        ScalarOp::Mul, {b.compute(ScalarOp::FloorDiv, {indices, elements}), number(format_.block_bytes)});
  }

 private:
  std::optional<Id> by_position(const BlockNode& node) override {
    if (node.op == BlockOp::Position) return position_;
    return std::nullopt;
  }
  Id byte(const BlockNode& place) override {
    const Id at = widen(b_.convert(of(place), Dtype::I64));
    return b_.gather_bytes(buffer_, b_.compute(ScalarOp::Add, {block_begin_, at}), mask_);
  }

  Id mask_, position_ = kNone, block_begin_ = kNone;
};

/// Lanes without mask hold 0.
Id only_where(StageBuilder& b, Id mask, Id value) {
  if (mask == kNone) return value;
  return b.compute(ScalarOp::Select, {mask, value, b.constant(b.type(value), 0)});
}

}  // namespace

Id load_elements(StageBuilder& b, int buffer, const Expression& index, int lanes, int64_t stride, Id mask) {
  const Buffer& from = b.program().buffers[static_cast<size_t>(buffer)];
  const int64_t elements = block_format(from.dtype).block_elements;
  const Expression first = index % elements;
  Expression block = index / elements;
  auto places = lane_places(first, lanes, stride, elements);
  if (places && mask != kNone) {
    // Blocks are there as a whole: in place of one that is not, as no lane is on, another one is read.
    const bool one_block = std::ranges::all_of(places->blocks, [](int64_t k) { return k == 0; });
    if (one_block && from.elements.range().min >= elements)
      block = block.max(0).min(from.elements / elements - 1);
    else
      places.reset();
  }
  if (places)
    return only_where(
        b, mask, EvenReader(b, buffer, block_format(from.dtype), block, first, std::move(*places)).read());
  Id indices = b.index(index);
  if (lanes > 1) {
    const Id apart = b.compute(
        ScalarOp::Mul, {b.lanes(lanes), b.constant_bits({Dtype::I64, lanes}, static_cast<uint64_t>(stride))});
    indices = b.compute(ScalarOp::Add, {b.broadcast(indices, lanes), apart});
  }
  return gather_elements(b, buffer, indices, mask);
}

Id gather_elements(StageBuilder& b, int buffer, Id indices, Id mask) {
  return only_where(b, mask, ScatteredReader(b, buffer, indices, mask).read());
}

bool has_numbers(const BlockFormat& format) {
  const auto range = part_range(format, *format.level.node());
  return range && range->min >= INT8_MIN && range->max <= INT8_MAX;
}

namespace {

/// Whether what depends on the position alone in a scale or an offset is the same within runs of `size`.
bool same_within(const BlockFormat& format, const BlockNode& node, int64_t size) {
  if (!node.has_bytes) {
    const auto values = values_by_position(format, node);
    for (size_t at = 0; at < values.size(); ++at)
      if (values[at] != values[at - at % static_cast<size_t>(size)]) return false;
    return true;
  }
  return same_within(format, *node.a, size) && (!node.b || same_within(format, *node.b, size));
}

}  // namespace

int64_t group_elements(const BlockFormat& format) {
  int64_t size = format.block_elements;
  const auto same = [&](const BlockExpression& e) { return same_within(format, *e.node(), size); };
  while (size > 1 && !(same(format.scale) && std::ranges::all_of(format.offset, same))) size /= 2;
  return size;
}

BlockNumbers load_numbers(StageBuilder& b, int buffer, const Expression& index, int lanes, bool is_signed) {
  const BlockFormat& format = format_of(b, buffer);
  const int64_t elements = format.block_elements;
  constexpr int kLeast = 16;
  const Expression first = index % elements;
  auto places = lane_places(first, lanes, 1, elements);
  LUMINAL_CHECK(places, "{} elements from {} on do not lie in blocks alike", lanes, index.to_string());
  EvenReader reader(b, buffer, format, index / elements, first, std::move(*places));
  if (lanes <= kLeast || reader.goes_in_bytes()) return reader.numbers(is_signed);
  // Lanes in halves until the bits of all lanes of a part lie alike.
  BlockNumbers low = load_numbers(b, buffer, index, lanes / 2, is_signed);
  const BlockNumbers high = load_numbers(b, buffer, index + lanes / 2, lanes / 2, is_signed);
  std::vector<int> all;
  for (int l = 0; l < lanes; ++l) all.push_back(l);
  low.numbers = b.shuffle(low.numbers, high.numbers, std::move(all));
  return low;
}

BlockNumbers load_numbers_of_two(StageBuilder& b, int buffer, const Expression& index, int lanes,
                                 bool is_signed) {
  const BlockFormat& format = format_of(b, buffer);
  const int64_t elements = format.block_elements;
  const Expression first = index % elements;
  auto places = lane_places(first, lanes, elements,
                            [&](int l) { return l % (lanes / 2) + l / (lanes / 2) * elements; });
  LUMINAL_CHECK(places, "{} elements from {} on do not lie in blocks alike", lanes, index.to_string());
  return EvenReader(b, buffer, format, index / elements, first, std::move(*places)).numbers(is_signed);
}

int64_t run_elements(const BlockFormat& format) {
  const auto alike = [&](const auto& self, const BlockNode& node, int64_t size) -> bool {
    if (!node.has_bytes) return same_within(format, node, size);
    if (node.op != BlockOp::Byte) return self(self, *node.a, size) && (!node.b || self(self, *node.b, size));
    const auto at = values_by_position(format, *node.a);
    for (size_t i = 1; i < at.size(); ++i)
      if (static_cast<int64_t>(i) % size != 0 && at[i] != at[i - 1] + 1) return false;
    return true;
  };
  int64_t size = format.block_elements;
  while (size > 1 && !alike(alike, *format.level.node(), size)) size /= 2;
  return size;
}

BlockFactors load_factors(StageBuilder& b, int buffer, const Expression& index, int lanes, int64_t group) {
  const BlockFormat& format = format_of(b, buffer);
  const int64_t elements = format.block_elements;
  const Expression first = index % elements;
  auto places = lane_places(first, lanes, group, elements);
  LUMINAL_CHECK(places, "{} groups from {} on do not lie in blocks alike", lanes, index.to_string());
  return EvenReader(b, buffer, format, index / elements, first, std::move(*places)).factors();
}

}  // namespace luminal::codegen
