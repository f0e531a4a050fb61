#pragma once
#include <memory>

#include "luminal/graph.h"
#include "runtime/blocks.h"
#include "runtime/layout.h"

namespace luminal::runtime {

/// Binds the blocks of a plan that lie outside the arena to the values of a graph, run by run. Tensors change
/// hands by shared pointers. In memory that host and device share nothing is copied except the data of a
/// state that is updated in place while somebody else holds it. On a device with memory of its own, inputs
/// move there with the first run that reads them, states and results stay there until somebody asks for
/// them, and what host ops touch is copied around them.
class Bindings {
 public:
  virtual ~Bindings() = default;
  /// Data of inputs and memory for what leaves, queued. What kernels prepare of weights is filled: the graph lets inputs go
  /// that nothing else reads (Layout::is_spent), if they can be read again. Errors: InternalError if data does not fit
  /// the plan.
  virtual void bind(Graph& graph, Layout& layout) = 0;
  /// Data of an input or a constant for the time of a preparation, queued. Errors: as bind.
  virtual void lend(Graph& graph, Layout& layout, int block) = 0;
  /// That preparation is complete. Returns the bytes that the graph let go.
  virtual int64_t take_back(Graph& graph, const Layout& layout, int block) = 0;
  /// Hands results and next states over, all at once. The stream is synchronised.
  virtual void commit(Graph& graph, const Layout& layout) = 0;
  /// After a failure: the graph gets back what was taken for being updated. Nothing runs any more.
  virtual void roll_back(Graph& graph) = 0;

  // During a run, for host ops.
  /// Content of a block, complete.
  [[nodiscard]] virtual const TensorData& host_input(int block) = 0;
  /// Where a host op writes a block.
  [[nodiscard]] virtual TensorData& host_output(int block) = 0;
  /// The op has written the block; it may have put other memory into its tensor.
  virtual void host_wrote(int block, Layout& layout) = 0;
};

/// All of it outlives the bindings.
[[nodiscard]] std::unique_ptr<Bindings> make_bindings(const Plan& plan, const Blocks& blocks,
                                                      const std::shared_ptr<backends::Device>& device,
                                                      backends::Stream& stream);

}  // namespace luminal::runtime
