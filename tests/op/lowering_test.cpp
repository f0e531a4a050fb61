#include <gtest/gtest.h>

#include <algorithm>

#include "op/op_case.h"
#include "scalar/interpreter.h"
#include "support/effort.h"

/// What an op lowers to, run by the scalar interpreter, against its kernel.
namespace luminal::op_test {
namespace {

/// Results that are correctly rounded on both sides are the same bits; otherwise the record's bound and the
/// kernel's own error add up. Halves are rounded from results that may differ in the last place of f32.
double allowed_ulps(const OpDef& op, Dtype dtype) {
  if (op.ulp <= 0.5) return 0;
  if (dtype == Dtype::F64) return op.ulp + 2.99;  // as in values_test.cpp
  return dtype == Dtype::F32 ? op.ulp + 0.5 : 1;
}

struct Arrays {
  std::vector<TensorData> inputs;
  std::vector<const void*> pointers;
  int64_t count = 0;
};

/// All pairs of samples, then random values.
Arrays make_arrays(const Case& typed) {
  const OpDef& op = *typed.op;
  const auto n = static_cast<int64_t>(op.samples.size());
  Arrays arrays;
  arrays.count = n * n + effort::cases(2000, 100000);
  for (size_t k = 0; k < typed.dtypes.size(); ++k) {
    arrays.inputs.push_back(sample_data(op, typed.dtypes[k], {arrays.count}, typed.seed + k));
    for (int64_t i = 0; i < n * n; ++i)
      write(arrays.inputs[k], i,
            static_cast<long double>(op.samples[static_cast<size_t>(k % 2 == 0 ? i % n : i / n)]));
  }
  for (const TensorData& input : arrays.inputs) arrays.pointers.push_back(input.bytes.data());
  return arrays;
}

ScalarFunction lowered(const Case& typed) {
  ScalarBuilder b;
  std::vector<Scalar> inputs;
  for (size_t k = 0; k < typed.dtypes.size(); ++k)
    inputs.push_back(b.input(static_cast<int>(k), typed.dtypes[k]));
  return b.finish(typed.op->lower(b, inputs, typed.attributes));
}

bool agree(const OpDef& op, const TensorData& a, const TensorData& b, int64_t i) {
  const Exact x = read(a, i), y = read(b, i);
  if (!is_float(a.dtype)) return x == y;
  return ulps_apart(a.dtype, std::get<long double>(x), std::get<long double>(y)) <= allowed_ulps(op, a.dtype);
}

void check_lowering(const Case& typed) {
  const OpDef& op = *typed.op;
  const Arrays arrays = make_arrays(typed);
  const ScalarFunction function = lowered(typed);
  const Dtype out_dtype = function[function.outputs()[0]].dtype;
  std::vector<TensorType> types;
  for (const Dtype dtype : typed.dtypes) types.push_back({dtype, {arrays.count}});
  ASSERT_EQ(out_dtype, op.infer(types, typed.attributes)[0].dtype) << typed.to_string();

  TensorData kernel(out_dtype, {arrays.count}), interpreted(out_dtype, {arrays.count});
  op.elementwise(typed.dtypes, out_dtype)(arrays.pointers.data(), kernel.bytes.data(), arrays.count,
                                          typed.attributes);
  void* out = interpreted.bytes.data();
  ScalarInterpreter run(function);
  run(arrays.count, arrays.pointers, {}, std::span(&out, 1));
  int shown = 0;
  for (int64_t i = 0; i < arrays.count && shown < 5; ++i) {
    if (agree(op, interpreted, kernel, i)) continue;
    ++shown;
    std::string inputs;
    for (const Exact& input : elements_at(arrays.inputs, i)) inputs += " " + to_text(input);
    ADD_FAILURE() << typed.replay() << "\n " << inputs << " lowers to " << to_text(read(interpreted, i))
                  << ", the kernel gives " << to_text(read(kernel, i));
  }
}

class OpLowering : public testing::TestWithParam<std::string> {};

TEST_P(OpLowering, AgreesWithTheKernel) {
  const OpDef& op = find_op(GetParam());
  if (!op.is(Trait::Elementwise)) GTEST_SKIP() << "a reduction";
  std::vector<Case> cases = typed_cases(op, kDevices[0]);
  for (Case& typed : cases) typed.seed = effort::seed(1);
  for_each_case(cases, check_lowering);
}

INSTANTIATE_TEST_SUITE_P(All, OpLowering, testing::ValuesIn(driven_ops()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace luminal::op_test
