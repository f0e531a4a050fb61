#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "codegen/block_load.h"
#include "codegen/loop_ir.h"
#include "luminal/block_format.h"

/// Blocks of several rows side by side, for kernels whose lanes are rows: what a lane needs of its row lies beside what
/// the others need of theirs, so that a load of neighbouring bytes serves all lanes and a panel is read from its begin to
/// its end. Bytes keep the meaning that the format's description gives them.
namespace luminal::codegen {

/// Elements that are read together: they share a scale and an offset.
[[nodiscard]] int64_t panel_group(const BlockFormat& format);

/// A panel of `rows` rows holds their first blocks, then their second ones, and so on. Blocks are cut in pieces of four
/// bytes behind the first `head` ones; a piece of all rows lies side by side, and pieces lie in the order in which kernels
/// come to them: what groups share, then numbers. So the processor reads ahead what is needed next.
class BlockPanels {
 public:
  /// Nothing where numbers of four neighbours cannot be read so, wherever they are.
  [[nodiscard]] static std::optional<BlockPanels> of(const BlockFormat& format, int rows);

  [[nodiscard]] int rows() const { return rows_; }
  /// Of a set of blocks, one of each row.
  [[nodiscard]] int64_t set_bytes() const { return int64_t{rows_} * format_->block_bytes; }
  /// What numbers() lack of the levels.
  [[nodiscard]] int shift() const { return shift_; }
  [[nodiscard]] int greatest() const { return greatest_; }  ///< of numbers()
  /// Elements after which numbers are put together from their bytes in the same way: groups are unrolled up to there, so
  /// that a shift is a constant and bytes that several groups share are loaded once.
  [[nodiscard]] int64_t period() const { return period_; }

  /// Copies a set of blocks: of each row the one that begins at an element of `slot`. `set`: which one of `panels`.
  void store(StageBuilder& b, int slot, std::span<const Expression> elements, int panels,
             const Expression& set) const;

  /// Lane l: of row l / 4, the number of element step * period() + at + l % 4 of a block, U8. `at` is a multiple of 4.
  [[nodiscard]] Id numbers(StageBuilder& b, int panels, const Expression& set, const Expression& step,
                           int64_t at) const;
  /// Lane l: of row l, what the group of element `first` of a block shares.
  [[nodiscard]] BlockFactors factors(StageBuilder& b, int panels, const Expression& set, int64_t first) const;

  /// Bytes of each row's block that lie side by side.
  struct Piece {
    int begin = 0, size = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  /// In which `byte` of a block is.
  [[nodiscard]] Piece piece_of(int byte) const;
  /// Bytes of each row before it in a set.
  [[nodiscard]] int offset_of(const Piece& piece) const { return offsets_[static_cast<size_t>(piece.begin)]; }

 private:
  BlockPanels(const BlockFormat& format, int rows, int head);
  [[nodiscard]] std::vector<Piece> pieces() const;  ///< as a block has them
  /// Puts pieces in the order of `used`, those that nobody uses behind them.
  void put_in_order(std::span<const Piece> used);
  /// The pieces that are read, in that order; nothing where some cannot be read.
  [[nodiscard]] std::optional<std::vector<Piece>> use_order() const;
  /// Instructions that read all numbers and factors; nothing where some cannot be read. Finds shift and greatest number.
  [[nodiscard]] std::optional<int64_t> price();

  const BlockFormat* format_;
  int rows_, head_, shift_ = 0, greatest_ = 0;
  int64_t period_;
  std::vector<int> offsets_;  ///< by first byte of a piece
};

}  // namespace luminal::codegen
