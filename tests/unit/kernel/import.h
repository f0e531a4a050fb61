#pragma once
#include <string>
#include <vector>

#include "kernel/canonical.h"
#include "luminal/graph.h"
#include "luminal/ops.h"

namespace luminal::kernel::test {

/// A node of a graph as a spec, and the values its slots read.
struct Imported {
  KernelSpec spec;
  std::vector<luminal::Value> slots;
};

inline Expression row_major(std::span<const int> axes, std::span<const Expression> extents) {
  Expression index = 0;
  for (const int a : axes)
    index = index * extents[static_cast<size_t>(a)] + Expression::index(a, extents[static_cast<size_t>(a)]);
  return index;
}

/// Straight from the op's record: loads through views, the lowering as body, a reduction with its
/// monoid.
inline Imported import_node(const Graph& graph, NodeId id) {
  const luminal::Node& node = graph.node(id);
  SpecParts parts;
  std::vector<luminal::Value> slots;
  Value v;
  ScalarBuilder b;
  const bool reduces = node.op->monoid.has_value();
  parts.extents = reduces ? node.inputs[0].view.dims() : node.outputs[0].dims;
  std::vector<Scalar> inputs;
  for (const Edge& e : node.inputs) {
    const Dtype dtype = graph.type(e.source).dtype;
    const luminal::Node& from = graph.node(e.source.node);
    if (from.op == &kConstant && e.view.masks().empty()) {  // stands in the body
      const Number n = from.attributes.get<Number>("value");
      inputs.push_back(n.is_integer() ? b.constant(dtype, n.as<int64_t>())
                                      : b.constant(dtype, n.as<double>()));
      continue;
    }
    parts.slots.push_back({dtype, e.view.n_physical_elements()});
    v.operands.push_back({.kind = Operand::Kind::Load,
                          .dtype = dtype,
                          .slot = static_cast<int>(slots.size()),
                          .index = e.view.index_expression(),
                          .masks = e.view.masks()});
    inputs.push_back(b.input(static_cast<int>(v.operands.size()) - 1, dtype));
    slots.push_back(e.source);
  }
  std::vector<int> kept;
  for (int a = 0; a < static_cast<int>(parts.extents.size()); ++a) {
    bool reduced = false;
    if (reduces)
      for (const int64_t r : node.attributes.get<std::vector<int64_t>>("axes")) reduced |= r == a;
    (reduced ? v.reduced : kept).push_back(a);
  }
  v.axes = kept;
  const Dtype dtype = node.outputs[0].dtype;
  if (reduces) {
    v.monoid = node.op->monoid;
    const Dtype wide = is_float(dtype) ? accumulation_dtype(dtype) : dtype;
    v.body = b.finish(b.convert(inputs[0], wide));
  } else if (node.op == &kIota) {
    const Expression flat = row_major(kept, parts.extents);
    v.operands.push_back({.kind = Operand::Kind::Index,
                          .dtype = Dtype::I64,
                          .index = node.attributes.get<Expression>("expression").substitute_flat_index(flat),
                          .masks = {}});
    v.body = b.finish(b.convert(b.input(0, Dtype::I64), dtype));
  } else if (node.op == &kConstant) {
    const Number n = node.attributes.get<Number>("value");
    v.body =
        b.finish(n.is_integer() ? b.constant(dtype, n.as<int64_t>()) : b.constant(dtype, n.as<double>()));
  } else {
    v.body = b.finish(node.op->lower(b, inputs, node.attributes));
  }
  const Dtype body = v.dtype();
  parts.values.push_back(std::move(v));
  if (body != dtype) {
    ScalarBuilder c;
    Value rounded{.axes = kept};
    rounded.operands.push_back({.kind = Operand::Kind::Value, .dtype = body, .value = 0, .masks = {}});
    rounded.body = c.finish(c.convert(c.input(0, body), dtype));
    parts.values.push_back(std::move(rounded));
  }
  Expression elements = 1;
  for (const int a : kept) elements *= parts.extents[static_cast<size_t>(a)];
  parts.outputs.push_back(
      {static_cast<int>(parts.values.size()) - 1, row_major(kept, parts.extents), elements});
  std::vector<uint32_t> names;
  for (const luminal::Value& s : slots) names.push_back(s.node.index);
  Canonical c = canonical(std::move(parts), names);
  Imported result{.spec = c.spec, .slots = {}};
  for (const int k : c.slots) result.slots.push_back(slots[static_cast<size_t>(k)]);
  return result;
}

[[nodiscard]] inline bool can_import(const luminal::Node& node) {
  return node.op->monoid || node.op == &kIota || node.op == &kConstant ||
         (node.op->is(Trait::Elementwise) && node.op->lower);
}

}  // namespace luminal::kernel::test
