#pragma once
#include <optional>
#include <span>
#include <string_view>

#include "codegen/loop_ir.h"
#include "codegen/target.h"
#include "kernel/spec.h"

/// A schedule family turns a spec into loops: a guard, a parameter space, and the lowering. One file each
/// under schedules/, one line in schedules.cpp.
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
  std::vector<Candidate> (*candidates)(const kernel::KernelSpec& spec, const Bucket& bucket,
                                       const Target& target) = nullptr;
  /// The loops of one candidate. Dims that the bucket fixes are constants in the program.
  /// Program::buffers start with the spec's slots, then its outputs.
  Program (*lower)(const kernel::KernelSpec& spec, const Parameters& parameters, const Bucket& bucket,
                   const Target& target) = nullptr;
};

/// All families; `nest`, which takes every spec, is the last.
[[nodiscard]] std::span<const Schedule* const> schedules();
[[nodiscard]] const Schedule& find_schedule(std::string_view name);

}  // namespace luminal::codegen
