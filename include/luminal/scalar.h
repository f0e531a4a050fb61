#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "luminal/dtype.h"
#include "luminal/scalar_op.h"

/// Scalar IR: what happens to one element, as a typed expression DAG. Every op lowers to it, kernels carry
/// it, an interpreter runs it, and the code generators print it as LLVM IR or C-family text.
///
///   ScalarBuilder b;
///   Scalar x = b.input(0, Dtype::F32), y = b.input(1, Dtype::F32);
///   Scalar two = b.constant(Dtype::F32, 2);
///   ScalarFunction f = b.finish(b.maximum(b.fma(x, two, y), y));
///   assert(f.to_string().starts_with("%0 = f32 input 0\n%1 = f32 constant 2\n"));
///
/// A `Scalar` is an index into the builder that made it. Nodes are hash-consed: the same operation on the
/// same operands is the same node. Building folds constants and the few identities that keep every bit; it
/// never reassociates and never contracts: only an explicit `Fma` rounds once.
///
/// Exactness. Each node's result is fixed to the last bit, on every target, except which NaN a NaN is. Floats
/// follow IEEE 754 with round to nearest even and subnormals kept. F16 and BF16 are storage: nodes only
/// convert them (to and from F32), select them and reinterpret their bits; the builder's arithmetic widens
/// them to F32, computes and rounds once. Integers are two's complement and wrap; U8 is unsigned, the others
/// are signed; Bool is false or true, stored as the byte 0 or 1, false < true. Nothing is undefined.
namespace luminal {

/// Handle of a node: its index in its builder or function.
struct Scalar {
  uint32_t index = ~uint32_t{0};
  friend bool operator==(Scalar, Scalar) = default;
};

struct ScalarNode {
  ScalarOp op = ScalarOp::Constant;
  Dtype dtype = Dtype::F32;          ///< of the result
  std::array<Scalar, 3> operands{};  ///< the first `arity(op)` are set
  uint64_t payload = 0;              ///< slot, axis or bits of a leaf, else 0
  friend bool operator==(const ScalarNode&, const ScalarNode&) = default;
};

/// A finished body: nodes in topological order, operands first, and one or more outputs. Immutable. Numbering
/// is canonical (depth first from the outputs, dead nodes dropped), so equal bodies are equal node for node.
/// Thread safety: any thread may read one.
class ScalarFunction {
 public:
  ScalarFunction() = default;
  /// Checked by `verify`.
  ScalarFunction(std::vector<ScalarNode> nodes, std::vector<Scalar> outputs);
  /// The same, of parts that are known to be right: a builder checks each node when it makes it.
  struct Checked {};
  ScalarFunction(Checked, std::vector<ScalarNode> nodes, std::vector<Scalar> outputs);

  [[nodiscard]] std::span<const ScalarNode> nodes() const { return nodes_; }
  [[nodiscard]] std::span<const Scalar> outputs() const { return outputs_; }
  [[nodiscard]] const ScalarNode& operator[](Scalar s) const { return nodes_[s.index]; }
  /// One more than the highest slot (axis) read; 0 when none is.
  [[nodiscard]] int input_count() const;
  [[nodiscard]] int coordinate_count() const;
  [[nodiscard]] const ScalarCost& cost() const { return cost_; }
  /// Little-endian bytes of all nodes and outputs: equal for equal functions only, the same on every machine.
  [[nodiscard]] std::string to_bytes() const;
  /// 64-bit content hash of `to_bytes`; may be written to files.
  [[nodiscard]] uint64_t hash() const { return hash_; }
  /// One node a line, then the outputs: "%2 = f32 mul %0 %1".
  [[nodiscard]] std::string to_string() const;
  friend bool operator==(const ScalarFunction& a, const ScalarFunction& b) {
    return a.hash_ == b.hash_ && a.nodes_ == b.nodes_ && a.outputs_ == b.outputs_;
  }

