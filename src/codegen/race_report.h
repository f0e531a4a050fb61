#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loop_ir.h"
#include "luminal/tensor_data.h"

namespace luminal::codegen {

/// Something wrong that a run of a program in the interpreter met.
struct Finding {
  enum class Kind : uint8_t {
    OutOfBounds,  ///< an element that the buffer does not have
    Unwritten,    ///< a read of what nobody wrote: workspaces begin with anything
    ThreadRace,  ///< two threads of a block touch an element with no barrier between, and one of them writes it
    TaskRace,    ///< so do two tasks of a stage
    WrittenTwice,  ///< an element of an output
    NeverWritten,
    Overwritten,  ///< a read of a slot's element that is written by then, if an output takes the slot's memory
    Divergence,   ///< some threads of a block come to a barrier that others pass by
  };
  Kind kind = Kind::OutOfBounds;
  const Instruction* instruction = nullptr;  ///< of the program that ran; none for what never happened
  int stage = 0;
  int buffer = -1;
  int64_t element = -1;
  int64_t task = 0;
  int thread = 0, other_thread = -1;  ///< of the block; the other one of a race
  int64_t phase = 0;                  ///< barriers that the block had passed
  std::string message;
};
[[nodiscard]] std::string_view name(Finding::Kind kind);

/// How threads that run in step use memory: warps of 32, neighbours in their block.
struct AccessFigures {
  static constexpr int kWarp = 32;
  int64_t block_accesses = 0;  ///< of warps to memory of the block
  int64_t bank_conflicts =
      0;  ///< passes that take longer than the least there could be (32 banks of 4 bytes)
  int64_t global_accesses = 0;  ///< of warps to memory of the launch
  int64_t segments = 0;         ///< of 128 bytes, that these touch
  int64_t least_segments = 0;   ///< as many as could hold what they touch
};

/// What one thread of a block touches at one instruction.
struct Touch {
  int thread = 0;
  int64_t byte = 0, bytes = 0;
};
/// Adds the accesses of one instruction by the threads of a block, in the order of the threads.
void add_accesses(AccessFigures& figures, std::span<const Touch> touches, bool is_block_memory);

struct RaceReport {
  std::vector<TensorData> outputs;
  std::vector<Finding> findings;  ///< the first of each kind at each instruction
  int64_t found = 0;              ///< all of them
  AccessFigures figures;
  /// A line for each finding.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace luminal::codegen
