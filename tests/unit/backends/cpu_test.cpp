#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <thread>

#include <fmt/format.h>
#include "backends/backend.h"
#include "backends/cpu/jit.h"
#include "codegen/interpreter.h"
#include "luminal/error.h"
#include "scalar/element.h"
#include "scalar/interpreter.h"
#include "scalar/typing.h"
#include "support/files.h"
#include "unit/backends/launch.h"

/// Machine code against the interpreters.
namespace luminal::backends {
namespace {

using codegen::add_buffer;
using codegen::Id;
using codegen::LoopKind;
using codegen::Program;
using codegen::Space;
using codegen::StageBuilder;
using test::error_of;
using test::launch;

constexpr Dtype kPlain[] = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8,
                            Dtype::U8,  Dtype::I32, Dtype::I64, Dtype::Bool};

/// Values that find mistakes: limits, zeros of both signs, NaN, subnormals, halves, and random bits.
std::vector<uint64_t> samples(Dtype d, size_t count, std::mt19937_64& random) {
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

TensorData tensor(Dtype d, const std::vector<uint64_t>& bits) {
  TensorData data(d, {static_cast<int64_t>(bits.size())});
  const auto size = static_cast<size_t>(element_bytes(d));
  for (size_t i = 0; i < bits.size(); ++i) std::memcpy(data.bytes.data() + i * size, &bits[i], size);
  return data;
}

bool is_nan(Dtype d, uint64_t bits) {
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

uint64_t element(const TensorData& data, int64_t i) {
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(element_bytes(data.dtype));
  std::memcpy(&bits, data.bytes.data() + static_cast<size_t>(i) * size, size);
  return bits;
}

/// Equal bits, which NaN aside.
void expect_equal(const TensorData& actual, const TensorData& expected, const std::string& what) {
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
std::vector<Operation> operations() {
  std::vector<Operation> all;
  for (int k = 0; k < kScalarOpCount; ++k) {
    const auto op = static_cast<ScalarOp>(k);
    if (arity(op) == 0) continue;
    for (const Dtype d : kPlain)
      for (const Dtype result : kPlain) {
        std::vector<Dtype> operands(static_cast<size_t>(arity(op)), d);
        if (op == ScalarOp::Select) operands[0] = Dtype::Bool;
        OperandTypes types{};
        std::ranges::copy(operands, types.begin());
        if (type_problem({.op = op, .dtype = result}, types).empty()) all.push_back({op, result, operands});
      }
  }
  return all;
}

/// Y = op(A, B, C) over 96 elements, `lanes` at a time.
Program program_of(const Operation& o, int lanes, int64_t count) {
  Program p{.name = "operation"};
  std::vector<int> slots;
  for (size_t k = 0; k < o.operands.size(); ++k)
    slots.push_back(add_buffer(p, {.name = std::string(1, static_cast<char>('A' + k)),
                                   .space = Space::Slot,
                                   .number = static_cast<int>(k),
                                   .dtype = o.operands[k],
                                   .elements = count}));
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .dtype = o.result, .elements = count});
  StageBuilder b(p, 1);
  b.loop(count / lanes, LoopKind::Serial, [&](const Expression& i) {
    std::vector<Id> operands;
    for (const int s : slots) operands.push_back(b.load(s, i * lanes, lanes));
    const Id value = o.op == ScalarOp::Convert   ? b.convert(operands[0], o.result)
                     : o.op == ScalarOp::Bitcast ? b.bitcast(operands[0], o.result)
                                                 : b.compute(o.op, operands);
    b.store(y, i * lanes, value);
  });
  b.finish();
  return p;
}

void every_operation(Backend& backend, std::span<const int> lane_counts) {
  std::mt19937_64 random(7);
  constexpr int64_t kCount = 960;
  for (const Operation& o : operations()) {
    std::vector<TensorData> slots;
    for (const Dtype d : o.operands) slots.push_back(tensor(d, samples(d, kCount, random)));
    TensorData expected(o.result, {kCount});
    const Dtype operand = o.operands[o.op == ScalarOp::Select ? 1 : 0];
    const auto at = [&](size_t k) { return k < slots.size() ? slots[k].bytes.data() : nullptr; };
    element_kernel(o.op, o.result, operand)(kCount, expected.bytes.data(), at(0), at(1), at(2));
    for (const int lanes : lane_counts) {
      const std::string what =
          fmt::format("{} {} -> {} in {} lanes", name(o.op), name(operand), name(o.result), lanes);
      const auto kernel = backend.compile(program_of(o, lanes, kCount));
      expect_equal(launch(*kernel, slots, {expected}, {})[0], expected, what);
    }
  }
}

TEST(CpuBackend, EveryOperationEqualsTheScalarInterpreter) {
  const auto backend = make_cpu_backend();
  constexpr int kLanes[] = {1, 16};
  every_operation(*backend, kLanes);
}

}  // namespace
}  // namespace luminal::backends
