#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/loader.h"

/// Labelled images and how they come to a training loop.
///
///   data::ImageSet digits = data::load_mnist("data/mnist10k", data::Split::Train);
///   data::BatchLoader loader(digits, {.batch = 64, .seed = 1});
///   for (int epoch = 0; epoch < 2; ++epoch) {
///     auto batches = loader.epoch(epoch);
///     while (const data::Batch* batch = batches.next()) train(batch->images, batch->labels);
///   }
namespace luminal::data {

/// Grey images of one size with a class each, as IDX files hold them: one byte a pixel, row-major.
struct ImageSet {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
  int64_t height = 0, width = 0;
  int classes = 0;

  [[nodiscard]] int64_t size() const { return static_cast<int64_t>(labels.size()); }
  [[nodiscard]] int64_t image_pixels() const { return height * width; }
  /// The pixels of one image. Errors: Error if there is no such image.
  [[nodiscard]] std::span<const uint8_t> image(int64_t index) const;
  /// The first `count` images; all of them if `count` is 0 or larger than the set.
  [[nodiscard]] ImageSet first(int64_t count) const;
};

/// Reads a pair of IDX files, plain or gzipped. Errors: FormatError if one is missing or damaged, if the
/// images are not u8[N,H,W] or the labels not u8[N], if the two differ in N, or if a label is not below
/// `classes`.
[[nodiscard]] ImageSet load_images(const std::filesystem::path& images, const std::filesystem::path& labels,
                                   int classes);

enum class Split { Train, Test };

/// Reads MNIST, or a data set with its file names, from a folder: "train-images-idx3-ubyte" and so on, with
/// or without ".gz". Errors: FormatError that names the files looked for; those of load_images().
[[nodiscard]] ImageSet load_mnist(const std::filesystem::path& folder, Split split);

/// A batch, ready to be a graph's input.
struct Batch {
  int64_t size = 0;
  std::span<const float> images;    ///< [size, 1, height, width], 0..1
  std::span<const int32_t> labels;  ///< [size]
};

/// Changes one image of 0..1, row-major, in place.
using AugmentImage =
    std::function<void(std::span<float> image, int64_t height, int64_t width, Random& random)>;
/// Moves the image by up to `pixels` along both axes; what comes in is 0.
[[nodiscard]] AugmentImage random_shift(int64_t pixels);
/// Mirrors the image left to right, every other time.
[[nodiscard]] AugmentImage random_flip();

/// Images and labels as a Source: f32 [batch, 1, height, width] of 0..1 and i32 [batch]. The set must outlive
/// it. Thread safety: as any Source.
class ImageSource final : public Source {
 public:
  explicit ImageSource(const ImageSet& set, std::vector<AugmentImage> augment = {});
  [[nodiscard]] int64_t size() const override { return set_->size(); }
  void fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
            std::vector<TensorData>& batch) const override;

 private:
  const ImageSet* set_;
  std::vector<AugmentImage> augment_;
  std::array<float, 256> scale_{};
};

/// A Loader of images. The set must outlive it, and it its epochs. Thread safety: as Loader.
class BatchLoader {
 public:
  using Options = Loader::Options;
  class Epoch {
   public:
    /// The next batch, valid until the next call; nullptr after the last.
    [[nodiscard]] const Batch* next();

   private:
    friend class BatchLoader;
    explicit Epoch(Loader::Epoch batches) : batches_(std::move(batches)) {}
    Loader::Epoch batches_;
    Batch batch_;
  };

  /// Errors: Error if batch or prefetch is below 1.
  BatchLoader(const ImageSet& set, const Options& options, std::vector<AugmentImage> augment = {});
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  [[nodiscard]] int64_t batches_per_epoch() const { return loader_.batches_per_epoch(); }
  [[nodiscard]] int64_t images_per_epoch() const { return loader_.examples_per_epoch(); }
  /// Starts epoch `number` at its batch `first`; order and augmentation depend on seed and number only.
  [[nodiscard]] Epoch epoch(int64_t number, int64_t first = 0) const {
    return Epoch(loader_.epoch(number, first));
  }

 private:
  ImageSource source_;
  Loader loader_;
};

/// Text as bytes, cut into examples for a language model: window w holds bytes w * stride to w * stride +
/// length, and what follows each. As a Source: i32 [batch, length] and the same one byte on.
/// Thread safety: as any Source.
class TextSource final : public Source {
 public:
  /// Errors: Error if length or stride is below 1, or the text is not longer than `length`.
  TextSource(std::string text, int64_t length, int64_t stride);
  [[nodiscard]] int64_t size() const override { return count_; }
  [[nodiscard]] const std::string& text() const { return text_; }
  void fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
            std::vector<TensorData>& batch) const override;

 private:
  std::string text_;
  int64_t length_, stride_, count_;
};

/// The text of a file, or of all files in a folder that end in .txt or .md, sorted by path, a blank line
/// between them. Errors: FormatError if there is none or it cannot be read.
[[nodiscard]] std::string load_text(const std::filesystem::path& path);

}  // namespace luminal::data
