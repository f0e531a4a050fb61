#include "runtime/layout.h"

#include <algorithm>

#include "base/fail.h"
#include "runtime/dependencies.h"
#include "runtime/loop_runner.h"

namespace luminal::runtime {

Layout::Layout(const Plan& plan, const Blocks& blocks, const DimMap& dims, backends::Device& device,
               const MayKeep& may_keep) {
  measure_tensors(plan, dims);
  measure_launches(plan, dims, device);
  find_kept(plan, blocks, may_keep);
  place_in_arena(plan, blocks);
  make_list(plan, blocks, device);
}

Layout::~Layout() = default;

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

void Layout::measure_launches(const Plan& plan, const DimMap& dims, backends::Device& device) {
  for (const Launch& launch : plan.launches) {
    const std::vector<int64_t>& values = dim_values_.emplace_back(
        launch.kernel ? backends::sizes_of(*launch.kernel->kernel, dims) : std::vector<int64_t>());
    shared_bytes_.push_back(launch.kernel ? launch.kernel->kernel->shared_bytes(values) : 0);
    prepared_bytes_.push_back(launch.kernel ? launch.kernel->kernel->prepared_bytes(values) : 0);
    loops_.push_back(launch.loop ? std::make_unique<LoopRunner>(*launch.loop, dims, device) : nullptr);
    if (launch.loop) shared_bytes_.back() = loops_.back()->workspace_bytes();
  }
}

/// A launch whose frozen inputs nobody writes keeps what it prepares of them.
void Layout::find_kept(const Plan& plan, const Blocks& blocks, const MayKeep& may_keep) {
  prepared_offsets_.assign(plan.launches.size(), 0);
  keeps_prepared_.assign(plan.launches.size(), false);
  const auto stays = [&](TensorIndex tensor) {
    const Block& block = blocks.all[at(blocks.of_tensor[at(tensor)])];
    return block.home == Block::Home::Constant ||
           (block.home == Block::Home::Input && !block.written && !block.donated);
  };
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    if (prepared_bytes_[i] == 0) continue;
    Preparation preparation{.launch = static_cast<int>(i), .bytes = prepared_bytes_[i], .from = {}};
    for (const int input : plan.launches[i].kernel->frozen)
      preparation.from.push_back(plan.launches[i].kernel->inputs[at(input)]);
    if (preparation.from.empty() || !std::ranges::all_of(preparation.from, stays)) continue;
    if (may_keep && !may_keep(preparation)) continue;
    keeps_prepared_[i] = true;
    kept_bytes_ += backends::aligned(preparation.bytes);
    kept_.push_back(std::move(preparation));
  }
}

void Layout::place_in_arena(const Plan& plan, const Blocks& blocks) {
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
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    const auto number = static_cast<int>(i);
    if (shared_bytes_[i] > 0) add(shared_bytes_[i], number, number, shared_offsets_[i]);
    if (prepared_bytes_[i] > 0 && !keeps_prepared_[i])
      add(prepared_bytes_[i], number, number, prepared_offsets_[i]);
  }
  const Placement placement = place(lifetimes);
  for (size_t i = 0; i < targets.size(); ++i) *targets[i] = placement.offsets[i];
  scratch_offset_ = backends::aligned(placement.bytes);
  lower_bound_ = placement.lower_bound;
}

void Layout::make_list(const Plan& plan, const Blocks& blocks, backends::Device& device) {
  block_uses_.resize(blocks.all.size());
  bound_.assign(blocks.all.size(), {});
  loop_blocks_.resize(plan.launches.size());
  const std::vector<std::vector<int>> after = dependencies(plan, blocks);
  std::vector<backends::ListedLaunch> launches;
  for (int number = 0; number < static_cast<int>(plan.launches.size()); ++number) {
    const Launch& launch = plan.launches[at(number)];
    const auto next = static_cast<int>(launches.size());
    if (!launch.kernel) {
      listed_.push_back(-1);
      segments_.push_back({.host = launch.host ? number : -1, .loop = launch.loop ? number : -1});
      for (const auto* list : {&launch.inputs(), &launch.outputs()})
        for (const TensorIndex tensor : *list)
          loop_blocks_[at(number)].push_back(blocks.of_tensor[at(tensor)]);
      continue;
    }
    listed_.push_back(next);
    if (segments_.empty() || segments_.back().last == 0) segments_.push_back({.first = next});
    segments_.back().last = next + 1;
    backends::ListedLaunch& listed = launches.emplace_back(backends::ListedLaunch{
        .kernel = launch.kernel->kernel.get(), .dims = dim_values_[at(number)], .after = {}});
    if (keeps_prepared_[at(number)]) listed.part = backends::LaunchPart::Rest;
    for (const auto* list : {&launch.kernel->inputs, &launch.kernel->outputs})
      for (const TensorIndex tensor : *list)
        block_uses_[at(blocks.of_tensor[at(tensor)])].push_back({next, listed.buffers++});
    for (const int earlier : after[at(number)])
      if (listed_[at(earlier)] >= 0) listed.after.push_back(listed_[at(earlier)]);
  }
  list_ = device.prepare(std::move(launches));
  make_preparations(plan, blocks, device);
  find_spent(plan, blocks);
  const int64_t scratch =
      std::max(list_->scratch_bytes(), preparations_ ? preparations_->scratch_bytes() : 0);
  arena_bytes_ = scratch_offset_ + scratch;
  lower_bound_ += scratch;
}

