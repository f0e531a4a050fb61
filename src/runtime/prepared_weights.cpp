#include "runtime/prepared_weights.h"

#include <set>

#include "base/machine.h"

namespace luminal::runtime {

int64_t PreparedWeights::usual_most_bytes() {
  constexpr int64_t kOneIn = 4;
  return this_machine().memory_bytes / kOneIn;
}

std::optional<PreparedWeights::Key> PreparedWeights::key_of(const Plan& plan,
                                                            const Preparation& preparation) {
  const KernelLaunch& launch = *plan.launches[at(preparation.launch)].kernel;
  if (launch.kernel->preparation() == 0) return std::nullopt;
  Key key{launch.kernel->preparation(), preparation.bytes, {}};
  for (const TensorIndex from : preparation.from) {
    const PlanTensor& tensor = plan.tensors[at(from)];
    key.from.push_back({tensor.value, tensor.constant.get()});
  }
  return key;
}

std::shared_ptr<PreparedWeights::Copy> PreparedWeights::find(const std::optional<Key>& key) const {
  const auto known = key ? copies_.find(key) : copies_.end();
  return known == copies_.end() ? nullptr : known->second.lock();
}

int64_t PreparedWeights::bytes() const {
  int64_t total = 0;
  for (const auto& [key, copy] : copies_)
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
  std::erase_if(copies_, [](const auto& entry) { return entry.second.expired(); });
  copies_.emplace(key, copy);
  return copy;
}

}  // namespace luminal::runtime
