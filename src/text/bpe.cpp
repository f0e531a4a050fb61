// Byte-pair encoding (Sennrich et al. 2016): pairs of neighbours join in the order of the merges, found by a heap.
#include <algorithm>
#include <queue>

#include "base/fail.h"
#include "text/models.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

struct Merge {
  uint32_t rank = 0;
  TokenId result = 0;
};

uint64_t pair_key(TokenId left, TokenId right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

class Bpe : public TokenModel {
 public:
  explicit Bpe(const TokenizerSpec& spec)
      : table_(spec),
        has_unknown_(spec.unknown.has_value()),
        fuse_unknown_(spec.fuse_unknown),
        ignore_merges_(spec.ignore_merges),
        prefix_(spec.continuing_prefix),
        suffix_(spec.end_suffix) {
    if (spec.merges.empty() && !spec.scores.empty())
      take_scores(spec);
    else
      take_merges(spec);
  }

  void encode(std::string_view word, std::vector<TokenId>& ids) const override {
    if (ignore_merges_)
      if (const TokenId id = table_.find(word); id >= 0) return ids.push_back(id);
    std::vector<TokenId> tokens;
    characters(word, tokens);
    join(tokens, ids);
  }

 private:
  /// A token in the chain of what is left of a word; `id` is -1 where it went into its left neighbour.
  struct Symbol {
    TokenId id = -1;
    int64_t previous = -1, next = -1;
  };
  struct Candidate {
    uint32_t rank = 0;
    int64_t at = 0;
    TokenId result = 0;
    bool operator<(const Candidate& other) const {  // the greatest is the first to join
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };

  void take_merges(const TokenizerSpec& spec) {
    merges_.reserve(spec.merges.size());
    for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
      const auto& [left, right] = spec.merges[rank];
      const TokenId left_id = table_.find(left), right_id = table_.find(right);
      const std::string_view tail = std::string_view(right).starts_with(prefix_)
                                        ? std::string_view(right).substr(prefix_.size())
                                        : std::string_view(right);
      const std::string joined = left + std::string(tail);
      const TokenId result = table_.find(joined);
      if (left_id < 0 || right_id < 0 || result < 0)
        fail<FormatError>(
            "[tokenizer] merge {} joins '{}' and '{}' to '{}', and '{}' is not in the vocabulary", rank, left,
            right, joined,
            left_id < 0    ? left
            : right_id < 0 ? right
                           : joined);
      merges_[pair_key(left_id, right_id)] = {static_cast<uint32_t>(rank), result};
    }
  }

  /// As SentencePiece: every way to cut a piece in two that are pieces themselves is a merge.
  void take_scores(const TokenizerSpec& spec) {
    if (spec.scores.size() != spec.vocabulary.size())
      fail<FormatError>("[tokenizer] {} scores for a vocabulary of {}", spec.scores.size(),
                        spec.vocabulary.size());
    std::vector<double> distinct = spec.scores;
    std::ranges::sort(distinct, std::greater());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (size_t id = 0; id < spec.vocabulary.size(); ++id) {
      const std::string_view piece = spec.vocabulary[id];
      if (piece.empty() || byte_of_token(piece) >= 0) continue;
      const auto rank =
          std::ranges::lower_bound(distinct, spec.scores[id], std::greater()) - distinct.begin();
      for (size_t cut = character_at(piece, 0).length; cut < piece.size();
           cut += character_at(piece, cut).length) {
        const TokenId left = table_.find(piece.substr(0, cut)), right = table_.find(piece.substr(cut));
        if (left >= 0 && right >= 0)
          merges_[pair_key(left, right)] = {static_cast<uint32_t>(rank), static_cast<TokenId>(id)};
      }
    }
  }

  void characters(std::string_view word, std::vector<TokenId>& tokens) const {
    bool after_unknown = false;
    std::string text;
    for (size_t at = 0; at < word.size();) {
      const size_t length = character_at(word, at).length;
      text = word.substr(at, length);
      if (at > 0) text = prefix_ + text;
      if (at + length == word.size()) text += suffix_;
      at += length;
      if (const TokenId id = table_.find(text); id >= 0) {
        tokens.push_back(id);
        after_unknown = false;
      } else if (table_.append_bytes(text, tokens)) {
        after_unknown = false;
      } else if (has_unknown_) {
        if (!after_unknown || !fuse_unknown_) tokens.push_back(table_.unknown(text));
        after_unknown = true;
      }  // as `tokenizers` does: without a token for what is unknown it is dropped
    }
  }

  void join(const std::vector<TokenId>& tokens, std::vector<TokenId>& ids) const {
    std::vector<Symbol> symbols(tokens.size());
    std::priority_queue<Candidate> queue;
    const auto consider = [&](int64_t left) {
      if (left < 0 || symbols[static_cast<size_t>(left)].next < 0) return;
      const Symbol& symbol = symbols[static_cast<size_t>(left)];
      const auto found = merges_.find(pair_key(symbol.id, symbols[static_cast<size_t>(symbol.next)].id));
      if (found != merges_.end()) queue.push({found->second.rank, left, found->second.result});
    };
    const auto count = static_cast<int64_t>(tokens.size());
    for (int64_t i = 0; i < count; ++i)
      symbols[static_cast<size_t>(i)] = {tokens[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
    for (int64_t i = 0; i < count; ++i) consider(i);
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      Symbol& left = symbols[static_cast<size_t>(top.at)];
      if (left.id < 0 || left.next < 0) continue;
      Symbol& right = symbols[static_cast<size_t>(left.next)];
      const auto found = merges_.find(pair_key(left.id, right.id));
      if (found == merges_.end() || found->second.result != top.result)
        continue;  // one of the two has changed
      left.id = top.result;
      left.next = right.next;
      right.id = -1;
      if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = top.at;
      consider(left.previous);
      consider(top.at);
    }
    for (const Symbol& symbol : symbols)
      if (symbol.id >= 0) ids.push_back(symbol.id);
  }

  TokenTable table_;
  bool has_unknown_, fuse_unknown_, ignore_merges_;
  std::string prefix_, suffix_;
  std::unordered_map<uint64_t, Merge> merges_;
};

}  // namespace

std::unique_ptr<TokenModel> make_bpe(const TokenizerSpec& spec) { return std::make_unique<Bpe>(spec); }

}  // namespace luminal::text
