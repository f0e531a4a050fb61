#pragma once
#include <optional>
#include <string>

#include "luminal/graph.h"
#include "luminal/math_mode.h"
#include "runtime/plan_runner.h"
#include "search/verification/contain.h"

namespace luminal::search {

/// What is wrong with a plan whose kernels stand each by itself.
struct PlanFault {
  enum class Kind : uint8_t {
    InPlace,  ///< the launch computes something else where its output lies over an input
    Order,    ///< launches that run side by side disturb each other
    Value,    ///< what the launch made is not what the user's nodes say
  };
  Kind kind = Kind::InPlace;
  int launch = -1;                   ///< none: Order, or a value that no launch makes
  runtime::TensorIndex tensor = -1;  ///< Value: the one that is wrong
  std::string message;
};

/// What is drawn for a value of the graph goes by this number: every plan gets the same.
[[nodiscard]] uint64_t number_of(const Value& value);
/// Data for all that a plan has to be given: the graph's own where it has them at these sizes, small positive
/// numbers elsewhere, so that deep networks neither overflow nor take roots of what is below zero.
[[nodiscard]] runtime::Given plan_inputs(const Graph& graph, const runtime::Plan& plan, const DimMap& dims,
                                         uint64_t seed);

/// Runs a plan as it is going to run and with each tensor in memory of its own: both have to give the same
/// bits. What each launch makes of what the launches before it made, values of the range that the graph
/// itself produces, is compared at samples with the user's nodes. NaN and infinities
/// are compared in strict math alone: laws of the other modes may move an overflow. Ends at `until`: what was
/// not looked at by then counts as right.
/// The plan runs contained, on what `inputs` gives there (plan_inputs). `digest` (PlanRunner::digest): of a run as it is
/// going to run on these inputs; where the other run has the same, it need not run that way once more.
[[nodiscard]] std::optional<PlanFault> check_plan(backends::Device& device, const Graph& graph,
                                                  const runtime::Plan& plan, const DimMap& dims,
                                                  const std::function<runtime::Given()>& inputs,
                                                  MathMode math = MathMode::Strict,
                                                  std::chrono::steady_clock::time_point until = kNoDeadline,
                                                  std::optional<uint64_t> digest = std::nullopt);

/// Values of the graph that a plan reads and that are drawn when first asked for are drawn here, instead of anew in
/// each contained process.
void draw_own_inputs(const Graph& graph, const runtime::Plan& plan);

/// Bytes that `check_plan` holds at most: what is given, and of what is computed a part; without those of a run as
/// planned.
[[nodiscard]] int64_t check_bytes(const runtime::Plan& plan, const DimMap& dims);

/// Bytes that a plan takes when nothing shares memory.
[[nodiscard]] int64_t separate_bytes(const runtime::Plan& plan, const DimMap& dims);

}  // namespace luminal::search
