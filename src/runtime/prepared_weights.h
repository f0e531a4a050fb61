#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backends/device.h"
#include "runtime/layout.h"
#include "runtime/plan.h"

namespace luminal::runtime {

/// What kernels prepare of weights (codegen::Space::Prepared), kept from run to run: one copy for all launches, sizes and
/// plans of a graph that prepare the same of the same weights. A copy lives as long as somebody holds it.
/// Thread safety: one thread at a time.
class PreparedWeights {
 public:
  struct Copy {
    backends::Buffer memory;
    std::vector<uint64_t> stamps;  ///< of the weights when it was filled (Graph::stamp); empty: it is not
  };
  /// What all copies together may take: a quarter of the machine's memory.
  [[nodiscard]] static int64_t usual_most_bytes();

  /// The device outlives it.
  explicit PreparedWeights(backends::Device& device, int64_t most_bytes = usual_most_bytes())
      : device_(device), most_bytes_(most_bytes) {}

  /// The copy for a launch of a plan, perhaps not filled; null where there is no room for it.
  /// Errors: OutOfMemory.
  [[nodiscard]] std::shared_ptr<Copy> take(const Plan& plan, const Preparation& preparation);
  /// Whether `take` would give one.
  [[nodiscard]] bool has_room_for(const Plan& plan, const Preparation& preparation) const;
  /// What a plan needs of it.
  [[nodiscard]] static int64_t bytes_for(const Plan& plan, std::span<const Preparation> preparations);
  /// Of all copies.
  [[nodiscard]] int64_t bytes() const;

 private:
  /// A weight.
  struct Source {
    std::optional<Value> value;            ///< of the graph, if it is one
    const TensorData* constant = nullptr;  ///< of the plan, if it is one
    friend auto operator<=>(const Source&, const Source&) = default;
  };
  /// What is done to which weights.
  struct Key {
    uint64_t preparation = 0;
    int64_t bytes = 0;
    std::vector<Source> from;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  /// None where no other launch prepares the same.
  [[nodiscard]] static std::optional<Key> key_of(const Plan& plan, const Preparation& preparation);
  [[nodiscard]] std::shared_ptr<Copy> find(const std::optional<Key>& key) const;

  backends::Device& device_;
  int64_t most_bytes_;
  std::multimap<std::optional<Key>, std::weak_ptr<Copy>>
      copies_;  ///< several without a key, one of each other
};

}  // namespace luminal::runtime
