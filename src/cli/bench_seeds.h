#pragma once
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/workload.h"

namespace luminal::cli {

struct SeedBench {
  std::vector<std::string> names;  ///< of workloads
  int seeds = 8;                   ///< of each
  std::string json_file;           ///< for the figures; "" for none
};

/// Searches each workload once for each seed, in processes with empty caches, then times the plans in turn: prints
/// how far they are apart, how many are the same, and how often the model knew the winner. Errors: as the workload's.
[[nodiscard]] int bench_seeds(const WorkloadOptions& search, const SeedBench& bench, Console& console);

}  // namespace luminal::cli