 private:
  std::vector<ScalarNode> nodes_;
  std::vector<Scalar> outputs_;
  uint64_t hash_ = 0;
  ScalarCost cost_;
};

/// Checks types, operand order and payloads. Errors: InternalError naming the node and what is wrong with it.
void verify(std::span<const ScalarNode> nodes, std::span<const Scalar> outputs);

/// Builds scalar IR. Operands of a call must come from the same builder. Binary operands must have one dtype:
/// ops promote before they lower. Errors: DtypeError naming the operation and its operand types.
/// Thread safety: one thread at a time.
class ScalarBuilder {
 public:
  [[nodiscard]] Scalar input(int slot, Dtype dtype);
  [[nodiscard]] Scalar coordinate(int axis);
  /// The number as a value of `dtype`, converted as `convert` does from F64 or I64.
  template <class T>
    requires std::floating_point<T> || std::integral<T>
  [[nodiscard]] Scalar constant(Dtype dtype, T value) {
    if constexpr (std::floating_point<T>)
      return real_constant(dtype, static_cast<double>(value));
    else
      return integer_constant(dtype, static_cast<int64_t>(value));
  }
  [[nodiscard]] Scalar constant_bits(Dtype dtype, uint64_t bits);

  [[nodiscard]] Scalar add(Scalar a, Scalar b) { return arithmetic(ScalarOp::Add, a, b); }
  [[nodiscard]] Scalar sub(Scalar a, Scalar b) { return arithmetic(ScalarOp::Sub, a, b); }
  [[nodiscard]] Scalar mul(Scalar a, Scalar b) { return arithmetic(ScalarOp::Mul, a, b); }
  [[nodiscard]] Scalar div(Scalar a, Scalar b) { return arithmetic(ScalarOp::Div, a, b); }
  [[nodiscard]] Scalar fma(Scalar a, Scalar b, Scalar c);
  [[nodiscard]] Scalar neg(Scalar a) { return unary(ScalarOp::Neg, a); }
  [[nodiscard]] Scalar abs(Scalar a) { return unary(ScalarOp::Abs, a); }
  [[nodiscard]] Scalar sqrt(Scalar a) { return unary(ScalarOp::Sqrt, a); }
  [[nodiscard]] Scalar floor(Scalar a) { return unary(ScalarOp::Floor, a); }
  [[nodiscard]] Scalar round_even(Scalar a) { return unary(ScalarOp::RoundEven, a); }
  [[nodiscard]] Scalar minimum(Scalar a, Scalar b) { return arithmetic(ScalarOp::Minimum, a, b); }
  [[nodiscard]] Scalar maximum(Scalar a, Scalar b) { return arithmetic(ScalarOp::Maximum, a, b); }
  /// C's fmod on floats.
  [[nodiscard]] Scalar remainder(Scalar a, Scalar b) { return arithmetic(ScalarOp::Remainder, a, b); }
  /// Integers: the node. Floats: NumPy's floor_divide, made of Remainder; a / b if b is 0.
  [[nodiscard]] Scalar floor_div(Scalar a, Scalar b);
  /// Integers: the node. Floats: NumPy's mod, made of Remainder: sign of b, a zero too; NaN if b is 0.
  [[nodiscard]] Scalar floor_mod(Scalar a, Scalar b);

  /// Integers; `b` has the dtype of `a`. The constant forms take the amount as a number.
  [[nodiscard]] Scalar shift_left(Scalar a, Scalar b) { return arithmetic(ScalarOp::ShiftLeft, a, b); }
  [[nodiscard]] Scalar shift_right_logical(Scalar a, Scalar b) {
    return arithmetic(ScalarOp::ShiftRightLogical, a, b);
  }
  [[nodiscard]] Scalar shift_right_arithmetic(Scalar a, Scalar b) {
    return arithmetic(ScalarOp::ShiftRightArithmetic, a, b);
  }
  [[nodiscard]] Scalar shift_left(Scalar a, int amount) { return shift_left(a, constant(dtype(a), amount)); }
  [[nodiscard]] Scalar shift_right_logical(Scalar a, int amount) {
    return shift_right_logical(a, constant(dtype(a), amount));
  }
  [[nodiscard]] Scalar shift_right_arithmetic(Scalar a, int amount) {
    return shift_right_arithmetic(a, constant(dtype(a), amount));
  }
  [[nodiscard]] Scalar bit_and(Scalar a, Scalar b) { return arithmetic(ScalarOp::And, a, b); }
  [[nodiscard]] Scalar bit_or(Scalar a, Scalar b) { return arithmetic(ScalarOp::Or, a, b); }
  [[nodiscard]] Scalar bit_xor(Scalar a, Scalar b) { return arithmetic(ScalarOp::Xor, a, b); }
  [[nodiscard]] Scalar bit_not(Scalar a) { return unary(ScalarOp::Not, a); }

