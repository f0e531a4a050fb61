#include "formats/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fail.h"

namespace luminal {

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view format) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) fail<FormatError>("[{}] cannot open '{}': {}", format, path.string(), std::strerror(errno));
  struct stat status{};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    fail<FormatError>("[{}] '{}' is not a regular file", format, path.string());
  }
  const auto size_bytes = static_cast<size_t>(status.st_size);
  if (size_bytes > 0) {
    void* start = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    const int error = errno;
    if (start == MAP_FAILED) {
      ::close(file);
      fail<FormatError>("[{}] cannot map '{}' ({} bytes): {}", format, path.string(), size_bytes,
                        std::strerror(error));
    }
    bytes_ = {static_cast<const std::byte*>(start), size_bytes};
  }
  ::close(file);
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace luminal
