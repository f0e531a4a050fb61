#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "luminal/egraph.h"

namespace luminal::egraph::language {

/// The values of one container sort: sequences of values, each kept once. Handles count from 0; a sequence
/// stays where it is as long as the store lives.
///
/// Layout of a sequence: Vec the elements; Set the elements in content order; MultiSet element, count,
/// element, count by element, the counts as i64; Map key, value, key, value by key; Pair first, second; a
/// function value the number of its target, then its first arguments.
class ContainerStore {
 public:
  [[nodiscard]] Value intern(std::span<const Value> sequence);
  [[nodiscard]] std::span<const Value> at(Value handle) const {
    const Entry& entry = entries_[handle];
    return {entry.begin, entry.size};
  }
  [[nodiscard]] size_t size() const { return entries_.size(); }
  [[nodiscard]] size_t size_bytes() const {
    return entries_.size() * sizeof(Entry) + slots_.size() * sizeof(uint32_t) + block_bytes_;
  }

 private:
  struct Entry {
    const Value* begin = nullptr;
    uint32_t size = 0;
    uint32_t hash = 0;
  };
  const Value* keep(std::span<const Value> sequence);
  void grow();

  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // open addressing: handle + 1, 0 = free
  std::vector<std::unique_ptr<Value[]>> blocks_;
  size_t block_size_ = 0, block_used_ = 0, block_bytes_ = 0;
};

}  // namespace luminal::egraph::language
