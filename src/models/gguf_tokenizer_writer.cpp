// Keys and kinds: GGUF's specification (ggml/docs/gguf.md); gguf_tokenizer.cpp reads them.
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "base/fail.h"
#include "luminal/models/gguf_tokenizer.h"
#include "models/gguf_source.h"

namespace luminal::models {
namespace {

using text::TokenId;
using text::Tokenizer;
using text::TokenizerSpec;

constexpr std::string_view kWordBegin = "\u2581";

template <class Step>
bool has_kind(const std::vector<Step>& steps, typename Step::Kind kind) {
  return std::ranges::find(steps, kind, &Step::kind) != steps.end();
}

bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

/// Writes the keys of one tokenizer, without "tokenizer.".
class TokenizerWriter {
 public:
  explicit TokenizerWriter(const TokenizerSpec& spec) : spec_(spec), tokens_(spec.vocabulary) {
    for (const text::AddedToken& token : spec.added) {
      const auto id = static_cast<size_t>(token.id);
      if (id >= tokens_.size()) tokens_.resize(id + 1);
      tokens_[id] = token.content;
    }
  }

  GgufMetadata metadata(std::span<const TokenId> ends) {
    const bool bytes = has_kind(spec_.pre_tokenizers, text::PreTokenizerStep::Kind::ByteLevel);
    switch (spec_.model) {
      case TokenizerSpec::Model::Bpe:
        bytes ? byte_level() : sentence_piece("llama");
        break;
      case TokenizerSpec::Model::Unigram:
        sentence_piece("t5");
        break;
      case TokenizerSpec::Model::WordPiece:
        word_piece();
        break;
    }
    vocabulary();
    special(ends);
    return std::move(metadata_);
  }

 private:
  void say(std::string_view key, GgufValue value) {
    set_metadata(metadata_, "tokenizer." + std::string(key), std::move(value));
  }
  void say_texts(std::string_view key, std::vector<std::string> texts) {
    GgufArray array{GgufKind::Text, {}};
    for (std::string& each : texts) array.values.emplace_back(std::move(each));
    say(key, GgufValue(std::move(array)));
  }
  void say_model(const char* model) { say("ggml.model", GgufValue(std::string(model))); }

  void byte_level() {
    const auto style = text::byte_level_style_name(spec_);
    if (!style)
      fail<FormatError>("[tokenizer] it cuts words as none of the styles of GGUF files does ({} steps)",
                        spec_.pre_tokenizers.size());
    say_model("gpt2");
    say("ggml.pre", GgufValue(*style));
    if (has_kind(spec_.pre_tokenizers, text::PreTokenizerStep::Kind::Prefix))
      say("ggml.add_space_prefix", GgufValue(true));
    std::vector<std::string> merges;
    for (const auto& [first, second] : spec_.merges) merges.push_back(first + " " + second);
    say_texts("ggml.merges", std::move(merges));
  }

  void sentence_piece(const char* model) {
    say_model(model);
    say("ggml.pre", GgufValue(std::string("default")));
    const bool prefixed = has_kind(spec_.normalizers, text::NormalizerStep::Kind::Prepend) ||
                          std::ranges::any_of(spec_.pre_tokenizers, [](const text::PreTokenizerStep& step) {
                            return step.prepend != text::PreTokenizerStep::Prepend::Never;
                          });
    say("ggml.add_space_prefix", GgufValue(prefixed));
    if (has_kind(spec_.normalizers, text::NormalizerStep::Kind::Strip))
      say("ggml.remove_extra_whitespaces", GgufValue(true));
    GgufArray scores{GgufKind::F32, {}};
    for (const double score : piece_scores()) scores.values.emplace_back(static_cast<float>(score));
    say("ggml.scores", GgufValue(std::move(scores)));
  }

  /// Those of the spec; of BPE by merges, the place of the first merge that makes a piece.
  [[nodiscard]] std::vector<double> piece_scores() const {
    std::vector<double> scores = spec_.scores;
    scores.resize(tokens_.size());
    if (spec_.merges.empty()) return scores;
    std::map<std::string, size_t> places;
    for (size_t i = 0; i < spec_.merges.size(); ++i)
      places.emplace(spec_.merges[i].first + spec_.merges[i].second, i);
    for (size_t id = 0; id < scores.size(); ++id)
      if (const auto found = places.find(tokens_[id]); found != places.end())
        scores[id] = -static_cast<double>(found->second) - 1;
    return scores;
  }

  void word_piece() {
    say_model("bert");
    const auto normalizer =
        std::ranges::find(spec_.normalizers, text::NormalizerStep::Kind::Bert, &text::NormalizerStep::kind);
    if (normalizer != spec_.normalizers.end()) {
      say("ggml.normalizer.lowercase", GgufValue(normalizer->lowercase));
      say("ggml.normalizer.strip_accents", GgufValue(normalizer->accents));
    }
    for (std::string& token : tokens_)
      if (!is_added(token)) {
        if (token.starts_with(spec_.continuing_prefix))
          token.erase(0, spec_.continuing_prefix.size());
        else if (!token.empty())
          token = std::string(kWordBegin) + token;
      }
  }

  [[nodiscard]] bool is_added(std::string_view token) const {
    return std::ranges::find(spec_.added, token, &text::AddedToken::content) != spec_.added.end();
  }

