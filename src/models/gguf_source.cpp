#include "models/gguf_source.h"

#include <algorithm>

#include "base/fail.h"

namespace luminal::models {
namespace {

class FileSource final : public GgufSource {
 public:
  explicit FileSource(const std::filesystem::path& path) : file_(path) {}
  [[nodiscard]] const GgufMetadata& metadata() const override { return file_.metadata(); }
  [[nodiscard]] const std::vector<GgufTensorInfo>& tensors() const override { return file_.tensors(); }
  [[nodiscard]] std::vector<std::byte> read(size_t index) const override {
    const GgufTensorInfo& info = tensors()[index];
    std::vector<std::byte> bytes(static_cast<size_t>(info.size_bytes()));
    file_.read(info.name, 0, bytes);
    return bytes;
  }

 private:
  GgufFile file_;
};

}  // namespace

std::unique_ptr<GgufSource> open_gguf_source(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) return folder_as_gguf(path);
  return std::make_unique<FileSource>(path);
}

const GgufValue* find_metadata(const GgufMetadata& metadata, std::string_view key) {
  const auto found = std::ranges::find(metadata, key, &GgufMetadata::value_type::first);
  return found == metadata.end() ? nullptr : &found->second;
}

void set_metadata(GgufMetadata& metadata, std::string_view key, GgufValue value) {
  const auto found = std::ranges::find(metadata, key, &GgufMetadata::value_type::first);
  if (found != metadata.end())
    found->second = std::move(value);
  else
    metadata.emplace_back(key, std::move(value));
}

}  // namespace luminal::models
