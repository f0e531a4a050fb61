// Unigram language model (Kudo 2018): the cut of a text with the greatest sum of scores, by Viterbi.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "text/models.h"
#include "text/token_trie.h"
#include "text/unicode.h"

namespace luminal::text {
namespace {

class Unigram : public TokenModel {
 public:
  explicit Unigram(const TokenizerSpec& spec) : table_(spec), scores_(spec.scores) {
    if (scores_.size() != spec.vocabulary.size())
      fail<FormatError>("[tokenizer] {} scores for a vocabulary of {}", scores_.size(),
                        spec.vocabulary.size());
    std::vector<std::pair<std::string, TokenId>> pieces;
    double least = std::numeric_limits<double>::infinity();
    for (size_t id = 0; id < scores_.size(); ++id) {
      if (spec.vocabulary[id].empty()) continue;
      if (!std::isfinite(scores_[id]))
        fail<FormatError>("[tokenizer] the score of token {} is {}", id, scores_[id]);
      least = std::min(least, scores_[id]);
      pieces.emplace_back(spec.vocabulary[id], static_cast<TokenId>(id));
    }
    constexpr double kUnknownPenalty = 10;  // as SentencePiece
    unknown_score_ = least - kUnknownPenalty;
    trie_ = TokenTrie(std::move(pieces));
  }

  void encode(std::string_view word, std::vector<TokenId>& ids) const override {
    struct Best {
      double score = 0;
      size_t begin = std::string_view::npos;
      TokenId id = -1;
    };
    std::vector<Best> best(word.size() + 1);  // of the cuts that end there
    best[0].begin = 0;
    for (size_t at = 0; at < word.size();) {
      const double until = best[at].score;
      const size_t length = character_at(word, at).length;
      bool has_character = false;
      const auto offer = [&](size_t size, double score, TokenId id) {
        Best& end = best[at + size];
        if (end.begin == std::string_view::npos || score > end.score) end = {score, at, id};
      };
      trie_.prefixes(word, at, [&](size_t size, TokenId id) {
        offer(size, scores_[static_cast<size_t>(id)] + until, id);
        has_character |= size == length;
      });
      if (!has_character) offer(length, unknown_score_ + until, -1);
      at += length;
    }
    std::vector<Span> pieces;
    for (size_t end = word.size(); end > 0; end = best[end].begin) {
      const size_t begin = best[end].begin;
      const TokenId id = best[end].id;
      if (id < 0 && !pieces.empty() && pieces.back().id < 0)
        pieces.back().begin = begin;  // neighbours that are unknown are one
      else
        pieces.push_back({begin, end, id});
    }
    for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
      const std::string_view text = word.substr(piece->begin, piece->end - piece->begin);
      if (piece->id >= 0)
        ids.push_back(piece->id);
      else if (const TokenId whole = table_.find(text); whole >= 0)
        ids.push_back(whole);
      else if (!table_.append_bytes(text, ids))
        ids.push_back(table_.unknown(text));
    }
  }

 private:
  struct Span {
    size_t begin = 0, end = 0;
    TokenId id = -1;
  };
  TokenTable table_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  TokenTrie trie_;
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(const TokenizerSpec& spec) {
  return std::make_unique<Unigram>(spec);
}

}  // namespace luminal::text
