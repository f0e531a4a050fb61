#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/fail.h"
#include "codegen/barriers.h"
#include "codegen/loop_ir.h"
#include "codegen/target.h"
#include "scalar/typing.h"

namespace luminal::codegen {
namespace {

using Kind = Instruction::Kind;
constexpr int kMaxLanes = 1024;

std::string_view name_of(Kind kind) {
  constexpr std::string_view kNames[] = {"compute", "index",    "lanes",  "lane_mask", "broadcast", "shuffle",
                                         "permute", "dot4",     "reduce", "load",      "gather",    "store",
                                         "scatter", "prefetch", "loop",   "if",        "barrier"};
  static_assert(std::size(kNames) == static_cast<size_t>(Kind::Barrier) + 1);
  return kNames[static_cast<size_t>(kind)];
}

class Verifier {
 public:
  Verifier(const Program& program, size_t stage)
      : program_(program),
        stage_(program.stages[stage]),
        number_(stage),
        state_(stage_.value_count, Unknown) {}

  void run() {
    where_ = "tasks";
    check(stage_.types.size() == stage_.value_count, "{} types for {} values", stage_.types.size(),
          stage_.value_count);
    formula(stage_.tasks);
    enter(stage_.task_variable);
    threads();
    block(stage_.body);
  }

 private:
  enum State : uint8_t { Unknown, Live, Dead };

  template <class... Args>
  void check(bool holds, fmt::format_string<Args...> text, Args&&... args) const {
    if (!holds)
      throw InternalError(fmt::format("[loop_ir] {} stage {} {}: {}", program_.name, number_, where_,
                                      fmt::format(text, std::forward<Args>(args)...)));
  }

  void threads() {
    check(stage_.threads >= 1 && stage_.threads <= kMostBlockThreads, "{} threads in a block",
          stage_.threads);
    check((stage_.thread_variable >= 0) == (stage_.threads > 1), "variable i{} for {} threads",
          stage_.thread_variable, stage_.threads);
    if (stage_.threads > 1) enter(stage_.thread_variable);
  }
  void enter(int variable) {
    check(variable >= 0 && variable < stage_.variable_count, "variable i{} of {}", variable,
          stage_.variable_count);
    check(seen_.insert(variable).second, "variable i{} is used by two loops", variable);
    open_.insert(variable);
  }
  /// Only open variables and dims of the program.
  void formula(const Expression& e) const {
    check(!e.uses_flat_index(), "{} uses the flat index", e.to_string());
    for (const int v : e.to_indices())
      check(open_.contains(v), "{} uses i{}, which no open loop has", e.to_string(), v);
    for (const std::string& d : e.to_symbols())
      check(std::ranges::binary_search(program_.dims, d), "{} uses dim {}, which is not the program's",
            e.to_string(), d);
  }
  void define(Id id) {
    check(id < stage_.value_count, "value %{} of {}", id, stage_.value_count);
    check(state_[id] == Unknown, "value %{} is defined twice", id);
    state_[id] = Live;
    scope_.push_back(id);
  }
  [[nodiscard]] Type use(Id id) const {
    check(id < stage_.value_count && state_[id] != Unknown, "value %{} is not defined", id);
    check(state_[id] == Live, "value %{} is used outside its block", id);
    return stage_.types[id];
  }
  [[nodiscard]] Type operand(const Instruction& i, size_t k) const {
    check(k < i.operands.size(), "operand {} of {}", k, i.operands.size());
    return use(i.operands[k]);
  }
  void operands(const Instruction& i, size_t count) const {
    check(i.operands.size() == count, "{} operands, takes {}", i.operands.size(), count);
  }

  void block(const Block& b) {
    const size_t outer = scope_.size();
    for (const Instruction& i : b) instruction(i);
    for (size_t k = outer; k < scope_.size(); ++k) state_[scope_[k]] = Dead;
    scope_.resize(outer);
  }

