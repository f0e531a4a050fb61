#include "codegen/emit/llvm.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "base/fail.h"
#include "codegen/emit/llvm_writer.h"

namespace luminal::codegen {
namespace llvm_text {
namespace {

using Kind = Instruction::Kind;
constexpr int kWorkspaceAlignment = 64, kLargestAssumed = 4;  // bytes; tensors promise no more than four

/// Which memory cannot be which. Slots may be each other, and those that are not kept may be outputs.
class AliasScopes {
 public:
  explicit AliasScopes(const Program& program) {
    const size_t count = program.buffers.size();
    const auto group = [&](size_t k) {
      const Buffer& b = program.buffers[k];
      return b.space != Space::Slot ? k : b.is_kept ? count + 1 : count;
    };
    const auto may_meet = [&](size_t a, size_t b) {
      const size_t first = std::min(group(a), group(b)), last = std::max(group(a), group(b));
      if (first == last || first == count) return true;
      return last == count && program.buffers[first].space == Space::Output;
    };
    text_ = "!0 = distinct !{!0, !\"kernel\"}\n";
    for (size_t k = 0; k <= count + 1; ++k) text_ += fmt::format("!{0} = distinct !{{!{0}, !0}}\n", k + 1);
    size_t next = count + 3;
    for (size_t k = 0; k < count; ++k) {
      std::vector<size_t> others;
      for (size_t j = 0; j < count; ++j)
        if (!may_meet(k, j)) others.push_back(group(j) + 1);
      std::ranges::sort(others);
      const auto repeated = std::ranges::unique(others);
      others.erase(repeated.begin(), repeated.end());
      std::string list;
      for (const size_t o : others) list += fmt::format("{}!{}", list.empty() ? "" : ", ", o);
      text_ += fmt::format("!{} = !{{!{}}}\n!{} = !{{{}}}\n", next, group(k) + 1, next + 1, list);
      suffixes_.push_back(fmt::format(", !alias.scope !{}, !noalias !{}", next, next + 1));
      next += 2;
    }
    streaming_ = next;
    text_ += fmt::format("!{} = !{{i32 1}}\n", streaming_);
  }
  [[nodiscard]] const std::string& of(int buffer) const { return suffixes_[static_cast<size_t>(buffer)]; }
  [[nodiscard]] std::string streaming() const { return fmt::format(", !nontemporal !{}", streaming_); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::vector<std::string> suffixes_;
  size_t streaming_ = 0;
};

std::string table_symbol(const Program& program, size_t buffer) {
  return fmt::format("{}_{}", program.name, program.buffers[buffer].name);
}

class StageText {
 public:
  StageText(const Program& program, size_t stage, const LlvmOptions& options, Declarations& declarations,
            const AliasScopes& aliases)
      : program_(program),
        stage_(program.stages[stage]),
        options_(options),
        declare_(declarations),
        aliases_(aliases),
        arithmetic_(w_, declarations, options),
        indices_(w_, declarations),
        values_(stage_.value_count),
        constants_(stage_.value_count),
        uniform_(stage_.value_count, kNone) {}

  std::string run(const std::string& symbol) {
    w_.statement("%unread = alloca [64 x i8], align 64");
    arguments();
    tasks();
    return fmt::format(
        "define void @{}(ptr noalias readonly %arguments, i64 %begin, i64 %end) #0 {{\nentry:\n{}}}\n\n",
        symbol, w_.text());
  }
  [[nodiscard]] bool uses_zeros() const { return uses_zeros_; }

 private:
  // --- the function around the tasks ---

  LlvmValue entry_load(const std::string& type, const LlvmValue& base, int64_t index) {
    const LlvmValue at = w_.pure(0, fmt::format("getelementptr {}, ptr {}, i64 {}", type, base.text, index));
    return w_.pure(0, fmt::format("load {}, ptr {}, align 8, !noundef !{{}}", type, at.text));
  }

  void arguments() {
    const LlvmValue given{"%arguments", 0};
    const LlvmValue buffers = entry_load("ptr", given, 0), dims = entry_load("ptr", given, 1);
    const LlvmValue shared = entry_load("ptr", given, 2), local = entry_load("ptr", given, 3),
                    prepared = entry_load("ptr", given, 4);
    for (size_t k = 0; k < program_.dims.size(); ++k)
      indices_.dims[program_.dims[k]] = entry_load("i64", dims, static_cast<int64_t>(k));
    const Workspace in_shared = workspace_of(program_, Space::Shared),
                    in_local = workspace_of(program_, Space::Local),
                    in_prepared = workspace_of(program_, Space::Prepared);
    for (size_t k = 0; k < program_.buffers.size(); ++k) {
      const Space space = program_.buffers[k].space;
      if (space <= Space::Output)
        bases_.push_back(entry_load("ptr", buffers, static_cast<int64_t>(k)));
      else if (space == Space::Table)
        bases_.push_back({"@" + table_symbol(program_, k), 0});
      else if (space == Space::Prepared)
        bases_.push_back(indices_.address(prepared, "i8", in_prepared.offsets[k]));
      else
        bases_.push_back(space == Space::Shared ? indices_.address(shared, "i8", in_shared.offsets[k])
                                                : indices_.address(local, "i8", in_local.offsets[k]));
    }
  }

