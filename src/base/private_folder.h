#pragma once
#include <filesystem>
#include <string>

namespace luminal {

/// Makes a folder that only its owner can write (mode 700) if it is not there. Returns why what lies in it
/// cannot be trusted: the folder is somebody else's (neither the user's nor root's), or others may write to
/// it;
/// "" if it can. Errors: filesystem_error if the folder cannot be made.
[[nodiscard]] std::string make_private_folder(const std::filesystem::path& folder);
/// The same question about a folder or a file; "" for one that is not there.
[[nodiscard]] std::string distrust_of(const std::filesystem::path& path);
/// Whether files can be made in it: false on a read-only file system too, where root has all rights and none.
[[nodiscard]] bool can_be_written(const std::filesystem::path& folder);

}  // namespace luminal
