#include "scalar/fold.h"

#include <cmath>

#include "scalar/element.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

/// Pattern helpers over one node whose constants stand on the right.
class Folder {
 public:
  Folder(ScalarBuilder& b, const ScalarNode& node)
      : b_(b), n_(node), x_(node.operands[0]), y_(node.operands[1]), z_(node.operands[2]) {}

  [[nodiscard]] std::optional<Scalar> run() {
    if (arity(n_.op) == 0) return std::nullopt;
    if (const auto value = constant_result()) return value;
    switch (n_.op) {
      case ScalarOp::Add:
        return add();
      case ScalarOp::Sub:
        return sub();
      case ScalarOp::Mul:
        return mul();
      case ScalarOp::Div:
        return is(y_, 1) ? std::optional(x_) : std::nullopt;
      case ScalarOp::Fma:
        return fma();
      case ScalarOp::Neg:
        return inner(ScalarOp::Neg);
      case ScalarOp::Abs:
        return abs();
      case ScalarOp::Minimum:
      case ScalarOp::Maximum:
        return same() ? std::optional(x_) : std::nullopt;
      case ScalarOp::FloorDiv:
        return is(y_, 1) ? std::optional(x_) : std::nullopt;
      case ScalarOp::FloorMod:
        return is(y_, 1) ? std::optional(zero()) : std::nullopt;
      case ScalarOp::ShiftLeft:
      case ScalarOp::ShiftRightLogical:
      case ScalarOp::ShiftRightArithmetic:
        return is_bits(y_, 0) ? std::optional(x_) : std::nullopt;
      case ScalarOp::And:
      case ScalarOp::Or:
        return and_or();
      case ScalarOp::Xor:
        return exclusive_or();
      case ScalarOp::Not:
        return negation();
      case ScalarOp::Lt:
      case ScalarOp::Le:
      case ScalarOp::Eq:
      case ScalarOp::Ne:
        return compare();
      case ScalarOp::Select:
        return select();
      case ScalarOp::Convert:
        return convert();
      case ScalarOp::Bitcast:
        return bitcast();
      case ScalarOp::Input:
      case ScalarOp::Constant:
      case ScalarOp::Coordinate:
      case ScalarOp::Sqrt:
      case ScalarOp::Floor:
      case ScalarOp::RoundEven:
      case ScalarOp::Remainder:
        break;
    }
    return std::nullopt;
  }

 private:
  using Result = std::optional<Scalar>;

  [[nodiscard]] bool same() const { return x_ == y_; }
  [[nodiscard]] bool real() const { return is_real(n_.dtype); }
  [[nodiscard]] Scalar zero() { return b_.constant_bits(n_.dtype, 0); }
  [[nodiscard]] uint64_t ones() const { return n_.dtype == Dtype::Bool ? 1 : width_mask(n_.dtype); }
  [[nodiscard]] bool is_bits(Scalar s, uint64_t bits) const {
    return b_.is_constant(s) && b_[s].payload == bits;
  }
  /// Whether `s` is the constant `value` (+0 for 0).
  [[nodiscard]] bool is(Scalar s, double value) const {
    return b_.is_constant(s) && b_[s].payload == bits_of(b_.dtype(s), value);
  }
  [[nodiscard]] bool is_op(Scalar s, ScalarOp op) const { return b_[s].op == op; }
  [[nodiscard]] Scalar inside(Scalar s) const { return b_[s].operands[0]; }
  [[nodiscard]] Scalar make(ScalarOp op, Scalar a, Scalar b = {}) {
    return b_.make({.op = op, .dtype = n_.dtype, .operands = {a, b, Scalar{}}});
  }
  /// op(op(x)) = x
  [[nodiscard]] Result inner(ScalarOp op) const { return is_op(x_, op) ? Result(inside(x_)) : std::nullopt; }

