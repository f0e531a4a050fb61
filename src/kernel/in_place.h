#pragma once
#include <vector>

#include "kernel/spec.h"

namespace luminal::kernel {

/// Whether all loads of the slot read the element that `output` writes at the same coordinates, and the two are
/// of one size: what must hold of a slot whose memory an output takes.
[[nodiscard]] bool read_where_written(const KernelSpec& spec, int slot, const Output& output);
/// Slots whose memory the only output may take, because one evaluation reads and writes each element. Empty
/// for specs of several values or outputs.
[[nodiscard]] std::vector<int> replaceable_slots(const KernelSpec& spec);

}  // namespace luminal::kernel
