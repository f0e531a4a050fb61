#pragma once
#include "cli/command.h"

namespace luminal::cli {

/// Declares `luminal bench search`: how long searches take. Puts what to do into `chosen` if the command line
/// says so.
void declare_bench_search(CLI::App& bench, Action* chosen);

}  // namespace luminal::cli
