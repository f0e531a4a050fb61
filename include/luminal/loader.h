#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "luminal/tensor_data.h"

/// From a set of examples to batches, made on a thread of their own while the caller trains.
///
///   data::TensorSource points({features, labels});    // [N, ...] each, read together
///   data::Loader loader(points, {.batch = 32, .seed = 1});
///   for (int64_t epoch = 0; epoch < 10; ++epoch) {
///     data::Loader::Epoch batches = loader.epoch(epoch);
///     while (const std::vector<TensorData>* batch = batches.next()) train((*batch)[0], (*batch)[1]);
///   }
///
/// Order and augmentation of an epoch depend on the seed and its number only, so training goes on after an
/// interruption as if there had been none: loader.epoch(number, batches already seen).
namespace luminal::data {

/// Random numbers that depend on what it is made from only: the same on every machine and in any order.
/// Source: splitmix64 (Steele et al. 2014). Thread safety: one thread at a time.
class Random {
 public:
  Random(uint64_t seed, uint64_t stream);
  /// A number below `bound` (above 0), each as likely as the others.
  [[nodiscard]] uint64_t below(uint64_t bound);
  /// In [0, 1).
  [[nodiscard]] double uniform();

 private:
  uint64_t next();
  uint64_t state_;
};

/// The numbers 0 to count-1 in an order that depends on the arguments only: the same on every machine.
/// Source: Fisher and Yates 1938, with rejection, so that no order is favoured.
[[nodiscard]] std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint64_t epoch);

/// A set of examples, read by number. Thread safety: `fill` is called from a loader's thread, one call at a
/// time for each epoch, several epochs at once, and must not change the source.
class Source {
 public:
  virtual ~Source() = default;
  [[nodiscard]] virtual int64_t size() const = 0;
  /// Writes the examples `which` into `batch`, which holds the tensors of an earlier batch or is empty: dims
  /// and bytes are overwritten, memory is reused. `random(i)` is example i's own generator in this epoch.
  virtual void fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
                    std::vector<TensorData>& batch) const = 0;
};

/// Tensors of equal first dim; example i is row i of each. `augment` may change an example that was just
/// copied: it sees the rows of one example, as bytes of the tensors' dtypes. Thread safety: as any Source,
/// if `augment` changes nothing else.
class TensorSource final : public Source {
 public:
  using Augment = std::function<void(std::span<const std::span<std::byte>> rows, Random& random)>;
  /// Errors: ShapeError if there are no tensors, one has rank 0, or first dims differ.
  explicit TensorSource(std::vector<TensorData> tensors, Augment augment = {});
  [[nodiscard]] int64_t size() const override { return tensors_.front().dims.front(); }
  [[nodiscard]] const std::vector<TensorData>& tensors() const { return tensors_; }
  void fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
            std::vector<TensorData>& batch) const override;

 private:
  std::vector<TensorData> tensors_;
  Augment augment_;
};

/// Some examples of another source, by number: a part to train on and one to test on. The source must outlive
/// it. Thread safety: as its source.
class Subset final : public Source {
 public:
  /// Errors: Error if there is no such example.
  Subset(const Source& source, std::vector<int64_t> which);
  [[nodiscard]] int64_t size() const override { return static_cast<int64_t>(which_.size()); }
  void fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
            std::vector<TensorData>& batch) const override;

 private:
  const Source* source_;
  std::vector<int64_t> which_;
};

/// Cuts a source into batches, in a new order each epoch. The source must outlive the loader, the loader its
/// epochs. Thread safety: several threads may ask one loader for epochs; an epoch belongs to one thread at a
/// time. Where the system gives no thread, batches are made when they are asked for.
class Loader {
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
    /// The next batch, valid until the next call; nullptr after the last. Errors: what the source throws;
    /// Error if the epoch was moved from.
    [[nodiscard]] const std::vector<TensorData>* next();

   private:
    friend class Loader;
    class Worker;
    explicit Epoch(std::unique_ptr<Worker> worker);
    std::unique_ptr<Worker> worker_;
  };

  /// Errors: Error if batch or prefetch is below 1.
  Loader(const Source& source, const Options& options);

  [[nodiscard]] int64_t batches_per_epoch() const;
  [[nodiscard]] int64_t examples_per_epoch() const;
  /// Starts epoch `number` at its batch `first`.
  [[nodiscard]] Epoch epoch(int64_t number, int64_t first = 0) const;

 private:
  const Source* source_;
  Options options_;
};

}  // namespace luminal::data
