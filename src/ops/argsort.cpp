#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <vector>

#include "base/fail.h"
#include "base/threads.h"
#include "base/vector_clones.h"
#include "graph/node_run.h"
#include "luminal/ops.h"
#include "ops/elementwise.h"
#include "ops/sort_keys.h"

namespace luminal {
namespace {

std::vector<TensorType> infer_argsort(std::span<const TensorType> inputs, const Attributes& attributes) {
  ops::check_arity("argsort", inputs, 1);
  ops::check_dtype("argsort", inputs[0], ops::Takes::All);
  ops::check_axis("argsort", inputs[0], attributes);
  TensorType places{Dtype::I64, inputs[0].dims};
  if (attributes.has("count"))
    places.dims[static_cast<size_t>(attributes.get<int64_t>("axis"))] = attributes.get<int64_t>("count");
  return {std::move(places)};
}

/// An element's key and its place; in this order they are sorted, so that equal keys keep theirs. Both in one number
/// where each takes 32 bits at most.
struct NarrowItem {
  static constexpr int kKeyBits = 32;
  uint64_t bits;
  NarrowItem() = default;
  NarrowItem(uint64_t key, uint64_t place) : bits(key << kKeyBits | place) {}
  [[nodiscard]] uint64_t key() const { return bits >> kKeyBits; }
  [[nodiscard]] int64_t place() const {
    return static_cast<int64_t>(bits & std::numeric_limits<uint32_t>::max());
  }
  friend bool operator<(const NarrowItem& a, const NarrowItem& b) { return a.bits < b.bits; }
};
struct WideItem {
  static constexpr int kKeyBits = 64;
  uint64_t of_key, of_place;
  WideItem() = default;
  WideItem(uint64_t key, uint64_t place) : of_key(key), of_place(place) {}
  [[nodiscard]] uint64_t key() const { return of_key; }
  [[nodiscard]] int64_t place() const { return static_cast<int64_t>(of_place); }
  friend bool operator<(const WideItem& a, const WideItem& b) {
    return a.of_key != b.of_key ? a.of_key < b.of_key : a.of_place < b.of_place;
  }
};

/// A radix sort from the lowest digit on (Seward 1954); items come in the order of their places. `other` is as long.
template <class Item>
void sort_by_digits(std::span<Item> items, std::span<Item> other) {
  constexpr int kDigits = Item::kKeyBits / 8;
  std::array<std::array<uint32_t, 256>, kDigits> counts{};
  for (const Item& item : items)
    for (int d = 0; d < kDigits; ++d) ++counts[static_cast<size_t>(d)][item.key() >> (8 * d) & 0xff];
  Item *from = items.data(), *to = other.data();
  for (int d = 0; d < kDigits; ++d) {
    auto& next = counts[static_cast<size_t>(d)];
    if (next[from[0].key() >> (8 * d) & 0xff] == items.size()) continue;  // all are the same
    uint32_t sum = 0;
    for (uint32_t& count : next) sum += std::exchange(count, sum);
    for (size_t i = 0; i < items.size(); ++i) to[next[from[i].key() >> (8 * d) & 0xff]++] = from[i];
    std::swap(from, to);
  }
  if (from != items.data()) std::copy(from, from + items.size(), items.data());
}

/// Items in the order of their places.
template <class Item>
void sort_items(std::vector<Item>& items, std::vector<Item>& other) {
  constexpr size_t kFewest = 192;  // fewer sort sooner by comparisons
  if (items.size() < kFewest || items.size() > std::numeric_limits<uint32_t>::max())
    return std::sort(items.begin(), items.end());
  other.resize(items.size());
  sort_by_digits<Item>(items, other);
}

constexpr size_t kKeysAtOnce = 256;

/// The rows or columns of a task: keys come in, places go out.
template <class T, class Item>
class Sorter {
 public:
  Sorter(int64_t length, int64_t wanted, bool descending)
      : length_(length), wanted_(wanted), flip_(descending ? ops::greatest_key<T>() : 0) {}

  /// The places of the first `wanted` elements x[0], x[step] ..., to to[0], to[step] ...
  void sort(const T* x, int64_t step, int64_t* to) {
    constexpr int64_t kSelected = 4;  // times as many elements are worth a selection
    items_.clear();
    if (length_ / kSelected >= wanted_) {
      select(x, step);
      std::sort(items_.begin(), items_.end());
    } else {
      take_all(x, step);
      sort_items(items_, other_);
    }
    for (int64_t i = 0; i < wanted_; ++i) to[i * step] = items_[static_cast<size_t>(i)].place();
  }

 private:
  using Key = ops::SortKey<T>;

  template <class Body>
  void for_each_block(const T* x, int64_t step, Body&& body) {
    for (int64_t first = 0; first < length_; first += static_cast<int64_t>(kKeysAtOnce)) {
      const auto n = static_cast<size_t>(std::min<int64_t>(length_ - first, kKeysAtOnce));
      const T* from = x + first * step;
      if (step != 1) {
        for (size_t k = 0; k < n; ++k) elements_[k] = from[static_cast<int64_t>(k) * step];
        from = elements_.data();
      }
      ops::make_sort_keys(from, n, flip_, keys_.data());
      body(static_cast<uint64_t>(first), std::span<const Key>(keys_).first(n));
    }
  }

