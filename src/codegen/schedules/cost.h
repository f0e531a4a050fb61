#pragma once
#include <span>

#include "codegen/schedules/ramp.h"
#include "codegen/target.h"
#include "kernel/axes.h"
#include "kernel/cost.h"
#include "kernel/spec.h"

/// The parts of every family's prediction: cycles of the threads, bytes through memory, stages to begin.
///
/// A prediction ranks the candidates of a spec, and in Fast mode the fusions of a graph. Its rates are nominal,
/// those of a common server core, so that Fast chooses the same plan in every run on a kind of machine; cache
/// sizes, vector width and threads are the target's. What was measured (kernel::MachineLimits, and the times of
/// kernels) corrects it where a search measures. kernel/cost.h has the model of a spec before it has loops.
namespace luminal::codegen {

/// Nominal rates of one thread.
struct Rates {
  double cycles_per_us = 3000;
  double near_bytes_per_us = 25e3;  ///< from the last cache
  double far_bytes_per_us = 15e3;   ///< from memory; two threads take all of it
  double stage_us = 2;              ///< from one stage to the next, a launch's first one too
  [[nodiscard]] double near_bytes_per_cycle() const { return near_bytes_per_us / cycles_per_us; }
  [[nodiscard]] double far_bytes_per_cycle() const { return far_bytes_per_us / cycles_per_us; }
};
inline constexpr Rates kRates;
/// The limits of a machine of these rates: what Fast mode asks the model of kernel/cost.h with.
[[nodiscard]] kernel::MachineLimits nominal_limits(const Target& target);

/// Time in memory against time in vector units, for families that move data.
struct Roofline {
  double bytes = 0;  ///< read and written, each element of a slot once
  double bytes_per_us = kRates.far_bytes_per_us;
  int threads = 1;
  /// `cycles` are those of all threads together; `slow` stretches memory time (short strides).
  [[nodiscard]] double us(double cycles, int stages, double slow = 1) const;
};
[[nodiscard]] Roofline roofline_of(const kernel::KernelSpec& spec, const DimMap& top, const Target& target);

/// Cycles of computing a vector of a body's, its loads not counted: two vector units.
[[nodiscard]] double body_cycles(const ScalarFunction& body);
/// Of one operation.
[[nodiscard]] double node_cycles(ScalarOp op);
/// Of all that the bodies of a spec compute at each of these axes' coordinates. The rest is the same at all of
/// them and leaves their loops.
[[nodiscard]] double body_cycles(const kernel::KernelSpec& spec, kernel::AxisSet each);
[[nodiscard]] double body_cycles(const kernel::KernelSpec& spec, const kernel::Value& value,
                                 kernel::AxisSet each);
/// Cycles of loading a vector along the group: half a cycle where lanes are neighbours or one element, more
/// where they may pass the end of a row in memory, one a lane where they lie apart, four a lane where each is
/// in a cache line of its own. Masks come on top. Nothing for a value that was computed.
/// Blocks take their decoding on top.
[[nodiscard]] double load_cycles(const kernel::KernelSpec& spec, const kernel::Operand& operand,
                                 const AxisGroup& group, int lanes);
/// The part of it that decodes blocks.
[[nodiscard]] double decode_cycles(const kernel::KernelSpec& spec, const kernel::Operand& operand,
                                   const AxisGroup& group, int lanes);
/// Of all operands of a body.
[[nodiscard]] double load_cycles(const kernel::KernelSpec& spec, std::span<const kernel::Operand> operands,
                                 const AxisGroup& group, int lanes);

/// How much longer memory takes to deliver pieces of `bytes` that lie a long way apart: the hardware fetches
/// ahead only within a page, and each piece is a miss and perhaps a translation of its own. `beyond`: bytes that could come
/// in the time that a piece takes longer than its own.
[[nodiscard]] double scattered(double bytes, double beyond = 300);

/// How much longer `tasks` equal tasks take than if they could be cut at will. Threads are never equally fast,
/// so that those that are done wait for half a task of the last one; the last task may be a part of one.
[[nodiscard]] double unevenness(double tasks, int threads);

}  // namespace luminal::codegen
