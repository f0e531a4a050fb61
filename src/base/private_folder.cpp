#include "base/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace luminal {

namespace fs = std::filesystem;

std::string distrust_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return "";
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    return fmt::format(
        "'{}' belongs to user {}, and this program runs as user {}; choose a folder of your own",
        path.string(), status.st_uid, ::geteuid());
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fmt::format(
        "others may write to '{}' (mode {:o}), so what it holds cannot be trusted; run: chmod {} '{}'",
        path.string(), status.st_mode & 07777U, S_ISDIR(status.st_mode) ? "700" : "600", path.string());
  return "";
}

std::string make_private_folder(const fs::path& folder) {
  if (!fs::exists(folder)) {
    if (folder.has_parent_path()) fs::create_directories(folder.parent_path());
    if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)
      throw fs::filesystem_error("cannot create it", folder, std::error_code(errno, std::generic_category()));
  }
  if (!fs::is_directory(folder))
    throw fs::filesystem_error("not a folder", folder, std::make_error_code(std::errc::not_a_directory));
  return distrust_of(folder);
}

bool can_be_written(const fs::path& folder) {
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0;
}

}  // namespace luminal