  [[nodiscard]] Result constant_result() {
    uint64_t values[3] = {0, 0, 0};
    const int count = arity(n_.op);
    for (int k = 0; k < count; ++k) {
      const ScalarNode& operand = b_[n_.operands[static_cast<size_t>(k)]];
      if (operand.op != ScalarOp::Constant) return std::nullopt;
      values[k] = operand.payload;
    }
    uint64_t result = 0;  // little-endian hosts: the low bytes come first
    element_kernel(n_.op, n_.dtype, b_.dtype(x_))(1, &result, &values[0], &values[1], &values[2]);
    const bool moves_bits = n_.op == ScalarOp::Select || n_.op == ScalarOp::Bitcast;
    return b_.constant_bits(n_.dtype, moves_bits ? result : one_nan(result));
  }
  /// Machines make different NaNs; a folded one is always the positive quiet one.
  [[nodiscard]] uint64_t one_nan(uint64_t bits) const {
    if (n_.dtype == Dtype::F32)
      return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits))) ? 0x7fc00000 : bits;
    if (n_.dtype == Dtype::F64) return std::isnan(std::bit_cast<double>(bits)) ? 0x7ff8000000000000 : bits;
    return bits;
  }

  [[nodiscard]] Result add() {
    if (is(y_, real() ? -0.0 : 0.0)) return x_;  // x + (+0) would turn -0 into +0
    if (is(y_, 0.0) && is_op(x_, ScalarOp::Add) && is(b_[x_].operands[1], 0.0)) return x_;  // has no -0 left
    if (is_op(y_, ScalarOp::Neg)) return make(ScalarOp::Sub, x_, inside(y_));
    if (is_op(x_, ScalarOp::Neg)) return make(ScalarOp::Sub, y_, inside(x_));
    return std::nullopt;
  }
  [[nodiscard]] Result sub() {
    if (is(y_, 0.0)) return x_;
    if (same() && !real()) return zero();
    if (is_op(y_, ScalarOp::Neg)) return make(ScalarOp::Add, x_, inside(y_));
    return std::nullopt;
  }
  [[nodiscard]] Result mul() {
    if (is(y_, 1)) return x_;
    if (is(y_, -1) && is_signed(n_.dtype)) return make(ScalarOp::Neg, x_);
    if (!real() && is(y_, 0)) return y_;
    return std::nullopt;
  }
  [[nodiscard]] Result fma() {
    if (is(y_, 1)) return make(ScalarOp::Add, x_, z_);
    if (is(z_, -0.0)) return make(ScalarOp::Mul, x_, y_);
    return std::nullopt;
  }
  [[nodiscard]] Result abs() {
    if (is_op(x_, ScalarOp::Abs) || !is_signed(n_.dtype)) return x_;
    return is_op(x_, ScalarOp::Neg) ? Result(make(ScalarOp::Abs, inside(x_))) : std::nullopt;
  }
  [[nodiscard]] Result and_or() {
    if (same()) return x_;
    const bool conjunction = n_.op == ScalarOp::And;
    if (is_bits(y_, 0)) return conjunction ? y_ : x_;
    if (is_bits(y_, ones())) return conjunction ? x_ : y_;
    return std::nullopt;
  }
  [[nodiscard]] Result exclusive_or() {
    if (same()) return zero();
    if (is_bits(y_, 0)) return x_;
    return is_bits(y_, ones()) ? Result(make(ScalarOp::Not, x_)) : std::nullopt;
  }
  [[nodiscard]] Result negation() {
    if (is_op(x_, ScalarOp::Not)) return inside(x_);
    const ScalarNode compared = b_[x_];  // a copy: making a node may move the others
    if (compared.op == ScalarOp::Eq) return make(ScalarOp::Ne, compared.operands[0], compared.operands[1]);
    if (compared.op == ScalarOp::Ne) return make(ScalarOp::Eq, compared.operands[0], compared.operands[1]);
    return std::nullopt;
  }
  [[nodiscard]] Result compare() {
    if (!same()) return std::nullopt;
    if (n_.op == ScalarOp::Lt) return b_.constant(Dtype::Bool, 0);
    if (is_real(b_.dtype(x_))) return std::nullopt;  // a NaN is not equal to itself
    return b_.constant(Dtype::Bool, n_.op == ScalarOp::Ne ? 0 : 1);
  }
  [[nodiscard]] Result select() {
    if (b_.is_constant(x_)) return b_[x_].payload != 0 ? y_ : z_;
    if (y_ == z_) return y_;
    if (is_op(x_, ScalarOp::Not)) return b_.select(inside(x_), z_, y_);
    if (n_.dtype == Dtype::Bool && is_bits(y_, 1) && is_bits(z_, 0)) return x_;
    return std::nullopt;
  }
  [[nodiscard]] Result convert() {
    if (!is_op(x_, ScalarOp::Convert)) return std::nullopt;
    const Scalar source = inside(x_);
    const Dtype from = b_.dtype(source);
    if (!holds(b_.dtype(x_), from)) return std::nullopt;
    if (from == n_.dtype) return source;  // there and back
    const bool by_way_of_f32 = is_half(from) || is_half(n_.dtype);
    // A float saturates where an integer wraps.
    const bool saturates = is_real(b_.dtype(x_)) && is_integer(from) && is_integer(n_.dtype);
    if (saturates && !holds(n_.dtype, from)) return std::nullopt;
    return by_way_of_f32 ? std::nullopt : Result(make(ScalarOp::Convert, source));
  }
  [[nodiscard]] Result bitcast() {
    if (!is_op(x_, ScalarOp::Bitcast)) return std::nullopt;
    return b_.bitcast(inside(x_), n_.dtype);
  }

  ScalarBuilder& b_;
  const ScalarNode& n_;
  Scalar x_, y_, z_;
};

}  // namespace

std::optional<Scalar> fold(ScalarBuilder& b, const ScalarNode& node) { return Folder(b, node).run(); }

}  // namespace luminal
