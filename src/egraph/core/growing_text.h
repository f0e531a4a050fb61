#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "egraph/core/state.h"

namespace luminal::egraph {

/// A text that is being written. Its memory counts against the budget in force, and every piece looks at the
/// limits: the text of a term that shares its parts may be longer than any memory.
class GrowingText {
 public:
  explicit GrowingText(const EngineState& state) : state_(state) {}
  GrowingText(const GrowingText&) = delete;
  GrowingText& operator=(const GrowingText&) = delete;
  ~GrowingText() { state_.text_bytes -= counted_; }

  /// All three may throw Stopped.
  void add(std::string_view piece);
  void add(char c) { add(std::string_view(&c, 1)); }
  /// Writes again what stands at [begin, begin + size).
  void repeat(size_t begin, size_t size);

  [[nodiscard]] size_t size() const { return text_.size(); }
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  void make_room(size_t bytes);

  const EngineState& state_;
  std::string text_;
  size_t counted_ = 0;
};

}  // namespace luminal::egraph
