#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loop_ir.h"
#include "codegen/target.h"
#include "kernel/cost.h"
#include "luminal/error.h"

/// A device as the rest of the compiler sees it: memory, kernels, streams, events.
///
///   const std::shared_ptr<Device> device = find_device("cpu");
///   const auto kernel = device->compile(program);
///   Buffer memory(*device, bytes);
///   const auto list = device->prepare({{.kernel = kernel.get(), .buffers = 1}});
///   list->bind(0, 0, memory.address());                   // launch 0, its first buffer
///   const auto stream = device->make_stream();
///   stream->upload(values, memory.address(), bytes);
///   stream->launch(*list, 0, 1);
///   stream->download(memory.address(), values, bytes);
///   stream->synchronise();                                // now `values` holds what the kernel wrote
///
/// Work that is queued on one stream runs in order; streams run side by side unless an event orders them. A
/// device may be done when a call returns, as those of the host are, or any time later: whoever wants to know
/// waits. Devices that this machine cannot serve are not registered.
namespace luminal::backends {

/// Every allocation and every tensor in it begins at a multiple of this: a cache line, the widest vector
/// register.
inline constexpr int64_t kAlignment = 64;
[[nodiscard]] constexpr int64_t aligned(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// The device has not the memory that was asked for. It works on.
class OutOfMemory : public DeviceError {
  using DeviceError::DeviceError;
};

/// A place in memory that a device reaches. `memory` is the device's own word for it, an address or a handle:
/// only the device may look into it.
struct Address {
  void* memory = nullptr;
  int64_t offset = 0;  ///< bytes behind its beginning
  [[nodiscard]] Address operator+(int64_t bytes) const { return {memory, offset + bytes}; }
  friend bool operator==(const Address&, const Address&) = default;
};

class Device;

/// A compiled program. Immutable; any number of launch lists may share it.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// The device that alone can run it, which outlives it; null: threads of the host run it (host/device.h).
  [[nodiscard]] virtual Device* device() const { return nullptr; }
  /// Named dims whose sizes a launch gives, sorted.
  [[nodiscard]] virtual const std::vector<std::string>& dims() const = 0;
  /// Workspace of one launch in the device's memory, at these sizes of dims().
  [[nodiscard]] virtual int64_t shared_bytes(std::span<const int64_t> dims) const = 0;
  /// Workspace beside that, which the kernel fills from its frozen slots (codegen::Space::Prepared).
  [[nodiscard]] virtual int64_t prepared_bytes(std::span<const int64_t>) const { return 0; }
  /// Kernels of a device with the same one fill it alike (codegen::Preparation). 0: like no other kernel.
  [[nodiscard]] virtual uint64_t preparation() const { return 0; }
  /// The slots from which it is filled, in an order that these kernels share.
  [[nodiscard]] virtual std::span<const int> prepared_slots() const { return {}; }
  /// Those of them that nothing else of the kernel reads: LaunchPart::Rest does without what they hold.
  [[nodiscard]] virtual std::span<const int> spent_slots() const { return {}; }
  /// What a cache keeps: `load` of it gives the same kernel without compiling. Empty: nothing is kept.
  [[nodiscard]] virtual std::vector<std::byte> binary() const = 0;
};

/// Of a kernel's dims, in order. Errors: Error that names a dim without a size.
[[nodiscard]] std::vector<int64_t> sizes_of(const Kernel& kernel, const DimMap& dims);

/// What of a kernel a launch runs.
enum class LaunchPart : uint8_t {
  Whole,
  Preparation,  ///< fills the prepared workspace
  Rest,         ///< finds it filled
};

/// One launch of a list, at fixed sizes.
struct ListedLaunch {
  const Kernel* kernel = nullptr;  ///< outlives the list
  std::vector<int64_t> dims;       ///< sizes of Kernel::dims()
  int buffers = 0;                 ///< slots and outputs together
  std::vector<int> after;          ///< earlier launches of the list that have to be complete first
  LaunchPart part = LaunchPart::Whole;
};

/// Launches that a device got to know together, to run all of them or a part at once: threads that go from
/// kernel to kernel without meeting, a command buffer, a captured graph. Addresses may change between runs;
/// what is queued already keeps those it was queued with.
class LaunchList {
 public:
  virtual ~LaunchList() = default;
  /// Buffers are numbered as in the program: slots, then outputs.
  virtual void bind(int launch, int buffer, Address memory) = 0;
  /// Where the launch's Kernel::shared_bytes are.
  virtual void bind_shared(int launch, Address memory) = 0;
  /// Where its Kernel::prepared_bytes are; not called for kernels without.
  virtual void bind_prepared(int, Address) {}
  /// Workspace of the list as a whole, whichever launches run; none by default.
  [[nodiscard]] virtual int64_t scratch_bytes() const { return 0; }
  virtual void bind_scratch(Address) {}
};

/// A mark in a stream. Recorded again, it stands for the later place.
class Event {
 public:
  virtual ~Event() = default;
  /// Returns when all that was queued before it is complete. Errors: as Stream::synchronise.
  virtual void wait() = 0;
};

/// A queue of work. Calls return at once; host memory that they name stays as it is until the work is
/// complete. Thread safety: one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;  ///< waits for what is queued
  virtual void upload(const void* from, Address to, int64_t bytes) = 0;
  virtual void download(Address from, void* to, int64_t bytes) = 0;
  virtual void copy(Address from, Address to, int64_t bytes) = 0;
  virtual void fill(Address to, std::byte pattern, int64_t bytes) = 0;
  /// Launches [first, last) of a list; those before them are complete or queued on this stream. A call from
  /// the steady state of a run allocates nothing on the host's own devices.
  virtual void launch(LaunchList& list, int first, int last) = 0;
  virtual void record(Event& event) = 0;
  /// What is queued from now on waits for the event, which another stream may have recorded.
  virtual void wait(Event& event) = 0;
  /// Returns when everything is complete. Errors: what went wrong since the last time, as DeviceError or, on
  /// the host's own devices, as the kernel threw it (there `launch` throws it at once).
  virtual void synchronise() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const codegen::Target& target() const = 0;