  void tasks() {
    const size_t head = w_.reserve();
    const std::string body = w_.fresh_label(), exit = w_.fresh_label();
    const std::string before = w_.block(), task = w_.fresh_name(), next = w_.fresh_name();
    w_.open(body);
    indices_.variables[stage_.task_variable] = {task, w_.level()};
    originals_[stage_.task_variable] = Expression::index(stage_.task_variable, stage_.tasks);
    block(stage_.body);
    w_.statement(fmt::format("{} = add nuw nsw i64 {}, 1", next, task));
    const LlvmValue again = w_.here(fmt::format("icmp slt i64 {}, %end", next));
    w_.statement(fmt::format("br i1 {}, label %{}, label %{}", again.text, body, exit));
    w_.fill(head, fmt::format("  %some = icmp slt i64 %begin, %end\n"
                              "  br i1 %some, label %{0}, label %{1}\n{0}:\n"
                              "  {2} = phi i64 [ %begin, %{3} ], [ {4}, %{5} ]\n",
                              body, exit, task, before, next, w_.block()));
    w_.close(exit);
    if (streams_) w_.statement("fence seq_cst");  // streaming stores are ordered by nothing else
    w_.statement("ret void");
  }

  // --- formulas ---

  /// With the values of unrolled variables put in.
  [[nodiscard]] Expression formula(const Expression& e) const {
    if (unrolled_.empty() || e.to_indices().empty()) return e;
    return e.substitute_indices(substitution_);
  }

  // --- statements ---

  void block(const Block& b) {
    for (const Instruction& i : b) instruction(i);
  }

  void set(const Instruction& i, LlvmValue value) { values_[i.result] = std::move(value); }
  [[nodiscard]] std::vector<LlvmValue> operands(const Instruction& i) const {
    std::vector<LlvmValue> v;
    for (const Id id : i.operands) v.push_back(values_[id]);
    return v;
  }
  [[nodiscard]] Type type(Id id) const { return stage_.types[id]; }

  void instruction(const Instruction& i) {
    switch (i.kind) {
      case Kind::Compute:
        return compute(i);
      case Kind::Index:
        return set(i, indices_.value(formula(i.index)));
      case Kind::Lanes:
        return set(i, lane_list(i.type, i.pattern));
      case Kind::LaneMask:
        return set(i, lane_mask(formula(i.index), i.type.lanes));
      case Kind::Broadcast:
        uniform_[i.result] = i.operands[0];
        return set(i, arithmetic_.broadcast(i.type, values_[i.operands[0]]));
      case Kind::Shuffle:
        return set(i, arithmetic_.shuffle(type(i.operands[0]), values_[i.operands[0]], values_[i.operands[1]],
                                          i.pattern));
      case Kind::Permute:
        return set(i, arithmetic_.permute(type(i.operands[0]), type(i.operands[1]), operands(i)));
      case Kind::Dot4:
        return set(i, arithmetic_.dot4(i.type, operands(i), i.bits));
      case Kind::Reduce:
        return set(i, arithmetic_.reduce(i.op, type(i.operands[0]), values_[i.operands[0]]));
      case Kind::Load:
        return set(i, load(i));
      case Kind::Gather:
        return set(i, gather(i));
      case Kind::Store:
        return store(i);
      case Kind::Scatter:
        return scatter(i);
      case Kind::Prefetch:
        return prefetch(i);
      case Kind::Loop:
        return loop(i);
      case Kind::If:
        return branch(i);
      case Kind::Barrier:
        break;  // of blocks, which emit_llvm refuses
    }
  }

  void compute(const Instruction& i) {
    if (i.op == ScalarOp::Constant) {
      constants_[i.result] = i.bits;
      return set(i, {literal(i.type, i.bits), 0});
    }
    if (i.op == ScalarOp::And && i.type.dtype == Dtype::Bool)
      uniform_[i.result] = uniform_[i.operands[uniform_[i.operands[0]] == kNone ? 1 : 0]];
    const Type operand = type(i.operands[i.op == ScalarOp::Select ? 1 : 0]);
    const std::optional<uint64_t> divisor = i.operands.size() == 2 ? constants_[i.operands[1]] : std::nullopt;
    set(i, arithmetic_(i.op, i.type, operand, operands(i), divisor ? &*divisor : nullptr));
  }

