#pragma once
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "luminal/graph.h"
#include "luminal/reference.h"
#include "reference/chunks.h"

namespace luminal::reference {

/// The dtype in which a run stores values of `dtype`: quantised ones are unpacked when loaded.
[[nodiscard]] Dtype storage(Dtype dtype, ReferencePrecision precision);

/// A value of the run, and how a node reads it: the shape of a Source before buffers are known.
struct Pattern {
  Dtype dtype = Dtype::F32;
  Value value;                               ///< a leaf's buffer
  std::shared_ptr<const ViewReader> reader;  ///< set for leaves
  const Node* node = nullptr;                ///< set for ops
  ElementKernel kernel = nullptr;
  std::vector<Pattern> inputs;
};

/// How one node is evaluated at the present sizes.
struct Step {
  NodeId id;
  const Node* node = nullptr;
  std::vector<std::vector<int64_t>> out_dims;
  enum class Kind { Input, Elements, Reduction, General } kind = Kind::General;
  Pattern pattern;                            ///< Elements, Reduction
  int64_t outer = 1, reduced = 1, inner = 1;  ///< Reduction
  bool as_written = false;                    ///< General: in the graph's own dtypes even at double precision
};

/// The order of evaluation of a graph at fixed sizes: which nodes run and how. Elementwise ops whose only
/// reader is a reduction are evaluated inside it: a sum over a product does not write the product down.
class EvaluationOrder {
 public:
  EvaluationOrder(const Graph& graph, ReferencePrecision precision, bool everything);

  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  /// How often a value is read by the steps; its buffer is free after that.
  [[nodiscard]] const std::unordered_map<Value, int>& reads() const { return reads_; }
  /// Values that must be there after the run.
  [[nodiscard]] const std::vector<Value>& results() const { return results_; }

 private:
  void find_needed();
  [[nodiscard]] bool streams_into_reader(NodeId id) const;
  [[nodiscard]] Pattern leaf(const Value& value, const ShapeTracker& view);
  [[nodiscard]] Pattern pattern_of(const Edge& edge);
  [[nodiscard]] Pattern apply(const Node& node, const ShapeTracker& view);
  [[nodiscard]] ElementKernel kernel_of(const Node& node) const;
  void plan_elements(Step& step);
  void plan_reduction(Step& step);
  void count_reads(const Pattern& pattern);

  const Graph& graph_;
  ReferencePrecision precision_;
  bool everything_;
  std::unordered_set<NodeId> needed_;
  std::unordered_set<Value> result_set_;
  std::vector<Value> results_;
  std::vector<Step> steps_;
  std::unordered_map<Value, int> reads_;
};

}  // namespace luminal::reference
