#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "luminal/compile_report.h"
#include "luminal/session.h"
#include "runtime/executor.h"
#include "search/bucket.h"
#include "search/finite_launches.h"
#include "search/plan_builder.h"
#include "search/session.h"
#include "search/tuner.h"

namespace luminal::search {

/// What does not depend on sizes: the saturated program.
struct Front {
  uint64_t version = 0, presence = 0;
  bool everything = false;
  Program program;
  SaturatedProgram saturated;
  std::shared_ptr<SpecStore> store;
  Dims dims;
  std::map<luminal::Value, std::string> names;  ///< of inputs
  double encode_ms = 0, saturate_ms = 0;
  size_t rows_before = 0, rows_after = 0;
  uint64_t rounds = 0;
  std::vector<uint64_t> growth;            ///< rows of all tables after each round
  std::vector<CompileReport::Rule> rules;  ///< those that fired
};

/// A plan for one bucket.
struct Variant {
  std::shared_ptr<const Front> front;
  std::unique_ptr<runtime::Executor> executor;
  PlanIdentity identity;
  PlanFacts facts;
  Cover cover;
  std::map<SpecId, Tuned> tuned;  ///< measured modes: what became of each spec
  Tuner::Phases tuning;
  std::vector<CompileReport::Round> rounds;
  double limits_ms = 0, cover_ms = 0, cost_us = 0, total_ms = 0;
  double plan_us = 0, fast_us = 0;  ///< whole plans, where they were timed
  FiniteLaunches finite_launches;   ///< for runs that are checked
  std::string note;
};

/// How it came to be.
[[nodiscard]] CompileReport report_of(const Variant& variant, const SessionParts& parts,
                                      const CompilationMode& mode);

}  // namespace luminal::search
