#include "codegen/block_reader.h"

#include <algorithm>
#include <numeric>

#include "base/fail.h"
#include "codegen/block_codes.h"
#include "scalar/block_positions.h"

namespace luminal::codegen {
namespace {

using BlockOp = BlockExpression::Op;

constexpr int kMostLaneBytes = 8;  ///< of a load, for each lane

int64_t floored(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

ScalarOp binary(BlockOp op) {
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

/// Whether both halves of the lanes are neighbours, with something between them.
bool is_two_runs(std::span<const int> differ) {
  const size_t half = differ.size() / 2;
  if (half < 2 || differ.size() % 2 != 0) return false;
  for (size_t l = 0; l < differ.size(); ++l)
    if (differ[l] != (l < half ? differ[0] : differ[half]) + static_cast<int>(l % half)) return false;
  return true;
}

}  // namespace

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

Id BlockReader::read() {
  if (const Id found = by_code(); found != kNone) return found;
  Id value =
      apply(ScalarOp::Mul, of(*format_.scale.node()), b_.convert(of(*format_.level.node()), Dtype::F32));
  if (!format_.offset.empty()) value = apply(ScalarOp::Add, value, of(*format_.offset.front().node()));
  return widen(value);
}

/// Whether bytes are enough to compute the level, but for a constant.
bool BlockReader::goes_in_bytes() {
  const BlockExpression::Node* node = format_.level.node().get();
  while (node->op == BlockOp::SignedByte || (node->op == BlockOp::Subtract && !node->b->has_bytes))
    node = node->a.get();
  if (node->op == BlockOp::Table) return entries_in_bytes(*node, 0) != kNone;
  return in_bytes(*node) != kNone;
}

BlockFactors BlockReader::factors() {
  BlockFactors f{.scale = widen(of(*format_.scale.node()))};
  if (!format_.offset.empty()) f.offset = widen(of(*format_.offset.front().node()));
  return f;
}

/// Levels as bytes: signed ones, or less `shift`.
BlockNumbers BlockReader::numbers(bool is_signed) {
  const BlockExpression::Node& level = *format_.level.node();
  const auto range = part_range(format_, level);
  BlockNumbers n;
  if (!is_signed && range->min >= 0) {
    n.numbers = level_bytes(level);
    n.greatest = static_cast<int>(range->max);
    return n;
  }
  if (!is_signed && level.op == BlockOp::Subtract && !level.b->has_bytes) {
    const auto positions = values_by_position(format_, *level.b);
    const auto code = part_range(format_, *level.a);
    if (code && code->min >= 0 && code->max <= UINT8_MAX &&
        std::ranges::all_of(positions, [&](int32_t v) { return v == positions[0]; })) {
      n.numbers = level_bytes(*level.a);
      n.shift = -positions[0];
      n.greatest = static_cast<int>(code->max);
      return n;
    }
  }
  constexpr int kSign = 128;
  if (!is_signed && level.op == BlockOp::Table)
    if (const Id entries = entries_in_bytes(level, kSign); entries != kNone)
      return {.numbers = entries, .shift = -kSign};
  n.numbers = level_bytes(level);
  if (is_signed) {
    n.numbers = b_.bitcast(n.numbers, Dtype::I8);
  } else {
    n.numbers = b_.compute(ScalarOp::Xor, {n.numbers, b_.constant_bits({Dtype::U8, lanes_}, kSign)});
    n.shift = -kSign;
  }
  return n;
}

/// The lowest byte of a whole number in each lane, as U8.
Id BlockReader::level_bytes(const BlockExpression::Node& node) {
  if (node.op == BlockOp::SignedByte) return level_bytes(*node.a);
  if (const Id bytes = in_bytes(node); bytes != kNone) return bytes;
  if (node.op == BlockOp::Table)
    if (const Id entries = entries_in_bytes(node, 0); entries != kNone) return entries;
  return b_.convert(widen(of(node)), Dtype::U8);
}

/// The lowest bytes of entries + `added` of a short table, whose numbers are bytes: found in a register.
Id BlockReader::entries_in_bytes(const BlockExpression::Node& table, int added) {
  constexpr size_t kEntries = 16;
  if (table.table.size() != kEntries || lanes_ < static_cast<int>(kEntries)) return kNone;
  const Id numbers = in_bytes(*table.a);
  if (numbers == kNone) return kNone;
  std::vector<int> entries;
  for (const int32_t entry : table.table) entries.push_back(entry + added);
  return b_.permute(numbers, {b_.convert(b_.lanes(std::move(entries)), Dtype::U8)});
}

Id BlockReader::of(const BlockExpression::Node& node) {
  if (const auto known = known_.find(&node); known != known_.end()) return known->second;
  const Id id = make(node);
  known_[&node] = id;
  return id;
}

Id BlockReader::whole(int64_t value) {
  return b_.constant_bits({Dtype::I32, 1}, static_cast<uint32_t>(value));
}

Id BlockReader::widen(Id id) { return b_.type(id).lanes == lanes_ ? id : b_.broadcast(id, lanes_); }

Id BlockReader::apply(ScalarOp op, Id a, Id b) {
  if (b_.type(a).lanes != b_.type(b).lanes) a = widen(a), b = widen(b);
  return b_.compute(op, {a, b});
}

/// Lanes that share a scale and an offset, and whose levels follow from short codes, find their values in vectors
/// of what each code means: a permutation in place of a conversion, a product and a sum, or of a table in memory.
Id BlockReader::by_code() {
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
Id BlockReader::number_of(const BlockExpression::Node& code, int entries) {
  if (code.op == BlockOp::And && !code.b->has_bytes) {
    const auto masks = values_by_position(format_, *code.b);
    if (std::ranges::all_of(masks, [&](int32_t m) { return m == entries - 1; })) return of(*code.a);
  }
  return of(code);
}

/// What is put together from several bytes and fits one, less a constant perhaps: computed in bytes, where a register
/// holds four times as many lanes, and widened once. Nothing where that does not go.
Id BlockReader::joined_bytes(const BlockExpression::Node& node) {
  const auto joins = [](const BlockExpression::Node& n) {
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
Id BlockReader::in_bytes(const BlockExpression::Node& node) {
  if (const auto known = bytes_.find(&node); known != bytes_.end()) return known->second;
  return bytes_[&node] = make_in_bytes(node);
}

Id BlockReader::make_in_bytes(const BlockExpression::Node& node) {
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
      if (const Id bits = bits_in_bytes(node); bits != kNone) return bits;
      break;
    case BlockOp::Or:
    case BlockOp::Add:
      break;
    default:
      return kNone;
  }
  const Id a = in_bytes(*node.a), b = a == kNone ? kNone : in_bytes(*node.b);
  return b == kNone ? kNone : b_.compute(binary(node.op), {a, b});
}

/// (byte >> shift) & 1 where lanes shift by different numbers: a test of one bit each. Processors have no shift of bytes.
Id BlockReader::bits_in_bytes(const BlockExpression::Node& node) {
  const BlockExpression::Node &shifted = *node.a, &mask = *node.b;
  if (mask.has_bytes || shifted.op != BlockOp::ShiftRight || shifted.b->has_bytes) return kNone;
  const auto masks = values_by_position(format_, mask);
  const auto by = part_range(format_, *shifted.b);
  if (!by || by->min < 0 || by->max >= 8 || !std::ranges::all_of(masks, [](int32_t m) { return m == 1; }))
    return kNone;
  const Id places = of(*shifted.b), bytes = b_.type(places).lanes == 1 ? kNone : in_bytes(*shifted.a);
  if (bytes == kNone) return kNone;
  const Type type{Dtype::U8, lanes_};
  const Id zero = b_.constant_bits(type, 0), one = b_.constant_bits(type, 1);
  const Id bits = b_.compute(ScalarOp::ShiftLeft, {one, b_.convert(places, Dtype::U8)});
  const Id is_set = b_.compute(ScalarOp::Lt, {zero, b_.compute(ScalarOp::And, {bytes, bits})});
  return b_.compute(ScalarOp::Select, {is_set, one, zero});
}

Id BlockReader::make(const BlockExpression::Node& node) {
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
Id BlockReader::word_of(const BlockExpression::Node& node) {
  if (node.op != BlockOp::Or || node.a->op != BlockOp::Byte || node.b->op != BlockOp::ShiftLeft ||
      node.b->a->op != BlockOp::Byte || node.b->b->has_bytes)
    return kNone;
  constexpr int32_t kByteBits = 8;
  const auto low = values_by_position(format_, *node.a->a), high = values_by_position(format_, *node.b->a->a);
  const auto by = values_by_position(format_, *node.b->b);
  for (size_t i = 0; i < low.size(); ++i)
    if (high[i] != low[i] + 1 || by[i] != kByteBits) return kNone;
  return word(*node.a->a);
}

/// What a node gives for lane l where the first lane is at firsts[k].
int64_t EvenReader::at(std::span<const int32_t> values, size_t k, size_t l) const {
  return values[static_cast<size_t>(places_.firsts[k] + places_.offsets[l])];
}

/// How lanes differ from the first one, if that is the same wherever it is. `each`: what a block counts.
std::optional<std::vector<int>> EvenReader::differences(std::span<const int32_t> values, int64_t each) const {
  std::vector<int> list;
  for (size_t l = 0; l < places_.offsets.size(); ++l) {
    list.push_back(static_cast<int>(at(values, 0, l) - at(values, 0, 0) + each * places_.blocks[l]));
    for (size_t k = 1; k < places_.firsts.size(); ++k)
      if (at(values, k, l) - at(values, k, 0) != at(values, 0, l) - at(values, 0, 0)) return std::nullopt;
  }
  return list;
}

/// The first lane's value as a formula.
std::optional<Expression> EvenReader::formula(const BlockExpression::Node& node) const {
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

std::optional<Expression> EvenReader::first_lane(const BlockExpression::Node& node) const {
  const auto values = values_by_position(format_, node);
  for (size_t k = 1; k < places_.firsts.size(); ++k)
    if (at(values, k, 0) != at(values, 0, 0)) return formula(node);
  return Expression(at(values, 0, 0));
}

std::optional<Id> EvenReader::by_position(const BlockExpression::Node& node) {
  if (node.is_float) return std::nullopt;
  const auto differ = differences(values_by_position(format_, node), 0);
  const auto first = first_lane(node);
  if (!differ || !first) return std::nullopt;
  if (std::ranges::all_of(*differ, [](int d) { return d == 0; })) return scalar(*first);
  const Id apart = b_.convert(b_.lanes(*differ), Dtype::I32);
  return *first == Expression(0) ? apart : apply(ScalarOp::Add, apart, scalar(*first));
}

Id EvenReader::scalar(const Expression& e) {
  const auto constant = e.constant();
  return constant ? whole(*constant) : b_.convert(b_.index(e), Dtype::I32);
}

Id EvenReader::byte(const BlockExpression::Node& place) {
  const auto differ = differences(values_by_position(format_, place), format_.block_bytes);
  const auto first = first_lane(place);
  if (!differ || !first) return scattered_byte(place);
  const auto [least, greatest] = std::ranges::minmax(*differ);
  const Expression from = block_ * format_.block_bytes + *first;
  if (least == greatest) return b_.load_bytes(buffer_, from);
  const int stride = (*differ)[1];
  bool even = true;
  for (size_t l = 0; l < differ->size(); ++l) even = even && (*differ)[l] == static_cast<int>(l) * stride;
  if (even && (stride == 1 || greatest - least >= kMostLaneBytes * lanes_))
    return b_.load_bytes(buffer_, from, lanes_, stride);
  if (is_two_runs(*differ)) {
    const size_t half = differ->size() / 2;
    const auto run = [&](size_t l) {
      return b_.load_bytes(buffer_, from + (*differ)[l], static_cast<int>(half));
    };
    return concatenated({run(0), run(half)});
  }
  if (greatest - least >= kMostLaneBytes * lanes_)
    return b_.gather_bytes(buffer_, b_.compute(ScalarOp::Add, {widen(b_.index(from)), b_.lanes(*differ)}));
  const Id all = b_.load_bytes(buffer_, from + least, greatest - least + 1);
  std::vector<int> pattern;
  for (const int d : *differ) pattern.push_back(d - least);
  return b_.shuffle(all, all, std::move(pattern));
}

/// One for all lanes, or one for each of lanes that lie far apart.
Id EvenReader::word(const BlockExpression::Node& place) {
  const auto differ = differences(values_by_position(format_, place), format_.block_bytes);
  const auto first = first_lane(place);
  if (!differ || !first) return kNone;
  const Expression from = block_ * format_.block_bytes + *first;
  const auto [least, greatest] = std::ranges::minmax(*differ);
  if (least == greatest) return b_.load_words(buffer_, from);
  if (greatest - least < kMostLaneBytes * lanes_) return kNone;
  std::vector<Id> words;
  for (const int d : *differ) words.push_back(b_.load_words(buffer_, from + d));
  return concatenated(std::move(words));
}

/// Values of as many lanes each, as one; there are as many as a power of two.
Id EvenReader::concatenated(std::vector<Id> parts) {
  while (parts.size() > 1) {
    std::vector<int> all(2 * static_cast<size_t>(b_.type(parts[0]).lanes));
    std::iota(all.begin(), all.end(), 0);
    for (size_t i = 0; i < parts.size() / 2; ++i) parts[i] = b_.shuffle(parts[2 * i], parts[2 * i + 1], all);
    parts.resize(parts.size() / 2);
  }
  return parts[0];
}

/// Bytes whose distance depends on where the first lane is.
Id EvenReader::scattered_byte(const BlockExpression::Node& place) {
  std::vector<int> blocks;
  for (const int64_t block : places_.blocks) blocks.push_back(static_cast<int>(block * format_.block_bytes));
  Id at = widen(b_.convert(of(place), Dtype::I64));
  at = b_.compute(ScalarOp::Add, {at, widen(b_.index(block_ * format_.block_bytes))});
  if (lanes_ > 1) at = b_.compute(ScalarOp::Add, {at, b_.lanes(std::move(blocks))});
  return b_.gather_bytes(buffer_, at);
}

}  // namespace luminal::codegen
