#include "codegen/schedules/block_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/schedules/cost.h"

namespace luminal::codegen {

std::vector<Id> fold_threads(StageBuilder& b, Program& program, const BlockShape& shape,
                             std::span<const FoldOp> ops, std::vector<Id> totals) {
  if (shape.sharers() == 1) return totals;
  const Expression me = b.thread(), share = shape.share(me);
  std::vector<int> parts;
  for (size_t f = 0; f < ops.size(); ++f) {
    parts.push_back(add_buffer(program, {.name = fmt::format("fold{}", program.buffers.size()),
                                         .space = Space::Block,
                                         .dtype = ops[f].dtype,
                                         .elements = shape.threads}));
    b.store(parts[f], me, totals[f]);
  }
  b.barrier();
  for (int half = shape.sharers() / 2; half > 0; half /= 2) {
    b.if_holds(share.lt(half), [&] {
      for (size_t f = 0; f < ops.size(); ++f) {
        const Id mine = b.load(parts[f], me), other = b.load(parts[f], me + half * shape.step());
        b.store(parts[f], me, b.compute(ops[f].op, {mine, other}));
      }
    });
    b.barrier();
  }
  for (size_t f = 0; f < ops.size(); ++f) totals[f] = b.load(parts[f], me - share * shape.step());
  return totals;
}

int64_t fold_bytes(const BlockShape& shape, std::span<const FoldOp> ops) {
  int64_t bytes = 0;
  if (shape.sharers() == 1) return bytes;
  for (const FoldOp& op : ops)
    bytes += (shape.threads * element_bytes(op.dtype) + 63) / 64 * 64;  // workspace_of
  return bytes;
}

int fold_barriers(const BlockShape& shape) {
  int barriers = 1;
  for (int half = shape.sharers() / 2; half > 0; half /= 2) ++barriers;
  return shape.sharers() == 1 ? 0 : barriers;
}

double thread_load_cycles(const kernel::KernelSpec& spec, std::span<const kernel::Operand> operands,
                          const AxisGroup& group) {
  constexpr int kLanes = 16, kAtOnce = 4;  // neighbours' accesses are one where they lie side by side
  return 1 + load_cycles(spec, operands, group, kLanes) / kAtOnce;
}

std::vector<int> block_sizes(const Target& target) {
  std::vector<int> sizes;
  for (const int threads : {64, 128, 256})
    if (threads <= target.block_threads) sizes.push_back(threads);
  return sizes;
}

double block_cycles(const Target& target, double blocks, int threads, double cycles, double barriers) {
  constexpr double kBlock = 500, kThread = 2, kBarrier = 30, kKept = 60;
  const double turns = static_cast<double>(threads) / std::clamp(target.block_width, 1, threads);
  const double waiting = target.block_width > 1 ? kBarrier : kKept;
  return blocks * (kBlock + turns * (kThread + cycles + barriers * waiting));
}

// The device takes blocks as a CPU's threads take tasks: of few blocks some units get none. Threads that run one after the
// other ask for elements one by one.
double block_us(const kernel::KernelSpec& spec, const DimMap& top, const Target& target, double cycles,
                double blocks, int stages) {
  const double slow = target.block_width > 1 ? 1 : 1.2;
  const double uneven = unevenness(std::max(1.0, blocks), target.threads);
  return roofline_of(spec, top, target).us(cycles * uneven, stages, slow);
}

}  // namespace luminal::codegen
