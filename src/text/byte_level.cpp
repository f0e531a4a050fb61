// How the models with byte-level BPE cut texts into words, by the names that llama.cpp gives them in GGUF files
// (src/llama-vocab.cpp there). The patterns are those of the models' tokenizer.json.
#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fail.h"
#include "base/suggest.h"
#include "luminal/text/tokenizer.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

constexpr const char* kGpt2Words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35Words =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekkenWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4oWords =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeek3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSeedWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kBailingWords =
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kBloomWords = R"( ?[^(\s|.,!?…。，、।۔،)]+)";
constexpr const char* kDigit = R"(\p{N})";

/// Patterns apply one after the other, each to the words that those before it left.
struct NamedStyle {
  std::string_view names;  ///< blanks between them
  std::array<const char*, 5> patterns{};
  bool ignore_merges = false, begins = false, composes = false;
};

constexpr NamedStyle kStyles[] = {
    {"gpt-2 gpt2 phi-2 mpt olmo jais jina-es jina-de jina-v1-en jina-v2-es jina-v2-de jina-v2-code gigachat "
     "a.x-4.0 mellum modern-bert roberta-bpe exaone4",
     {kGpt2Words}},
    {"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", {kLlama3Words}, true, true},
    {"dbrx smaug-bpe chatglm-bpe", {kLlama3Words}},
    {"glm4 glm5", {kLlama3Words}, true},
    {"qwen2", {kQwen2Words}, false, false, true},
    {"qwen35", {kQwen35Words}, false, false, true},
    {"deepseek-r1-qwen megrez stablelm2 hunyuan grok-2", {kQwen2Words}},
    {"smollm starcoder refact command-r codeshell exaone minerva-7b", {kDigit, kGpt2Words}},
    {"tekken", {kTekkenWords}, true, true},
    {"gpt-4o llama4 kanana2", {kGpt4oWords}},
    {"deepseek-coder", {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", "[一-龥ࠀ-一가-퟿]+", kDigit}},
    {"deepseek-v3 hunyuan-dense", {R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+", kDeepSeek3Words}},
    {"falcon", {R"([\p{P}$+<=>^~|`]+)", kGpt2Words, "[0-9][0-9][0-9]"}},
    {"bloom poro-chat gpt3-finnish", {kBloomWords}},
    {"viking", {kBloomWords, kDigit}},
    {"seed-coder", {kSeedWords}},
    {"bailingmoe bailingmoe2 llada-moe", {kBailingWords}},
    {"default", {R"([\p{P}$+<=>^~|]+)", kGpt2Words, R"(\p{N}+)", "[0-9][0-9][0-9]"}},
};

std::vector<std::string> words_of(std::string_view names) {
  std::vector<std::string> result;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    result.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return result;
}

const NamedStyle& style_named(std::string_view name) {
  std::vector<std::string> known;
  for (const NamedStyle& style : kStyles)
    for (const std::string& one : words_of(style.names)) {
      if (one == name) return style;
      known.push_back(one);
    }
  fail<FormatError>("[tokenizer] pre-tokeniser '{}' is not known{}; there are {}", name,
                    did_you_mean(name, known), fmt::join(known, ", "));
}

}  // namespace

ByteLevelStyle byte_level_style(std::string_view name) {
  const NamedStyle& named = style_named(name);
  ByteLevelStyle style{.ignore_merges = named.ignore_merges, .begins = named.begins};
  if (named.composes) style.normalizers.push_back({.kind = NormalizerStep::Kind::Nfc});
  for (const char* pattern : named.patterns)
    if (pattern) style.pre_tokenizers.push_back({.pattern = {pattern, true}});
  style.pre_tokenizers.push_back({.kind = PreTokenizerStep::Kind::ByteLevel});
  return style;
}

TokenizerSpec byte_tokenizer() {
  TokenizerSpec spec{.pre_tokenizers = byte_level_style("gpt-2").pre_tokenizers,
                     .decoders = {{{.kind = DecoderStep::Kind::ByteLevel}}}};
  for (int byte = 0; byte < 256; ++byte)
    spec.vocabulary.push_back(character_of_byte(static_cast<uint8_t>(byte)));
  return spec;
}

std::optional<std::string> byte_level_style_name(const TokenizerSpec& spec) {
  std::span<const PreTokenizerStep> steps = spec.pre_tokenizers;
  if (!steps.empty() && steps.front().kind == PreTokenizerStep::Kind::Prefix) steps = steps.subspan(1);
  for (const NamedStyle& named : kStyles) {
    const std::string name = words_of(named.names).front();
    const ByteLevelStyle style = byte_level_style(name);
    if (style.normalizers == spec.normalizers && style.ignore_merges == spec.ignore_merges &&
        std::ranges::equal(style.pre_tokenizers, steps))
      return name;
  }
  return std::nullopt;
}

}  // namespace luminal::text
