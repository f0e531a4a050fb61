#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "luminal/scalar.h"
#include "scalar/element.h"

namespace luminal {

/// Runs a scalar function on arrays: node by node over chunks that stay in the cache. Planned once, run from
/// any number of threads.
///
///   ScalarInterpreter run(f);
///   run(n, {{x.data(), y.data()}}, {}, {{out.data()}});
///
/// Arrays hold elements of the input's (output's) dtype, Bool as bytes 0 or 1, coordinates int64_t. An output
/// may be the same array as an input of the same element size; other overlaps are not allowed.
class ScalarInterpreter {
 public:
  explicit ScalarInterpreter(ScalarFunction function);

  /// Slots (axes) that the function does not read may be null. Errors: InternalError if one that it reads is
  /// missing.
  void operator()(int64_t count, std::span<const void* const> inputs,
                  std::span<const int64_t* const> coordinates, std::span<void* const> outputs) const;
  [[nodiscard]] const ScalarFunction& function() const { return function_; }

 private:
  struct Step {
    ScalarKernel kernel;
    uint32_t out;
    uint32_t operands[3];
  };
  void check_arguments(std::span<const void* const> inputs, std::span<const int64_t* const> coordinates,
                       std::span<void* const> outputs) const;

  ScalarFunction function_;
  std::vector<Step> steps_;
  std::vector<uint32_t> constants_;  ///< nodes
  std::vector<uint32_t> leaves_;     ///< input and coordinate nodes
  std::vector<uint32_t> place_;      ///< node -> scratch buffer
  uint32_t scratch_buffers_ = 0;
};

}  // namespace luminal
