#pragma once
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "backends/device.h"
#include "base/fail.h"
#include "search/session.h"

namespace luminal::test {

/// A device as a driver gives them, where there is none: memory of its own, whose addresses are handles that
/// crash if the host follows them, and work that a thread of its own does some time after it was queued,
/// streams in any order. Fresh memory holds NaN. What drivers leave undefined is an error at the next
/// synchronise: memory that was freed while work used it, accesses past its end, a list that is gone. As a
/// driver's it does not follow into a forked process. Kernels are the CPU's.
class DeferredDevice : public backends::Device {
 public:
  DeferredDevice() : target_(cpu_->target()), thread_([this] { work(); }) { target_.name = "deferred"; }
  ~DeferredDevice() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  // --- What a test turns
  /// Work that is left out, as if somebody had forgotten to ask for it.
  enum class Omission : uint8_t { None, Upload, Download, Copy, Synchronise };
  void omit(Omission omission) { omission_ = omission; }
  [[nodiscard]] int64_t launches() const { return launches_; }
  /// Work that waits to be done.
  [[nodiscard]] size_t queued() const {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    for (const auto& queue : queues_) count += queue->work.size();
    return count;
  }
  [[nodiscard]] size_t allocations() const {
    const std::lock_guard lock(mutex_);
    return memory_.size();
  }

  // --- Memory
  [[nodiscard]] backends::Address allocate(int64_t bytes) override {
    check_process();
    auto memory = std::make_unique<Memory>();
    memory->lines.resize(static_cast<size_t>(backends::aligned(bytes) / backends::kAlignment) + 1);
    memory->bytes = bytes;
    std::memset(memory->data(), 0xff, memory->lines.size() * sizeof(Line));
    const std::lock_guard lock(mutex_);
    const uint64_t handle = kNoAddress + kHandleStep * ++handles_;
    memory_.emplace(handle, std::move(memory));
    return {reinterpret_cast<void*>(handle)};
  }
  void free(backends::Address memory, int64_t) noexcept override {
    const std::lock_guard lock(mutex_);
    memory_.erase(reinterpret_cast<uint64_t>(memory.memory));
  }

  // --- Kernels
  [[nodiscard]] const codegen::Target& target() const override { return target_; }
  [[nodiscard]] std::string source(const codegen::Program& program) override { return cpu_->source(program); }
  using Device::compile;
  [[nodiscard]] std::shared_ptr<const backends::Kernel> compile(const codegen::Program& program,
                                                                const std::string& source) override {
    return std::make_shared<DeferredKernel>(*this, cpu_->compile(program, source));
  }
  [[nodiscard]] std::shared_ptr<const backends::Kernel> load(std::span<const std::byte> binary) override {
    return std::make_shared<DeferredKernel>(*this, cpu_->load(binary));
  }
  [[nodiscard]] std::string assembly(const codegen::Program& program) override {
    return cpu_->assembly(program);
  }

  // --- Running
  [[nodiscard]] std::unique_ptr<backends::LaunchList> prepare(
      std::vector<backends::ListedLaunch> launches) override {
    check_process();
    return std::make_unique<List>(*cpu_, std::move(launches));
  }
  [[nodiscard]] std::unique_ptr<backends::Stream> make_stream() override {
    check_process();
    return std::make_unique<QueueStream>(*this);
  }
  [[nodiscard]] std::unique_ptr<backends::Event> make_event() override {
    return std::make_unique<Mark>(*this);
  }
  [[nodiscard]] double elapsed_us(const backends::Event& from, const backends::Event& to) const override {
    const std::lock_guard lock(mutex_);
    const State &first = *static_cast<const Mark&>(from).state, &last = *static_cast<const Mark&>(to).state;
    if (!first.is_complete() || !last.is_complete())
      fail<DeviceError>("[deferred] an event is asked for its time before it is complete");
    return std::chrono::duration<double, std::micro>(last.time - first.time).count();
  }
  [[nodiscard]] std::optional<kernel::MachineLimits> limits() const override {
    return kernel::MachineLimits();
  }
  [[nodiscard]] kernel::MachineLimits measure_limits() override { return {}; }
  [[nodiscard]] double measure_fma_rate() override { return kernel::MachineLimits().flops_per_us; }

