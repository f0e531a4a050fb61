#include "backends/opencl/queue.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"

namespace luminal::backends::opencl {
namespace {

Memory memory_of(Address address) { return static_cast<Memory>(address.memory); }
size_t offset_of(Address address) { return static_cast<size_t>(address.offset); }

/// Stages as kernels of their own: a kernel holds its arguments until it is queued.
class OpenClList : public LaunchList {
 public:
  OpenClList(std::vector<ListedLaunch> launches, int64_t at_once) : at_once_(at_once) {
    for (ListedLaunch& given : launches) {
      Launch& launch = launches_.emplace_back();
      launch.kernel = &dynamic_cast<const OpenClKernel&>(*given.kernel);
      launch.dims = std::move(given.dims);
      launch.buffers.resize(static_cast<size_t>(given.buffers));
      const int prepares = launch.kernel->preparing_stages(), all = launch.kernel->stage_count();
      const int first = given.part == LaunchPart::Rest ? prepares : 0;
      const int last = given.part == LaunchPart::Preparation ? prepares : all;
      for (int s = first; s < last; ++s) {
        const int64_t tasks = launch.kernel->tasks(s, launch.dims);
        if (tasks == 0) continue;
        const int threads = launch.kernel->threads(s);
        launch.stages.push_back({launch.kernel->stage(s), tasks, static_cast<size_t>(threads)});
        if (launch.kernel->has_local())
          scratch_bytes_ = std::max(
              scratch_bytes_, std::min(tasks, at_once_) * threads * launch.kernel->local_bytes(launch.dims));
      }
    }
  }
  void bind(int launch, int buffer, Address memory) override {
    launches_.at(static_cast<size_t>(launch)).buffers.at(static_cast<size_t>(buffer)) = memory;
  }
  void bind_shared(int launch, Address memory) override {
    launches_.at(static_cast<size_t>(launch)).shared = memory;
  }
  void bind_prepared(int launch, Address memory) override {
    launches_.at(static_cast<size_t>(launch)).prepared = memory;
  }
  [[nodiscard]] int64_t scratch_bytes() const override { return scratch_bytes_; }
  void bind_scratch(Address memory) override { scratch_ = memory; }

  void enqueue(Queue queue, int number) const {
    const Launch& launch = launches_.at(static_cast<size_t>(number));
    for (const StageLaunch& stage : launch.stages) {
      const Number last = set_arguments(launch, stage.kernel.get());
      const int64_t most = launch.kernel->has_local() ? at_once_ : stage.tasks;
      for (int64_t begin = 0; begin < stage.tasks; begin += most) {
        set(stage.kernel.get(), last, begin);
        const size_t count = static_cast<size_t>(std::min(most, stage.tasks - begin)) * stage.threads;
        check(driver().clEnqueueNDRangeKernel(queue, stage.kernel.get(), 1, nullptr, &count, &stage.threads,
                                              0, nullptr, nullptr),
              "clEnqueueNDRangeKernel");
      }
    }
  }

 private:
  struct StageLaunch {
    OwnedKernel kernel;
    int64_t tasks;
    size_t threads;  ///< of a block, as the kernel's attribute says
  };
  struct Launch {
    const OpenClKernel* kernel = nullptr;
    std::vector<int64_t> dims;
    std::vector<Address> buffers;
    Address shared, prepared;
    std::vector<StageLaunch> stages;
  };

  template <class T>
  static void set(KernelHandle kernel, Number index, const T& value) {
    check(driver().clSetKernelArg(kernel, index, sizeof value, &value), "clSetKernelArg");
  }
  /// All but the first task, in the order of codegen::emit_c. Returns that one's number.
  Number set_arguments(const Launch& launch, KernelHandle kernel) const {
    Number index = 0;
    const auto memory = [&](Address address) {
      set(kernel, index++, memory_of(address));
      set(kernel, index++, address.offset);
    };
    for (const Address& buffer : launch.buffers) memory(buffer);
    if (launch.kernel->has_shared()) memory(launch.shared);
    if (launch.kernel->has_prepared()) memory(launch.prepared);
    if (launch.kernel->has_local()) memory(scratch_);
    for (const int64_t dim : launch.dims) set(kernel, index++, dim);
    return index;
  }

