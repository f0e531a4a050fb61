#include <algorithm>

#include "base/fail.h"
#include "base/file.h"
#include "luminal/data.h"

namespace luminal::data {

TextSource::TextSource(std::string text, int64_t length, int64_t stride)
    : text_(std::move(text)), length_(length), stride_(stride) {
  if (length < 1 || stride < 1)
    fail("[data] windows of {} bytes with a stride of {} are out of range; give 1 or more for both", length,
         stride);
  const auto bytes = static_cast<int64_t>(text_.size());
  if (bytes <= length)
    fail("[data] the text has {} bytes and a window takes {}; give more text or shorter windows", bytes,
         length + 1);
  count_ = (bytes - length - 1) / stride + 1;
}

void TextSource::fill(std::span<const int64_t> which, const std::function<Random(int64_t)>&,
                      std::vector<TensorData>& batch) const {
  batch.resize(2);
  for (TensorData& tensor : batch) {
    tensor.dtype = Dtype::I32;
    tensor.dims = {static_cast<int64_t>(which.size()), length_};
    tensor.bytes.resize(which.size() * static_cast<size_t>(length_) * sizeof(int32_t));
  }
  for (size_t i = 0; i < which.size(); ++i)
    for (int64_t k = 0; k < length_; ++k) {
      const auto from = static_cast<size_t>(which[i] * stride_ + k);
      const size_t to = i * static_cast<size_t>(length_) + static_cast<size_t>(k);
      batch[0].as<int32_t>()[to] = static_cast<unsigned char>(text_[from]);
      batch[1].as<int32_t>()[to] = static_cast<unsigned char>(text_[from + 1]);
    }
}

std::string load_text(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(path)) return read_file(path);
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path))
    if (entry.is_regular_file() && (entry.path().extension() == ".txt" || entry.path().extension() == ".md"))
      files.push_back(entry.path());
  if (files.empty())
    fail<FormatError>("[data] '{}' holds no .txt or .md file; give a file, or a folder with some",
                      path.string());
  std::ranges::sort(files);
  std::string text;
  for (const fs::path& file : files) text += (text.empty() ? "" : "\n\n") + read_file(file);
  return text;
}

}  // namespace luminal::data
