#include "ops/scatter_updates.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "base/copy_past_caches.h"
#include "base/threads.h"
#include "ops/elementwise.h"
#include "ops/float_sums.h"

// Three ways to the same result. Wide slices are listed by the row that takes them, and each row adds its own up. Where
// a column of the data, or some side by side, has room in a cache for its sums, tasks own columns and walk their
// updates. What is left, such as flat positions in a large tensor, is first dealt out to blocks of neighbouring
// elements, whose sums have room there.
namespace luminal::ops {
namespace {

constexpr int64_t kScatterGrain = int64_t{1} << 15;  // elements that are worth a thread
constexpr int64_t kCachedSums = int64_t{1} << 17;    // of 8 bytes: half of a large second-level cache
constexpr int64_t kNarrowestColumns = 16;            // a line of f32
constexpr int64_t kChunk = 1024;                     // elements of a row that are summed together

// --- What an update does

/// The last one stays; Word: of the dtype's size, whatever the bits mean.
template <class Word>
struct Assigning {
  using Value = Word;
  using Sum = Word;
  static Sum widen(Value value) { return value; }
  static void update(Sum& sum, Value value) { sum = value; }
  static Value result(Sum sum) { return sum; }
};

template <class T>
struct Adding {
  using Value = T;
  using Sum = std::conditional_t<is_float(dtype_of<T>()), double, T>;
  static Sum widen(Value value) { return static_cast<Sum>(static_cast<Compute<T>>(value)); }
  static void update(Sum& sum, Value value) { sum = add(sum, widen(value)); }
  static Value result(Sum sum) { return static_cast<T>(sum); }
};

// The same for many elements at once.

template <class How>
void widen_all(const typename How::Value* from, int64_t count, typename How::Sum* to) {
  if constexpr (std::is_same_v<How, Adding<float>>)
    widen_floats(from, count, to);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = How::widen(from[i]);
}
template <class How>
void update_all(typename How::Sum* sums, const typename How::Value* updates, int64_t count) {
  if constexpr (std::is_same_v<How, Adding<float>>)
    add_floats(sums, updates, count);
  else
    for (int64_t i = 0; i < count; ++i) How::update(sums[i], updates[i]);
}
template <class How>
void round_all(const typename How::Sum* sums, int64_t count, typename How::Value* to) {
  if constexpr (std::is_same_v<How, Adding<float>>)
    round_to_floats(sums, count, to);
  else
    for (int64_t i = 0; i < count; ++i) to[i] = How::result(sums[i]);
}
/// One update of each element.
template <class How>
void update_once(const typename How::Value* base, bool is_number, const typename How::Value* updates,
                 int64_t count, typename How::Value* to) {
  if constexpr (std::is_same_v<How, Adding<float>>) {
    add_floats_once(base, is_number, updates, count, to);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      auto sum = How::widen(base[is_number ? 0 : i]);
      How::update(sum, updates[i]);
      to[i] = How::result(sum);
    }
  }
}

/// The arrays that a scatter works on.
template <class How>
struct Scatter {
  using Value = typename How::Value;
  using Sum = typename How::Sum;
  const IndexedPlaces& places;
  const Value* base;
  bool base_is_number;
  const Value* updates;
  Value* out;
  int64_t elements;  ///< of the result
  bool past_caches;

  /// What `count` elements from `first` on are before the updates.
  void start(int64_t first, int64_t count, Sum* sums) const {
    if (base_is_number) return void(std::fill_n(sums, count, How::widen(*base)));
    widen_all<How>(base + first, count, sums);
  }
  void finish(int64_t first, int64_t count, const Sum* sums) const {
    constexpr int64_t kLongRun = 256;
    if (!past_caches || count < kLongRun) return round_all<How>(sums, count, out + first);
    std::array<Value, kChunk> rounded;
    for (int64_t done = 0; done < count; done += kChunk) {
      const int64_t n = std::min(kChunk, count - done);
      round_all<How>(sums + done, n, rounded.data());
      write(first + done, n, rounded.data());
    }
  }
  void write_base(int64_t first, int64_t count) const {
    base_is_number ? void(std::fill_n(out + first, count, *base)) : write(first, count, base + first);
  }
  void write(int64_t first, int64_t count, const Value* values) const {
    copy_out(out + first, values, static_cast<size_t>(count) * sizeof(Value), past_caches);
  }
};

template <class How>
void write_base(const Scatter<How>& s) {
  parallel_for(s.elements, kScatterGrain, [&](int64_t begin, int64_t end) {
    const PastCaches copies;
    s.write_base(begin, end - begin);
  });
}

// --- Wide slices

/// The updates of each place along the axis, in their order.
class UpdatesByPlace {
 public:
  explicit UpdatesByPlace(const IndexedPlaces& places)
      : starts_(static_cast<size_t>(places.length()) + 1), updates_(static_cast<size_t>(places.count())) {
    for_each(places, [&](int64_t place, int64_t) { ++starts_[static_cast<size_t>(place) + 1]; });
    for (size_t r = 1; r < starts_.size(); ++r) starts_[r] += starts_[r - 1];
    std::vector<int64_t> next(starts_.begin(), starts_.end() - 1);
    for_each(places, [&](int64_t place, int64_t update) {
      updates_[static_cast<size_t>(next[static_cast<size_t>(place)]++)] = update;
    });
  }
  [[nodiscard]] std::span<const int64_t> of(int64_t place) const {
    const auto begin = static_cast<size_t>(starts_[static_cast<size_t>(place)]);
    return std::span(updates_).subspan(begin,
                                       static_cast<size_t>(starts_[static_cast<size_t>(place) + 1]) - begin);
  }

