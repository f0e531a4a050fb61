#include "egraph/core/growing_text.h"

#include <algorithm>

#include "egraph/core/limits.h"

namespace luminal::egraph {

// The old memory and the new one are both there while one is copied to the other.
void GrowingText::make_room(size_t bytes) {
  state_.poll();
  const size_t wanted = text_.size() + bytes;
  if (wanted <= counted_) return;
  const size_t capacity = std::max<size_t>({wanted, 2 * counted_, 256});
  state_.require_memory(capacity);
  text_.reserve(capacity);
  state_.text_bytes += capacity - counted_;
  counted_ = capacity;
}

void GrowingText::add(std::string_view piece) {
  make_room(piece.size());
  text_ += piece;
}

void GrowingText::repeat(size_t begin, size_t size) {
  constexpr size_t kTogether = size_t{1}
                               << 20;  // copied between two looks at the limits: below a millisecond
  if (size > kTogether) state_.require_memory(size);
  for (size_t done = 0; done < size; done += kTogether) {
    const size_t part = std::min(kTogether, size - done);
    make_room(part);
    if (part == kTogether) state_.check_limits();
    text_.append(text_, begin + done, part);
  }
}

}  // namespace luminal::egraph
