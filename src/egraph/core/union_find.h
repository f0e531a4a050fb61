#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>

#include "egraph/core/column.h"
#include "egraph/core/team.h"
#include "luminal/egraph.h"

namespace luminal::egraph {

/// Union-find over dense ids. The smaller id stays root, so roots depend on what was united, not in which
/// order. Ids that lost their root status are listed (and set in a bitmap) until the rebuild has replaced
/// them.
class UnionFind {
 public:
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(parent_.size()); }
  Value fresh() {
    const Value id = size();
    parent_.push_back(id);
    return id;
  }
  void reserve_fresh(size_t count) { parent_.reserve(parent_.size() + count); }
  Value fresh_unchecked() {
    const Value id = size();
    parent_.push_back_unchecked(id);
    return id;
  }

  /// As many fresh ids at once; the first of them is `size()` before.
  void add_fresh(size_t count) {
    const Value first = size();
    parent_.resize_uninitialized(first + count);
    for (size_t i = 0; i < count; i++) parent_[first + i] = first + static_cast<Value>(i);
  }

  Value find(Value id) {
    uint32_t* parent = parent_.data();
    while (parent[id] != id) {
      parent[id] = parent[parent[id]];
      id = parent[id];
    }
    return id;
  }
  void prefetch(Value id) const { __builtin_prefetch(parent_.data() + id); }
  /// May run on several threads, while none of them unites.
  [[nodiscard]] Value find(Value id) const {
    for (;;) {
      const Value parent = parent_[id];
      if (parent == id) return id;
      id = parent;
    }
  }

  /// False if they were equal already.
  bool unite(Value a, Value b) {
    a = find(a);
    b = find(b);
    if (a == b) return false;
    if (a > b) std::swap(a, b);
    parent_[b] = a;
    mark_displaced(b);
    unions_++;
    return true;
  }

  [[nodiscard]] bool has_displaced() const { return !displaced_.empty(); }
  [[nodiscard]] const Column& displaced() const { return displaced_; }
  [[nodiscard]] const uint64_t* displaced_bits() const { return bits_.data(); }
  /// Starts a rebuild pass: the bitmap covers every id, displaced ones lie next to their root; returns the
  /// ids displaced so far.
  Column begin_pass(Team* team);
  /// Ends it: `treated` are canonical everywhere now, those displaced meanwhile are left for the next pass.
  void end_pass(const Column& treated);
  /// Gives the ids of a pass that failed back.
  void restore(const Column& untreated) { displaced_.append(untreated.data(), untreated.size()); }

  [[nodiscard]] uint64_t union_count() const { return unions_; }
  [[nodiscard]] size_t size_bytes() const {
    return parent_.size_bytes() + displaced_.size_bytes() + bits_.size_bytes();
  }
  void clear();

 private:
  void mark_displaced(Value id) {
    displaced_.push_back(id);
    const size_t word = id >> 6;
    if (word >= bits_.size()) bits_.resize(std::max<size_t>((size() >> 6) + 1, word + 1), 0);
    bits_[word] |= uint64_t{1} << (id & 63);
  }

  Column parent_;
  Column displaced_;
  Buffer<uint64_t> bits_;
  uint64_t unions_ = 0;
};

inline Column UnionFind::begin_pass(Team* team) {
  constexpr size_t kAhead = 16;
  const size_t words = (size() >> 6) + 1;
  if (bits_.size() < words) bits_.resize(words, 0);
  Column list;
  list.swap(displaced_);
  if (team == nullptr) {
    for (size_t i = 0; i < list.size(); i++) {
      if (i + kAhead < list.size()) prefetch(list[i + kAhead]);
      parent_[list[i]] = find(list[i]);
    }
    return list;
  }
  Column roots;
  roots.resize_uninitialized(list.size());
  team->split(list.size(), [&](uint32_t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) {
      if (i + kAhead < end) prefetch(list[i + kAhead]);
      roots[i] = std::as_const(*this).find(list[i]);
    }
  });
  team->split(list.size(), [&](uint32_t, size_t begin, size_t end) {
    for (size_t i = begin; i < end; i++) parent_[list[i]] = roots[i];
  });
  return list;
}

inline void UnionFind::end_pass(const Column& treated) {
  for (size_t i = 0; i < treated.size(); i++) bits_[treated[i] >> 6] &= ~(uint64_t{1} << (treated[i] & 63));
}

inline void UnionFind::clear() {
  parent_.clear();
  displaced_.clear();
  bits_.clear();
  unions_ = 0;
}

}  // namespace luminal::egraph