 private:
  template <class Body>
  static void for_each(const IndexedPlaces& places, Body&& body) {
    IndexedPlaces::Buffer buffer;
    for (int64_t first = 0; first < places.count(); first += IndexedPlaces::kPiece) {
      const int64_t n = std::min(IndexedPlaces::kPiece, places.count() - first);
      int64_t update = first;
      for (const int64_t place : places.indices(first, n, buffer)) body(place, update++);
    }
  }
  std::vector<int64_t> starts_, updates_;
};

/// One chunk of a row whose updates, of which there are some, begin at from[0], from[1] ...
template <class How>
void scatter_chunk(const Scatter<How>& s, int64_t first, int64_t count, std::span<const int64_t> from,
                   std::span<typename How::Sum> sums, std::span<typename How::Value> values) {
  using Value = typename How::Value;
  if constexpr (std::is_same_v<How, Assigning<Value>>) {
    s.write(first, count, s.updates + from.back());
  } else {
    Value* to = s.past_caches ? values.data() : s.out + first;
    if (from.size() == 1) {
      const Value* base = s.base_is_number ? s.base : s.base + first;
      update_once<How>(base, s.base_is_number, s.updates + from[0], count, to);
    } else {
      s.start(first, count, sums.data());
      for (const int64_t begin : from) update_all<How>(sums.data(), s.updates + begin, count);
      round_all<How>(sums.data(), count, to);
    }
    if (s.past_caches) s.write(first, count, to);
  }
}

template <class How>
void scatter_slices(const Scatter<How>& s) {
  const IndexedPlaces& places = s.places;
  const int64_t inner = places.inner(), length = places.length();
  const UpdatesByPlace by_place(places);
  parallel_for(s.elements, kScatterGrain, [&](int64_t begin, int64_t end) {
    const PastCaches copies;
    std::vector<typename How::Sum> sums(static_cast<size_t>(kChunk));
    std::vector<typename How::Value> values(static_cast<size_t>(kChunk)), filled(values);
    if (s.base_is_number) std::ranges::fill(filled, *s.base);
    std::vector<int64_t> from;
    for (int64_t at = begin; at < end;) {
      const int64_t row = at / inner, i = at % inner, n = std::min({inner - i, end - at, kChunk});
      from.clear();
      for (const int64_t j : by_place.of(row % length))
        from.push_back((row / length * places.count() + j) * inner + i);
      from.empty() ? s.write(at, n, s.base_is_number ? filled.data() : s.base + at)
                   : scatter_chunk<How>(s, at, n, from, sums, values);
      at += n;
    }
  });
}

// --- Columns

/// How many columns a task owns, so that the sums of all places have room; 0 if the axis is too long for that.
int64_t columns_of_a_task(const IndexedPlaces& places) {
  const int64_t inner = places.inner(), fit = kCachedSums / std::max<int64_t>(places.length(), 1);
  if (places.form() == IndexForm::Slices) return inner <= fit ? inner : 0;
  return fit >= std::min(inner, kNarrowestColumns) ? std::min(inner, fit) : 0;
}

/// The updates of columns [column, column + width) of row o of the index.
template <class How>
void update_columns(const Scatter<How>& s, int64_t o, int64_t column, int64_t width,
                    typename How::Sum* sums) {
  const IndexedPlaces& places = s.places;
  const int64_t count = places.count(), inner = places.inner();
  IndexedPlaces::Buffer buffer;
  if (inner == 1 || places.form() == IndexForm::Slices) {  // one run of indices
    for (int64_t first = 0; first < count; first += IndexedPlaces::kPiece) {
      const int64_t n = std::min(IndexedPlaces::kPiece, count - first);
      const auto found = places.indices(places.index_number(o, first, 0), n, buffer);
      const typename How::Value* update = s.updates + (o * count + first) * inner;
      if (width == 1)
        for (const int64_t place : found) How::update(sums[place], *update++);
      else
        for (const int64_t place : found)
          for (int64_t i = 0; i < inner; ++i) How::update(sums[place * width + i], *update++);
    }
    return;
  }
  for (int64_t j = 0; j < count; ++j)
    for (int64_t first = 0; first < width; first += IndexedPlaces::kPiece) {
      const int64_t n = std::min(IndexedPlaces::kPiece, width - first);
      const int64_t number = places.index_number(o, j, column + first);
      const auto found = places.indices(number, n, buffer);
      for (int64_t i = 0; i < n; ++i)
        How::update(sums[found[static_cast<size_t>(i)] * width + first + i], s.updates[number + i]);
    }
}

/// Calls `body(first, count, at)` for runs of elements of the result that lie in row o and these columns: `count` of
/// them from `first` on belong to the sums from `at` on.
template <class Body>
void for_each_run(const IndexedPlaces& places, int64_t o, int64_t column, int64_t width, Body&& body) {
  const int64_t length = places.length(), inner = places.inner_there(),
                row = places.row_there(o) * length * inner;
  if (width == inner) return body(row, length * width, int64_t{0});
  for (int64_t r = 0; r < length; ++r)
    if (places.covers_data())
      body(row + r * inner + column, width, r * width);
    else
      for (int64_t i = 0; i < width; ++i)
        body(row + r * inner + places.column_there(column + i), int64_t{1}, r * width + i);
}

template <class How>
void scatter_columns(const Scatter<How>& s, int64_t width) {
  const IndexedPlaces& places = s.places;
  if (!places.covers_data()) write_base(s);  // the others stay
  const int64_t parts = (places.inner() + width - 1) / width;
  const int64_t work = (places.length() + places.count()) * width;
  parallel_for(places.outer() * parts, kScatterGrain / std::max<int64_t>(work, 1) + 1,
               [&](int64_t begin, int64_t end) {
                 const PastCaches copies;
                 std::vector<typename How::Sum> sums(static_cast<size_t>(places.length() * width));
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t o = task / parts, column = task % parts * width;
                   const int64_t own = std::min(width, places.inner() - column);
                   for_each_run(places, o, column, own, [&](int64_t first, int64_t count, int64_t at) {
                     s.start(first, count, sums.data() + at);
                   });
                   update_columns<How>(s, o, column, own, sums.data());
                   for_each_run(places, o, column, own, [&](int64_t first, int64_t count, int64_t at) {
                     s.finish(first, count, sums.data() + at);
                   });
                 }
               });
}