  void take_all(const T* x, int64_t step) {
    items_.reserve(static_cast<size_t>(length_));
    for_each_block(x, step, [&](uint64_t first, std::span<const Key> keys) {
      for (size_t k = 0; k < keys.size(); ++k) items_.emplace_back(keys[k], first + k);
    });
  }

  /// The least items alone, in any order.
  void select(const T* x, int64_t step) {
    const auto wanted = static_cast<size_t>(wanted_);
    if (wanted == 0) return;
    constexpr size_t kGroup = 32;                           // most of them hold nothing that is wanted
    constexpr size_t kSpare = 16;                           // of few, too, not every one is worth a cut
    uint64_t bound = std::numeric_limits<uint64_t>::max();  // above it, or equal and later, no item is wanted
    bool full = false;
    const auto cut = [&] {
      if (items_.size() < wanted) return;
      const auto last = items_.begin() + static_cast<ptrdiff_t>(wanted) - 1;
      std::nth_element(items_.begin(), last, items_.end());
      items_.resize(wanted);
      bound = items_.back().key(), full = true;
    };
    for_each_block(x, step, [&](uint64_t first, std::span<const Key> keys) {
      for (size_t begin = 0; begin < keys.size(); begin += kGroup) {
        const auto group = keys.subspan(begin, std::min(kGroup, keys.size() - begin));
        if (full && ops::least_key(group) >= bound) continue;
        for (size_t k = 0; k < group.size(); ++k)
          if (!full || group[k] < bound) items_.emplace_back(group[k], first + begin + k);
        if (!full || items_.size() >= 2 * wanted + kSpare) cut();
      }
    });
    cut();
  }

  int64_t length_, wanted_;
  Key flip_;
  std::array<T, kKeysAtOnce> elements_;
  std::array<Key, kKeysAtOnce> keys_;
  std::vector<Item> items_, other_;
};

template <class T, class Item>
void argsort_as(const TensorData& x, TensorData& out, size_t axis, bool descending) {
  constexpr int64_t kColumns = 16;  // whose lines are in a cache together
  constexpr int64_t kGrain = int64_t{1} << 12;
  int64_t outer = 1, inner = 1;
  for (size_t d = 0; d < x.dims.size(); ++d)
    if (d != axis) (d < axis ? outer : inner) *= x.dims[d];
  const int64_t length = x.dims[axis], wanted = out.dims[axis];
  const T* from = x.as<T>().data();
  int64_t* to = out.as<int64_t>().data();
  const int64_t blocks = (inner + kColumns - 1) / kColumns;
  parallel_for(outer * blocks, kGrain / std::max<int64_t>(length * std::min(inner, kColumns), 1) + 1,
               [&](int64_t begin, int64_t end) {
                 Sorter<T, Item> sorter(length, wanted, descending);
                 for (int64_t task = begin; task < end; ++task) {
                   const int64_t o = task / blocks, column = task % blocks * kColumns;
                   for (int64_t i = column; i < std::min(inner, column + kColumns); ++i)
                     sorter.sort(from + o * length * inner + i, inner, to + o * wanted * inner + i);
                 }
               });
}

void argsort(EvalContext& context) {
  const TensorData& x = *context.inputs[0];
  TensorData& out = context.outputs[0];
  const auto axis = static_cast<size_t>(context.attributes.get<int64_t>("axis"));
  if (out.dims[axis] > x.dims[axis])
    fail<Error>("[{}] k is {} and axis {} of {}{}[{}] has {} elements; give a k from 0 to that number",
                NodeRun::label("argsort"), out.dims[axis], axis, NodeRun::input_name(0), name(x.dtype),
                fmt::join(x.dims, ", "), x.dims[axis]);
  const bool descending = context.attributes.get<bool>("descending");
  visit_dtype(x.dtype, [&]<class T>(T) {
    if constexpr (sizeof(ops::SortKey<T>) <= 4)
      if (x.dims[axis] <= std::numeric_limits<uint32_t>::max())
        return argsort_as<T, NarrowItem>(x, out, axis, descending);
    argsort_as<T, WideItem>(x, out, axis, descending);
  });
}

}  // namespace

const OpDef kArgsort = {
    .name = "argsort",
    .arity = 1,
    .traits = Trait::Overwrites | Trait::ZeroGradient,
    .infer = infer_argsort,
    .evaluate = argsort,
    .variants = {{{"axis", int64_t{0}}, {"descending", false}}, {{"axis", int64_t{0}}, {"descending", true}}},
    .doc =
        "Places of the elements along an axis in rising order, or falling order (descending), or of the "
        "first `count` "
        "in it. Equal ones keep their order, NaN is the greatest.",
};

}  // namespace luminal