  /// 0, stride, 2 * stride, ...
  static LlvmValue lane_numbers(Type t, int64_t stride) {
    return constant_lanes(t, [&](int k) { return k * stride; });
  }
  static LlvmValue lane_list(Type t, const std::vector<int>& numbers) {
    return constant_lanes(t, [&](int k) { return numbers.empty() ? k : numbers[static_cast<size_t>(k)]; });
  }
  static LlvmValue constant_lanes(Type t, const std::function<int64_t(int)>& number) {
    if (t.lanes == 1) return {std::to_string(number(0)), 0};
    const std::string scalar = type_text({t.dtype, 1});
    std::string lanes;
    for (int k = 0; k < t.lanes; ++k) lanes += fmt::format("{}{} {}", k == 0 ? "" : ", ", scalar, number(k));
    return {"<" + lanes + ">", 0};
  }

  LlvmValue lane_mask(const Expression& count, int lanes) {
    const LlvmValue wide = indices_.value(count);
    if (lanes == 1) return w_.pure(wide.level, fmt::format("icmp sgt i64 {}, 0", wide.text));
    // Narrow lanes compare faster; the count is brought into their range first.
    const Type in{lanes > 32 && lanes <= 64 ? Dtype::I8 : Dtype::I32, lanes};
    const auto clamp = [&](const std::string& name, const LlvmValue& a, int64_t bound) {
      return w_.pure(a.level, fmt::format("call i64 {}(i64 {}, i64 {})", declare_(name, "i64", "i64, i64"),
                                          a.text, bound));
    };
    LlvmValue clamped = wide;
    const Range r = count.range();
    if (r.min < 0) clamped = clamp("llvm.smax.i64", clamped, 0);
    if (r.max > lanes) clamped = clamp("llvm.smin.i64", clamped, lanes);
    const LlvmValue narrow =
        w_.pure(clamped.level, fmt::format("trunc i64 {} to {}", clamped.text, type_text({in.dtype, 1})));
    const LlvmValue all = arithmetic_.broadcast(in, narrow);
    return w_.pure(all.level,
                   fmt::format("icmp slt {} {}, {}", type_text(in), lane_numbers(in, 1).text, all.text));
  }

  // --- memory ---

  [[nodiscard]] const Buffer& buffer(const Instruction& i) const {
    return program_.buffers[static_cast<size_t>(i.buffer)];
  }
  [[nodiscard]] std::string element(const Instruction& i) const {
    return type_text(memory_type({i.type.dtype, 1}));
  }
  /// What indices count.
  [[nodiscard]] std::string counted(const Instruction& i) const {
    return type_text(memory_type({access_dtype(buffer(i)), 1}));
  }

  /// Bytes known to divide the address of element `index`.
  [[nodiscard]] int64_t alignment(const Instruction& i, const Expression& index) const {
    if (access_width(i, buffer(i)) > 1) return 1;
    const int64_t size = element_bytes(i.type.dtype);
    if (buffer(i).space <= Space::Output) return std::min<int64_t>(size, kLargestAssumed);
    if (buffer(i).space == Space::Table) return size;
    return std::gcd(index.divisor() * size, int64_t{kWorkspaceAlignment});
  }
  LlvmValue address(const Instruction& i, const Expression& index) {
    return indices_.address(bases_[static_cast<size_t>(i.buffer)], counted(i), index);
  }
  [[nodiscard]] LlvmValue mask(const Instruction& i) const {
    if (i.mask != kNone) return values_[i.mask];
    return {i.type.lanes == 1 ? "true" : "splat (i1 true)", 0};
  }
  LlvmValue reversed(Type t, const LlvmValue& a) {
    std::vector<int> pattern;
    for (int k = t.lanes - 1; k >= 0; --k) pattern.push_back(k);
    return arithmetic_.shuffle(t, a, a, pattern);
  }
  /// Bool lanes are bytes in memory.
  LlvmValue from_memory(const Instruction& i, const LlvmValue& bytes) {
    if (i.type.dtype != Dtype::Bool) return bytes;
    const std::string t = type_text(memory_type(i.type));
    return w_.pure(bytes.level, fmt::format("icmp ne {} {}, {}", t, bytes.text, zero(memory_type(i.type))));
  }
  LlvmValue to_memory(const Instruction& i, const LlvmValue& value) {
    if (i.type.dtype != Dtype::Bool) return value;
    return w_.pure(value.level, fmt::format("zext {} {} to {}", type_text(i.type), value.text,
                                            type_text(memory_type(i.type))));
  }
  static std::string zero(Type t) { return t.lanes == 1 ? literal(t, 0) : "zeroinitializer"; }