// --- Blocks

/// Memory whose content does not matter yet.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(detail::Present{0}, detail::Present{count * static_cast<int64_t>(sizeof(T))}) {}
  [[nodiscard]] T* data() { return reinterpret_cast<T*>(bytes_.data()); }

 private:
  TensorData::Bytes bytes_;
};

/// The updates dealt out to blocks of 2^shift elements each, in their order.
template <class Value>
class UpdatesByBlock {
 public:
  UpdatesByBlock(const IndexedPlaces& places, const Value* updates, int shift, int64_t blocks)
      : count_(places.elements()), offsets_(count_), values_(count_) {
    constexpr int64_t kMostParts = 16;
    const int64_t parts = std::clamp<int64_t>(count_ / kScatterGrain, 1, kMostParts);
    const auto of_part = [&](auto&& body) {
      parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t part = begin; part < end; ++part)
          places.for_each_piece(count_ * part / parts, count_ * (part + 1) / parts,
                                [&](int64_t first, int64_t offset, std::span<const int64_t> positions) {
                                  body(part * blocks, first, offset, positions);
                                });
      });
    };
    // How many of each part go to each block, then where the next one of them lies.
    std::vector<int64_t> next(static_cast<size_t>(parts * blocks));
    of_part([&](int64_t row, int64_t, int64_t offset, std::span<const int64_t> positions) {
      int64_t* counts = next.data() + row;
      for (const int64_t position : positions) ++counts[(offset + position) >> shift];
    });
    ends_.resize(static_cast<size_t>(blocks));
    int64_t sum = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      for (int64_t part = 0; part < parts; ++part)
        sum += std::exchange(next[static_cast<size_t>(part * blocks + block)], sum);
      ends_[static_cast<size_t>(block)] = sum;
    }
    const int64_t mask = (int64_t{1} << shift) - 1;
    of_part([&](int64_t row, int64_t first, int64_t offset, std::span<const int64_t> positions) {
      int64_t* to = next.data() + row;
      const Value* from = updates + first;
      for (const int64_t position : positions) {
        const int64_t place = to[(offset + position) >> shift]++;
        offsets_.data()[place] = static_cast<uint32_t>((offset + position) & mask);
        values_.data()[place] = *from++;
      }
    });
  }

  [[nodiscard]] int64_t count(int64_t block) const { return end(block) - end(block - 1); }
  /// Calls `body(element of the block, value)` for each update.
  template <class Body>
  void for_each(int64_t block, Body&& body) {
    for (int64_t i = end(block - 1); i < end(block); ++i)
      body(static_cast<size_t>(offsets_.data()[i]), values_.data()[i]);
  }

 private:
  [[nodiscard]] int64_t end(int64_t block) const { return block < 0 ? 0 : ends_[static_cast<size_t>(block)]; }
  int64_t count_;
  Scratch<uint32_t> offsets_;  ///< within the block
  Scratch<Value> values_;
  std::vector<int64_t> ends_;  ///< of the blocks
};

