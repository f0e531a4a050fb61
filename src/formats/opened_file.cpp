#include "formats/opened_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fail.h"

namespace luminal {

OpenedFile::OpenedFile(const std::filesystem::path& path, std::string_view format)
    : where_(fmt::format("[{}] '{}'", format, path.string())) {
  // O_NONBLOCK: opening a pipe must fail below, not wait for a writer.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    fail<FormatError>("[{}] cannot open '{}': {}", format, path.string(), std::strerror(errno));
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    fail<FormatError>("{} is not a regular file", where_);
  }
  size_bytes_ = static_cast<size_t>(status.st_size);
}

OpenedFile::~OpenedFile() { ::close(descriptor_); }

void OpenedFile::read(size_t offset, std::span<std::byte> out) const {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // Linux reads no more than 2 GB in one call
  for (size_t done = 0; done < out.size();) {
    const ssize_t got = ::pread(descriptor_, out.data() + done, std::min(out.size() - done, kMostAtOnce),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail<FormatError>("{} cannot be read: {}", where_, std::strerror(errno));
    if (got == 0)
      fail<FormatError>(
          "{} ends at byte {}, but had {} bytes when it was opened: another process has shortened it; read "
          "it again once it is complete",
          where_, offset + done, size_bytes_);
    done += static_cast<size_t>(got);
  }
}

}  // namespace luminal
