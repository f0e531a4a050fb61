#pragma once
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "luminal/tensor_data.h"

namespace luminal::test {

/// Memory of an exact size whose start is a multiple of 64.
class Aligned {
 public:
  explicit Aligned(int64_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(64, (static_cast<size_t>(bytes) + 64) / 64 * 64)),
                std::free) {}
  [[nodiscard]] std::byte* data() const { return memory_.get(); }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
};

/// Runs a kernel on one thread: slots in, tensors of the dtypes and sizes of `outputs` out.
[[nodiscard]] inline std::vector<TensorData> launch(const backends::Kernel& kernel,
                                                    std::span<const TensorData> slots,
                                                    std::vector<TensorData> outputs, const DimMap& dims) {
  std::vector<void*> buffers;
  for (const TensorData& s : slots) buffers.push_back(const_cast<std::byte*>(s.bytes.data()));
  for (TensorData& o : outputs) {
    std::ranges::fill(o.bytes, std::byte{0xA5});
    buffers.push_back(o.bytes.data());
  }
  std::vector<int64_t> sizes;
  for (const std::string& d : kernel.dims()) sizes.push_back(dims.at(d));
  const Aligned shared(kernel.shared_bytes(sizes)), local(kernel.local_bytes(sizes));
  const backends::LaunchArguments arguments{
      .buffers = buffers.data(), .dims = sizes.data(), .shared = shared.data(), .local = local.data()};
  for (int s = 0; s < kernel.stage_count(); ++s) {
    // In two calls, as two threads would.
    const int64_t tasks = kernel.tasks(s, sizes);
    kernel.run(s, arguments, tasks / 2, tasks);
    kernel.run(s, arguments, 0, tasks / 2);
  }
  return outputs;
}

}  // namespace luminal::test
