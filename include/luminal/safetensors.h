#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/dtype.h"
#include "luminal/tensor_data.h"

/// Named tensors in a file, in Hugging Face's safetensors format.
///
///   write_safetensors("model.safetensors", {{"weight", weight}, {"bias", bias}}, {{"epoch", "3"}});
///   SafetensorsFile file("model.safetensors");
///   for (const std::string& name : file.names()) TensorData tensor = file.read(name);
///
/// A file is 8 bytes of header length, a JSON header (name -> dtype, shape, byte range) and the tensors'
/// bytes, which the ranges must tile exactly. Everything is checked when the file is opened and before
/// anything is allocated, so that no file, however made, gives a read out of bounds or a tensor that overlaps
/// another.
namespace luminal {

/// A tensor in memory that the caller owns. `bytes` may start at any address: copy before reading as
/// numbers.
struct TensorView {
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> dims;
  std::span<const std::byte> bytes;

  TensorView() = default;
  TensorView(Dtype type, std::vector<int64_t> sizes, std::span<const std::byte> content)
      : dtype(type), dims(std::move(sizes)), bytes(content) {}
  TensorView(const TensorData& data)
      : dtype(data.dtype), dims(data.dims), bytes(data.bytes) {}  // NOLINT: as a view
};

/// What a file says of a tensor before its bytes are read.
struct TensorInfo {
  Dtype dtype = Dtype::F32;
  std::vector<int64_t> dims;
};

/// A safetensors file, open for reading: its header is in memory, tensors are read on request. If the
/// file is shortened in the meantime, reading gives a FormatError.
/// Thread safety: any number of threads may read one.
class SafetensorsFile {
 public:
  /// Errors: FormatError if the file is missing, is not a safetensors file or breaks any rule of the format.
  explicit SafetensorsFile(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  /// The names of all tensors, sorted.
  [[nodiscard]] const std::vector<std::string>& names() const;
  [[nodiscard]] bool contains(std::string_view name) const;
  /// The writer's notes about the file, text to text.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const;
  /// Errors: FormatError if there is no such tensor (offers the nearest name); DtypeError if Luminal
  /// does not have its type (u16, f8 ...); the file opens all the same.
  [[nodiscard]] TensorInfo info(std::string_view name) const;
  /// Reads one tensor. Errors: as info(); FormatError if the file was shortened or cannot be read.
  [[nodiscard]] TensorData read(std::string_view name) const;
  /// The bytes of a tensor from `offset` on, as they are stored. Errors: as read(); ShapeError if it ends before.
  void read(std::string_view name, size_t offset, std::span<std::byte> out) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

/// Writes all tensors into one file, atomically: a reader sees the old file or the new one, never a part.
/// The same tensors give the same bytes: wide types first, so that all are aligned, and names in order within
/// a type. Errors: ShapeError if bytes and dims disagree; DtypeError for quantised types; Error if a name is
/// not UTF-8 or is `__metadata__`, or the file cannot be written.
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, TensorView>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace luminal
