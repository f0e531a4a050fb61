#include "runtime/memory.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <tuple>

#include "backends/device.h"

namespace luminal::runtime {
namespace {

/// Most bytes alive at one step, and for each buffer the bytes alive at its fullest step.
struct Breadth {
  int64_t peak = 0;
  std::vector<int64_t> of_buffer;
};

Breadth breadth_of(std::span<const Lifetime> buffers) {
  int steps = 0;
  for (const Lifetime& b : buffers) steps = std::max(steps, b.last + 1);
  std::vector<int64_t> alive(static_cast<size_t>(steps) + 1, 0);
  for (const Lifetime& b : buffers) {
    alive[static_cast<size_t>(b.first)] += backends::aligned(b.bytes);
    alive[static_cast<size_t>(b.last) + 1] -= backends::aligned(b.bytes);
  }
  std::partial_sum(alive.begin(), alive.end(), alive.begin());
  Breadth breadth{.peak = *std::ranges::max_element(alive), .of_buffer = {}};
  for (const Lifetime& b : buffers)
    breadth.of_buffer.push_back(*std::max_element(alive.begin() + b.first, alive.begin() + b.last + 1));
  return breadth;
}

/// Each buffer in turn goes into the smallest gap between those placed already that are alive with it.
class Packing {
 public:
  explicit Packing(std::span<const Lifetime> buffers) : buffers_(buffers), offsets_(buffers.size(), 0) {
    placed_.reserve(buffers.size());
  }

  void add(size_t index) {
    const Lifetime& own = buffers_[index];
    const int64_t size = backends::aligned(own.bytes);
    int64_t gap_begin = 0, best = -1, best_gap = INT64_MAX;
    for (const Placed& other : placed_) {
      if (own.first > other.last || other.first > own.last) continue;
      const int64_t gap = other.begin - gap_begin;
      if (gap >= size && gap < best_gap) std::tie(best, best_gap) = std::pair(gap_begin, gap);
      gap_begin = std::max(gap_begin, other.end);
    }
    const int64_t begin = best >= 0 ? best : gap_begin;
    offsets_[index] = begin;
    peak_ = std::max(peak_, begin + size);
    placed_.insert(std::ranges::upper_bound(placed_, begin, {}, &Placed::begin),
                   {begin, begin + size, own.first, own.last});
  }

  [[nodiscard]] int64_t peak() const { return peak_; }
  [[nodiscard]] std::vector<int64_t> take_offsets() { return std::move(offsets_); }

 private:
  /// What a look at a placed buffer needs: plans of many layers look at each some thousand times.
  struct Placed {
    int64_t begin, end;
    int first, last;
  };
  std::span<const Lifetime> buffers_;
  std::vector<int64_t> offsets_;
  std::vector<Placed> placed_;  ///< ascending
  int64_t peak_ = 0;
};

}  // namespace

Placement place(std::span<const Lifetime> buffers) {
  Placement result{.offsets = std::vector<int64_t>(buffers.size(), 0)};
  if (buffers.empty()) return result;
  const Breadth breadth = breadth_of(buffers);
  result.lower_bound = breadth.peak;
  result.bytes = INT64_MAX;

  using Rank = std::function<std::tuple<double, double>(size_t)>;  // greatest first
  const auto size = [&](size_t i) { return static_cast<double>(buffers[i].bytes); };
  const auto length = [&](size_t i) { return static_cast<double>(buffers[i].last - buffers[i].first + 1); };
  const Rank orders[] = {
      [&](size_t i) { return std::tuple(size(i), length(i)); },
      [&](size_t i) { return std::tuple(static_cast<double>(breadth.of_buffer[i]), size(i)); },
      [&](size_t i) { return std::tuple(size(i) * length(i), size(i)); },
      [&](size_t i) { return std::tuple(length(i), size(i)); },
      [&](size_t i) { return std::tuple(-static_cast<double>(buffers[i].first), size(i)); },
      [&](size_t i) { return std::tuple(static_cast<double>(buffers[i].last), size(i)); },
  };
  std::vector<size_t> order(buffers.size());
  for (const Rank& rank : orders) {
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), rank);
    Packing packing(buffers);
    for (const size_t index : order) packing.add(index);
    if (packing.peak() >= result.bytes) continue;
    result.bytes = packing.peak();
    result.offsets = packing.take_offsets();
    if (result.bytes == result.lower_bound) break;
  }
  return result;
}

}  // namespace luminal::runtime
