#include "kernel/fetch.h"

#include <cstring>

#include "base/fail.h"
#include "kernel/axes.h"
#include "luminal/quantized.h"

namespace luminal::kernel {

BoundIndex::BoundIndex(const Expression& index, const DimMap& dims) : index_(index), dims_(&dims) {
  const auto form = index.as_affine();
  if (!form) return;
  is_affine_ = true;
  constant_ = form->constant.exec(dims);
  for (const auto& [axis, coefficient] : form->coefficients)
    strides_.emplace_back(axis, coefficient.exec(dims));
}

OperandReader::OperandReader(const Operand& operand, std::span<const TensorData* const> slots,
                             const DimMap& dims)
    : operand_(&operand),
      size_(static_cast<size_t>(element_bytes(operand.dtype))),
      index_(operand.index, dims) {
  if (operand.kind == Operand::Kind::Index) return;
  LUMINAL_CHECK(operand.kind == Operand::Kind::Load, "a value of the spec is in no buffer");
  slot_ = slots[static_cast<size_t>(operand.slot)];
  elements_ = slot_->element_count();
  for (const Mask& mask : operand.masks) {
    ScalarBuilder b;
    fills_.push_back(
        {BoundIndex(mask.predicate, dims), b[number_constant(b, operand.dtype, mask.fill)].payload});
  }
}

void OperandReader::read(std::span<const int64_t> at, std::byte* place) const {
  if (slot_ == nullptr) {
    const int64_t value = index_(at);
    std::memcpy(place, &value, sizeof value);
    return;
  }
  for (const Fill& fill : fills_) {
    if (fill.predicate(at) != 0) continue;
    std::memcpy(place, &fill.bits, size_);
    return;
  }
  const int64_t index = index_(at);
  LUMINAL_CHECK(index >= 0 && index < elements_, "load {} of slot {} reads element {} of {}",
                operand_->index.to_string(), operand_->slot, index, elements_);
  if (is_quantized(slot_->dtype))
    dequantize(slot_->dtype, slot_->bytes.data(), index, std::span(reinterpret_cast<float*>(place), 1));
  else
    std::memcpy(place, slot_->bytes.data() + static_cast<size_t>(index) * size_, size_);
}

}  // namespace luminal::kernel
