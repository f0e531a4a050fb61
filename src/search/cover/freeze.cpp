#include "search/cover/freeze.h"

#include <algorithm>
#include <set>

#include "kernel/cost.h"
#include "runtime/prepared_weights.h"

namespace luminal::search {
namespace {

/// Blocks are packed as they are, other weights as f32 at least: a copy of narrower ones would be larger than they are.
bool is_packed_alike(Dtype dtype) { return is_quantized(dtype) || kernel::mean_element_bytes(dtype) >= 4; }

/// By class: whether it is a weight that no run writes, and that is worth packing.
std::vector<bool> weights_of(const Graph& graph, const KernelGraph& kernel_graph,
                             const SaturatedGraph& saturated) {
  std::set<luminal::Value> written;
  for (const auto& [state, next] : kernel_graph.updates) written.insert(state);
  std::vector<bool> is_weight(saturated.cover.classes.size(), false);
  for (size_t t = 0; t < kernel_graph.tensors.size(); ++t) {
    const KernelGraph::Tensor& tensor = kernel_graph.tensors[t];
    if (tensor.kind == KernelGraph::Tensor::Kind::Input && tensor.value && !written.contains(*tensor.value) &&
        graph.is_weight(*tensor.value) && is_packed_alike(tensor.type.dtype))
      is_weight[static_cast<size_t>(saturated.class_of[t])] = true;
  }
  return is_weight;
}

bool folds(const kernel::KernelSpec& spec) {
  return std::ranges::any_of(spec.values(),
                             [](const kernel::Value& value) { return value.monoid.has_value(); });
}

/// Of a cover's kernels, by slot.
std::vector<std::vector<bool>> frozen_slots(const Cover& cover, const SpecStore& store,
                                            const std::vector<bool>& is_weight) {
  std::vector<std::vector<bool>> frozen;
  double bytes = 0;
  for (const CoverKernel& kernel : cover.kernels) {
    const kernel::KernelSpec& spec = store.at(kernel.spec);
    std::vector<bool>& own = frozen.emplace_back(spec.slots().size(), false);
    for (size_t slot = 0; slot < own.size() && folds(spec); ++slot) {
      const kernel::Slot& read = spec.slots()[slot];
      own[slot] = is_weight[static_cast<size_t>(kernel.inputs[slot])] && read.elements.to_symbols().empty();
      if (own[slot])
        bytes += static_cast<double>(read.elements.exec({})) * kernel::mean_element_bytes(read.dtype);
    }
  }
  if (bytes > static_cast<double>(runtime::PreparedWeights::usual_most_bytes()))
    for (std::vector<bool>& own : frozen) own.assign(own.size(), false);
  return frozen;
}

}  // namespace

void freeze_weights(const Graph& graph, const KernelGraph& kernel_graph, const SaturatedGraph& saturated,
                    const SearchOptions& options, SpecStore& store, Cover& cover) {
  const std::vector<bool> is_weight = options.pack_weights_once
                                          ? weights_of(graph, kernel_graph, saturated)
                                          : std::vector<bool>(saturated.cover.classes.size(), false);
  const std::vector<std::vector<bool>> frozen = frozen_slots(cover, store, is_weight);
  for (size_t k = 0; k < cover.kernels.size(); ++k) {
    CoverKernel& kernel = cover.kernels[k];
    kernel.spec = store.intern(kernel::with_frozen(store.at(kernel.spec), frozen[k]));
  }
}

}  // namespace luminal::search
