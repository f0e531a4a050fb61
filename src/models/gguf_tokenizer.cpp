// Keys and defaults: GGUF's specification (ggml/docs/gguf.md) and llama.cpp's src/llama-vocab.cpp.
#include "luminal/models/gguf_tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/fail.h"

namespace luminal::models {
namespace {

using text::DecoderStep;
using text::NormalizerStep;
using text::PreTokenizerStep;
using text::TokenId;
using text::TokenizerSpec;

constexpr std::string_view kSpace = "\u2581";

/// What a vocabulary says of each token.
enum class TokenType : int64_t { Normal = 1, Unknown, Control, UserDefined, Unused, Byte };

/// Metadata with checks of kinds. Keys are given without "tokenizer.".
class TokenizerKeys {
 public:
  explicit TokenizerKeys(const GgufMetadata& metadata) : metadata_(metadata) {
    tokens_ = texts("ggml.tokens", true);
    if (tokens_.empty()) fail<FormatError>("[tokenizer] tokenizer.ggml.tokens is empty");
    if (tokens_.size() > kMostTokens)
      fail<FormatError>("[tokenizer] there are {} tokens; {} is the most", tokens_.size(), kMostTokens);
    read_types();
  }

  [[nodiscard]] const GgufValue* find(std::string_view key) const {
    const std::string full = "tokenizer." + std::string(key);
    for (const auto& [name, value] : metadata_)
      if (name == full) return &value;
    return nullptr;
  }

  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const {
    const GgufValue* value = find(key);
    return value ? as<std::string>(key, *value, "a text") : std::string(otherwise);
  }

  [[nodiscard]] bool flag(std::string_view key, bool otherwise) const {
    const GgufValue* value = find(key);
    return value ? as<bool>(key, *value, "true or false") : otherwise;
  }

  /// A token's id; `otherwise` only where the vocabulary has it.
  [[nodiscard]] std::optional<TokenId> id(std::string_view key, std::optional<TokenId> otherwise = {}) const {
    const GgufValue* value = find(key);
    if (!value)
      return otherwise && static_cast<size_t>(*otherwise) < tokens_.size() ? otherwise : std::nullopt;
    const std::optional<int64_t> number = value->integer();
    if (!number || *number < 0 || static_cast<size_t>(*number) >= tokens_.size())
      fail<FormatError>("[tokenizer] tokenizer.{} is {}, which is no id of the {} tokens", key,
                        to_text(*value), tokens_.size());
    return static_cast<TokenId>(*number);
  }

  [[nodiscard]] std::vector<std::string> texts(std::string_view key, bool needed) const {
    std::vector<std::string> result;
    for (const GgufValue& value : values(key, needed)) result.push_back(as<std::string>(key, value, "texts"));
    return result;
  }

  [[nodiscard]] std::vector<double> scores() const {
    constexpr std::string_view kKey = "ggml.scores";
    std::vector<double> result;
    for (const GgufValue& value : values(kKey, true)) {
      if (const auto* score = std::get_if<float>(&value))
        result.push_back(*score);
      else if (const std::optional<int64_t> whole = value.integer())
        result.push_back(static_cast<double>(*whole));
      else
        wrong_kind("tokenizer." + std::string(kKey), value, "numbers");
    }
    check_count(kKey, result.size());
    return result;
  }

  [[nodiscard]] const std::vector<std::string>& tokens() const { return tokens_; }
  [[nodiscard]] TokenType type(size_t id) const { return types_[id]; }
  [[nodiscard]] std::string architecture() const {
    for (const auto& [name, value] : metadata_)
      if (name == "general.architecture") return as<std::string>(name, value, "a text");
    return {};
  }

 private:
  static constexpr size_t kMostTokens = size_t{1} << 22;

  [[noreturn]] static void wrong_kind(std::string_view key, const GgufValue& value, std::string_view wanted) {
    fail<FormatError>("[tokenizer] {} is {}; it must be {}", key, to_text(value), wanted);
  }
  template <class T>
  static const T& as(std::string_view key, const GgufValue& value, std::string_view wanted) {
    if (const T* held = std::get_if<T>(&value)) return *held;
    wrong_kind("tokenizer." + std::string(key), value, wanted);
  }

  [[nodiscard]] const std::vector<GgufValue>& values(std::string_view key, bool needed) const {
    static const std::vector<GgufValue> none;
    const GgufValue* value = find(key);
    if (!value && needed) fail<FormatError>("[tokenizer] the file has no tokenizer.{}", key);
    return value ? as<GgufArray>(key, *value, "an array").values : none;
  }

  void check_count(std::string_view key, size_t count) const {
    if (count != tokens_.size())
      fail<FormatError>("[tokenizer] tokenizer.{} has {} entries for {} tokens", key, count, tokens_.size());
  }

