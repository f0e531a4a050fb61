#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/dtype.h"

/// The header of a safetensors file: parsing, checking, writing. Knows no files; errors start with `where`.
namespace luminal::safetensors {

/// An element type of the format, and ours where we have it.
struct StoredDtype {
  std::string_view name;
  int bits;
  std::optional<Dtype> dtype;
};

/// All types of the format, in the order in which writers put them last to first: narrow to wide.
[[nodiscard]] std::span<const StoredDtype> stored_dtypes();

struct Entry {
  const StoredDtype* type = nullptr;
  std::vector<int64_t> dims;
  size_t begin = 0, end = 0;  ///< byte range within the data section
};

struct Header {
  std::map<std::string, Entry, std::less<>> tensors;
  std::map<std::string, std::string> metadata;
  size_t data_begin = 0;  ///< where the data section starts in the file
};

/// The reference implementation's limit; the largest real headers are a few megabytes.
inline constexpr size_t kHeaderLimitBytes = 100'000'000;

/// A file begins with the length of its header in so many bytes.
inline constexpr size_t kLengthBytes = 8;
/// That length, from the first bytes of the file. Errors: FormatError if the file is too short for it.
[[nodiscard]] size_t header_bytes(std::span<const std::byte> first, size_t file_bytes,
                                  const std::string& where);
/// `text` is the header of a file of `file_bytes`. Errors: FormatError, a message for each rule of the
/// format.
[[nodiscard]] Header parse(std::string_view text, size_t file_bytes, const std::string& where);
/// The file's first bytes, up to the data section: length and padded JSON. `order` is the order of the data.
[[nodiscard]] std::string serialize(const std::vector<std::pair<std::string, Entry>>& order,
                                    const std::map<std::string, std::string>& metadata);
/// A name as it may stand in a message: quoted, control characters escaped, long ones cut.
[[nodiscard]] std::string printable(std::string_view name);

}  // namespace luminal::safetensors
