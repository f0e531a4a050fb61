#pragma once
#include <set>
#include <vector>

#include "runtime/executor.h"

namespace luminal::search {

/// LUMINAL_CHECK=finite where kernels compute several nodes. What each launch leaves in memory is looked at,
/// which takes about as long as the run; where that holds what the launch's operands do not explain, the
/// reference interprets the graph's nodes on the very inputs and names the first to blame. Values that never
/// leave a kernel are not looked at unless what leaves it is not finite.
class FiniteLaunches {
 public:
  /// A run of the executor. Errors: Error that names the tensor, or the kernel and its nodes where these give
  /// finite numbers when they are interpreted.
  void run(Graph& graph, runtime::Executor& executor, std::vector<TraceEntry>* trace);

 private:
  std::set<runtime::TensorIndex> infinities_;  ///< tensors that hold them in the reference as well: masks
};

}  // namespace luminal::search
