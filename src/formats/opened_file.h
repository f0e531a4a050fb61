#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace luminal {

/// A regular file, open for reading. It is read, not mapped: a file that somebody shortens meanwhile is an
/// error, where access to a mapped one would end the process (SIGBUS).
class OpenedFile {
 public:
  /// Errors: FormatError, led by "[`format`]", if it cannot be opened.
  OpenedFile(const std::filesystem::path& path, std::string_view format);
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  ~OpenedFile();
  /// When it was opened.
  [[nodiscard]] size_t size_bytes() const { return size_bytes_; }
  /// Fills `out` with the bytes from `offset` on. Errors: FormatError if the file ends before, or cannot be
  /// read.
  void read(size_t offset, std::span<std::byte> out) const;

 private:
  std::string where_;
  int descriptor_ = -1;
  size_t size_bytes_ = 0;
};

}  // namespace luminal