  LlvmValue plain_load(const Instruction& i, int lanes, const Expression& index) {
    const LlvmValue at = address(i, index);
    const std::string text =
        fmt::format("load {}, ptr {}, align {}{}", type_text(memory_type({i.type.dtype, lanes})), at.text,
                    alignment(i, index), aliases_.of(i.buffer));
    if (lanes > 1 || !buffer(i).is_kept) return w_.here(text);
    return w_.pure(std::max(at.level, is_inside(i, index) ? kTaskLevel : certain_), text);
  }

  /// Whether the element is there wherever the variables of its index are.
  [[nodiscard]] bool is_inside(const Instruction& i, const Expression& index) const {
    const Range r = index.range();
    return r.min >= 0 && r.max + access_width(i, buffer(i)) <= access_count(buffer(i)).range().min;
  }

  /// One element, or 0 if `on` is false: then it reads zeros of our own, so that nothing branches.
  LlvmValue guarded_load(const Instruction& i, const LlvmValue& on, const Expression& index) {
    uses_zeros_ = true;
    const LlvmValue at = address(i, index);
    const LlvmValue from = w_.pure(std::max(on.level, at.level),
                                   fmt::format("select i1 {}, ptr {}, ptr @luminal_zeros", on.text, at.text));
    const std::string text = fmt::format("load {}, ptr {}, align {}{}", element(i), from.text,
                                         alignment(i, index), aliases_.of(i.buffer));
    return buffer(i).is_kept ? w_.pure(std::max(from.level, certain_), text) : w_.here(text);
  }

  LlvmValue load(const Instruction& i) {
    const Expression index = formula(i.index);
    const int lanes = i.type.lanes;
    const Type in_memory = memory_type(i.type);
    if (lanes == 1)
      return from_memory(i, i.mask == kNone ? plain_load(i, 1, index) : guarded_load(i, mask(i), index));
    if (i.stride == access_width(i, buffer(i))) {
      if (i.mask == kNone) return from_memory(i, plain_load(i, lanes, index));
      return from_memory(i, masked_load(i, in_memory, index, mask(i)));
    }
    if (i.stride == 0) {
      if (i.mask == kNone) return from_memory(i, arithmetic_.broadcast(in_memory, plain_load(i, 1, index)));
      const LlvmValue any = arithmetic_.reduce(ScalarOp::Or, {Dtype::Bool, lanes}, mask(i));
      const LlvmValue all = arithmetic_.broadcast(in_memory, guarded_load(i, any, index));
      return from_memory(i, w_.pure(w_.level(), fmt::format("select <{} x i1> {}, {} {}, {} zeroinitializer",
                                                            lanes, mask(i).text, type_text(in_memory),
                                                            all.text, type_text(in_memory))));
    }
    if (i.stride == -1) {
      const Expression first = index - (lanes - 1);
      const LlvmValue whole = i.mask == kNone
                                  ? plain_load(i, lanes, first)
                                  : masked_load(i, in_memory, first, reversed({Dtype::Bool, lanes}, mask(i)));
      return from_memory(i, reversed(in_memory, whole));
    }
    if (i.stride == 2)
      return from_memory(i, i.mask == kNone ? every_second(i, index) : masked_every_second(i, index));
    const LlvmValue places = strided_places(i, index);
    return from_memory(i, gather_from(i, places));
  }

  /// Whether some lane may lie a page or more before or behind the buffer.
  [[nodiscard]] bool may_lie_far_outside(const Instruction& i, const Type& t, const Expression& index) const {
    constexpr double kPage = 4096;
    const Range r = index.range();
    const double size = static_cast<double>(element_bytes(t.dtype));
    const double behind =
        static_cast<double>(r.max) + t.lanes - static_cast<double>(access_count(buffer(i)).range().min);
    return -static_cast<double>(r.min) * size >= kPage || behind * size >= kPage;
  }

  /// Where a masked load of all lanes starts. Lanes that are off read nothing, yet a processor takes a hundred
  /// times as long over a load whose page is not there, so a load without a lane that is on goes to zeros of our own.
  LlvmValue masked_address(const Instruction& i, Type t, const Expression& index, const LlvmValue& on) {
    const LlvmValue at = address(i, index);
    const bool is_uniform = uniform_[i.mask] != kNone;
    if (!is_uniform && !may_lie_far_outside(i, t, index)) return at;
    const LlvmValue any =
        is_uniform ? values_[uniform_[i.mask]] : arithmetic_.reduce(ScalarOp::Or, {Dtype::Bool, t.lanes}, on);
    uses_zeros_ = true;
    return w_.pure(std::max(any.level, at.level),
                   fmt::format("select i1 {}, ptr {}, ptr @luminal_zeros", any.text, at.text));
  }

