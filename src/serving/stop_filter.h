#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace luminal::serving {

/// Hands a text on until a stop string begins, in pieces of any size: what may be the beginning of one waits.
class StopFilter {
 public:
  /// `stops` are not empty strings.
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// What is certain not to belong to a stop string.
  [[nodiscard]] std::string push(std::string_view text);
  /// What waits, at the end of the text.
  [[nodiscard]] std::string finish();
  /// Whether a stop string was found: nothing follows then.
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Bytes handed on so far.
  [[nodiscard]] size_t passed() const { return passed_; }

 private:
  [[nodiscard]] size_t undecided() const;
  [[nodiscard]] std::string hand_on(size_t bytes);
  std::vector<std::string> stops_;
  std::string held_;
  size_t passed_ = 0;
  bool stopped_ = false;
};

}  // namespace luminal::serving
