#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/safetensors.h"
#include "luminal/tensor_data.h"

/// A model as Hugging Face publishes it: a folder with config.json and safetensors files.
///
///   const ModelFolder folder("SmolLM2-135M");
///   std::cout << folder.config() << folder.names().size() << " tensors in " << folder.file_count() << " files\n";
///   const TensorData norm = folder.read("model.norm.weight");
namespace luminal {

/// Thread safety: any number of threads may read one.
class ModelFolder {
 public:
  /// Opens `model.safetensors`, or all files that `model.safetensors.index.json` names.
  /// Errors: FormatError if config.json, the weights or one of their files is missing or damaged, the index leads
  /// out of the folder, or index and files disagree on where a tensor is.
  explicit ModelFolder(const std::filesystem::path& path);
  ModelFolder(ModelFolder&&) noexcept;
  ModelFolder& operator=(ModelFolder&&) noexcept;
  ~ModelFolder();

  [[nodiscard]] const std::filesystem::path& path() const;
  /// config.json: a JSON object, as it stands there.
  [[nodiscard]] const std::string& config() const;
  /// generation_config.json, "{}" if there is none.
  [[nodiscard]] const std::string& generation_config() const;

  /// Files that hold tensors.
  [[nodiscard]] size_t file_count() const;
  /// Of these files together.
  [[nodiscard]] size_t size_bytes() const;
  /// The names of all tensors, sorted.
  [[nodiscard]] const std::vector<std::string>& names() const;
  [[nodiscard]] bool contains(std::string_view name) const;
  /// Errors, here and below: as SafetensorsFile::info() and read().
  [[nodiscard]] TensorInfo info(std::string_view name) const;
  [[nodiscard]] TensorData read(std::string_view name) const;
  /// The bytes of a tensor from `offset` on. Errors: ShapeError if it ends before.
  void read(std::string_view name, size_t offset, std::span<std::byte> out) const;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace luminal