  void instruction(const Instruction& i) {
    where_ =
        i.result == kNone ? std::string(name_of(i.kind)) : fmt::format("%{} ({})", i.result, name_of(i.kind));
    check(i.type.lanes >= 1 && i.type.lanes <= kMaxLanes, "{} lanes", i.type.lanes);
    check(!is_quantized(i.type.dtype), "block-quantised values have no lanes");
    const bool defines = i.kind != Kind::Store && i.kind != Kind::Scatter && i.kind != Kind::Prefetch &&
                         i.kind != Kind::Loop && i.kind != Kind::If && i.kind != Kind::Barrier;
    check((i.result != kNone) == defines, "result %{}", i.result);
    if (i.kind == Kind::Loop) return loop(i);
    if (i.kind == Kind::If) return branch(i);
    if (i.kind == Kind::Barrier)
      return check(stage_.threads > 1 && i.operands.empty(), "a thread alone waits for nobody");
    if (i.kind == Kind::Load || i.kind == Kind::Gather || i.kind == Kind::Store || i.kind == Kind::Scatter ||
        i.kind == Kind::Prefetch)
      access(i);
    else
      value(i);
    if (!defines) return;
    define(i.result);
    check(stage_.types[i.result] == i.type, "the stage's table has another type");
  }

  void value(const Instruction& i) {
    switch (i.kind) {
      case Kind::Compute:
        return compute(i);
      case Kind::Index:
        operands(i, 0);
        check(i.type == Type{Dtype::I64, 1}, "an index is an i64 scalar");
        return formula(i.index);
      case Kind::Lanes:
        operands(i, 0);
        check(i.pattern.empty() || static_cast<int>(i.pattern.size()) == i.type.lanes,
              "{} numbers for {} lanes", i.pattern.size(), i.type.lanes);
        return check(i.type.dtype == Dtype::I64, "lane numbers are i64");
      case Kind::LaneMask:
        operands(i, 0);
        check(i.type.dtype == Dtype::Bool, "a mask is bool");
        return formula(i.index);
      case Kind::Broadcast:
        operands(i, 1);
        return check(operand(i, 0) == Type{i.type.dtype, 1}, "takes a scalar of its own dtype");
      case Kind::Shuffle:
        return shuffle(i);
      case Kind::Permute:
        return permute(i);
      case Kind::Dot4:
        operands(i, 3);
        check(i.type.dtype == Dtype::I32 && operand(i, 0) == i.type, "the sum is i32, as the result is");
        check(operand(i, 1) == Type{Dtype::U8, 4 * i.type.lanes} &&
                  operand(i, 2) == Type{Dtype::I8, 4 * i.type.lanes},
              "takes four u8 and four i8 lanes for each lane");
        return;
      case Kind::Reduce:
        return reduce(i);
      case Kind::Load:
      case Kind::Gather:
      case Kind::Store:
      case Kind::Scatter:
      case Kind::Prefetch:
      case Kind::Loop:
      case Kind::If:
      case Kind::Barrier:
        break;  // have checks of their own
    }
  }

  void compute(const Instruction& i) {
    check(static_cast<int>(i.op) < kScalarOpCount && i.op != ScalarOp::Input && i.op != ScalarOp::Coordinate,
          "op {}", static_cast<int>(i.op));
    operands(i, static_cast<size_t>(arity(i.op)));
    ScalarNode node{.op = i.op, .dtype = i.type.dtype, .payload = i.op == ScalarOp::Constant ? i.bits : 0};
    OperandTypes types{};
    for (size_t k = 0; k < i.operands.size(); ++k) {
      const Type t = operand(i, k);
      check(t.lanes == i.type.lanes, "operand {} has {} lanes, the result {}", k, t.lanes, i.type.lanes);
      types[k] = t.dtype;
    }
    const std::string problem = type_problem(node, types);
    check(problem.empty(), "{}: {}", luminal::name(i.op), problem);
  }

  void shuffle(const Instruction& i) {
    operands(i, 2);
    const Type a = operand(i, 0), b = operand(i, 1);
    check(a == b && a.dtype == i.type.dtype, "the operands differ in type");
    check(static_cast<int>(i.pattern.size()) == i.type.lanes, "{} lanes named for {}", i.pattern.size(),
          i.type.lanes);
    for (const int p : i.pattern) check(p >= 0 && p < 2 * a.lanes, "lane {} of {}", p, 2 * a.lanes);
  }

