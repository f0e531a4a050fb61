#pragma once
#include <optional>
#include <vector>

#include "runtime/plan.h"

namespace luminal::runtime {

/// A piece of memory that one tensor has, or several one after the other (in place). Which tensors share does
/// not depend on sizes.
struct Block {
  enum class Home : uint8_t {
    Arena,     ///< a place in the arena
    Input,     ///< the graph's data of a value
    Owned,     ///< a TensorData of the executor's: what the graph takes, and what host ops touch
    Constant,  ///< the plan's
  };
  Home home = Home::Arena;
  std::vector<TensorIndex> tensors;  ///< in the order in which they take the memory; the last one stays in it
  int first = 0, last = 0;           ///< launches between which it is in use, both included
  bool written = false;              ///< Input: updated in place, so the executor needs it for itself
  bool donated = false;              ///< Input: the graph does not get it back
};

struct Blocks {
  std::vector<Block> all;
  std::vector<int> of_tensor;  ///< index of each tensor's block; -1 for tensors that no launch touches
};

/// Checks a plan (every tensor is written once, before it is read; indices exist; host ops can be evaluated)
/// and decides what lives where. Errors: InternalError.
[[nodiscard]] Blocks assign_blocks(const Plan& plan);

}  // namespace luminal::runtime