void Layout::make_preparations(const Plan& plan, const Blocks& blocks, backends::Device& device) {
  if (kept_.empty()) return;
  std::vector<backends::ListedLaunch> launches;
  for (const Preparation& preparation : kept_) {
    const KernelLaunch& kernel = *plan.launches[at(preparation.launch)].kernel;
    const auto next = static_cast<int>(launches.size());
    launches.push_back({.kernel = kernel.kernel.get(),
                        .dims = dim_values_[at(preparation.launch)],
                        .buffers = static_cast<int>(kernel.inputs.size() + kernel.outputs.size()),
                        .after = {},
                        .part = backends::LaunchPart::Preparation});
    for (const int input : kernel.frozen)
      block_uses_[at(blocks.of_tensor[at(kernel.inputs[at(input)])])].push_back(
          {.launch = next, .buffer = input, .prepares = true});
  }
  preparations_ = device.prepare(std::move(launches));
}

void Layout::find_spent(const Plan& plan, const Blocks& blocks) {
  is_spent_.assign(blocks.all.size(), false);
  for (const Preparation& preparation : kept_)
    for (const TensorIndex from : preparation.from) {
      const int block = blocks.of_tensor[at(from)];
      is_spent_[at(block)] = blocks.all[at(block)].home == Block::Home::Input;
    }
  const auto needs = [&](TensorIndex tensor) { is_spent_[at(blocks.of_tensor[at(tensor)])] = false; };
  for (size_t number = 0; number < plan.launches.size(); ++number) {
    const Launch& launch = plan.launches[number];
    std::span<const int> spent;
    if (launch.kernel && keeps_prepared_[number]) spent = launch.kernel->kernel->spent_slots();
    for (size_t i = 0; i < launch.inputs().size(); ++i)
      if (std::ranges::find(spent, static_cast<int>(i)) == spent.end()) needs(launch.inputs()[i]);
  }
  for (const PlanResult& result : plan.results) needs(result.tensor);
  for (const PlanUpdate& update : plan.updates) needs(update.next);
}

/// By launch, the earlier ones that it waits for: they follow from the memory that launches touch.
std::vector<std::vector<int>> Layout::dependencies(const Plan& plan, const Blocks& blocks) const {
  Dependencies found;
  std::vector<int64_t> begin(block_offsets_);  // what is outside the arena follows behind it
  int64_t outside = scratch_offset_;
  for (size_t i = 0; i < begin.size(); ++i)
    if (begin[i] < 0) {
      begin[i] = outside;
      outside += backends::aligned(block_bytes_[i]);
    }
  const auto launches = static_cast<int>(plan.launches.size());
  for (int number = 0; number < launches; ++number) {
    const Launch& launch = plan.launches[at(number)];
    const auto range = [&](TensorIndex tensor, auto&& touch) {
      const int64_t place = begin[at(blocks.of_tensor[at(tensor)])];
      touch(place, place + bytes(tensor));
    };
    for (const TensorIndex tensor : launch.inputs())
      range(tensor, [&](int64_t from, int64_t to) { found.read(number, from, to); });
    for (const TensorIndex tensor : launch.outputs())
      range(tensor, [&](int64_t from, int64_t to) { found.write(number, from, to); });
    if (const int64_t shared = shared_bytes_[at(number)]; shared > 0)
      found.write(number, shared_offsets_[at(number)], shared_offsets_[at(number)] + shared);
    if (const int64_t prepared = prepared_bytes_[at(number)]; prepared > 0 && !keeps_prepared_[at(number)])
      found.write(number, prepared_offsets_[at(number)], prepared_offsets_[at(number)] + prepared);
  }
  return found.reduced(launches);
}

void Layout::set_arena(backends::Address arena) {
  if (arena == arena_) return;
  arena_ = arena;
  for (size_t i = 0; i < block_offsets_.size(); ++i)
    if (block_offsets_[i] >= 0) bind(static_cast<int>(i), arena + block_offsets_[i]);
  for (size_t launch = 0; launch < listed_.size(); ++launch) {
    if (listed_[launch] >= 0)
      list_->bind_shared(listed_[launch], arena + shared_offsets_[launch]);
    else if (loops_[launch])
      loops_[launch]->set_workspace(arena + shared_offsets_[launch]);
    if (prepared_bytes_[launch] > 0 && !keeps_prepared_[launch])
      list_->bind_prepared(listed_[launch], arena + prepared_offsets_[launch]);
  }
  list_->bind_scratch(arena + scratch_offset_);
  if (preparations_) preparations_->bind_scratch(arena + scratch_offset_);
}

void Layout::set_kept(size_t number, backends::Address memory) {
  list_->bind_prepared(listed_[at(kept_[number].launch)], memory);
  preparations_->bind_prepared(static_cast<int>(number), memory);
}

void Layout::set_kept(backends::Address memory) {
  int64_t offset = 0;
  for (size_t number = 0; number < kept_.size(); ++number) {
    set_kept(number, memory + offset);
    offset += backends::aligned(kept_[number].bytes);
  }
}

void Layout::bind(int block, backends::Address memory) {
  if (bound_[at(block)] == memory) return;
  bound_[at(block)] = memory;
  for (const Use& use : block_uses_[at(block)])
    (use.prepares ? *preparations_ : *list_).bind(use.launch, use.buffer, memory);
}

void Layout::run_loop(int launch, backends::Stream& stream, uint64_t run) {
  loop_memory_.clear();
  for (const int block : loop_blocks_[at(launch)]) loop_memory_.push_back(bound_[at(block)]);
  loops_[at(launch)]->run(stream, loop_memory_, run);
}

}  // namespace luminal::runtime
