#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>

#include "luminal/tensor_data.h"

/// NumPy's files: one tensor (.npy), or named ones in a zip archive (.npz).
///
///   write_npz("points.npz", {{"x", features}, {"y", labels}});            // np.load("points.npz")["x"]
///   std::map<std::string, TensorData> points = read_npz("points.npz");
///
/// Read are versions 1 to 3 of the format, either byte order, Fortran order, stored and deflated archives
/// (zip64 too). Sizes are checked against the file before anything is allocated. Source: NumPy enhancement
/// proposal 1; PKWARE's APPNOTE 6.3.
namespace luminal {

/// Errors: FormatError if the file is missing or breaks the format; DtypeError for types that Luminal does
/// not have (complex, text, u16 ...).
[[nodiscard]] TensorData read_npy(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 40);
/// Writes atomically. Errors: DtypeError for bf16 and quantised types, which the format lacks; Error if the
/// file cannot be written.
void write_npy(const std::filesystem::path& path, const TensorData& tensor);

/// Errors: as read_npy; also FormatError for an archive that is damaged, encrypted or packed by another
/// method.
[[nodiscard]] std::map<std::string, TensorData> read_npz(const std::filesystem::path& path,
                                                         size_t limit_bytes = size_t{1} << 40);
/// Writes atomically; deflated if `compressed` (np.savez_compressed). The same tensors give the same bytes.
/// Errors: as write_npy.
void write_npz(const std::filesystem::path& path, const std::map<std::string, TensorData>& tensors,
               bool compressed = false);

}  // namespace luminal
