#include "luminal/data.h"

#include <algorithm>

#include "base/fail.h"
#include "luminal/idx.h"

namespace luminal::data {
namespace {

std::string described(const TensorData& tensor) {
  return fmt::format("{}[{}]", name(tensor.dtype), fmt::join(tensor.dims, ","));
}

std::vector<uint8_t> content_of(const TensorData& tensor) {
  const auto values = tensor.as<uint8_t>();
  return {values.begin(), values.end()};
}

/// MNIST itself calls its test set "t10k".
std::filesystem::path find(const std::filesystem::path& folder, Split split, std::string_view kind) {
  std::vector<std::string> names;
  for (const char* set : split == Split::Train ? std::vector{"train"} : std::vector{"test", "t10k"})
    for (const char* ending : {".gz", ""}) names.push_back(fmt::format("{}-{}-ubyte{}", set, kind, ending));
  for (const std::string& name : names)
    if (std::filesystem::exists(folder / name)) return folder / name;
  fail<FormatError>("[data] '{}' holds none of {}; give the folder with the MNIST files", folder.string(),
                    fmt::join(names, ", "));
}

}  // namespace

std::span<const uint8_t> ImageSet::image(int64_t index) const {
  if (index < 0 || index >= size())
    fail("[data] there is no image {}; the set holds {}, from 0", index, size());
  return std::span(pixels).subspan(static_cast<size_t>(index * image_pixels()),
                                   static_cast<size_t>(image_pixels()));
}

ImageSet ImageSet::first(int64_t count) const {
  if (count <= 0 || count >= size()) return *this;
  ImageSet part;
  part.height = height;
  part.width = width;
  part.classes = classes;
  part.labels.assign(labels.begin(), labels.begin() + count);
  part.pixels.assign(pixels.begin(), pixels.begin() + count * image_pixels());
  return part;
}

ImageSet load_images(const std::filesystem::path& images, const std::filesystem::path& labels, int classes) {
  const TensorData pixels = read_idx(images);
  if (pixels.dtype != Dtype::U8 || pixels.dims.size() != 3)
    fail<FormatError>("[data] '{}' is {}, images are u8[N,height,width]; are the two files swapped?",
                      images.string(), described(pixels));
  const TensorData numbers = read_idx(labels);
  if (numbers.dtype != Dtype::U8 || numbers.dims.size() != 1)
    fail<FormatError>("[data] '{}' is {}, labels are u8[N]; are the two files swapped?", labels.string(),
                      described(numbers));
  if (pixels.dims[0] != numbers.dims[0])
    fail<FormatError>("[data] '{}' holds {} images, but '{}' {} labels; they belong to different sets",
                      images.string(), pixels.dims[0], labels.string(), numbers.dims[0]);
  ImageSet set{content_of(pixels), content_of(numbers), pixels.dims[1], pixels.dims[2], classes};
  for (size_t i = 0; i < set.labels.size(); ++i)
    if (set.labels[i] >= classes)
      fail<FormatError>("[data] '{}': label {} of image {} is not below {}, the number of classes",
                        labels.string(), set.labels[i], i, classes);
  return set;
}

ImageSet load_mnist(const std::filesystem::path& folder, Split split) {
  constexpr int kDigits = 10;
  const auto images = find(folder, split, "images-idx3");
  return load_images(images, find(folder, split, "labels-idx1"), kDigits);
}

}  // namespace luminal::data