  [[nodiscard]] Scalar lt(Scalar a, Scalar b) { return compare(ScalarOp::Lt, a, b); }
  [[nodiscard]] Scalar le(Scalar a, Scalar b) { return compare(ScalarOp::Le, a, b); }
  [[nodiscard]] Scalar gt(Scalar a, Scalar b) { return compare(ScalarOp::Lt, b, a); }
  [[nodiscard]] Scalar ge(Scalar a, Scalar b) { return compare(ScalarOp::Le, b, a); }
  [[nodiscard]] Scalar eq(Scalar a, Scalar b) { return compare(ScalarOp::Eq, a, b); }
  [[nodiscard]] Scalar ne(Scalar a, Scalar b) { return compare(ScalarOp::Ne, a, b); }
  [[nodiscard]] Scalar select(Scalar condition, Scalar if_true, Scalar if_false);

  /// By value. To a float: nearest, ties to even; overflow is an infinity. To an integer from a float: toward
  /// zero, saturating, NaN gives 0. Between integers: wraps. To Bool: a != 0 (NaN is true). From Bool: 0
  /// or 1. F16 and BF16 go by way of F32, which from F64 and I64 rounds twice, as PyTorch does.
  [[nodiscard]] Scalar convert(Scalar a, Dtype to);
  /// The same bits as another plain type of the same size (F32 and I32; F64 and I64; F16 and BF16; I8 and
  /// U8).
  [[nodiscard]] Scalar bitcast(Scalar a, Dtype to);

  /// Any node by its op: how generic code builds. Folds as the named calls do; takes no F16 or BF16
  /// arithmetic.
  [[nodiscard]] Scalar make(const ScalarNode& node);
  /// Copies a function's nodes in, its inputs and coordinates replaced; returns its outputs.
  /// Errors: DtypeError if a replacement is missing or has another dtype.
  [[nodiscard]] std::vector<Scalar> inline_function(const ScalarFunction& f, std::span<const Scalar> inputs,
                                                    std::span<const Scalar> coordinates = {});

  [[nodiscard]] const ScalarNode& operator[](Scalar s) const { return nodes_[s.index]; }
  [[nodiscard]] Dtype dtype(Scalar s) const { return nodes_[s.index].dtype; }
  [[nodiscard]] bool is_constant(Scalar s) const { return nodes_[s.index].op == ScalarOp::Constant; }
  [[nodiscard]] size_t size() const { return nodes_.size(); }
  /// The nodes the outputs need, in canonical order.
  [[nodiscard]] ScalarFunction finish(std::span<const Scalar> outputs) const;
  [[nodiscard]] ScalarFunction finish(Scalar output) const { return finish(std::span(&output, 1)); }

 private:
  Scalar real_constant(Dtype dtype, double value);
  Scalar integer_constant(Dtype dtype, int64_t value);
  Scalar unary(ScalarOp op, Scalar a);
  Scalar arithmetic(ScalarOp op, Scalar a, Scalar b);
  Scalar compare(ScalarOp op, Scalar a, Scalar b);
  /// Of a node whose operands and types are known to be right.
  Scalar add_checked(ScalarNode node);
  [[nodiscard]] Scalar find(const ScalarNode& node, uint64_t hash) const;
  void remember(uint32_t index, uint64_t hash);
  /// Room for so many nodes.
  void reserve(size_t nodes);
  void make_table(size_t nodes);

  std::vector<ScalarNode> nodes_;
  std::vector<uint32_t> table_;  ///< open addressing: node + 1, or 0; empty while there are few nodes
};

}  // namespace luminal
