#include "search/tuning/race.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/cancel.h"
#include "base/fail.h"

namespace luminal::search {
namespace {

int64_t padded(int64_t bytes) {
  return (bytes + runtime::kAlignment - 1) / runtime::kAlignment * runtime::kAlignment;
}

}  // namespace

Bench::Bench(std::span<const TensorData* const> inputs, std::span<const int64_t> output_bytes, DimMap dims,
             int copies)
    : dims_(std::move(dims)) {
  int64_t total = 0;
  for (const TensorData* input : inputs) total += padded(static_cast<int64_t>(input->bytes.size()));
  for (const int64_t bytes : output_bytes) total += padded(bytes);
  arena_.reserve(std::max<int64_t>(total * copies, 1));
  std::byte* at = arena_.data();
  for (int copy = 0; copy < copies; ++copy) {
    std::vector<void*>& pointers = pointers_.emplace_back();
    for (const TensorData* input : inputs) {
      if (!input->bytes.empty()) std::memcpy(at, input->bytes.data(), input->bytes.size());
      pointers.push_back(at);
      at += padded(static_cast<int64_t>(input->bytes.size()));
    }
    for (const int64_t bytes : output_bytes) {
      std::memset(at, 0, static_cast<size_t>(bytes));  // pages are there before anything is timed
      pointers.push_back(at);
      at += padded(bytes);
    }
  }
}

Contender::Contender(std::shared_ptr<const backends::Kernel> kernel, const Bench& bench, Team& team)
    : kernel_(std::move(kernel)), team_(&team) {
  for (const std::string& name : kernel_->dims()) sizes_.push_back(bench.dims().at(name));
  const int64_t shared = padded(kernel_->shared_bytes(sizes_)), local = padded(kernel_->local_bytes(sizes_));
  workspace_.reserve(std::max<int64_t>(shared + local * team.size(), 1));
  for (int copy = 0; copy < bench.copies(); ++copy) {
    std::vector<runtime::StageWork> stages;
    for (int stage = 0; stage < kernel_->stage_count(); ++stage) {
      runtime::StageWork work{
          .kernel = kernel_.get(), .stage = stage, .tasks = kernel_->tasks(stage, sizes_)};
      work.arguments = {.buffers = bench.buffers(copy), .dims = sizes_.data(), .shared = workspace_.data()};
      if (stage > 0) work.before = {stage - 1};
      stages.push_back(std::move(work));
    }
    walks_.push_back(std::make_unique<runtime::Walk>(std::move(stages), team.size()));
    walks_.back()->set_local(workspace_.data() + shared, local);
  }
}

void Contender::run_once() {
  walks_[next_]->run(*team_, 0, kernel_->stage_count());
  next_ = (next_ + 1) % walks_.size();
}

double Contender::sample_us(double at_least_us) {
  return sampler_.sample_us(at_least_us, [this] { run_once(); });
}

std::vector<double> race(std::span<Contender* const> contenders, const RaceOptions& options) {
  std::vector<std::vector<double>> samples(contenders.size());
  std::vector<size_t> field(contenders.size());
  std::iota(field.begin(), field.end(), size_t{0});
  const auto time_of = [&](size_t i) { return samples[i].empty() ? 0 : std::ranges::min(samples[i]); };
  for (int round = 0; round < options.rounds && !field.empty(); ++round) {
    double best = std::numeric_limits<double>::infinity();
    for (const size_t i : field)
      if (!samples[i].empty()) best = std::min(best, time_of(i));
    // The first samples are short: most of the field goes home after them. They are two, a while apart, for
    // nobody should go because the machine was busy just then.
    const int passes = round == 0 ? 2 : 1;
    for (int pass = 0; pass < passes; ++pass)
      for (const size_t i : field) {
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
    if (field.size() > 2) field.resize(std::max<size_t>(2, (field.size() + 1) / 2));
    if (Clock::now() >= options.deadline) break;
    if (field.size() == 1 && round >= 2) break;
  }
  std::vector<double> times;
  for (size_t i = 0; i < contenders.size(); ++i) times.push_back(time_of(i));
  return times;
}

}  // namespace luminal::search
