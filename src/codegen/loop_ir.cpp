#include "codegen/loop_ir.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "base/fail.h"
#include "base/hash.h"
#include "codegen/block_load.h"
#include "scalar/typing.h"

namespace luminal::codegen {
namespace {

using Kind = Instruction::Kind;

bool is_comparison(ScalarOp op) {
  return op == ScalarOp::Lt || op == ScalarOp::Le || op == ScalarOp::Eq || op == ScalarOp::Ne;
}

/// The index variable of a loop; ranges cannot depend on other variables.
Expression variable_of(int number, const Expression& extent) {
  if (extent.to_indices().empty()) return Expression::index(number, extent);
  return Expression::index(number, extent.range().max);
}

}  // namespace

StageBuilder::StageBuilder(Program& program, Expression tasks, int threads)
    : program_(&program), task_(Expression::index(0, tasks)) {
  stage_.tasks = std::move(tasks);
  stage_.threads = threads;
  if (threads > 1) {
    stage_.thread_variable = stage_.variable_count++;
    thread_ = Expression::index(stage_.thread_variable, threads);
  }
  open_.push_back(&stage_.body);
}

Expression StageBuilder::task() const { return task_; }
Expression StageBuilder::thread() const { return thread_; }
Type StageBuilder::type(Id id) const {
  LUMINAL_CHECK(id < stage_.types.size(), "value %{} of {}", id, stage_.types.size());
  return stage_.types[id];
}

void StageBuilder::append(Instruction instruction) { open_.back()->push_back(std::move(instruction)); }

Id StageBuilder::define(Instruction instruction) {
  instruction.result = stage_.value_count++;
  stage_.types.push_back(instruction.type);
  append(std::move(instruction));
  return stage_.value_count - 1;
}

Id StageBuilder::constant(Type t, double value) { return constant_bits(t, bits_of(t.dtype, value)); }
Id StageBuilder::constant_bits(Type t, uint64_t bits) {
  return define({.kind = Kind::Compute, .type = t, .op = ScalarOp::Constant, .bits = bits});
}

Id StageBuilder::compute(ScalarOp op, std::vector<Id> operands) {
  LUMINAL_CHECK(!operands.empty() && static_cast<int>(operands.size()) == arity(op), "{} of {} operands",
                luminal::name(op), operands.size());
  LUMINAL_CHECK(op != ScalarOp::Convert && op != ScalarOp::Bitcast, "{} has a call of its own",
                luminal::name(op));
  Type t = type(op == ScalarOp::Select ? operands[1] : operands[0]);
  if (is_comparison(op)) t.dtype = Dtype::Bool;
  return define({.kind = Kind::Compute, .type = t, .op = op, .operands = std::move(operands)});
}

Id StageBuilder::add_term(Id sum, Id term) {
  Block& block = *open_.back();
  if (!block.empty() && block.back().result == term) {
    Instruction& made = block.back();
    if (made.kind == Kind::Compute && made.op == ScalarOp::Mul && is_float(made.type.dtype)) {
      made.op = ScalarOp::Fma;
      made.operands.push_back(sum);
      return term;
    }
  }
  return compute(ScalarOp::Add, {sum, term});
}

Id StageBuilder::convert(Id a, Dtype to) {
  const Type from = type(a);
  if (from.dtype == to) return a;
  return define({.kind = Kind::Compute, .type = {to, from.lanes}, .op = ScalarOp::Convert, .operands = {a}});
}
Id StageBuilder::bitcast(Id a, Dtype to) {
  const Type from = type(a);
  if (from.dtype == to) return a;
  return define({.kind = Kind::Compute, .type = {to, from.lanes}, .op = ScalarOp::Bitcast, .operands = {a}});
}

Id StageBuilder::index(const Expression& e) {
  return define({.kind = Kind::Index, .type = {Dtype::I64, 1}, .index = e});
}
Id StageBuilder::lanes(int count) { return define({.kind = Kind::Lanes, .type = {Dtype::I64, count}}); }
Id StageBuilder::lane_mask(const Expression& count, int lanes) {
  return define({.kind = Kind::LaneMask, .type = {Dtype::Bool, lanes}, .index = count});
}
Id StageBuilder::broadcast(Id scalar, int lanes) {
  if (lanes == 1) return scalar;
  return define({.kind = Kind::Broadcast, .type = {type(scalar).dtype, lanes}, .operands = {scalar}});
}
Id StageBuilder::shuffle(Id a, Id b, std::vector<int> pattern) {
  return define({.kind = Kind::Shuffle,
                 .type = {type(a).dtype, static_cast<int>(pattern.size())},
                 .operands = {a, b},
                 .pattern = std::move(pattern)});
}
Id StageBuilder::permute(Id numbers, std::vector<Id> tables) {
  const Type t{type(tables.at(0)).dtype, type(numbers).lanes};
  tables.insert(tables.begin(), numbers);
  return define({.kind = Kind::Permute, .type = t, .operands = std::move(tables)});
}
Id StageBuilder::dot4(Id sum, Id natural, Id whole, int greatest) {
  return define({.kind = Kind::Dot4,
                 .type = type(sum),
                 .bits = static_cast<uint64_t>(greatest),
                 .operands = {sum, natural, whole}});
}
Id StageBuilder::reduce(ScalarOp op, Id a) {
  if (type(a).lanes == 1) return a;
  return define({.kind = Kind::Reduce, .type = {type(a).dtype, 1}, .op = op, .operands = {a}});
}

Id StageBuilder::lanes(std::vector<int> numbers) {
  return define({.kind = Kind::Lanes,
                 .type = {Dtype::I64, static_cast<int>(numbers.size())},
                 .pattern = std::move(numbers)});
}

Id StageBuilder::load(int buffer, const Expression& index, int lanes, int64_t stride, Id mask) {
  const Dtype dtype = program_->buffers.at(static_cast<size_t>(buffer)).dtype;
  if (is_quantized(dtype)) return load_elements(*this, buffer, index, lanes, stride, mask);
  return define({.kind = Kind::Load,
                 .type = {dtype, lanes},
                 .mask = mask,
                 .buffer = buffer,
                 .index = index,
                 .stride = stride});
}
Id StageBuilder::load_bytes(int buffer, const Expression& byte, int lanes, int64_t stride) {
  return define(
      {.kind = Kind::Load, .type = {Dtype::U8, lanes}, .buffer = buffer, .index = byte, .stride = stride});
}
Id StageBuilder::load_words(int buffer, const Expression& byte, int lanes) {
  return define({.kind = Kind::Load,
                 .type = {Dtype::U16, lanes},
                 .buffer = buffer,
                 .index = byte,
                 .stride = lanes > 1 ? 2 : 1});
}
Id StageBuilder::gather_bytes(int buffer, Id bytes, Id mask) {
  return define({.kind = Kind::Gather,
                 .type = {Dtype::U8, type(bytes).lanes},
                 .operands = {bytes},
                 .mask = mask,
                 .buffer = buffer});
}
Id StageBuilder::look_up(std::span<const int32_t> table, Id indices) {
  std::vector<Buffer>& buffers = program_->buffers;
  auto at = std::ranges::find_if(buffers, [&](const Buffer& b) {
    return b.space == Space::Table && b.values.data() == table.data() && b.values.size() == table.size();
  });
  if (at == buffers.end())
    at = buffers.insert(at, {.name = fmt::format("table{}", buffers.size()),
                             .space = Space::Table,
                             .dtype = Dtype::I32,
                             .elements = static_cast<int64_t>(table.size()),
                             .values = table});
  return gather(static_cast<int>(at - buffers.begin()), convert(indices, Dtype::I64));
}

Id StageBuilder::gather(int buffer, Id indices, Id mask) {
  const Dtype dtype = program_->buffers.at(static_cast<size_t>(buffer)).dtype;
  if (is_quantized(dtype)) return gather_elements(*this, buffer, indices, mask);
  return define({.kind = Kind::Gather,
                 .type = {dtype, type(indices).lanes},
                 .operands = {indices},
                 .mask = mask,
                 .buffer = buffer});
}
void StageBuilder::store(int buffer, const Expression& index, Id value, int64_t stride, Id mask,
                         bool streaming) {
  append({.kind = Kind::Store,
          .type = type(value),
          .operands = {value},
          .mask = mask,
          .buffer = buffer,
          .index = index,
          .stride = stride,
          .streaming = streaming});
}
void StageBuilder::scatter(int buffer, Id value, Id indices, Id mask) {
  append({.kind = Kind::Scatter,
          .type = type(value),
          .operands = {value, indices},
          .mask = mask,
          .buffer = buffer});
}

void StageBuilder::prefetch(int buffer, const Expression& index) {
  const Buffer& b = program_->buffers[static_cast<size_t>(buffer)];
  const DtypeInfo& stored = info(b.dtype);
  append({.kind = Kind::Prefetch,
          .type = {access_dtype(b), 1},
          .buffer = buffer,
          .index = is_quantized(b.dtype) ? index / stored.block_elements * stored.block_bytes : index});
}

Id StageBuilder::splat(Id id, int lanes) { return type(id).lanes == lanes ? id : broadcast(id, lanes); }

Id StageBuilder::inline_function(const ScalarFunction& f, std::span<const Id> inputs) {
  const auto nodes = f.nodes();
  std::vector<Id> ids(nodes.size(), kNone);
  std::unordered_map<uint64_t, Id> wide;  // (node, lanes) of what was scalar
  const auto widened = [&](Scalar s, int count) {
    const Id id = ids[s.index];
    if (count == 1 || type(id).lanes == count) return id;
    const auto [at, fresh] = wide.try_emplace((uint64_t{s.index} << 16) | static_cast<uint64_t>(count), id);
    if (fresh)
      at->second = nodes[s.index].op == ScalarOp::Constant
                       ? constant_bits({nodes[s.index].dtype, count}, nodes[s.index].payload)
                       : broadcast(id, count);
    return at->second;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ScalarNode& n = nodes[i];
    if (n.op == ScalarOp::Input) {
      LUMINAL_CHECK(n.payload < inputs.size() && type(inputs[n.payload]).dtype == n.dtype,
                    "input {} of {} given is {}", n.payload, inputs.size(), luminal::name(n.dtype));
      ids[i] = inputs[n.payload];
    } else if (n.op == ScalarOp::Constant) {
      ids[i] = constant_bits({n.dtype, 1}, n.payload);
    } else {
      const auto count = static_cast<size_t>(arity(n.op));
      LUMINAL_CHECK(count > 0, "{} in a kernel's body", luminal::name(n.op));
      int lanes = 1;
      for (size_t k = 0; k < count; ++k) lanes = std::max(lanes, type(ids[n.operands[k].index]).lanes);
      std::vector<Id> operands;
      for (size_t k = 0; k < count; ++k) operands.push_back(widened(n.operands[k], lanes));
      ids[i] = define(
          {.kind = Kind::Compute, .type = {n.dtype, lanes}, .op = n.op, .operands = std::move(operands)});
    }
  }
  LUMINAL_CHECK(f.outputs().size() == 1, "{} outputs", f.outputs().size());
  return ids[f.outputs()[0].index];
}

std::vector<Id> StageBuilder::loop(
    const Expression& extent, LoopKind kind, std::vector<Id> initial,
    const std::function<std::vector<Id>(const Expression&, std::span<const Id>)>& body) {
  Instruction i{.kind = Kind::Loop, .loop = kind, .variable = stage_.variable_count++, .extent = extent};
  const auto same_types = [&](std::span<const Id> like) {
    std::vector<Id> ids;
    for (const Id id : like) {
      ids.push_back(stage_.value_count++);
      stage_.types.push_back(Type(stage_.types[id]));
    }
    return ids;
  };
  i.carried = same_types(initial);
  Block inside;
  open_.push_back(&inside);
  i.next = body(variable_of(i.variable, extent), i.carried);
  open_.pop_back();
  LUMINAL_CHECK(i.next.size() == initial.size(), "{} values leave an iteration, {} enter it", i.next.size(),
                initial.size());
  i.results = same_types(initial);
  i.initial = std::move(initial);
  i.body = std::move(inside);
  std::vector<Id> results = i.results;
  append(std::move(i));
  return results;
}

void StageBuilder::loop(const Expression& extent, LoopKind kind,
                        const std::function<void(const Expression&)>& body) {
  loop(extent, kind, {}, [&](const Expression& variable, std::span<const Id>) {
    body(variable);
    return std::vector<Id>{};
  });
}

void StageBuilder::if_true(Id condition, const std::function<void()>& body) {
  Instruction i{.kind = Kind::If, .operands = {condition}};
  Block inside;
  open_.push_back(&inside);
  body();
  open_.pop_back();
  i.body = std::move(inside);
  append(std::move(i));
}

Id StageBuilder::holds(const Expression& condition) {
  return compute(ScalarOp::Ne, {index(condition), constant({Dtype::I64, 1}, 0)});
}
void StageBuilder::if_holds(const Expression& condition, const std::function<void()>& body) {
  if_true(holds(condition), body);
}

void StageBuilder::number_behind(const Stage& other) {
  LUMINAL_CHECK(stage_.value_count == 0 && other.task_variable == 0 && other.threads == 1,
                "the stage has {} values, the other one {} threads", stage_.value_count, other.threads);
  stage_.value_count = other.value_count;
  stage_.variable_count = other.variable_count;
  stage_.types = other.types;
}
void StageBuilder::append(Block body) {
  for (Instruction& each : body) append(std::move(each));
}

void StageBuilder::barrier() { append({.kind = Kind::Barrier}); }

void StageBuilder::finish(bool prepares) {
  LUMINAL_CHECK(open_.size() == 1, "{} blocks are open", open_.size());
  stage_.prepares = prepares;
  program_->stages.push_back(std::move(stage_));
  open_.clear();
}

Dtype access_dtype(const Buffer& buffer) { return is_quantized(buffer.dtype) ? Dtype::U8 : buffer.dtype; }
int access_width(const Instruction& access, const Buffer& buffer) {
  return access_dtype(buffer) == Dtype::U8 && access.type.dtype == Dtype::U16 ? 2 : 1;
}
Expression access_count(const Buffer& buffer) {
  if (!is_quantized(buffer.dtype)) return buffer.elements;
  const DtypeInfo& stored = info(buffer.dtype);
  return buffer.elements / stored.block_elements * stored.block_bytes;
}

int add_buffer(Program& program, Buffer buffer) {
  program.buffers.push_back(std::move(buffer));
  return static_cast<int>(program.buffers.size()) - 1;
}

void for_each_instruction(const Block& block, const std::function<void(const Instruction&)>& visit) {
  for (const Instruction& i : block) {
    visit(i);
    for_each_instruction(i.body, visit);
  }
}

size_t preparing_stages(const Program& program) {
  const auto first = std::ranges::find(program.stages, false, &Stage::prepares);
  return static_cast<size_t>(first - program.stages.begin());
}

namespace {

/// Buffers by the order in which a block comes to them; `number` has -1 for those that were not met yet.
void renumber_buffers(Block& block, std::vector<int>& number, int& met) {
  for (Instruction& i : block) {
    if (i.buffer >= 0) {
      int& own = number[static_cast<size_t>(i.buffer)];
      if (own < 0) own = met++;
      i.buffer = own;
    }
    renumber_buffers(i.body, number, met);
  }
}

}  // namespace

Preparation preparation_of(const Program& program) {
  const size_t stages = preparing_stages(program);
  Preparation preparation;
  if (stages == 0) return preparation;
  Program part{.name = "preparation", .dims = {}, .buffers = {}, .stages = {}, .native = nullptr};
  part.stages.assign(program.stages.begin(), program.stages.begin() + static_cast<std::ptrdiff_t>(stages));
  // What other stages do with their buffers does not matter, nor which slots of how many these read.
  std::vector<int> number(program.buffers.size(), -1);
  int met = 0;
  for (Stage& stage : part.stages) renumber_buffers(stage.body, number, met);
  part.buffers.resize(static_cast<size_t>(met));
  std::set<std::string> dims;
  for (size_t k = 0; k < number.size(); ++k) {
    if (number[k] < 0) continue;
    Buffer& buffer = part.buffers[static_cast<size_t>(number[k])] = program.buffers[k];
    buffer.is_kept = false;
    dims.merge(buffer.elements.to_symbols());
  }
  for (Buffer& buffer : part.buffers) {
    if (buffer.space != Space::Slot) continue;
    const auto place = static_cast<int>(preparation.slots.size());
    preparation.slots.push_back(std::exchange(buffer.number, place));
    buffer.name = fmt::format("slot{}", place);
  }
  for (const Stage& stage : part.stages) {
    dims.merge(stage.tasks.to_symbols());
    for_each_instruction(stage.body, [&](const Instruction& i) {
      dims.merge(i.index.to_symbols());
      dims.merge(i.extent.to_symbols());
    });
  }
  std::set<int> read;
  for (size_t s = stages; s < program.stages.size(); ++s)
    for_each_instruction(program.stages[s].body, [&](const Instruction& i) {
      if (i.buffer < 0) return;
      const Buffer& buffer = program.buffers[static_cast<size_t>(i.buffer)];
      if (buffer.space == Space::Slot) read.insert(buffer.number);
    });
  std::ranges::copy_if(preparation.slots, std::back_inserter(preparation.spent),
                       [&](int slot) { return !read.contains(slot); });
  const std::string text = part.to_string();
  if (dims.empty()) preparation.hash = hash_bytes(text.data(), text.size());
  return preparation;
}

Workspace workspace_of(const Program& program, Space space) {
  constexpr int64_t kAlignment = 64;
  Workspace w;
  for (const Buffer& b : program.buffers) {
    w.offsets.emplace_back(0);
    if (b.space != space) continue;
    w.offsets.back() = w.bytes;
    w.bytes += (b.elements * element_bytes(b.dtype)).ceil_div(kAlignment) * kAlignment;
  }
  return w;
}

}  // namespace luminal::codegen
