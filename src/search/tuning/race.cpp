#include "search/tuning/race.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/cancel.h"

namespace luminal::search {
using backends::aligned;

Bench::Bench(backends::Device& device, std::span<const BenchInput> inputs,
             std::span<const int64_t> output_bytes, DimMap dims, int copies)
    : device_(device), dims_(std::move(dims)), memory_(device) {
  int64_t total = 0;
  for (const BenchInput& input : inputs) total += aligned(input.bytes);
  for (const int64_t bytes : output_bytes) total += aligned(bytes);
  memory_.reserve(std::max<int64_t>(total * copies, 1));
  const auto stream = device.make_stream();
  backends::Address at = memory_.address();
  for (int copy = 0; copy < copies; ++copy) {
    std::vector<backends::Address>& buffers = buffers_.emplace_back();
    const auto add = [&](int64_t bytes) {
      buffers.push_back(at);
      at = at + aligned(bytes);
    };
    for (const BenchInput& input : inputs) {
      const auto most = static_cast<int64_t>(input.repeated.size());
      for (int64_t done = 0; done < input.bytes; done += most)
        stream->upload(input.repeated.data(), at + done, std::min(most, input.bytes - done));
      add(input.bytes);
    }
    for (const int64_t bytes : output_bytes) {
      stream->fill(at, std::byte{0}, bytes);  // pages are there before anything is timed
      add(bytes);
    }
  }
  stream->synchronise();
}

namespace {
constexpr int kPreparation = 0, kTimed = 1;  ///< launches of a contender's lists
}  // namespace

Contender::Contender(std::shared_ptr<const backends::Kernel> kernel, const Bench& bench)
    : kernel_(std::move(kernel)),
      workspace_(bench.device()),
      stream_(bench.device().make_stream()),
      timer_(bench.device(), *stream_) {
  const std::vector<int64_t> sizes = backends::sizes_of(*kernel_, bench.dims());
  const int64_t shared = aligned(kernel_->shared_bytes(sizes));
  const int64_t prepared = aligned(kernel_->prepared_bytes(sizes));
  int64_t scratch = 0;
  for (int copy = 0; copy < bench.copies(); ++copy) {
    const auto buffers = bench.buffers(copy);
    const auto entry = [&](backends::LaunchPart part) {
      return backends::ListedLaunch{.kernel = kernel_.get(),
                                    .dims = sizes,
                                    .buffers = static_cast<int>(buffers.size()),
                                    .after = {},
                                    .part = part};
    };
    auto& list = lists_.emplace_back(bench.device().prepare(
        {entry(backends::LaunchPart::Preparation), entry(backends::LaunchPart::Rest)}));
    for (const int launch : {kPreparation, kTimed})
      for (int buffer = 0; const backends::Address memory : buffers) list->bind(launch, buffer++, memory);
    scratch = std::max(scratch, list->scratch_bytes());
  }
  scratch = aligned(scratch);
  workspace_.reserve(std::max<int64_t>(shared + scratch + prepared * bench.copies(), 1));
  backends::Address own = workspace_.address() + (shared + scratch);
  for (const auto& list : lists_) {
    list->bind_scratch(workspace_.address() + shared);
    for (const int launch : {kPreparation, kTimed}) {
      list->bind_shared(launch, workspace_.address());
      if (prepared > 0) list->bind_prepared(launch, own);
    }
    own = own + prepared;
  }
}

double Contender::sample_us(double at_least_us) {
  if (!std::exchange(is_prepared_, true)) {
    // Once, as in a plan.
    for (const auto& list : lists_) stream_->launch(*list, kPreparation, kPreparation + 1);
    // Drivers finish the code of a kernel with its first launch: that is none of the time of a run.
    if (kernel_->device() != nullptr) {
      stream_->launch(*lists_[0], kTimed, kTimed + 1);
      stream_->synchronise();
    }
  }
  return timer_.sample_us(at_least_us, [this] {
    stream_->launch(*lists_[next_], kTimed, kTimed + 1);
    next_ = (next_ + 1) % lists_.size();
  });
}

std::vector<double> race(std::span<Contender* const> contenders, const RaceOptions& options) {
  std::vector<std::vector<double>> samples(contenders.size());
  std::vector<size_t> field(contenders.size());
  std::iota(field.begin(), field.end(), size_t{0});
  const auto time_of = [&](size_t i) { return samples[i].empty() ? 0 : std::ranges::min(samples[i]); };
  constexpr double kTellingUs = 1000, kLongUs = 10'000, kVeryLongUs = 100'000;
  constexpr int kLongRounds = 3, kVeryLongRounds = 2;
  for (int round = 0; round < options.rounds && !field.empty(); ++round) {
    double best = std::numeric_limits<double>::infinity();
    for (const size_t i : field)
      if (!samples[i].empty()) best = std::min(best, time_of(i));
    // The first samples are short: most of the field goes home after them. They are two, a while apart, for
    // nobody should go because the machine was busy just then. One of a long run is an average in itself.
    const int passes = round == 0 ? 2 : 1;
    for (int pass = 0; pass < passes; ++pass)
      for (const size_t i : field) {
        if (pass > 0 && time_of(i) > kLongUs) continue;
        if (pass > 0 && time_of(i) > std::max(kTellingUs, options.lost_above * best)) continue;
        throw_if_cancelled();
        if (Clock::now() >= options.deadline && (round > 0 || pass > 0 || i != field.front())) break;
        if (options.before_sample) options.before_sample(i);
        samples[i].push_back(
            contenders[i]->sample_us(round == 0 ? options.sample_us / 5 : options.sample_us));
        best = std::min(best, samples[i].back());
      }
    std::erase_if(field,
                  [&](size_t i) { return samples[i].empty() || time_of(i) > best * options.drop_above; });
    std::ranges::stable_sort(field, {}, time_of);
    if (Clock::now() >= options.deadline || field.empty()) break;
    const double leader_us = time_of(field[0]);
    const bool is_very_long = leader_us > kVeryLongUs;
    if (field.size() > 2) field.resize(is_very_long ? 2 : std::max<size_t>(2, (field.size() + 1) / 2));
    if (round < 2 && !is_very_long) continue;
    if (field.size() < 2 || time_of(field[1]) > options.clear_above * leader_us) break;
    if (leader_us > kLongUs && round + 1 >= (is_very_long ? kVeryLongRounds : kLongRounds)) break;
  }
  std::vector<double> times;
  for (size_t i = 0; i < contenders.size(); ++i) times.push_back(time_of(i));
  return times;
}

}  // namespace luminal::search
