#include "search/tuning/timing.h"

#include <atomic>

#include "base/fail.h"
#include "search/verification/contain.h"
#include "search/verification/test_inputs.h"

namespace luminal::search {
namespace {

/// Times on fresh inputs and outputs of the spec.
std::vector<double> race_on(backends::Device& device, const kernel::KernelSpec& spec, const DimMap& sizes,
                            const SlotData& given, uint64_t seed,
                            std::span<const std::shared_ptr<const backends::Kernel>> kernels,
                            const RaceOptions& options) {
  std::vector<std::shared_ptr<const TensorData>> inputs;
  std::vector<const TensorData*> pointers;
  std::vector<int64_t> output_bytes;
  int64_t total = 0;
  for (size_t s = 0; s < spec.slots().size(); ++s) {
    const kernel::Slot& slot = spec.slots()[s];
    inputs.push_back(
        given.at(s) ? given[s] : test_input("plain", {slot.dtype, {slot.elements.exec(sizes)}}, {}, seed, s));
    pointers.push_back(inputs.back().get());
    total += static_cast<int64_t>(inputs.back()->bytes.size());
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
  const Bench bench(device, pointers, output_bytes, sizes, copies);
  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<Contender*> field;
  for (const auto& kernel : kernels) {
    contenders.push_back(std::make_unique<Contender>(kernel, bench));
    field.push_back(contenders.back().get());
  }
  return race(field, options);
}

}  // namespace

Timing time_kernels(backends::Device& device, const kernel::KernelSpec& spec, const DimMap& sizes,
                    const SlotData& given, uint64_t seed,
                    std::span<const std::shared_ptr<const backends::Kernel>> kernels,
                    const RaceOptions& options) {
  const SharedBytes shared_running(sizeof(std::atomic<size_t>));
  const SharedBytes shared_times(static_cast<int64_t>(kernels.size() * sizeof(double)));
  std::atomic<size_t>& running = shared_running.as<std::atomic<size_t>>()[0];
  const std::span<double> times = shared_times.as<double>();
  running = kernels.size();
  Timing timing;
  timing.trouble = run_contained(
      [&](Progress& progress) {
        RaceOptions watched = options;
        watched.before_sample = [&](size_t contender) {
          running = contender;
          ++progress;
        };
        std::ranges::copy(race_on(device, spec, sizes, given, seed, kernels, watched), times.begin());
      },
      std::chrono::seconds(20), containment_of(device), options.deadline);
  if (timing.trouble == kNoTimeLeft) timing.trouble.clear();
  if (timing.trouble.empty()) {
    timing.us.assign(times.begin(), times.end());
    return timing;
  }
  timing.fallen = running;
  if (timing.fallen == kernels.size())
    fail("[search] a process {} before it timed its first kernel", timing.trouble);
  return timing;
}

}  // namespace luminal::search
