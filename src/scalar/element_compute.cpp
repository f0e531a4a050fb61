#include <fmt/format.h>

#include "base/fail.h"
#include "scalar/element.h"
#include "scalar/element_loops.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

using namespace element;

/// Null where the operation has no meaning on T.
template <class F, class T>
ScalarKernel unary() {
  if constexpr (requires(T a) { F::apply(a); })
    return Loop<F, T, T>::kernel();
  else
    return nullptr;
}
template <class F, class T>
ScalarKernel binary() {
  if constexpr (requires(T a) { F::apply(a, a); })
    return Loop<F, T, T, T>::kernel();
  else
    return nullptr;
}
template <class F, class T>
ScalarKernel ternary() {
  if constexpr (requires(T a) { F::apply(a, a, a); })
    return Loop<F, T, T, T, T>::kernel();
  else
    return nullptr;
}

template <class T>
ScalarKernel kernel_of(ScalarOp op) {
  switch (op) {
    case ScalarOp::Div:
      return binary<Div, T>();
    case ScalarOp::Fma:
      return ternary<Fma, T>();
    case ScalarOp::Sqrt:
      return unary<Sqrt, T>();
    case ScalarOp::Floor:
      return unary<Floor, T>();
    case ScalarOp::RoundEven:
      return unary<RoundEven, T>();
    case ScalarOp::Remainder:
      return binary<Remainder, T>();
    case ScalarOp::Add:
      return binary<Add, T>();
    case ScalarOp::Sub:
      return binary<Sub, T>();
    case ScalarOp::Mul:
      return binary<Mul, T>();
    case ScalarOp::Neg:
      return unary<Neg, T>();
    case ScalarOp::Abs:
      return unary<Abs, T>();
    case ScalarOp::Minimum:
      return binary<Minimum, T>();
    case ScalarOp::Maximum:
      return binary<Maximum, T>();
    case ScalarOp::FloorDiv:
      return binary<FloorDiv, T>();
    case ScalarOp::FloorMod:
      return binary<FloorMod, T>();
    case ScalarOp::ShiftLeft:
      return binary<ShiftLeft, T>();
    case ScalarOp::ShiftRightLogical:
      return binary<ShiftRightLogical, T>();
    case ScalarOp::ShiftRightArithmetic:
      return binary<ShiftRightArithmetic, T>();
    case ScalarOp::And:
      return binary<And, T>();
    case ScalarOp::Or:
      return binary<Or, T>();
    case ScalarOp::Xor:
      return binary<Xor, T>();
    case ScalarOp::Not:
      return unary<Not, T>();
    case ScalarOp::Input:
    case ScalarOp::Constant:
    case ScalarOp::Coordinate:
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Eq:
    case ScalarOp::Ne:
    case ScalarOp::Select:
    case ScalarOp::Convert:
    case ScalarOp::Bitcast:
      break;  // cast_kernel has those that compute
  }
  return nullptr;
}

/// Bool is a byte that is 0 or 1: all but Not do with it what they do with a u8.
ScalarKernel compute_kernel(ScalarOp op, Dtype type) {
  if (type == Dtype::Bool) return op == ScalarOp::Not ? unary<NotBool, uint8_t>() : kernel_of<uint8_t>(op);
  return visit_dtype(type, [&]<class T>(T) -> ScalarKernel {
    if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
      return kernel_of<T>(op);
    else
      return nullptr;
  });
}

}  // namespace

ScalarKernel element_kernel(ScalarOp op, Dtype result, Dtype operand) {
  ScalarKernel kernel = cast_kernel(op, result, operand);
  if (kernel == nullptr) kernel = compute_kernel(op, operand);
  LUMINAL_CHECK(kernel != nullptr, "{} of {} giving {}", name(op), name(operand), name(result));
  return kernel;
}

namespace {

std::string nan_text(uint64_t bits, uint64_t plain) {
  return bits == plain ? "nan" : fmt::format("nan:{:#x}", bits);
}

}  // namespace

std::string element_text(Dtype dtype, uint64_t bits) {
  if (dtype == Dtype::Bool) return bits != 0 ? "true" : "false";
  return visit_dtype(dtype, [&]<class T>(T) -> std::string {
    if constexpr (is_stored_float<T>) {
      T half;
      half.bits = static_cast<uint16_t>(bits);
      const auto value = static_cast<float>(half);  // exact, so its text reads back to the half
      return std::isnan(value) ? nan_text(bits, T(std::numeric_limits<float>::quiet_NaN()).bits)
                               : fmt::format("{}", value);
    } else if constexpr (std::is_floating_point_v<T>) {
      const T value = std::bit_cast<T>(static_cast<BitsOf<T>>(bits));
      if (!std::isnan(value)) return fmt::format("{}", value);
      return nan_text(bits, std::bit_cast<BitsOf<T>>(std::numeric_limits<T>::quiet_NaN()));
    } else {
      return fmt::format("{}", static_cast<int64_t>(static_cast<T>(bits)));
    }
  });
}

}  // namespace luminal
