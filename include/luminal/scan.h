#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "luminal/graph_tensor.h"

/// Loops over the steps of a sequence, with state that goes from step to step. A recurrence of a thousand
/// steps is one node: its body is recorded, differentiated, searched and compiled once.
///
///   Graph cx;
///   auto x = cx.tensor({4}).set({1, 2, 3, 4});
///   auto [last, all] = scan({cx.constant(0)}, {x}, [](auto carry, auto element) -> ScanStep {
///     const GraphTensor next = 0.5 * carry[0] + element[0];
///     return {.carry = {next}, .outputs = {next}};
///   });
///   all[0].retrieve();                                   // [4]; last[0] is its last element
///   cx.execute();
///   assert((all[0].data<float>() == std::vector<float>{1, 2.5, 4.25, 6.125}));
///
/// The body is called once, while it is recorded, with stand-ins for the carried state and for one element of
/// each sequence. It is plain tensor math and may use any other tensor of the graph: what it computes from
/// those alone is computed once, before the first step. It is not a place for what acts in each run: random
/// numbers, dropout, print, function and the like are an Error there. Draw [T, ...] outside and give them as a
/// sequence.
///
/// *Gradients* go back through time by a scan in the other direction, whose body is the gradient of this
/// one's. It reads the state before each step, which the forward loop then keeps, and computes the rest of a
/// step again. Where the states of all steps are too much to keep, `checkpoint_every` makes the loop one over
/// segments: only the state before each segment is kept, and the steps inside are run a second time when their
/// gradients are due. Being scans, gradients have gradients.
///
/// Source: lax.scan of JAX; checkpoints: Griewank and Walther 2008, "Evaluating Derivatives", chapter 12.
namespace luminal {

/// What a body gives back.
struct ScanStep {
  std::vector<GraphTensor> carry;    ///< the state for the next step, of the dims and dtypes of this one's
  std::vector<GraphTensor> outputs;  ///< of this step; any number
};
using ScanBody = std::function<ScanStep(std::span<const GraphTensor> carry, std::span<const GraphTensor> x)>;

struct ScanOptions {
  bool reverse = false;  ///< from the last element to the first; outputs stand where their elements stood
  /// Steps from one kept state to the next. None: 1, or about the root of the number of steps where all states
  /// would take more than 256 MB.
  std::optional<int64_t> checkpoint_every = {};
  std::optional<Expression> length = {};  ///< steps, where there are no sequences
};

struct ScanResult {
  std::vector<GraphTensor> carry;    ///< behind the last step; without steps as it was given
  std::vector<GraphTensor> outputs;  ///< each step's, along a new first axis
};

/// Runs `body` for each element along the first axes of `sequences`.
/// Shapes: carry [...], sequences [T, ...]; T may be a named dim and may be 0.
/// Errors: ShapeError or DtypeError if sequences differ in T or a carry comes out of the body other than it
/// went in; Error if there is nothing to say how many steps there are, or if the body acts or keeps values.
/// Cost: each step is a launch of the body's kernels: give it enough to do, and take what needs no state (the
/// product of a sequence and a weight) out of the loop.
[[nodiscard]] ScanResult scan(std::vector<GraphTensor> carry, std::vector<GraphTensor> sequences,
                              const ScanBody& body, const ScanOptions& options = {},
                              Where where = Where::current());

/// For passes that change what is computed: calls `change` on a copy of each scan's body, of bodies within
/// bodies too, and puts copies that it changed in their places. What it makes of values that all steps share
/// is computed before the loop. `change` returns how much it changed; dtypes and dims of what the body takes
/// and gives must stay.
/// Returns: the sum of that.
int64_t rewrite_bodies(Graph& cx, const std::function<int64_t(Graph& body)>& change);

}  // namespace luminal
