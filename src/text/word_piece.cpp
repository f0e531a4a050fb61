// WordPiece as BERT uses it: the longest piece first, from left to right.
#include "text/models.h"
#include "text/token_trie.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

class WordPiece : public TokenModel {
 public:
  explicit WordPiece(const TokenizerSpec& spec) : table_(spec), longest_(spec.max_word_characters) {
    std::vector<std::pair<std::string, TokenId>> first, further;
    for (size_t id = 0; id < spec.vocabulary.size(); ++id) {
      const std::string& piece = spec.vocabulary[id];
      first.emplace_back(piece, static_cast<TokenId>(id));
      if (piece.starts_with(spec.continuing_prefix))
        further.emplace_back(piece.substr(spec.continuing_prefix.size()), static_cast<TokenId>(id));
    }
    first_ = TokenTrie(std::move(first)), further_ = TokenTrie(std::move(further));
  }

  void encode(std::string_view word, std::vector<TokenId>& ids) const override {
    const size_t before = ids.size();
    bool known = count_characters(word) <= longest_;
    for (size_t at = 0; known && at < word.size();) {
      size_t length = 0;
      TokenId id = -1;
      (at == 0 ? first_ : further_).prefixes(word, at, [&](size_t size, TokenId found) {
        length = size, id = found;
      });
      known = id >= 0;
      if (known) ids.push_back(id);
      at += length;
    }
    if (known) return;
    ids.resize(before);
    ids.push_back(table_.unknown(word));
  }

 private:
  TokenTable table_;
  size_t longest_;
  TokenTrie first_, further_;
};

}  // namespace

std::unique_ptr<TokenModel> make_word_piece(const TokenizerSpec& spec) {
  return std::make_unique<WordPiece>(spec);
}

}  // namespace luminal::text
