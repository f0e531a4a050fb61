#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fail.h"
#include "base/file.h"
#include "base/log.h"

namespace luminal {
namespace {

std::string number_in(int descriptor) {
  std::array<char, 24> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  std::string number(text.data(), static_cast<size_t>(std::max<ssize_t>(0, size)));
  while (!number.empty() && std::isspace(static_cast<unsigned char>(number.back())) != 0) number.pop_back();
  const bool is_number =
      !number.empty() && std::ranges::all_of(number, [](unsigned char c) { return std::isdigit(c) != 0; });
  return is_number ? number : "another";
}

/// Whether the file that was opened still has that name.
bool is_at(int descriptor, const std::filesystem::path& path) {
  struct stat opened{}, named{};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FileLock::FileLock(std::filesystem::path path) : path_(std::move(path)), owner_(::getpid()) {
  while (true) {
    descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0)
      fail("[lock] cannot open '{}': {}; choose another place", path_.string(), std::strerror(errno));
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) break;
    if (is_at(descriptor_, path_)) {
      tell_holder();
      return;
    }
    ::close(descriptor_);  // its holder removed it meanwhile
  }
  held_ = errno != EWOULDBLOCK;
  if (held_)  // some network file systems
    log_line(fmt::format("[lock] cannot lock '{}' ({}); let one process at a time write there",
                         path_.string(), std::strerror(errno)));
  else
    holder_ = number_in(descriptor_);
}

void FileLock::tell_holder() const {
  const std::string number = fmt::format("{}\n", owner_);
  if (::ftruncate(descriptor_, 0) != 0 || ::pwrite(descriptor_, number.data(), number.size(), 0) < 0)
    debug(1, "[lock] cannot note the owner in '{}': {}", path_.string(), std::strerror(errno));
}

FileLock::~FileLock() {
  if (held_ && owner_ == ::getpid()) ::unlink(path_.c_str());
  ::close(descriptor_);
}

}  // namespace luminal