 private:
  using Clock = std::chrono::steady_clock;
  using Lock = std::unique_lock<std::mutex>;

  static constexpr uint64_t kNoAddress = uint64_t{0xdead} << 48, kHandleStep = 16;
  struct alignas(backends::kAlignment) Line {
    std::byte bytes[backends::kAlignment];
  };
  struct Memory {
    std::vector<Line> lines;
    int64_t bytes = 0;
    [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(lines.data()); }
  };

  /// The host cannot run it.
  class DeferredKernel : public backends::Kernel {
   public:
    DeferredKernel(DeferredDevice& device, std::shared_ptr<const backends::Kernel> kernel)
        : cpu_kernel(std::move(kernel)), device_(device) {}
    [[nodiscard]] backends::Device* device() const override { return &device_; }
    [[nodiscard]] const std::vector<std::string>& dims() const override { return cpu_kernel->dims(); }
    [[nodiscard]] int64_t shared_bytes(std::span<const int64_t> dims) const override {
      return cpu_kernel->shared_bytes(dims);
    }
    [[nodiscard]] int64_t prepared_bytes(std::span<const int64_t> dims) const override {
      return cpu_kernel->prepared_bytes(dims);
    }
    [[nodiscard]] uint64_t preparation() const override { return cpu_kernel->preparation(); }
    [[nodiscard]] std::span<const int> prepared_slots() const override {
      return cpu_kernel->prepared_slots();
    }
    [[nodiscard]] std::vector<std::byte> binary() const override { return cpu_kernel->binary(); }
    const std::shared_ptr<const backends::Kernel> cpu_kernel;

   private:
    DeferredDevice& device_;
  };

  /// Where the buffers of a list's launches are.
  struct Bound {
    std::vector<std::vector<backends::Address>> buffers;  ///< by launch
    std::vector<backends::Address> shared, prepared;
    backends::Address scratch;
  };
  class List : public backends::LaunchList {
   public:
    List(backends::Device& cpu, std::vector<backends::ListedLaunch> launches) {
      for (backends::ListedLaunch& launch : launches) {
        launch.kernel = dynamic_cast<const DeferredKernel&>(*launch.kernel).cpu_kernel.get();
        bound.buffers.emplace_back(static_cast<size_t>(launch.buffers));
      }
      bound.shared.resize(launches.size());
      bound.prepared.resize(launches.size());
      cpu_list = cpu.prepare(std::move(launches));
    }
    void bind(int launch, int buffer, backends::Address memory) override {
      bound.buffers[static_cast<size_t>(launch)][static_cast<size_t>(buffer)] = memory;
    }
    void bind_shared(int launch, backends::Address memory) override {
      bound.shared[static_cast<size_t>(launch)] = memory;
    }
    void bind_prepared(int launch, backends::Address memory) override {
      bound.prepared[static_cast<size_t>(launch)] = memory;
    }
    [[nodiscard]] int64_t scratch_bytes() const override { return cpu_list->scratch_bytes(); }
    void bind_scratch(backends::Address memory) override { bound.scratch = memory; }

    std::shared_ptr<backends::LaunchList> cpu_list;
    Bound bound;
  };

  /// Of an event: as often as it was recorded, and how many of these are complete.
  struct State {
    int recorded = 0, complete = 0;
    Clock::time_point time;
    [[nodiscard]] bool is_complete() const { return recorded > 0 && recorded == complete; }
  };
  class Mark : public backends::Event {
   public:
    explicit Mark(DeferredDevice& device) : device_(device) {}
    void wait() override {
      Lock lock(device_.mutex_);
      device_.changed_.wait(lock, [&] { return state->recorded == state->complete; });
    }
    const std::shared_ptr<State> state = std::make_shared<State>();

