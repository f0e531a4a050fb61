// Rules and numbers: llama.cpp, src/llama-quant.cpp and include/llama.h.
#include "models/quantize_mix.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "base/fail.h"
#include "base/suggest.h"
#include "luminal/block_format.h"

namespace luminal::models {
namespace {

constexpr std::array kMixes{
    QuantizeMix{"F32", 0, "F32"},          QuantizeMix{"F16", 1, "F16"},
    QuantizeMix{"BF16", 32, "BF16"},       QuantizeMix{"Q4_0", 2, "Q4_0"},
    QuantizeMix{"Q4_1", 3, "Q4_1"},        QuantizeMix{"Q5_0", 8, "Q5_0"},
    QuantizeMix{"Q5_1", 9, "Q5_1"},        QuantizeMix{"Q8_0", 7, "Q8_0"},
    QuantizeMix{"Q2_K", 10, "Q2_K"},       QuantizeMix{"Q2_K_S", 21, "Q2_K"},
    QuantizeMix{"Q3_K_S", 11, "Q3_K"},     QuantizeMix{"Q3_K_M", 12, "Q3_K"},
    QuantizeMix{"Q3_K_L", 13, "Q3_K"},     QuantizeMix{"Q4_K_S", 14, "Q4_K"},
    QuantizeMix{"Q4_K_M", 15, "Q4_K"},     QuantizeMix{"Q5_K_S", 16, "Q5_K"},
    QuantizeMix{"Q5_K_M", 17, "Q5_K"},     QuantizeMix{"Q6_K", 18, "Q6_K"},
    QuantizeMix{"IQ4_NL", 25, "IQ4_NL"},   QuantizeMix{"IQ4_XS", 30, "IQ4_XS"},
    QuantizeMix{"TQ1_0", 36, "TQ1_0"},     QuantizeMix{"TQ2_0", 37, "TQ2_0"},
    QuantizeMix{"MXFP4_MOE", 38, "MXFP4"},
};

enum class Part { Output, Embedding, Key, Value, AttentionOutput, Down, Other };

Part part_of(std::string_view name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name == "output.weight") return Part::Output;
  if (name == "token_embd.weight") return Part::Embedding;
  if (has("attn_qkv.weight") || has("attn_v.weight")) return Part::Value;
  if (has("attn_k.weight")) return Part::Key;
  if (has("attn_output.weight")) return Part::AttentionOutput;
  if (has("ffn_down")) return Part::Down;
  return Part::Other;
}

/// The layer of "blk.3.ffn_down.weight"; -1 of what belongs to none.
int64_t layer_of(std::string_view name) {
  int64_t layer = -1;
  if (name.starts_with("blk.")) std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

/// The first and the last eighth of all layers, and every third between.
bool gets_more_bits(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

/// Rules of one mixture. They return the name of a type; empty: the mixture's base.
class MixRules {
 public:
  MixRules(const QuantizeMix& mix, const MixFacts& facts) : mix_(mix), facts_(facts) {}

  /// `place`: among the values of all layers.
  [[nodiscard]] std::string_view value(int64_t place, int64_t values) const {
    std::string_view type = plain_value(place, values);
    if (type.empty()) type = mix_.base;
    // Of such models many query heads share small values.
    if (facts_.architecture == "llama" && facts_.layers == 80 && (type == "Q3_K" || type == "Q4_K"))
      type = "Q5_K";
    return facts_.experts == 8 ? "Q8_0" : type;
  }
  [[nodiscard]] std::string_view key() const { return facts_.experts == 8 ? "Q8_0" : ""; }
  [[nodiscard]] std::string_view attention_output() const {
    if (facts_.experts == 8)
      return is({"Q2_K", "Q3_K_S", "Q3_K_M", "IQ4_NL", "IQ4_XS", "Q4_K_S", "Q4_K_M"}) ? "Q5_K" : "";
    if (is({"Q2_K"})) return "Q3_K";
    if (is({"Q3_K_M"})) return "Q4_K";
    return is({"Q3_K_L"}) ? "Q5_K" : "";
  }
  [[nodiscard]] std::string_view down(int64_t layer) const {
    const int64_t layers = facts_.layers;
    const bool early = layer < layers / 8;
    if (is({"Q2_K"})) return "Q3_K";
    if (is({"Q3_K_L"})) return "Q5_K";
    if (is({"Q3_K_M"})) return layer < layers / 16 ? "Q5_K" : "Q4_K";
    if (is({"Q4_K_M", "Q5_K_M"})) return gets_more_bits(layer, layers) ? "Q6_K" : "";
    if (!early) return "";
    if (is({"Q2_K_S"})) return "Q4_K";
    if (is({"Q4_K_S"})) return "Q5_K";
    if (is({"IQ4_NL", "IQ4_XS"})) return facts_.has_importance ? "" : "Q5_K";
    if (is({"Q4_0"})) return facts_.has_importance ? "Q4_1" : "";
    return is({"Q5_0"}) && facts_.has_importance ? "Q5_1" : "";
  }
  [[nodiscard]] std::string_view output(bool whole_blocks) const {
    if (is({"MXFP4_MOE", "Q8_0"}) || !whole_blocks) return "Q8_0";
    return "Q6_K";
  }
  [[nodiscard]] std::string_view embedding() const { return is({"TQ1_0", "TQ2_0"}) ? "Q4_K" : ""; }
  [[nodiscard]] bool is(std::initializer_list<std::string_view> names) const {
    return std::ranges::find(names, mix_.name) != names.end();
  }

 private:
  [[nodiscard]] std::string_view plain_value(int64_t place, int64_t values) const {
    const bool shared = facts_.kv_heads > 0 && facts_.heads / facts_.kv_heads >= 4;
    if (is({"Q2_K"})) return shared ? "Q4_K" : "Q3_K";
    if (is({"Q2_K_S"})) return shared ? "Q4_K" : "";
    if (is({"Q3_K_M"})) return place < 2 ? "Q5_K" : "Q4_K";
    if (is({"Q3_K_L"})) return "Q5_K";
    if (is({"IQ4_NL", "IQ4_XS"})) return shared ? "Q5_K" : "";
    if (is({"Q4_K_M", "Q5_K_M"})) return gets_more_bits(place, values) ? "Q6_K" : "";
    return is({"Q4_K_S"}) && place < 4 ? "Q5_K" : "";
  }

  const QuantizeMix& mix_;
  const MixFacts& facts_;
};

/// A type whose blocks divide the tensor's rows.
const GgufType& fitting(const GgufType& type, int64_t row) {
  if (row % type.block_elements == 0) return type;
  const auto is = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, type.name) != names.end();
  };
  const std::string_view smaller = is({"Q2_K", "Q3_K", "TQ1_0", "TQ2_0"}) ? "Q4_0"
                                   : is({"Q4_K"})                         ? "Q5_0"
                                   : is({"Q5_K"})                         ? "Q5_1"
                                   : is({"Q6_K"})                         ? "Q8_0"
                                   : is({"IQ4_XS"})                       ? "IQ4_NL"
                                                                          : "F16";
  const GgufType& next = gguf_type(smaller);
  return row % next.block_elements == 0 ? next : gguf_type("F16");
}

std::string upper_name(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

}  // namespace

std::span<const QuantizeMix> quantize_mixes() { return kMixes; }

const QuantizeMix& quantize_mix(std::string_view name) {
  std::string wanted = upper_name(name);
  if (wanted == "Q3_K" || wanted == "Q4_K" || wanted == "Q5_K") wanted += "_M";
  if (const auto* found = std::ranges::find(kMixes, wanted, &QuantizeMix::name); found != kMixes.end())
    return *found;
  if (const BlockFormat* format = find_block_format(wanted); format && !can_encode(*format))
    fail<DtypeError>("[quantize] blocks of {} are read and not made; choose another type", wanted);
  std::vector<std::string> names;
  for (const QuantizeMix& mix : kMixes) names.emplace_back(mix.name);
  fail<DtypeError>("[quantize] no type '{}'; there are {}{}", name, fmt::join(names, ", "),
                   did_you_mean(wanted, names));
}

bool may_be_quantized(std::string_view name, size_t axes) {
  if (axes < 2 || !name.ends_with("weight")) return false;
  constexpr std::array<std::string_view, 4> kKept{"_norm.weight", "ffn_gate_inp.weight", "position_embd",
                                                  "token_types"};
  return std::ranges::none_of(
      kKept, [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

MixedTypes mixed_types(const MixChoice& choice, const MixFacts& facts,
                       std::span<const GgufTensorInfo> tensors) {
  const QuantizeMix& mix = *choice.mix;
  const GgufType& base = gguf_type(mix.base);
  const MixRules rules(mix, facts);
  std::set<int64_t> value_layers;
  bool tied = true;
  for (const GgufTensorInfo& tensor : tensors) {
    if (part_of(tensor.name) == Part::Value) value_layers.insert(layer_of(tensor.name));
    tied &= part_of(tensor.name) != Part::Output;
  }
  const auto named = [&](const GgufTensorInfo& tensor) -> std::string_view {
    const Part part = part_of(tensor.name);
    const int64_t layer = layer_of(tensor.name);
    if (part == Part::Output || (tied && part == Part::Embedding))
      return rules.output(tensor.dims.back() % base.block_elements == 0);
    if (rules.is({"MXFP4_MOE"})) return tensor.dims.size() > 2 ? "MXFP4" : "Q8_0";
    switch (part) {
      case Part::Embedding:
        return rules.embedding();
      case Part::Key:
        return rules.key();
      case Part::AttentionOutput:
        return rules.attention_output();
      case Part::Down:
        return rules.down(layer);
      case Part::Value: {
        const auto place = std::distance(value_layers.begin(), value_layers.find(layer));
        return rules.value(place, static_cast<int64_t>(value_layers.size()));
      }
      default:
        return "";
    }
  };
  MixedTypes result;
  for (const GgufTensorInfo& tensor : tensors) {
    const Part part = part_of(tensor.name);
    const GgufType* type = tensor.type;
    if (may_be_quantized(tensor.name, tensor.dims.size())) {
      type = &base;
      const bool plain = base.block_elements == 1;
      if (const std::string_view other = plain || choice.pure ? "" : named(tensor); !other.empty())
        type = &gguf_type(other);
      if (choice.output && part == Part::Output) type = choice.output;
      if (choice.embedding && part == Part::Embedding) type = choice.embedding;
      const GgufType& wanted = *type;
      type = &fitting(wanted, tensor.dims.back());
      result.smaller_blocks += type != &wanted;
    }
    result.types.push_back(type);
  }
  return result;
}

}  // namespace luminal::models
