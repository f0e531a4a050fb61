#include "kernel/fetch.h"

#include <cstring>

#include "base/fail.h"
#include "kernel/axes.h"
#include "luminal/quantized.h"

namespace luminal::kernel {

void fetch(const Operand& operand, std::span<const TensorData* const> slots, const DimMap& dims,
           std::span<const int64_t> at, std::byte* place) {
  if (operand.kind == Operand::Kind::Index) {
    const int64_t value = operand.index.exec(dims, at);
    std::memcpy(place, &value, sizeof value);
    return;
  }
  LUMINAL_CHECK(operand.kind == Operand::Kind::Load, "a value of the spec is in no buffer");
  const auto size = static_cast<size_t>(element_bytes(operand.dtype));
  for (const Mask& m : operand.masks) {
    if (m.predicate.exec(dims, at) != 0) continue;
    ScalarBuilder b;
    const uint64_t bits = b[number_constant(b, operand.dtype, m.fill)].payload;
    std::memcpy(place, &bits, size);
    return;
  }
  const TensorData& slot = *slots[static_cast<size_t>(operand.slot)];
  const int64_t index = operand.index.exec(dims, at);
  LUMINAL_CHECK(index >= 0 && index < slot.element_count(), "load {} of slot {} reads element {} of {}",
                operand.index.to_string(), operand.slot, index, slot.element_count());
  if (is_quantized(slot.dtype))
    dequantize(slot.dtype, slot.bytes.data(), index, std::span(reinterpret_cast<float*>(place), 1));
  else
    std::memcpy(place, slot.bytes.data() + static_cast<size_t>(index) * size, size);
}

}  // namespace luminal::kernel
