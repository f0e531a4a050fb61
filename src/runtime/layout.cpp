#include "runtime/layout.h"

#include "base/fail.h"
#include "runtime/orders.h"

namespace luminal::runtime {
Layout::Layout(const Plan& plan, const Blocks& blocks, const DimMap& dims, int workers) {
  measure_tensors(plan, dims);
  measure_kernels(plan, dims);
  place_in_arena(plan, blocks, workers);
  make_stages(plan, blocks, workers);
}

void Layout::measure_tensors(const Plan& plan, const DimMap& dims) {
  for (const PlanTensor& tensor : plan.tensors) {
    tensor_dims_.push_back(exec(tensor.dims, dims));
    int64_t elements = 1;
    for (const int64_t size : tensor_dims_.back())
      if (__builtin_mul_overflow(elements, size, &elements))
        fail<ShapeError>(
            "[memory] a tensor of {} at [{}] has more elements than 64 bits count; use smaller "
            "sizes",
            to_string(tensor.dims), fmt::join(tensor_dims_.back(), ", "));
    tensor_bytes_.push_back(size_bytes(tensor.dtype, elements));
  }
}

void Layout::measure_kernels(const Plan& plan, const DimMap& dims) {
  for (const Launch& launch : plan.launches) {
    std::vector<int64_t>& values = dim_values_.emplace_back();
    if (!launch.kernel) {
      shared_bytes_.push_back(0);
      continue;
    }
    const backends::Kernel& kernel = *launch.kernel->kernel;
    for (const std::string& name : kernel.dims()) values.push_back(Expression::dim(name).exec(dims));
    shared_bytes_.push_back(kernel.shared_bytes(values));
    local_bytes_ = std::max(local_bytes_, aligned(kernel.local_bytes(values)));
  }
}

void Layout::place_in_arena(const Plan& plan, const Blocks& blocks, int workers) {
  std::vector<Lifetime> lifetimes;
  std::vector<int64_t*> targets;
  const auto add = [&](int64_t bytes, int first, int last, int64_t& offset) {
    lifetimes.push_back({bytes, first, last});
    targets.push_back(&offset);
  };
  block_offsets_.assign(blocks.all.size(), -1);
  for (size_t i = 0; i < blocks.all.size(); ++i) {
    const Block& block = blocks.all[i];
    block_bytes_.push_back(bytes(block.tensors.back()));
    if (block.home == Block::Home::Arena) add(block_bytes_[i], block.first, block.last, block_offsets_[i]);
  }
  shared_offsets_.assign(plan.launches.size(), 0);
  for (size_t i = 0; i < plan.launches.size(); ++i)
    if (shared_bytes_[i] > 0)
      add(shared_bytes_[i], static_cast<int>(i), static_cast<int>(i), shared_offsets_[i]);
  const Placement placement = place(lifetimes);
  for (size_t i = 0; i < targets.size(); ++i) *targets[i] = placement.offsets[i];
  local_offset_ = aligned(placement.bytes);
  arena_bytes_ = local_offset_ + local_bytes_ * workers;
  lower_bound_ = placement.lower_bound + local_bytes_ * workers;
}

void Layout::make_stages(const Plan& plan, const Blocks& blocks, int workers) {
  block_uses_.resize(blocks.all.size());
  bound_.assign(blocks.all.size(), nullptr);
  std::vector<size_t> first_argument;
  for (const Launch& launch : plan.launches) {
    first_argument.push_back(arguments_.size());
    if (!launch.kernel) continue;
    for (const auto* list : {&launch.kernel->inputs, &launch.kernel->outputs})
      for (const TensorIndex tensor : *list) {
        block_uses_[at(blocks.of_tensor[at(tensor)])].push_back(arguments_.size());
        arguments_.push_back(nullptr);
      }
  }
  std::vector<StageWork> stages;
  for (int number = 0; number < static_cast<int>(plan.launches.size()); ++number) {
    const Launch& launch = plan.launches[at(number)];
    first_stage_.push_back(static_cast<int>(stages.size()));
    if (!launch.kernel) {
      segments_.push_back({.host = number, .first_launch = number, .last_launch = number + 1});
      continue;
    }
    const backends::Kernel& kernel = *launch.kernel->kernel;
    if (segments_.empty() || segments_.back().host >= 0)
      segments_.push_back({.first_launch = number, .first_stage = static_cast<int>(stages.size())});
    for (int stage = 0; stage < kernel.stage_count(); ++stage)
      stages.push_back({.kernel = &kernel,
                        .stage = stage,
                        .tasks = kernel.tasks(stage, dim_values_[at(number)]),
                        .arguments = {.buffers = arguments_.data() + first_argument[at(number)],
                                      .dims = dim_values_[at(number)].data()}});
    segments_.back().last_launch = number + 1;
    segments_.back().last_stage = static_cast<int>(stages.size());
  }
  first_stage_.push_back(static_cast<int>(stages.size()));
  add_orders(plan, blocks, stages);
  walk_ = std::make_unique<Walk>(std::move(stages), workers);
}

/// Orders between launches follow from the memory they touch; stages of a launch run one after the other.
void Layout::add_orders(const Plan& plan, const Blocks& blocks, std::vector<StageWork>& stages) const {
  Orders orders;
  std::vector<int64_t> begin(block_offsets_);  // what is outside the arena follows behind it
  int64_t outside = arena_bytes_;
  for (size_t i = 0; i < begin.size(); ++i)
    if (begin[i] < 0) {
      begin[i] = outside;
      outside += aligned(block_bytes_[i]);
    }
  const auto launches = static_cast<int>(plan.launches.size());
  for (int number = 0; number < launches; ++number) {
    const Launch& launch = plan.launches[at(number)];
    const auto range = [&](TensorIndex tensor, auto&& touch) {
      const int64_t place = begin[at(blocks.of_tensor[at(tensor)])];
      touch(place, place + bytes(tensor));
    };
    for (const TensorIndex tensor : launch.kernel ? launch.kernel->inputs : launch.host->inputs)
      range(tensor, [&](int64_t from, int64_t to) { orders.read(number, from, to); });
    for (const TensorIndex tensor : launch.kernel ? launch.kernel->outputs : launch.host->outputs)
      range(tensor, [&](int64_t from, int64_t to) { orders.write(number, from, to); });
    if (const int64_t shared = shared_bytes_[at(number)]; shared > 0)
      orders.write(number, shared_offsets_[at(number)], shared_offsets_[at(number)] + shared);
  }
  const auto before = orders.reduced(launches);
  for (int number = 0; number < launches; ++number) {
    const auto [first, last] = stages_of(number);
    for (int stage = first; stage < last; ++stage) {
      if (stage > first)
        stages[at(stage)].before = {stage - 1};
      else
        for (const int earlier : before[at(number)])
          if (const auto [from, to] = stages_of(earlier); to > from)
            stages[at(stage)].before.push_back(to - 1);
    }
  }
}

void Layout::set_arena(std::byte* arena) {
  if (arena == arena_) return;
  arena_ = arena;
  for (size_t i = 0; i < block_offsets_.size(); ++i)
    if (block_offsets_[i] >= 0) bind(static_cast<int>(i), arena + block_offsets_[i]);
  for (size_t launch = 0; launch + 1 < first_stage_.size(); ++launch)
    for (int stage = first_stage_[launch]; stage < first_stage_[launch + 1]; ++stage)
      walk_->stages()[at(stage)].arguments.shared = arena + shared_offsets_[launch];
  walk_->set_local(arena + local_offset_, local_bytes_);
}

void Layout::bind(int block, const std::byte* memory) {
  if (bound_[at(block)] == memory) return;
  bound_[at(block)] = memory;
  // Kernels write to outputs only, so that inputs lose their const here does no harm.
  for (const size_t place : block_uses_[at(block)]) arguments_[place] = const_cast<std::byte*>(memory);
}

}  // namespace luminal::runtime
