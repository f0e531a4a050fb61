#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "luminal/graph.h"
#include "runtime/plan_runner.h"
#include "search/bucket.h"
#include "search/verification/derive.h"
#include "search/verification/value_range.h"

/// The data and the sizes on which candidates are timed: such as runs have, as far as anybody knows them.
namespace luminal::search {

/// Errors: Error for an example of no input, or of several, and for a size of a dim that no tensor has; DtypeError
/// and ShapeError if an example does not fit its input.
void check_examples(const Graph& graph, const SearchOptions& options);

/// What examples and sizes add to a key of the cache: choices made with others are others.
[[nodiscard]] std::string key_text_of_examples(const SearchOptions& options);

/// Sizes of the bucket at which candidates are timed, three at most: those that are named in the options or, if
/// none of these lies in the bucket, those of `seen`, the last ones first, and the bucket's greatest. Without those
/// that the graph's views do not take.
[[nodiscard]] std::vector<DimMap> sizes_to_time(const Graph& graph, const codegen::Bucket& bucket,
                                                const SearchOptions& options, std::span<const DimMap> seen);

/// Cut or repeated along each axis. Quantised data keeps its dims.
[[nodiscard]] std::shared_ptr<const TensorData> fitted(std::shared_ptr<const TensorData> data,
                                                       const std::vector<int64_t>& dims);

/// Data for what a plan has to be given: what is known of it (`known`, by value), the example of an input, what the
/// graph holds at these sizes, and else numbers that are plausible there: positions within what they index,
/// integers that are compared with 0 ... n - 1 among these, and what plan_inputs (plan_check.h) draws.
[[nodiscard]] runtime::Given timing_inputs(const Graph& graph, const runtime::Plan& plan, const DimMap& dims,
                                           const SearchOptions& options, const Leaves& known = {});

/// What values of the graph hold when it runs.
struct RunValues {
  Leaves
      leaves;  ///< of what launches read: inputs, what ops of the host make, and others that are not too large to keep
  ValueRanges ranges;  ///< of all that launches read or make
};
/// What a plan's launches read and make when it runs on `given`. Ops with side effects, code of the program's own and
/// loops do not run: what they make stays as it is given, and has no range. Runs contained; nothing where that fails, or
/// does not end by `until`.
[[nodiscard]] RunValues record_values(backends::Device& device, const Graph& graph, const runtime::Plan& plan,
                                      const DimMap& dims, const runtime::Given& given,
                                      std::chrono::steady_clock::time_point until);

}  // namespace luminal::search
