#include "codegen/schedules/outputs.h"

#include <algorithm>

namespace luminal::codegen {
namespace {

using kernel::AxisSet;

AxisSet axes_of_output(const kernel::KernelSpec& spec, const kernel::Output& output) {
  return kernel::axes_of(spec.values()[static_cast<size_t>(output.value)].axes);
}

}  // namespace

bool stores_from(const kernel::KernelSpec& spec, AxisSet bound) {
  AxisSet reduced = 0;
  for (const kernel::Value& v : spec.values()) reduced |= kernel::axes_of(v.reduced);
  return std::ranges::all_of(spec.outputs(), [&](const kernel::Output& o) {
    const AxisSet axes = axes_of_output(spec, o);
    return (bound & ~axes) == 0 && (axes & ~bound & reduced) == 0;
  });
}

void store_outputs_from(StageBuilder& b, const kernel::KernelSpec& spec, AxisSet bound, const Ramp& ramp,
                        std::span<const Expression> at, const std::map<int, Id>& known) {
  std::map<AxisSet, std::vector<size_t>> together;  // by their further axes
  for (size_t k = 0; k < spec.outputs().size(); ++k)
    together[axes_of_output(spec, spec.outputs()[k]) & ~bound].push_back(k);
  for (const auto& [further, outputs] : together) {
    const std::vector<int> axes = kernel::list_of(further);
    std::vector<Expression> here(at.begin(), at.end());
    const auto nest = [&](const auto& self, size_t depth) -> void {
      if (depth < axes.size()) {
        const auto axis = static_cast<size_t>(axes[depth]);
        b.loop(spec.extents()[axis], LoopKind::Serial, [&](const Expression& i) {
          here[axis] = i;
          self(self, depth + 1);
        });
        return;
      }
      std::map<int, Id> mine = known;
      for (const size_t k : outputs) (void)ramp.value(spec, spec.outputs()[k].value, here, mine);
      for (const size_t k : outputs)
        ramp.store(static_cast<int>(spec.slots().size() + k), spec.outputs()[k].index,
                   mine.at(spec.outputs()[k].value), here);
    };
    nest(nest, 0);
  }
}

}  // namespace luminal::codegen
