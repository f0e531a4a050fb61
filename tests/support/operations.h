#pragma once
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "codegen/loop_ir.h"
#include "luminal/tensor_data.h"
#include "scalar/element.h"
#include "scalar/typing.h"

/// Every operation as a program, for targets: each gives the bits of the scalar interpreter.
namespace luminal::test {

/// Values that find mistakes: limits, zeros of both signs, NaN, subnormals, halves, and random bits.
inline std::vector<uint64_t> samples(Dtype d, size_t count, std::mt19937_64& random) {
  std::vector<uint64_t> bits;
  ScalarBuilder b;
  for (const double v : {0.0,
                         -0.0,
                         1.0,
                         -1.0,
                         2.0,
                         -2.0,
                         0.5,
                         -0.5,
                         1.5,
                         2.5,
                         -2.5,
                         3.0,
                         7.0,
                         -7.0,
                         8.0,
                         31.0,
                         32.0,
                         33.0,
                         63.0,
                         64.0,
                         127.0,
                         128.0,
                         255.0,
                         256.0,
                         65504.0,
                         65519.0,
                         65520.0,
                         1e9,
                         -1e9,
                         2147483647.0,
                         2147483648.0,
                         -2147483648.0,
                         9.3e18,
                         -9.3e18,
                         1e-7,
                         6e-8,
                         3e-8,
                         2.9e-8,
                         1e-40,
                         3e38,
                         1e300,
                         static_cast<double>(INFINITY),
                         -static_cast<double>(INFINITY),
                         static_cast<double>(NAN)})
    bits.push_back(b[b.constant(d, v)].payload);
  if (is_integer(d))
    for (const int64_t v :
         {INT64_MIN, INT64_MAX, int64_t{INT32_MIN}, int64_t{INT32_MAX}, int64_t{-128}, int64_t{127}})
      bits.push_back(b[b.constant(d, v)].payload);
  while (bits.size() < count) bits.push_back(d == Dtype::Bool ? random() & 1 : random() & width_mask(d));
  std::ranges::shuffle(bits, random);
  bits.resize(count);
  return bits;
}

inline TensorData tensor(Dtype d, const std::vector<uint64_t>& bits) {
  TensorData data(d, {static_cast<int64_t>(bits.size())});
  const auto size = static_cast<size_t>(element_bytes(d));
  for (size_t i = 0; i < bits.size(); ++i) std::memcpy(data.bytes.data() + i * size, &bits[i], size);
  return data;
}

inline bool is_nan(Dtype d, uint64_t bits) {
  switch (d) {
    case Dtype::F32:
      return (bits & 0x7fffffff) > 0x7f800000;
    case Dtype::F64:
      return (bits & INT64_MAX) > 0x7ff0000000000000;
    case Dtype::F16:
      return (bits & 0x7fff) > 0x7c00;
    case Dtype::BF16:
      return (bits & 0x7fff) > 0x7f80;
    default:
      return false;
  }
}

inline uint64_t element(const TensorData& data, int64_t i) {
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(element_bytes(data.dtype));
  std::memcpy(&bits, data.bytes.data() + static_cast<size_t>(i) * size, size);
  return bits;
}

/// Equal bits, which NaN aside.
inline void expect_equal_bits(const TensorData& actual, const TensorData& expected, const std::string& what) {
  ASSERT_EQ(actual.dtype, expected.dtype) << what;
  for (int64_t i = 0; i < expected.element_count(); ++i) {
    const uint64_t a = element(actual, i), e = element(expected, i);
    if (a == e || (is_nan(actual.dtype, a) && is_nan(actual.dtype, e))) continue;
    FAIL() << what << " element " << i << ": " << element_text(actual.dtype, a) << " instead of "
           << element_text(actual.dtype, e);
  }
}

struct Operation {
  ScalarOp op;
  Dtype result;
  std::vector<Dtype> operands;
};

/// Every well-typed operation there is.
inline std::vector<Operation> operations() {
  std::vector<Operation> all;
  for (int k = 0; k < kScalarOpCount; ++k) {
    const auto op = static_cast<ScalarOp>(k);
    if (arity(op) == 0) continue;
    for (const Dtype d : kPlainDtypes)
      for (const Dtype result : kPlainDtypes) {
        std::vector<Dtype> operands(static_cast<size_t>(arity(op)), d);
        if (op == ScalarOp::Select) operands[0] = Dtype::Bool;
        OperandTypes types{};
        std::ranges::copy(operands, types.begin());
        if (type_problem({.op = op, .dtype = result}, types).empty()) all.push_back({op, result, operands});
      }
  }
  return all;
}

/// Y = op(A, B, C) over `count` elements, `lanes` at a time.
inline codegen::Program program_of(const Operation& o, int lanes, int64_t count) {
  codegen::Program p{.name = "operation"};
  std::vector<int> slots;
  for (size_t k = 0; k < o.operands.size(); ++k)
    slots.push_back(codegen::add_buffer(p, {.name = std::string(1, static_cast<char>('A' + k)),
                                            .space = codegen::Space::Slot,
                                            .number = static_cast<int>(k),
                                            .dtype = o.operands[k],
                                            .elements = count}));
  const int y = codegen::add_buffer(
      p, {.name = "Y", .space = codegen::Space::Output, .dtype = o.result, .elements = count});
  codegen::StageBuilder b(p, 1);
  b.loop(count / lanes, codegen::LoopKind::Serial, [&](const Expression& i) {
    std::vector<codegen::Id> operands;
    for (const int s : slots) operands.push_back(b.load(s, i * lanes, lanes));
    const codegen::Id value = o.op == ScalarOp::Convert   ? b.convert(operands[0], o.result)
                              : o.op == ScalarOp::Bitcast ? b.bitcast(operands[0], o.result)
                                                          : b.compute(o.op, operands);
    b.store(y, i * lanes, value);
  });
  b.finish();
  return p;
}

inline std::string text_of(const Operation& o) {
  return fmt::format("{} {} -> {}", name(o.op), name(o.operands.back()), name(o.result));
}

/// What the scalar interpreter makes of these operands.
inline TensorData expected_of(const Operation& o, const std::vector<TensorData>& slots) {
  TensorData expected(o.result, {slots[0].element_count()});
  const auto at = [&](size_t k) { return k < slots.size() ? slots[k].bytes.data() : nullptr; };
  element_kernel(o.op, o.result, o.operands.back())(slots[0].element_count(), expected.bytes.data(), at(0),
                                                    at(1), at(2));
  return expected;
}

/// Y = the sum over the lanes of C + (op(A, B) in the first `on` lanes, 0 in the others): a tail of a row, whose operands
/// are gathered where the lanes are on and 0 where they are not.
inline codegen::Program tail_of(ScalarOp op, Dtype dtype, int lanes, int on) {
  codegen::Program p{.name = "tail"};
  const auto slot = [&](int k) {
    return codegen::add_buffer(p, {.name = std::string(1, static_cast<char>('A' + k)),
                                   .space = codegen::Space::Slot,
                                   .number = k,
                                   .dtype = dtype,
                                   .elements = 2 * lanes});
  };
  const int a = slot(0), b = slot(1), c = slot(2);
  const int y =
      codegen::add_buffer(p, {.name = "Y", .space = codegen::Space::Output, .dtype = dtype, .elements = 4});
  codegen::StageBuilder s(p, 4);
  const codegen::Id mask = s.lane_mask(on, lanes);
  std::vector<int> at;
  for (int k = 0; k < lanes; ++k) at.push_back((5 * k) % (2 * lanes));
  const codegen::Id places = s.lanes(at);
  std::vector<codegen::Id> operands{s.gather(a, places, mask), s.gather(b, places, mask)};
  operands.resize(static_cast<size_t>(arity(op)));
  const codegen::Id value =
      s.compute(ScalarOp::Select, {mask, s.compute(op, operands), s.constant({dtype, lanes}, 0)});
  s.store(y, s.task(), s.reduce(ScalarOp::Add, s.compute(ScalarOp::Add, {s.gather(c, places), value})));
  s.finish();
  return p;
}

}  // namespace luminal::test
