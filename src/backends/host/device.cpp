#include "backends/host/device.h"

#include <chrono>
#include <cstring>

#include "backends/host/limits.h"
#include "backends/host/memory.h"
#include "backends/host/stage_scheduler.h"
#include "base/fail.h"

namespace luminal::backends {
namespace {

size_t at(int index) { return static_cast<size_t>(index); }

/// The stages of all launches for the scheduler. Stages of a launch run one after the other; its first one
/// waits for the last ones of the launches before it.
class HostLaunchList : public LaunchList {
 public:
  HostLaunchList(std::vector<ListedLaunch> launches, int workers) : launches_(std::move(launches)) {
    for (const ListedLaunch& launch : launches_) {
      first_pointer_.push_back(pointers_.size());
      pointers_.resize(pointers_.size() + at(launch.buffers));
    }
    std::vector<StageWork> stages;
    for (size_t number = 0; number < launches_.size(); ++number) {
      const ListedLaunch& launch = launches_[number];
      const HostKernel& kernel = on_host(*launch.kernel);
      first_stage_.push_back(static_cast<int>(stages.size()));
      local_bytes_ = std::max(local_bytes_, aligned(kernel.local_bytes(launch.dims)));
      const int preparing = kernel.preparing_stages();
      const int first = launch.part == LaunchPart::Rest ? preparing : 0;
      const int last = launch.part == LaunchPart::Preparation ? preparing : kernel.stage_count();
      for (int stage = first; stage < last; ++stage) {
        StageWork& work = stages.emplace_back(StageWork{
            .kernel = &kernel, .stage = stage, .tasks = kernel.tasks(stage, launch.dims), .before = {}});
        work.arguments = {.buffers = pointers_.data() + first_pointer_[number], .dims = launch.dims.data()};
        if (stage > first)
          work.before = {static_cast<int>(stages.size()) - 2};
        else
          for (const int earlier : launch.after)
            if (first_stage_[at(earlier) + 1] > first_stage_[at(earlier)])
              work.before.push_back(first_stage_[at(earlier) + 1] - 1);
      }
    }
    first_stage_.push_back(static_cast<int>(stages.size()));
    workers_ = workers;
    scheduler_ = std::make_unique<StageScheduler>(std::move(stages), workers);
  }

  void bind(int launch, int buffer, Address memory) override {
    pointers_[first_pointer_[at(launch)] + at(buffer)] = host_pointer(memory);
  }
  void bind_shared(int launch, Address memory) override {
    for (int stage = first_stage_[at(launch)]; stage < first_stage_[at(launch) + 1]; ++stage)
      scheduler_->stages()[at(stage)].arguments.shared = host_pointer(memory);
  }
  void bind_prepared(int launch, Address memory) override {
    for (int stage = first_stage_[at(launch)]; stage < first_stage_[at(launch) + 1]; ++stage)
      scheduler_->stages()[at(stage)].arguments.prepared = host_pointer(memory);
  }
  /// Workspaces of the workers, one after the other.
  [[nodiscard]] int64_t scratch_bytes() const override { return local_bytes_ * workers_; }
  void bind_scratch(Address memory) override { scheduler_->set_local(host_pointer(memory), local_bytes_); }

  void run(Team& team, int first, int last) {
    scheduler_->run(team, first_stage_[at(first)], first_stage_[at(last)]);
  }

 private:
  std::vector<ListedLaunch> launches_;
  std::vector<void*> pointers_;  ///< of all launches, one after the other
  std::vector<size_t> first_pointer_;
  std::vector<int> first_stage_;  ///< one more than launches
  int64_t local_bytes_ = 0;
  int workers_ = 1;
  std::unique_ptr<StageScheduler> scheduler_;
};

using Clock = std::chrono::steady_clock;

class HostEvent : public Event {
 public:
  void wait() override {}
  Clock::time_point time;
};

/// Everything is done when a call returns.
class HostStream : public Stream {
 public:
  void upload(const void* from, Address to, int64_t bytes) override { move(from, host_pointer(to), bytes); }
  void download(Address from, void* to, int64_t bytes) override { move(host_pointer(from), to, bytes); }
  void copy(Address from, Address to, int64_t bytes) override {
    move(host_pointer(from), host_pointer(to), bytes);
  }
  void fill(Address to, std::byte pattern, int64_t bytes) override {
    if (bytes > 0) std::memset(host_pointer(to), static_cast<int>(pattern), static_cast<size_t>(bytes));
  }
  void launch(LaunchList& list, int first, int last) override {
    static_cast<HostLaunchList&>(list).run(team_, first, last);
  }
  void record(Event& event) override { static_cast<HostEvent&>(event).time = Clock::now(); }
  void wait(Event&) override {}
  void synchronise() override {}

 private:
  static void move(const void* from, void* to, int64_t bytes) {
    if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
  }
  Team& team_ = Team::shared();
};

}  // namespace

const HostKernel& on_host(const Kernel& kernel) {
  const auto* own = dynamic_cast<const HostKernel*>(&kernel);
  LUMINAL_CHECK(own != nullptr, "the host cannot run another device's kernel");
  return *own;
}

HostDevice::HostDevice(int threads) : threads_(threads) {}
HostDevice::~HostDevice() = default;

Address HostDevice::allocate(int64_t bytes) { return {map_memory(bytes)}; }
void HostDevice::free(Address memory, int64_t bytes) noexcept { unmap_memory(host_pointer(memory), bytes); }

std::unique_ptr<LaunchList> HostDevice::prepare(std::vector<ListedLaunch> launches) {
  const int most = Team::shared().size();
  return std::make_unique<HostLaunchList>(std::move(launches),
                                          threads_ > 0 ? std::min(threads_, most) : most);
}
std::unique_ptr<Stream> HostDevice::make_stream() { return std::make_unique<HostStream>(); }
std::unique_ptr<Event> HostDevice::make_event() { return std::make_unique<HostEvent>(); }

double HostDevice::elapsed_us(const Event& from, const Event& to) const {
  const auto time = static_cast<const HostEvent&>(to).time - static_cast<const HostEvent&>(from).time;
  return std::chrono::duration<double, std::micro>(time).count();
}

kernel::MachineLimits HostDevice::measure_limits() { return measure_host_limits(*this); }

double HostDevice::measure_fma_rate() {
  std::call_once(fma_rate_made_, [this] { fma_rate_ = std::make_unique<FmaRate>(*this); });
  return fma_rate_->measure();
}

}  // namespace luminal::backends
