#pragma once
#include <memory>
#include <vector>

#include "luminal/graph.h"
#include "runtime/blocks.h"
#include "runtime/layout.h"

namespace luminal::runtime {

/// What a plan and its graph give each other: before a run every block outside the arena gets its data, after
/// it results and next states go to the graph. All by shared pointers; nothing is copied except the data of
/// a state that is to be updated in place while somebody else holds it.
class Exchange {
 public:
  Exchange(const Plan& plan, const Blocks& blocks);

  /// Data of inputs and memory for what leaves. Errors: InternalError if data does not fit the plan.
  void bring(Graph& graph, Layout& layout);
  /// Hands results and next states over, all at once.
  void deliver(Graph& graph, const Layout& layout);
  /// After a failure: the graph gets back what was taken for being updated.
  void give_back(Graph& graph);

  /// Data of a block outside the arena, during a run.
  [[nodiscard]] const TensorData& data(int block) const;
  [[nodiscard]] TensorData& owned(int block) { return *objects_[static_cast<size_t>(block)]; }

 private:
  void bring_input(Graph& graph, Layout& layout, size_t block);
  void bring_updated(Graph& graph, Layout& layout, size_t block);
  void bring_owned(Graph& graph, Layout& layout, size_t block);
  [[nodiscard]] std::shared_ptr<const TensorData> share(TensorIndex tensor) const;
  [[nodiscard]] const Value& value_of(size_t block) const;
  void check_fits(const TensorData& data, const Layout& layout, size_t block) const;

  const Plan& plan_;
  const Blocks& blocks_;
  std::vector<std::shared_ptr<const TensorData>> held_;  ///< Input, by block, during a run
  std::vector<std::shared_ptr<TensorData>> objects_;     ///< what is written, by block; spares between runs
  std::vector<bool> taken_;                              ///< by block: the graph is without it now
  std::vector<std::vector<Value>> results_of_;           ///< by block
  std::vector<std::shared_ptr<const TensorData>> results_, updates_;  ///< on their way to the graph
};

}  // namespace luminal::runtime
