#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "luminal/graph.h"

namespace CLI {
class App;
}

/// What `explain` and `bench` work on: a formula (formula.h), or an example by its name.
namespace luminal::cli {

/// Builds it in `graph`, results retrieved. Returns its inputs.
/// Errors: Error that names the examples if the text is neither.
std::vector<GraphTensor> build_workload(Graph& graph, const std::string& what);

/// What commands that compile a workload are told.
struct WorkloadOptions {
  std::string what, mode = "optimal", device, math = "relaxed", rules;
  std::vector<std::string> dims, rules_off;
};
/// Gives a new graph its device, sizes and search. Errors: Error for sizes that are not NAME=SIZE, for a file
/// of rules that cannot be read.
void set_up(Graph& graph, const WorkloadOptions& options);
/// Declares them, and the examples and functions as the help's footer.
void declare_workload(CLI::App& app, WorkloadOptions& options);

}  // namespace luminal::cli
