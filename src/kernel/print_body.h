#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernel/spec.h"

namespace luminal::kernel {

/// What a spec's text calls slot 0, 1, ...: "A", "B", ...
[[nodiscard]] std::string slot_name(size_t slot);

/// A body as infix text. The accurate functions, which stand as their polynomials in scalar IR, print by
/// name.
struct BodyText {
  std::vector<std::pair<std::string, std::string>> shared;  ///< long parts that are used twice: name, text
  std::string result;
};
/// `operand(k)` is the text of operand k; `fresh()` a new name for a shared part.
[[nodiscard]] BodyText body_text(const ScalarFunction& body, const std::function<std::string(int)>& operand,
                                 const std::function<std::string()>& fresh);

}  // namespace luminal::kernel
