#include "luminal/scalar.h"

#include <algorithm>
#include <array>

#include "base/fail.h"
#include "base/hash.h"
#include "scalar/element.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

using scalar_ops::Group;

bool group_takes(Group group, Dtype d) {
  switch (group) {
    case Group::Real:
      return is_real(d);
    case Group::Number:
      return is_real(d) || is_integer(d);
    case Group::Integer:
      return is_integer(d);
    case Group::Bits:
      return is_integer(d) || d == Dtype::Bool;
    case Group::NumberOrBool:
    case Group::Compare:
      return is_real(d) || is_integer(d) || d == Dtype::Bool;
    case Group::Leaf:
    case Group::Select:
    case Group::Convert:
    case Group::Bitcast:
      break;  // have rules of their own
  }
  return false;
}

std::string leaf_problem(const ScalarNode& n) {
  if (n.op == ScalarOp::Coordinate && n.dtype != Dtype::I64) return "a coordinate is i64";
  if (n.op != ScalarOp::Constant)
    return n.payload > 0x7fffffff ? fmt::format("number {} is out of range", n.payload) : std::string();
  const uint64_t most = n.dtype == Dtype::Bool ? 1 : width_mask(n.dtype);
  return n.payload > most ? fmt::format("constant bits {:#x} do not fit", n.payload) : std::string();
}

std::string cast_problem(const ScalarNode& n, Dtype from) {
  if (n.dtype == from) return "the types are equal";
  if (n.op == ScalarOp::Bitcast)
    return width_bits(n.dtype) != width_bits(from) || n.dtype == Dtype::Bool || from == Dtype::Bool
               ? "needs two types of one size, not bool"
               : "";
  const bool by_way_of_f32 =
      (is_half(from) && n.dtype != Dtype::F32) || (is_half(n.dtype) && from != Dtype::F32);
  return by_way_of_f32 ? "f16 and bf16 convert to and from f32 only" : "";
}

/// Writes the lower bytes of `value` at `at`, which moves on.
void put_little_endian(char*& at, uint64_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<char>(value >> (8 * i));
  at += bytes;
}

std::string node_text(std::span<const ScalarNode> nodes, size_t index) {
  const ScalarNode& n = nodes[index];
  std::string text = fmt::format("%{} = {} {}", index, name(n.dtype), name(n.op));
  if (n.op == ScalarOp::Constant) return text + " " + element_text(n.dtype, n.payload);
  if (arity(n.op) == 0) return text + fmt::format(" {}", n.payload);
  for (int i = 0; i < arity(n.op); ++i) text += fmt::format(" %{}", n.operands[static_cast<size_t>(i)].index);
  return text;
}

}  // namespace

std::string type_problem(const ScalarNode& n, const OperandTypes& t) {
  const scalar_ops::Facts& op = scalar_ops::facts(n.op);
  if (is_quantized(n.dtype)) return "block-quantised types have no single elements to compute with";
  if (op.group == Group::Leaf) return leaf_problem(n);
  if (n.payload != 0) return "only leaves have a payload";
  if (op.group == Group::Convert || op.group == Group::Bitcast) return cast_problem(n, t[0]);
  if (op.group == Group::Select)
    return t[0] == Dtype::Bool && t[1] == n.dtype && t[2] == n.dtype
               ? ""
               : "takes a bool and two values of the result's type";
  for (int i = 1; i < op.arity; ++i)
    if (t[static_cast<size_t>(i)] != t[0]) return "the operands differ in type";
  if (!group_takes(op.group, t[0])) return fmt::format("{} is no type it computes on", name(t[0]));
  const Dtype result = op.group == Group::Compare ? Dtype::Bool : t[0];
  return n.dtype == result ? "" : fmt::format("the result is {}", name(result));
}