  void read_types() {
    constexpr std::string_view kKey = "ggml.token_type";
    if (!find(kKey)) {
      types_.assign(tokens_.size(), TokenType::Normal);
      return;
    }
    for (const GgufValue& value : values(kKey, true)) {
      const std::optional<int64_t> type = value.integer();
      if (!type || *type < 0 || *type > static_cast<int64_t>(TokenType::Byte))
        wrong_kind("tokenizer." + std::string(kKey), value, "numbers from 0 to 6");
      types_.push_back(*type == 0 ? TokenType::Normal : static_cast<TokenType>(*type));
    }
    check_count(kKey, types_.size());
  }

  const GgufMetadata& metadata_;
  std::vector<std::string> tokens_;
  std::vector<TokenType> types_;
};

/// Whether a token is looked for in texts instead of being put together.
bool stands_in_texts(TokenType type) {
  return type == TokenType::Control || type == TokenType::UserDefined || type == TokenType::Unknown;
}

/// The vocabulary that words are made of: control tokens and unused ids are not.
void take_vocabulary(const TokenizerKeys& keys, TokenizerSpec& spec) {
  for (size_t id = 0; id < keys.tokens().size(); ++id) {
    const TokenType type = keys.type(id);
    const std::string& token = keys.tokens()[id];
    const bool apart = stands_in_texts(type) || type == TokenType::Unused;
    spec.vocabulary.push_back(apart ? std::string() : token);
    if (stands_in_texts(type) && !token.empty())
      spec.added.push_back(
          {.id = static_cast<TokenId>(id), .content = token, .special = type != TokenType::UserDefined});
    spec.byte_fallback |= type == TokenType::Byte;
  }
}

ptrdiff_t character_count(std::string_view text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

void take_gpt2(const TokenizerKeys& keys, TokenizerSpec& spec) {
  text::ByteLevelStyle style = text::byte_level_style(keys.text("ggml.pre", "default"));
  spec.normalizers = std::move(style.normalizers);
  spec.pre_tokenizers = std::move(style.pre_tokenizers);
  spec.ignore_merges = style.ignore_merges;
  if (keys.flag("ggml.add_space_prefix", false))
    spec.pre_tokenizers.insert(spec.pre_tokenizers.begin(), {.kind = PreTokenizerStep::Kind::Prefix});
  spec.decoders = {{.kind = DecoderStep::Kind::ByteLevel}};
  for (const std::string& merge : keys.texts("ggml.merges", true)) {
    const size_t blank = merge.find(' ', 1);  // the first piece may be a blank itself
    if (blank == std::string::npos)
      fail<FormatError>("[tokenizer] the merge '{}' has no blank between two pieces", merge.substr(0, 64));
    spec.merges.emplace_back(merge.substr(0, blank), merge.substr(blank + 1));
  }
  const auto is_longer = [&](const std::string& token) { return character_count(token) > 1; };
  if (spec.merges.empty() && std::ranges::any_of(spec.vocabulary, is_longer))
    fail<FormatError>("[tokenizer] tokenizer.ggml.merges is empty, and tokens have several characters");
}

std::vector<DecoderStep> sentence_piece_decoders(bool prefixed) {
  std::vector<DecoderStep> steps{
      {.kind = DecoderStep::Kind::Replace, .pattern = {std::string(kSpace), false}, .content = " "},
      {.kind = DecoderStep::Kind::ByteFallback},
      {.kind = DecoderStep::Kind::Fuse}};
  if (prefixed) steps.push_back({.kind = DecoderStep::Kind::Strip, .content = " ", .start = 1});
  return steps;
}

/// Blanks become kSpace, one of which stands before each piece of text.
void take_sentence_piece(const TokenizerKeys& keys, bool prefixed, TokenizerSpec& spec) {
  using Kind = NormalizerStep::Kind;
  spec.scores = keys.scores();
  if (keys.flag("ggml.remove_extra_whitespaces", false)) {
    spec.normalizers.push_back({.kind = Kind::Strip});
    spec.normalizers.push_back({.kind = Kind::Replace, .pattern = {" {2,}", true}, .content = " "});
  }
  if (const GgufValue* map = keys.find("ggml.precompiled_charsmap"))
    if (const auto* bytes = std::get_if<GgufArray>(map); !bytes || !bytes->values.empty())
      fail<FormatError>(
          "[tokenizer] tokenizer.ggml.precompiled_charsmap: precompiled normalisers are not read");
  if (prefixed) spec.normalizers.push_back({.kind = Kind::Prepend, .content = std::string(kSpace)});
  spec.normalizers.push_back(
      {.kind = Kind::Replace, .pattern = {" ", false}, .content = std::string(kSpace)});
  spec.decoders = sentence_piece_decoders(prefixed);
}

/// Phi-3's tokens take the blanks behind them, which files do not say.
void strip_behind(const TokenizerKeys& keys, TokenizerSpec& spec) {
  if (keys.architecture() != "phi3") return;
  for (text::AddedToken& token : spec.added)
    token.right_strip =
        token.id != spec.unknown && token.content != "<s>" && token.content != "<|endoftext|>";
}

/// In files, words begin with kSpace and what goes on has no mark; BERT's own mark is "##" before the latter.
void take_bert(const TokenizerKeys& keys, TokenizerSpec& spec) {
  spec.continuing_prefix = "##";
  for (std::string& token : spec.vocabulary)
    if (!token.empty())
      token = token.starts_with(kSpace) ? token.substr(kSpace.size()) : spec.continuing_prefix + token;
  for (text::AddedToken& token : spec.added)
    if (!token.special && token.content.starts_with(kSpace)) token.content.erase(0, kSpace.size());
  const bool lowercase = keys.flag("ggml.normalizer.lowercase", true);
  spec.normalizers = {{.kind = NormalizerStep::Kind::Bert,
                       .lowercase = lowercase,
                       .accents = keys.flag("ggml.normalizer.strip_accents", lowercase)}};
  spec.pre_tokenizers = text::bert_pre_tokenizer();
  spec.decoders = {{.kind = DecoderStep::Kind::WordPiece, .content = "##"}};
}

/// What models of a kind do where a file has no key for it.
struct SpecialDefaults {
  std::optional<TokenId> begin, end, unknown;
  bool add_begin = false, add_end = false;
};

void take_special(const TokenizerKeys& keys, const SpecialDefaults& defaults, TokenizerSpec& spec) {
  const auto begin = keys.id("ggml.bos_token_id", defaults.begin);
  const auto end = keys.id("ggml.eos_token_id", defaults.end);
  spec.unknown = keys.id("ggml.unknown_token_id", defaults.unknown);
  const auto text_of = [&](std::optional<TokenId> id) {
    return id ? keys.tokens()[static_cast<size_t>(*id)] : std::string();
  };
  spec.begin_token = text_of(begin), spec.end_token = text_of(end);
  if (begin && keys.flag("ggml.add_bos_token", defaults.add_begin)) spec.begin = {*begin};
  if (end && keys.flag("ggml.add_eos_token", defaults.add_end)) spec.end = {*end};
  spec.chat_template = keys.text("chat_template", "");
}

TokenizerSpec spec_of(const TokenizerKeys& keys) {
  TokenizerSpec spec;
  take_vocabulary(keys, spec);
  const std::string model = keys.text("ggml.model", "");
  if (model == "gpt2") {
    take_gpt2(keys, spec);
    const bool begins = text::byte_level_style(keys.text("ggml.pre", "default")).begins;
    take_special(keys, {.add_begin = begins}, spec);
  } else if (model == "llama") {
    take_sentence_piece(keys, keys.flag("ggml.add_space_prefix", true), spec);
    take_special(keys, {.begin = 1, .end = 2, .unknown = 0, .add_begin = true}, spec);
    strip_behind(keys, spec);
  } else if (model == "t5") {
    spec.model = TokenizerSpec::Model::Unigram;
    take_sentence_piece(keys, keys.flag("ggml.add_space_prefix", false), spec);
    take_special(keys, {.end = 1, .unknown = 2, .add_end = true}, spec);
  } else if (model == "bert") {
    spec.model = TokenizerSpec::Model::WordPiece;
    take_bert(keys, spec);
    take_special(keys, {.begin = 101, .unknown = 100, .add_begin = true}, spec);
    if (const auto separator = keys.id("ggml.seperator_token_id", 102))
      spec.end = {*separator};  // files' spelling
  } else if (model.empty()) {
    fail<FormatError>("[tokenizer] the file has no tokenizer.ggml.model");
  } else {
    fail<FormatError>("[tokenizer] the model '{}' is not known; there are gpt2, llama, t5 and bert", model);
  }
  return spec;
}

/// Control tokens that end an answer, by their texts.
constexpr std::array<std::string_view, 13> kStops{
    "<|eot_id|>", "<|eom_id|>", "<|im_end|>",    "<|end|>", "<|return|>", "<|call|>",       "<end_of_turn>",
    "</s>",       "<eos>",      "<|endoftext|>", "<EOT>",   "[EOS]",      "<|end_of_text|>"};

}  // namespace

TokenizerSpec gguf_tokenizer(const GgufMetadata& metadata) { return spec_of(TokenizerKeys(metadata)); }

std::vector<TokenId> gguf_stop_tokens(const GgufMetadata& metadata) {
  const TokenizerKeys keys(metadata);
  std::set<TokenId> stops;
  for (const char* key : {"ggml.eos_token_id", "ggml.eot_token_id", "ggml.eom_token_id"})
    if (const auto id = keys.id(key)) stops.insert(*id);
  for (size_t id = 0; id < keys.tokens().size(); ++id)
    if (keys.type(id) == TokenType::Control && std::ranges::find(kStops, keys.tokens()[id]) != kStops.end())
      stops.insert(static_cast<TokenId>(id));
  // Where answers end by these two, <|end|> only ends one of the messages that an answer consists of.
  if (const auto find = [&](std::string_view token) { return std::ranges::find(keys.tokens(), token); };
      find("<|return|>") != keys.tokens().end() && find("<|call|>") != keys.tokens().end())
    std::erase_if(stops, [&](TokenId id) { return keys.tokens()[static_cast<size_t>(id)] == "<|end|>"; });
  return {stops.begin(), stops.end()};
}

}  // namespace luminal::models
