#include "luminal/text/tokenizer.h"

#include <algorithm>

#include "base/fail.h"
#include "text/decoder.h"
#include "text/models.h"
#include "text/steps.h"
#include "text/token_trie.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

std::unique_ptr<TokenModel> make_model(const TokenizerSpec& spec) {
  switch (spec.model) {
    case TokenizerSpec::Model::Bpe:
      return make_bpe(spec);
    case TokenizerSpec::Model::Unigram:
      return make_unigram(spec);
    case TokenizerSpec::Model::WordPiece:
      return make_word_piece(spec);
  }
  fail<FormatError>("[tokenizer] the spec names no model");
}

/// A piece of a text: a token that was found in it, or (id -1) what is between two of them.
struct Piece {
  size_t begin = 0, end = 0;
  TokenId id = -1;
};

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(TokenizerSpec given)
      : spec(std::move(given)),
        normalizer(spec.normalizers),
        pre_tokenizer(spec.pre_tokenizers),
        decoder(spec.decoders),
        model(make_model(checked(spec))) {
    tokens = spec.vocabulary;
    for (const AddedToken& token : spec.added) add(token);
    decoded = tokens;
    special.resize(tokens.size());
    std::vector<std::pair<std::string, TokenId>> raw, normal;
    for (size_t i = 0; i < spec.added.size(); ++i) {
      const AddedToken& token = spec.added[i];
      special[static_cast<size_t>(token.id)] = token.special;
      if (token.normalized) decoded[static_cast<size_t>(token.id)] = normalizer(token.content);
      (token.normalized ? normal : raw)
          .emplace_back(decoded[static_cast<size_t>(token.id)], static_cast<TokenId>(i));
    }
    raw_added = TokenTrie(std::move(raw)), normal_added = TokenTrie(std::move(normal));
    for (size_t id = 0; id < tokens.size(); ++id)
      if (!tokens[id].empty()) ids.emplace(tokens[id], static_cast<TokenId>(id));
    for (const auto* list : {&spec.begin, &spec.end})
      for (const TokenId id : *list) (void)at(id);
  }

  static const TokenizerSpec& checked(const TokenizerSpec& spec) {
    if (spec.vocabulary.empty()) fail<FormatError>("[tokenizer] the vocabulary is empty");
    for (const std::string& token : spec.vocabulary) check_utf8(token, "tokenizer");
    const auto size = static_cast<TokenId>(spec.vocabulary.size());
    if (spec.unknown && (*spec.unknown < 0 || *spec.unknown >= size))
      fail<FormatError>("[tokenizer] the unknown token is {}, the vocabulary ends at {}", *spec.unknown,
                        size - 1);
    return spec;
  }

  void add(const AddedToken& token) {
    constexpr TokenId kMostTokens = 1 << 22;
    check_utf8(token.content, "tokenizer");
    if (token.id < 0 || token.id >= kMostTokens)
      fail<FormatError>("[tokenizer] added token '{}' has the id {}; ids go from 0 to {}", token.content,
                        token.id, kMostTokens - 1);
    const auto index = static_cast<size_t>(token.id);
    if (index >= tokens.size()) tokens.resize(index + 1);
    tokens[index] = token.content;
  }

  [[nodiscard]] const std::string& at(TokenId id) const {
    if (id < 0 || static_cast<size_t>(id) >= tokens.size())
      fail<Error>("[tokenizer] there is no token {}; ids go from 0 to {}", id, tokens.size() - 1);
    return tokens[static_cast<size_t>(id)];
  }

  /// Cuts added tokens out: leftmost first, of those that begin at one place the longest.
  [[nodiscard]] std::vector<Piece> cut(std::string_view text, const TokenTrie& trie,
                                       bool with_special) const {
    std::vector<Piece> pieces;
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      size_t length = 0;
      TokenId index = -1;
      trie.prefixes(text, at, [&](size_t size, TokenId found) { length = size, index = found; });
      if (index < 0) {
        ++at;
        continue;
      }
      const AddedToken& token = spec.added[static_cast<size_t>(index)];
      size_t begin = at, end = at + length;
      at = end;
      if (begin < done || (token.special && !with_special)) continue;
      if (token.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
        continue;
      if (token.left_strip) begin = std::max(done, begin_of_blanks(text.substr(0, begin)));
      if (token.right_strip)
        while (end < text.size() && is_space(character_at(text, end).code))
          end += character_at(text, end).length;
      if (begin > done) pieces.push_back({done, begin, -1});
      pieces.push_back({begin, end, token.id});
      done = end;
    }
    if (done < text.size()) pieces.push_back({done, text.size(), -1});
    return pieces;
  }

  static size_t last_character(std::string_view text) {
    size_t at = text.size() - 1;
    while ((static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    return at;
  }
  static bool ends_with_word(std::string_view text) {
    return !text.empty() && is_word_character(character_at(text, last_character(text)).code);
  }
  static bool begins_with_word(std::string_view text) {
    return !text.empty() && is_word_character(character_at(text, 0).code);
  }
  static size_t begin_of_blanks(std::string_view text) {
    while (!text.empty() && is_space(character_at(text, last_character(text)).code))
      text = text.substr(0, last_character(text));
    return text.size();
  }

  void encode_plain(std::string_view text, bool first, std::vector<TokenId>& result) const {
    for (const std::string& word : pre_tokenizer(std::string(text), first)) model->encode(word, result);
  }

  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  TokenizerSpec spec;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  DecoderProgram decoder;
  std::unique_ptr<TokenModel> model;
  std::vector<std::string> tokens;   ///< the vocabulary and what was added, by id
  std::vector<std::string> decoded;  ///< what the decoder gets: of tokens found in normalised text, that text
  std::vector<bool> special;         ///< by id
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids;
  TokenTrie raw_added, normal_added;  ///< indices of `spec.added`
};

Tokenizer::Tokenizer(TokenizerSpec spec) : parts_(std::make_unique<Parts>(std::move(spec))) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  check_utf8(text, "tokenizer");
  std::vector<TokenId> ids;
  if (options.add_special) ids = parts_->spec.begin;
  for (const Piece& piece : parts_->cut(text, parts_->raw_added, options.parse_special)) {
    if (piece.id >= 0) {
      ids.push_back(piece.id);
      continue;
    }
    const std::string normal = parts_->normalizer(text.substr(piece.begin, piece.end - piece.begin));
    for (const Piece& inner : parts_->cut(normal, parts_->normal_added, options.parse_special)) {
      if (inner.id >= 0)
        ids.push_back(inner.id);
      else
        parts_->encode_plain(std::string_view(normal).substr(inner.begin, inner.end - inner.begin),
                             piece.begin == 0 && inner.begin == 0, ids);
    }
  }
  if (options.add_special) ids.insert(ids.end(), parts_->spec.end.begin(), parts_->spec.end.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  Decoding decoding(parts_->decoder, true);
  for (const TokenId id : ids) {
    const std::string& token = parts_->at(id);
    if (!token.empty() && !(skip_special && is_special(id)))
      decoding.push(parts_->decoded[static_cast<size_t>(id)], text);
  }
  decoding.finish(text);
  return text;
}

const TokenizerSpec& Tokenizer::spec() const { return parts_->spec; }
size_t Tokenizer::size() const { return parts_->tokens.size(); }
const std::string& Tokenizer::token(TokenId id) const { return parts_->at(id); }
bool Tokenizer::is_special(TokenId id) const {
  (void)parts_->at(id);
  return parts_->special[static_cast<size_t>(id)];
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  const auto found = parts_->ids.find(token);
  return found == parts_->ids.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Tokenizer::token_bytes() const {
  std::vector<std::string> result(size());
  bool byte_level = false, byte_tokens = false;
  for (const DecoderStep& step : parts_->spec.decoders.value_or(std::vector<DecoderStep>{})) {
    byte_level |= step.kind == DecoderStep::Kind::ByteLevel;
    byte_tokens |= step.kind == DecoderStep::Kind::ByteFallback;
  }
  std::vector<bool> is_added(size());
  for (const AddedToken& added : parts_->spec.added) is_added[static_cast<size_t>(added.id)] = true;
  for (size_t id = 0; id < result.size(); ++id) {
    const std::string& token = parts_->tokens[id];
    if (token.empty() || parts_->special[id]) continue;
    if (byte_tokens && byte_of_token(token) >= 0) {
      result[id] = static_cast<char>(byte_of_token(token));
    } else if (byte_level && !is_added[id]) {
      for (size_t at = 0; at < token.size();) {
        const auto [code, length] = character_at(token, at);
        const int byte = byte_of_character(code);
        byte >= 0 ? result[id] += static_cast<char>(byte) : result[id] += token.substr(at, length);
        at += length;
      }
    } else {
      // Behind another token, so that what is done at the start of a text is not done here.
      Decoding decoding(parts_->decoder, true);
      std::string text;
      decoding.push("x", text);
      const size_t prefix = text.size();
      decoding.push(parts_->decoded[id], text);
      result[id] = text.substr(prefix);
    }
  }
  return result;
}

struct StreamDecoder::State {
  const Tokenizer& tokenizer;
  bool skip_special;
  Decoding decoding;
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : state_(new State{tokenizer, skip_special, Decoding(tokenizer.parts_->decoder, false)}) {}
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder::~StreamDecoder() = default;

std::string StreamDecoder::push(TokenId id) {
  std::string text;
  const std::string& token = state_->tokenizer.token(id);
  if (!token.empty() && !(state_->skip_special && state_->tokenizer.is_special(id)))
    state_->decoding.push(state_->tokenizer.parts_->decoded[static_cast<size_t>(id)], text);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  state_->decoding.finish(text);
  return text;
}

}  // namespace luminal::text
