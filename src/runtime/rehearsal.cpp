#include "runtime/rehearsal.h"

#include <algorithm>

#include "base/fail.h"

namespace luminal::runtime {
namespace {

/// Each tensor in memory of its own from the first launch to the last.
Blocks separate_blocks(Plan plan) {
  for (Launch& launch : plan.launches)
    if (launch.kernel) launch.kernel->in_place.clear();
  Blocks blocks = assign_blocks(plan);
  for (Block& block : blocks.all) {
    block.first = 0;
    block.last = static_cast<int>(plan.launches.size());
  }
  return blocks;
}

}  // namespace

std::vector<TensorIndex> tensors_to_give(const Plan& plan) {
  std::vector<TensorIndex> tensors;
  for (TensorIndex tensor = 0; tensor < static_cast<int>(plan.tensors.size()); ++tensor)
    if (plan.tensors[at(tensor)].role == PlanTensor::Role::Input) tensors.push_back(tensor);
  for (const Launch& launch : plan.launches)
    if (launch.host) tensors.insert(tensors.end(), launch.host->outputs.begin(), launch.host->outputs.end());
  return tensors;
}

Rehearsal::Rehearsal(const Plan& plan, const DimMap& dims, const Given& given, Memory memory)
    : plan_(plan),
      given_(given),
      blocks_(memory == Memory::AsPlanned ? assign_blocks(plan) : separate_blocks(plan)),
      layout_(std::make_unique<Layout>(plan, blocks_, dims, team_.size())) {
  for (const TensorIndex tensor : tensors_to_give(plan))
    LUMINAL_CHECK(given_.contains(tensor), "tensor {} is not given", tensor);
  arena_.reserve(std::max<int64_t>(layout_->arena_bytes(), 1));
  layout_->set_arena(arena_.data());
  own_.resize(blocks_.all.size());
  for (size_t b = 0; b < blocks_.all.size(); ++b) {
    const Block& block = blocks_.all[b];
    if (block.home == Block::Home::Arena) continue;
    if (block.home == Block::Home::Constant) {
      layout_->bind(static_cast<int>(b), plan.tensors[at(block.tensors[0])].constant->bytes.data());
      continue;
    }
    own_[b] = std::make_unique<Arena>();
    own_[b]->reserve(std::max<int64_t>(layout_->bytes(block.tensors.back()), 1));
    layout_->bind(static_cast<int>(b), own_[b]->data());
  }
  restore();
}

void Rehearsal::restore() {
  for (const auto& [tensor, data] : given_) {
    const int block = blocks_.of_tensor[at(tensor)];
    if (block < 0 || plan_.tensors[at(tensor)].role != PlanTensor::Role::Input) continue;
    LUMINAL_CHECK(static_cast<int64_t>(data->bytes.size()) == layout_->bytes(tensor),
                  "{} bytes for tensor {} of {}", data->bytes.size(), tensor, layout_->bytes(tensor));
    std::ranges::copy(data->bytes, own_[at(block)]->data());
  }
}

void Rehearsal::bring_host_outputs(int launch) {
  for (const TensorIndex tensor : plan_.launches[at(launch)].host->outputs) {
    const auto& bytes = given_.at(tensor)->bytes;
    std::ranges::copy(bytes, own_[at(blocks_.of_tensor[at(tensor)])]->data());
  }
}

void Rehearsal::run() {
  for (const Segment& segment : layout_->segments())
    if (segment.host >= 0)
      bring_host_outputs(segment.host);
    else
      layout_->walk().run(team_, segment.first_stage, segment.last_stage);
}

void Rehearsal::run_launch(int launch) {
  if (plan_.launches[at(launch)].host) return bring_host_outputs(launch);
  const auto [first, last] = layout_->stages_of(launch);
  layout_->walk().run(team_, first, last);
}

double Rehearsal::sample_us(double at_least_us) {
  restore();
  return sampler_.sample_us(at_least_us, [this] { run(); });
}

std::span<const std::byte> Rehearsal::bytes(TensorIndex tensor) const {
  const int block = blocks_.of_tensor[at(tensor)];
  if (block < 0) return {};
  return {layout_->bound(block), static_cast<size_t>(layout_->bytes(tensor))};
}

}  // namespace luminal::runtime
