#pragma once
#include "luminal/op_def.h"

namespace luminal::ops {

/// `rule`, after a look at the attribute "ties", which must be "split" or "first".
[[nodiscard]] InferRule with_ties(std::string_view op, InferRule rule);

/// Whether equal maxima share the gradient ("split") or the first gets it all.
[[nodiscard]] inline bool splits_ties(const Attributes& attributes) {
  return attributes.get<std::string>("ties") == "split";
}

}  // namespace luminal::ops