  /// `t`: as it lies in memory.
  LlvmValue masked_load(const Instruction& i, Type t, const Expression& index, const LlvmValue& on) {
    const std::string type = type_text(t);
    const std::string name = declare_(fmt::format("llvm.masked.load.{}.p0", mangled(t)), type,
                                      fmt::format("ptr, i32, <{} x i1>, {}", t.lanes, type));
    return w_.here(fmt::format("call {0} {1}(ptr {2}, i32 {3}, <{4} x i1> {5}, {0} zeroinitializer){6}", type,
                               name, masked_address(i, t, index, on).text, alignment(i, index), t.lanes,
                               on.text, aliases_.of(i.buffer)));
  }

  /// Two loads that overlap by one element, so that nothing beyond the last lane is read.
  LlvmValue every_second(const Instruction& i, const Expression& index) {
    const int lanes = i.type.lanes;
    const LlvmValue low = plain_load(i, lanes, index), high = plain_load(i, lanes, index + (lanes - 1));
    std::vector<int> pattern;
    for (int k = 0; k < lanes; ++k) pattern.push_back(2 * k < lanes ? 2 * k : lanes + 2 * k - (lanes - 1));
    return arithmetic_.shuffle(memory_type(i.type), low, high, pattern);
  }

  /// One masked load of twice as many elements, every second of them off: gathers take a cycle or more a
  /// lane.
  LlvmValue masked_every_second(const Instruction& i, const Expression& index) {
    const int lanes = i.type.lanes;
    const Type wide = memory_type({i.type.dtype, 2 * lanes});
    std::vector<int> spread, even;
    for (int k = 0; k < lanes; ++k) {
      spread.insert(spread.end(), {k, lanes});
      even.push_back(2 * k);
    }
    const LlvmValue on = arithmetic_.shuffle({Dtype::Bool, lanes}, mask(i), {"zeroinitializer", 0}, spread);
    const LlvmValue both = masked_load(i, wide, index, on);
    return arithmetic_.shuffle(wide, both, both, even);
  }

  /// Addresses of all lanes: 32-bit offsets, as gathers like them best, where all fit.
  LlvmValue strided_places(const Instruction& i, const Expression& index) {
    const LlvmValue first = address(i, index);
    const bool narrow = std::abs(i.stride) < (int64_t{1} << 30) / i.type.lanes;
    const Type t{narrow ? Dtype::I32 : Dtype::I64, i.type.lanes};
    return w_.pure(first.level, fmt::format("getelementptr {}, ptr {}, {} {}", counted(i), first.text,
                                            type_text(t), lane_numbers(t, i.stride).text));
  }
  LlvmValue places_of(const Instruction& i, const LlvmValue& lanes) {
    const LlvmValue& base = bases_[static_cast<size_t>(i.buffer)];
    Type t{Dtype::I64, i.type.lanes};
    LlvmValue offsets = lanes;
    if (access_count(buffer(i)).range().max <= INT32_MAX) {
      const Type narrow{Dtype::I32, i.type.lanes};
      offsets =
          w_.pure(lanes.level, fmt::format("trunc {} {} to {}", type_text(t), lanes.text, type_text(narrow)));
      t = narrow;
    }
    return w_.pure(
        std::max(base.level, offsets.level),
        fmt::format("getelementptr {}, ptr {}, {} {}", element(i), base.text, type_text(t), offsets.text));
  }
  LlvmValue gather_from(const Instruction& i, const LlvmValue& places) {
    const Type t = memory_type(i.type);
    const std::string type = type_text(t);
    const std::string name = declare_(fmt::format("llvm.masked.gather.{}.v{}p0", mangled(t), t.lanes), type,
                                      fmt::format("<{0} x ptr>, i32, <{0} x i1>, {1}", t.lanes, type));
    return w_.here(
        fmt::format("call {0} {1}(<{2} x ptr> {3}, i32 {4}, <{2} x i1> {5}, {0} zeroinitializer){6}", type,
                    name, t.lanes, places.text, alignment(i, 1), mask(i).text, aliases_.of(i.buffer)));
  }

