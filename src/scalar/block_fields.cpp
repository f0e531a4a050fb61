#include "scalar/block_fields.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/fail.h"
#include "scalar/block_operations.h"

namespace luminal {
namespace {

using FieldNode = BlockExpression::Node;
using FieldOp = BlockExpression::Op;

void collect_bytes(const FieldNode& node, int32_t position, std::set<size_t>& bytes) {
  if (node.op == FieldOp::Byte) bytes.insert(static_cast<size_t>(evaluate_whole(*node.a, {}, position)));
  for (const auto& part : {node.a, node.b})
    if (part) collect_bytes(*part, position, bytes);
}

std::byte bit_of(int shift) { return std::byte{1} << shift; }

}  // namespace

int32_t evaluate_whole(const FieldNode& node, std::span<const std::byte> block, int32_t position) {
  const auto of = [&](const std::shared_ptr<const FieldNode>& part) {
    return part ? evaluate_whole(*part, block, position) : 0;
  };
  if (node.op == FieldOp::Whole) return node.whole;
  if (node.op == FieldOp::Position) return position;
  const int32_t a = of(node.a), b = of(node.b);
  if (node.op == FieldOp::Byte) return std::to_integer<int32_t>(block[static_cast<size_t>(a)]);
  if (node.op == FieldOp::Table) return node.table[static_cast<size_t>(a)];
  int32_t result = 0;
  if (!with_whole_operation(node.op, [&](auto f) { result = f(a, b); }))
    throw InternalError("a whole number of a block's description is made from floats");
  return result;
}

std::vector<size_t> bytes_read(const FieldNode& node, int32_t position) {
  std::set<size_t> bytes;
  collect_bytes(node, position, bytes);
  return {bytes.begin(), bytes.end()};
}

BlockField::BlockField(const BlockExpression& expression, const BlockFormat& format) {
  find_groups(expression, format);
  find_patterns(expression, format);
  find_shared(expression, format);
  find_parts();
}

/// A bit belongs to a field if flipping it changes the value, whatever the field's other bits are: before a background
/// of zeros, of ones, and of each single bit.
void BlockField::find_groups(const BlockExpression& expression, const BlockFormat& format) {
  std::vector<std::byte> block(static_cast<size_t>(format.block_bytes));
  for (int32_t i = 0; i < format.block_elements; ++i) {
    const std::vector<size_t> bytes = bytes_read(*expression.node(), i);
    const size_t count = 8 * bytes.size();
    const auto flip = [&](size_t bit) { block[bytes[bit / 8]] ^= bit_of(static_cast<int>(bit % 8)); };
    const auto value = [&] { return evaluate_whole(*expression.node(), block, i); };
    std::vector<Bit> bits;
    for (size_t bit = 0; bit < count; ++bit) {
      bool matters = false;
      for (size_t background = 0; background < count + 2 && !matters; ++background) {
        for (const size_t byte : bytes) block[byte] = std::byte{background == 1 ? uint8_t{255} : uint8_t{0}};
        if (background >= 2) flip(background - 2);
        const int32_t before = value();
        flip(bit);
        matters = value() != before;
      }
      if (matters) bits.push_back({bytes[bit / 8], static_cast<int>(bit % 8)});
    }
    for (const size_t byte : bytes) block[byte] = std::byte{0};
    LUMINAL_CHECK(bits.size() <= 8, "a field of {} has {} bits", format.name, bits.size());
    // Positions of one group read the same bits and the same value: the digits of a byte differ.
    size_t group = 0;
    const auto same_value = [&](size_t g) {
      for (int pattern = 0; pattern < 1 << bits.size(); ++pattern) {
        for (size_t b = 0; b < bits.size(); ++b)
          if (pattern >> b & 1) block[bits[b].byte] |= bit_of(bits[b].shift);
        const bool same =
            value() == evaluate_whole(*expression.node(), block, static_cast<int32_t>(first_position_[g]));
        for (const Bit& bit : bits) block[bit.byte] = std::byte{0};
        if (!same) return false;
      }
      return true;
    };
    while (group < group_count_ && !(slots_[group].bits == bits && same_value(group))) ++group;
    if (group == group_count_) {
      slots_.push_back({std::move(bits), {}});
      first_position_.push_back(static_cast<size_t>(i));
      ++group_count_;
    }
    groups_.push_back(group);
  }
}

size_t BlockField::index_of(int32_t value) const {
  const size_t steps = static_cast<size_t>(static_cast<int64_t>(value) - values_.front());
  if (steps < values_.size() && values_[steps] == value) return steps;  // where values have no gaps
  const auto found = std::ranges::lower_bound(values_, value);
  LUMINAL_CHECK(found != values_.end() && *found == value, "{} is no value of this field", value);
  return static_cast<size_t>(found - values_.begin());
}

void BlockField::find_patterns(const BlockExpression& expression, const BlockFormat& format) {
  std::vector<std::byte> block(static_cast<size_t>(format.block_bytes));
  std::vector<std::map<int32_t, int16_t>> found(group_count_);
  std::set<int32_t> values;
  for (size_t g = 0; g < group_count_; ++g) {
    const std::vector<Bit>& bits = slots_[g].bits;
    for (int pattern = 0; pattern < 1 << bits.size(); ++pattern) {
      for (size_t b = 0; b < bits.size(); ++b)
        if (pattern >> b & 1) block[bits[b].byte] |= bit_of(bits[b].shift);
      const int32_t value =
          evaluate_whole(*expression.node(), block, static_cast<int32_t>(first_position_[g]));
      for (const Bit& bit : bits) block[bit.byte] = std::byte{0};
      found[g].emplace(value, static_cast<int16_t>(pattern));  // of several patterns the least
      values.insert(value);
    }
  }
  values_.assign(values.begin(), values.end());
  for (size_t g = 0; g < group_count_; ++g) {
    slots_[g].patterns.assign(values_.size(), -1);
    for (const auto& [value, pattern] : found[g]) slots_[g].patterns[index_of(value)] = pattern;
  }
}

void BlockField::find_shared(const BlockExpression& expression, const BlockFormat& format) {
  std::map<size_t, std::vector<size_t>> by_byte;
  for (size_t g = 0; g < group_count_; ++g)
    for (size_t other = 0; other < group_count_; ++other)
      if (other != g && std::ranges::any_of(slots_[g].bits, [&](const Bit& bit) {
            return std::ranges::find(slots_[other].bits, bit) != slots_[other].bits.end();
          })) {
        by_byte[slots_[g].bits.front().byte].push_back(g);
        break;
      }
  std::vector<std::byte> block(static_cast<size_t>(format.block_bytes));
  for (auto& [byte, groups] : by_byte) {
    SharedByte shared{byte, groups, {}};
    for (const size_t g : groups) {
      for (const Bit& bit : slots_[g].bits)
        LUMINAL_CHECK(bit.byte == byte, "fields of {} share more than a byte", format.name);
      std::array<int32_t, 256>& values = shared.values.emplace_back();
      for (size_t content = 0; content < 256; ++content) {
        block[byte] = static_cast<std::byte>(content);
        values[content] = evaluate_whole(*expression.node(), block, static_cast<int32_t>(first_position_[g]));
      }
      slots_[g].bits.clear();
    }
    block[byte] = std::byte{0};
    shared_.push_back(std::move(shared));
  }
}

void BlockField::find_parts() {
  parts_.resize(group_count_);
  for (size_t g = 0; g < group_count_; ++g) {
    const Slot& slot = slots_[g];
    for (size_t b = 0; b < slot.bits.size(); ++b) {
      const auto same_byte = [&](const Part& part) { return part.byte == slot.bits[b].byte; };
      auto part = std::ranges::find_if(parts_[g], same_byte);
      if (part == parts_[g].end())
        part = parts_[g].insert(
            part,
            {.byte = slot.bits[b].byte, .others = 255, .content = std::vector<uint8_t>(values_.size(), 0)});
      const auto mask = std::to_integer<uint8_t>(bit_of(slot.bits[b].shift));
      part->others = static_cast<uint8_t>(part->others & ~mask);
      for (size_t index = 0; index < values_.size(); ++index)
        if ((slot.patterns[index] >> b & 1) != 0) part->content[index] |= mask;
    }
  }
}

void BlockField::write(std::span<const int32_t> by_group, std::span<std::byte> block) const {
  for (size_t g = 0; g < group_count_; ++g) {
    if (parts_[g].empty()) continue;
    const size_t index = index_of(by_group[g]);
    LUMINAL_CHECK(slots_[g].patterns[index] >= 0, "{} is no value of this field", by_group[g]);
    for (const Part& part : parts_[g]) {
      std::byte& byte = block[part.byte];
      byte = (byte & std::byte{part.others}) | std::byte{part.content[index]};
    }
  }
  for (const SharedByte& shared : shared_) {
    size_t content = 0;
    const auto fits = [&] {
      for (size_t k = 0; k < shared.groups.size(); ++k)
        if (shared.values[k][content] != by_group[shared.groups[k]]) return false;
      return true;
    };
    while (content < 256 && !fits()) ++content;
    LUMINAL_CHECK(content < 256, "no byte holds these values");
    block[shared.byte] = static_cast<std::byte>(content);
  }
}

}  // namespace luminal
