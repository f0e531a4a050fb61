#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "luminal/dtype.h"
#include "luminal/tensor_data.h"

/// Language models in one file, in GGML's GGUF format, versions 2 and 3.
///
///   const GgufFile file("model-00001-of-00003.gguf");  // opens all three
///   if (const GgufValue* layers = file.find("llama.block_count")) std::cout << to_text(*layers);
///   for (const GgufTensorInfo& tensor : file.tensors()) TensorData weights = file.read_f32(tensor.name);
///
/// A file is a header (metadata by key, and name, type, dims and offset of each tensor) and the tensors' bytes,
/// at aligned offsets. Everything is checked when the file is opened and before anything is allocated; tensors
/// are read on request. Little-endian only. Source: GGUF's specification, ggml/docs/gguf.md.
namespace luminal {

/// Kinds of metadata, with their numbers in files.
enum class GgufKind : uint8_t { U8, I8, U16, I16, U32, I32, F32, Bool, Text, Array, U64, I64, F64 };
[[nodiscard]] std::string_view name(GgufKind kind);

struct GgufValue;
/// Values of one kind; they may be arrays themselves.
struct GgufArray {
  GgufKind kind = GgufKind::U8;
  std::vector<GgufValue> values;
  friend bool operator==(const GgufArray&, const GgufArray&);
};
/// One value of metadata. Its alternatives stand in the order of GgufKind.
struct GgufValue : std::variant<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, float, bool,
                                std::string, GgufArray, uint64_t, int64_t, double> {
  using variant::variant;
  [[nodiscard]] GgufKind kind() const { return static_cast<GgufKind>(index()); }
  /// A whole number of any kind that int64_t holds; nothing for other values.
  [[nodiscard]] std::optional<int64_t> integer() const;
  /// Of the same kind, with the same value.
  friend bool operator==(const GgufValue&, const GgufValue&);
};
/// "32", "'llama'", "[1, 2, 3, ...]": arrays longer than `max_items` are cut, and so are long texts.
[[nodiscard]] std::string to_text(const GgufValue& value, size_t max_items = 8);

/// In the order of the file.
using GgufMetadata = std::vector<std::pair<std::string, GgufValue>>;

/// An element type of the format.
struct GgufType {
  uint32_t id = 0;  ///< its number in files
  std::string_view name;
  int block_elements = 1, block_bytes = 4;
  std::optional<Dtype> dtype;  ///< ours, where we have it
};
/// All types that can be read and written, by number.
[[nodiscard]] std::span<const GgufType> gguf_types();
/// Errors: DtypeError that offers the nearest name. "q4_0" and "Q4_0" are the same.
[[nodiscard]] const GgufType& gguf_type(std::string_view name);

struct GgufTensorInfo {
  std::string name;
  const GgufType* type = nullptr;
  std::vector<int64_t> dims;  ///< row-major: the last one varies fastest (files store them in reverse)
  /// Errors: ShapeError if a size is negative, or rows are not whole blocks.
  [[nodiscard]] int64_t size_bytes() const;
  [[nodiscard]] int64_t element_count() const;
};

/// A GGUF file, or all files of a split one, open for reading. Thread safety: any number of threads may read.
class GgufFile {
 public:
  /// `path` may be any file of a split model. Errors: FormatError if a file is missing, is not GGUF or breaks a
  /// rule of the format.
  explicit GgufFile(const std::filesystem::path& path);
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  [[nodiscard]] uint32_t version() const;
  /// Files that it consists of: 1 unless it is split.
  [[nodiscard]] size_t file_count() const;
  /// Of all files together.
  [[nodiscard]] size_t size_bytes() const;
  /// That of the first file, without the keys that number the files of a split model.
  [[nodiscard]] const GgufMetadata& metadata() const;
  /// The value of a key, or null.
  [[nodiscard]] const GgufValue* find(std::string_view key) const;
  /// In the order of the files.
  [[nodiscard]] const std::vector<GgufTensorInfo>& tensors() const;
  /// Errors: FormatError if there is none (offers the nearest name).
  [[nodiscard]] const GgufTensorInfo& tensor(std::string_view name) const;
  /// The bytes of a tensor from `offset` on, as they are stored. Errors: as tensor(); ShapeError if it ends
  /// before; FormatError if the file was shortened or cannot be read.
  void read(std::string_view name, size_t offset, std::span<std::byte> out) const;
  /// A tensor as it is stored. Errors: as tensor(); DtypeError if Luminal has no such dtype.
  [[nodiscard]] TensorData read(std::string_view name) const;
  /// A tensor of any type as f32: blocks are decoded, numbers rounded. Errors: as tensor(), read().
  [[nodiscard]] TensorData read_f32(std::string_view name) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

/// Writes a file tensor by tensor, so that no more than a piece of one has to be in memory.
///
///   GgufWriter writer("model.gguf", {{"general.architecture", "llama"}}, {{"norm", &gguf_type("f32"), {2}}});
///   writer.append(weight.bytes);  // of a TensorData
///   writer.finish();
///
/// Readers see the old file until finish(), and the new one after it. Version 3, aligned as the metadata's
/// `general.alignment` says (32 without it). Thread safety: one thread at a time.
class GgufWriter {
 public:
  /// Errors: Error if a key or a name appears twice, a name is longer than 64 bytes or the file cannot be
  /// made; ShapeError as GgufTensorInfo::size_bytes, or if there are more than 4 dims.
  GgufWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
             std::vector<GgufTensorInfo> tensors);
  GgufWriter(const GgufWriter&) = delete;
  GgufWriter& operator=(const GgufWriter&) = delete;
  /// Without finish() nothing is left.
  ~GgufWriter();
  /// The next bytes of the tensors, which follow each other in order; a piece ends where its tensor does or
  /// before. Errors: ShapeError if a piece is longer than what its tensor lacks; Error if writing fails.
  void append(std::span<const std::byte> piece);
  /// Errors: ShapeError if bytes are missing; Error if writing fails.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace luminal
