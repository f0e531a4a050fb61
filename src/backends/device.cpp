#include "backends/device.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/fail.h"
#include "base/suggest.h"
#include "luminal/session.h"

namespace luminal::backends {

std::vector<int64_t> sizes_of(const Kernel& kernel, const DimMap& dims) {
  std::vector<int64_t> sizes;
  for (const std::string& name : kernel.dims()) sizes.push_back(Expression::dim(name).exec(dims));
  return sizes;
}

Buffer::Buffer(Device& device, int64_t bytes) : device_(&device) { reserve(bytes); }

Buffer::Buffer(Buffer&& other) noexcept
    : device_(other.device_),
      address_(std::exchange(other.address_, {})),
      bytes_(std::exchange(other.bytes_, 0)) {}

Buffer::~Buffer() { release(); }

void Buffer::reserve(int64_t bytes) {
  if (bytes <= bytes_) return;
  release();
  address_ = device_->allocate(bytes);
  bytes_ = bytes;
}

void Buffer::release() noexcept {
  if (bytes_ > 0) device_->free(address_, bytes_);
  address_ = {};
  bytes_ = 0;
}

namespace {

struct RegisteredDevice {
  std::string name;
  std::function<std::shared_ptr<Device>()> make;
  std::shared_ptr<Device> device;  ///< once it was asked for
};
struct DeviceRegistry {
  std::mutex mutex;
  std::vector<RegisteredDevice> devices;
};
DeviceRegistry& device_registry() {
  static DeviceRegistry registry;
  return registry;
}

}  // namespace

void register_device(std::string name, std::function<std::shared_ptr<Device>()> make) {
  DeviceRegistry& registry = device_registry();
  const std::lock_guard lock(registry.mutex);
  const auto known = std::ranges::find(registry.devices, name, &RegisteredDevice::name);
  if (known != registry.devices.end())
    *known = {std::move(name), std::move(make), nullptr};
  else
    registry.devices.push_back({std::move(name), std::move(make), nullptr});
}

std::shared_ptr<Device> find_device(std::string_view name) {
  install_sessions();
  DeviceRegistry& registry = device_registry();
  const std::lock_guard lock(registry.mutex);
  const auto found = name.empty() ? registry.devices.begin()
                                  : std::ranges::find(registry.devices, name, &RegisteredDevice::name);
  if (found == registry.devices.end()) {
    std::vector<std::string> names;
    for (const RegisteredDevice& each : registry.devices) names.push_back(each.name);
    fail<DeviceError>("[device] no device '{}' compiles kernels; these do: {}{}", name,
                      fmt::join(names, ", "), did_you_mean(name, names));
  }
  if (!found->device) found->device = found->make();
  return found->device;
}

}  // namespace luminal::backends
