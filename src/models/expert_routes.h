#pragma once
#include "luminal/graph_tensor.h"

namespace luminal::models {

/// A mixture's work in blocks of rows, each with one expert: a row is a token seen by one of the experts that it uses.
/// Rows of an expert stand together, and its last block is filled up with rows that nobody reads.
class ExpertRoutes {
 public:
  /// `which`: the experts of each token, i32 [T, used].
  ExpertRoutes(const GraphTensor& which, int64_t experts);

  /// What each row reads of its token: [T, n] to [blocks, rows, n].
  [[nodiscard]] GraphTensor in_blocks(const GraphTensor& x) const;
  /// Of what all experts would make of all blocks, [blocks, experts, rows, n], what the block's own makes: [blocks, rows,
  /// n]. Nothing else is computed (kernel/routed.h).
  [[nodiscard]] GraphTensor by_expert(const GraphTensor& each) const;
  /// Each token's rows: [blocks, rows, n] to [T, used, n].
  [[nodiscard]] GraphTensor by_token(const GraphTensor& y) const;

 private:
  int64_t experts_;
  Expression rows_, blocks_;
  GraphTensor expert_;  ///< [blocks]; `experts` where a block is left over
  GraphTensor token_;   ///< [blocks, rows]
  GraphTensor row_;     ///< [T, used]: number of the row
};

}  // namespace luminal::models
