#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "kernel/canonical.h"

/// Specs built by hand.
namespace luminal::kernel::test {

/// A spec under construction: axes first, then slots, values, outputs.
class SpecBuilder {
 public:
  /// A new axis; its coordinate.
  Expression axis(const Expression& extent) {
    parts_.extents.push_back(extent);
    return Expression::index(static_cast<int>(parts_.extents.size()) - 1, extent);
  }
  int slot(const Expression& elements, Dtype dtype = Dtype::F32) {
    parts_.slots.push_back({dtype, elements});
    return static_cast<int>(parts_.slots.size()) - 1;
  }
  [[nodiscard]] Operand load(int slot, const Expression& index, std::vector<Mask> masks = {}) const {
    const Dtype stored = parts_.slots[static_cast<size_t>(slot)].dtype;
    return {.kind = Operand::Kind::Load,
            .dtype = is_quantized(stored) ? Dtype::F32 : stored,
            .slot = slot,
            .index = index,
            .masks = std::move(masks)};
  }
  [[nodiscard]] Operand read(int value) const {
    return {.kind = Operand::Kind::Value,
            .dtype = parts_.values[static_cast<size_t>(value)].dtype(),
            .value = value};
  }
  [[nodiscard]] static Operand number(const Expression& e) {
    return {.kind = Operand::Kind::Index, .dtype = Dtype::I64, .index = e};
  }
  /// A value; `body` gets the operands as scalars.
  int value(std::vector<int> axes, std::vector<int> reduced, std::optional<Monoid> monoid,
            std::vector<Operand> operands,
            const std::function<Scalar(ScalarBuilder&, std::span<const Scalar>)>& body) {
    ScalarBuilder b;
    std::vector<Scalar> inputs;
    for (size_t k = 0; k < operands.size(); ++k)
      inputs.push_back(b.input(static_cast<int>(k), operands[k].dtype));
    const Scalar result = body(b, inputs);
    parts_.values.push_back({.axes = std::move(axes),
                             .reduced = std::move(reduced),
                             .monoid = monoid,
                             .body = b.finish(result),
                             .operands = std::move(operands)});
    return static_cast<int>(parts_.values.size()) - 1;
  }
  void output(int value, const Expression& index, const Expression& elements) {
    parts_.outputs.push_back({value, index, elements});
  }
  /// As they were built.
  [[nodiscard]] const SpecParts& parts() const { return parts_; }
  [[nodiscard]] KernelSpec plain() const { return KernelSpec(parts_); }
  /// In canonical form; `slots[k]` of the result is where its slot k stands in this builder.
  [[nodiscard]] Canonical finish() { return canonical(std::move(parts_)); }

 private:
  SpecParts parts_;
};

}  // namespace luminal::kernel::test
