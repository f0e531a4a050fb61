#include "runtime/plan_runner.h"

#include <algorithm>
#include <cstring>
#include <ranges>

#include "backends/host/device.h"
#include "base/fail.h"
#include "base/hash.h"

namespace luminal::runtime {
namespace {

/// Bytes that are copied at once: fresh memory for large tensors would take longer than to look at them.
constexpr int64_t kPiece = int64_t{1} << 20;

/// Calls `visit(first, count)` for pieces of so many bytes, until it returns false. Whether it never did.
template <class Visit>
bool for_each_piece(int64_t size, Visit&& visit) {
  for (int64_t first = 0; first < size; first += kPiece)
    if (!visit(first, std::min(kPiece, size - first))) return false;
  return true;
}

/// Each tensor in memory of its own, outside the arena.
Blocks separate_blocks(Plan plan) {
  for (Launch& launch : plan.launches)
    if (launch.kernel) launch.kernel->in_place.clear();
  Blocks blocks = assign_blocks(plan);
  for (Block& block : blocks.all)
    if (block.home == Block::Home::Arena) block.home = Block::Home::Owned;
  return blocks;
}

}  // namespace

std::vector<TensorIndex> tensors_to_give(const Plan& plan) {
  std::vector<TensorIndex> tensors;
  for (TensorIndex tensor = 0; tensor < static_cast<int>(plan.tensors.size()); ++tensor)
    if (plan.tensors[at(tensor)].role == PlanTensor::Role::Input) tensors.push_back(tensor);
  for (const Launch& launch : plan.launches)
    if (!launch.kernel) tensors.insert(tensors.end(), launch.outputs().begin(), launch.outputs().end());
  return tensors;
}

int64_t PlanRunner::arena_bytes(backends::Device& device, const Plan& plan, const DimMap& dims) {
  const Blocks blocks = assign_blocks(plan);
  return Layout(plan, blocks, dims, device).arena_bytes();
}

PlanRunner::PlanRunner(backends::Device& device, const Plan& plan, const DimMap& dims, const Given& given,
                       Memory memory, std::shared_ptr<backends::Buffer> arena)
    : device_(device),
      plan_(plan),
      given_(given),
      shares_host_memory_(device.shares_host_memory()),
      is_separate_(memory == Memory::Separate),
      blocks_(memory == Memory::AsPlanned ? assign_blocks(plan) : separate_blocks(plan)),
      layout_(std::make_unique<Layout>(plan, blocks_, dims, device)),
      arena_(std::move(arena)),
      own_(blocks_.all.size()),
      stream_(device.make_stream()),
      timer_(device, *stream_) {
  for (const TensorIndex tensor : tensors_to_give(plan))
    LUMINAL_CHECK(given_.contains(tensor), "tensor {} is not given", tensor);
  if (!arena_)
    arena_ = std::make_shared<backends::Buffer>(device, std::max<int64_t>(layout_->arena_bytes(), 1));
  LUMINAL_CHECK(arena_->bytes() >= layout_->arena_bytes(), "an arena of {} bytes for a plan of {}",
                arena_->bytes(), layout_->arena_bytes());
  layout_->set_arena(arena_->address());
  for (size_t b = 0; b < blocks_.all.size(); ++b) {
    const Block& block = blocks_.all[b];
    if (block.home == Block::Home::Arena) continue;
    if (is_separate_ && block.home == Block::Home::Owned) continue;  // taken when a launch writes it
    if (is_read_where_it_lies(block)) {
      bind_given(static_cast<int>(b));
      continue;
    }
    own_[b] = std::make_unique<backends::Buffer>(device,
                                                 std::max<int64_t>(layout_->bytes(block.tensors.back()), 1));
    layout_->bind(static_cast<int>(b), own_[b]->address());
    if (block.home != Block::Home::Constant) continue;
    const TensorData& constant = *plan.tensors[at(block.tensors[0])].constant;
    stream_->upload(constant.bytes.data(), own_[b]->address(), static_cast<int64_t>(constant.bytes.size()));
  }
  restore();
}

PlanRunner::~PlanRunner() = default;

/// As the executor does: several runners have one copy of the weights.
bool PlanRunner::is_read_where_it_lies(const Block& block) const {
  return shares_host_memory_ && block.home == Block::Home::Input && !block.written &&
         block.tensors.size() == 1;
}

void PlanRunner::bind_given(int block) {
  const TensorData& data = given_data(blocks_.all[at(block)].tensors[0]);
  // Kernels write to outputs only.
  layout_->bind(block, {const_cast<std::byte*>(data.bytes.data())});
}

const TensorData& PlanRunner::given_data(TensorIndex tensor) const {
  const TensorData& data = *given_.at(tensor);
  LUMINAL_CHECK(static_cast<int64_t>(data.bytes.size()) == layout_->bytes(tensor),
                "{} bytes for tensor {} of {}", data.bytes.size(), tensor, layout_->bytes(tensor));
  return data;
}

void PlanRunner::upload(TensorIndex tensor) {
  const TensorData& data = given_data(tensor);
  stream_->upload(data.bytes.data(), address(tensor), layout_->bytes(tensor));
}

void PlanRunner::give(TensorIndex tensor, std::shared_ptr<const TensorData> data) {
  given_.at(tensor) = std::move(data);
  is_prepared_ = false;
  if (const int block = blocks_.of_tensor[at(tensor)];
      block >= 0 && is_read_where_it_lies(blocks_.all[at(block)]))
    bind_given(block);
}

void PlanRunner::restore() {
  for (const auto& [tensor, data] : given_)
    if (const int block = blocks_.of_tensor[at(tensor)];
        block >= 0 && plan_.tensors[at(tensor)].role == PlanTensor::Role::Input &&
        !is_read_where_it_lies(blocks_.all[at(block)]))
      upload(tensor);
  runs_ = 0;
}

void PlanRunner::take_memory_of_outputs(int launch) {
  for (const TensorIndex tensor : plan_.launches[at(launch)].outputs()) {
    const int block = blocks_.of_tensor[at(tensor)];
    if (layout_->bound(block) != backends::Address{}) continue;
    own_[at(block)] =
        std::make_unique<backends::Buffer>(device_, std::max<int64_t>(layout_->bytes(tensor), 1));
    layout_->bind(block, own_[at(block)]->address());
  }
}

void PlanRunner::release(TensorIndex tensor) {
  const int block = blocks_.of_tensor[at(tensor)];
  layout_->bind(block, {});
  own_[at(block)].reset();
}

void PlanRunner::queue_given_outputs(int launch) {
  for (const TensorIndex tensor : plan_.launches[at(launch)].outputs()) upload(tensor);
}

void PlanRunner::prepare() {
  if (is_prepared_ || layout_->kept_bytes() == 0) return;
  if (!kept_) kept_ = std::make_unique<backends::Buffer>(device_, layout_->kept_bytes());
  layout_->set_kept(kept_->address());
  stream_->launch(layout_->preparations(), 0, static_cast<int>(layout_->kept().size()));
  is_prepared_ = true;
}

void PlanRunner::queue() {
  ++runs_;
  prepare();
  for (size_t launch = 0; is_separate_ && launch < plan_.launches.size(); ++launch)
    take_memory_of_outputs(static_cast<int>(launch));
  for (const Segment& segment : layout_->segments())
    if (const int given = std::max(segment.host, segment.loop); given >= 0)
      queue_given_outputs(given);
    else
      stream_->launch(layout_->list(), segment.first, segment.last);
}

void PlanRunner::run() {
  queue();
  stream_->synchronise();
}

void PlanRunner::run_launch(int launch) {
  if (launch == 0) ++runs_;
  prepare();
  if (is_separate_) take_memory_of_outputs(launch);
  if (!plan_.launches[at(launch)].kernel) {
    queue_given_outputs(launch);
  } else {
    const int listed = layout_->listed(launch);
    stream_->launch(layout_->list(), listed, listed + 1);
  }
  stream_->synchronise();
}

double PlanRunner::sample_us(double at_least_us) {
  restore();
  prepare();
  return timer_.sample_us(at_least_us, [this] { queue(); });
}

backends::Address PlanRunner::address(TensorIndex tensor) const {
  return layout_->bound(blocks_.of_tensor[at(tensor)]);
}

int64_t PlanRunner::size_bytes(TensorIndex tensor) const {
  return blocks_.of_tensor[at(tensor)] < 0 ? 0 : layout_->bytes(tensor);
}

std::optional<uint64_t> PlanRunner::digest() const {
  if (runs_ != 1) return std::nullopt;
  uint64_t digest = 0;
  std::vector<std::byte> piece;
  const auto add = [&](TensorIndex tensor) {
    const int64_t size = size_bytes(tensor);
    piece.resize(static_cast<size_t>(std::min(size, kPiece)));
    for_each_piece(size, [&](int64_t first, int64_t count) {
      stream_->download(address(tensor) + first, piece.data(), count);
      stream_->synchronise();
      digest = combine(digest, hash_bytes(piece.data(), static_cast<size_t>(count)));
      return true;
    });
  };
  for (const PlanResult& result : plan_.results) add(result.tensor);
  for (const PlanUpdate& update : plan_.updates) add(update.next);
  return digest;
}

bool PlanRunner::is_same(backends::Address a, backends::Address b, int64_t bytes) const {
  std::vector<std::byte> here(static_cast<size_t>(std::min(bytes, kPiece))), there(here.size());
  return for_each_piece(bytes, [&](int64_t first, int64_t count) {
    stream_->download(a + first, here.data(), count);
    stream_->download(b + first, there.data(), count);
    stream_->synchronise();
    return std::memcmp(here.data(), there.data(), static_cast<size_t>(count)) == 0;
  });
}

bool PlanRunner::equals(const PlanRunner& other, TensorIndex tensor) const {
  const int64_t size = size_bytes(tensor);
  return size == other.size_bytes(tensor) && is_same(address(tensor), other.address(tensor), size);
}

std::optional<TensorIndex> PlanRunner::differs_in_place(int launch, std::span<const InPlace> pairs) {
  const KernelLaunch& kernel = *plan_.launches[at(launch)].kernel;
  std::vector<backends::Buffer> copies;
  std::vector<std::pair<int, backends::Address>> before;  // of blocks, where they lay
  const auto lie = [&](TensorIndex tensor, backends::Address memory) {
    const int block = blocks_.of_tensor[at(tensor)];
    before.emplace_back(block, layout_->bound(block));
    layout_->bind(block, memory);
  };
  std::vector<backends::Address> beside;  // of outputs
  for (size_t output = 0; output < kernel.outputs.size(); ++output) {
    const TensorIndex tensor = kernel.outputs[output];
    beside.push_back(address(tensor));
    const int64_t bytes = size_bytes(tensor);
    const backends::Buffer& copy = copies.emplace_back(device_, std::max<int64_t>(bytes, 1));
    const auto pair = std::ranges::find(pairs, static_cast<int>(output), &InPlace::output);
    if (pair != pairs.end()) {
      const TensorIndex input = kernel.inputs[at(pair->input)];
      LUMINAL_CHECK(size_bytes(input) == bytes, "{} bytes in place of {}", bytes, size_bytes(input));
      stream_->copy(address(input), copy.address(), bytes);
      lie(input, copy.address());
    }
    lie(tensor, copy.address());
  }
  const int listed = layout_->listed(launch);
  stream_->launch(layout_->list(), listed, listed + 1);
  stream_->synchronise();
  for (const auto& [block, memory] : std::views::reverse(before)) layout_->bind(block, memory);
  for (size_t output = 0; output < kernel.outputs.size(); ++output)
    if (const TensorIndex tensor = kernel.outputs[output];
        !is_same(copies[output].address(), beside[output], size_bytes(tensor)))
      return tensor;
  return std::nullopt;
}

std::span<const std::byte> PlanRunner::view(TensorIndex tensor) const {
  if (!shares_host_memory_ || size_bytes(tensor) == 0) return {};
  return {backends::host_pointer(address(tensor)), static_cast<size_t>(size_bytes(tensor))};
}

TensorData::Bytes PlanRunner::bytes(TensorIndex tensor) const {
  TensorData::Bytes bytes(static_cast<size_t>(size_bytes(tensor)));
  if (bytes.empty()) return bytes;
  stream_->download(address(tensor), bytes.data(), size_bytes(tensor));
  stream_->synchronise();
  return bytes;
}

}  // namespace luminal::runtime
