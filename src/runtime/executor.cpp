#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/cancel.h"
#include "base/dump.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/memory.h"
#include "graph/node_run.h"
#include "runtime/bindings.h"
#include "runtime/layout.h"
#include "runtime/machine.h"
#include "runtime/prepared_weights.h"
#include "runtime/profiler.h"

namespace luminal::runtime {
namespace {

constexpr size_t kMostLayouts = 16;  // sizes that stay worked out

void collect_names(const Plan& plan, std::set<std::string>& names) {
  for (const PlanTensor& tensor : plan.tensors)
    for (const Expression& size : tensor.dims) names.merge(size.to_symbols());
  for (const Launch& launch : plan.launches) {
    if (launch.kernel)
      names.insert(launch.kernel->kernel->dims().begin(), launch.kernel->kernel->dims().end());
    if (launch.loop) {
      names.merge(launch.loop->length.to_symbols());
      collect_names(*launch.loop->body, names);
    }
  }
  for (const auto& [name, facts] : plan.bucket.facts) names.insert(name);
}

/// Names of dims that the plan depends on, sorted.
std::vector<std::string> names_in(const Plan& plan) {
  std::set<std::string> names;
  collect_names(plan, names);
  return {names.begin(), names.end()};
}

/// A host launch's view of its tensors. Outputs have to lie side by side (EvalContext), so they take the
/// bytes of the blocks for the time of the call.
struct HostCall {
  std::vector<const TensorData*> inputs;
  std::vector<TensorData> outputs;
  std::vector<TensorData*> blocks;  ///< of the outputs
};

std::string shapes_of(const Plan& plan, const Launch& launch, const Layout& layout) {
  std::string text;
  const auto append = [&](const std::vector<TensorIndex>& list, std::string_view before) {
    for (const TensorIndex tensor : list)
      text += fmt::format("{}{}[{}]", text.empty() ? "" : before, name(plan.tensors[at(tensor)].dtype),
                          fmt::join(layout.dims(tensor), ", "));
  };
  append(launch.inputs(), " ");
  text += text.empty() ? "->" : " ->";
  append(launch.outputs(), " ");
  return text;
}

}  // namespace

struct Executor::State {
  State(std::shared_ptr<backends::Device> the_device, Plan the_plan,
        std::shared_ptr<backends::Buffer> the_arena, std::shared_ptr<PreparedWeights> the_prepared)
      : device(std::move(the_device)),
        plan(std::move(the_plan)),
        blocks(assign_blocks(plan)),
        stream(device->make_stream()),
        bindings(make_bindings(plan, blocks, device, *stream)),
        names(names_in(plan)),
        host_calls(plan.launches.size()),
        arena(the_arena ? std::move(the_arena) : std::make_shared<backends::Buffer>(*device)),
        prepared(the_prepared ? std::move(the_prepared) : std::make_shared<PreparedWeights>(*device)),
        reports_launches(environment::debug_level() >= 2) {
    for (size_t i = 0; i < plan.launches.size(); ++i)
      if (const auto& host = plan.launches[i].host) {
        host_calls[i].inputs.resize(host->inputs.size());
        host_calls[i].outputs.resize(host->outputs.size());
        host_calls[i].blocks.resize(host->outputs.size());
      }
  }

  std::shared_ptr<backends::Device> device;
  Plan plan;
  Blocks blocks;
  std::unique_ptr<backends::Stream> stream;
  std::unique_ptr<Bindings> bindings;
  std::vector<std::string> names;
  std::vector<HostCall> host_calls;  ///< by launch
  std::shared_ptr<backends::Buffer> arena;
  std::shared_ptr<PreparedWeights> prepared;
  bool reports_launches;  ///< LUMINAL_DEBUG when the plan was made ready: runs are too short to look again

  struct Sized {
    std::vector<int64_t> sizes;  ///< of `names`
    std::unique_ptr<Layout> layout;
    std::vector<std::shared_ptr<PreparedWeights::Copy>> kept;  ///< by Layout::kept
  };
  std::vector<Sized> layouts;  ///< last used first

