#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/blocks.h"
#include "runtime/layout.h"
#include "runtime/plan.h"
#include "runtime/stream_timer.h"

namespace luminal::runtime {

/// Data for tensors of a plan that no kernel computes: inputs, and what host ops and loops make.
using Given = std::map<TensorIndex, std::shared_ptr<const TensorData>>;

/// Runs a plan by itself, without a graph: to time whole plans against each other before one is taken, and to
/// look into what its kernels compute. Host ops do not run (they may write files), nor do loops, whose kernels are
/// verified in plans of their own; what they make is given.
class PlanRunner {
 public:
  enum class Memory : uint8_t {
    AsPlanned,  ///< one arena, in place where the executor would do it
    Separate,  ///< every tensor by itself, whole from its first launch until it is released, or to the next run
  };
  /// Device and plan outlive it. Runners that never run at the same time may share an arena of `arena_bytes` of each;
  /// without one a runner has its own.
  /// Errors: InternalError if a tensor that is neither constant nor computed by a kernel is not given.
  PlanRunner(backends::Device& device, const Plan& plan, const DimMap& dims, const Given& given,
             Memory memory, std::shared_ptr<backends::Buffer> arena = nullptr);
  /// Of `AsPlanned`.
  [[nodiscard]] static int64_t arena_bytes(backends::Device& device, const Plan& plan, const DimMap& dims);
  ~PlanRunner();

  /// As the executor would, with all launches between two host ops at once; complete when it returns.
  void run();
  /// One launch; those before it have run.
  void run_launch(int launch);
  /// Of `Separate`: takes the memory of a tensor back. The next launch that writes it gets other memory.
  void release(TensorIndex tensor);
  /// Of `Separate`, after a launch: runs it once more on copies of its inputs, with outputs in place of them as in
  /// `pairs`. The first output that then holds something else than it does beside the inputs.
  [[nodiscard]] std::optional<TensorIndex> differs_in_place(int launch, std::span<const InPlace> pairs);
  /// Other data for a tensor that no kernel computes, from its next launch or restore() on. Their sizes are as before.
  void give(TensorIndex tensor, std::shared_ptr<const TensorData> data);
  /// Inputs as they were given (a run may write its next states over them).
  void restore();
  /// Time of one run, averaged over as many as take `at_least_us` together.
  double sample_us(double at_least_us);
  /// What lies where the tensor is now; empty if no launch touches it.
  [[nodiscard]] TensorData::Bytes bytes(TensorIndex tensor) const;
  /// The same without a copy, where host and device share memory; empty elsewhere too.
  [[nodiscard]] std::span<const std::byte> view(TensorIndex tensor) const;
  /// A hash of all results and next states; none unless exactly one run made them, of the inputs as they were given.
  /// Runners of one plan have the same for the same bits.
  [[nodiscard]] std::optional<uint64_t> digest() const;
  /// Whether another runner holds the same there.
  [[nodiscard]] bool equals(const PlanRunner& other, TensorIndex tensor) const;
  [[nodiscard]] int64_t size_bytes(TensorIndex tensor) const;
  /// Where that is.
  [[nodiscard]] backends::Address address(TensorIndex tensor) const;

 private:
  void queue();
  void prepare();
  void queue_given_outputs(int launch);
  void take_memory_of_outputs(int launch);
  [[nodiscard]] bool is_same(backends::Address a, backends::Address b, int64_t bytes) const;
  void upload(TensorIndex tensor);
  [[nodiscard]] bool is_read_where_it_lies(const Block& block) const;
  void bind_given(int block);
  [[nodiscard]] const TensorData& given_data(TensorIndex tensor) const;

  backends::Device& device_;
  const Plan& plan_;
  Given given_;
  bool shares_host_memory_, is_separate_;
  Blocks blocks_;
  std::unique_ptr<Layout> layout_;
  std::shared_ptr<backends::Buffer> arena_;
  std::vector<std::unique_ptr<backends::Buffer>>
      own_;  ///< by block; null in the arena, of given data, and before use
  std::unique_ptr<backends::Stream> stream_;
  StreamTimer timer_;
  std::unique_ptr<backends::Buffer> kept_;  ///< of Layout::kept_bytes
  bool is_prepared_ = false;                ///< of the inputs that are there
  int runs_ = 0;                            ///< whole ones, since the inputs were as they were given
};

/// Tensors that a runner has to be given.
[[nodiscard]] std::vector<TensorIndex> tensors_to_give(const Plan& plan);

}  // namespace luminal::runtime