   private:
    DeferredDevice& device_;
  };

  struct Work {
    std::function<void()> run;
    std::function<bool()> is_ready;  ///< under the lock; null: at once
    bool touches_host = false;
    bool always = false;  ///< after an error too: who waits for an event is not left waiting
  };
  struct Queue {
    std::deque<Work> work;
    bool running = false;
    std::exception_ptr error;
  };

  class QueueStream : public backends::Stream {
   public:
    explicit QueueStream(DeferredDevice& device) : device_(device) {
      const std::lock_guard lock(device.mutex_);
      device.queues_.push_back(queue_);
    }
    ~QueueStream() override {
      Lock lock(device_.mutex_);
      wait_for_all(lock);
      std::erase(device_.queues_, queue_);
    }
    void upload(const void* from, backends::Address to, int64_t bytes) override {
      if (device_.omission_ == Omission::Upload) return;
      add({.run = [this, from, to, bytes] { move(from, device_.resolve(to, bytes), bytes); },
           .is_ready = {},
           .touches_host = true});
    }
    void download(backends::Address from, void* to, int64_t bytes) override {
      if (device_.omission_ == Omission::Download) return;
      add({.run = [this, from, to, bytes] { move(device_.resolve(from, bytes), to, bytes); },
           .is_ready = {},
           .touches_host = true});
    }
    void copy(backends::Address from, backends::Address to, int64_t bytes) override {
      if (device_.omission_ == Omission::Copy) return;
      add([this, from, to, bytes] { move(device_.resolve(from, bytes), device_.resolve(to, bytes), bytes); });
    }
    void fill(backends::Address to, std::byte pattern, int64_t bytes) override {
      add([this, to, pattern, bytes] {
        if (bytes > 0)
          std::memset(device_.resolve(to, bytes), static_cast<int>(pattern), static_cast<size_t>(bytes));
      });
    }
    void launch(backends::LaunchList& list, int first, int last) override {
      auto& own = dynamic_cast<List&>(list);
      add([this, cpu_list = std::weak_ptr(own.cpu_list), bound = own.bound, first, last] {
        const auto there = cpu_list.lock();
        if (!there) fail<DeviceError>("[deferred] a launch list was deleted while it was queued");
        device_.run(*there, bound, first, last);
      });
    }
    void record(backends::Event& event) override {
      const auto state = static_cast<Mark&>(event).state;
      {
        const std::lock_guard lock(device_.mutex_);
        ++state->recorded;
      }
      add({.run =
               [this, state] {
                 const std::lock_guard lock(device_.mutex_);
                 state->time = Clock::now();
                 ++state->complete;
               },
           .is_ready = {},
           .always = true});
    }
    void wait(backends::Event& event) override {
      const auto state = static_cast<Mark&>(event).state;
      const std::lock_guard lock(device_.mutex_);
      queue_->work.push_back(
          {.run = [] {}, .is_ready = [state, due = state->recorded] { return state->complete >= due; }});
      device_.changed_.notify_all();
    }
    void synchronise() override {
      Lock lock(device_.mutex_);
      if (device_.omission_ == Omission::Synchronise) {
        // What comes too late never comes: its host memory may be somebody else's by then.
        std::erase_if(queue_->work, [](const Work& work) { return work.touches_host; });
        device_.changed_.wait(lock, [&] { return !queue_->running; });
        return;
      }
      wait_for_all(lock);
      if (auto error = std::exchange(queue_->error, nullptr)) std::rethrow_exception(error);
    }

   private:
    void add(std::function<void()> run) { add(Work{.run = std::move(run), .is_ready = {}}); }
    void add(Work work) {
      device_.check_process();
      const std::lock_guard lock(device_.mutex_);
      queue_->work.push_back(std::move(work));
      device_.changed_.notify_all();
    }
    void wait_for_all(Lock& lock) const {
      device_.changed_.wait(lock, [&] { return queue_->work.empty() && !queue_->running; });
    }
    static void move(const void* from, void* to, int64_t bytes) {
      if (bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
    }

    DeferredDevice& device_;
    const std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
  };

