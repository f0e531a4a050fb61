#include "scalar/element.h"
#include "scalar/element_loops.h"
#include "scalar/typing.h"

namespace luminal::element {
namespace {

template <class T>
ScalarKernel compare_kernel(ScalarOp op) {
  switch (op) {
    case ScalarOp::Lt:
      return Loop<Lt, uint8_t, T, T>::kernel();
    case ScalarOp::Le:
      return Loop<Le, uint8_t, T, T>::kernel();
    case ScalarOp::Eq:
      return Loop<Eq, uint8_t, T, T>::kernel();
    case ScalarOp::Ne:
      return Loop<Ne, uint8_t, T, T>::kernel();
    default:
      return nullptr;  // no comparison
  }
}

template <class From>
ScalarKernel convert_from(Dtype result) {
  return visit_dtype(result, [&]<class T>(T) -> ScalarKernel {
    using To = typename Stored<T>::type;
    constexpr bool kHalf = is_stored_float<T>, kFromHalf = is_stored_float<From>;
    if constexpr (std::is_same_v<T, bool> && !kFromHalf)
      return Loop<Truth, uint8_t, From>::kernel();
    else if constexpr ((kHalf && !std::is_same_v<From, float>) || (kFromHalf && !std::is_same_v<T, float>))
      return nullptr;
    else
      return Loop<Convert<To>, To, From>::kernel();
  });
}

}  // namespace

ScalarKernel cast_kernel(ScalarOp op, Dtype result, Dtype operand) {
  switch (op) {
    case ScalarOp::Lt:
    case ScalarOp::Le:
    case ScalarOp::Eq:
    case ScalarOp::Ne:
      return visit_dtype(operand, [&]<class T>(T) -> ScalarKernel {
        if constexpr (is_stored_float<T>)
          return nullptr;
        else
          return compare_kernel<typename Stored<T>::type>(op);
      });
    case ScalarOp::Select:
      return visit_word(result, []<class T>(T) { return Loop<Select, T, uint8_t, T, T>::kernel(); });
    case ScalarOp::Bitcast:
      return visit_word(result, []<class T>(T) { return Loop<Copy, T, T>::kernel(); });
    case ScalarOp::Convert:
      return visit_dtype(operand, [&]<class T>(T) { return convert_from<typename Stored<T>::type>(result); });
    default:
      return nullptr;
  }
}

}  // namespace luminal::element
