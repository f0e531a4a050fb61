#include "base/dump.h"

#include <filesystem>
#include <mutex>
#include <set>

#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"

namespace luminal {
namespace {

void tell_once(const std::string& folder, std::string_view why) {
  static std::mutex mutex;
  static std::set<std::string> told;
  const std::lock_guard lock(mutex);
  if (told.insert(folder).second)
    log_line(fmt::format("[dump] cannot write to LUMINAL_DUMP='{}': {}", folder, why));
}

}  // namespace

bool is_dumping() { return !environment::dump_folder().empty(); }

void dump_file(const std::string& name, std::string_view content) {
  const std::string folder = environment::dump_folder();
  if (folder.empty()) return;
  try {
    std::filesystem::create_directories(folder);
    write_file_atomic(std::filesystem::path(folder) / name, content);
  } catch (const std::exception& error) {
    tell_once(folder, error.what());
  }
}

}  // namespace luminal
