#include "runtime/prepared_weights.h"

#include <algorithm>
#include <set>

#include "base/machine.h"

namespace luminal::runtime {

PreparedWeights::PreparedWeights(backends::Device& device)
    : PreparedWeights(
          device, static_cast<int64_t>(kMostOfMemory * static_cast<double>(this_machine().memory_bytes))) {}

std::optional<PreparedWeights::Key> PreparedWeights::key_of(const Plan& plan,
                                                            const Preparation& preparation) {
  const KernelLaunch& launch = *plan.launches[at(preparation.launch)].kernel;
  if (launch.kernel->preparation() == 0) return std::nullopt;
  Key key{launch.kernel->preparation(), preparation.bytes, {}};
  for (size_t i = 0; i < preparation.from.size(); ++i) {
    const PlanTensor& tensor = plan.tensors[at(preparation.from[i])];
    key.from.push_back({launch.frozen[i], tensor.value, tensor.constant.get()});
  }
  return key;
}

std::shared_ptr<PreparedWeights::Copy> PreparedWeights::find(const std::optional<Key>& key) const {
  const auto known = key ? shared_.find(*key) : shared_.end();
  return known == shared_.end() ? nullptr : known->second.lock();
}

int64_t PreparedWeights::bytes() const {
  int64_t total = 0;
  for (const std::weak_ptr<Copy>& copy : all_)
    if (const auto held = copy.lock()) total += held->memory.bytes();
  return total;
}

int64_t PreparedWeights::bytes_for(const Plan& plan, std::span<const Preparation> preparations) {
  int64_t total = 0;
  std::set<Key> counted;
  for (const Preparation& preparation : preparations) {
    const std::optional<Key> key = key_of(plan, preparation);
    if (!key || counted.insert(*key).second) total += backends::aligned(preparation.bytes);
  }
  return total;
}

bool PreparedWeights::has_room_for(const Plan& plan, const Preparation& preparation) const {
  return find(key_of(plan, preparation)) || bytes() + preparation.bytes <= most_bytes_;
}

std::shared_ptr<PreparedWeights::Copy> PreparedWeights::take(const Plan& plan,
                                                             const Preparation& preparation) {
  const std::optional<Key> key = key_of(plan, preparation);
  if (std::shared_ptr<Copy> copy = find(key)) return copy;
  if (bytes() + preparation.bytes > most_bytes_) return nullptr;
  const auto copy = std::make_shared<Copy>(Copy{backends::Buffer(device_, preparation.bytes), {}});
  std::erase_if(all_, [](const auto& other) { return other.expired(); });
  std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
  all_.push_back(copy);
  if (key) shared_.emplace(*key, copy);
  return copy;
}

}  // namespace luminal::runtime