  // --- Memory
  /// Host memory is this device's memory: an Address may be a host pointer, the host reads what kernels write
  /// once they are complete, and a forked process goes on with copies of both. Nothing of any other device
  /// may be used there.
  [[nodiscard]] virtual bool shares_host_memory() const { return false; }
  /// At a multiple of kAlignment, with any content. Errors: OutOfMemory.
  [[nodiscard]] virtual Address allocate(int64_t bytes) = 0;
  /// All work that uses it is complete. `bytes` as it was allocated.
  virtual void free(Address memory, int64_t bytes) noexcept = 0;

  // --- Kernels
  /// The program in the device's language: what people read, what `compile` takes, and part of the key under
  /// which binaries are kept.
  [[nodiscard]] virtual std::string source(const codegen::Program& program) = 0;
  /// The target and the library's sources say all that `source` and `compile` depend on: what they made for a program is
  /// found again without either.
  [[nodiscard]] virtual bool is_built_in() const { return false; }
  /// `source` is that of the program. Any thread may compile. Errors: InternalError with the target
  /// compiler's message.
  [[nodiscard]] virtual std::shared_ptr<const Kernel> compile(const codegen::Program& program,
                                                              const std::string& source) = 0;
  [[nodiscard]] std::shared_ptr<const Kernel> compile(const codegen::Program& program) {
    return compile(program, source(program));
  }
  /// Errors: FormatError if the bytes are damaged, of another version or of another device.
  [[nodiscard]] virtual std::shared_ptr<const Kernel> load(std::span<const std::byte> binary) = 0;
  /// Machine code of a program, for people.
  [[nodiscard]] virtual std::string assembly(const codegen::Program& program) = 0;

  // --- Running
  [[nodiscard]] virtual std::unique_ptr<LaunchList> prepare(std::vector<ListedLaunch> launches) = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;
  /// Between two recorded events, both complete.
  [[nodiscard]] virtual double elapsed_us(const Event& from, const Event& to) const = 0;

  // --- Limits
  /// What the device reaches, where that is known or not worth measuring; none: it is measured, once.
  [[nodiscard]] virtual std::optional<kernel::MachineLimits> limits() const { return std::nullopt; }
  [[nodiscard]] virtual kernel::MachineLimits measure_limits() = 0;
  /// The f32 fma rate in flops per us, as the device gives it at this moment: its clock changes with what it
  /// has just done and with what others do. Takes about 2 ms.
  [[nodiscard]] virtual double measure_fma_rate() = 0;
  /// False: launches write nothing, so that nothing that runs can be timed or judged.
  [[nodiscard]] virtual bool computes() const { return true; }
};

/// Memory of a device, given back with the object. Its owner sees to it that no work uses it by then, and
/// that the device lives as long.
class Buffer {
 public:
  explicit Buffer(Device& device, int64_t bytes = 0);
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer();
  /// At least `bytes` bytes; what was there is lost if it has to grow. Errors: OutOfMemory.
  void reserve(int64_t bytes);
  [[nodiscard]] Address address() const { return address_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }

 private:
  void release() noexcept;
  Device* device_;
  Address address_;
  int64_t bytes_ = 0;
};

// --- Which devices there are

/// `make` is called once, when the device is first asked for. A name that is known gets the new maker.
void register_device(std::string name, std::function<std::shared_ptr<Device>()> make);
/// "" is the first one that was registered: the best. Errors: DeviceError that lists the devices there are
/// and offers the nearest name.
[[nodiscard]] std::shared_ptr<Device> find_device(std::string_view name);

/// The CPU this runs on, through LLVM.
[[nodiscard]] std::shared_ptr<Device> make_cpu_device();

/// A device that interprets loops, statement by statement: what a program says, without a compiler.
[[nodiscard]] std::shared_ptr<Device> make_reference_device();

/// A device that compiles and pretends to run: launches return at once and write nothing. Shows what
/// everything but the kernels costs. Its limits are those of a common server, so that plans are like real
/// ones. `threads`: of its team that take part, 0 for all.
[[nodiscard]] std::shared_ptr<Device> make_null_device(int threads = 0);

}  // namespace luminal::backends