  LlvmValue gather(const Instruction& i) {
    const LlvmValue& lanes = values_[i.operands[0]];
    if (i.type.lanes > 1) return from_memory(i, gather_from(i, places_of(i, lanes)));
    uses_zeros_ = true;
    const LlvmValue place = places_of(i, lanes), on = mask(i);
    const LlvmValue from =
        w_.pure(std::max(place.level, on.level),
                fmt::format("select i1 {}, ptr {}, ptr @luminal_zeros", on.text, place.text));
    return from_memory(i, w_.here(fmt::format("load {}, ptr {}, align {}{}", element(i), from.text,
                                              alignment(i, 1), aliases_.of(i.buffer))));
  }

  void plain_store(const Instruction& i, const LlvmValue& value, const LlvmValue& at, int64_t align,
                   const std::string& suffix) {
    w_.statement(fmt::format("store {} {}, ptr {}, align {}{}{}", type_text(memory_type(i.type)), value.text,
                             at.text, align, aliases_.of(i.buffer), suffix));
  }

  void store(const Instruction& i) {
    const Expression index = formula(i.index);
    LlvmValue value = to_memory(i, values_[i.operands[0]]);
    if (i.type.lanes == 1) return store_scalar(i, value, address(i, index), alignment(i, index));
    if (i.stride == 1 || i.stride == -1) {
      const bool backwards = i.stride == -1;
      const Expression first = backwards ? index - (i.type.lanes - 1) : index;
      if (backwards) value = reversed(memory_type(i.type), value);
      const LlvmValue on =
          backwards && i.mask != kNone ? reversed({Dtype::Bool, i.type.lanes}, mask(i)) : mask(i);
      if (i.mask != kNone) return masked_store(i, value, first, on);
      if (i.streaming && can_stream(i, first)) return streaming_store(i, value, first);
      return plain_store(i, value, address(i, first), alignment(i, first), "");
    }
    scatter_to(i, value, strided_places(i, index));
  }

  /// Where the mask is off a scalar goes to a place of our own that nobody reads.
  void store_scalar(const Instruction& i, const LlvmValue& value, const LlvmValue& at, int64_t align) {
    if (i.mask == kNone) return plain_store(i, value, at, align, "");
    const LlvmValue on = mask(i);
    const LlvmValue to = w_.pure(std::max(on.level, at.level),
                                 fmt::format("select i1 {}, ptr {}, ptr %unread", on.text, at.text));
    plain_store(i, value, to, align, "");
  }

  void masked_store(const Instruction& i, const LlvmValue& value, const Expression& index,
                    const LlvmValue& on) {
    const Type t = memory_type(i.type);
    const std::string type = type_text(t);
    const std::string name = declare_(fmt::format("llvm.masked.store.{}.p0", mangled(t)), "void",
                                      fmt::format("{}, ptr, i32, <{} x i1>", type, t.lanes));
    w_.statement(fmt::format("call void {}({} {}, ptr {}, i32 {}, <{} x i1> {}){}", name, type, value.text,
                             address(i, index).text, alignment(i, index), t.lanes, on.text,
                             aliases_.of(i.buffer)));
  }

  // Streaming stores must be aligned to a register: the index is, and whether the buffer is shows at run
  // time.
  [[nodiscard]] int64_t streaming_bytes(const Instruction& i) const {
    return std::min<int64_t>(options_.vector_bytes, i.type.lanes * element_bytes(i.type.dtype));
  }
  [[nodiscard]] bool can_stream(const Instruction& i, const Expression& index) const {
    const int64_t bytes = streaming_bytes(i);
    return bytes >= 16 && (bytes & (bytes - 1)) == 0 &&
           (index.divisor() * element_bytes(i.type.dtype)) % bytes == 0;
  }
  void streaming_store(const Instruction& i, const LlvmValue& value, const Expression& index) {
    streams_ = true;
    const int64_t bytes = streaming_bytes(i);
    if (alignment(i, index) >= bytes)  // workspace
      return plain_store(i, value, address(i, index), bytes, aliases_.streaming());
    const LlvmValue& base = bases_[static_cast<size_t>(i.buffer)];
    const LlvmValue number = w_.pure(base.level, fmt::format("ptrtoint ptr {} to i64", base.text));
    const LlvmValue rest = w_.pure(base.level, fmt::format("and i64 {}, {}", number.text, bytes - 1));
    const LlvmValue aligned = w_.pure(base.level, fmt::format("icmp eq i64 {}, 0", rest.text));
    const LlvmValue at = address(i, index);
    const std::string past = w_.fresh_label(), plain = w_.fresh_label(), join = w_.fresh_label();
    w_.statement(fmt::format("br i1 {}, label %{}, label %{}", aligned.text, past, plain));
    w_.label(past);
    plain_store(i, value, at, bytes, aliases_.streaming());
    w_.statement("br label %" + join);
    w_.label(plain);
    plain_store(i, value, at, alignment(i, index), "");
    w_.statement("br label %" + join);
    w_.label(join);
  }

