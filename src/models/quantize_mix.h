#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/gguf.h"

/// Which tensor of a file gets which type: llama.cpp's mixtures, so that a file's name says the same here as there.
namespace luminal::models {

/// A mixture by its name in commands, its number in `general.file_type`, and the type that most tensors get.
struct QuantizeMix {
  std::string_view name;
  uint32_t file_type = 0;
  std::string_view base;
};
[[nodiscard]] std::span<const QuantizeMix> quantize_mixes();
/// "Q4_K" means Q4_K_M and so on; case does not matter. Errors: DtypeError with the known names, the nearest first.
[[nodiscard]] const QuantizeMix& quantize_mix(std::string_view name);

/// Whether mixtures touch a tensor: not what has one axis, norms, routers, tables of positions and of token types.
[[nodiscard]] bool may_be_quantized(std::string_view name, size_t axes);

/// What mixtures ask of a model.
struct MixFacts {
  std::string architecture;
  int64_t layers = 0, heads = 0, kv_heads = 0, experts = 0;
  bool has_importance = false;
};

/// Types by tensor. `output`, `embedding`: given by the user. `pure`: the base type for all that mixtures touch.
struct MixChoice {
  const QuantizeMix* mix = nullptr;
  const GgufType *output = nullptr, *embedding = nullptr;
  bool pure = false;
};
struct MixedTypes {
  std::vector<const GgufType*> types;
  int64_t smaller_blocks = 0;  ///< tensors whose rows are no whole blocks: they got a type with smaller ones
};
/// The type that each tensor gets; its own where it stays as it is.
[[nodiscard]] MixedTypes mixed_types(const MixChoice& choice, const MixFacts& facts,
                                     std::span<const GgufTensorInfo> tensors);

}  // namespace luminal::models
