#pragma once
#include <string>
#include <vector>

#include "formats/opened_file.h"
#include "luminal/gguf.h"

/// The header of one GGUF file: parsing, checking, writing. Knows nothing of split models.
namespace luminal::gguf {

struct Header {
  uint32_t version = 3;
  GgufMetadata metadata;
  std::vector<GgufTensorInfo> tensors;
  std::vector<size_t> begins;  ///< of the tensors, counted from the file's first byte
};

/// GGML's limits, which other readers share.
inline constexpr size_t kMostDims = 4, kLongestName = 64;
inline constexpr uint64_t kDefaultAlignment = 32;

/// Errors: FormatError that begins with `where`, a message for each rule of the format.
[[nodiscard]] Header parse(const OpenedFile& file, const std::string& where);
/// The file's first bytes, padded up to the data section. Errors: as GgufWriter's constructor.
[[nodiscard]] std::string serialize(const GgufMetadata& metadata, const std::vector<GgufTensorInfo>& tensors);
/// What `general.alignment` says. Errors: FormatError if it is not a power of two from 8 to 2^20.
[[nodiscard]] uint64_t alignment(const GgufMetadata& metadata, const std::string& where);
[[nodiscard]] const GgufValue* find(const GgufMetadata& metadata, std::string_view key);
[[nodiscard]] inline uint64_t align_up(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace luminal::gguf
