#pragma once
#include <string>
#include <string_view>

#include "codegen/schedule.h"
#include "search/plan_builder.h"
#include "search/verification/plan_check.h"
#include "search/verification/verify.h"

namespace luminal::search {

/// Everything that made a kernel wrong, in one file: `luminal explain --replay FILE` judges it again. Several
/// kernels where a law made what is wrong and no user named what they hand on.
struct Replay {
  struct Kernel {
    kernel::KernelSpec spec;
    std::string schedule;
    codegen::Parameters parameters;
    codegen::Bucket bucket;
  };
  std::vector<Kernel> kernels;  ///< of the suite's unit
  VerificationSuite suite;
  std::string fault;  ///< as it was found
};
[[nodiscard]] std::string replay_json(const Replay& replay);
/// Errors: FormatError that says what is wrong.
[[nodiscard]] Replay parse_replay(std::string_view text);

/// What shows the fault of a plan without the plan: the launch over its input, or the launches from values
/// with names to one that is not what its name says. None for a fault that belongs to no launch.
[[nodiscard]] std::optional<Replay> replay_of(const Graph& graph, const runtime::Plan& plan,
                                              const PlanFacts& facts, const SpecStore& store,
                                              const PlanFault& fault);

/// Writes the file `luminal-replay-<key>.json` to LUMINAL_DUMP's folder or here. Returns what to tell of it:
/// how to look into it, or why there is none.
[[nodiscard]] std::string write_replay(const Replay& replay, uint64_t key);

}  // namespace luminal::search
