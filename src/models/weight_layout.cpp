#include "models/weight_layout.h"

#include <cstring>

#include "base/fail.h"

namespace luminal::models {
namespace {

TensorData reordered_rows(const TensorData& weight, int64_t heads, bool to_pairs) {
  const int64_t rows = weight.dims.at(0);
  if (heads < 1 || rows % (2 * heads) != 0)
    fail<ShapeError>("[model] {} rows are no pairs for each of {} heads", rows, heads);
  const auto half = static_cast<size_t>(rows / heads / 2);
  const size_t row_bytes = weight.bytes.size() / static_cast<size_t>(rows);
  TensorData result(weight.dtype, weight.dims);
  for (size_t head = 0; head < static_cast<size_t>(heads); ++head)
    for (size_t part = 0; part < 2; ++part)
      for (size_t i = 0; i < half; ++i) {
        const size_t parted = (head * 2 + part) * half + i, paired = (head * half + i) * 2 + part;
        std::memcpy(result.bytes.data() + (to_pairs ? paired : parted) * row_bytes,
                    weight.bytes.data() + (to_pairs ? parted : paired) * row_bytes, row_bytes);
      }
  return result;
}

}  // namespace

TensorData transposed(const TensorData& matrix) {
  TensorData result(matrix.dtype, {matrix.dims.at(1), matrix.dims.at(0)});
  const auto rows = static_cast<size_t>(matrix.dims[0]), columns = static_cast<size_t>(matrix.dims[1]);
  visit_word(matrix.dtype, [&]<class Word>(Word) {
    const auto* from = reinterpret_cast<const Word*>(matrix.bytes.data());
    auto* to = reinterpret_cast<Word*>(result.bytes.data());
    for (size_t i = 0; i < rows; ++i)
      for (size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
  });
  return result;
}

TensorData paired_rows(const TensorData& weight, int64_t heads) {
  return reordered_rows(weight, heads, true);
}
TensorData parted_rows(const TensorData& weight, int64_t heads) {
  return reordered_rows(weight, heads, false);
}

TensorData widened_floats(const TensorData& data) {
  if (data.dtype == Dtype::F32) return data;
  TensorData result(Dtype::F32, data.dims);
  visit_dtype(data.dtype, [&]<class T>(T) {
    const std::span<const T> from = data.as<T>();
    const std::span<float> to = result.as<float>();
    for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<float>(from[i]);
  });
  return result;
}

}  // namespace luminal::models
