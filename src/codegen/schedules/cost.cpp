#include "codegen/schedules/cost.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "luminal/block_format.h"
#include "scalar/typing.h"

namespace luminal::codegen {

kernel::MachineLimits nominal_limits(const Target& target) {
  constexpr double kFlopsPerCycle = 32;    // two fma units of 32 bytes
  constexpr double kL2BytesPerUs = 100e3;  // of one thread
  const double one_thread = kFlopsPerCycle * kRates.cycles_per_us;
  return {.threads = target.threads,
          .flops_per_us = one_thread * target.threads,
          .memory_bytes_per_us = kRates.far_bytes_per_us * std::min(target.threads, 2),
          .cache_bytes_per_us = kRates.near_bytes_per_us * target.threads,
          .launch_us = kRates.stage_us,
          .cache_bytes = target.l3_bytes,
          .vector_bytes = target.vector_bytes,
          .one_thread_flops_per_us = one_thread,
          .l2_bytes_per_us = kL2BytesPerUs * target.threads,
          .l2_bytes = target.l2_bytes};
}

double Roofline::us(double cycles, int stages, double slow) const {
  return std::max(bytes * slow / bytes_per_us, cycles / (kRates.cycles_per_us * threads)) +
         stages * kRates.stage_us;
}

Roofline roofline_of(const kernel::KernelSpec& spec, const DimMap& top, const Target& target) {
  Roofline r{.threads = target.threads};
  const auto size = [&](Dtype dtype, const Expression& elements) {
    return kernel::mean_element_bytes(dtype) * static_cast<double>(elements.exec(top));
  };
  for (const kernel::Slot& s : spec.slots()) r.bytes += size(s.dtype, s.elements);
  for (const kernel::Output& o : spec.outputs())
    r.bytes += size(spec.values()[static_cast<size_t>(o.value)].dtype(), o.elements);
  // What fits the last cache is likely to be there.
  const bool cached = r.bytes < static_cast<double>(target.l3_bytes) / 2;
  r.bytes_per_us = cached ? kRates.near_bytes_per_us * target.threads
                          : kRates.far_bytes_per_us * std::min(target.threads, 2);
  return r;
}

double node_cycles(ScalarOp op) { return 0.5 * cost_of(op).weight(); }

double body_cycles(const ScalarFunction& body) { return 0.5 * body.cost().weight(); }

double body_cycles(const kernel::KernelSpec& spec, const kernel::Value& value, kernel::AxisSet each) {
  const std::vector<kernel::AxisSet> axes = kernel::node_axes(value, spec.values());
  double cycles = 0;
  for (size_t i = 0; i < axes.size(); ++i)
    if ((axes[i] & each) != 0) cycles += 0.5 * cost_of(value.body.nodes()[i].op).weight();
  return cycles;
}

double body_cycles(const kernel::KernelSpec& spec, kernel::AxisSet each) {
  double cycles = 0;
  for (const kernel::Value& v : spec.values()) cycles += body_cycles(spec, v, each);
  return cycles;
}

namespace {

/// Of the element that each lane reads, whatever masks it.
double element_cycles(const Expression& index, const AxisGroup& group, int lanes) {
  const auto even = evenly(index, group);
  if (!even) return 3.0 * lanes;
  const int64_t stride = std::abs(even->stride);
  // Every second element is two loads and a shuffle. Beyond a cache line every lane is a miss of its own sooner
  // or later.
  const double straight = stride <= 1 ? 0.5 : stride == 2 ? 2.0 : (stride < 16 ? 1.0 : 4.0) * lanes;
  if (even->inner == group.axes.size() || even->size % lanes == Expression(0) ||
      repeated(index, group, *even, lanes))
    return straight;
  return even->size.range().min >= lanes ? 2 * straight + 2 : std::max<double>(straight, lanes);
}

/// Operations of a description, the level's conversion and the sum of its parts.
struct DecodeWork {
  double operations = 3, bytes = 0, look_ups = 0;
};
DecodeWork decode_work(const BlockFormat& format) {
  DecodeWork work;
  std::set<const BlockExpression::Node*> seen;
  const auto add = [&](const auto& self, const BlockExpression::Node& node) -> void {
    if (!node.has_bytes || !seen.insert(&node).second) return;
    using Op = BlockExpression::Op;
    (node.op == Op::Byte ? work.bytes : node.op == Op::Table ? work.look_ups : work.operations) += 1;
    if (node.op != Op::Byte) {
      self(self, *node.a);
      if (node.b) self(self, *node.b);
    }
  };
  add(add, *format.scale.node());
  add(add, *format.level.node());
  for (const BlockExpression& offset : format.offset) add(add, *offset.node());
  return work;
}

}  // namespace

// Along a block its bytes are neighbours; where lanes lie apart each byte of each lane is a load of its own.
double decode_cycles(const kernel::KernelSpec& spec, const kernel::Operand& operand, const AxisGroup& group,
                     int lanes) {
  if (operand.kind != kernel::Operand::Kind::Load) return 0;
  const Dtype stored = spec.slots()[static_cast<size_t>(operand.slot)].dtype;
  if (!is_quantized(stored)) return 0;
  const DecodeWork work = decode_work(block_format(stored));
  const auto even = evenly(operand.index, group);
  const bool neighbours = even && std::abs(even->stride) <= 1;
  const bool alike = !depends_on(operand.index, group.axes);
  return 0.5 * work.operations + work.bytes * (alike || neighbours ? 0.5 : 2.0 * lanes) +
         work.look_ups * (alike ? 1 : lanes);
}

double load_cycles(const kernel::KernelSpec& spec, const kernel::Operand& operand, const AxisGroup& group,
                   int lanes) {
  constexpr double kMask = 1, kSpread = 6, kIndex = 4;
  switch (operand.kind) {
    case kernel::Operand::Kind::Value:
      return 0;
    case kernel::Operand::Kind::Index:
      return depends_on(operand.index, group.axes) ? kIndex : 0;
    case kernel::Operand::Kind::Load:
      break;
  }
  const double decode = decode_cycles(spec, operand, group, lanes);
  const double element = decode > 0 ? decode : element_cycles(operand.index, group, lanes);
  if (operand.masks.empty()) return element;
  // Masks of every second element are spread over twice as many lanes.
  const auto even = evenly(operand.index, group);
  const double spread = even && std::abs(even->stride) == 2 ? kSpread : 0;
  return element + spread + kMask * static_cast<double>(operand.masks.size());
}

double load_cycles(const kernel::KernelSpec& spec, std::span<const kernel::Operand> operands,
                   const AxisGroup& group, int lanes) {
  double cycles = 0;
  for (const kernel::Operand& operand : operands) cycles += load_cycles(spec, operand, group, lanes);
  return cycles;
}

double scattered(double bytes, double beyond) { return 1 + std::min(3.0, beyond / bytes); }

double unevenness(double tasks, int threads) {
  const auto whole = static_cast<int64_t>(tasks), rounds = whole / threads;
  const double longest = whole % threads == 0
                             ? static_cast<double>(rounds) + tasks - static_cast<double>(whole)
                             : static_cast<double>(rounds + 1);
  return longest * threads / tasks * (1 + 0.5 * (threads - 1) / tasks);
}

}  // namespace luminal::codegen