  void scatter_to(const Instruction& i, const LlvmValue& value, const LlvmValue& places) {
    const Type t = memory_type(i.type);
    const std::string type = type_text(t);
    const std::string name =
        declare_(fmt::format("llvm.masked.scatter.{}.v{}p0", mangled(t), t.lanes), "void",
                 fmt::format("{0}, <{1} x ptr>, i32, <{1} x i1>", type, t.lanes));
    w_.statement(fmt::format("call void {0}({1} {2}, <{3} x ptr> {4}, i32 {5}, <{3} x i1> {6}){7}", name,
                             type, value.text, t.lanes, places.text, alignment(i, 1), mask(i).text,
                             aliases_.of(i.buffer)));
  }

  void scatter(const Instruction& i) {
    const LlvmValue value = to_memory(i, values_[i.operands[0]]);
    const LlvmValue places = places_of(i, values_[i.operands[1]]);
    if (i.type.lanes == 1) return store_scalar(i, value, places, alignment(i, 1));
    scatter_to(i, value, places);
  }

  void prefetch(const Instruction& i) {
    // For reading, into the first cache.
    const std::string name = declare_("llvm.prefetch.p0", "void", "ptr, i32 immarg, i32 immarg, i32 immarg");
    w_.statement(
        fmt::format("call void {}(ptr {}, i32 0, i32 3, i32 1)", name, address(i, formula(i.index)).text));
  }

  // --- loops and branches ---

  void loop(const Instruction& i) {
    const Expression extent = formula(i.extent);
    const std::optional<int64_t> count = extent.constant();
    if (count && (i.loop == LoopKind::Unrolled || *count <= 1)) return unrolled(i, *count);
    const bool some = extent.range().min >= 1;  // at least one iteration
    const int certain_outside = certain_;
    const LlvmValue limit = indices_.value(extent);
    const size_t head = w_.reserve();
    const std::string before = w_.block(), body = w_.fresh_label(), exit = w_.fresh_label();
    const std::string variable = w_.fresh_name(), next = w_.fresh_name();
    std::string phis;
    w_.open(body);
    if (!some) certain_ = w_.level();
    std::vector<std::string> carried;
    for (const Id id : i.carried) {
      carried.push_back(w_.fresh_name());
      values_[id] = {carried.back(), w_.level()};
    }
    indices_.variables[i.variable] = {variable, w_.level()};
    remember_variable(i, extent);
    block(i.body);
    w_.statement(fmt::format("{} = add nuw nsw i64 {}, 1", next, variable));
    const LlvmValue again = w_.here(fmt::format("icmp slt i64 {}, {}", next, limit.text));
    w_.statement(fmt::format("br i1 {}, label %{}, label %{}", again.text, body, exit));
    const std::string latch = w_.block();
    for (size_t k = 0; k < i.carried.size(); ++k)
      phis +=
          fmt::format("  {} = phi {} [ {}, %{} ], [ {}, %{} ]\n", carried[k], type_text(type(i.carried[k])),
                      values_[i.initial[k]].text, before, values_[i.next[k]].text, latch);
    w_.fill(head, fmt::format("{0}{1}:\n  {2} = phi i64 [ 0, %{3} ], [ {4}, %{5} ]\n{6}",
                              enter(some, limit, body, exit), body, variable, before, next, latch, phis));
    w_.close(exit);
    certain_ = certain_outside;
    leave(i, some, before, latch);
  }

  std::string enter(bool some, const LlvmValue& limit, const std::string& body, const std::string& exit) {
    if (some) return fmt::format("  br label %{}\n", body);
    const std::string any = w_.fresh_name();
    return fmt::format("  {} = icmp sgt i64 {}, 0\n  br i1 {}, label %{}, label %{}\n", any, limit.text, any,
                       body, exit);
  }

  void leave(const Instruction& i, bool some, const std::string& before, const std::string& latch) {
    for (size_t k = 0; k < i.results.size(); ++k) {
      const LlvmValue last = values_[i.next[k]];
      if (some)
        values_[i.results[k]] = {last.text, w_.level()};
      else
        values_[i.results[k]] =
            w_.here(fmt::format("phi {} [ {}, %{} ], [ {}, %{} ]", type_text(type(i.results[k])),
                                values_[i.initial[k]].text, before, last.text, latch));
    }
    indices_.variables.erase(i.variable);
  }

