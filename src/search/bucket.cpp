#include "search/bucket.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <set>
#include <unordered_set>
#include <vector>

#include "luminal/error.h"
#include "symbolic/node.h"

namespace luminal::search {

/// One name may carry different facts in different formulas.
void collect_dims(const Expression& e, Dims& dims) {
  const symbolic::Node& n = e.node();
  if (n.kind == symbolic::Kind::Dim) {
    DimFacts& facts = dims.try_emplace(n.name, n.facts).first->second;
    facts.min = std::max(facts.min, n.facts.min);
    facts.max = std::min(facts.max, n.facts.max);
    facts.multiple_of = std::lcm(facts.multiple_of, n.facts.multiple_of);
    return;
  }
  for (const Expression& a : n.args) collect_dims(a, dims);  // extents of index variables among them
  for (const symbolic::Term& t : n.terms) collect_dims(t.monomial, dims);
}

Dims dims_of(const KernelGraph& kernel_graph) {
  std::unordered_set<const symbolic::Node*> seen;
  Dims dims;
  const auto add = [&](const Expression& e) {
    if ((e.node().uses_dim || e.node().uses_index) && seen.insert(&e.node()).second) collect_dims(e, dims);
  };
  for (const KernelGraph::Tensor& tensor : kernel_graph.tensors) {
    for (const Expression& dim : tensor.type.dims) add(dim);
    if (tensor.kind != KernelGraph::Tensor::Kind::Kernel) continue;
    for (const Expression& extent : tensor.spec.extents()) add(extent);
    for (const kernel::Slot& slot : tensor.spec.slots()) add(slot.elements);
    for (const kernel::Output& output : tensor.spec.outputs()) {
      add(output.index);
      add(output.elements);
    }
    for (const kernel::Value& value : tensor.spec.values())
      for (const kernel::Operand& operand : value.operands) {
        add(operand.index);
        for (const kernel::Mask& mask : operand.masks) add(mask.predicate);
      }
  }
  return dims;
}

codegen::Bucket bucket_of(const Dims& dims, const DimMap& sizes) {
  constexpr int64_t kVector = 16;
  // A run over nothing: every size is known, and most kernels are not needed at all.
  const bool nothing = std::ranges::any_of(dims, [&](const auto& entry) {
    const auto size = sizes.find(entry.first);
    return size != sizes.end() && size->second == 0;
  });
  codegen::Bucket bucket;
  for (const auto& [dim, promised] : dims) {
    const auto size = sizes.find(dim);
    if (size == sizes.end()) continue;
    DimFacts facts{.min = size->second, .max = size->second};
    if (size->second > 1 && !nothing) {
      const auto above = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(size->second)));
      facts.multiple_of = promised.multiple_of;
      if (size->second % kVector == 0) facts.multiple_of = std::lcm(facts.multiple_of, kVector);
      const int64_t m = facts.multiple_of;
      facts.min = (std::max(above / 2 + 1, promised.min) + m - 1) / m * m;
      facts.max = std::min(above, promised.max) / m * m;
    }
    bucket.facts.emplace(dim, facts);
  }
  return bucket;
}

namespace {

bool takes(const ShapeTracker& view, const DimMap& dims) {
  try {
    view.check(dims);
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// The graph's views that take these sizes.
std::vector<const ShapeTracker*> views_for(const Graph& graph, const DimMap& sizes) {
  std::vector<const ShapeTracker*> views;
  for (const NodeId id : graph.nodes())
    for (const Edge& edge : graph.node(id).inputs)
      if (takes(edge.view, sizes)) views.push_back(&edge.view);
  return views;
}

}  // namespace

std::vector<DimMap> sizes_to_judge(const Graph& graph, const codegen::Bucket& bucket) {
  constexpr int64_t kRemainders =
      64;  // lanes of the longest vectors, and more than the width of the widest tiles
  const DimMap top = bucket.top();
  const std::vector<const ShapeTracker*> views = views_for(graph, top);
  std::vector<DimMap> list;
  for (int64_t step = 0; step < kRemainders; ++step) {
    DimMap sizes = top;
    int64_t dim = 0;
    for (const auto& [name, facts] : bucket.facts) {
      const int64_t count = std::min(kRemainders, (facts.max - facts.min) / facts.multiple_of + 1);
      // Dims go through their sizes in different orders: all of them at their least at first.
      const int64_t place = step * (1 + 2 * (dim++ % 3)) % count;
      sizes.insert_or_assign(name, facts.min + place * facts.multiple_of);
    }
    if (sizes != top && std::ranges::find(list, sizes) == list.end() &&
        std::ranges::all_of(views, [&](const auto* view) { return takes(*view, sizes); }))
      list.push_back(std::move(sizes));
  }
  return list;
}

bool takes_sizes(const Graph& graph, const DimMap& known, const DimMap& sizes) {
  return std::ranges::all_of(views_for(graph, known), [&](const auto* view) { return takes(*view, sizes); });
}

codegen::Bucket admitted(const Graph& graph, codegen::Bucket bucket, const DimMap& sizes) {
  if (bucket.facts.empty()) return bucket;
  const std::vector<const ShapeTracker*> views = views_for(graph, sizes);
  const auto fits = [&] {
    DimMap dims = sizes;
    for (const auto& [name, size] : bucket.top()) dims.insert_or_assign(name, size);
    return std::ranges::all_of(views, [&](const ShapeTracker* view) { return takes(*view, dims); });
  };
  for (auto& [name, facts] : bucket.facts) {
    if (fits()) break;
    const int64_t m = facts.multiple_of;
    int64_t refused = facts.max;
    facts.max = sizes.at(name);
    if (!fits()) continue;  // a later dim has to give way as well
    for (int64_t taken = facts.max; refused - taken > m; facts.max = taken) {
      facts.max = taken + (refused - taken) / m / 2 * m;
      (fits() ? taken : refused) = facts.max;
    }
  }
  return bucket;
}

bool holds(const codegen::Bucket& bucket, const DimMap& sizes) {
  return std::ranges::all_of(bucket.facts, [&](const auto& entry) {
    const auto size = sizes.find(entry.first);
    return size != sizes.end() && entry.second.min <= size->second && size->second <= entry.second.max &&
           size->second % entry.second.multiple_of == 0;
  });
}

codegen::Bucket restricted(const codegen::Bucket& bucket, const kernel::KernelSpec& spec) {
  codegen::Bucket own;
  for (const std::string& dim : spec.symbols())
    if (const auto facts = bucket.facts.find(dim); facts != bucket.facts.end()) own.facts.insert(*facts);
  return own;
}

std::vector<DimMap> distinct_for(const kernel::KernelSpec& spec, std::span<const DimMap> list) {
  const std::vector<std::string> dims = spec.symbols();
  std::vector<DimMap> distinct;
  std::set<std::vector<int64_t>> seen;
  for (const DimMap& sizes : list) {
    std::vector<int64_t> own;
    for (const std::string& dim : dims) own.push_back(sizes.at(dim));
    if (seen.insert(std::move(own)).second) distinct.push_back(sizes);
  }
  return distinct;
}

std::string to_string(const codegen::Bucket& bucket) {
  std::string text;
  for (const auto& [dim, facts] : bucket.facts) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", dim, facts.min);
    if (facts.max != facts.min) text += fmt::format("..{}", facts.max);
    if (facts.multiple_of != 1 && facts.max != facts.min) text += fmt::format(" /{}", facts.multiple_of);
  }
  return text;
}

}  // namespace luminal::search
