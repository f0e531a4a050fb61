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
/// Layout of a sequence: Vec the elements; Set and MultiSet the elements in content order (MultiSet with
/// repeats); Map key, value, key, value by key; Pair first, second; a function value the number of its
/// target, then its first arguments.
class ContainerStore {
 public:
  [[nodiscard]] Value intern(std::span<const Value> sequence);
  [[nodiscard]] std::span<const Value> at(Value handle) const {
    const Entry& entry = entries_[handle];
    return {entry.begin, entry.size};
  }
  [[nodiscard]] size_t size() const { return entries_.size(); }

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
  size_t block_size_ = 0, block_used_ = 0;
};

}  // namespace luminal::egraph::language
