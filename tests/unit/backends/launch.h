#pragma once
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "backends/host/device.h"
#include "luminal/tensor_data.h"

namespace luminal::test {

/// Sets LUMINAL_CPU_FEATURES for devices made while it lives.
class Features {
 public:
  explicit Features(const char* text) { ::setenv("LUMINAL_CPU_FEATURES", text, 1); }
  Features(const Features&) = delete;
  ~Features() { ::unsetenv("LUMINAL_CPU_FEATURES"); }
};

/// Memory that ends where the next page may not be touched; a page before it may not be touched either. With
/// `alignment` above 1 its start is a multiple of that and its end only as near as possible.
class Fenced {
 public:
  explicit Fenced(int64_t bytes, size_t alignment = 1) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE)), size = static_cast<size_t>(bytes);
    const size_t whole = (size + page - 1) / page * page;
    mapped_ = whole + 2 * page;
    start_ = static_cast<std::byte*>(::mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (start_ == MAP_FAILED || (whole > 0 && ::mprotect(start_ + page, whole, PROT_READ | PROT_WRITE) != 0))
      throw std::runtime_error("no memory");
    data_ = start_ + page + (whole - size) / alignment * alignment;
    if (whole > 0) std::memset(start_ + page, 0xA5, whole);
  }
  Fenced(const Fenced&) = delete;
  Fenced(Fenced&& other) noexcept : start_(other.start_), data_(other.data_), mapped_(other.mapped_) {
    other.start_ = nullptr;
  }
  ~Fenced() {
    if (start_ != nullptr) ::munmap(start_, mapped_);
  }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte *start_ = nullptr, *data_ = nullptr;
  size_t mapped_ = 0;
};

/// Runs a kernel on one thread, all its memory fenced: slots in, tensors of the dtypes and sizes of `outputs`
/// out.
[[nodiscard]] inline std::vector<TensorData> launch(const backends::Kernel& any_kernel,
                                                    std::span<const TensorData> slots,
                                                    std::vector<TensorData> outputs, const DimMap& dims) {
  const backends::HostKernel& kernel = backends::on_host(any_kernel);
  std::vector<Fenced> memory;
  std::vector<void*> buffers;
  const auto add = [&](const TensorData& t) {
    memory.emplace_back(static_cast<int64_t>(t.bytes.size()));
    buffers.push_back(memory.back().data());
  };
  for (const TensorData& s : slots) {
    add(s);
    if (!s.bytes.empty()) std::memcpy(buffers.back(), s.bytes.data(), s.bytes.size());
  }
  for (const TensorData& o : outputs) add(o);
  std::vector<int64_t> sizes;
  for (const std::string& d : kernel.dims()) sizes.push_back(dims.at(d));
  const Fenced shared(kernel.shared_bytes(sizes), 64), local(kernel.local_bytes(sizes), 64),
      prepared(kernel.prepared_bytes(sizes), 64);
  const backends::LaunchArguments arguments{.buffers = buffers.data(),
                                            .dims = sizes.data(),
                                            .shared = shared.data(),
                                            .local = local.data(),
                                            .prepared = prepared.data()};
  for (int s = 0; s < kernel.stage_count(); ++s) {
    // In two calls, as two threads would, the later part first.
    const int64_t tasks = kernel.tasks(s, sizes);
    kernel.run(s, arguments, tasks / 2, tasks);
    kernel.run(s, arguments, 0, tasks / 2);
  }
  for (size_t k = 0; k < outputs.size(); ++k)
    if (!outputs[k].bytes.empty())
      std::memcpy(outputs[k].bytes.data(), buffers[slots.size() + k], outputs[k].bytes.size());
  return outputs;
}

}  // namespace luminal::test