  int64_t at_once_, scratch_bytes_ = 0;
  std::vector<Launch> launches_;
  Address scratch_;
};

class Mark : public Event {
 public:
  void wait() override {
    if (event.get() != nullptr) check(driver().clWaitForEvents(1, &event.get()), "clWaitForEvents");
  }
  [[nodiscard]] uint64_t nanoseconds() const {
    uint64_t time = 0;
    if (event.get() == nullptr)
      fail<DeviceError>("[opencl] an event that was never recorded is asked for its time");
    check(driver().clGetEventProfilingInfo(event.get(), kEndOfCommand, sizeof time, &time, nullptr),
          "clGetEventProfilingInfo");
    return time;
  }
  OwnedEvent event;
};

/// An in-order queue.
class OpenClStream : public Stream {
 public:
  explicit OpenClStream(std::shared_ptr<const Card> card) : card_(std::move(card)) {
    Code code = kSuccess;
    queue_ = OwnedQueue(driver().clCreateCommandQueue(card_->context.get(), card_->id, kProfiling, &code));
    check(code, "clCreateCommandQueue");
  }
  ~OpenClStream() override { driver().clFinish(queue_.get()); }

  void upload(const void* from, Address to, int64_t bytes) override {
    if (bytes == 0) return;
    check(driver().clEnqueueWriteBuffer(queue_.get(), memory_of(to), kNo, offset_of(to),
                                        static_cast<size_t>(bytes), from, 0, nullptr, nullptr),
          "clEnqueueWriteBuffer");
  }
  void download(Address from, void* to, int64_t bytes) override {
    if (bytes == 0) return;
    check(driver().clEnqueueReadBuffer(queue_.get(), memory_of(from), kNo, offset_of(from),
                                       static_cast<size_t>(bytes), to, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
  }
  void copy(Address from, Address to, int64_t bytes) override {
    if (bytes == 0 || from == to) return;
    check(driver().clEnqueueCopyBuffer(queue_.get(), memory_of(from), memory_of(to), offset_of(from),
                                       offset_of(to), static_cast<size_t>(bytes), 0, nullptr, nullptr),
          "clEnqueueCopyBuffer");
  }
  void fill(Address to, std::byte pattern, int64_t bytes) override {
    if (bytes == 0) return;
    check(driver().clEnqueueFillBuffer(queue_.get(), memory_of(to), &pattern, 1, offset_of(to),
                                       static_cast<size_t>(bytes), 0, nullptr, nullptr),
          "clEnqueueFillBuffer");
  }
  void launch(LaunchList& list, int first, int last) override {
    const auto& own = dynamic_cast<const OpenClList&>(list);
    for (int number = first; number < last; ++number) own.enqueue(queue_.get(), number);
    check(driver().clFlush(queue_.get()), "clFlush");
  }
  void record(Event& event) override {
    EventHandle made = nullptr;
    check(driver().clEnqueueMarkerWithWaitList(queue_.get(), 0, nullptr, &made),
          "clEnqueueMarkerWithWaitList");
    static_cast<Mark&>(event).event = OwnedEvent(made);
    check(driver().clFlush(queue_.get()), "clFlush");  // other queues may wait for it
  }
  void wait(Event& event) override {
    const auto& mark = static_cast<const Mark&>(event);
    if (mark.event.get() == nullptr) return;
    check(driver().clEnqueueBarrierWithWaitList(queue_.get(), 1, &mark.event.get(), nullptr),
          "clEnqueueBarrierWithWaitList");
  }
  void synchronise() override { check(driver().clFinish(queue_.get()), "clFinish"); }

 private:
  std::shared_ptr<const Card> card_;
  OwnedQueue queue_;
};

}  // namespace

std::unique_ptr<LaunchList> make_list(std::vector<ListedLaunch> launches, int64_t at_once) {
  return std::make_unique<OpenClList>(std::move(launches), at_once);
}
std::unique_ptr<Stream> make_queue(std::shared_ptr<const Card> card) {
  return std::make_unique<OpenClStream>(std::move(card));
}
std::unique_ptr<Event> make_mark() { return std::make_unique<Mark>(); }

double microseconds_between(const Event& from, const Event& to) {
  const auto begin = static_cast<const Mark&>(from).nanoseconds(),
             end = static_cast<const Mark&>(to).nanoseconds();
  return static_cast<double>(static_cast<int64_t>(end - begin)) / 1e3;
}

}  // namespace luminal::backends::opencl
