#include "search/tuning/timing.h"

#include <atomic>
#include <utility>

#include "base/fail.h"
#include "base/team.h"
#include "search/verification/contain.h"
#include "search/verification/test_inputs.h"
#include "search/watch.h"

namespace luminal::search {
namespace {

/// Keeps all threads of a process that has just begun busy until they are where they stay, and their clocks are up.
void warm_up(Clock::time_point deadline) {
  constexpr std::chrono::milliseconds kLong{10};
  const auto until = std::min(Clock::now() + kLong, deadline);
  Team& team = Team::shared();
  team.run(team.size(), [&](int) {
    while (Clock::now() < until) relax_processor();
  });
}

/// Times on fresh inputs and outputs of the spec.
std::vector<double> race_on(backends::Device& device, const TimingRequest& request, uint64_t seed,
                            const RaceOptions& options) {
  const kernel::KernelSpec& spec = *request.spec;
  const DimMap& sizes = request.sizes;
  const SlotData given = request.given();
  std::vector<std::shared_ptr<const TensorData>> data;
  std::vector<BenchInput> inputs;
  std::vector<int64_t> output_bytes;
  int64_t total = 0;
  for (size_t s = 0; s < spec.slots().size(); ++s) {
    const kernel::Slot& slot = spec.slots()[s];
    const int64_t elements = slot.elements.exec(sizes);
    data.push_back(given.at(s) ? given[s] : repeated_input("plain", slot.dtype, elements, seed, s));
    inputs.push_back({.repeated = data.back()->bytes, .bytes = size_bytes(slot.dtype, elements)});
    total += inputs.back().bytes;
  }
  for (const kernel::Output& output : spec.outputs()) {
    output_bytes.push_back(
        size_bytes(spec.values()[static_cast<size_t>(output.value)].dtype(), output.elements.exec(sizes)));
    total += output_bytes.back();
  }
  // Operands larger than the last cache come from memory in a plan as well; two copies keep them from staying
  // warm, where they are not so large that they push each other out.
  const int64_t cache = device.target().l3_bytes;
  const int copies = total > cache / 2 && total < 4 * cache ? 2 : 1;
  const Bench bench(device, inputs, output_bytes, sizes, copies);
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<Contender*> field;
  for (const auto& kernel : request.kernels) {
    contenders.push_back(std::make_unique<Contender>(kernel, bench));
    field.push_back(contenders.back().get());
  }
  return race(field, options);
}

}  // namespace

std::vector<Timing> time_kernels(backends::Device& device, std::span<const TimingRequest> requests,
                                 uint64_t seed, const RaceOptions& options) {
  std::vector<size_t> first;  // of each request's kernels
  size_t count = 0;
  for (const TimingRequest& request : requests) {
    first.push_back(count);
    count += request.kernels.size();
  }
  const SharedBytes shared_running(static_cast<int64_t>(requests.size() * sizeof(std::atomic<size_t>)));
  const SharedBytes shared_times(static_cast<int64_t>(count * sizeof(double)));
  const auto running = shared_running.as<std::atomic<size_t>>();  // of each request: the kernel
  const std::span<double> times = shared_times.as<double>();
  for (size_t r = 0; r < requests.size(); ++r) running[r] = requests[r].kernels.size();
  const Containment containment = containment_of(device);
  bool is_new = containment == Containment::Process;  // the process that races run in
  const std::vector<std::string> troubles = run_contained_each(
      requests.size(),
      [&](size_t r, Progress& progress) {
        if (!fits(requests[r].least_s, options.deadline)) return;
        RaceOptions watched = options;
        watched.before_sample = [&](size_t contender) {
          running[r] = contender;
          ++progress;
        };
        if (std::exchange(is_new, false)) warm_up(options.deadline);
        std::ranges::copy(race_on(device, requests[r], seed, watched),
                          times.begin() + static_cast<ptrdiff_t>(first[r]));
      },
      std::chrono::seconds(20), 1, containment, options.deadline);
  std::vector<Timing> timings(requests.size());
  for (size_t r = 0; r < requests.size(); ++r) {
    const size_t kernels = requests[r].kernels.size();
    Timing& timing = timings[r];
    if (troubles[r].empty() || troubles[r] == kNoTimeLeft) {
      const auto own = times.subspan(first[r], kernels);
      timing.us.assign(own.begin(), own.end());
      continue;
    }
    timing.trouble = troubles[r];
    timing.fallen = running[r];
    if (timing.fallen == kernels)
      fail("[search] a process {} before it timed its first kernel", timing.trouble);
  }
  return timings;
}

}  // namespace luminal::search
