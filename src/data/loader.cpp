#include "luminal/data.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/fail.h"
#include "base/hash.h"

namespace luminal::data {
namespace {

/// splitmix64: a counter, mixed. Its whole state is what it was made from, so streams cost nothing.
class Stream {
 public:
  Stream(uint64_t seed, uint64_t number) : state_(combine(mix(seed), number)) {}

  /// A number below `bound`, each as likely as the others: values of the last, incomplete round are drawn
  /// again.
  uint64_t below(uint64_t bound) {
    const uint64_t usable = UINT64_MAX - UINT64_MAX % bound;
    uint64_t value = next();
    while (value >= usable) value = next();
    return value % bound;
  }

 private:
  uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }
  uint64_t state_;
};

}  // namespace

std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint64_t epoch) {
  if (count < 0) fail("[data] a permutation of {} numbers makes no sense; give 0 or more", count);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  Stream stream(seed, epoch);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[stream.below(i)]);
  return order;
}

/// The thread that makes batches, and the ring of buffers between it and the caller. Buffer i % size holds
/// batch i; `taken_` batches were given back, `made_` are finished, so at most size() - 1 wait while the
/// caller holds one.
class BatchLoader::Epoch::Worker {
 public:
  Worker(const ImageSet& set, const Options& options, int64_t number, int64_t batches)
      : set_(set),
        batch_(options.batch),
        batches_(batches),
        order_(options.shuffle ? permutation(set.size(), options.seed, static_cast<uint64_t>(number))
                               : std::vector<int64_t>()),
        ring_(static_cast<size_t>(options.prefetch) + 1) {
    // A byte has 256 values; dividing each pixel anew would give the same.
    for (size_t value = 0; value < scale_.size(); ++value) scale_[value] = static_cast<float>(value) / 255.0F;
    thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  }

  const Batch* next() {
    std::unique_lock lock(mutex_);
    if (given_ > returned_) {
      ++returned_;
      room_.notify_one();
    }
    if (given_ == batches_) return nullptr;
    filled_.wait(lock, [this] { return made_ > given_ || error_; });
    if (made_ == given_) std::rethrow_exception(error_);
    return &slot(given_++).batch;
  }

 private:
  struct Buffer {
    std::vector<float> images;
    std::vector<int32_t> labels;
    Batch batch;
  };

  Buffer& slot(int64_t index) { return ring_[static_cast<size_t>(index) % ring_.size()]; }

  void work(const std::stop_token& stop) {
    try {
      for (int64_t i = 0; i < batches_; ++i) {
        {
          std::unique_lock lock(mutex_);
          if (!room_.wait(lock, stop, [&] { return i - returned_ < static_cast<int64_t>(ring_.size()); }))
            return;
        }
        fill(slot(i), i);
        const std::lock_guard lock(mutex_);
        made_ = i + 1;
        filled_.notify_one();
      }
    } catch (...) {  // no memory for a buffer: the caller learns of it in next()
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      filled_.notify_one();
    }
  }

  void fill(Buffer& buffer, int64_t index) const {
    const int64_t begin = index * batch_, size = std::min(batch_, set_.size() - begin);
    const auto pixels = static_cast<size_t>(set_.image_pixels());
    buffer.images.resize(static_cast<size_t>(size) * pixels);
    buffer.labels.resize(static_cast<size_t>(size));
    for (int64_t i = 0; i < size; ++i) {
      const int64_t which = order_.empty() ? begin + i : order_[static_cast<size_t>(begin + i)];
      buffer.labels[static_cast<size_t>(i)] = set_.labels[static_cast<size_t>(which)];
      const uint8_t* source = set_.pixels.data() + static_cast<size_t>(which) * pixels;
      std::transform(source, source + pixels, buffer.images.data() + static_cast<size_t>(i) * pixels,
                     [this](uint8_t value) { return scale_[value]; });
    }
    buffer.batch = {size, buffer.images, buffer.labels};
  }

  const ImageSet& set_;
  const int64_t batch_, batches_;
  const std::vector<int64_t> order_;
  std::array<float, 256> scale_{};
  std::vector<Buffer> ring_;
  std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable filled_;
  int64_t made_ = 0, given_ = 0, returned_ = 0;
  std::exception_ptr error_;
  std::jthread thread_;  // last: it ends before what it uses goes away
};

BatchLoader::Epoch::Epoch(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
BatchLoader::Epoch::Epoch(Epoch&&) noexcept = default;
BatchLoader::Epoch& BatchLoader::Epoch::operator=(Epoch&&) noexcept = default;
BatchLoader::Epoch::~Epoch() = default;
const Batch* BatchLoader::Epoch::next() { return worker_->next(); }

BatchLoader::BatchLoader(const ImageSet& set, const Options& options) : set_(&set), options_(options) {
  if (options.batch < 1) fail("[data] a batch of {} images makes no sense; give 1 or more", options.batch);
  if (options.prefetch < 1) fail("[data] {} batches ahead make no sense; give 1 or more", options.prefetch);
}

int64_t BatchLoader::batches_per_epoch() const {
  return options_.drop_last ? set_->size() / options_.batch
                            : (set_->size() + options_.batch - 1) / options_.batch;
}

int64_t BatchLoader::images_per_epoch() const {
  return std::min(set_->size(), batches_per_epoch() * options_.batch);
}

BatchLoader::Epoch BatchLoader::epoch(int64_t number) const {
  return Epoch(std::make_unique<Epoch::Worker>(*set_, options_, number, batches_per_epoch()));
}

}  // namespace luminal::data
