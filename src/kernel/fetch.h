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

/// An index expression with all dims known. Where it is affine over the coordinates, evaluating it takes as many
/// products as it has axes.
class BoundIndex {
 public:
  /// `dims` outlive it.
  BoundIndex(const Expression& index, const DimMap& dims);
  [[nodiscard]] int64_t operator()(std::span<const int64_t> at) const {
    if (!is_affine_) return index_.exec(*dims_, at);
    int64_t value = constant_;
    for (const auto& [axis, stride] : strides_) value += stride * at[static_cast<size_t>(axis)];
    return value;
  }

 private:
  Expression index_;
  const DimMap* dims_;
  bool is_affine_ = false;
  int64_t constant_ = 0;
  std::vector<std::pair<int, int64_t>> strides_;
};

/// What a Load or an Index shows.
class OperandReader {
 public:
  /// All of them outlive it.
  OperandReader(const Operand& operand, std::span<const TensorData* const> slots, const DimMap& dims);
  /// Writes the element at coordinates to `place`, in the operand's dtype. Errors: InternalError if an index leaves its
  /// buffer.
  void read(std::span<const int64_t> at, std::byte* place) const;

 private:
  struct Fill {
    BoundIndex predicate;
    uint64_t bits;
  };
  const Operand* operand_;
  const TensorData* slot_ = nullptr;
  int64_t elements_ = 0;  ///< of the slot
  size_t size_;           ///< bytes of one
  BoundIndex index_;
  std::vector<Fill> fills_;
};

}  // namespace luminal::kernel
