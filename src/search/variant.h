#pragma once
#include <memory>

#include "luminal/compile_report.h"
#include "luminal/session.h"
#include "runtime/executor.h"
#include "search/finite_launches.h"
#include "search/pipeline.h"

namespace luminal::search {

/// The plan for one version of a graph and one bucket of sizes, ready to run.
struct Variant {
  uint64_t version = 0;
  BackEndResult compiled;  ///< its plan has moved into the executor
  std::unique_ptr<runtime::Executor> executor;
  PlanIdentity identity;
  FiniteLaunches finite_launches;  ///< for runs that are checked
};

/// How it came to be.
[[nodiscard]] CompileReport report_of(const Variant& variant, const BackEnd& target,
                                      const CompilationMode& mode);

}  // namespace luminal::search
