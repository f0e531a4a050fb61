#pragma once
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "luminal/expression.h"
#include "luminal/number.h"

/// Views: how a tensor's logical coordinates find their place in a dense buffer, without a copy.
///
///   auto v = ShapeTracker::contiguous({2, 6}).split_dims(1, 3).permute({2, 0, 1});
///   assert(to_string(v.dims()) == "[3, 2, 2]");
///   assert(v.index_expression().to_string() == "i0 + 6*i1 + 3*i2");
///
/// A view is a chain of movement steps plus its composed form: dims, one index expression over the
/// coordinates i0, i1, ..., and an ordered list of (predicate, fill) for coordinates that padding made.
/// Composition is substitution, so every step works on every view, over symbolic dims too; "not contiguous"
/// is never an obstacle. Equality and hashing use the composed form and the buffer's dims. Views are values:
/// movement returns a new one. Thread safety: as any value (luminal.h).
namespace luminal {

/// One movement: a one-to-one map between the valid output coordinates and (input coordinate, free
/// coordinate) pairs.
///
/// Output coordinates o are i0.. over `out_dims`; `in_of_out[a]` and `free_of_out[f]` are expressions over
/// them, meaningful where `out_valid` is 1; elsewhere the value is `fill`. Pairs are i0.. over `in_dims`
/// followed by `free_dims`; `out_of_in[b]` are expressions over them, meaningful where `in_valid` is 1: then
/// (in, free) -> out is the inverse. Free axes are what an expand repeats and what a pool reads more than
/// once: the gradient of a step swaps both sides
/// (`adjoint`) and sums the free axes. All maps are exact at every size, dims of 0 included.
struct MovementStep {
  std::string name;  ///< "permute", "pad", ... for printing; parameters in `detail`
  std::string detail;
  Shape in_dims, free_dims, out_dims;
  std::vector<Expression> in_of_out, free_of_out;
  Expression out_valid = 1;
  Number fill = 0;
  std::vector<Expression> out_of_in;
  Expression in_valid = 1;
  bool invertible = true;  ///< false for steps whose inverse is not known; they have no gradient
  /// What sizes must satisfy for the step to make sense and could not be decided when it was made (a reshape
  /// between symbolic counts, a symbolic slice within its dim): (condition over dims, what it says).
  std::vector<std::pair<Expression, std::string>> conditions;

  /// The step that carries a gradient back: from `out_dims` to in_dims ++ free_dims, 0 where no output read
  /// the pair. Sum the last free_dims.size() axes afterwards. Errors: InternalError if not invertible.
  [[nodiscard]] MovementStep adjoint() const;
};

class ShapeTracker {
 public:
  using Pairs = std::span<const std::pair<Expression, Expression>>;
  /// A coordinate is padding if `predicate` is 0; its value is `fill` then. The first such entry in the list
  /// decides.
  struct Mask {
    Expression predicate;
    Number fill;
    friend bool operator==(const Mask&, const Mask&) = default;
  };

  ShapeTracker() = default;  ///< rank 0: one element
  [[nodiscard]] static ShapeTracker contiguous(Shape dims);
  /// Element (i0, i1, ..) at sum of i_k * strides[k]; the buffer holds up to the last element reached.
  [[nodiscard]] static ShapeTracker new_strided(Shape dims, std::span<const Expression> strides);
  /// Every dim broadcast: all coordinates read the buffer's one element.
  [[nodiscard]] static ShapeTracker fake(Shape dims);

