#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "luminal/text/tokenizer.h"

/// From a word to tokens. Each model checks its part of the spec and refers to nothing of it afterwards.
namespace luminal::text {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  virtual void encode(std::string_view word, std::vector<TokenId>& ids) const = 0;
};

[[nodiscard]] std::unique_ptr<TokenModel> make_bpe(const TokenizerSpec& spec);
[[nodiscard]] std::unique_ptr<TokenModel> make_unigram(const TokenizerSpec& spec);
[[nodiscard]] std::unique_ptr<TokenModel> make_word_piece(const TokenizerSpec& spec);

/// Token texts and their ids.
class TokenTable {
 public:
  explicit TokenTable(const TokenizerSpec& spec);
  /// -1 if there is none.
  [[nodiscard]] TokenId find(std::string_view text) const;
  /// Appends the byte tokens of a character; false if one is missing or the spec wants none.
  [[nodiscard]] bool append_bytes(std::string_view character, std::vector<TokenId>& ids) const;
  /// The token for what is unknown. Errors: FormatError with the word if the spec has none.
  [[nodiscard]] TokenId unknown(std::string_view what) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::unordered_map<std::string, TokenId, Hash, std::equal_to<>> ids_;
  std::array<TokenId, 256> bytes_{};
  bool has_bytes_ = false;
  std::optional<TokenId> unknown_;
};

/// The byte of a token <0x41>, -1 of any other.
[[nodiscard]] int byte_of_token(std::string_view token);

}  // namespace luminal::text
