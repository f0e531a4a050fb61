#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "text/matcher.h"

namespace luminal::text {

class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);
  [[nodiscard]] std::string operator()(std::string_view text) const;

 private:
  std::vector<NormalizerStep> steps_;
  std::vector<std::optional<Matcher>> matchers_;  ///< by step
};

class PreTokenizer {
 public:
  explicit PreTokenizer(const std::vector<PreTokenizerStep>& steps);
  /// The words of a piece of text; `first` if the text begins with it.
  [[nodiscard]] std::vector<std::string> operator()(std::string text, bool first) const;

 private:
  struct Word {
    std::string text;
    bool first = false;  ///< the whole text begins here
  };
  void apply(const PreTokenizerStep& step, const std::optional<Matcher>& matcher, Word word,
             std::vector<Word>& out) const;
  std::vector<PreTokenizerStep> steps_;
  std::vector<std::optional<Matcher>> matchers_;  ///< by step
};

}  // namespace luminal::text
