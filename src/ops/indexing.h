#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ops/types.h"

/// How gather and scatter find the places of their data. Attributes say which of three forms an index has:
///
///   none                    flat positions, an index of any dims;
///   axis, slices = false    places along the axis: data of dims [O, N, I] and an index [O, n, I] name, for (o, j, i),
///                           element (o, index(o, j, i), i); other axes of the index may be shorter than the data's;
///   axis, slices = true     whole slices along the axis: an index of any dims names, for (o, j, i), element
///                           (o, index(j), i).
///
/// So no index is as large as what it reads unless the user's is.
namespace luminal::ops {

enum class IndexForm : uint8_t { Flat, Elements, Slices };
[[nodiscard]] IndexForm index_form(const Attributes& attributes);
/// The attributes of an index along `axis`; form: Elements or Slices.
[[nodiscard]] Attributes index_attributes(int axis, IndexForm form);

/// The dims of what an index reads from, or writes into, data of dims `data`. Errors: DtypeError unless it holds
/// integers; ShapeError if it does not fit the data.
[[nodiscard]] Shape indexed_dims(std::string_view op, const Shape& data, const TensorType& index,
                                 const Attributes& attributes);

/// What indices are below in an op with such attributes whose first input is `data`: the length of the axis, or the
/// elements where positions are flat.
[[nodiscard]] Expression index_bound(const TensorType& data, const Attributes& attributes);

/// The places in data of [O, length, inner_there] elements that an index names for `count` * `inner` elements each of
/// `outer` rows, at the sizes of a run. (o, j, i) below is element (o * count + j) * inner + i of what is read or
/// written. Indices are looked at some at a time, as 64-bit integers: all together could be another large tensor.
class IndexedPlaces {
 public:
  /// All of these outlive it; `data_dims` are those of what is indexed, `data` is the first input, for messages.
  IndexedPlaces(std::string_view op, const TensorData& index, const TensorData& data,
                const std::vector<int64_t>& data_dims, const Attributes& attributes);

  [[nodiscard]] IndexForm form() const { return form_; }
  [[nodiscard]] int64_t outer() const { return outer_; }
  [[nodiscard]] int64_t count() const { return count_; }
  [[nodiscard]] int64_t inner() const { return inner_; }
  [[nodiscard]] int64_t length() const { return length_; }
  [[nodiscard]] int64_t inner_there() const { return inner_there_; }
  [[nodiscard]] int64_t elements() const { return outer_ * count_ * inner_; }
  /// Every axis but the indexed one is as long in the index as in the data: (o, j, i) lies in row o and column i there.
  [[nodiscard]] bool covers_data() const { return outer_ == outer_there_ && inner_ == inner_there_; }
  /// Where row o and column i of what is read or written lie in the data.
  [[nodiscard]] int64_t row_there(int64_t o) const { return there(rows_, o); }
  [[nodiscard]] int64_t column_there(int64_t i) const { return there(columns_, i); }

  /// Calls `work`, which may ask for indices on several threads. Errors: Error that names the first index outside, the
  /// tensor, the axis and where the index stands.
  template <class Work>
  void checked(Work&& work) const {
    try {
      work();
    } catch (const Outside&) {
      refuse();  // here: this thread knows the node
    }
  }

  static constexpr int64_t kPiece = 2048;
  using Buffer = std::array<int64_t, kPiece>;
  /// Within `checked`: indices first, first + 1 ... of the index tensor, at most kPiece, each of which lies in the
  /// data.
  [[nodiscard]] std::span<const int64_t> indices(int64_t first, int64_t count, Buffer& buffer) const;
  /// The number in the index tensor of what names (o, j, i).
  [[nodiscard]] int64_t index_number(int64_t o, int64_t j, int64_t i) const {
    return form_ == IndexForm::Slices ? j : (o * count_ + j) * inner_ + i;
  }

  /// Within `checked`: calls `body(i, offset, positions)` for elements i, i + 1 ... of [begin, end), in order: the flat
  /// position of element i + k in the data is offset + positions[k].
  template <class Body>
  void for_each_piece(int64_t begin, int64_t end, Body&& body) const {
    Buffer buffer;
    for (int64_t first = begin; first < end;) {
      const Piece found = piece(first, end, buffer);
      body(first, found.offset, found.positions);
      first += static_cast<int64_t>(found.positions.size());
    }
  }

 private:
  struct Outside {};
  struct Piece {
    int64_t offset = 0;
    std::span<const int64_t> positions;
  };
  /// An axis of the index: its length, and how far its places lie apart in the data, in rows or columns.
  struct Axis {
    int64_t size, stride;
  };
  [[nodiscard]] static std::vector<Axis> axes_there(std::span<const int64_t> index,
                                                    std::span<const int64_t> data);
  [[nodiscard]] static int64_t there(const std::vector<Axis>& axes, int64_t number);
  [[nodiscard]] Piece piece(int64_t first, int64_t end, Buffer& buffer) const;
  int64_t run(int64_t first, int64_t end, std::span<int64_t> positions, Buffer& buffer) const;
  [[noreturn]] void refuse() const;

  std::string_view op_;
  const TensorData &index_, &data_;
  const std::vector<int64_t>& data_dims_;
  IndexForm form_;
  size_t axis_ = 0;
  int64_t outer_ = 1, count_ = 1, inner_ = 1, outer_there_ = 1, length_ = 0, inner_there_ = 1;
  std::vector<Axis> rows_, columns_;  ///< empty: they are numbered as in the data
};

}  // namespace luminal::ops
