#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/fail.h"

namespace luminal {
namespace {

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// "No space left on device; free some space or choose another place".
std::string reason(int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return fmt::format("{}; {}choose another place", std::strerror(code), full ? "free some space or " : "");
}

void write_all(int fd, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("[write] cannot write '{}': {}", path.string(), reason(errno));
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

std::string read_file(const std::filesystem::path& path, size_t limit_bytes) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // never wait for a pipe
  if (!file.valid()) fail<FormatError>("[read] cannot open '{}': {}", path.string(), std::strerror(errno));
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    fail<FormatError>("[read] '{}' is not a regular file", path.string());
  const auto size_bytes = static_cast<size_t>(status.st_size);
  if (size_bytes > limit_bytes)
    fail<FormatError>("[read] '{}' holds {} bytes, more than the {} allowed here", path.string(), size_bytes,
                      limit_bytes);
  std::string content(size_bytes, '\0');
  size_t done = 0;
  while (done < size_bytes) {
    const ssize_t got = ::read(file.get(), content.data() + done, size_bytes - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail<FormatError>("[read] cannot read '{}': {}", path.string(), std::strerror(errno));
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), folder_(path_.has_parent_path() ? path_.parent_path() : ".") {
  temporary_ = (folder_ / fmt::format(".{}.XXXXXX", path_.filename().string())).string();
  descriptor_ = ::mkostemp(temporary_.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail("[write] cannot create a file in '{}': {}", folder_.string(), reason(errno));
}

AtomicFile::~AtomicFile() {
  if (!committed_) ::unlink(temporary_.c_str());
  ::close(descriptor_);
}

void AtomicFile::write(std::string_view bytes) { write_all(descriptor_, bytes, path_); }

void AtomicFile::commit() {
  if (::fchmod(descriptor_, 0644) != 0 || ::fsync(descriptor_) != 0 ||
      ::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("[write] cannot write '{}': {}", path_.string(), reason(errno));
  committed_ = true;
  const Descriptor parent(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (parent.valid()) ::fsync(parent.get());
}

void write_file_atomic(const std::filesystem::path& path, std::span<const std::string_view> pieces) {
  AtomicFile file(path);
  for (const std::string_view piece : pieces) file.write(piece);
  file.commit();
}

}  // namespace luminal
