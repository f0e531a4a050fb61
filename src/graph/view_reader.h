#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "luminal/dtype.h"
#include "luminal/shape_tracker.h"

namespace luminal {

/// A view with all sizes known, ready to be read in row-major order. Immutable; shared by threads, each with
/// a ViewCursor.
///
/// An index expression that is affine over the coordinates is walked by strides, and masks made of affine
/// comparisons become an interval of each row; anything else is evaluated for many elements at a time. Neighbouring
/// axes that lie one behind the other in the buffer are read as one.
class ViewReader {
 public:
  ViewReader(const ShapeTracker& view, const DimMap& dims);

  [[nodiscard]] int64_t count() const { return count_; }
  [[nodiscard]] int64_t buffer_elements() const { return buffer_elements_; }
  /// Reads the whole buffer in order, so that no copy is needed.
  [[nodiscard]] bool is_direct() const { return direct_; }
  /// Where elements at flat (row-major) positions are read; the reader outlives it.
  struct Places {
    std::vector<int64_t> indices;      ///< into the buffer, of those that no fill takes
    std::vector<const Number*> fills;  ///< by position: what is there instead; empty if there is none
  };
  /// Quick where positions follow one another along the last axis. Whole rows are read with a ViewCursor.
  [[nodiscard]] Places places(std::span<const int64_t> positions) const;
  /// Rough cost of reading one element, in units of a contiguous read.
  [[nodiscard]] double cost() const;

 private:
  friend class ViewCursor;
  /// constant + sum of strides[axis] * coordinate[axis]
  struct Affine {
    int64_t constant = 0;
    std::vector<int64_t> strides;
  };
  /// Where any of `conditions` is negative, or `predicate` is 0 if it is no conjunction of such, the value is
  /// `fill`.
  struct Mask {
    std::vector<Affine> conditions;
    std::optional<Expression> predicate;
    Number fill;
  };
  [[nodiscard]] std::optional<Affine> affine(const Expression& e) const;
  [[nodiscard]] Mask make_mask(const ShapeTracker::Mask& mask, const DimMap& dims) const;
  [[nodiscard]] bool is_affine() const;
  /// The masks along a run of the last axis.
  struct Run;
  [[nodiscard]] Places places_by_runs(std::span<const int64_t> positions) const;
  [[nodiscard]] Places places_of_any(std::span<const int64_t> positions) const;
  /// Where elements are read of which `coordinates` has one each by axis; -1 - m where mask m hides one.
  void evaluate(std::span<const std::vector<int64_t>> coordinates, size_t count,
                std::vector<int64_t>& found) const;
  [[nodiscard]] const Mask& hiding(int64_t found) const { return masks_[static_cast<size_t>(-1 - found)]; }
  class RowWalk;
  void masks_along(const RowWalk& walk, int64_t length, std::vector<Run>& runs) const;
  /// The index and then the conditions of all masks, of a reader that is affine.
  template <class Reader>
  [[nodiscard]] static auto affine_parts(Reader& reader);
  void merge_axes();

  std::vector<int64_t> dims_;
  int64_t count_ = 1, buffer_elements_ = 1;
  std::optional<Affine> index_;  ///< empty: `general_index_` is evaluated
  Expression general_index_;
  std::vector<Mask> masks_;
  bool direct_ = false;
};

/// A place in a view's row-major order, with scratch space of its own.
class ViewCursor {
 public:
  ViewCursor(const ViewReader& reader, int64_t start);
  /// Copies the next `count` elements of `buffer` to `out` and moves on. Errors: InternalError past the end.
  void read(const void* buffer, Dtype dtype, int64_t count, void* out);

 private:
  [[nodiscard]] int64_t left_of_row() const;
  void read_row(const std::byte* buffer, Dtype dtype, int64_t count, std::byte* out);
  [[nodiscard]] int64_t left_of_found(int64_t wanted);
  void find(int64_t count);
  void read_found(const std::byte* buffer, Dtype dtype, int64_t count, std::byte* out);
  void advance(int64_t count);

  const ViewReader* reader_;
  int64_t position_ = 0;
  std::vector<int64_t> coordinates_;         ///< of the next element, or behind what was found
  std::vector<std::vector<int64_t>> along_;  ///< coordinates of several elements, by axis
  std::vector<int64_t> found_;               ///< where these lie, if that is no matter of strides
  size_t next_found_ = 0;
};

}  // namespace luminal
