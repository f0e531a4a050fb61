#pragma once
#include <cstddef>
#include <cstdint>

namespace luminal::backends {

/// What memory of so many bytes takes from the system: whole pages, huge ones from the length of one on. Where a last huge
/// page would leave more than a sixteenth of the memory unused, small ones hold the rest.
[[nodiscard]] int64_t mapped_bytes(int64_t bytes);
/// Memory of whole pages, on huge pages where it is as long as one and the system has them. Errors:
/// OutOfMemory.
[[nodiscard]] std::byte* map_memory(int64_t bytes);
/// `bytes` as it was mapped.
void unmap_memory(std::byte* memory, int64_t bytes) noexcept;

class MappedMemory {
 public:
  explicit MappedMemory(int64_t bytes) : data_(map_memory(bytes)), bytes_(bytes) {}
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory() { unmap_memory(data_, bytes_); }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::byte* data_;
  int64_t bytes_;
};

}  // namespace luminal::backends
