#pragma once
#include <functional>

#include "codegen/schedule.h"
#include "kernel/spec.h"

namespace luminal::search {

/// How one spec is run.
struct Implementation {
  const codegen::Schedule* schedule = nullptr;
  codegen::Parameters parameters;
  double predicted_us = 0;
  double measured_us = 0;  ///< 0: nobody measured
};

/// The seam between finding kernels and tuning them: asked once for each kernel of a plan.
using ImplementationFor =
    std::function<Implementation(const kernel::KernelSpec& spec, const codegen::Bucket& bucket)>;

/// By what candidates of different families are compared: the family that takes every spec knows the shape of
/// none, so another one is preferred where the model can hardly tell.
[[nodiscard]] double ranking_us(const codegen::Schedule& family, double predicted_us);

/// By the model alone: of each family that is not foreign its first candidate, of these the one that ranks
/// first; of equal ones the family that is listed first. Errors: InternalError if no family takes
/// the spec.
[[nodiscard]] Implementation best_by_model(const kernel::KernelSpec& spec, const codegen::Bucket& bucket,
                                           const codegen::Target& target);

}  // namespace luminal::search
