#pragma once
#include <filesystem>
#include <string>

/// What a folder of sentence-transformers says beside config.json: modules.json and the modules' own files.
namespace luminal::models {

/// Under this key of config.json FolderModel gives what read_pooling() returns; files do not have it.
inline constexpr const char* kPoolingKey = "luminal_pooling";

/// "mean" or "cls"; "mean" without modules.json. Errors: FormatError for files that are damaged, and for modules and
/// poolings of other kinds.
[[nodiscard]] std::string read_pooling(const std::filesystem::path& folder);
/// Writes files that read_pooling() reads, with a module that normalises.
void write_pooling(const std::filesystem::path& folder, const std::string& pooling, int64_t size);

}  // namespace luminal::models
