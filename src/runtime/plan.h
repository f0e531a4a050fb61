#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/device.h"
#include "luminal/graph.h"
#include "luminal/op_def.h"

/// What was compiled: launches in order over numbered tensors. Built once by the search, run many times by
/// the executor without allocation or locks.
namespace luminal::runtime {

using TensorIndex = int;
/// As the standard containers index.
[[nodiscard]] inline size_t at(int index) { return static_cast<size_t>(index); }

/// A dense buffer of the plan.
struct PlanTensor {
  Dtype dtype = Dtype::F32;
  Shape dims;
  /// The graph value it holds, if it is one: inputs have it, others may (for messages).
  std::optional<Value> value;
  std::vector<Value> aliases;  ///< further values that are the same by law, element by element
  enum class Role : uint8_t {
    Input,     ///< read from the graph's values; written only by an allowed in-place launch (see `donated`)
    Computed,  ///< written by a launch; in the arena unless the graph takes it after the run
    Constant,  ///< made at compile time: `constant`
  };
  Role role = Role::Computed;
  std::shared_ptr<const TensorData> constant;
  /// Input: the run may use its memory for something else; the graph has no value for it afterwards.
  bool donated = false;
};

/// Output `output` of a launch may lie where its input `input` lies: every element is read before the same
/// place is written, by the same task, and widths are equal. The executor does it where the input is not
/// needed any more; a state's update in place is one case of it.
struct InPlace {
  int output = 0, input = 0;  ///< into KernelLaunch::outputs and inputs
};

/// One kernel. Tensors in the order of Program::buffers: slots, then outputs. No kernel fails: what could is
/// checked before it is launched.
struct KernelLaunch {
  std::shared_ptr<const backends::Kernel> kernel;
  std::vector<TensorIndex> inputs, outputs;
  std::vector<InPlace> in_place;  ///< what is allowed
  /// Into `inputs`: those from which the kernel prepares something (Kernel::prepared_slots). Where none of these tensors is
  /// written, that is kept from run to run.
  std::vector<int> frozen;
};

/// An op with an evaluation of its own (gather, scatter, random, user code), run by its record on the host.
/// Its inputs are dense.
struct HostLaunch {
  NodeId node;
  const OpDef* op = nullptr;
  Attributes attributes;
  std::vector<TensorIndex> inputs, outputs;
};

struct Plan;

/// A plan of its own that runs for each step of sequences. It reads and writes the tensors of this plan where
/// they lie: elements of sequences by offset, carried state in two places by turns.
struct LoopLaunch {
  std::shared_ptr<const Plan> body;  ///< computes one step; has no updates
  std::shared_ptr<Graph> graph;      ///< of the body
  Expression length;
  bool reverse = false;  ///< the last element first
  /// State before the first step, sequences, what all steps share; state behind the last step, sequences.
  std::vector<TensorIndex> inputs, outputs;
  size_t carries = 0, sequences = 0;                   ///< of inputs
  std::vector<TensorIndex> body_inputs, body_outputs;  ///< the same in the body; -1: it does not read it
};

struct Launch {
  std::optional<KernelLaunch> kernel;  ///< exactly one of the three is set
  std::optional<HostLaunch> host;
  std::optional<LoopLaunch> loop;
  std::string name;             ///< "contract_1f3a", as profilers show it
  std::string origin;           ///< "conv2d at model.cpp:41", of its result
  std::vector<NodeId> covers;   ///< the graph's nodes it computes, for explain and ops_outside_plan
  double flops = 0, bytes = 0;  ///< at the bucket's top, for the roofline
  double predicted_us = 0, measured_us = 0;

  [[nodiscard]] const std::vector<TensorIndex>& inputs() const {
    return kernel ? kernel->inputs : host ? host->inputs : loop->inputs;
  }
  [[nodiscard]] const std::vector<TensorIndex>& outputs() const {
    return kernel ? kernel->outputs : host ? host->outputs : loop->outputs;
  }
};

/// After the run the graph has tensor `tensor` as `value` (retrieved and kept values). Several values may
/// have one tensor, and it may be of any role.
struct PlanResult {
  Value value;
  TensorIndex tensor = -1;
};

/// After the run the state takes the value of tensor `next`, all at once.
struct PlanUpdate {
  Value state;
  TensorIndex next = -1;
};

struct Plan {
  std::vector<PlanTensor> tensors;
  std::vector<Launch> launches;  ///< a valid order: every tensor is written before it is read
  std::vector<PlanResult> results;
  std::vector<PlanUpdate> updates;
  codegen::Bucket bucket;  ///< sizes it may be run at
  uint64_t key = 0;        ///< of what was chosen: equal plans, equal bits; checkpoints store it
  [[nodiscard]] std::string to_string() const;
};

}  // namespace luminal::runtime
