#include "codegen/block_load.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "base/fail.h"
#include "codegen/block_codes.h"
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

/// Lane l lies distance(l) behind the first one. Nothing where blocks and offsets depend on the first one's position.
std::optional<LanePlaces> lane_places(const Expression& first, int lanes, int64_t elements,
                                      const std::function<int64_t(int lane)>& distance) {
  LanePlaces p;
  if (const auto known = first.constant()) {
    p.firsts = {*known};
  } else {
    const int64_t step = std::max<int64_t>(1, first.divisor());
    for (int64_t at = 0; at < elements; at += step) p.firsts.push_back(at);
  }
  for (int l = 0; l < lanes; ++l) {
    const int64_t at = p.firsts[0] + distance(l), block = floored(at, elements);
    p.blocks.push_back(block);
    p.offsets.push_back(at - block * elements - p.firsts[0]);
    for (const int64_t other : p.firsts) {
      const int64_t there = other + distance(l);
      if (floored(there, elements) != block || there - block * elements - other != p.offsets.back())
        return std::nullopt;
    }
  }
  return p;
}

std::optional<LanePlaces> lane_places(const Expression& first, int lanes, int64_t stride, int64_t elements) {
  return lane_places(first, lanes, elements, [&](int l) { return l * stride; });
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
    if (const Id found = by_code(); found != kNone) return found;
    Id value =
        apply(ScalarOp::Mul, of(*format_.scale.node()), b_.convert(of(*format_.level.node()), Dtype::F32));
    if (!format_.offset.empty()) value = apply(ScalarOp::Add, value, of(*format_.offset.front().node()));
    return widen(value);
  }

  /// Whether bytes are enough to compute the level, but for a constant.
  bool goes_in_bytes() {
    const BlockNode* node = format_.level.node().get();
    while (node->op == BlockOp::SignedByte || (node->op == BlockOp::Subtract && !node->b->has_bytes))
      node = node->a.get();
    return in_bytes(*node) != kNone;
  }

  BlockFactors factors() {
    BlockFactors f{.scale = widen(of(*format_.scale.node()))};
    if (!format_.offset.empty()) f.offset = widen(of(*format_.offset.front().node()));
    return f;
  }

  /// Levels as bytes: signed ones, or less `shift`.
  BlockNumbers numbers(bool is_signed) {
    const BlockNode& level = *format_.level.node();
    const auto range = part_range(format_, level);
    BlockNumbers n;
    if (!is_signed && range->min >= 0) {
      n.numbers = level_bytes(level);
      return n;
    }
    if (!is_signed && level.op == BlockOp::Subtract && !level.b->has_bytes) {
      const auto positions = values_by_position(format_, *level.b);
      const auto code = part_range(format_, *level.a);
      if (code && code->min >= 0 && code->max <= UINT8_MAX &&
          std::ranges::all_of(positions, [&](int32_t v) { return v == positions[0]; })) {
        n.numbers = level_bytes(*level.a);
        n.shift = -positions[0];
        return n;
      }
    }
    n.numbers = level_bytes(level);
    if (is_signed) {
      n.numbers = b_.bitcast(n.numbers, Dtype::I8);
    } else {
      n.numbers = b_.compute(ScalarOp::Xor, {n.numbers, b_.constant_bits({Dtype::U8, lanes_}, 128)});
      n.shift = -128;
    }
    return n;
  }

 protected:
  /// The lowest byte of a whole number in each lane, as U8.
  Id level_bytes(const BlockNode& node) {
    if (node.op == BlockOp::SignedByte) return level_bytes(*node.a);
    if (const Id bytes = in_bytes(node); bytes != kNone) return bytes;
    return b_.convert(widen(of(node)), Dtype::U8);
  }

  /// Byte number `place` of each lane's block, as U8.
  virtual Id byte(const BlockNode& place) = 0;
  /// The bytes number `place` and place + 1, as U16; kNone where byte() does better.
  virtual Id word(const BlockNode& /*place*/) { return kNone; }
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
  /// Lanes that share a scale and an offset, and whose levels follow from short codes, find their values in vectors
  /// of what each code means: a permutation in place of a conversion, a product and a sum, or of a table in memory.
  Id by_code() {
    constexpr int kLeast = 4;
    if (lanes_ < kLeast || (lanes_ & (lanes_ - 1)) != 0) return kNone;
    const LevelCodes codes = level_codes(format_, 2 * lanes_);
    if (codes.code == nullptr) return kNone;
    const Id scale = of(*format_.scale.node());
    const Id offset = format_.offset.empty() ? kNone : of(*format_.offset.front().node());
    if (b_.type(scale).lanes > 1 || (offset != kNone && b_.type(offset).lanes > 1)) return kNone;
    std::vector<Id> tables;
    for (size_t first = 0; first < codes.levels.size(); first += static_cast<size_t>(lanes_)) {
      std::vector<int> part(static_cast<size_t>(lanes_), 0);
      std::ranges::copy(
          std::span(codes.levels).subspan(first, std::min(part.size(), codes.levels.size() - first)),
          part.begin());
      Id table = apply(ScalarOp::Mul, scale, b_.convert(b_.lanes(std::move(part)), Dtype::F32));
      if (offset != kNone) table = apply(ScalarOp::Add, table, offset);
      tables.push_back(table);
    }
    const Id numbers = widen(number_of(*codes.code, lanes_ * static_cast<int>(tables.size())));
    return b_.permute(numbers, std::move(tables));
  }
  /// A code, or what is the same modulo `entries`.
  Id number_of(const BlockNode& code, int entries) {
    if (code.op == BlockOp::And && !code.b->has_bytes) {
      const auto masks = values_by_position(format_, *code.b);
      if (std::ranges::all_of(masks, [&](int32_t m) { return m == entries - 1; })) return of(*code.a);
    }
    return of(code);
  }

  /// What is put together from several bytes and fits one, less a constant perhaps: computed in bytes, where a register
  /// holds four times as many lanes, and widened once. Nothing where that does not go.
  Id joined_bytes(const BlockNode& node) {
    const auto joins = [](const BlockNode& n) {
      return (n.op == BlockOp::Or || n.op == BlockOp::Add) && n.a->has_bytes && n.b->has_bytes;
    };
    if (lanes_ == 1) return kNone;
    if (joins(node)) {
      const Id bytes = in_bytes(node);
      return bytes == kNone ? kNone : b_.convert(bytes, Dtype::I32);
    }
    if (node.op != BlockOp::Subtract || !joins(*node.a) || node.b->has_bytes) return kNone;
    const auto range = part_range(format_, node);
    if (!range || range->min < INT8_MIN || range->max > INT8_MAX) return kNone;
    const Id a = in_bytes(*node.a), b = a == kNone ? kNone : in_bytes(*node.b);
    if (b == kNone) return kNone;
    return b_.convert(b_.bitcast(b_.compute(ScalarOp::Sub, {a, b}), Dtype::I8), Dtype::I32);
  }
  /// As U8 in all lanes, if its parts are that too.
  Id in_bytes(const BlockNode& node) {
    if (const auto known = bytes_.find(&node); known != bytes_.end()) return known->second;
    return bytes_[&node] = make_in_bytes(node);
  }
  Id make_in_bytes(const BlockNode& node) {
    if (!node.has_bytes) {
      const Id same = node.is_float ? kNone : of(node);
      return same == kNone || b_.type(same).lanes > 1 ? kNone : widen(b_.convert(same, Dtype::U8));
    }
    const auto range = part_range(format_, node);
    if (!range || range->min < 0 || range->max > UINT8_MAX) return kNone;
    switch (node.op) {
      case BlockOp::Byte: {
        const Id read = byte(*node.a);
        return b_.type(read).lanes == lanes_ ? read : kNone;  // what all lanes share stays a scalar
      }
      case BlockOp::ShiftLeft:
      case BlockOp::ShiftRight:
        if (const auto by = part_range(format_, *node.b); !by || by->max >= 8) return kNone;
        break;
      case BlockOp::And:
      case BlockOp::Or:
      case BlockOp::Add:
        break;
      default:
        return kNone;
    }
    const Id a = in_bytes(*node.a), b = a == kNone ? kNone : in_bytes(*node.b);
    return b == kNone ? kNone : b_.compute(binary(node.op), {a, b});
  }

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
    if (const Id joined = joined_bytes(node); joined != kNone) return joined;
    if (node.op == BlockOp::F16Bits)
      if (const Id both = word_of(*node.a); both != kNone)
        return b_.convert(b_.bitcast(both, Dtype::F16), Dtype::F32);
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

  /// word() of what is one: byte | next byte << 8.
  Id word_of(const BlockNode& node) {
    if (node.op != BlockOp::Or || node.a->op != BlockOp::Byte || node.b->op != BlockOp::ShiftLeft ||
        node.b->a->op != BlockOp::Byte || node.b->b->has_bytes)
      return kNone;
    constexpr int32_t kByteBits = 8;
    const auto low = values_by_position(format_, *node.a->a),
               high = values_by_position(format_, *node.b->a->a);
    const auto by = values_by_position(format_, *node.b->b);
    for (size_t i = 0; i < low.size(); ++i)
      if (high[i] != low[i] + 1 || by[i] != kByteBits) return kNone;
    return word(*node.a->a);
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

  std::map<const BlockNode*, Id> known_, bytes_;  ///< as of() and in_bytes() give them
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
    if (is_two_runs(*differ)) {
      const size_t half = differ->size() / 2;
      const auto run = [&](size_t l) {
        return b_.load_bytes(buffer_, from + (*differ)[l], static_cast<int>(half));
      };
      return concatenated({run(0), run(half)});
    }
    if (greatest - least >= kMostBytes * lanes_)
      return b_.gather_bytes(buffer_, b_.compute(ScalarOp::Add, {widen(b_.index(from)), b_.lanes(*differ)}));
    const Id all = b_.load_bytes(buffer_, from + least, greatest - least + 1);
    std::vector<int> pattern;
    for (const int d : *differ) pattern.push_back(d - least);
    return b_.shuffle(all, all, std::move(pattern));
  }

  /// One for all lanes, or one for each of lanes that lie far apart.
  Id word(const BlockNode& place) override {
    const auto differ = differences(values_by_position(format_, place), format_.block_bytes);
    const auto first = first_lane(place);
    if (!differ || !first) return kNone;
    const Expression from = block_ * format_.block_bytes + *first;
    const auto [least, greatest] = std::ranges::minmax(*differ);
    if (least == greatest) return b_.load_word(buffer_, from);
    if (greatest - least < kMostBytes * lanes_) return kNone;
    std::vector<Id> words;
    for (const int d : *differ) words.push_back(b_.load_word(buffer_, from + d));
    return concatenated(std::move(words));
  }
  /// Whether both halves of the lanes are neighbours, with something between them.
  static bool is_two_runs(std::span<const int> differ) {
    const size_t half = differ.size() / 2;
    if (half < 2 || differ.size() % 2 != 0) return false;
    for (size_t l = 0; l < differ.size(); ++l)
      if (differ[l] != (l < half ? differ[0] : differ[half]) + static_cast<int>(l % half)) return false;
    return true;
  }
  /// Values of as many lanes each, as one; there are as many as a power of two.
  Id concatenated(std::vector<Id> parts) {
    while (parts.size() > 1) {
      std::vector<int> all(2 * static_cast<size_t>(b_.type(parts[0]).lanes));
      std::iota(all.begin(), all.end(), 0);
      for (size_t i = 0; i < parts.size() / 2; ++i)
        parts[i] = b_.shuffle(parts[2 * i], parts[2 * i + 1], all);
      parts.resize(parts.size() / 2);
    }
    return parts[0];
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

/// Lanes in halves until the bits of all lanes of a part lie alike.
Id numbers_in_parts(StageBuilder& b, int buffer, const Expression& index, int lanes, bool is_signed,
                    int& shift) {
  const int64_t elements =
      block_format(b.program().buffers[static_cast<size_t>(buffer)].dtype).block_elements;
  constexpr int kLeast = 16;
  const Expression first = index % elements;
  auto places = lane_places(first, lanes, 1, elements);
  LUMINAL_CHECK(places, "{} elements from {} on do not lie in blocks alike", lanes, index.to_string());
  EvenReader reader(b, buffer, index / elements, first, std::move(*places));
  if (lanes > kLeast && !reader.goes_in_bytes()) {
    const Id low = numbers_in_parts(b, buffer, index, lanes / 2, is_signed, shift);
    const Id high = numbers_in_parts(b, buffer, index + lanes / 2, lanes / 2, is_signed, shift);
    std::vector<int> all;
    for (int l = 0; l < lanes; ++l) all.push_back(l);
    return b.shuffle(low, high, std::move(all));
  }
  const BlockNumbers n = reader.numbers(is_signed);
  shift = n.shift;
  return n.numbers;
}

}  // namespace

