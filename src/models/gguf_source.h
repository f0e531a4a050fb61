#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "luminal/gguf.h"

/// What a GGUF file is written from: a file of that format, or a model's folder seen as one.
namespace luminal::models {

/// Thread safety: any number of threads may read one.
class GgufSource {
 public:
  virtual ~GgufSource() = default;
  [[nodiscard]] virtual const GgufMetadata& metadata() const = 0;
  [[nodiscard]] virtual const std::vector<GgufTensorInfo>& tensors() const = 0;
  /// The bytes of tensor `index`, of the type and dims that `tensors` states.
  [[nodiscard]] virtual std::vector<std::byte> read(size_t index) const = 0;
};

/// Errors: FormatError as GgufFile and ModelFolder; for folders of an unknown family, or whose configuration GGUF
/// metadata cannot say.
[[nodiscard]] std::unique_ptr<GgufSource> open_gguf_source(const std::filesystem::path& path);
[[nodiscard]] std::unique_ptr<GgufSource> folder_as_gguf(const std::filesystem::path& folder);

/// The value of a key, or null.
[[nodiscard]] const GgufValue* find_metadata(const GgufMetadata& metadata, std::string_view key);
/// Replaces the value of a key or adds it.
void set_metadata(GgufMetadata& metadata, std::string_view key, GgufValue value);

}  // namespace luminal::models
