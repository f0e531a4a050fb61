#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/text/tokenizer.h"

/// Grammars that constrain what is generated: a mask of the tokens that may come next.
///
///   text::Grammar grammar("root ::= \"yes\" | \"no\"");
///   text::GrammarTokens tokens(tokenizer.token_bytes(), {end_of_text});
///   text::GrammarMatcher matcher(grammar, tokens);
///   text::TokenId next = sampler.sample(logits, matcher.allowed());
///   matcher.accept(next);
///
/// The language is GBNF, as llama.cpp reads it: rules `name ::= ...` of "literals", [classes] of characters, `.` for
/// any, names of rules, ( ), |, and the repetitions * + ? {m} {m,} {m,n}; the text begins with the rule `root`.
/// A rule ends with its line, unless inside ( ) or behind ::= or |. Comments go from # to the end of a line.
namespace luminal::text {

/// Thread safety: any number of threads may use one. Copies share their content.
class Grammar {
 public:
  /// Errors: FormatError with line and column for what is not GBNF, for a rule that is missing or given twice, for one
  /// that calls itself before it reads anything (left recursion), and for a grammar that is too large.
  explicit Grammar(std::string_view gbnf);
  /// Whether the grammar derives all of a text. Errors: Error if it is too ambiguous or nested too deeply.
  [[nodiscard]] bool matches(std::string_view text) const;

 private:
  friend class GrammarMatcher;
  std::shared_ptr<const struct GrammarProgram> program_;
};

/// The tokens that grammars choose from, made once for a tokenizer. Thread safety: any number of threads may use
/// one. Copies share their content.
class GrammarTokens {
 public:
  /// The bytes of each token (`Tokenizer::token_bytes`): one without any is never allowed, but for those of `end`,
  /// which are where the text may end. Errors: Error for an end token that is out of range.
  GrammarTokens(std::span<const std::string> bytes, std::vector<TokenId> end);

 private:
  friend class GrammarMatcher;
  std::shared_ptr<const struct GrammarTokenTree> tree_;
};

/// Follows one text. Thread safety: one thread at a time.
class GrammarMatcher {
 public:
  GrammarMatcher(Grammar grammar, GrammarTokens tokens);
  GrammarMatcher(GrammarMatcher&&) noexcept;
  GrammarMatcher& operator=(GrammarMatcher&&) noexcept;
  ~GrammarMatcher();

  /// A bit for each token that may come next, 64 to a word, lowest first; good until the next call. None is set where
  /// no token fits, as behind an end token. Errors: Error if the grammar is too ambiguous or nested too deeply.
  [[nodiscard]] std::span<const uint64_t> allowed();
  /// Errors: Error for a token that is not allowed; nothing has changed then.
  void accept(TokenId id);
  /// Whether the text may end here.
  [[nodiscard]] bool complete() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal::text
