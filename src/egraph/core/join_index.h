#pragma once
#include <cstdint>
#include <vector>

#include "egraph/core/table.h"

namespace luminal::egraph {

/// Rows of a table grouped by the values of some columns, for joins and for finding the rows that mention an
/// id. Built on demand as a short sequence of parts over consecutive row ranges, each at least twice the next
/// (a log-structured merge), so that growing by a few rows costs a few rows.
///
/// A part is a counting sort: `rows` holds row numbers, group after group, ascending within each. Groups are
/// found by the value itself when one column is dense enough, otherwise by a hash.
class JoinIndex {
 public:
  struct Range {
    const Row* begin;
    const Row* end;
  };

  class Part {
   public:
    Part(const Table& table, const std::vector<uint32_t>& columns, Row begin, Row end, Team* team);
    [[nodiscard]] Row begin() const { return begin_; }
    [[nodiscard]] Row end() const { return end_; }
    /// Some indexed row may have died since.
    [[nodiscard]] bool may_hold_dead(const Table& table) const { return table.kills() != kills_; }
    [[nodiscard]] size_t size_bytes() const;

    void prefetch(uint32_t key) const {
      if (!direct_) return __builtin_prefetch(&slots_[slot_of(hash1(key))]);
      if (key + 1 < starts_.size()) __builtin_prefetch(&starts_[key]);
    }
    void prefetch_hash(uint32_t hash) const { __builtin_prefetch(&slots_[slot_of(hash)]); }
    [[nodiscard]] Range find(uint32_t key) const {
      if (!direct_) return find_hashed(hash1(key), &key);
      if (key + 1 >= starts_.size()) return {nullptr, nullptr};
      return {rows_.data() + starts_[key], rows_.data() + starts_[key + 1]};
    }
    [[nodiscard]] Range find_hashed(uint32_t hash, const uint32_t* key) const;

   private:
    void build_direct(ColumnView keys, ColumnView live, uint32_t key_limit);
    void build_direct(ColumnView keys, ColumnView live, uint32_t key_limit, Team& team, uint32_t threads);
    void build_hashed(const Table& table, const std::vector<uint32_t>& columns);
    [[nodiscard]] size_t slot_of(uint32_t hash) const { return (uint64_t{hash} * slots_.size()) >> 32; }
    static uint32_t hash1(uint32_t key) {
      return hash_key<1>(1, [&](uint32_t) { return key; });
    }

    Row begin_, end_;
    uint32_t key_width_;
    bool direct_ = false;
    uint64_t kills_;
    Column starts_;  // of each group, and the end of the last
    Column rows_;
    Buffer<uint64_t> slots_;  // hash << 32 | group + 1
    Column group_keys_;       // key_width_ values of each group
  };

  explicit JoinIndex(std::vector<uint32_t> columns) : columns_(std::move(columns)) {}
  [[nodiscard]] const std::vector<uint32_t>& columns() const { return columns_; }
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  /// Covers rows [0, end) afterwards, possibly more.
  void ensure(const Table& table, Row end, Team* team);
  /// Rows that `ensure` would sort.
  [[nodiscard]] Row to_sort(const Table& table, Row end) const {
    const Step step = next_step(table, end);
    return step.end - step.begin;
  }
  /// Rows that `ensure` would have to look at for the first time.
  [[nodiscard]] Row missing(const Table& table, Row end) const;
  /// The same with those that it would sort again because too many died.
  [[nodiscard]] Row outdated(const Table& table, Row end) const {
    return is_void(table) ? end : missing(table, end);
  }
  [[nodiscard]] Row covered() const { return parts_.empty() ? 0 : parts_.back().end(); }
  [[nodiscard]] bool is_current(const Table& table) const { return generation_ == table.generation(); }
  [[nodiscard]] size_t size_bytes() const;

 private:
  /// What `ensure` does: the first parts are kept, and one of these rows is added (none if there are none).
  struct Step {
    size_t kept;
    Row begin, end;
  };
  [[nodiscard]] Step next_step(const Table& table, Row end) const;
  /// Dead rows in old parts cost a look each time; past an eighth, sorting again is cheaper.
  [[nodiscard]] bool is_void(const Table& table) const {
    return generation_ != table.generation() || table.kills() - kills_ > covered() / 8 + 64;
  }

  std::vector<uint32_t> columns_;
  std::vector<Part> parts_;
  uint32_t generation_ = 0;
  uint64_t kills_ = 0;
};

}  // namespace luminal::egraph
