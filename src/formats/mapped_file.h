#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace luminal {

/// A regular file mapped read-only into memory. FormatError, led by "[`format`]", if it cannot be opened.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, std::string_view format);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace luminal
