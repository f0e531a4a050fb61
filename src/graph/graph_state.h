#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/turn.h"
#include "luminal/graph.h"
#include "symbolic/dims.h"

namespace luminal {

/// What a Graph owns and its handles refer to. Graph's members keep the invariants:
/// uses mirror the inputs of live nodes, followers their `after`; every edge's view reads a buffer of its
/// source's dims; `after` has no dead nodes.
struct GraphState {
  struct Slot {
    Node node;
    std::vector<Use> uses;
    std::vector<NodeId> followers = {};  ///< nodes whose `after` names this one
    bool alive = true;
  };
  struct Stored {
    std::shared_ptr<TensorData> data;            ///< shared with readers, who see it as const
    std::shared_ptr<const DeviceValue> device;   ///< the same value elsewhere; either may be absent
    std::function<TensorData()> make;            ///< the data, when they are asked for
    bool makes_again = false;                    ///< otherwise `make` is dropped when it was called
    std::optional<std::vector<int64_t>> let_go;  ///< dims of data that are to be made again
    std::function<TensorData()> loader;
    bool pinned = false;
    bool is_weight = false;  ///< see GraphEditor::is_weight
    uint64_t stamp = 0;      ///< see GraphEditor::stamp
    [[nodiscard]] bool present() const { return pinned && (data || device || make); }
  };
  /// What a run needs, worked out once for a version, a presence and sizes.
  struct Needs {
    struct Sized {
      Value value;
      std::vector<int64_t> dims;
    };
    uint64_t version = 0, presence = 0;
    bool everything = false;
    bool checks_finite = false;    ///< LUMINAL_CHECK at that time: runs are too short to look again
    std::optional<DimMap> sizes;   ///< for which `dims` below hold
    std::vector<Sized> inputs;     ///< not computed
    std::vector<Sized> present;    ///< computed, and there already
    std::vector<Use> conditional;  ///< inputs whose views do not take every size
    std::vector<std::pair<std::string, NodeId>> dims;  ///< named ones, and the first node that needs each
  };

  Turns turns;
  std::stop_token stop;  ///< for compiles and runs
  uint32_t serial = 0;
  std::vector<Slot> slots;  ///< by NodeId::index
  std::unordered_map<Value, Edge> forwarded;
  std::map<Value, Stored> values;
  std::set<Value> retrieved, kept;
  std::vector<Graph::StateUpdate> updates;
  std::optional<NodeId> last_side_effect;

  DimMap dims;  ///< in force: those set and those taken from data
  std::map<std::string, std::string, std::less<>>
      fixed_dims;                        ///< by set_dim, data cannot change them: name, line
  symbolic::KnownDims known_dims;        ///< of all tensors made so far
  std::shared_ptr<const Origin> origin;  ///< overrides the call site while passes work
  std::string device;
  SearchOptions search;
  std::shared_ptr<Executable> executable;
  uint64_t executable_version = 0, version = 1, presence = 0, step = 0, seed = 0;
  uint64_t last_stamp = 0;  ///< of Stored::stamp
  int64_t random_streams = 0;
  Needs needs;
  /// Nodes whose values may have to be in memory, however plain they are: user kernels read
  /// or write them. Plans may still compute them on the way.
  std::set<NodeId> materialized;

  std::map<std::string, uint64_t> plans;                  ///< by bucket, as runs used them
  std::set<std::string> unconfirmed_plans;                ///< buckets of `plans` that have not run here yet
  std::function<void(const PlanIdentity&)> plan_differs;  ///< told of those that then run under another key
  std::map<Value, std::vector<std::function<void(const TensorData&)>>> checks;  ///< of inputs, when data come
};

/// An order edge that is known to close no cycle; Graph::add_order checks.
void link_order(GraphState& state, NodeId before, NodeId after);

/// Makes the dims of a view known to the graph.
void note_dims(GraphState& state, const ShapeTracker& view);

/// What to know of the dims among `names` that set_dim fixed, behind a message: "; set_dim fixed 'n' at 4
/// (made at model.cpp:12): clear_dim(\"n\") lets data decide again". Empty if none is.
[[nodiscard]] std::string fixed_dims_text(const GraphState& state, const Shape& dims);

/// "'w' f32[2] (made at model.cpp:41)", "#3 f32[2]": a node's value for messages.
[[nodiscard]] std::string describe_value(const Graph& graph, const Value& value);
/// The same for a view of it that has this type.
[[nodiscard]] std::string describe_value(const Graph& graph, const Value& value, const TensorType& seen);
/// The same for a value that is not there: "... has no value; mark it with retrieve() or keep() before
/// execute()", with the advice that fits.
[[nodiscard]] std::string no_value_text(const Graph& graph, const Value& value);

/// The state behind a handle's weak reference. Errors: Error if the graph is gone.
[[nodiscard]] std::shared_ptr<GraphState> lock(const std::weak_ptr<GraphState>& graph);

}  // namespace luminal
