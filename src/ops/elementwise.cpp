#include "ops/elementwise.h"

#include <cstring>

#include "base/fail.h"
#include "luminal/scalar_math.h"

namespace luminal::ops {
namespace {

template <size_t width>
void copy_elements(const void* const* inputs, void* output, int64_t count, const Attributes&) {
  if (count > 0) std::memcpy(output, inputs[0], static_cast<size_t>(count) * width);
}

}  // namespace

ElementKernels copy_kernels() {
  return [](std::span<const Dtype> inputs, Dtype output) -> ElementKernel {
    if (is_quantized(inputs[0]) || is_quantized(output)) return nullptr;
    if (element_bytes(inputs[0]) != element_bytes(output)) return nullptr;
    return visit_word(inputs[0],
                      []<class Word>(Word) -> ElementKernel { return &copy_elements<sizeof(Word)>; });
  };
}

double function_ulp(std::string_view name) {
  for (const math::Function& function : math::functions())
    if (function.name == name) return function.ulp_f32;
  LUMINAL_CHECK(false, "scalar_math has no function '{}'", name);
  return 0;
}

}  // namespace luminal::ops
