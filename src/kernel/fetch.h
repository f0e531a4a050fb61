#pragma once
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "kernel/spec.h"
#include "luminal/tensor_data.h"

/// Reading a spec element by element, as its definition says: for what checks kernels.
namespace luminal::kernel {

/// All coordinates of a box in row-major order, in the full vector of axes.
class IterationSpace {
 public:
  /// `sizes`: of all axes of the spec; they outlive it.
  IterationSpace(std::vector<int> axes, std::span<const int64_t> sizes)
      : axes_(std::move(axes)), sizes_(sizes) {
    for (const int a : axes_) count_ *= sizes_[static_cast<size_t>(a)];
  }
  [[nodiscard]] int64_t count() const { return count_; }
  void start(std::span<int64_t> at) const {
    for (const int a : axes_) at[static_cast<size_t>(a)] = 0;
  }
  void step(std::span<int64_t> at) const {
    for (size_t k = axes_.size(); k-- > 0;) {
      const auto a = static_cast<size_t>(axes_[k]);
      if (++at[a] < sizes_[a]) return;
      at[a] = 0;
    }
  }
  [[nodiscard]] int64_t position(std::span<const int64_t> at) const {
    int64_t p = 0;
    for (const int a : axes_) p = p * sizes_[static_cast<size_t>(a)] + at[static_cast<size_t>(a)];
    return p;
  }

 private:
  std::vector<int> axes_;
  std::span<const int64_t> sizes_;
  int64_t count_ = 1;
};

/// Writes what a Load or an Index shows at coordinates to `place`, in the operand's dtype. Errors: InternalError
/// if an index leaves its buffer.
void fetch(const Operand& operand, std::span<const TensorData* const> slots, const DimMap& dims,
           std::span<const int64_t> at, std::byte* place);

}  // namespace luminal::kernel
