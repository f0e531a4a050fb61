#include "runtime/dependencies.h"

#include <algorithm>

namespace luminal::runtime {

/// The first range that begins at or after `at`, once any range across `at` is cut in two.
Dependencies::Ranges::iterator Dependencies::split(int64_t at) {
  auto next = ranges_.lower_bound(at);
  if (next == ranges_.begin()) return next;
  const auto previous = std::prev(next);
  if (previous->second.end <= at) return next;
  Range tail = previous->second;
  previous->second.end = at;
  return ranges_.emplace_hint(next, at, std::move(tail));
}

void Dependencies::add(int before, int after) {
  if (before < 0 || before == after) return;
  if (before_.size() <= static_cast<size_t>(after)) before_.resize(static_cast<size_t>(after) + 1);
  before_[static_cast<size_t>(after)].push_back(before);
}

void Dependencies::read(int launch, int64_t begin, int64_t end) {
  if (begin >= end) return;
  (void)split(begin);
  (void)split(end);
  int64_t covered = begin;
  for (auto at = ranges_.lower_bound(begin); covered < end;) {
    if (at == ranges_.end() || at->first > covered) {  // nobody has touched this part yet
      const int64_t until = at == ranges_.end() ? end : std::min(end, at->first);
      at = ranges_.emplace_hint(at, covered, Range{.end = until, .writer = -1, .readers = {}});
    }
    add(at->second.writer, launch);
    if (at->second.readers.empty() || at->second.readers.back() != launch)
      at->second.readers.push_back(launch);
    covered = at->second.end;
    ++at;
  }
}

void Dependencies::write(int launch, int64_t begin, int64_t end) {
  if (begin >= end) return;
  (void)split(begin);
  (void)split(end);
  const auto first = ranges_.lower_bound(begin), last = ranges_.lower_bound(end);
  for (auto at = first; at != last; ++at) {
    add(at->second.writer, launch);
    for (const int reader : at->second.readers) add(reader, launch);
  }
  ranges_.erase(first, last);
  ranges_[begin] = {.end = end, .writer = launch, .readers = {}};
}

std::vector<std::vector<int>> Dependencies::reduced(int launches) const {
  std::vector<std::vector<int>> result(before_);
  result.resize(static_cast<size_t>(launches));
  // ancestors[i] holds a bit for every launch that i follows; a dependency on one that a later one of the
  // list follows anyway is left out.
  const size_t words = (static_cast<size_t>(launches) + 63) / 64;
  constexpr size_t kMostWords = size_t{1} << 24;  // beyond 128 MB of bits, superfluous ones stay
  const bool reduce = words * result.size() <= kMostWords;
  std::vector<uint64_t> ancestors(reduce ? words * result.size() : 0);
  for (size_t i = 0; i < result.size(); ++i) {
    std::vector<int>& list = result[i];
    std::ranges::sort(list, std::greater<>());
    list.erase(std::ranges::unique(list).begin(), list.end());
    if (!reduce) continue;
    uint64_t* own = ancestors.data() + i * words;
    std::erase_if(list, [&](int before) {
      const auto bit = static_cast<size_t>(before);
      if ((own[bit / 64] >> (bit % 64) & 1) != 0) return true;
      own[bit / 64] |= uint64_t{1} << (bit % 64);
      for (size_t word = 0; word < words; ++word) own[word] |= ancestors[bit * words + word];
      return false;
    });
    std::ranges::reverse(list);
  }
  return result;
}

}  // namespace luminal::runtime