void verify(std::span<const ScalarNode> nodes, std::span<const Scalar> outputs) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const ScalarNode& n = nodes[i];
    if (static_cast<int>(n.op) >= kScalarOpCount)
      throw InternalError(
          fmt::format("[scalar] node %{}: op number {} is unknown", i, static_cast<int>(n.op)));
    OperandTypes types{};
    for (size_t k = 0; k < 3; ++k) {
      const Scalar operand = n.operands[k];
      const bool used = static_cast<int>(k) < arity(n.op);
      if (used && operand.index >= i)
        throw InternalError(fmt::format("[scalar] node %{} ({}): operand {} is not an earlier node", i,
                                        name(n.op), operand.index));
      if (!used && operand != Scalar{})
        throw InternalError(fmt::format("[scalar] node %{} ({}): takes {} operands, more are set", i,
                                        name(n.op), arity(n.op)));
      if (used) types[k] = nodes[operand.index].dtype;
    }
    if (const std::string problem = type_problem(n, types); !problem.empty())
      throw InternalError(fmt::format("[scalar] {}: {}", node_text(nodes, i), problem));
  }
  for (const Scalar s : outputs)
    if (s.index >= nodes.size())
      throw InternalError(
          fmt::format("[scalar] output %{} is not a node; there are {}", s.index, nodes.size()));
}

namespace {

constexpr size_t kMostNodeBytes = 14;  // of one node: op, dtype and three operands

// Layout: u32 node count, u32 output count; per node u8 op, u8 dtype, u32 per operand, u64 payload of a leaf;
// u32 per output. Ops and dtypes are written by number: append new ones at the end of their enums, or stored
// hashes change meaning.
void write_bytes(std::span<const ScalarNode> nodes, std::span<const Scalar> outputs, std::string& out) {
  out.resize(8 + kMostNodeBytes * nodes.size() + 4 * outputs.size());
  char* at = out.data();
  put_little_endian(at, nodes.size(), 4);
  put_little_endian(at, outputs.size(), 4);
  for (const ScalarNode& n : nodes) {
    put_little_endian(at, static_cast<uint64_t>(n.op), 1);
    put_little_endian(at, static_cast<uint64_t>(n.dtype), 1);
    const int count = arity(n.op);
    for (int i = 0; i < count; ++i) put_little_endian(at, n.operands[static_cast<size_t>(i)].index, 4);
    if (count == 0) put_little_endian(at, n.payload, 8);
  }
  for (const Scalar s : outputs) put_little_endian(at, s.index, 4);
  out.resize(static_cast<size_t>(at - out.data()));
}

/// Bodies are made by the thousand: their bytes are written into the same memory.
uint64_t hash_of_bytes(std::span<const ScalarNode> nodes, std::span<const Scalar> outputs) {
  static thread_local std::string bytes;
  write_bytes(nodes, outputs, bytes);
  return hash_bytes(bytes);
}

}  // namespace

ScalarFunction::ScalarFunction(std::vector<ScalarNode> nodes, std::vector<Scalar> outputs)
    : ScalarFunction(Checked{}, std::move(nodes), std::move(outputs)) {
  verify(nodes_, outputs_);
}

ScalarFunction::ScalarFunction(Checked /*unused*/, std::vector<ScalarNode> nodes, std::vector<Scalar> outputs)
    : nodes_(std::move(nodes)), outputs_(std::move(outputs)) {
  hash_ = hash_of_bytes(nodes_, outputs_);
  cost_.nodes = static_cast<int>(nodes_.size());
  for (const ScalarNode& n : nodes_) cost_.add(n.op);
}

int ScalarFunction::input_count() const {
  uint64_t count = 0;
  for (const ScalarNode& n : nodes_)
    if (n.op == ScalarOp::Input) count = std::max(count, n.payload + 1);
  return static_cast<int>(count);
}

int ScalarFunction::coordinate_count() const {
  uint64_t count = 0;
  for (const ScalarNode& n : nodes_)
    if (n.op == ScalarOp::Coordinate) count = std::max(count, n.payload + 1);
  return static_cast<int>(count);
}

std::string ScalarFunction::to_bytes() const {
  std::string out;
  write_bytes(nodes_, outputs_, out);
  return out;
}

std::string ScalarFunction::to_string() const {
  std::string out;
  for (size_t i = 0; i < nodes_.size(); ++i) out += node_text(nodes_, i) + "\n";
  out += "return";
  for (const Scalar s : outputs_) out += fmt::format(" %{}", s.index);
  return out + "\n";
}

}  // namespace luminal
