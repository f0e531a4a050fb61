#include "codegen/block_load.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "base/fail.h"
#include "luminal/block_format.h"
#include "scalar/block_positions.h"

namespace luminal::codegen {
namespace {

using BlockOp = BlockExpression::Op;
using BlockNode = BlockExpression::Node;

int64_t floored(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// Where the lanes of a load lie: lane l in block `block` + blocks[l], at position first + offsets[l] of it, for the
/// first lane's position, which is one of `firsts`.
struct LanePlaces {
  std::vector<int64_t> firsts, blocks, offsets;
};

/// Nothing where this depends on the first lane's position.
std::optional<LanePlaces> lane_places(const Expression& first, int lanes, int64_t stride, int64_t elements) {
  LanePlaces p;
  if (const auto known = first.constant()) {
    p.firsts = {*known};
  } else {
    const int64_t step = std::max<int64_t>(1, first.divisor());
    for (int64_t at = 0; at < elements; at += step) p.firsts.push_back(at);
  }
  for (int l = 0; l < lanes; ++l) {
    const int64_t at = p.firsts[0] + l * stride, block = floored(at, elements);
    p.blocks.push_back(block);
    p.offsets.push_back(at - block * elements - p.firsts[0]);
    for (const int64_t other : p.firsts) {
      const int64_t there = other + l * stride;
      if (floored(there, elements) != block || there - block * elements - other != p.offsets.back())
        return std::nullopt;
    }
  }
  return p;
}

/// Translates a description for one load. Whole numbers are I32, floats F32; scalars where no lane differs.
class BlockReader {
 public:
  BlockReader(StageBuilder& b, int buffer, int lanes)
      : b_(b),
        buffer_(buffer),
        format_(block_format(b.program().buffers[static_cast<size_t>(buffer)].dtype)),
        lanes_(lanes) {}
  virtual ~BlockReader() = default;

  Id read() {
    Id value =
        apply(ScalarOp::Mul, of(*format_.scale.node()), b_.convert(of(*format_.level.node()), Dtype::F32));
    if (!format_.offset.empty()) value = apply(ScalarOp::Add, value, of(*format_.offset.front().node()));
    return widen(value);
  }

 protected:
  /// Byte number `place` of each lane's block, as U8.
  virtual Id byte(const BlockNode& place) = 0;
  /// A node without bytes that is not the same at all positions; nothing where its operands have to be asked.
  virtual std::optional<Id> by_position(const BlockNode& node) = 0;

  Id of(const BlockNode& node) {
    if (const auto known = known_.find(&node); known != known_.end()) return known->second;
    const Id id = make(node);
    known_[&node] = id;
    return id;
  }
  Id whole(int64_t value) { return b_.constant_bits({Dtype::I32, 1}, static_cast<uint32_t>(value)); }
  Id widen(Id id) { return b_.type(id).lanes == lanes_ ? id : b_.broadcast(id, lanes_); }
  Id apply(ScalarOp op, Id a, Id b) {
    if (b_.type(a).lanes != b_.type(b).lanes) a = widen(a), b = widen(b);
    return b_.compute(op, {a, b});
  }

  StageBuilder& b_;
  int buffer_;
  const BlockFormat& format_;
  int lanes_;

 private:
  Id make(const BlockNode& node) {
    if (!node.has_bytes) {
      const auto values = values_by_position(format_, node);
      if (std::ranges::all_of(values, [&](int32_t v) { return v == values[0]; })) {
        const Id bits = whole(values[0]);
        return node.is_float ? b_.bitcast(bits, Dtype::F32) : bits;
      }
      if (const auto id = by_position(node)) return *id;
    }
    if (node.op == BlockOp::Byte) return b_.convert(byte(*node.a), Dtype::I32);
    const Id a = of(*node.a);
    switch (node.op) {
      case BlockOp::Table:
        return b_.look_up(node.table, a);
      case BlockOp::SignedByte:
        return b_.convert(b_.bitcast(b_.convert(a, Dtype::U8), Dtype::I8), Dtype::I32);
      case BlockOp::F32Bits:
        return b_.bitcast(a, Dtype::F32);
      case BlockOp::F16Bits:
        return b_.convert(b_.bitcast(b_.convert(a, Dtype::U16), Dtype::F16), Dtype::F32);
      case BlockOp::ToFloat:
        return b_.convert(a, Dtype::F32);
      default:
        return apply(binary(node.op), a, of(*node.b));
    }
  }

  static ScalarOp binary(BlockOp op) {
    switch (op) {
      case BlockOp::Add:
        return ScalarOp::Add;
      case BlockOp::Subtract:
        return ScalarOp::Sub;
      case BlockOp::Multiply:
      case BlockOp::MultiplyFloats:
        return ScalarOp::Mul;
      case BlockOp::Divide:
        return ScalarOp::FloorDiv;
      case BlockOp::Modulo:
        return ScalarOp::FloorMod;
      case BlockOp::And:
        return ScalarOp::And;
      case BlockOp::Or:
        return ScalarOp::Or;
      case BlockOp::ShiftLeft:
        return ScalarOp::ShiftLeft;
      case BlockOp::ShiftRight:
        return ScalarOp::ShiftRightLogical;
      default:
        break;
    }
    throw InternalError(fmt::format("[block_load] operation {} has two operands", static_cast<int>(op)));
  }

  std::map<const BlockNode*, Id> known_;
};

/// Lanes of which all is known but where the first one lies.
class EvenReader : public BlockReader {
 public:
  EvenReader(StageBuilder& b, int buffer, const Expression& block, const Expression& first, LanePlaces places)
      : BlockReader(b, buffer, static_cast<int>(places.offsets.size())),
        block_(block),
        first_(first),
        places_(std::move(places)) {}

 private:
  /// What a node gives for lane l where the first lane is at firsts[k].
  [[nodiscard]] int64_t at(std::span<const int32_t> values, size_t k, size_t l) const {
    return values[static_cast<size_t>(places_.firsts[k] + places_.offsets[l])];
  }

  /// How lanes differ from the first one, if that is the same wherever it is. `each`: what a block counts.
  [[nodiscard]] std::optional<std::vector<int>> differences(std::span<const int32_t> values,
                                                            int64_t each) const {
    std::vector<int> list;
    for (size_t l = 0; l < places_.offsets.size(); ++l) {
      list.push_back(static_cast<int>(at(values, 0, l) - at(values, 0, 0) + each * places_.blocks[l]));
      for (size_t k = 1; k < places_.firsts.size(); ++k)
        if (at(values, k, l) - at(values, k, 0) != at(values, 0, l) - at(values, 0, 0)) return std::nullopt;
    }
    return list;
  }

  /// The first lane's value as a formula.
  [[nodiscard]] std::optional<Expression> formula(const BlockNode& node) const {
    if (!node.has_position) return Expression(values_by_position(format_, node)[0]);
    if (node.op == BlockOp::Position) return first_;
    if (node.a == nullptr || node.b == nullptr) return std::nullopt;
    const auto a = formula(*node.a), b = formula(*node.b);
    if (!a || !b) return std::nullopt;
    switch (node.op) {
      case BlockOp::Add:
        return *a + *b;
      case BlockOp::Subtract:
        return *a - *b;
      case BlockOp::Multiply:
        return *a * *b;
      case BlockOp::Divide:
        return *a / *b;
      case BlockOp::Modulo:
        return *a % *b;
      default:
        return std::nullopt;
    }
  }
  [[nodiscard]] std::optional<Expression> first_lane(const BlockNode& node) const {
    const auto values = values_by_position(format_, node);
    for (size_t k = 1; k < places_.firsts.size(); ++k)
      if (at(values, k, 0) != at(values, 0, 0)) return formula(node);
    return Expression(at(values, 0, 0));
  }

  std::optional<Id> by_position(const BlockNode& node) override {
    if (node.is_float) return std::nullopt;
    const auto differ = differences(values_by_position(format_, node), 0);
    const auto first = first_lane(node);
    if (!differ || !first) return std::nullopt;
    if (std::ranges::all_of(*differ, [](int d) { return d == 0; })) return scalar(*first);
    const Id apart = b_.convert(b_.lanes(*differ), Dtype::I32);
    return *first == Expression(0) ? apart : apply(ScalarOp::Add, apart, scalar(*first));
  }
  Id scalar(const Expression& e) {
    const auto constant = e.constant();
    return constant ? whole(*constant) : b_.convert(b_.index(e), Dtype::I32);
  }

  Id byte(const BlockNode& place) override {
    const auto differ = differences(values_by_position(format_, place), format_.block_bytes);
    const auto first = first_lane(place);
    if (!differ || !first) return scattered_byte(place);
    const auto [least, greatest] = std::ranges::minmax(*differ);
    const Expression from = block_ * format_.block_bytes + *first;
    if (least == greatest) return b_.load_bytes(buffer_, from);
    const int stride = (*differ)[1];
    bool even = true;
    for (size_t l = 0; l < differ->size(); ++l) even = even && (*differ)[l] == static_cast<int>(l) * stride;
    if (even && (stride == 1 || greatest - least >= kMostBytes * lanes_))
      return b_.load_bytes(buffer_, from, lanes_, stride);
    if (greatest - least >= kMostBytes * lanes_)
      return b_.gather_bytes(buffer_, b_.compute(ScalarOp::Add, {widen(b_.index(from)), b_.lanes(*differ)}));
    const Id all = b_.load_bytes(buffer_, from + least, greatest - least + 1);
    std::vector<int> pattern;
    for (const int d : *differ) pattern.push_back(d - least);
    return b_.shuffle(all, all, std::move(pattern));
  }

  /// Bytes whose distance depends on where the first lane is.
  Id scattered_byte(const BlockNode& place) {
    std::vector<int> blocks;
    for (const int64_t block : places_.blocks)
      blocks.push_back(static_cast<int>(block * format_.block_bytes));
    Id at = widen(b_.convert(of(place), Dtype::I64));
    at = b_.compute(ScalarOp::Add, {at, widen(b_.index(block_ * format_.block_bytes))});
    if (lanes_ > 1) at = b_.compute(ScalarOp::Add, {at, b_.lanes(std::move(blocks))});
    return b_.gather_bytes(buffer_, at);
  }

  static constexpr int kMostBytes = 8;  ///< of a load, for each lane
  Expression block_, first_;
  LanePlaces places_;
};

/// Lanes anywhere.
class ScatteredReader : public BlockReader {
 public:
  ScatteredReader(StageBuilder& b, int buffer, Id indices, Id mask)
      : BlockReader(b, buffer, b.type(indices).lanes), mask_(mask) {
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
  if (places) return only_where(b, mask, EvenReader(b, buffer, block, first, std::move(*places)).read());
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

}  // namespace luminal::codegen
