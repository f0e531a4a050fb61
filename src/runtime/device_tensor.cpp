#include "runtime/device_tensor.h"

#include "luminal/dtype.h"

namespace luminal::runtime {

DeviceTensor::DeviceTensor(std::shared_ptr<backends::Device> device, Dtype dtype, std::vector<int64_t> dims)
    : device_(std::move(device)), dtype_(dtype), memory_(*device_) {
  resize(dtype, std::move(dims));
}

void DeviceTensor::resize(Dtype dtype, std::vector<int64_t> dims) {
  int64_t elements = 1;
  for (const int64_t size : dims) elements *= size;
  bytes_ = size_bytes(dtype, elements);
  memory_.reserve(bytes_);
  dtype_ = dtype;
  dims_ = std::move(dims);
}

TensorData DeviceTensor::to_host() const {
  TensorData data(dtype_, dims_);
  const auto stream = device_->make_stream();
  stream->download(address(), data.bytes.data(), bytes());
  stream->synchronise();
  return data;
}

std::shared_ptr<DeviceTensor> to_device(const std::shared_ptr<backends::Device>& device,
                                        const TensorData& data) {
  auto tensor = std::make_shared<DeviceTensor>(device, data.dtype, data.dims);
  const auto stream = device->make_stream();
  stream->upload(data.bytes.data(), tensor->address(), tensor->bytes());
  stream->synchronise();
  return tensor;
}

}  // namespace luminal::runtime
