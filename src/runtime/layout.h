#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "backends/device.h"
#include "runtime/blocks.h"
#include "runtime/memory.h"

namespace luminal::runtime {

class LoopRunner;

/// Kernel launches that the device runs as one, or one launch of another kind.
struct Segment {
  int host = -1, loop = -1;  ///< index of the host launch or the loop in the plan, or -1
  int first = 0, last = 0;   ///< [first, last) of the launch list
};

/// What a kernel launch prepares of its frozen inputs, which nobody writes.
struct Preparation {
  int launch = 0;
  int64_t bytes = 0;
  std::vector<TensorIndex> from;  ///< by frozen slot (KernelLaunch::frozen)
};
/// Whether it is kept from run to run, in memory outside the arena.
using MayKeep = std::function<bool(const Preparation& preparation)>;

/// A plan at fixed sizes: everything a run needs, worked out at the first run of these sizes.
class Layout {
 public:
  /// The plan and the device outlive it.
  Layout(const Plan& plan, const Blocks& blocks, const DimMap& dims, backends::Device& device,
         const MayKeep& may_keep = {});
  ~Layout();

  [[nodiscard]] int64_t arena_bytes() const { return arena_bytes_; }
  /// What live tensors and workspaces of a launch add up to at the fullest launch.
  [[nodiscard]] int64_t lower_bound() const { return lower_bound_; }
  /// Points everything in the arena to its place.
  void set_arena(backends::Address arena);
  /// Memory of a block that is not in the arena.
  void bind(int block, backends::Address memory);
  /// An input from which kernels prepare what is kept, and which nothing else reads: once that is filled a run does not
  /// need it.
  [[nodiscard]] bool is_spent(int block) const { return is_spent_[static_cast<size_t>(block)]; }
  [[nodiscard]] backends::Address bound(int block) const { return bound_[static_cast<size_t>(block)]; }

  [[nodiscard]] const std::vector<int64_t>& dims(TensorIndex tensor) const {
    return tensor_dims_[static_cast<size_t>(tensor)];
  }
  [[nodiscard]] int64_t bytes(TensorIndex tensor) const { return tensor_bytes_[static_cast<size_t>(tensor)]; }
  /// The plan's kernel launches, without the host's.
  [[nodiscard]] backends::LaunchList& list() { return *list_; }
  /// A kernel launch of the plan in the list.
  [[nodiscard]] int listed(int launch) const { return listed_[static_cast<size_t>(launch)]; }
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }

  /// What kernels prepare and runs keep.
  [[nodiscard]] const std::vector<Preparation>& kept() const { return kept_; }
  /// Where it lies.
  void set_kept(size_t number, backends::Address memory);
  /// All of it side by side.
  [[nodiscard]] int64_t kept_bytes() const { return kept_bytes_; }
  void set_kept(backends::Address memory);
  /// Fill it, in any order, before the first run and whenever what they are prepared from has got other data. A launch
  /// for each of `kept`.
  [[nodiscard]] backends::LaunchList& preparations() { return *preparations_; }
  /// A loop of the plan, queued. `run`: how many runs came before.
  void run_loop(int launch, backends::Stream& stream, uint64_t run);

 private:
  void measure_tensors(const Plan& plan, const DimMap& dims);
  void measure_launches(const Plan& plan, const DimMap& dims, backends::Device& device);
  void find_kept(const Plan& plan, const Blocks& blocks, const MayKeep& may_keep);
  void place_in_arena(const Plan& plan, const Blocks& blocks);
  void make_list(const Plan& plan, const Blocks& blocks, backends::Device& device);
  void make_preparations(const Plan& plan, const Blocks& blocks, backends::Device& device);
  void find_spent(const Plan& plan, const Blocks& blocks);
  [[nodiscard]] std::vector<std::vector<int>> dependencies(const Plan& plan, const Blocks& blocks) const;

  std::vector<std::vector<int64_t>> tensor_dims_;
  std::vector<int64_t> tensor_bytes_;
  // By launch of the plan. Only kernels have dims and a place in the list, only loops a runner.
  std::vector<std::vector<int64_t>> dim_values_;
  std::vector<int64_t> shared_bytes_, shared_offsets_;
  std::vector<int64_t> prepared_bytes_, prepared_offsets_;  ///< offsets: in the arena, unless it is kept
  std::vector<bool> keeps_prepared_;
  std::vector<int> listed_;
  std::vector<std::unique_ptr<LoopRunner>> loops_;
  std::vector<std::vector<int>> loop_blocks_;   ///< of inputs, then outputs
  std::vector<backends::Address> loop_memory_;  ///< of the loop that runs

  std::vector<int64_t> block_bytes_, block_offsets_;  ///< offsets: -1 outside the arena
  int64_t scratch_offset_ = 0;                        ///< of the list's workspace
  int64_t arena_bytes_ = 0, lower_bound_ = 0;
  backends::Address arena_;

  std::vector<Preparation> kept_;
  int64_t kept_bytes_ = 0;
  std::unique_ptr<backends::LaunchList> preparations_;

  /// A buffer of a listed launch.
  struct Use {
    int launch = 0, buffer = 0;
    bool prepares = false;  ///< of `preparations_`
  };
  std::vector<std::vector<Use>> block_uses_;  ///< by block
  std::vector<bool> is_spent_;                ///< by block
  std::vector<backends::Address> bound_;      ///< by block
  std::unique_ptr<backends::LaunchList> list_;
  std::vector<Segment> segments_;
};

}  // namespace luminal::runtime