  /// Errors: DeviceError unless the device has this memory.
  [[nodiscard]] std::byte* resolve(backends::Address address, int64_t bytes) {
    if (address.memory == nullptr && bytes == 0) return nullptr;  // of an empty tensor
    const std::lock_guard lock(mutex_);
    const auto found = memory_.find(reinterpret_cast<uint64_t>(address.memory));
    if (found == memory_.end())
      fail<DeviceError>("[deferred] work uses {}, which is no memory of the device any more, or never was",
                        fmt::ptr(address.memory));
    if (address.offset < 0 || address.offset + bytes > found->second->bytes)
      fail<DeviceError>("[deferred] bytes {} to {} of {}", address.offset, address.offset + bytes,
                        found->second->bytes);
    return found->second->data() + address.offset;
  }

  void run(backends::LaunchList& list, const Bound& bound, int first, int last) {
    for (int launch = first; launch < last; ++launch) {
      const auto at = static_cast<size_t>(launch);
      for (size_t buffer = 0; buffer < bound.buffers[at].size(); ++buffer)
        list.bind(launch, static_cast<int>(buffer), {resolve(bound.buffers[at][buffer], 0)});
      list.bind_shared(launch, {resolve(bound.shared[at], 0)});
      if (bound.prepared[at] != backends::Address{})
        list.bind_prepared(launch, {resolve(bound.prepared[at], 0)});
    }
    list.bind_scratch({resolve(bound.scratch, 0)});
    cpu_->make_stream()->launch(list, first, last);
    launches_ += last - first;
  }

  /// The next thing to do, of any stream that may go on; null: nothing, for now.
  [[nodiscard]] std::shared_ptr<Queue> choose() {
    std::vector<std::shared_ptr<Queue>> ready;
    for (const auto& queue : queues_)
      if (!queue->work.empty() && (!queue->work.front().is_ready || queue->work.front().is_ready()))
        ready.push_back(queue);
    return ready.empty() ? nullptr : ready[random_() % ready.size()];
  }

  void work() {
    Lock lock(mutex_);
    for (;;) {
      std::shared_ptr<Queue> queue;
      changed_.wait(lock, [&] { return stop_ || (queue = choose()) != nullptr; });
      if (stop_) return;
      // Some of it at once, some of it much later.
      const uint64_t delay_us = random_() % 4 == 0 ? random_() % 200 : 0;
      if (delay_us > 0) {
        lock.unlock();
        std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
        lock.lock();
        if ((queue = choose()) == nullptr) continue;
      }
      const Work work = std::move(queue->work.front());
      queue->work.pop_front();
      queue->running = true;
      lock.unlock();
      try {
        if (!queue->error || work.always) work.run();
      } catch (...) {
        queue->error = std::current_exception();
      }
      lock.lock();
      queue->running = false;
      changed_.notify_all();
    }
  }

  void check_process() const {
    if (::getpid() != process_)
      fail<DeviceError>("[deferred] the device was opened by process {} and is used in process {}", process_,
                        ::getpid());
  }

  const std::shared_ptr<backends::Device> cpu_ = backends::make_cpu_device();
  codegen::Target target_;
  const pid_t process_ = ::getpid();
  std::atomic<Omission> omission_{Omission::None};
  std::atomic<int64_t> launches_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, std::unique_ptr<Memory>> memory_;  ///< by handle
  uint64_t handles_ = 0;
  std::vector<std::shared_ptr<Queue>> queues_;
  std::mt19937_64 random_{17};
  bool stop_ = false;
  std::thread thread_;  ///< last: it uses all of the above
};

/// Registers the device "deferred", behind those of the build.
inline void add_deferred_device() {
  (void)session_devices();
  search::register_device("deferred", [] { return std::make_shared<DeferredDevice>(); });
}

}  // namespace luminal::test