  // Movement. Axes may be negative (from the end). Errors: ShapeError that names the step, the dims and what
  // would fit.
  [[nodiscard]] ShapeTracker permute(std::span<const int> order) const;
  [[nodiscard]] ShapeTracker permute(std::initializer_list<int> order) const {
    return permute(std::span(order.begin(), order.size()));
  }
  /// Inserts an axis of size `size` before axis `axis`, every coordinate of which reads the same element.
  [[nodiscard]] ShapeTracker expand(int axis, const Expression& size) const;
  /// Axes a and a+1 .. b as one, row-major: merge_dims(a, b) for b = a + 1 is the inverse of split_dims(a,
  /// dims[b]).
  [[nodiscard]] ShapeTracker merge_dims(int first, int last) const;
  /// Axis of size N becomes (N / inner, inner): [50,3].split_dims(0, 5) is [10,5,3]. ShapeError if provably
  /// not divisible.
  [[nodiscard]] ShapeTracker split_dims(int axis, const Expression& inner) const;
  /// Any row-major change of shape; element counts must agree (provably different is an error; symbolic ones
  /// are checked when sizes are known). One dim may be -1.
  [[nodiscard]] ShapeTracker reshape(Shape dims) const;
  /// [start, end) of each axis; bounds are clamped to the dim as in Python where that is decidable.
  [[nodiscard]] ShapeTracker slice(Pairs ranges) const;
  /// Every `step`-th element of [start, end) along one axis.
  [[nodiscard]] ShapeTracker slice_along(int axis, const Expression& start, const Expression& end,
                                         const Expression& step = 1) const;
  /// (before, after) of each axis, filled with `fill`.
  [[nodiscard]] ShapeTracker pad(Pairs amounts, Number fill = 0) const;
  [[nodiscard]] ShapeTracker unsqueeze(int axis) const;
  [[nodiscard]] ShapeTracker squeeze(int axis) const;  ///< the axis must have size 1
  /// Drops the axis and keeps one position of it; one that is known to be negative counts from the end.
  [[nodiscard]] ShapeTracker select(int axis, const Expression& position) const;
  [[nodiscard]] ShapeTracker flip(int axis) const;
  /// Axis of size N becomes (windows, window): element (w, k) reads w*stride + k*dilation;
  /// windows = (N - dilation*(window-1) - 1) / stride + 1, 0 if the window does not fit.
  [[nodiscard]] ShapeTracker pool(int axis, const Expression& window, const Expression& stride = 1,
                                  const Expression& dilation = 1) const;
  /// Any step whose in_dims are this view's dims.
  [[nodiscard]] ShapeTracker apply(const MovementStep& step) const;
  /// This view, then the steps of `next`, whose buffer dims are this view's dims.
  [[nodiscard]] ShapeTracker then(const ShapeTracker& next) const;

  [[nodiscard]] const Shape& dims() const { return dims_; }
  [[nodiscard]] int rank() const { return static_cast<int>(dims_.size()); }
  /// The dims of the dense buffer beneath.
  [[nodiscard]] const Shape& physical_dims() const { return physical_dims_; }
  [[nodiscard]] const std::vector<MovementStep>& steps() const { return steps_; }
  /// Flat physical index over i0.. (extents = dims()); meaningful where valid_expression() is 1.
  [[nodiscard]] const Expression& index_expression() const { return index_; }
  [[nodiscard]] const std::vector<Mask>& masks() const { return masks_; }
  /// 1 where no mask applies.
  [[nodiscard]] Expression valid_expression() const;

  struct Strided {
    Expression offset;
    std::vector<Expression> strides;
  };
  /// Offset and strides, if that is all the view is (no masks).
  [[nodiscard]] std::optional<Strided> as_strided() const;
  /// Strides when plain with offset 0, empty otherwise.
  [[nodiscard]] std::vector<Expression> strides() const;
  /// Reads the whole buffer in order: a copy through it would change nothing.
  [[nodiscard]] bool is_contiguous() const;
  /// No steps that matter: contiguous and of the buffer's own dims.
  [[nodiscard]] bool is_identity() const;
  [[nodiscard]] Expression n_elements() const { return element_count(dims_); }
  [[nodiscard]] Expression n_physical_elements() const;
  /// Every dim, if all are constants. Errors: ShapeError that names the symbolic dim.
  [[nodiscard]] std::vector<size_t> shape_usize() const;
  /// Checks at these sizes what could not be decided when the steps were made. Errors: ShapeError that names
  /// the step and the sizes. Cheap when there is nothing to check.
  void check(const DimMap& dims) const;
  /// Sizes put in for named dims, everywhere. Errors: as check, for what the sizes decide.
  [[nodiscard]] ShapeTracker resolve_global_dyn_dims(const DimMap& dims) const;
  /// The same dims, dense: what a copy of this view looks like.
  [[nodiscard]] ShapeTracker as_contiguous() const { return contiguous(dims_); }
  /// One index expression over z from ranges and strides (row-major order of the ranges).
  [[nodiscard]] static Expression flatten_strides(std::span<const Expression> ranges,
                                                  std::span<const Expression> strides);

  [[nodiscard]] std::string to_string() const;  ///< "[3, 2, 2] = [2, 6].split_dims(1, 3).permute(2, 0, 1)"
  [[nodiscard]] uint64_t hash() const;
  friend bool operator==(const ShapeTracker& a, const ShapeTracker& b);

 private:
  [[nodiscard]] ShapeTracker with(MovementStep step) const;
  Shape dims_, physical_dims_;
  Expression index_ = 0;
  Expression physical_elements_ = 1;
  std::vector<Mask> masks_;
  std::vector<MovementStep> steps_;
};

}  // namespace luminal
