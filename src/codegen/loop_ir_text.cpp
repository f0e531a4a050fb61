#include <fmt/format.h>

#include "base/hash.h"
#include "codegen/loop_ir.h"
#include "scalar/element.h"

/// Loop IR as text for people.
namespace luminal::codegen {
namespace {

using Kind = Instruction::Kind;

std::string text_of(Type t) {
  return t.lanes == 1 ? std::string(name(t.dtype)) : fmt::format("{}x{}", name(t.dtype), t.lanes);
}

std::string list(std::span<const Id> ids) {
  std::string text;
  for (const Id id : ids) text += fmt::format("{}%{}", text.empty() ? "" : " ", id);
  return text;
}

class Printer {
 public:
  explicit Printer(const Program& program) : program_(program) {}

  void block(const Block& b, int indent) {
    for (const Instruction& i : b) instruction(i, indent);
  }
  std::string out;

 private:
  [[nodiscard]] std::string place(const Instruction& i) const {
    const std::string& buffer = program_.buffers.at(static_cast<size_t>(i.buffer)).name;
    const bool by_lane = i.kind == Kind::Gather || i.kind == Kind::Scatter;
    std::string text = by_lane ? fmt::format("{}[%{}]", buffer, i.operands.back())
                               : fmt::format("{}[{}]", buffer, i.index.to_string());
    if (!by_lane && i.type.lanes > 1 && i.stride != 1) text += fmt::format(" stride {}", i.stride);
    return text;
  }
  static std::string mask(const Instruction& i) {
    return i.mask == kNone ? "" : fmt::format(" mask %{}", i.mask);
  }

  [[nodiscard]] std::string right_side(const Instruction& i) const {
    switch (i.kind) {
      case Kind::Compute:
        if (i.op == ScalarOp::Constant) return "constant " + element_text(i.type.dtype, i.bits);
        return fmt::format("{} {}", name(i.op), list(i.operands));
      case Kind::Index:
        return "index " + i.index.to_string();
      case Kind::Lanes:
        return i.pattern.empty() ? "lanes" : fmt::format("lanes [{}]", fmt::join(i.pattern, " "));
      case Kind::LaneMask:
        return "lanes < " + i.index.to_string();
      case Kind::Broadcast:
        return "broadcast " + list(i.operands);
      case Kind::Shuffle: {
        std::string pattern;
        for (const int p : i.pattern) pattern += fmt::format("{}{}", pattern.empty() ? "" : " ", p);
        return fmt::format("shuffle {} by [{}]", list(i.operands), pattern);
      }
      case Kind::Permute:
        return fmt::format("permute {}", list(i.operands));
      case Kind::Dot4:
        return fmt::format("dot4 {}", list(i.operands));
      case Kind::Reduce:
        return fmt::format("reduce {} {}", name(i.op), list(i.operands));
      case Kind::Gather:
        return "gather " + place(i) + mask(i);
      case Kind::Load:
        return "load " + place(i) + mask(i);
      case Kind::Store:
      case Kind::Scatter:
      case Kind::Prefetch:
      case Kind::Loop:
      case Kind::If:
      case Kind::Barrier:
        break;  // define nothing, or several values
    }
    return {};
  }

  void loop(const Instruction& i, int indent) {
    std::string carried;
    for (size_t k = 0; k < i.carried.size(); ++k)
      carried += fmt::format("{}%{} = %{}", k == 0 ? " with " : ", ", i.carried[k], i.initial[k]);
    out += fmt::format("for i{} in {}{}{}:\n", i.variable, i.extent.to_string(),
                       i.loop == LoopKind::Unrolled ? " unrolled" : "", carried);
    block(i.body, indent + 2);
    if (!i.next.empty()) {
      out += fmt::format("{:{}}next {}\n", "", indent + 2, list(i.next));
      out += fmt::format("{:{}}gives {}\n", "", indent, list(i.results));
    }
  }

  void instruction(const Instruction& i, int indent) {
    out.append(static_cast<size_t>(indent), ' ');
    switch (i.kind) {
      case Kind::Loop:
        loop(i, indent);
        break;
      case Kind::If:
        out += fmt::format("if {}:\n", list(i.operands));
        block(i.body, indent + 2);
        break;
      case Kind::Barrier:
        out += "barrier\n";
        break;
      case Kind::Prefetch:
        out += fmt::format("prefetch {}\n", place(i));
        break;
      case Kind::Store:
      case Kind::Scatter:
        out += fmt::format("{} {} = %{}{}{}\n", i.kind == Kind::Store ? "store" : "scatter", place(i),
                           i.operands[0], mask(i), i.streaming ? " streaming" : "");
        break;
      default:
        out += fmt::format("%{} = {} {}\n", i.result, text_of(i.type), right_side(i));
        break;
    }
  }

  const Program& program_;
};

std::string text_of(const Buffer& b) {
  constexpr const char* kSpaces[] = {"slot", "output", "shared", "local", "table", "prepared", "block"};
  std::string space = kSpaces[static_cast<size_t>(b.space)];
  if (b.space == Space::Slot || b.space == Space::Output) space += fmt::format(" {}", b.number);
  // Of a table the hash: the text stands for all of the program.
  if (b.space == Space::Table)
    space += fmt::format(" {:016x}", hash_bytes(b.values.data(), b.values.size_bytes()));
  return fmt::format("{} = {} {}[{}]{}{}", b.name, space, name(b.dtype), b.elements.to_string(),
                     b.is_kept ? " kept" : "", b.is_frozen ? " frozen" : "");
}

}  // namespace

std::string Program::to_string() const {
  Printer p(*this);
  std::string parameters;
  for (const std::string& d : dims) parameters += (parameters.empty() ? "" : ", ") + d;
  p.out = fmt::format("kernel {}({}):\n", name, parameters);
  for (const Buffer& b : buffers) p.out += "  " + text_of(b) + "\n";
  for (size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    p.out += fmt::format("stage {}{}: task i{} in {}", s, stage.prepares ? " (prepares)" : "",
                         stage.task_variable, stage.tasks.to_string());
    if (stage.threads > 1) p.out += fmt::format(", thread i{} in {}", stage.thread_variable, stage.threads);
    p.out += "\n";
    p.block(stage.body, 2);
  }
  if (native) p.out += fmt::format("  {}\n", native->text);
  return p.out;
}

}  // namespace luminal::codegen
