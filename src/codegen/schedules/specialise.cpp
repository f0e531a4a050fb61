#include "codegen/schedules/specialise.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernel/canonical_steps.h"
#include "kernel/in_place.h"

namespace luminal::codegen {

void place_axes(kernel::SpecParts& parts, std::span<const Expression> coordinates) {
  kernel::substitute_axes(parts, coordinates);
  for (kernel::Value& v : parts.values)
    for (kernel::Operand& o : v.operands)
      std::erase_if(o.masks, [](const kernel::Mask& m) { return m.predicate == Expression(1); });
}

void drop_single_axes(kernel::SpecParts& parts) {
  const auto drop = [&](std::vector<int>& axes) {
    std::erase_if(axes, [&](int a) { return parts.extents[static_cast<size_t>(a)] == Expression(1); });
  };
  for (kernel::Value& v : parts.values) {
    drop(v.axes);
    drop(v.reduced);
    if (v.reduced.empty()) v.monoid = std::nullopt;
  }
}

kernel::KernelSpec specialised(const kernel::KernelSpec& spec, const Bucket& bucket) {
  const auto is_single = [](const Expression& e) { return e == Expression(1); };
  if (spec.symbols().empty() && std::ranges::none_of(spec.extents(), is_single)) return spec;
  const auto known = [&](Expression& e) {
    for (const auto& [name, facts] : bucket.facts)
      e = e.substitute(name, facts.min == facts.max ? Expression(facts.min) : Expression::dim(name, facts));
  };
  kernel::SpecParts parts = spec.parts();
  for (Expression& e : parts.extents) known(e);
  for (kernel::Slot& s : parts.slots) known(s.elements);
  for (kernel::Value& v : parts.values)
    for (kernel::Operand& o : v.operands) {
      known(o.index);
      for (kernel::Mask& m : o.masks) known(m.predicate);
    }
  for (kernel::Output& o : parts.outputs) {
    known(o.index);
    known(o.elements);
  }
  drop_single_axes(parts);
  return kernel::KernelSpec(std::move(parts));
}

Program program_for(const kernel::KernelSpec& spec, std::string_view name) {
  Program program{.name = std::string(name), .dims = spec.symbols()};
  for (size_t k = 0; k < spec.slots().size(); ++k) {
    // What a family has split or renamed has more values than the spec that plans see: any output may be it.
    const bool kept = std::ranges::none_of(spec.outputs(), [&](const kernel::Output& o) {
      return kernel::read_where_written(spec, static_cast<int>(k), o);
    });
    add_buffer(program, {.name = fmt::format("A{}", k),
                         .space = Space::Slot,
                         .number = static_cast<int>(k),
                         .dtype = spec.slots()[k].dtype,
                         .elements = spec.slots()[k].elements,
                         .is_kept = kept,
                         .is_frozen = spec.slots()[k].is_frozen});
  }
  for (size_t k = 0; k < spec.outputs().size(); ++k) {
    const kernel::Output& o = spec.outputs()[k];
    add_buffer(program, {.name = fmt::format("Y{}", k),
                         .space = Space::Output,
                         .number = static_cast<int>(k),
                         .dtype = spec.values()[static_cast<size_t>(o.value)].dtype(),
                         .elements = o.elements});
  }
  return program;
}

}  // namespace luminal::codegen
