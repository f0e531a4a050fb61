#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "codegen/block_load.h"
#include "codegen/loop_ir.h"
#include "luminal/block_format.h"

/// How loads of blocks are written: descriptions translated into loop IR, wherever the bytes lie.
namespace luminal::codegen {

/// Where the lanes of a load lie: lane l in block `block` + blocks[l], at position first + offsets[l] of it, for the
/// first lane's position, which is one of `firsts`.
struct LanePlaces {
  std::vector<int64_t> firsts, blocks, offsets;
};

/// Lane l lies distance(l) behind the first one. Nothing where blocks and offsets depend on the first one's position.
[[nodiscard]] std::optional<LanePlaces> lane_places(const Expression& first, int lanes, int64_t elements,
                                                    const std::function<int64_t(int lane)>& distance);
[[nodiscard]] std::optional<LanePlaces> lane_places(const Expression& first, int lanes, int64_t stride,
                                                    int64_t elements);

/// Translates a description for one load. Whole numbers are I32, floats F32; scalars where no lane differs.
class BlockReader {
 public:
  using Node = BlockExpression::Node;

  BlockReader(StageBuilder& b, int buffer, const BlockFormat& format, int lanes)
      : b_(b), buffer_(buffer), format_(format), lanes_(lanes) {}
  virtual ~BlockReader() = default;

  Id read();
  /// Whether bytes are enough to compute the level, but for a constant.
  bool goes_in_bytes();
  BlockFactors factors();
  /// Levels as bytes: signed ones, or less `shift`.
  BlockNumbers numbers(bool is_signed);

 protected:
  /// The lowest byte of a whole number in each lane, as U8.
  Id level_bytes(const Node& node);

  /// Byte number `place` of each lane's block, as U8.
  virtual Id byte(const Node& place) = 0;
  /// The bytes number `place` and place + 1, as U16; kNone where byte() does better.
  virtual Id word(const Node& /*place*/) { return kNone; }
  /// A node without bytes that is not the same at all positions; nothing where its operands have to be asked.
  virtual std::optional<Id> by_position(const Node& node) = 0;

  Id of(const Node& node);
  Id whole(int64_t value);
  Id widen(Id id);
  Id apply(ScalarOp op, Id a, Id b);

  StageBuilder& b_;
  int buffer_;
  const BlockFormat& format_;
  int lanes_;

 private:
  Id by_code();
  Id number_of(const Node& code, int entries);
  Id joined_bytes(const Node& node);
  Id in_bytes(const Node& node);
  Id make_in_bytes(const Node& node);
  Id bits_in_bytes(const Node& node);
  Id entries_in_bytes(const Node& table, int added);
  Id make(const Node& node);
  Id word_of(const Node& node);

  std::map<const Node*, Id> known_, bytes_;  ///< as of() and in_bytes() give them
};

/// Lanes of which all is known but where the first one lies.
class EvenReader : public BlockReader {
 public:
  EvenReader(StageBuilder& b, int buffer, const BlockFormat& format, const Expression& block,
             const Expression& first, LanePlaces places)
      : BlockReader(b, buffer, format, static_cast<int>(places.offsets.size())),
        block_(block),
        first_(first),
        places_(std::move(places)) {}

 protected:
  Id byte(const Node& place) override;
  Id word(const Node& place) override;
  std::optional<Id> by_position(const Node& node) override;

  /// What a node gives for lane l where the first lane is at firsts[k].
  [[nodiscard]] int64_t at(std::span<const int32_t> values, size_t k, size_t l) const;
  /// How lanes differ from the first one, if that is the same wherever it is. `each`: what a block counts.
  [[nodiscard]] std::optional<std::vector<int>> differences(std::span<const int32_t> values,
                                                            int64_t each) const;

  Expression block_, first_;
  LanePlaces places_;

 private:
  /// The first lane's value.
  [[nodiscard]] std::optional<Expression> first_lane(const Node& node) const;
  [[nodiscard]] std::optional<Expression> formula(const Node& node) const;
  Id scalar(const Expression& e);
  Id concatenated(std::vector<Id> parts);
  Id scattered_byte(const Node& place);
};

}  // namespace luminal::codegen
