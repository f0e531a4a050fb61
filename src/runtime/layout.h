#pragma once
#include <memory>
#include <vector>

#include "backends/device.h"
#include "runtime/blocks.h"
#include "runtime/memory.h"

namespace luminal::runtime {

/// Kernel launches that the device runs as one, or one host launch.
struct Segment {
  int host = -1;            ///< index of the host launch in the plan, or -1
  int first = 0, last = 0;  ///< [first, last) of the launch list
};

/// A plan at fixed sizes: everything a run needs, worked out at the first run of these sizes.
class Layout {
 public:
  Layout(const Plan& plan, const Blocks& blocks, const DimMap& dims, backends::Device& device);

  [[nodiscard]] int64_t arena_bytes() const { return arena_bytes_; }
  /// What live tensors and workspaces of a launch add up to at the fullest launch.
  [[nodiscard]] int64_t lower_bound() const { return lower_bound_; }
  /// Points everything in the arena to its place.
  void set_arena(backends::Address arena);
  /// Memory of a block that is not in the arena.
  void bind(int block, backends::Address memory);
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

 private:
  void measure_tensors(const Plan& plan, const DimMap& dims);
  void measure_kernels(const Plan& plan, const DimMap& dims);
  void place_in_arena(const Plan& plan, const Blocks& blocks);
  void make_list(const Plan& plan, const Blocks& blocks, backends::Device& device);
  [[nodiscard]] std::vector<std::vector<int>> dependencies(const Plan& plan, const Blocks& blocks) const;

  std::vector<std::vector<int64_t>> tensor_dims_;
  std::vector<int64_t> tensor_bytes_;
  // By launch of the plan; host launches have none.
  std::vector<std::vector<int64_t>> dim_values_;
  std::vector<int64_t> shared_bytes_, shared_offsets_;
  std::vector<int> listed_;  ///< -1 for host launches

  std::vector<int64_t> block_bytes_, block_offsets_;  ///< offsets: -1 outside the arena
  int64_t scratch_offset_ = 0;                        ///< of the list's workspace
  int64_t arena_bytes_ = 0, lower_bound_ = 0;
  backends::Address arena_;

  /// A buffer of a listed launch.
  struct Use {
    int launch = 0, buffer = 0;
  };
  std::vector<std::vector<Use>> block_uses_;  ///< by block
  std::vector<backends::Address> bound_;      ///< by block
  std::unique_ptr<backends::LaunchList> list_;
  std::vector<Segment> segments_;
};

}  // namespace luminal::runtime
