#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernel/spec.h"
#include "luminal/tensor_data.h"

namespace luminal::kernel {

/// Finds the elements of a spec's outputs that its sums leave open: finite numbers overflow on the way. Added in
/// one order they come to an infinity, in another to one of the other sign, to NaN, or to a finite number; and a
/// product that overflows is finite where an fma adds it up. Such elements say nothing about a kernel.
///
///   OverflowFinder finder(spec, slots, dims);
///   if (finder.overflows(0, position).value_or(false)) ...  // any value there is right
///
/// Evaluates one element at a time from the spec's definition and keeps what it met. One thread at a time.
class OverflowFinder {
 public:
  /// By slot; the spec and the data outlive the finder. It evaluates bodies `most_terms` times in all.
  OverflowFinder(const KernelSpec& spec, std::span<const TensorData* const> slots, const DimMap& dims,
                 int64_t most_terms = 20'000'000);
  ~OverflowFinder();
  /// Element `position` of an output: whether it hangs on such a sum. None where that takes more terms than are
  /// left.
  [[nodiscard]] std::optional<bool> overflows(size_t output, int64_t position);
  /// Terms that all answers took together.
  [[nodiscard]] int64_t terms() const;

 private:
  class Elements;
  std::unique_ptr<Elements> elements_;
};

}  // namespace luminal::kernel
