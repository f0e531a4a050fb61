#include "serving/stop_filter.h"

#include <algorithm>

namespace luminal::serving {

std::string StopFilter::hand_on(size_t bytes) {
  std::string result = held_.substr(0, bytes);
  held_.erase(0, bytes);
  passed_ += bytes;
  return result;
}

/// Bytes at the end that a stop string may begin with.
size_t StopFilter::undecided() const {
  size_t most = 0;
  for (const std::string& stop : stops_)
    for (size_t bytes = std::min(stop.size() - 1, held_.size()); bytes > most; --bytes)
      if (held_.ends_with(std::string_view(stop).substr(0, bytes))) most = bytes;
  return most;
}

std::string StopFilter::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    std::string before = hand_on(first);
    held_.clear();
    stopped_ = true;
    return before;
  }
  return hand_on(held_.size() - undecided());
}

std::string StopFilter::finish() { return hand_on(held_.size()); }

}  // namespace luminal::serving
