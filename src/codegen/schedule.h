#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/loop_ir.h"
#include "codegen/target.h"
#include "kernel/spec.h"

/// A schedule family turns a spec into loops: a guard, a parameter space, and the lowering. One file each
/// under schedules/, one line in schedules/families.h (docs/adding_a_schedule.md).
namespace luminal::codegen {

/// A point in a family's space: {{"tile_m", 14}, {"tile_n", 2}}; what it means is the family's business.
using Parameters = std::map<std::string, int64_t, std::less<>>;
[[nodiscard]] std::string to_string(const Parameters& parameters);  ///< "tile_m=14 tile_n=2"
/// For a parameter that choices stored by earlier versions do not have.
[[nodiscard]] int64_t parameter_or(const Parameters& parameters, std::string_view name, int64_t otherwise);

struct Candidate {
  Parameters parameters;
  double predicted_us = 0;  ///< by the family's own reading of the roofline at the bucket's top
};

struct Schedule {
  std::string_view name;
  std::string_view doc;
  /// Candidates for this spec, best prediction first; empty if the family does not take it. The first is what
  /// Fast mode uses.
  std::function<std::vector<Candidate>(const kernel::KernelSpec& spec, const Bucket& bucket,
                                       const Target& target)>
      candidates;
  /// The loops of one candidate. Dims that the bucket fixes are constants in the program.
  /// Program::buffers start with the spec's slots, then its outputs.
  std::function<Program(const kernel::KernelSpec& spec, const Parameters& parameters, const Bucket& bucket,
                        const Target& target)>
      lower;
  /// Its kernels are written by hand: no model knows how fast they are, nor what they may overwrite.
  bool foreign = false;
  /// It takes specs on targets with blocks of threads alone (Target::block_threads).
  bool for_blocks = false;
  /// The first of `candidates`, where finding it alone takes less time; may be left out.
  std::function<std::optional<Candidate>(const kernel::KernelSpec& spec, const Bucket& bucket,
                                         const Target& target)>
      best = {};
};

/// The first of a family's candidates, empty if it does not take the spec.
[[nodiscard]] std::optional<Candidate> best_of(const Schedule& schedule, const kernel::KernelSpec& spec,
                                               const Bucket& bucket, const Target& target);
/// All families; `nest`, which takes every spec, is the last.
[[nodiscard]] std::vector<const Schedule*> schedules();
/// The families that come with the library, without those that a program has registered.
[[nodiscard]] const std::vector<const Schedule*>& built_in_schedules();
/// Adds a user kernel's family, which then competes with the others. Before the first compile: plans and
/// choices that are there stay as they are. `schedule` outlives the process's last compile. Errors: Error if
/// there is a family of that name.
void register_schedule(const Schedule& schedule);
/// Whether a program has added families for the model to choose from; foreign ones it never chooses.
[[nodiscard]] bool has_added_families();
/// Errors: InternalError that offers the nearest name.
[[nodiscard]] const Schedule& find_schedule(std::string_view name);
/// Names of all families, in order.
[[nodiscard]] std::vector<std::string> schedule_names();

}  // namespace luminal::codegen
