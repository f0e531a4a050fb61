#pragma once
#include <algorithm>
#include <map>
#include <random>

#include "kernel/compose.h"
#include "unit/kernel/import.h"

namespace luminal::kernel::test {

inline const ComposeLimits kNoLimits{
    .slots = 1 << 20, .operations = 1 << 20, .exports = 64, .evaluations = 1e18, .formulas = 1 << 20};

inline std::vector<uint32_t> names_of(const Imported& s) {
  std::vector<uint32_t> names;
  for (const luminal::Value& v : s.slots) names.push_back(v.node.index);
  return names;
}

inline std::optional<Imported> fuse(const Imported& consumer, int slot, const Imported& producer,
                                    const ComposeLimits& limits = kNoLimits) {
  const auto c = compose(consumer.spec, slot, producer.spec, names_of(consumer), names_of(producer), limits);
  if (!c) return std::nullopt;
  Imported result{.spec = c->spec, .slots = {}};
  for (const auto& from : c->slots)
    result.slots.push_back((from.producer ? producer : consumer).slots[static_cast<size_t>(from.slot)]);
  return result;
}

/// The whole graph behind `root` as one spec over its inputs. Edges of the dataflow tree are contracted in
/// random order, so the same graph is composed in many ways.
class WholeFusion {
 public:
  WholeFusion(const Graph& graph, uint64_t seed, const ComposeLimits& limits = kNoLimits)
      : graph_(graph), random_(seed), limits_(limits) {}

  std::optional<Imported> run(const luminal::Value& root) {
    std::map<luminal::Value, Imported> specs;
    collect(root, specs);
    if (specs.empty()) return std::nullopt;
    while (true) {
      // Any pair (consumer, slot) whose producer is a spec of its own may go next.
      std::vector<std::pair<luminal::Value, int>> edges;
      for (const auto& [value, s] : specs)
        for (size_t k = 0; k < s.slots.size(); ++k)
          if (specs.contains(s.slots[k])) edges.emplace_back(value, static_cast<int>(k));
      if (edges.empty()) break;
      const auto [consumer, slot] = edges[random_() % edges.size()];
      Imported& c = specs.at(consumer);
      const luminal::Value producer = c.slots[static_cast<size_t>(slot)];
      auto fused = fuse(c, slot, specs.at(producer), limits_);
      if (!fused) return std::nullopt;
      ++steps_;
      c = std::move(*fused);
      const bool read = std::ranges::any_of(
          specs, [&](const auto& entry) { return std::ranges::count(entry.second.slots, producer) > 0; });
      if (!read && !(producer == root)) specs.erase(producer);
    }
    return specs.at(root);
  }
  [[nodiscard]] int steps() const { return steps_; }

 private:
  void collect(const luminal::Value& value, std::map<luminal::Value, Imported>& specs) {
    if (specs.contains(value) || !can_import(graph_.node(value.node))) return;
    const Imported s = import_node(graph_, value.node);
    specs.emplace(value, s);
    for (const luminal::Value& slot : s.slots) collect(slot, specs);
  }

  const Graph& graph_;
  std::mt19937_64 random_;
  ComposeLimits limits_;
  int steps_ = 0;
};

/// All behind `out` as one spec.
inline KernelSpec spec_behind(const Graph& graph, const GraphTensor& out) {
  return WholeFusion(graph, 1).run(graph.resolve(out.edge()).source)->spec;
}

}  // namespace luminal::kernel::test
