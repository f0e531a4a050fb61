#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "luminal/expression.h"

namespace luminal::codegen {

/// An Expression made ready for evaluation in inner loops and launches: no look-ups by name, no allocation.
///
///   IndexCode tasks((n + 63) / 64, dims);   // dims sorted: {"m", "n"}
///   tasks({7, 100});                        // 2
///
/// Overflow wraps; a division by zero gives 0 (nothing runs at such sizes).
class IndexCode {
 public:
  IndexCode() = default;
  /// Errors: InternalError if the expression uses a dim that is not in `dims` or the flat index.
  IndexCode(const Expression& e, std::span<const std::string> dims);
  [[nodiscard]] int64_t operator()(std::span<const int64_t> dims,
                                   std::span<const int64_t> variables = {}) const;

 private:
  enum class Op : uint8_t { Constant, Dim, Variable, Add, Mul, Div, Mod, Min, Max, Negative, And, Or };
  struct Step {
    Op op;
    int64_t value;
  };
  void append(const Expression& e, std::span<const std::string> dims, size_t depth);
  void push(Op op, int64_t value, size_t depth);
  std::vector<Step> steps_;
};

}  // namespace luminal::codegen
