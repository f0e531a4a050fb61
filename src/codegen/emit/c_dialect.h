#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace luminal::codegen {

/// What memory and registers hold, whatever it means: bool is a byte, f16 and bf16 are 16 bits.
enum class Word : uint8_t { I8, U8, I16, U16, I32, U32, I64, U64, F32, F64 };
inline constexpr size_t kWordCount = static_cast<size_t>(Word::F64) + 1;

/// How a kernel gets its arguments.
enum class ParameterStyle : uint8_t {
  Record,  ///< one pointer to a backends::LaunchArguments, and the range of tasks
  Listed,  ///< one by one: a pointer and an offset in bytes for each buffer, workspaces, dims, the first task
};

/// A language of the C family: a table of what differs from one to the other. The printer (c_family.h) writes the rest
/// in their common part, in which `fma`, `sqrt`, `floor`, `rint`, `fmod` and `fabs` take floats and doubles; a preamble
/// defines those that a language calls something else. Entries with {0}, {1} ... are formats.
struct Dialect {
  std::string_view name;
  std::string_view preamble;
  std::array<std::string_view, kWordCount> types;  ///< in the order of Word
  std::string_view function;                       ///< before a function of our own
  std::string_view table;                          ///< before a constant table, and before pointers into one
  std::string_view kernel;                         ///< before a kernel; {0}: threads of its blocks
  ParameterStyle parameters = ParameterStyle::Record;
  std::string_view global;  ///< address space of buffers
  std::string_view tasks;   ///< before the block that runs one task; {0}: type of an index, {1}: its name
  std::string_view
      item;  ///< number of the work-item within its launch: it has its own piece of Local workspace
  std::string_view thread;   ///< the work-item's number in its block; empty where the language has no blocks
  std::string_view block;    ///< address space of memory of a block
  std::string_view barrier;  ///< orders accesses to the memory of the block and of the launch
  int64_t most_private_bytes = 0;  ///< of a Local buffer that is an array of the task's
  std::string_view unroll;         ///< a line before loops that are to be unrolled
  std::string_view bits;           ///< {1} as type {0} of the same size

  /// The longest vector type, a power of two; 1: there is none, and lanes are elements of arrays. What follows is for
  /// languages with vectors. Their comparisons give 0 or -1 in lanes of the operands' size.
  int longest_vector = 1;
  std::string_view vector_type;   ///< {0}: type of a lane, {1}: lanes
  std::string_view vector_value;  ///< {0}: type, {1}: a scalar or the lanes
  std::string_view convert;       ///< {1} as type {0}, by value
  std::string_view select;        ///< {1} where the mask {0} is -1, else {2}
  std::string_view all;           ///< whether all lanes of {0} are -1
  std::string_view load, store;   ///< {0} lanes at {1}; the value {2}
  std::string_view lane;          ///< number {1} of {0}
};

/// C11, for any compiler: the text as a host function.
[[nodiscard]] const Dialect& plain_c();
/// OpenCL C 1.2.
[[nodiscard]] const Dialect& opencl_c();

}  // namespace luminal::codegen
