#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace luminal::egraph {

using Row = uint32_t;
inline constexpr Row kNoRow = 0xffffffff;

/// 32-bit hash of a key, the same on every machine. Two columns at a time (Fibonacci hashing, then a mix).
class KeyHash {
 public:
  void add(uint32_t a, uint32_t b) { state_ = fold((state_ + ((uint64_t{a} << 32) | b)) * kFirst); }
  void add(uint32_t a) { state_ = fold((state_ + a + 1) * kFirst); }
  [[nodiscard]] uint32_t value() const { return static_cast<uint32_t>((state_ * kSecond) >> 32); }

 private:
  static constexpr uint64_t kFirst = 0x9E3779B97F4A7C15ULL, kSecond = 0xD6E8FEB86659FD93ULL;
  static uint64_t fold(uint64_t x) { return x ^ (x >> 32); }
  uint64_t state_ = 0;
};

/// `at(c)` is the value of column c. K: the number of columns if known when compiling, 0 if not.
template <uint32_t K, class At>
[[nodiscard]] inline uint32_t hash_key(uint32_t width, At&& at) {
  const uint32_t n = K != 0 ? K : width;
  KeyHash hash;
  uint32_t c = 0;
  for (; c + 2 <= n; c += 2) hash.add(at(c), at(c + 1));
  if (c < n) hash.add(at(c));
  return hash.value();
}

/// Calls `body` with std::integral_constant of the key width (0 = any), so that inner loops are specialised.
template <class Body>
inline decltype(auto) with_width(uint32_t width, Body&& body) {
  switch (width) {
    case 1:
      return body(std::integral_constant<uint32_t, 1>{});
    case 2:
      return body(std::integral_constant<uint32_t, 2>{});
    case 3:
      return body(std::integral_constant<uint32_t, 3>{});
    default:
      return body(std::integral_constant<uint32_t, 0>{});
  }
}

/// A slot of an open-addressing hash: `hash << 32 | row + 1`; 0 is free.
struct HashSlot {
  uint64_t bits = 0;
  HashSlot() = default;
  explicit HashSlot(uint64_t content) : bits(content) {}
  HashSlot(uint32_t hash, Row row) : bits((uint64_t{hash} << 32) | (row + 1)) {}
  [[nodiscard]] bool is_free() const { return bits == 0; }
  [[nodiscard]] uint32_t hash() const { return static_cast<uint32_t>(bits >> 32); }
  [[nodiscard]] Row row() const { return static_cast<Row>(bits) - 1; }
};

/// How the rows of a table are found by key, as it stands: void when the table grows. Loops keep its members
/// in registers, which they could not do with those of a table that they write to.
template <uint32_t K>
class KeyProbe {
 public:
  KeyProbe(const uint64_t* slots, size_t capacity, const uint32_t* cells, uint32_t key_width, uint32_t width)
      : slots_(slots), cells_(cells), capacity_(capacity), key_width_(key_width), width_(width) {}

  /// `key(c)` is the value of the key's column c, here and below.
  template <class Key>
  [[nodiscard]] uint32_t hash(Key&& key) const {
    return hash_key<K>(key_width_, key);
  }
  [[nodiscard]] size_t home(uint32_t hash) const { return (uint64_t{hash} * capacity_) >> 32; }
  [[nodiscard]] const uint32_t* cells(Row row) const { return cells_ + size_t{row} * width_; }
  void prefetch_slot(uint32_t hash) const { __builtin_prefetch(slots_ + home(hash)); }
  void prefetch_row(uint32_t hash) const {
    const HashSlot slot{relaxed(slots_[home(hash)])};  // other threads may be inserting
    if (slot.is_free()) return;
    const uint32_t* at = cells(slot.row());
    __builtin_prefetch(at);
    __builtin_prefetch(at + width_ - 1);  // another cache line now and then
  }
  template <class Key>
  [[nodiscard]] bool holds(Row row, Key&& key) const {
    const uint32_t* at = cells(row);
    return same_key(key, [at](uint32_t c) { return at[c]; });
  }
  template <class Key, class Other>
  [[nodiscard]] bool same_key(Key&& key, Other&& other) const {
    bool same = true;
    for (uint32_t c = 0; c < (K != 0 ? K : key_width_); c++) same &= other(c) == key(c);
    return same;
  }

  struct Place {
    size_t at;
    HashSlot slot;
  };
  /// The first slot from `at` on that is free, or has this hash and a row for which `is_it(row)`. `load`
  /// reads a slot.
  template <class Load, class IsIt>
  [[nodiscard]] Place walk(size_t at, uint32_t hash, Load&& load, IsIt&& is_it) const {
    for (;; at = at + 1 == capacity_ ? 0 : at + 1) {
      const HashSlot slot{load(slots_[at])};
      if (slot.is_free() || (slot.hash() == hash && is_it(slot.row()))) return {at, slot};
    }
  }
  /// The row with this key, or kNoRow.
  template <class Key>
  [[nodiscard]] Row find(uint32_t hash, Key&& key) const {
    return walk(home(hash), hash, plain, [&](Row row) { return holds(row, key); }).slot.row();
  }
  static uint64_t plain(const uint64_t& slot) { return slot; }
  /// While other threads write slots.
  static uint64_t relaxed(const uint64_t& slot) {
    return std::atomic_ref(const_cast<uint64_t&>(slot)).load(std::memory_order_relaxed);
  }

 private:
  const uint64_t* slots_;
  const uint32_t* cells_;
  size_t capacity_;
  uint32_t key_width_, width_;
};

/// Calls `body(i, hash)` for keys `begin` to `end`, `keys` being their columns, when the memory was asked for
/// that a search of each reads in the table that `probe()` leads to: in groups that fit the first-level
/// cache, slots one group ahead, where `ahead(i)` is called too, then rows.
template <class Probe, class Ahead, class Body>
void each_ahead(Probe&& probe, const uint32_t* const* keys, size_t begin, size_t end, Ahead&& ahead,
                Body&& body) {
  constexpr size_t kGroup = 64;
  uint32_t hashes[2][kGroup];
  const auto ask = [&](size_t first, uint32_t* to) {
    const size_t n = first < end ? std::min(kGroup, end - first) : 0;
    for (size_t i = 0; i < n; i++) {
      to[i] = probe().hash([keys, at = first + i](uint32_t c) { return keys[c][at]; });
      probe().prefetch_slot(to[i]);
      ahead(first + i);
    }
  };
  ask(begin, hashes[0]);
  for (size_t first = begin, turn = 0; first < end; first += kGroup, turn ^= 1) {
    const size_t n = std::min(kGroup, end - first);
    for (size_t i = 0; i < n; i++) probe().prefetch_row(hashes[turn][i]);
    ask(first + kGroup, hashes[turn ^ 1]);
    for (size_t i = 0; i < n; i++) body(static_cast<uint32_t>(first + i), hashes[turn][i]);
  }
}

}  // namespace luminal::egraph
