#pragma once
#include <span>
#include <string_view>

#include "codegen/loop_ir.h"
#include "codegen/target.h"
#include "kernel/spec.h"

namespace luminal::codegen {

/// The spec with what the bucket knows of its dims: fixed ones become constants, others carry its facts. No
/// value has an axis of extent 1.
[[nodiscard]] kernel::KernelSpec specialised(const kernel::KernelSpec& spec, const Bucket& bucket);
/// Axis variable k becomes `coordinates[k]` in all formulas. Masks that then always hold go.
void place_axes(kernel::SpecParts& parts, std::span<const Expression> coordinates);
/// Takes axes of extent 1 out of all values: no formula may mention them. A fold over nothing else becomes its body.
void drop_single_axes(kernel::SpecParts& parts);
/// A program with the spec's dims, slots and outputs (buffer k is slot k, outputs follow) and no stages yet.
/// Slots that no output may replace (kernel/in_place.h) are kept ones.
[[nodiscard]] Program program_for(const kernel::KernelSpec& spec, std::string_view name);

}  // namespace luminal::codegen
