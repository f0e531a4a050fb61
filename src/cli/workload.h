#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/graph.h"

namespace CLI {
class App;
}

/// What `explain` and `bench` work on: a formula (formula.h), or an example by its name.
namespace luminal::cli {

/// What commands that compile a workload are told.
struct WorkloadOptions {
  std::string what, mode = "optimal", device, math = "relaxed", rules;
  std::vector<std::string> dims, rules_off;
  uint64_t seed = 0;  ///< of the numbers on which candidates are timed
  /// Inputs of a formula: their gradients are the results then. The formula's own result takes an input
  /// "upstream" of its dims as its gradient.
  std::vector<std::string> gradients;
};
/// Builds it in a new graph, results retrieved, and gives the graph its device, search and sizes. Returns its
/// inputs. Errors: Error that names the examples if the text is neither, for sizes that are not NAME=SIZE or
/// of unknown dims, for a file of rules that cannot be read, for gradients of an example that is no formula, of
/// what is no input.
std::vector<GraphTensor> build_workload(Graph& graph, const WorkloadOptions& options);
/// Declares all but `what`, with the same footer.
void declare_search(CLI::App& app, WorkloadOptions& options);
/// Declares them, and the examples and functions as the help's footer.
void declare_workload(CLI::App& app, WorkloadOptions& options);

}  // namespace luminal::cli
