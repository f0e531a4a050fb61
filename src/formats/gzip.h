#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace luminal {

/// Reads the content of a file in memory front to back, inflating it on the way if it is gzipped.
class GzipSource {
 public:
  /// `where` leads the messages. `file` must outlive this object.
  GzipSource(std::string_view file, std::string where);
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource();

  /// Fills `out` as far as the content goes and returns how far that was. Errors: FormatError if the file is
  /// damaged.
  size_t read(std::span<std::byte> out);
  /// No more than this many bytes can still come: what is left, or as much as deflate could have packed into
  /// it.
  [[nodiscard]] size_t most_left() const;

 private:
  struct Inflater;
  std::string_view rest_;
  std::string where_;
  std::unique_ptr<Inflater> inflater_;  // empty for a plain file
};

/// `content` as a gzip file without a date, so that equal content gives equal bytes.
[[nodiscard]] std::string gzip(std::string_view content);

}  // namespace luminal
