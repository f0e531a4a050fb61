#include "models/weight_layout.h"

#include <algorithm>
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

TensorData transposed_each(const TensorData& matrices) {
  const int64_t count = matrices.dims.at(0), rows = matrices.dims.at(1), columns = matrices.dims.at(2);
  TensorData result(matrices.dtype, {count, columns, rows});
  TensorData one(matrices.dtype, {rows, columns});
  for (int64_t i = 0; i < count; ++i) {
    const auto begin = static_cast<ptrdiff_t>(static_cast<size_t>(i) * one.bytes.size());
    std::copy_n(matrices.bytes.begin() + begin, one.bytes.size(), one.bytes.begin());
    std::ranges::copy(transposed(one).bytes, result.bytes.begin() + begin);
  }
  return result;
}

TensorData half_of(const TensorData& data, bool second) {
  std::vector<int64_t> dims = data.dims;
  if (dims.at(1) % 2 != 0) fail<ShapeError>("[model] {} rows have no halves", dims[1]);
  dims[1] /= 2;
  TensorData result(data.dtype, dims);
  const size_t rows = static_cast<size_t>(dims[0] * dims[1]);
  const size_t row_bytes = rows == 0 ? 0 : result.bytes.size() / rows;
  for (size_t i = 0; i < rows; ++i)
    std::memcpy(result.bytes.data() + i * row_bytes,
                data.bytes.data() + (2 * i + (second ? 1 : 0)) * row_bytes, row_bytes);
  return result;
}

TensorData joined_halves(const TensorData& first, const TensorData& second) {
  if (first.dims != second.dims || first.dtype != second.dtype)
    fail<FormatError>("[model] gates and ups of experts differ in size or dtype");
  std::vector<int64_t> dims = first.dims;
  dims.at(1) *= 2;
  TensorData result(first.dtype, dims);
  const size_t rows = static_cast<size_t>(first.dims[0] * first.dims[1]);
  const size_t row_bytes = rows == 0 ? 0 : first.bytes.size() / rows;
  for (size_t i = 0; i < rows; ++i) {
    std::memcpy(result.bytes.data() + 2 * i * row_bytes, first.bytes.data() + i * row_bytes, row_bytes);
    std::memcpy(result.bytes.data() + (2 * i + 1) * row_bytes, second.bytes.data() + i * row_bytes,
                row_bytes);
  }
  return result;
}

TensorData mxfp4_blocks(const TensorData& nibbles, const TensorData& scales) {
  constexpr size_t kHalf = 16;
  std::vector<int64_t> dims = scales.dims;
  std::vector<int64_t> wanted = dims;
  wanted.push_back(kHalf);
  if (nibbles.dtype != Dtype::U8 || scales.dtype != Dtype::U8 || dims.size() != 3 || nibbles.dims != wanted)
    fail<FormatError>(
        "[model] MXFP4 weights are u8 [experts, rows, blocks, 16] with u8 scales for each block");
  dims.back() *= 2 * kHalf;
  TensorData result(Dtype::MXFP4, dims);
  std::byte* to = result.bytes.data();
  for (size_t block = 0; block < scales.bytes.size(); ++block) {
    *to++ = scales.bytes[block];
    const std::byte* from = nibbles.bytes.data() + block * kHalf;
    const auto element = [&](size_t i) { return (from[i / 2] >> (i % 2 == 0 ? 0 : 4)) & std::byte{15}; };
    for (size_t i = 0; i < kHalf; ++i) *to++ = element(i) | element(i + kHalf) << 4;
  }
  return result;
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