  void permute(const Instruction& i) {
    check(i.operands.size() == 2 || i.operands.size() == 3, "takes one table or two");
    operands(i, i.operands.size());
    const Type numbers = operand(i, 0), table = operand(i, 1);
    check(numbers.lanes == i.type.lanes &&
              (numbers.dtype == Dtype::I32 || (numbers.dtype == Dtype::U8 && table.dtype == Dtype::U8)),
          "takes one i32 number for each lane, or u8 ones of tables of u8");
    check(table.lanes > 1 && (table.lanes & (table.lanes - 1)) == 0, "{} entries are no power of two",
          table.lanes);
    check(table.dtype == i.type.dtype, "the tables have another dtype than the result");
    for (size_t k = 2; k < i.operands.size(); ++k)
      check(operand(i, k) == table, "table {} has another type than the first", k);
  }

  void reduce(const Instruction& i) {
    operands(i, 1);
    const Type a = operand(i, 0);
    constexpr ScalarOp kFolds[] = {ScalarOp::Add, ScalarOp::Mul, ScalarOp::Maximum, ScalarOp::Minimum,
                                   ScalarOp::And, ScalarOp::Or,  ScalarOp::Xor};
    check(std::ranges::find(kFolds, i.op) != std::end(kFolds), "{} does not fold lanes", luminal::name(i.op));
    check((a.lanes & (a.lanes - 1)) == 0, "{} lanes are no power of two", a.lanes);
    check(i.type == Type{a.dtype, 1}, "the result is a scalar of the operand's dtype");
    const std::string problem = type_problem({.op = i.op, .dtype = a.dtype}, {a.dtype, a.dtype, {}});
    check(problem.empty(), "{}: {}", luminal::name(i.op), problem);
  }

  void access(const Instruction& i) {
    check(i.buffer >= 0 && static_cast<size_t>(i.buffer) < program_.buffers.size(), "buffer {} of {}",
          i.buffer, program_.buffers.size());
    const Buffer& b = program_.buffers[static_cast<size_t>(i.buffer)];
    const bool writes = i.kind == Kind::Store || i.kind == Kind::Scatter;
    const bool by_lane = i.kind == Kind::Gather || i.kind == Kind::Scatter;
    operands(i, (writes ? 1 : 0) + (by_lane ? 1 : 0));
    check(!writes || b.space != Space::Slot, "slot {} is read only", b.name);
    check(!writes || b.space != Space::Table, "table {} is read only", b.name);
    const bool is_own = b.space == Space::Local || b.space == Space::Block;
    check(b.space != Space::Block || stage_.threads > 1, "{} belongs to a block of threads", b.name);
    check(!writes || (b.space == Space::Prepared) == stage_.prepares || is_own, "a stage that {} writes {}",
          stage_.prepares ? "prepares" : "does not prepare", b.name);
    check(writes || !stage_.prepares || b.space == Space::Prepared || is_own || b.space == Space::Table ||
              b.is_frozen,
          "a stage that prepares reads {}, which may change", b.name);
    const bool is_word = i.kind == Instruction::Kind::Load && access_width(i, b) == 2;
    check(i.type.dtype == access_dtype(b) || is_word, "{} values in {}, which has {}",
          luminal::name(i.type.dtype), b.name, luminal::name(access_dtype(b)));
    if (writes) check(operand(i, 0) == i.type, "the value has another type");
    if (by_lane)
      check(operand(i, writes ? 1 : 0) == Type{Dtype::I64, i.type.lanes},
            "takes one i64 index for each lane");
    else
      formula(i.index);
    if (i.mask != kNone)
      check(use(i.mask) == Type{Dtype::Bool, i.type.lanes}, "takes a mask of {} bool lanes", i.type.lanes);
  }

