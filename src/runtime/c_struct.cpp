#include "luminal/c_struct.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/fail.h"

namespace luminal {

CStructBuilder& CStructBuilder::int_(int32_t value) { return ints({&value, 1}); }
CStructBuilder& CStructBuilder::ints(std::span<const int32_t> values) {
  return bytes(std::as_bytes(values), alignof(int32_t));
}
CStructBuilder& CStructBuilder::float_(float value) { return floats({&value, 1}); }
CStructBuilder& CStructBuilder::floats(std::span<const float> values) {
  return bytes(std::as_bytes(values), alignof(float));
}
CStructBuilder& CStructBuilder::bool_(bool value) {
  const auto byte = static_cast<std::byte>(value);
  return bytes({&byte, 1}, 1);
}
CStructBuilder& CStructBuilder::ptr_const_f32(const float* pointer) {
  return bytes(std::as_bytes(std::span(&pointer, 1)), alignof(const float*));
}
CStructBuilder& CStructBuilder::ptr_mut_f32(float* pointer) {
  return bytes(std::as_bytes(std::span(&pointer, 1)), alignof(float*));
}

CStructBuilder& CStructBuilder::bytes(std::span<const std::byte> data, size_t alignment) {
  if (!std::has_single_bit(alignment))
    fail("[c_struct] a member cannot be aligned to {} bytes; give a power of two", alignment);
  pad_to(alignment);
  data_.insert(data_.end(), data.begin(), data.end());
  alignment_ = std::max(alignment_, alignment);
  return *this;
}

std::vector<std::byte> CStructBuilder::finish_struct() {
  pad_to(alignment_);
  alignment_ = 1;
  return std::exchange(data_, {});
}

void CStructBuilder::pad_to(size_t alignment) {
  data_.resize((data_.size() + alignment - 1) / alignment * alignment);
}

}  // namespace luminal
