#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backends/device.h"
#include "kernel/cost.h"
#include "luminal/compile_report.h"
#include "luminal/session.h"
#include "runtime/plan.h"
#include "search/bucket.h"
#include "search/loops.h"
#include "search/plan_builder.h"
#include "search/saturate/saturated_graph.h"
#include "search/tuning/plan_search.h"

/// From a graph to a plan. The steps, each with the function that does it:
///
///   encode     encode/kernel_graph.h      Graph -> KernelGraph: each node a kernel of its own
///   saturate   saturate/language.h        KernelGraph -> SaturatedGraph: what laws make of these kernels
///   cover      cover/fusion.h             SaturatedGraph -> Fusions: the best kernels for each value
///   select     cover/cover.h              Fusions -> Cover: which values are in memory, made by which kernels
///   lower      tuning/implementation.h    KernelSpec -> Program: a schedule's loops
///   compile    cache/kernel_cache.h       Program -> Kernel: machine code
///   check      verification/              Kernel, Plan: compared with the user's nodes
///   plan       plan_builder.h             Cover, kernels -> Plan: launches in order, tensors in memory
///
/// The body of a loop goes through all of them as a program of its own (loops.h).
///
/// The first two know nothing of sizes and run once for a graph (`FrontEnd`); the others run for each bucket
/// of sizes (`BackEndResult`). In Fast mode a model chooses what is lowered; in measured modes
/// tuning/plan_search.h goes through cover ... check again and again, with measured times for predicted ones.
namespace luminal::search {

/// Encode and saturate: what does not depend on sizes.
struct FrontEnd {
  KernelGraph kernel_graph;
  SaturatedGraph saturated;
  std::shared_ptr<SpecStore> store;
  LoopBodies loops;
  Dims dims;
  std::map<luminal::Value, std::string> names;  ///< of inputs
  double encode_ms = 0, saturate_ms = 0;
  size_t rows_before = 0, rows_after = 0;
  uint64_t rounds = 0;
  std::vector<uint64_t> growth;            ///< rows of all tables after each round
  std::vector<CompileReport::Rule> rules;  ///< those that fired
};
/// `everything`: all values of the graph are results. Errors: LawFault if a law made what cannot be.
[[nodiscard]] FrontEnd run_front_end(const Graph& graph, bool everything, const SearchOptions& options);

/// Specs are shared by all graphs of a math mode: whoever composes or looks up some outside the steps holds
/// this.
[[nodiscard]] std::unique_lock<std::mutex> lock_specs();

/// Where kernels run, and how they are chosen.
struct BackEnd {
  std::string device;
  std::shared_ptr<backends::Device> backend;
};

struct CompiledLoop;

/// Cover, select, lower, compile, check and plan: all that depends on sizes, for one bucket of them.
struct BackEndResult {
  std::shared_ptr<const FrontEnd> front_end;
  runtime::Plan plan;
  PlanFacts facts;
  Cover cover;
  std::vector<CompiledLoop> loops;  ///< of each distinct body
  std::map<SpecId, Tuned> tuned;    ///< measured modes: what became of each spec
  TuningPhases tuning;
  std::vector<CompileReport::Round> rounds;
  double cover_ms = 0, plan_ms = 0, cost_us = 0;
  double total_ms = 0;              ///< with encode and saturate, if they are of its time
  bool has_own_front_end = true;    ///< no plan had it before: encode and saturate are of its time
  double plan_us = 0, fast_us = 0;  ///< whole plans, where they were timed
  std::vector<DimMap> timed_at;     ///< measured modes: sizes of named dims
  std::string note;
};

/// The body of a loop; its plan has moved.
struct CompiledLoop {
  BackEndResult body;
  std::shared_ptr<const runtime::Plan> plan;
};

/// What an executable has learnt in earlier runs and compiles.
struct Earlier {
  std::vector<DimMap> sizes;  ///< that the program has run at, the last ones first; in measured modes
  std::shared_ptr<PassedForms> passed_forms = std::make_shared<PassedForms>();  ///< see TunerOptions
};

/// The time of the mode begins with the `Watch` (search/watch.h) of the thread. Errors: LawFault if kernels are wrong that
/// no schedule got wrong, so that a law must be.
[[nodiscard]] BackEndResult run_back_end(const Graph& graph, std::shared_ptr<const FrontEnd> front_end,
                                         const BackEnd& target, const codegen::Bucket& bucket,
                                         const CompilationMode& mode, const SearchOptions& options,
                                         const Earlier& earlier = {});

}  // namespace luminal::search
