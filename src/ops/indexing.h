#pragma once
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "ops/types.h"

namespace luminal::ops {

/// Flat positions in `data` that an op reads or writes, as 64-bit integers, some at a time: all together would be
/// another large tensor.
class FlatPositions {
 public:
  /// All of these outlive it.
  FlatPositions(std::string_view op, const TensorData& index, const TensorData& data,
                const Attributes& attributes)
      : op_(op), index_(index), data_(data), attributes_(attributes), size_(data.element_count()) {}

  [[nodiscard]] int64_t count() const { return index_.element_count(); }
  /// Calls `work`, which may ask for pieces on several threads. Errors: Error that names the first position outside,
  /// the tensor and, if attributes say which axis is indexed (see index_attributes), the axis and the index that the
  /// user gave.
  template <class Work>
  void checked(Work&& work) const {
    try {
      work();
    } catch (const Outside&) {
      refuse();  // here: this thread knows the node
    }
  }
  /// Within `checked`: calls `body(i, positions)` for positions i, i + 1 ... of [begin, end), in order.
  template <class Body>
  void for_each_piece(int64_t begin, int64_t end, Body&& body) const {
    std::array<int64_t, kPiece> buffer;
    for (int64_t first = begin; first < end; first += kPiece)
      body(first, piece(first, std::min(kPiece, end - first), buffer));
  }

 private:
  struct Outside {};
  static constexpr int64_t kPiece = 2048;
  [[nodiscard]] std::span<const int64_t> piece(int64_t first, int64_t count, std::span<int64_t> buffer) const;
  [[noreturn]] void refuse() const;

  std::string_view op_;
  const TensorData &index_, &data_;
  const Attributes& attributes_;
  int64_t size_;  ///< elements of the data
};

/// What positions mean where the first axis of the data is axis `axis` of the user's tensor: the first
/// `index_axes` axes of the positions are those of the user's index. If these are all, they are permuted as
/// the data is.
[[nodiscard]] Attributes index_attributes(int axis, int index_axes);

/// What the user's indices are below, where an op with such attributes reads positions in `data`: the length of
/// the axis that is indexed, or the elements where positions are the user's own.
[[nodiscard]] Expression index_bound(const TensorType& data, const Attributes& attributes);

/// Errors: DtypeError unless `index` holds integers.
void check_index(std::string_view op, const TensorType& index);

}  // namespace luminal::ops
