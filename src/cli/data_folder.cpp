#include "cli/data_folder.h"

#include <system_error>

namespace luminal::cli {

std::filesystem::path shipped(const std::filesystem::path& name) {
  namespace fs = std::filesystem;
  const fs::path here = fs::path("data") / name;
  if (fs::exists(here)) return here;
  std::error_code none;
  const fs::path program = fs::read_symlink("/proc/self/exe", none);
  for (fs::path folder = program.parent_path(); !folder.empty() && folder != folder.root_path();
       folder = folder.parent_path())
    for (const fs::path& candidate : {folder / here, folder / "share" / "luminal" / name, folder / name})
      if (fs::exists(candidate)) return candidate;
  return here;
}

}  // namespace luminal::cli