int64_t group_elements(const BlockFormat& format) {
  int64_t size = format.block_elements;
  const auto same = [&](const BlockExpression& e) { return same_within(format, *e.node(), size); };
  while (size > 1 && !(same(format.scale) && std::ranges::all_of(format.offset, same))) size /= 2;
  return size;
}

BlockNumbers load_numbers(StageBuilder& b, int buffer, const Expression& index, int lanes, bool is_signed) {
  BlockNumbers n;
  n.numbers = numbers_in_parts(b, buffer, index, lanes, is_signed, n.shift);
  return n;
}

BlockNumbers load_numbers_of_two(StageBuilder& b, int buffer, const Expression& index, int lanes,
                                 bool is_signed) {
  const int64_t elements =
      block_format(b.program().buffers[static_cast<size_t>(buffer)].dtype).block_elements;
  const Expression first = index % elements;
  auto places = lane_places(first, lanes, elements,
                            [&](int l) { return l % (lanes / 2) + l / (lanes / 2) * elements; });
  LUMINAL_CHECK(places, "{} elements from {} on do not lie in blocks alike", lanes, index.to_string());
  return EvenReader(b, buffer, index / elements, first, std::move(*places)).numbers(is_signed);
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
  const int64_t elements =
      block_format(b.program().buffers[static_cast<size_t>(buffer)].dtype).block_elements;
  const Expression first = index % elements;
  auto places = lane_places(first, lanes, group, elements);
  LUMINAL_CHECK(places, "{} groups from {} on do not lie in blocks alike", lanes, index.to_string());
  return EvenReader(b, buffer, index / elements, first, std::move(*places)).factors();
}

}  // namespace luminal::codegen