template <class How>
void scatter_blocks(const Scatter<How>& s) {
  constexpr int64_t kElements = int64_t{1} << 15;  // of a block: their sums lie in a second-level cache
  constexpr int64_t kFewestBlocks = 32;            // enough for all threads
  constexpr int64_t kMostBlocks = 4096;            // the ends of so many can be written to by turns
  const int64_t fit = std::max(std::min(kElements, s.elements / kFewestBlocks), s.elements / kMostBlocks);
  const int shift = std::bit_width(static_cast<uint64_t>(std::max<int64_t>(fit, 1) - 1));
  const int64_t size = int64_t{1} << shift, blocks = (s.elements + size - 1) / size;
  UpdatesByBlock<typename How::Value> by_block(s.places, s.updates, shift, blocks);
  const int64_t grain = kScatterGrain / std::max<int64_t>((s.elements + s.places.elements()) / blocks, 1) + 1;
  parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    const PastCaches copies;
    std::vector<typename How::Sum> sums(static_cast<size_t>(size));
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * size, count = std::min(size, s.elements - first);
      if (by_block.count(block) == 0) {
        s.write_base(first, count);
        continue;
      }
      s.start(first, count, sums.data());
      by_block.for_each(block, [&](size_t at, typename How::Value value) { How::update(sums[at], value); });
      s.finish(first, count, sums.data());
    }
  });
}

template <class How>
void scatter_by(const IndexedPlaces& places, const ScatterBase& base, const TensorData& updates,
                TensorData& out) {
  using Value = typename How::Value;
  const Scatter<How> s{.places = places,
                       .base = reinterpret_cast<const Value*>(base.data.bytes.data()),
                       .base_is_number = base.is_number,
                       .updates = reinterpret_cast<const Value*>(updates.bytes.data()),
                       .out = reinterpret_cast<Value*>(out.bytes.data()),
                       .elements = out.element_count(),
                       .past_caches = out.bytes.size() > kPastCachesBytes};
  if (places.elements() == 0) return write_base(s);
  if (places.form() == IndexForm::Slices && places.inner() >= kNarrowestColumns) return scatter_slices(s);
  const int64_t width = columns_of_a_task(places);
  constexpr int64_t kTasks = 8;  // fewer leave threads idle
  const bool enough = width > 0 && places.outer() * (places.inner() / width) >= kTasks;
  enough ? scatter_columns(s, width) : scatter_blocks(s);
}

}  // namespace

void assign_updates(const IndexedPlaces& places, const ScatterBase& base, const TensorData& updates,
                    TensorData& out) {
  visit_word(out.dtype, [&]<class Word>(Word) { scatter_by<Assigning<Word>>(places, base, updates, out); });
}

void add_updates(const IndexedPlaces& places, const ScatterBase& base, const TensorData& updates,
                 TensorData& out) {
  visit_dtype(out.dtype, [&]<class T>(T) {
    if constexpr (takes_type<T, Takes::Numbers>()) scatter_by<Adding<T>>(places, base, updates, out);
  });
}

}  // namespace luminal::ops
