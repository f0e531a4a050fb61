#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/device.h"
#include "luminal/session.h"
#include "luminal/tensor_data.h"

namespace luminal::runtime {

/// A dense tensor in the memory of a device that the host does not share.
class DeviceTensor : public DeviceValue {
 public:
  /// Of any content.
  DeviceTensor(std::shared_ptr<backends::Device> device, Dtype dtype, std::vector<int64_t> dims);
  [[nodiscard]] std::string_view device() const override { return device_->target().name; }
  [[nodiscard]] const std::vector<int64_t>& dims() const override { return dims_; }
  /// Work that writes the tensor is complete.
  [[nodiscard]] TensorData to_host() const override;

  [[nodiscard]] bool is_on(const backends::Device& device) const { return device_.get() == &device; }
  [[nodiscard]] Dtype dtype() const { return dtype_; }
  [[nodiscard]] int64_t bytes() const { return bytes_; }
  [[nodiscard]] backends::Address address() const { return memory_.address(); }
  /// Memory that is large enough is used again. The sizes' product fits in 64 bits.
  void resize(Dtype dtype, std::vector<int64_t> dims);

 private:
  std::shared_ptr<backends::Device> device_;
  Dtype dtype_;
  std::vector<int64_t> dims_;
  int64_t bytes_ = 0;
  backends::Buffer memory_;
};

/// A copy on the device, complete.
[[nodiscard]] std::shared_ptr<DeviceTensor> to_device(const std::shared_ptr<backends::Device>& device,
                                                      const TensorData& data);

}  // namespace luminal::runtime
