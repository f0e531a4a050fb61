#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "codegen/target.h"
#include "kernel/spec.h"

/// What the search knows of kernels that programs bring along (luminal/user_kernel.h).
namespace luminal::search {

/// Names of those that compete for the spec on a target, sorted. Cheap: asked for every fusion that is tried.
[[nodiscard]] std::vector<std::string> user_kernels_for(const kernel::KernelSpec& spec,
                                                        const codegen::Target& target);

/// Changes with every kernel that is added; the same in every process that adds the same ones.
[[nodiscard]] uint64_t user_kernels_hash();

}  // namespace luminal::search
