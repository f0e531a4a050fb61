#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/text/tokenizer.h"

namespace luminal::text {

struct Span {
  size_t begin = 0, end = 0;  ///< bytes
};

/// Finds a pattern in text. Classes mean what they mean in `tokenizers`: \s is White_Space, \w letters, marks,
/// digits and connectors.
class Matcher {
 public:
  /// Errors: FormatError if the expression does not compile.
  explicit Matcher(const Pattern& pattern);
  /// All matches in order that are not empty. Errors: FormatError where one takes too many steps.
  [[nodiscard]] std::vector<Span> matches(std::string_view text) const;
  [[nodiscard]] std::string replace(std::string_view text, std::string_view content) const;

 private:
  [[nodiscard]] std::vector<Span> regex_matches(std::string_view text) const;
  Pattern pattern_;
  std::shared_ptr<void> code_;  ///< pcre2_code of a regex
};

}  // namespace luminal::text
