#include "backends/opencl/device.h"

#include <fmt/format.h>

#include <mutex>

#include "backends/opencl/driver.h"
#include "backends/opencl/kernel.h"
#include "backends/opencl/limits.h"
#include "backends/opencl/queue.h"
#include "base/fail.h"
#include "codegen/emit/c_family.h"

namespace luminal::backends {
namespace opencl {
namespace {

std::string text_of(DeviceId device, Number what) {
  size_t bytes = 0;
  check(driver().clGetDeviceInfo(device, what, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check(driver().clGetDeviceInfo(device, what, bytes, text.data(), nullptr), "clGetDeviceInfo");
  return text.substr(0, text.find('\0'));
}
template <class T>
T value_of(DeviceId device, Number what) {
  T value{};
  check(driver().clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

/// What of the loop IR's arithmetic the device lacks; "" if nothing.
std::string lacking(DeviceId device) {
  constexpr Bits kAll = kKeepsSubnormals | kHasInfinityAndNan | kRoundsToNearest | kFusesMultiplyAdd;
  if (value_of<Number>(device, kIsAvailable) == kNo || value_of<Number>(device, kHasCompiler) == kNo)
    return "it is not available, or has no compiler";
  if (value_of<Number>(device, kIsLittleEndian) == kNo) return "its numbers are big-endian";
  if ((value_of<Bits>(device, kFloatConfig) & (kAll | kDividesCorrectly)) != (kAll | kDividesCorrectly))
    return "its f32 arithmetic rounds in ways of its own";
  if ((value_of<Bits>(device, kDoubleConfig) & kAll) != kAll) return "it has no f64";
  return "";
}

/// Of all platforms.
std::vector<DeviceId> devices_of_drivers() {
  constexpr Number kMost = 16;
  Platform platforms[kMost];
  Number count = 0;
  std::vector<DeviceId> all;
  if (driver().clGetPlatformIDs(kMost, platforms, &count) != kSuccess) return all;
  for (Number p = 0; p < std::min(count, kMost); ++p) {
    DeviceId devices[kMost];
    Number found = 0;
    if (driver().clGetDeviceIDs(platforms[p], kAnyType, kMost, devices, &found) == kSuccess)
      all.insert(all.end(), devices, devices + std::min(found, kMost));
  }
  return all;
}

std::shared_ptr<const Card> find_card() {
  std::string reasons;
  for (const DeviceId id : devices_of_drivers()) {
    if (const std::string lack = lacking(id); !lack.empty()) {
      reasons += fmt::format("; {}: {}", text_of(id, kDeviceName), lack);
      continue;
    }
    auto card = std::make_shared<Card>();
    card->id = id;
    card->identity = fmt::format("{} | {} | {}", text_of(id, kDeviceName), text_of(id, kDeviceVersion),
                                 text_of(id, kDriverVersion));
    card->largest_allocation = value_of<uint64_t>(id, kLargestAllocation);
    card->largest_parameters = value_of<size_t>(id, kLargestParameters);
    Code code = kSuccess;
    card->context = OwnedContext(driver().clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
    check(code, "clCreateContext");
    return card;
  }
  fail<DeviceError>("[opencl] no driver has a device that can be used{}", reasons);
}

}  // namespace

class OpenClDevice : public Device {
 public:
  OpenClDevice() : card_(find_card()) {
    target_.name = "opencl";
    target_.cpu = text_of(card_->id, kDeviceName);
    target_.features = card_->identity;
    // The language's longest vectors: compilers split them, and hide latency with the parts.
    target_.vector_bytes = 4 * codegen::opencl_c().longest_vector;
    target_.vector_registers = 32;
    target_.threads = static_cast<int>(value_of<Number>(card_->id, kComputeUnits));
    target_.block_threads = static_cast<int>(
        std::min<size_t>(value_of<size_t>(card_->id, kMostGroupItems), codegen::kMostBlockThreads));
    target_.block_bytes = static_cast<int64_t>(value_of<uint64_t>(card_->id, kLocalBytes));
    // CPUs run the threads of a block one after the other, up to each barrier; what GPUs run at once differs little.
    if ((value_of<Bits>(card_->id, kType) & kIsGpu) != 0) target_.block_width = 64;
    if (const auto cache = value_of<uint64_t>(card_->id, kCacheBytes); cache > 0)
      target_.l3_bytes = static_cast<int64_t>(cache);
  }
  [[nodiscard]] const codegen::Target& target() const override { return target_; }

  [[nodiscard]] Address allocate(int64_t bytes) override {
    const auto size = static_cast<size_t>(std::max(bytes, kAlignment));
    const auto refuse = [&](const std::string& why) {
      fail<OutOfMemory>("[opencl] {} bytes of device memory are too many: {}", bytes, why);
    };
    if (size > card_->largest_allocation)
      refuse(fmt::format("the device gives {} at most", card_->largest_allocation));
    Code code = kSuccess;
    const Memory memory = driver().clCreateBuffer(card_->context.get(), kReadWrite, size, nullptr, &code);
    if (code == kMemoryAllocationFailure || code == kOutOfResources || code == kOutOfHostMemory ||
        code == kInvalidBufferSize)
      refuse(name_of(code));
    check(code, "clCreateBuffer");
    return {memory};
  }
  void free(Address memory, int64_t) noexcept override {
    driver().clReleaseMemObject(static_cast<Memory>(memory.memory));
  }

  [[nodiscard]] bool is_built_in() const override { return true; }
  [[nodiscard]] std::string source(const codegen::Program& program) override {
    return program.native ? program.native->text + "\n" : codegen::emit_c(program, codegen::opencl_c());
  }
  [[nodiscard]] std::shared_ptr<const Kernel> compile(const codegen::Program& program,
                                                      const std::string& source) override {
    codegen::verify(program, target_);
    return compile_kernel(*this, card_, program, source);
  }
  using Device::compile;
  [[nodiscard]] std::shared_ptr<const Kernel> load(std::span<const std::byte> binary) override {
    return load_kernel(*this, card_, binary);
  }
  [[nodiscard]] std::string assembly(const codegen::Program& program) override {
    return fmt::format("// {}: OpenCL does not show its machine code\n", program.name);
  }

  [[nodiscard]] std::unique_ptr<LaunchList> prepare(std::vector<ListedLaunch> launches) override {
    constexpr int64_t kTasksOfAUnit = 8;  // so that none waits long for another's last task
    return make_list(std::move(launches), kTasksOfAUnit * target_.threads);
  }
  [[nodiscard]] std::unique_ptr<Stream> make_stream() override { return make_queue(card_); }
  [[nodiscard]] std::unique_ptr<Event> make_event() override { return make_mark(); }
  [[nodiscard]] double elapsed_us(const Event& from, const Event& to) const override {
    return microseconds_between(from, to);
  }

  [[nodiscard]] kernel::MachineLimits measure_limits() override { return probes().limits(); }
  [[nodiscard]] double measure_fma_rate() override { return probes().fma_rate(target_.threads); }

 private:
  const Probes& probes() {
    std::call_once(probes_made_, [&] { probes_ = std::make_unique<Probes>(*this); });
    return *probes_;
  }
  std::shared_ptr<const Card> card_;
  codegen::Target target_;
  std::once_flag probes_made_;
  std::unique_ptr<Probes> probes_;  ///< last: it uses the device
};

}  // namespace opencl

bool has_opencl() { return opencl::is_installed(); }
std::shared_ptr<Device> make_opencl_device() { return std::make_shared<opencl::OpenClDevice>(); }

}  // namespace luminal::backends
