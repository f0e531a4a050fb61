#pragma once
#include "luminal/models/decoder.h"

namespace luminal::models {

/// One that has no gate of its own.
[[nodiscard]] inline GraphTensor activated(const GraphTensor& x, DecoderOptions::Activation activation) {
  if (activation == DecoderOptions::Activation::Silu) return x.silu();
  return x.gelu(activation == DecoderOptions::Activation::Gelu ? "none" : "tanh");
}

}  // namespace luminal::models
