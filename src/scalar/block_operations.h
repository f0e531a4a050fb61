#pragma once
#include <cstdint>

#include "luminal/block_format.h"

namespace luminal {

/// Hands `use` the operation on whole numbers, as a function of two of them; false for ops that are none.
template <class Use>
bool with_whole_operation(BlockExpression::Op op, Use use) {
  using Op = BlockExpression::Op;
  const auto wrapped = [&](auto f) {
    use([f](int32_t x, int32_t y) {
      return static_cast<int32_t>(f(static_cast<uint32_t>(x), static_cast<uint32_t>(y)));
    });
    return true;
  };
  switch (op) {
    case Op::Add:
      return wrapped([](uint32_t x, uint32_t y) { return x + y; });
    case Op::Subtract:
      return wrapped([](uint32_t x, uint32_t y) { return x - y; });
    case Op::Multiply:
      return wrapped([](uint32_t x, uint32_t y) { return x * y; });
    case Op::Divide:
      return wrapped([](uint32_t x, uint32_t y) { return x / y; });
    case Op::Modulo:
      return wrapped([](uint32_t x, uint32_t y) { return x % y; });
    case Op::And:
      return wrapped([](uint32_t x, uint32_t y) { return x & y; });
    case Op::Or:
      return wrapped([](uint32_t x, uint32_t y) { return x | y; });
    case Op::ShiftLeft:
      return wrapped([](uint32_t x, uint32_t y) { return x << y; });
    case Op::ShiftRight:
      return wrapped([](uint32_t x, uint32_t y) { return x >> y; });
    case Op::SignedByte:
      return wrapped([](uint32_t x, uint32_t) { return static_cast<int8_t>(x); });
    case Op::Whole:
    case Op::Position:
    case Op::Byte:
    case Op::Table:
    case Op::F32Bits:
    case Op::F16Bits:
    case Op::ToFloat:
    case Op::MultiplyFloats:
      return false;
  }
  return false;
}

}  // namespace luminal
