#include "luminal/loader.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <thread>

#include "base/fail.h"
#include "base/hash.h"
#include "base/thread.h"

namespace luminal::data {

Random::Random(uint64_t seed, uint64_t stream) : state_(combine(mix(seed), stream)) {}

// A counter, mixed.
uint64_t Random::next() { return mix(state_ += 0x9e3779b97f4a7c15ULL); }

// Values of the last, incomplete round are drawn again.
uint64_t Random::below(uint64_t bound) {
  const uint64_t usable = UINT64_MAX - UINT64_MAX % bound;
  uint64_t value = next();
  while (value >= usable) value = next();
  return value % bound;
}

double Random::uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

std::vector<int64_t> permutation(int64_t count, uint64_t seed, uint64_t epoch) {
  if (count < 0) fail("[data] a permutation of {} numbers is impossible; give 0 or more", count);
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  Random random(seed, epoch);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

/// The thread that makes batches, and the ring of buffers between it and the caller. Buffer i % size holds
/// batch i; `returned_` batches were given back, `made_` are finished, so at most size() - 1 wait while the
/// caller holds one.
class Loader::Epoch::Worker {
 public:
  Worker(const Source& source, const Options& options, int64_t number, int64_t first, int64_t batches)
      : source_(source),
        options_(options),
        number_(number),
        batches_(batches),
        order_(options.shuffle ? permutation(source.size(), options.seed, static_cast<uint64_t>(number))
                               : std::vector<int64_t>()),
        ring_(static_cast<size_t>(options.prefetch) + 1),
        first_(first),
        made_(first),
        given_(first),
        returned_(first) {
    thread_ = start_thread<std::jthread>([this](const std::stop_token& stop) { work(stop); });
  }

  const std::vector<TensorData>* next() {
    std::unique_lock lock(mutex_);
    if (given_ > returned_) {
      ++returned_;
      room_.notify_one();
    }
    if (given_ == batches_) return nullptr;
    if (!thread_) {  // the system gave none: made when it is asked for
      fill(slot(given_), given_);
      return &slot(given_++);
    }
    filled_.wait(lock, [this] { return made_ > given_ || error_; });
    if (made_ == given_) std::rethrow_exception(error_);
    return &slot(given_++);
  }

 private:
  std::vector<TensorData>& slot(int64_t index) { return ring_[static_cast<size_t>(index) % ring_.size()]; }

  void work(const std::stop_token& stop) {
    try {
      for (int64_t i = first_; i < batches_; ++i) {
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
    } catch (...) {  // no memory, or the source's own error: the caller learns of it in next()
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      filled_.notify_one();
    }
  }

  void fill(std::vector<TensorData>& buffer, int64_t index) const {
    const int64_t begin = index * options_.batch, size = std::min(options_.batch, source_.size() - begin);
    std::vector<int64_t> which(static_cast<size_t>(size));
    std::iota(which.begin(), which.end(), begin);
    if (!order_.empty())
      for (int64_t& each : which) each = order_[static_cast<size_t>(each)];
    const uint64_t epoch_seed = combine(options_.seed, static_cast<uint64_t>(number_));
    source_.fill(
        which, [&](int64_t example) { return Random(epoch_seed, static_cast<uint64_t>(example)); }, buffer);
  }

  const Source& source_;
  const Options options_;
  const int64_t number_, batches_;
  const std::vector<int64_t> order_;
  std::vector<std::vector<TensorData>> ring_;
  std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable filled_;
  const int64_t first_;
  int64_t made_, given_, returned_;
  std::exception_ptr error_;
  std::optional<std::jthread> thread_;  // last: it ends before what it uses goes away
};

Loader::Epoch::Epoch(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
Loader::Epoch::Epoch(Epoch&&) noexcept = default;
Loader::Epoch& Loader::Epoch::operator=(Epoch&&) noexcept = default;
Loader::Epoch::~Epoch() = default;
const std::vector<TensorData>* Loader::Epoch::next() {
  if (!worker_) fail("[data] this epoch was moved from; use the one that it was moved to");
  return worker_->next();
}

Loader::Loader(const Source& source, const Options& options) : source_(&source), options_(options) {
  if (options.batch < 1) fail("[data] the batch size is {}; give 1 or more", options.batch);
  if (options.prefetch < 1) fail("[data] prefetch is {}; give 1 or more", options.prefetch);
}

int64_t Loader::batches_per_epoch() const {
  return options_.drop_last ? source_->size() / options_.batch
                            : (source_->size() + options_.batch - 1) / options_.batch;
}

int64_t Loader::examples_per_epoch() const {
  return std::min(source_->size(), batches_per_epoch() * options_.batch);
}

Loader::Epoch Loader::epoch(int64_t number, int64_t first) const {
  const int64_t batches = batches_per_epoch();
  if (first < 0 || first > batches)
    fail("[data] an epoch has {} batches and cannot start at batch {}; give 0 to {}", batches, first,
         batches);
  return Epoch(std::make_unique<Epoch::Worker>(*source_, options_, number, first, batches));
}

// --- Tensors

TensorSource::TensorSource(std::vector<TensorData> tensors, Augment augment)
    : tensors_(std::move(tensors)), augment_(std::move(augment)) {
  if (tensors_.empty()) fail<ShapeError>("[data] no tensors are given; give at least one");
  for (const TensorData& tensor : tensors_) tensor.check_bytes("data");
  for (size_t i = 0; i < tensors_.size(); ++i)
    if (tensors_[i].dims.empty() || tensors_[i].dims.front() != tensors_.front().dims.front())
      fail<ShapeError>(
          "[data] tensor {} has dims [{}] and tensor 0 [{}]; the first dim counts the examples of all", i,
          fmt::join(tensors_[i].dims, ", "), fmt::join(tensors_.front().dims, ", "));
}

void TensorSource::fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
                        std::vector<TensorData>& batch) const {
  batch.resize(tensors_.size());
  std::vector<size_t> row_bytes;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const TensorData& from = tensors_[i];
    batch[i].dtype = from.dtype;
    batch[i].dims = from.dims;
    batch[i].dims.front() = static_cast<int64_t>(which.size());
    row_bytes.push_back(size() > 0 ? from.bytes.size() / static_cast<size_t>(size()) : 0);
    batch[i].bytes.resize(row_bytes[i] * which.size());
  }
  for (size_t k = 0; k < which.size(); ++k) {
    std::vector<std::span<std::byte>> rows;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      const auto from =
          std::span(tensors_[i].bytes).subspan(static_cast<size_t>(which[k]) * row_bytes[i], row_bytes[i]);
      const auto to = std::span(batch[i].bytes).subspan(k * row_bytes[i], row_bytes[i]);
      std::ranges::copy(from, to.begin());
      rows.push_back(to);
    }
    if (!augment_) continue;
    Random own = random(which[k]);
    augment_(rows, own);
  }
}

// --- Parts of a source

Subset::Subset(const Source& source, std::vector<int64_t> which)
    : source_(&source), which_(std::move(which)) {
  for (const int64_t index : which_)
    if (index < 0 || index >= source.size())
      fail("[data] no example {}; give 0 to {}", index, source.size() - 1);
}

void Subset::fill(std::span<const int64_t> which, const std::function<Random(int64_t)>& random,
                  std::vector<TensorData>& batch) const {
  std::vector<int64_t> theirs(which.size());
  std::ranges::transform(which, theirs.begin(), [&](int64_t i) { return which_[static_cast<size_t>(i)]; });
  source_->fill(theirs, random, batch);
}

}  // namespace luminal::data
