#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

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
/// or without
/// ".gz". Errors: FormatError that names the files looked for; those of load_images().
[[nodiscard]] ImageSet load_mnist(const std::filesystem::path& folder, Split split);

/// The numbers 0 to count-1 in an order that depends on the arguments only: the same on every machine.
/// Source: Fisher and Yates 1938, with splitmix64 (Steele et al. 2014) and rejection, so that no order is
/// favoured.
[[nodiscard]] std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint64_t epoch);

/// A batch, ready to be a graph's input.
struct Batch {
  int64_t size = 0;
  std::span<const float> images;    ///< [size, 1, height, width], 0..1
  std::span<const int32_t> labels;  ///< [size]
};

/// Cuts a set into batches, in a new order each epoch, and converts them on a thread of its own while the
/// caller trains. The set must outlive the loader, the loader its epochs.
class BatchLoader {
 public:
  struct Options {
    int64_t batch = 64;
    uint64_t seed = 0;
    bool shuffle = true;
    bool drop_last = false;  ///< leave out a last batch that is not full
    int prefetch = 2;        ///< batches made ahead of time
  };

  /// One pass over the set. May be left at any point; its thread ends with it.
  class Epoch {
   public:
    Epoch(Epoch&&) noexcept;
    Epoch& operator=(Epoch&&) noexcept;
    ~Epoch();
    /// The next batch, valid until the next call; nullptr after the last.
    [[nodiscard]] const Batch* next();

   private:
    friend class BatchLoader;
    class Worker;
    explicit Epoch(std::unique_ptr<Worker> worker);
    std::unique_ptr<Worker> worker_;
  };

  /// Errors: Error if batch or prefetch is below 1.
  BatchLoader(const ImageSet& set, const Options& options);

  [[nodiscard]] int64_t batches_per_epoch() const;
  [[nodiscard]] int64_t images_per_epoch() const;
  /// Starts epoch `number`, whose order depends on the seed and the number only.
  [[nodiscard]] Epoch epoch(int64_t number) const;

 private:
  const ImageSet* set_;
  Options options_;
};

}  // namespace luminal::data
