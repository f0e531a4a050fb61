#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

/// What measured compiles found and keep, so that the next one measures nothing: one file, in LUMINAL_CACHE's
/// folder. It may be carried to other machines of the same kind:
///
///   export_tuning("tuned.db");                          // there
///   const int added = import_tuning("tuned.db");        // here
///
/// On the command line: `luminal cache --export FILE`, `luminal cache --import FILE`.
namespace luminal {

struct TuningState {
  std::filesystem::path file;
  int64_t choices = 0;       ///< kernels and plans that were chosen
  int64_t objects = 0;       ///< compiled kernels and where each is, covers, plans that were checked
  int64_t object_bytes = 0;  ///< of those
  std::string trouble;       ///< why nothing is remembered, or ""
};
[[nodiscard]] TuningState tuning_state();

/// Writes all choices to a new file; compiled code stays here. Errors: Error if the file exists or cannot be
/// written.
void export_tuning(const std::filesystem::path& file);
/// Imports the choices of such a file; of two for one kernel, the one found among more candidates stays. Each
/// is verified at its first use. Returns how many were new. Errors: FormatError if it is not such a file;
/// Error if the cache cannot be written.
int import_tuning(const std::filesystem::path& file);

}  // namespace luminal
