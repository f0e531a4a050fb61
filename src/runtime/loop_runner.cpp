#include "runtime/loop_runner.h"

#include <algorithm>
#include <set>

#include "base/cancel.h"
#include "base/fail.h"
#include "graph/node_run.h"

namespace luminal::runtime {

LoopRunner::LoopRunner(const LoopLaunch& loop, const DimMap& dims, backends::Device& device)
    : loop_(loop),
      device_(device),
      dims_(dims),
      length_(loop.length.exec(dims)),
      blocks_(assign_blocks(*loop.body)),
      layout_(std::make_unique<Layout>(*loop.body, blocks_, dims, device)),
      calls_(loop.body->launches.size()) {
  LUMINAL_CHECK(loop.body->updates.empty() && loop.inputs.size() == loop.body_inputs.size() &&
                    loop.outputs.size() == loop.body_outputs.size() &&
                    loop.carries + loop.sequences <= loop.inputs.size() &&
                    loop.carries <= loop.outputs.size(),
                "a loop of {} inputs and {} outputs", loop.inputs.size(), loop.outputs.size());
  place_blocks();
  for (size_t number = 0; number < calls_.size(); ++number)
    if (const auto& host = loop.body->launches[number].host) {
      HostCall& call = calls_[number];
      const auto add = [&](std::vector<TensorData>& list, TensorIndex tensor) {
        list.emplace_back(loop.body->tensors[at(tensor)].dtype, layout_->dims(tensor));
      };
      for (const TensorIndex tensor : host->inputs) add(call.inputs, tensor);
      for (const TensorIndex tensor : host->outputs) add(call.outputs, tensor);
      for (const TensorData& input : call.inputs) call.pointers.push_back(&input);
    }
}

/// Kernels write a result into its place if its block holds nothing else that leaves; others are copied there.
void LoopRunner::place_blocks() {
  const Plan& body = *loop_.body;
  std::set<int> given, taken;
  for (const TensorIndex input : loop_.body_inputs)
    if (input >= 0) given.insert(blocks_.of_tensor[at(input)]);
  for (const TensorIndex output : loop_.body_outputs) {
    const int block = blocks_.of_tensor[at(output)];
    element_bytes_.push_back(layout_->bytes(output));
    is_direct_.push_back(blocks_.all[at(block)].home == Block::Home::Owned && taken.insert(block).second);
  }
  int64_t end = backends::aligned(layout_->arena_bytes());
  const auto reserve = [&](int64_t bytes) { return std::exchange(end, end + backends::aligned(bytes)); };
  for (int block = 0; block < static_cast<int>(blocks_.all.size()); ++block) {
    const Block& own = blocks_.all[at(block)];
    const int64_t bytes = layout_->bytes(own.tensors.back());
    if (own.home == Block::Home::Owned && !taken.contains(block))
      own_blocks_.emplace_back(block, reserve(bytes));
    if (own.home == Block::Home::Constant)
      constants_.emplace_back(block, backends::Buffer(device_, std::max<int64_t>(bytes, 1)));
    LUMINAL_CHECK(own.home != Block::Home::Input || given.contains(block),
                  "input #{} of a loop's body is not given",
                  body.tensors[at(own.tensors.front())].value->node.index);
  }
  for (size_t i = 0; i < loop_.carries; ++i) {
    carry_bytes_.push_back(element_bytes_[i]);
    carry_offsets_.push_back(reserve(carry_bytes_.back()));
  }
  kept_offset_ = reserve(layout_->kept_bytes());
  workspace_bytes_ = end;
}

void LoopRunner::set_workspace(backends::Address memory) {
  workspace_ = memory;
  layout_->set_arena(memory);
  for (const auto& [block, offset] : own_blocks_) layout_->bind(block, memory + offset);
  if (layout_->kept_bytes() > 0) layout_->set_kept(memory + kept_offset_);
}

void LoopRunner::upload_constants(backends::Stream& stream) {
  if (std::exchange(constants_are_there_, true)) return;
  for (const auto& [block, buffer] : constants_) {
    const TensorData& data = *loop_.body->tensors[at(blocks_.all[at(block)].tensors.front())].constant;
    stream.upload(data.bytes.data(), buffer.address(), static_cast<int64_t>(data.bytes.size()));
    layout_->bind(block, buffer.address());
  }
}

void LoopRunner::bind(TensorIndex tensor, backends::Address memory) {
  if (tensor >= 0) layout_->bind(blocks_.of_tensor[at(tensor)], memory);
}

/// Where the state is after so many steps: in two places by turns, at last where it belongs.
backends::Address LoopRunner::carried(size_t carry, int64_t after_steps,
                                      std::span<const backends::Address> memory) const {
  if (after_steps == 0) return memory[carry];
  if ((length_ - after_steps) % 2 == 0) return memory[loop_.inputs.size() + carry];
  return workspace_ + carry_offsets_[carry];
}

void LoopRunner::run(backends::Stream& stream, std::span<const backends::Address> memory, uint64_t run) {
  upload_constants(stream);
  const size_t inputs = loop_.inputs.size(), shared = loop_.carries + loop_.sequences;
  if (length_ == 0)
    for (size_t i = 0; i < loop_.carries; ++i) stream.copy(memory[i], memory[inputs + i], carry_bytes_[i]);
  for (size_t i = shared; i < inputs; ++i) bind(loop_.body_inputs[i], memory[i]);
  if (length_ > 0 && layout_->kept_bytes() > 0)
    stream.launch(layout_->preparations(), 0, static_cast<int>(layout_->kept().size()));
  for (int64_t done = 0; done < length_; ++done) {
    throw_if_cancelled();
    const int64_t place = loop_.reverse ? length_ - 1 - done : done;
    for (size_t i = 0; i < shared; ++i)
      if (const TensorIndex tensor = loop_.body_inputs[i]; tensor >= 0)
        bind(tensor,
             i < loop_.carries ? carried(i, done, memory) : memory[i] + place * layout_->bytes(tensor));
    const auto target = [&](size_t i) {
      return i < loop_.carries ? carried(i, done + 1, memory)
                               : memory[inputs + i] + place * element_bytes_[i];
    };
    for (size_t i = 0; i < loop_.outputs.size(); ++i)
      if (is_direct_[i]) bind(loop_.body_outputs[i], target(i));
    run_step(stream, run);
    for (size_t i = 0; i < loop_.outputs.size(); ++i)
      if (!is_direct_[i])
        stream.copy(layout_->bound(blocks_.of_tensor[at(loop_.body_outputs[i])]), target(i),
                    element_bytes_[i]);
  }
}

void LoopRunner::run_step(backends::Stream& stream, uint64_t run) {
  for (const Segment& segment : layout_->segments())
    if (segment.host >= 0)
      run_host(stream, segment.host, run);
    else if (segment.loop >= 0)
      layout_->run_loop(segment.loop, stream, run);
    else
      stream.launch(layout_->list(), segment.first, segment.last);
}

void LoopRunner::run_host(backends::Stream& stream, int launch, uint64_t run) {
  const HostLaunch& host = *loop_.body->launches[at(launch)].host;
  HostCall& call = calls_[at(launch)];
  const auto memory_of = [&](TensorIndex tensor) { return layout_->bound(blocks_.of_tensor[at(tensor)]); };
  for (size_t i = 0; i < host.inputs.size(); ++i)
    stream.download(memory_of(host.inputs[i]), call.inputs[i].bytes.data(), layout_->bytes(host.inputs[i]));
  stream.synchronise();
  if (!host.op->is(Trait::Overwrites))
    for (TensorData& output : call.outputs) std::ranges::fill(output.bytes, std::byte{0});
  const NodeRun node(*loop_.graph, host.node);
  EvalContext context{call.pointers, call.outputs, host.attributes, dims_, run};
  host.op->evaluate(context);
  for (size_t i = 0; i < host.outputs.size(); ++i)
    stream.upload(call.outputs[i].bytes.data(), memory_of(host.outputs[i]), layout_->bytes(host.outputs[i]));
  stream.synchronise();  // the next step writes there
}

}  // namespace luminal::runtime
