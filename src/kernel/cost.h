#pragma once
#include "kernel/spec.h"

/// What a spec costs, whatever its loops: the work that it does, the least time for it on a machine that was
/// measured, and the time that it is likely to take. This model is asked for every fusion that the cover tries.
/// codegen/schedules/cost.h has the model of a schedule's loops, which ranks what these leave.
namespace luminal::kernel {

/// Bytes that an element takes: a share of its block.
[[nodiscard]] double mean_element_bytes(Dtype dtype);

/// What a machine reaches, measured in its own process (see runtime/machine.h).
struct MachineLimits {
  int threads = 1;
  double flops_per_us = 50e3;         ///< f32 fma on all threads, two flops each
  double memory_bytes_per_us = 20e3;  ///< reads beyond the last cache, all threads
  double cache_bytes_per_us = 100e3;  ///< reads within the last cache
  double launch_us = 2;               ///< from one kernel to the next
  int64_t cache_bytes = 32 << 20;     ///< of the last level
  int vector_bytes = 32;
  double one_thread_flops_per_us = 50e3;  ///< f32 fma on one thread
  double l2_bytes_per_us = 200e3;         ///< reads within the threads' own caches, all threads
  int64_t l2_bytes = 1 << 20;             ///< of one thread
};

/// What one run does at given sizes.
struct Work {
  double flops = 0;  ///< as benchmarks count: an fma is two
  double operations =
      0;  ///< weighted scalar operations (ScalarCost::weight), index arithmetic and masks included
  double bytes_read = 0;  ///< distinct bytes of each slot touched
  double bytes_written = 0;
  double loads = 0;  ///< elements loaded, repeats included
};
[[nodiscard]] Work work_of(const KernelSpec& spec, const DimMap& dims);
/// Work::operations with named dims of typical_size.
[[nodiscard]] double typical_operations(const KernelSpec& spec);

/// The time that work takes at least: flops at the fma rate or bytes at the rate of the nearest level that
/// holds them all, whichever is longer.
[[nodiscard]] double roofline_us(double flops, double bytes, const MachineLimits& limits);

/// What a spec is likely to take before it has loops, in us: the greater of compute and memory time plus the
/// launch; contractions (sums of products with reuse) at the fma rate, other operations at vector rate,
/// gathered or strided loads dearer than contiguous ones.
[[nodiscard]] double predicted_us(const KernelSpec& spec, const DimMap& dims, const MachineLimits& limits);

}  // namespace luminal::kernel
