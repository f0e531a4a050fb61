#include "codegen/schedules/task_grid.h"

#include <algorithm>
#include <cmath>

#include "kernel/axes.h"
#include "symbolic/movement.h"

namespace luminal::codegen {

void TaskGrid::visit(StageBuilder& b, const Expression& task, size_t axis_count,
                     const std::function<void(const Coordinates&)>& on_row,
                     const std::function<void(const Coordinates&, const Expression&)>& on_block) const {
  const Expression columns = blocks().ceil_div(blocks_per_task);
  const Expression first_row = task / columns * rows_per_task;
  const Expression first_block = task % columns * blocks_per_task;
  b.loop(Expression(rows_per_task).min(rows() - first_row), LoopKind::Serial, [&](const Expression& r) {
    Coordinates at(axis_count, 0);
    outer.place(first_row + r, at);
    on_row(at);
    b.loop(Expression(blocks_per_task).min(blocks() - first_block), LoopKind::Serial,
           [&](const Expression& c) { on_block(at, (first_block + c) * width); });
  });
}

TaskGrid grid_of(std::span<const Expression> extents, const std::vector<int>& axes, int64_t inner_axes,
                 int64_t width) {
  const auto middle =
      axes.end() - std::min<std::ptrdiff_t>(inner_axes, static_cast<std::ptrdiff_t>(axes.size()));
  return {.outer = group_of(extents, {axes.begin(), middle}),
          .inner = group_of(extents, {middle, axes.end()}),
          .width = width};
}

void cut_into_tasks(TaskGrid& w, double cycles_per_block, const DimMap& top, const Target& target,
                    int per_thread) {
  constexpr double kCyclesPerTask = 20000;  // about 8 us: a task costs well under one to hand out
  const auto rows = static_cast<double>(std::max<int64_t>(1, w.rows().exec(top)));
  const auto blocks = static_cast<double>(std::max<int64_t>(1, w.blocks().exec(top)));
  const double of_a_thread = std::ceil(rows * blocks / target.threads);
  const double wanted =
      std::max({1.0, kCyclesPerTask / cycles_per_block, std::ceil(of_a_thread / per_thread)});
  const double size = std::min(of_a_thread, wanted);
  if (size >= blocks) {
    w.blocks_per_task = static_cast<int64_t>(blocks);
    w.rows_per_task = static_cast<int64_t>(std::ceil(size / blocks));
  } else {
    w.rows_per_task = 1;
    w.blocks_per_task = static_cast<int64_t>(std::ceil(size));
  }
}

namespace {

/// By node of a body: it is an index that nothing but casts read. These are as wide as what they make of it.
std::vector<bool> cast_indices(const kernel::Value& value) {
  const auto& nodes = value.body.nodes();
  std::vector<bool> found(nodes.size(), false);
  for (size_t i = 0; i < nodes.size(); ++i)
    found[i] = nodes[i].op == ScalarOp::Input &&
               value.operands[nodes[i].payload].kind == kernel::Operand::Kind::Index;
  for (const ScalarNode& node : nodes)
    for (size_t k = 0; node.op != ScalarOp::Convert && k < static_cast<size_t>(arity(node.op)); ++k)
      found[node.operands[k].index] = false;
  for (const Scalar output : value.body.outputs()) found[output.index] = false;
  return found;
}

}  // namespace

int natural_lanes(const kernel::KernelSpec& spec, const Target& target) {
  int64_t widest = 1;
  for (const kernel::Value& v : spec.values()) {
    const std::vector<kernel::AxisSet> axes = kernel::node_axes(v, spec.values());
    const std::vector<bool> is_cast = cast_indices(v);
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] != 0 && !is_cast[i]) widest = std::max(widest, element_bytes(v.body.nodes()[i].dtype));
  }
  return target.lanes(static_cast<int>(widest));
}

std::vector<int> memory_order(const kernel::KernelSpec& spec, std::span<const int> axes,
                              const Expression& index) {
  std::vector<int> order;
  for (const kernel::DenseAxis& a : kernel::dense_order(index, spec.extents())) order.push_back(a.axis);
  std::ranges::reverse(order);
  for (const int a : axes)  // all of them where the index is no plain box
    if (std::ranges::find(order, a) == order.end()) order.insert(order.begin(), a);
  return order;
}

std::vector<int> memory_order(const kernel::KernelSpec& spec, const kernel::Output& output) {
  return memory_order(spec, spec.values()[static_cast<size_t>(output.value)].axes, output.index);
}

}  // namespace luminal::codegen
