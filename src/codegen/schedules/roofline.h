#pragma once
#include "codegen/target.h"
#include "kernel/spec.h"

namespace luminal::codegen {

/// What families that move data compare their candidates by: time in memory against time in vector units. The
/// rates are those of a common server core; measurements correct what matters.
struct Roofline {
  double bytes = 0;  ///< read and written, each element of a slot once
  double bytes_per_us = 10e3, cycles_per_us = 3000;
  int threads = 1;
  double stage_us = 2;
  /// `cycles` are those of all threads together; `slow` stretches memory time (short strides).
  [[nodiscard]] double us(double cycles, int stages, double slow = 1) const;
};
[[nodiscard]] Roofline roofline_of(const kernel::KernelSpec& spec, const DimMap& top, const Target& target);

/// How much longer memory takes to deliver pieces of `bytes` that lie a long way apart: the hardware fetches
/// ahead only within a page, and each piece is a miss and perhaps a translation of its own.
[[nodiscard]] double scattered(double bytes);

}  // namespace luminal::codegen
