#include "codegen/schedules/roofline.h"

#include <algorithm>

#include "luminal/dtype.h"

namespace luminal::codegen {

double Roofline::us(double cycles, int stages, double slow) const {
  return std::max(bytes * slow / bytes_per_us, cycles / (cycles_per_us * threads)) + stages * stage_us;
}

Roofline roofline_of(const kernel::KernelSpec& spec, const DimMap& top, const Target& target) {
  Roofline r{.threads = target.threads};
  const auto size = [&](Dtype dtype, const Expression& elements) {
    return static_cast<double>(element_bytes(dtype)) * static_cast<double>(elements.exec(top));
  };
  for (const kernel::Slot& s : spec.slots()) r.bytes += size(s.dtype, s.elements);
  for (const kernel::Output& o : spec.outputs())
    r.bytes += size(spec.values()[static_cast<size_t>(o.value)].dtype(), o.elements);
  // What fits the last cache is likely to be there.
  const bool cached = r.bytes < static_cast<double>(target.l3_bytes) / 2;
  r.bytes_per_us = cached ? 25e3 * target.threads : 15e3 * std::min(target.threads, 2);
  return r;
}

double scattered(double bytes) { return 1 + std::min(3.0, 300 / bytes); }

}  // namespace luminal::codegen
