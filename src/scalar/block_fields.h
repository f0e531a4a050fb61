#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "luminal/block_format.h"

/// Whole-number expressions of block descriptions, read backwards: which bits of a block make them a value.
namespace luminal {

/// The inverse of an expression without floats. A value at a position takes few bits of the block, or (digits of
/// base 3) a share of a byte: which ones is found by evaluating the expression.
class BlockField {
 public:
  BlockField(const BlockExpression& expression, const BlockFormat& format);

  /// All values that it can have, ascending.
  [[nodiscard]] const std::vector<int32_t>& values() const { return values_; }
  /// For each position the number of the field that it reads; positions that share one have the same. Numbers
  /// ascend with positions.
  [[nodiscard]] const std::vector<size_t>& groups() const { return groups_; }
  [[nodiscard]] size_t group_count() const { return group_count_; }
  /// Makes field number `g` of a block `by_group[g]`; the block's other bits stay.
  void write(std::span<const int32_t> by_group, std::span<std::byte> block) const;

 private:
  struct Bit {
    size_t byte = 0;
    int shift = 0;
    bool operator==(const Bit&) const = default;
  };
  /// The bits of one field, and by the index of a value the pattern of these bits.
  struct Slot {
    std::vector<Bit> bits;
    std::vector<int16_t> patterns;
  };
  /// A byte that several fields share, and what it stands for in each of them.
  struct SharedByte {
    size_t byte = 0;
    std::vector<size_t> groups;
    std::vector<std::array<int32_t, 256>> values;
  };
  /// The bits of a field that lie in one byte, and what stands there for each value by its index.
  struct Part {
    size_t byte = 0;
    uint8_t others = 0;  ///< the byte's other bits
    std::vector<uint8_t> content;
  };
  [[nodiscard]] size_t index_of(int32_t value) const;
  void find_parts();
  void find_groups(const BlockExpression& expression, const BlockFormat& format);
  void find_patterns(const BlockExpression& expression, const BlockFormat& format);
  void find_shared(const BlockExpression& expression, const BlockFormat& format);

  std::vector<int32_t> values_;
  std::vector<size_t> groups_, first_position_;
  size_t group_count_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::vector<Part>> parts_;  ///< by field
  std::vector<SharedByte> shared_;
};

/// The value of an expression without floats. Slow: what runs often is made from what this finds.
[[nodiscard]] int32_t evaluate_whole(const BlockExpression::Node& node, std::span<const std::byte> block,
                                     int32_t position);
/// The bytes that an expression reads at a position, ascending.
[[nodiscard]] std::vector<size_t> bytes_read(const BlockExpression::Node& node, int32_t position);

}  // namespace luminal
