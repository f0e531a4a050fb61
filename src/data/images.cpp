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
  fail<FormatError>("[data] '{}' has none of {}; give the folder with the MNIST files", folder.string(),
                    fmt::join(names, ", "));
}

}  // namespace

std::span<const uint8_t> ImageSet::image(int64_t index) const {
  if (index < 0 || index >= size()) fail("[data] no image {}; the set has {}, counted from 0", index, size());
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

// --- Batches

AugmentImage random_shift(int64_t pixels) {
  return [pixels](std::span<float> image, int64_t height, int64_t width, Random& random) {
    const auto span = static_cast<uint64_t>(2 * pixels + 1);
    const int64_t down = static_cast<int64_t>(random.below(span)) - pixels,
                  right = static_cast<int64_t>(random.below(span)) - pixels;
    const std::vector<float> old(image.begin(), image.end());
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const int64_t from_y = y - down, from_x = x - right;
        const bool inside = from_y >= 0 && from_y < height && from_x >= 0 && from_x < width;
        image[static_cast<size_t>(y * width + x)] =
            inside ? old[static_cast<size_t>(from_y * width + from_x)] : 0.0F;
      }
  };
}

AugmentImage random_flip() {
  return [](std::span<float> image, int64_t height, int64_t width, Random& random) {
    if (random.below(2) == 0) return;
    for (int64_t y = 0; y < height; ++y)
      std::reverse(image.begin() + y * width, image.begin() + (y + 1) * width);
  };
}

ImageSource::ImageSource(const ImageSet& set, std::vector<AugmentImage> augment)
    : set_(&set), augment_(std::move(augment)) {
  // A byte has 256 values; dividing each pixel anew would give the same.
  for (size_t value = 0; value < scale_.size(); ++value) scale_[value] = static_cast<float>(value) / 255.0F;
}

void ImageSource::fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
                       std::vector<TensorData>& batch) const {
  batch.resize(2);
  const auto count = static_cast<int64_t>(which.size());
  const auto pixels = static_cast<size_t>(set_->image_pixels());
  batch[0].dtype = Dtype::F32;
  batch[0].dims = {count, 1, set_->height, set_->width};
  batch[0].bytes.resize(which.size() * pixels * sizeof(float));
  batch[1].dtype = Dtype::I32;
  batch[1].dims = {count};
  batch[1].bytes.resize(which.size() * sizeof(int32_t));
  for (size_t i = 0; i < which.size(); ++i) {
    const auto at = static_cast<size_t>(which[i]);
    batch[1].as<int32_t>()[i] = set_->labels[at];
    const auto source = std::span(set_->pixels).subspan(at * pixels, pixels);
    const auto image = batch[0].as<float>().subspan(i * pixels, pixels);
    std::ranges::transform(source, image.begin(), [this](uint8_t value) { return scale_[value]; });
    if (augment_.empty()) continue;
    Random own = random(which[i]);
    for (const AugmentImage& change : augment_) change(image, set_->height, set_->width, own);
  }
}

BatchLoader::BatchLoader(const ImageSet& set, const Options& options, std::vector<AugmentImage> augment)
    : source_(set, std::move(augment)), loader_(source_, options) {}

const Batch* BatchLoader::Epoch::next() {
  const std::vector<TensorData>* tensors = batches_.next();
  if (tensors == nullptr) return nullptr;
  const TensorData &images = (*tensors)[0], &labels = (*tensors)[1];
  batch_ = {labels.dims[0], images.as<float>(), labels.as<int32_t>()};
  return &batch_;
}

}  // namespace luminal::data