  /// What a vocabulary says of each token: the numbers of GGUF's token types.
  void vocabulary() {
    constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6;
    std::vector<int32_t> types(tokens_.size(), kNormal);
    for (size_t id = 0; id < tokens_.size(); ++id) {
      if (tokens_[id].empty()) {
        tokens_[id] = fmt::format("[PAD{}]", id);
        types[id] = kUnused;
      } else if (spec_.byte_fallback && is_byte_token(tokens_[id])) {
        types[id] = kByte;
      }
    }
    for (const text::AddedToken& token : spec_.added)
      types[static_cast<size_t>(token.id)] = token.special ? kControl : kUserDefined;
    if (spec_.unknown) types[static_cast<size_t>(*spec_.unknown)] = kUnknown;
    GgufArray array{GgufKind::I32, {}};
    for (const int32_t type : types) array.values.emplace_back(type);
    say_texts("ggml.tokens", tokens_);
    say("ggml.token_type", GgufValue(std::move(array)));
  }

  void special(std::span<const TokenId> ends) {
    const auto say_id = [&](std::string_view key, std::optional<TokenId> id) {
      if (id) say(key, GgufValue(static_cast<uint32_t>(*id)));
    };
    const auto id_of = [&](const std::string& token,
                           const std::vector<TokenId>& put) -> std::optional<TokenId> {
      if (!put.empty()) return put.front();
      const auto found = std::ranges::find(tokens_, token);
      if (token.empty() || found == tokens_.end()) return std::nullopt;
      return static_cast<TokenId>(found - tokens_.begin());
    };
    say_id("ggml.bos_token_id", id_of(spec_.begin_token, spec_.begin));
    std::vector<TokenId> all;
    const bool bert = spec_.model == TokenizerSpec::Model::WordPiece;
    if (bert && !spec_.end.empty()) say_id("ggml.seperator_token_id", spec_.end.front());  // files' spelling
    if (const auto id = id_of(spec_.end_token, bert ? std::vector<TokenId>() : spec_.end)) all.push_back(*id);
    for (const TokenId id : ends)
      if (std::ranges::find(all, id) == all.end()) all.push_back(id);
    constexpr std::array<std::string_view, 3> kEnds{"ggml.eos_token_id", "ggml.eot_token_id",
                                                    "ggml.eom_token_id"};
    for (size_t i = 0; i < std::min(all.size(), kEnds.size()); ++i) say_id(kEnds[i], all[i]);
    say_id("ggml.unknown_token_id", spec_.unknown);
    say("ggml.add_bos_token", GgufValue(!spec_.begin.empty()));
    say("ggml.add_eos_token", GgufValue(!spec_.end.empty()));
    if (!spec_.chat_template.empty()) say("chat_template", GgufValue(spec_.chat_template));
  }

  const TokenizerSpec& spec_;
  std::vector<std::string> tokens_;
  GgufMetadata metadata_;
};

constexpr std::array<std::string_view, 10> kSamples{
    "Hello, world! It's 1234567 o'clock, isn't it?",
    "  two  blanks,\ttabs\n\nand   lines \r\n at the end  ",
    "Grüße, ça va là-bas — “quotes” … ½ ² ﬁ é",
    "日本語のテキスト、中文文本。한국어 텍스트",
    "Привет, мир! Γειά σου Κόσμε. שלום עולם مرحبا",
    "\U0001F600 \U0001F469\u200D\U0001F469\u200D\U0001F467 \u2581 x",
    "if (x_1 == 0) { return y[2] + 3.14e-10; } // ok",
    "THE QUICK brown fOx, 10,000.50 % of a2b3c4",
    "a",
    ""};

/// Ids of a text; nothing where the tokenizer has none for it.
std::optional<std::vector<TokenId>> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  try {
    return tokenizer.encode(text);
  } catch (const FormatError&) {
    return std::nullopt;
  }
}

void check_same(const TokenizerSpec& spec, GgufMetadata metadata, std::string_view architecture) {
  constexpr size_t kMostAdded = 64;
  set_metadata(metadata, "general.architecture", GgufValue(std::string(architecture)));
  const Tokenizer given(spec), written(gguf_tokenizer(metadata));
  std::vector<std::string> samples(kSamples.begin(), kSamples.end());
  for (const text::AddedToken& token : std::span(spec.added).first(std::min(spec.added.size(), kMostAdded))) {
    samples.push_back("a" + token.content + "b");
    samples.push_back("one " + token.content + " two");
  }
  for (const std::string& sample : samples) {
    const auto wanted = ids_of(given, sample), got = ids_of(written, sample);
    if (wanted != got || (wanted && given.decode(*wanted) != written.decode(*wanted)))
      fail<FormatError>(
          "[tokenizer] the keys of GGUF files cannot say what it does: '{}' becomes other tokens", sample);
  }
}

}  // namespace

GgufMetadata gguf_tokenizer_metadata(const TokenizerSpec& spec, std::span<const TokenId> ends,
                                     std::string_view architecture) {
  GgufMetadata metadata = TokenizerWriter(spec).metadata(ends);
  check_same(spec, metadata, architecture);
  return metadata;
}

}  // namespace luminal::models
