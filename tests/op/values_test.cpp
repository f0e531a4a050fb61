#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "op/op_case.h"
#include "op/oracle.h"
#include "ops/registry.h"
#include "support/effort.h"

/// Whole graphs of one op on each device against the tests' own formulas: every dtype the op takes,
/// ranks 0 to 4, empty dims, symbolic dims (built once, run at several sizes) and all kinds of view.
namespace luminal::op_test {
namespace {

const std::vector<Shape> kValueShapes = {{},       {7},        {"a"},       {2, 3},
                                         {"a", 3}, {"a", "b"}, {2, "b", 3}, {"a", 2, 1, "b"}};
const std::vector<DimMap> kValueSizes = {{{"a", 3}, {"b", 4}}, {{"a", 0}, {"b", 2}}, {{"a", 6}, {"b", 1}}};

/// How far from the exact result a kernel may be. The narrower types round a wider result once (f16 and bf16
/// after an f32); f64 is what the C library gives: at most 2 units by its manual (glibc, "Known Maximum
/// Errors in Math Functions"), rounded down there.
/// The reference computes f32 in f64; other devices are held to the record's own bound, and to its rounding
/// to the narrower types.
double allowed_ulps(const char* device, const OpDef& op, Dtype dtype) {
  const bool exact = std::string_view(device) == "reference";
  if (!exact && dtype == Dtype::F32) return std::max(op.ulp, 0.502);
  if (!exact && dtype != Dtype::F64) return 0.502 + op.ulp * 0x1p-8;
  return dtype == Dtype::F64 && op.ulp > 0.5 ? 2.99 : 0.502;
}

void expect_element(const Case& one, const TensorData& got, int64_t i, const Exact& exact,
                    long double slack) {
  if (const auto* real = std::get_if<long double>(&exact); real != nullptr && is_float(got.dtype)) {
    const auto value = std::get<long double>(read(got, i));
    const double ulps = ulps_apart(got.dtype, value, *real);
    if (ulps <= allowed_ulps(one.device, *one.op, got.dtype) || std::fabs(value - *real) <= slack) return;
    ADD_FAILURE() << one.replay() << "\n  element " << i << " is " << to_text(value) << ", exact "
                  << to_text(exact) << ", " << ulps << " ulps apart";
    return;
  }
  TensorData expected(got.dtype, {1});
  write(expected, 0, exact);
  if (read(got, i) == read(expected, 0)) return;
  ADD_FAILURE() << one.replay() << "\n  element " << i << " is " << to_text(read(got, i)) << ", expected "
                << to_text(exact);
}

void check_elements(const Case& one, std::span<const TensorData> inputs, const TensorData& got) {
  for (int64_t i = 0; i < got.element_count(); ++i)
    expect_element(one, got, i,
                   expected_element(*one.op, one.attributes, one.dtypes.back(), elements_at(inputs, i)), 0);
}

void check_reduction(const Case& one, const TensorData& input, const TensorData& got) {
  const auto& axes = one.attributes.get<std::vector<int64_t>>("axes");
  std::vector<std::vector<Exact>> groups(static_cast<size_t>(got.element_count()));
  for (int64_t i = 0; i < input.element_count(); ++i) {
    const std::vector<int64_t> at = coordinates(i, input.dims);
    std::vector<int64_t> kept;
    for (size_t axis = 0; axis < at.size(); ++axis)
      if (std::ranges::find(axes, static_cast<int64_t>(axis)) == axes.end()) kept.push_back(at[axis]);
    groups[static_cast<size_t>(flat(kept, got.dims))].push_back(read(input, i));
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const Bound bound = expected_reduction(*one.op, input.dtype, one.device, groups[i]);
    expect_element(one, got, static_cast<int64_t>(i), bound.value, bound.slack);
  }
}

void check_values(const Case& one) {
  Graph cx;
  cx.set_device(one.device);
  std::vector<GraphTensor> buffers;
  OpBuilder builder = cx.add_op(*one.op);
  for (const Dtype dtype : one.dtypes) {
    buffers.push_back(cx.tensor(buffer_dims(one.view, one.dims), dtype));
    builder.input(viewed(one.view, buffers.back(), one.dims));
  }
  for (const auto& [key, value] : one.attributes.entries()) builder.attribute(key, value);
  GraphTensor result = builder.finish();
  result.retrieve();

  const bool symbolic = !one.dims.empty() && !element_count(one.dims).constant();
  for (size_t run = 0; run < (symbolic ? kValueSizes.size() : 1); ++run) {
    for (const std::string& dim : cx.dim_names()) cx.set_dim(dim, kValueSizes[run].at(dim));
    const std::vector<int64_t> dims = exec(one.dims, kValueSizes[run]);
    std::vector<TensorData> seen;
    for (size_t i = 0; i < buffers.size(); ++i) {
      const auto sizes = exec(buffer_dims(one.view, one.dims), kValueSizes[run]);
      const TensorData data = sample_data(*one.op, one.dtypes[i], sizes, one.seed + 100 * run + i);
      buffers[i].set(data);
      seen.push_back(viewed(one.view, data, dims));
    }
    cx.execute();
    const TensorData got = result.data();
    if (one.op->monoid)
      check_reduction(one, seen[0], got);
    else
      check_elements(one, seen, got);
  }
}

class OpValues : public testing::TestWithParam<Driven> {};

TEST_P(OpValues, MatchTheFormula) {
  const OpDef& op = find_op(GetParam().op);
  const bool built_in = std::ranges::find(ops::built_in_ops(), &op) != ops::built_in_ops().end();
  EXPECT_TRUE(has_formula(op) || op.monoid || !built_in)
      << "tests/op/oracle.cpp has no formula for " << op.name;
  std::vector<Case> cases = all_cases(op, GetParam().device, kValueShapes);
  // A seeded sample of the cases unless everything is asked for; each dtype and variant keeps some.
  const int64_t wanted =
      effort::cases(sample_of(GetParam().device, 2000), static_cast<int64_t>(cases.size()));
  const uint64_t seed = effort::seed(1);
  for (Case& one : cases) one.seed = seed;
  std::vector<Case> chosen;
  const size_t stride = std::max<size_t>(1, cases.size() / static_cast<size_t>(wanted)) | 1U;
  for (size_t i = seed % stride; i < cases.size(); i += stride) chosen.push_back(cases[i]);
  ASSERT_FALSE(chosen.empty());
  for_each_case(std::getenv("LUMINAL_OP_CASE") != nullptr ? cases : chosen, [](const Case& one) {
    try {
      check_values(one);
    } catch (const std::exception& error) {
      ADD_FAILURE() << one.replay() << "\n  " << error.what();
    }
  });
}

// Every combination of the record's samples, through the kernel alone.
TEST_P(OpValues, SamplesMatchTheFormula) {
  const OpDef& op = find_op(GetParam().op);
  if (!op.is(Trait::Elementwise)) GTEST_SKIP() << "a reduction";
  if (GetParam().device != kDevices[0]) GTEST_SKIP() << "the kernel is the reference's";
  ASSERT_FALSE(op.samples.empty());
  for (const Case& typed : typed_cases(op, GetParam().device)) {
    const auto n = static_cast<int64_t>(op.samples.size());
    const int64_t count = op.arity == 1 ? n : n * n;
    std::vector<TensorData> inputs;
    std::vector<const void*> pointers;
    for (size_t k = 0; k < typed.dtypes.size(); ++k) {
      inputs.emplace_back(typed.dtypes[k], std::vector<int64_t>{count});
      for (int64_t i = 0; i < count; ++i)
        write(inputs[k], i,
              static_cast<long double>(op.samples[static_cast<size_t>(k % 2 == 0 ? i % n : i / n)]));
    }
    for (const TensorData& input : inputs) pointers.push_back(input.bytes.data());
    std::vector<TensorType> types;
    for (const Dtype dtype : typed.dtypes) types.push_back({dtype, {count}});
    TensorData out(op.infer(types, typed.attributes)[0].dtype, {count});
    op.elementwise(typed.dtypes, out.dtype)(pointers.data(), out.bytes.data(), count, typed.attributes);
    for (int64_t i = 0; i < count; ++i)
      expect_element(typed, out, i,
                     expected_element(op, typed.attributes, typed.dtypes.back(), elements_at(inputs, i)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, OpValues, testing::ValuesIn(driven()),
                         [](const auto& test) { return name_of(test.param); });

}  // namespace
}  // namespace luminal::op_test