  void remember_variable(const Instruction& i, const Expression& extent) {
    originals_[i.variable] =
        Expression::index(i.variable, extent.to_indices().empty() ? extent : Expression(extent.range().max));
    refresh_substitution();
  }
  void refresh_substitution() {
    substitution_.clear();
    for (int v = 0; v < stage_.variable_count; ++v) {
      const auto constant = unrolled_.find(v);
      const auto original = originals_.find(v);
      substitution_.push_back(constant != unrolled_.end()    ? Expression(constant->second)
                              : original != originals_.end() ? original->second
                                                             : Expression(0));
    }
  }

  void unrolled(const Instruction& i, int64_t count) {
    const auto copy = [&](const std::vector<Id>& to, const std::vector<Id>& from) {
      std::vector<LlvmValue> moved;
      for (const Id id : from) moved.push_back(values_[id]);
      for (size_t k = 0; k < to.size(); ++k) values_[to[k]] = moved[k];
    };
    copy(i.results, i.initial);
    for (int64_t n = 0; n < count; ++n) {
      copy(i.carried, i.results);
      unrolled_[i.variable] = n;
      refresh_substitution();
      block(i.body);
      copy(i.results, i.next);
    }
    unrolled_.erase(i.variable);
    refresh_substitution();
  }

  void branch(const Instruction& i) {
    // The branch itself is reserved: what is hoisted from the body still comes before it.
    const size_t head = w_.reserve();
    const std::string body = w_.fresh_label(), exit = w_.fresh_label();
    w_.fill(head, fmt::format("  br i1 {0}, label %{1}, label %{2}\n{1}:\n", values_[i.operands[0]].text,
                              body, exit));
    w_.open(body);
    const int certain_outside = std::exchange(certain_, w_.level());
    block(i.body);
    certain_ = certain_outside;
    w_.statement("br label %" + exit);
    w_.close(exit);
  }

  const Program& program_;
  const Stage& stage_;
  const LlvmOptions& options_;
  Declarations& declare_;
  const AliasScopes& aliases_;
  Writer w_;
  Arithmetic arithmetic_;
  Indices indices_;
  std::vector<LlvmValue> values_;
  std::vector<std::optional<uint64_t>> constants_;
  std::vector<Id> uniform_;  ///< of a mask that is off where this scalar is false; kNone: not known
  std::vector<LlvmValue> bases_;
  std::map<int, int64_t> unrolled_;       ///< variables of unrolled loops and their values now
  std::map<int, Expression> originals_;   ///< variables of the other open loops
  std::vector<Expression> substitution_;  ///< by variable
  bool streams_ = false, uses_zeros_ = false;
  static constexpr int kTaskLevel = 1;  ///< of the writer's scopes
  int certain_ = kTaskLevel;  ///< the outermost scope from which the statement at hand is reached for certain
};

}  // namespace
}  // namespace llvm_text

std::string stage_symbol(const Program& program, size_t stage) {
  return fmt::format("{}_stage{}", program.name, stage);
}

namespace llvm_text {
namespace {

std::string tables_of(const Program& program) {
  std::string text;
  for (size_t k = 0; k < program.buffers.size(); ++k) {
    const Buffer& b = program.buffers[k];
    if (b.space != Space::Table) continue;
    text += fmt::format("@{} = internal constant [{} x i32] [", table_symbol(program, k), b.values.size());
    for (size_t j = 0; j < b.values.size(); ++j)
      text += fmt::format("{}i32 {}", j == 0 ? "" : ", ", b.values[j]);
    text += "], align 64\n";
  }
  return text;
}

}  // namespace
}  // namespace llvm_text

std::string emit_llvm(const Program& program, const LlvmOptions& options) {
  verify(program);
  for (const Stage& stage : program.stages)
    if (stage.threads > 1)
      throw InternalError(
          fmt::format("[llvm] {} runs tasks by blocks of {} threads, which a processor's threads are not",
                      program.name, stage.threads));
  llvm_text::Declarations declarations;
  const llvm_text::AliasScopes aliases(program);
  std::string functions;
  bool zeros = false;
  for (size_t s = 0; s < program.stages.size(); ++s) {
    llvm_text::StageText text(program, s, options, declarations, aliases);
    functions += text.run(stage_symbol(program, s));
    zeros = zeros || text.uses_zeros();
  }
  return fmt::format(
      "{}{}{}{}\nattributes #0 = {{ nounwind {} }}\n\n{}",
      zeros ? "@luminal_zeros = internal constant [64 x i8] zeroinitializer, align 64\n\n" : "",
      llvm_text::tables_of(program), functions, declarations.text(), options.attributes, aliases.text());
}

}  // namespace luminal::codegen
