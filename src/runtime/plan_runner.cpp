#include "runtime/plan_runner.h"

#include <algorithm>
#include <cstring>

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
    if (!launch.kernel) tensors.insert(tensors.end(), launch.outputs().begin(), launch.outputs().end());
  return tensors;
}

int64_t PlanRunner::arena_bytes(backends::Device& device, const Plan& plan, const DimMap& dims) {
  const Blocks blocks = assign_blocks(plan);
  return Layout(plan, blocks, dims, device).arena_bytes();
}

PlanRunner::PlanRunner(backends::Device& device, const Plan& plan, const DimMap& dims, const Given& given,
                       Memory memory, std::shared_ptr<backends::Buffer> arena)
    : plan_(plan),
      given_(given),
      shares_host_memory_(device.shares_host_memory()),
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

void PlanRunner::queue_given_outputs(int launch) {
  for (const TensorIndex tensor : plan_.launches[at(launch)].outputs()) upload(tensor);
}

void PlanRunner::queue() {
  ++runs_;
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

bool PlanRunner::equals(const PlanRunner& other, TensorIndex tensor) const {
  const int64_t size = size_bytes(tensor);
  if (size != other.size_bytes(tensor)) return false;
  std::vector<std::byte> here(static_cast<size_t>(std::min(size, kPiece))), there(here.size());
  return for_each_piece(size, [&](int64_t first, int64_t count) {
    stream_->download(address(tensor) + first, here.data(), count);
    other.stream_->download(other.address(tensor) + first, there.data(), count);
    stream_->synchronise();
    other.stream_->synchronise();
    return std::memcmp(here.data(), there.data(), static_cast<size_t>(count)) == 0;
  });
}

void PlanRunner::copy(const PlanRunner& from, TensorIndex tensor) {
  const int64_t size = size_bytes(tensor);
  LUMINAL_CHECK(size == from.size_bytes(tensor), "{} bytes for tensor {} of {}", from.size_bytes(tensor),
                tensor, size);
  if (address(tensor) == from.address(tensor)) return;
  std::vector<std::byte> piece(static_cast<size_t>(std::min(size, kPiece)));
  for_each_piece(size, [&](int64_t first, int64_t count) {
    from.stream_->download(from.address(tensor) + first, piece.data(), count);
    from.stream_->synchronise();
    stream_->upload(piece.data(), address(tensor) + first, count);
    stream_->synchronise();
    return true;
  });
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
