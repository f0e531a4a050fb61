#pragma once
#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace luminal {

/// The whole file as bytes. FormatError if it cannot be read or holds more than `limit_bytes`.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, size_t limit_bytes = size_t{1} << 40);

/// Writes a file so that readers see the old content or the new one, never a part: temporary file beside it,
/// fsync, rename, fsync of the folder. Error if any step fails; the old file is untouched then.
void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces);
inline void write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  write_file_atomic(path, std::span<const std::string_view>(&content, 1));
}

}  // namespace luminal
