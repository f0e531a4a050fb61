#include "egraph/language/containers.h"

#include <algorithm>

#include "base/hash.h"

namespace luminal::egraph::language {
namespace {

uint32_t hash_of(std::span<const Value> sequence) {
  uint64_t hash = mix(sequence.size() + 1);
  for (const Value v : sequence) hash = (hash ^ v) * 0x9e3779b97f4a7c15ULL;
  return static_cast<uint32_t>(mix(hash) >> 32);
}

}  // namespace

Value ContainerStore::intern(std::span<const Value> sequence) {
  if (entries_.size() * 2 >= slots_.size()) grow();
  const uint32_t hash = hash_of(sequence);
  const size_t mask = slots_.size() - 1;
  for (size_t slot = hash & mask;; slot = (slot + 1) & mask) {
    if (slots_[slot] == 0) {
      entries_.push_back({keep(sequence), static_cast<uint32_t>(sequence.size()), hash});
      slots_[slot] = static_cast<uint32_t>(entries_.size());
      return static_cast<Value>(entries_.size() - 1);
    }
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && entry.size == sequence.size() &&
        std::equal(sequence.begin(), sequence.end(), entry.begin))
      return slots_[slot] - 1;
  }
}

const Value* ContainerStore::keep(std::span<const Value> sequence) {
  if (sequence.empty()) return nullptr;
  if (block_used_ + sequence.size() > block_size_) {
    block_size_ = std::max<size_t>({sequence.size(), 1024, std::min<size_t>(block_size_ * 2, 1U << 18)});
    blocks_.push_back(std::make_unique<Value[]>(block_size_));
    block_used_ = 0;
    block_bytes_ += block_size_ * sizeof(Value);
  }
  Value* begin = blocks_.back().get() + block_used_;
  std::copy(sequence.begin(), sequence.end(), begin);
  block_used_ += sequence.size();
  return begin;
}

void ContainerStore::grow() {
  slots_.assign(std::max<size_t>(64, slots_.size() * 2), 0);
  const size_t mask = slots_.size() - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    size_t slot = entries_[i].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = static_cast<uint32_t>(i + 1);
  }
}

}  // namespace luminal::egraph::language
