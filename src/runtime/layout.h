#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "runtime/blocks.h"
#include "runtime/memory.h"
#include "runtime/walk.h"

namespace luminal::runtime {

/// Launches that run as one job of the team, or one host launch.
struct Segment {
  int host = -1;                          ///< index of the host launch, or -1
  int first_launch = 0, last_launch = 0;  ///< [first, last)
  int first_stage = 0, last_stage = 0;    ///< [first, last)
};

/// A plan at fixed sizes: everything a run needs, worked out at the first run of these sizes.
class Layout {
 public:
  Layout(const Plan& plan, const Blocks& blocks, const DimMap& dims, int workers);

  [[nodiscard]] int64_t arena_bytes() const { return arena_bytes_; }
  /// What live tensors and workspaces of a launch add up to at the fullest launch.
  [[nodiscard]] int64_t lower_bound() const { return lower_bound_; }
  /// Points everything in the arena to its place.
  void set_arena(std::byte* arena);
  /// Memory of a block that is not in the arena.
  void bind(int block, const std::byte* memory);
  [[nodiscard]] const std::byte* bound(int block) const { return bound_[static_cast<size_t>(block)]; }

  [[nodiscard]] const std::vector<int64_t>& dims(TensorIndex tensor) const {
    return tensor_dims_[static_cast<size_t>(tensor)];
  }
  [[nodiscard]] int64_t bytes(TensorIndex tensor) const { return tensor_bytes_[static_cast<size_t>(tensor)]; }
  [[nodiscard]] Walk& walk() { return *walk_; }
  [[nodiscard]] const std::vector<Segment>& segments() const { return segments_; }
  /// Stages [first, last) of a launch.
  [[nodiscard]] std::pair<int, int> stages_of(int launch) const {
    return {first_stage_[static_cast<size_t>(launch)], first_stage_[static_cast<size_t>(launch) + 1]};
  }

 private:
  void measure_tensors(const Plan& plan, const DimMap& dims);
  void measure_kernels(const Plan& plan, const DimMap& dims);
  void place_in_arena(const Plan& plan, const Blocks& blocks, int workers);
  void make_stages(const Plan& plan, const Blocks& blocks, int workers);
  void add_orders(const Plan& plan, const Blocks& blocks, std::vector<StageWork>& stages) const;

  std::vector<std::vector<int64_t>> tensor_dims_;
  std::vector<int64_t> tensor_bytes_;
  // By launch; host launches have none.
  std::vector<std::vector<int64_t>> dim_values_;
  std::vector<int64_t> shared_bytes_, shared_offsets_;
  std::vector<int> first_stage_;  ///< one more than launches

  std::vector<int64_t> block_bytes_, block_offsets_;  ///< offsets: -1 outside the arena
  int64_t local_bytes_ = 0, local_offset_ = 0;        ///< workspaces of the workers, one after the other
  int64_t arena_bytes_ = 0, lower_bound_ = 0;
  std::byte* arena_ = nullptr;

  std::vector<void*> arguments_;                 ///< of all launches, one after the other
  std::vector<std::vector<size_t>> block_uses_;  ///< places in `arguments_` by block
  std::vector<const std::byte*> bound_;          ///< by block
  std::unique_ptr<Walk> walk_;
  std::vector<Segment> segments_;
};

}  // namespace luminal::runtime
