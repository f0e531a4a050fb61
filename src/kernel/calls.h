#pragma once
#include <optional>
#include <string_view>
#include <vector>

#include "luminal/scalar.h"

namespace luminal::kernel {

/// An accurate function (luminal/scalar_math.h), which stands as its polynomial in scalar IR.
struct MathCall {
  std::string_view name;
  std::vector<Scalar> arguments;
};
/// The function that node `s` of `body` is the result of, if it is one.
[[nodiscard]] std::optional<MathCall> call_at(const ScalarFunction& body, Scalar s);

}  // namespace luminal::kernel
