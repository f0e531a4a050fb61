#pragma once
#include <cstddef>
#include <filesystem>

#include "luminal/tensor_data.h"

namespace luminal {

/// The largest IDX content that is read unless the caller allows more.
inline constexpr size_t kIdxLimitBytes = size_t{4} << 30;

/// Reads an IDX file, plain or gzipped (recognised by content, not by name): the format of the MNIST database.
/// Dtypes: u8, i8, i32, f32, f64 as stored; i16 comes as i32, the smallest type here that holds it.
/// Errors: FormatError if the file is missing, no IDX file, damaged, shorter or longer than its dims say, or
/// holds more than `limit_bytes`; nothing is allocated from sizes that the file cannot hold. Source: LeCun,
/// "The MNIST database", file formats.  Example: TensorData images = read_idx("train-images.gz");
[[nodiscard]] TensorData read_idx(const std::filesystem::path& path, size_t limit_bytes = kIdxLimitBytes);

/// Writes `tensor` as an IDX file, atomically. Dtypes: u8, i8, i32, f32, f64.
/// Errors: DtypeError for others; ShapeError for rank 0, more than 255 dims or dims beyond 32 bits.
void write_idx(const std::filesystem::path& path, const TensorData& tensor, bool gzip = false);

}  // namespace luminal