  void check_bucket(const DimMap& dims) const;
  [[nodiscard]] bool holds_for(const Sized& sized, const DimMap& dims) const;
  Layout& layout_for(const DimMap& dims);
  [[nodiscard]] Sized make_sized(const DimMap& dims) const;
  [[nodiscard]] Layout measure(const DimMap& dims) const;
  [[nodiscard]] int64_t room_for(int64_t bytes) const;
  void prepare(Graph& graph);
  void run_segments(Graph& graph, Layout& layout);
  void run_timed(Graph& graph, Layout& layout, std::vector<TraceEntry>* trace, Profiler* profiler,
                 const AfterLaunch& after_launch);
  [[nodiscard]] TensorData read(const Layout& layout, TensorIndex tensor) const;
  double launch_us(Layout& layout, int launch);
  void roll_back(Graph& graph);
  void run_host(Graph& graph, Layout& layout, int launch);

  std::unique_ptr<Profiler> log_profiler;  ///< of runs at LUMINAL_DEBUG=2, for LUMINAL_DUMP
  void report_launch(int launch, Profiler::Clock::time_point begin, Profiler::Clock::time_point end);
  void write_trace() const noexcept;
};

void Executor::State::check_bucket(const DimMap& dims) const {
  for (const auto& [name, facts] : plan.bucket.facts) {
    const auto found = dims.find(name);
    if (found == dims.end())
      fail("[execute] dim '{}' has no value; set it with set_dim(\"{}\", size)", name, name);
    const int64_t size = found->second;
    if (size < facts.min || size > facts.max || size % facts.multiple_of != 0)
      fail(
          "[execute] dim '{}' is {}, and this plan was compiled for multiples of {} in [{}, {}]; compile the "
          "graph again",
          name, size, facts.multiple_of, facts.min, facts.max);
  }
}

bool Executor::State::holds_for(const Sized& sized, const DimMap& dims) const {
  for (size_t i = 0; i < names.size(); ++i)
    if (const auto found = dims.find(names[i]); found == dims.end() || found->second != sized.sizes[i])
      return false;
  return true;
}

/// What the bucket's top needs, so that later sizes find it there, unless that is much more than `bytes`.
int64_t Executor::State::room_for(int64_t bytes) const {
  constexpr int64_t kMostTimes = 4;  // buckets of up to two dims reach twice the size of each
  DimMap top;
  for (const std::string& name : names) {
    const auto facts = plan.bucket.facts.find(name);
    if (facts == plan.bucket.facts.end() || facts->second.max == INT64_MAX) return bytes;
    top.emplace(name, facts->second.max);
  }
  if (names.empty()) return bytes;
  try {
    return std::clamp(measure(top).arena_bytes(), bytes, kMostTimes * bytes);
  } catch (const Error&) {  // its sizes cannot be counted
    return bytes;
  }
}

/// To ask how much it takes, not to run.
Layout Executor::State::measure(const DimMap& dims) const {
  return {plan, blocks, dims, *device,
          [this](const Preparation& preparation) { return prepared->has_room_for(plan, preparation); }};
}

Executor::State::Sized Executor::State::make_sized(const DimMap& dims) const {
  Sized sized{.sizes = {}, .layout = nullptr, .kept = {}};
  for (const std::string& name : names) sized.sizes.push_back(dims.at(name));
  sized.layout = std::make_unique<Layout>(plan, blocks, dims, *device, [&](const Preparation& preparation) {
    auto copy = prepared->take(plan, preparation);
    if (!copy) return false;
    sized.kept.push_back(std::move(copy));
    return true;
  });
  for (size_t i = 0; i < sized.kept.size(); ++i) sized.layout->set_kept(i, sized.kept[i]->memory.address());
  return sized;
}

Layout& Executor::State::layout_for(const DimMap& dims) {
  const auto known = std::ranges::find_if(layouts, [&](const Sized& s) { return holds_for(s, dims); });
  if (known != layouts.end()) {
    std::rotate(layouts.begin(), known, known + 1);
  } else {
    check_bucket(dims);
    layouts.insert(layouts.begin(), make_sized(dims));
    if (layouts.size() > kMostLayouts) layouts.pop_back();
  }
  Layout& layout = *layouts.front().layout;
  if (layout.arena_bytes() > arena->bytes()) {
    arena->reserve(room_for(layout.arena_bytes()));
    debug(1,
          "runtime: the arena has {:.1f} MB, the plan needs {:.1f} MB of it now, at least {:.1f} MB are "
          "alive at once",
          static_cast<double>(arena->bytes()) / 1e6, static_cast<double>(layout.arena_bytes()) / 1e6,
          static_cast<double>(layout.lower_bound()) / 1e6);
  }
  layout.set_arena(arena->address());
  return layout;
}

/// What kernels keep of weights, made anew where one of them has got other data. The layout is that of this run. One weight
/// after the other, so that few of them are there twice.
void Executor::State::prepare(Graph& graph) {
  Sized& sized = layouts.front();
  const auto stamp = [&](TensorIndex tensor) {
    const auto& value = plan.tensors[at(tensor)].value;
    return value ? graph.stamp(*value) : 0;
  };
  constexpr int64_t kAtOnce = int64_t{64} << 20;
  int64_t let_go = 0;  // bytes that may still be the heap's
  for (size_t i = 0; i < sized.kept.size(); ++i) {
    PreparedWeights::Copy& copy = *sized.kept[i];
    const std::vector<TensorIndex>& from = sized.layout->kept()[i].from;
    if (copy.stamps.size() == from.size() && std::ranges::equal(copy.stamps, from, {}, {}, stamp)) continue;
    copy.stamps.clear();
    std::set<int> lent;
    for (const TensorIndex tensor : from) lent.insert(blocks.of_tensor[at(tensor)]);
    for (const int block : lent) bindings->lend(graph, *sized.layout, block);
    stream->launch(sized.layout->preparations(), static_cast<int>(i), static_cast<int>(i) + 1);
    stream->synchronise();
    std::ranges::transform(from, std::back_inserter(copy.stamps), stamp);
    for (const int block : lent) let_go += bindings->take_back(graph, *sized.layout, block);
    if (let_go < kAtOnce) continue;
    give_back_free_pages();
    let_go = 0;
  }
  if (let_go > 0) give_back_free_pages();
}

void Executor::State::run_host(Graph& graph, Layout& layout, int launch) {
  const HostLaunch& host = *plan.launches[at(launch)].host;
  HostCall& call = host_calls[at(launch)];
  const auto block_of = [&](TensorIndex tensor) { return blocks.of_tensor[at(tensor)]; };
  for (size_t i = 0; i < host.inputs.size(); ++i)
    call.inputs[i] = &bindings->host_input(block_of(host.inputs[i]));
  for (size_t i = 0; i < host.outputs.size(); ++i) {
    call.blocks[i] = &bindings->host_output(block_of(host.outputs[i]));
    std::swap(call.outputs[i], *call.blocks[i]);
    if (!host.op->is(Trait::Overwrites)) std::ranges::fill(call.outputs[i].bytes, std::byte{0});
  }
  const auto put_back = [&] {
    for (size_t i = 0; i < host.outputs.size(); ++i) std::swap(call.outputs[i], *call.blocks[i]);
  };
  try {
    const NodeRun run(graph, host.node);
    EvalContext context{call.inputs, call.outputs, host.attributes, graph.dims(), graph.step()};
    host.op->evaluate(context);
    for (size_t i = 0; i < host.outputs.size(); ++i)
      LUMINAL_CHECK(static_cast<int64_t>(call.outputs[i].bytes.size()) == layout.bytes(host.outputs[i]),
                    "'{}' left {} bytes in a tensor of {}", host.op->name, call.outputs[i].bytes.size(),
                    layout.bytes(host.outputs[i]));
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
  for (const TensorIndex tensor : host.outputs) bindings->host_wrote(block_of(tensor), layout);
}

void Executor::State::run_segments(Graph& graph, Layout& layout) {
  for (const Segment& segment : layout.segments()) {
    throw_if_cancelled();
    if (segment.host >= 0)
      run_host(graph, layout, segment.host);
    else if (segment.loop >= 0)
      layout.run_loop(segment.loop, *stream, graph.step());
    else
      stream->launch(layout.list(), segment.first, segment.last);
  }
}

/// One kernel launch by the device's clock; returns when it is complete.
double Executor::State::launch_us(Layout& layout, int launch) {
  const auto begin = device->make_event(), end = device->make_event();
  const int listed = layout.listed(launch);
  stream->record(*begin);
  stream->launch(layout.list(), listed, listed + 1);
  stream->record(*end);
  stream->synchronise();
  return device->elapsed_us(*begin, *end);
}

/// Launch by launch, each finished before the next one starts.
void Executor::State::run_timed(Graph& graph, Layout& layout, std::vector<TraceEntry>* trace,
                                Profiler* profiler, const AfterLaunch& after_launch) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  stream->synchronise();
  for (int number = 0; number < static_cast<int>(plan.launches.size()); ++number) {
    const Launch& launch = plan.launches[at(number)];
    const auto begin = Profiler::Clock::now();
    double time_us = 0;
    if (!launch.kernel) {
      if (launch.host)
        run_host(graph, layout, number);
      else
        layout.run_loop(number, *stream, graph.step());
      stream->synchronise();
      time_us = Microseconds(Profiler::Clock::now() - begin).count();
    } else {
      time_us = launch_us(layout, number);
    }
    const auto end = begin + std::chrono::duration_cast<Profiler::Clock::duration>(Microseconds(time_us));
    if (trace != nullptr) trace->push_back({launch.name, shapes_of(plan, launch, layout), time_us});
    if (profiler != nullptr) profiler->record(plan, number, begin, end);
    if (reports_launches) report_launch(number, begin, end);
    if (after_launch) after_launch(number, [&](TensorIndex tensor) { return read(layout, tensor); });
  }
}

TensorData Executor::State::read(const Layout& layout, TensorIndex tensor) const {
  TensorData data(plan.tensors[at(tensor)].dtype, layout.dims(tensor));
  stream->download(layout.bound(blocks.of_tensor[at(tensor)]), data.bytes.data(), layout.bytes(tensor));
  stream->synchronise();
  return data;
}

/// Nothing may still write into what the graph gets back.
void Executor::State::roll_back(Graph& graph) {
  try {
    stream->synchronise();
  } catch (const std::exception& error) {  // what is already on its way to the caller comes first
    debug(1, "runtime: after a failed run: {}", error.what());
  }
  bindings->roll_back(graph);
}

void Executor::State::report_launch(int launch, Profiler::Clock::time_point begin,
                                    Profiler::Clock::time_point end) {
  if (!log_profiler) log_profiler = std::make_unique<Profiler>(machine_limits(*device));
  const double time_us = std::chrono::duration<double, std::micro>(end - begin).count();
  log_line(launch_line(plan.launches[at(launch)], time_us, log_profiler->limits()));
  if (is_dumping()) log_profiler->record(plan, launch, begin, end);
}

/// What was profiled, for Perfetto: "profile_<plan's key>.json".
void Executor::State::write_trace() const noexcept {
  if (!log_profiler || log_profiler->rows().empty()) return;
  try {
    dump_file(fmt::format("profile_{:016x}.json", plan.key), log_profiler->trace_json());
  } catch (const std::exception& error) {
    log_line(fmt::format("runtime: cannot write the trace of kernels: {}", error.what()));
  }
}

Executor::Executor(std::shared_ptr<backends::Device> device, Plan plan,
                   std::shared_ptr<backends::Buffer> arena, std::shared_ptr<PreparedWeights> prepared)
    : state_(std::make_unique<State>(std::move(device), std::move(plan), std::move(arena),
                                     std::move(prepared))) {}
Executor::~Executor() { state_->write_trace(); }

void Executor::run(Graph& graph, std::vector<TraceEntry>* trace, Profiler* profiler,
                   const AfterLaunch& after_launch) {
  State& state = *state_;
  Layout& layout = state.layout_for(graph.dims());
  try {
    state.prepare(graph);
    state.bindings->bind(graph, layout);
    if (trace != nullptr || profiler != nullptr || after_launch || state.reports_launches)
      state.run_timed(graph, layout, trace, profiler, after_launch);
    else
      state.run_segments(graph, layout);
    state.stream->synchronise();
  } catch (...) {
    state.roll_back(graph);
    throw;
  }
  state.bindings->commit(graph, layout);
}

const Plan& Executor::plan() const { return state_->plan; }

MemoryUse Executor::memory(const DimMap& dims) const {
  state_->check_bucket(dims);
  const Layout layout = state_->measure(dims);
  MemoryUse use{.arena_bytes = layout.arena_bytes(),
                .lower_bound_bytes = layout.lower_bound(),
                .kept_bytes = PreparedWeights::bytes_for(state_->plan, layout.kept())};
  for (const Block& block : state_->blocks.all) {
    const int64_t bytes = layout.bytes(block.tensors.back());
    if (block.home == Block::Home::Owned) use.owned_bytes += bytes;
    if (block.home == Block::Home::Input) use.input_bytes += bytes;
    if (block.home == Block::Home::Constant) use.constant_bytes += bytes;
  }
  return use;
}

}  // namespace luminal::runtime