  void loop(const Instruction& i) {
    formula(i.extent);
    check(i.loop != LoopKind::Unrolled || i.extent.constant(), "unrolled with extent {}",
          i.extent.to_string());
    const size_t count = i.initial.size();
    check(i.carried.size() == count && i.next.size() == count && i.results.size() == count,
          "{} initial, {} carried, {} next and {} resulting values", count, i.carried.size(), i.next.size(),
          i.results.size());
    for (const Id id : i.initial) (void)use(id);
    const std::string here = where_ = fmt::format("loop i{}", i.variable);
    enter(i.variable);
    const size_t outer = scope_.size();
    for (const Id id : i.carried) define(id);
    for (const Instruction& inner : i.body) instruction(inner);
    where_ = here;
    for (size_t k = 0; k < count; ++k) {
      const Type t = stage_.types[i.initial[k]];
      check(stage_.types[i.carried[k]] == t && use(i.next[k]) == t, "carried value {} changes its type", k);
    }
    for (size_t k = outer; k < scope_.size(); ++k) state_[scope_[k]] = Dead;
    scope_.resize(outer);
    open_.erase(i.variable);
    for (size_t k = 0; k < count; ++k) {
      define(i.results[k]);
      check(stage_.types[i.results[k]] == stage_.types[i.initial[k]], "result {} has another type", k);
    }
  }

  void branch(const Instruction& i) {
    operands(i, 1);
    check(operand(i, 0) == Type{Dtype::Bool, 1}, "takes a bool scalar");
    block(i.body);
  }

  const Program& program_;
  const Stage& stage_;
  size_t number_;
  std::vector<State> state_;
  std::vector<Id> scope_;
  std::set<int> seen_, open_;
  std::string where_;
};

void verify_buffers(const Program& program) {
  const auto check = [&](bool holds, const std::string& what) {
    if (!holds) throw InternalError(fmt::format("[loop_ir] {}: {}", program.name, what));
  };
  check(is_identifier(program.name), "the name is no C identifier");
  check(
      std::ranges::is_sorted(program.dims) && std::ranges::adjacent_find(program.dims) == program.dims.end(),
      "the dims are not sorted");
  // Launches pass slots, then outputs, in the order of the list.
  int slots = 0, outputs = 0;
  bool workspace = false;
  for (const Buffer& b : program.buffers) {
    check(!is_quantized(b.dtype) || b.space == Space::Slot, "buffer " + b.name + " is block-quantised");
    check(!b.is_frozen || b.space == Space::Slot, "buffer " + b.name + " is frozen and no slot");
    check(b.space != Space::Table ||
              (b.dtype == Dtype::I32 && b.elements == Expression(static_cast<int64_t>(b.values.size()))),
          "table " + b.name + " is not as long as its values");
    check(b.space != Space::Block || b.elements.constant(),
          "buffer " + b.name + " of a block has no fixed size");
    check(b.elements.to_indices().empty(), "the size of buffer " + b.name + " uses index variables");
    for (const std::string& d : b.elements.to_symbols())
      check(std::ranges::binary_search(program.dims, d),
            "the size of buffer " + b.name + " uses unknown dim " + d);
    const bool slot = b.space == Space::Slot, output = b.space == Space::Output;
    if (slot) check(outputs == 0 && !workspace && b.number == slots++, "slot " + b.name + " is out of order");
    if (output) check(!workspace && b.number == outputs++, "output " + b.name + " is out of order");
    workspace = workspace || !(slot || output);
  }
  const auto behind = std::span(program.stages).subspan(preparing_stages(program));
  check(std::ranges::none_of(behind, &Stage::prepares),
        "a stage that prepares comes behind one that does not");
}

}  // namespace

bool is_identifier(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !text.empty() && letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

void verify_statements(const Program& program) {
  verify_buffers(program);
  for (size_t s = 0; s < program.stages.size(); ++s) Verifier(program, s).run();
}

void verify(const Program& program) {
  verify_statements(program);
  for (size_t s = 0; s < program.stages.size(); ++s)
    if (const std::string problem = barrier_problem(program, program.stages[s]); !problem.empty())
      throw InternalError(
          fmt::format("[loop_ir] {} stage {} barrier: stands in {}", program.name, s, problem));
}

void verify(const Program& program, const Target& target) {
  verify(program);
  for (const Stage& stage : program.stages)
    if (stage.threads > std::max(1, target.block_threads))
      throw InternalError(fmt::format("[loop_ir] {}: blocks of {} threads, where {} has {} at most",
                                      program.name, stage.threads, target.name, target.block_threads));
  const int64_t bytes = workspace_of(program, Space::Block).bytes.exec({});
  if (bytes > target.block_bytes)
    throw InternalError(fmt::format("[loop_ir] {}: {} bytes for a block, where {} has {} at most",
                                    program.name, bytes, target.name, target.block_bytes));
}

}  // namespace luminal::codegen
