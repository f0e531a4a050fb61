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

/// A file that is written piece by piece, with the same promise: readers see it whole, after commit(), or not at
/// all. Without commit() nothing is left. Error if any step fails.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();
  void write(std::string_view bytes);
  void commit();

 private:
  std::filesystem::path path_, folder_;
  std::string temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

/// A lock on a file, made if need be, that one holder has at a time: in this process or another, until it
/// goes away or its process ends, however that happens. The file holds the process's number; the holder
/// removes it, one that was killed leaves it, and the next takes it over.
class FileLock {
 public:
  /// Errors: Error if the file cannot be opened; nothing is locked, and a note says so, where files cannot
  /// be.
  explicit FileLock(std::filesystem::path path);
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();
  /// Whether this object has the lock; otherwise `holder` tells who has.
  [[nodiscard]] bool held() const { return held_; }
  /// The process that has it, "4711", or "another".
  [[nodiscard]] const std::string& holder() const { return holder_; }

 private:
  void tell_holder() const;
  std::filesystem::path path_;
  int owner_ = 0, descriptor_ = -1;
  bool held_ = true;
  std::string holder_;
};

}  // namespace luminal
