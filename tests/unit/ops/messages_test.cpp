#include <gtest/gtest.h>

#include "luminal/error.h"
#include "luminal/ops.h"

/// What the shape and dtype rules say to those whom they refuse.
namespace luminal {
namespace {

std::string refusal(const OpDef& op, std::vector<TensorType> inputs, const Attributes& attributes = {}) {
  try {
    (void)op.infer(inputs, attributes);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Messages, Elementwise) {
  EXPECT_EQ(refusal(kAdd, {{Dtype::F32, {2, 3}}, {Dtype::F32, {2, 4}}}),
            "[add] dims differ: f32[2, 3] and f32[2, 4] have 3 and 4 at axis 1; expand, slice or pad to fit");
  EXPECT_EQ(refusal(kAdd, {{Dtype::F32, {2, 3}}, {Dtype::F32, {3}}}),
            "[add] ranks differ: f32[2, 3] and f32[3]; expand both to the same dims");
  EXPECT_EQ(refusal(kAdd, {{Dtype::F32, {2}}, {Dtype::I8, {2}}}),
            "[add] dtypes differ: f32[2] and i8[2]; cast both to f32");
  EXPECT_EQ(refusal(kMul, {{Dtype::Bool, {2}}, {Dtype::Bool, {2}}}),
            "[mul] takes floats and integers, got bool[2]; cast it first, for instance to f32");
  EXPECT_EQ(refusal(kMul, {{Dtype::F32, {32}}, {Dtype::Q4_0, {32}}}),
            "[mul] dtypes differ: f32[32] and q4_0[32]; cast the quantised one to a float first");
  EXPECT_EQ(refusal(kExp2, {{Dtype::I32, {"n"}}}),
            "[exp2] takes floats (f32 f64 f16 bf16), got i32[n]; cast it first, for instance to f32");
  EXPECT_EQ(refusal(kIntDiv, {{Dtype::F32, {2}}, {Dtype::F32, {2}}}),
            "[int_div] takes integers (i8 u8 i32 i64 u16), got f32[2]; cast it first, for instance to i64");
  EXPECT_EQ(refusal(kAdd, {{Dtype::F32, {2}}}), "[add] takes 2 inputs, got 1");
  EXPECT_EQ(refusal(kWhere, {{Dtype::F32, {2}}, {Dtype::F32, {2}}, {Dtype::F32, {2}}}),
            "[where] takes bool, got f32[2]; cast it first, for instance to bool");
}

TEST(Messages, EqualDimsNeedNotBeWrittenAlike) {
  EXPECT_EQ(refusal(kAdd, {{Dtype::F32, {Expression("s") * 2}}, {Dtype::F32, {Expression("s") + "s"}}}),
            "accepted");
  EXPECT_EQ(refusal(kAdd, {{Dtype::F32, {"s"}}, {Dtype::F32, {"t"}}}),
            "[add] dims differ: f32[s] and f32[t] have s and t at axis 0; expand, slice or pad to fit");
}

TEST(Messages, Attributes) {
  EXPECT_EQ(refusal(kMax, {{Dtype::F32, {}}, {Dtype::F32, {}}}, {{"ties", std::string("last")}}),
            "[max] ties is 'last'; choose 'split' or 'first'");
  EXPECT_EQ(refusal(kSumReduce, {{Dtype::F32, {2, 3}}}, {{"axes", std::vector<int64_t>{2}}}),
            "[sum_reduce] axes must be ascending and within the 2 of f32[2, 3], got 2");
  EXPECT_EQ(refusal(kSumReduce, {{Dtype::F32, {2, 3}}}, {{"axes", std::vector<int64_t>{1, 0}}}),
            "[sum_reduce] axes must be ascending and within the 2 of f32[2, 3], got 0");
  EXPECT_EQ(refusal(kSumReduce, {{Dtype::Bool, {2}}}, {{"axes", std::vector<int64_t>{0}}}),
            "[sum_reduce] takes floats and integers, got bool[2]; cast it first, for instance to f32");
  EXPECT_EQ(refusal(kCast, {{Dtype::F32, {32}}}, {{"dtype", Dtype::Q8_0}}),
            "[cast] produces plain dtypes, but q8_0 is block-quantised; quantize the values on the host");
  EXPECT_EQ(
      refusal(kBitcast, {{Dtype::F32, {2}}}, {{"dtype", Dtype::I64}}),
      "[bitcast] the bits of f32[2] cannot be read as i64: elements must be of equal width, and not bool; "
      "cast converts values");
  EXPECT_EQ(refusal(kBitcast, {{Dtype::F32, {2}}}, {{"dtype", Dtype::F32}}),
            "[bitcast] f32[2] already is f32; use it as it stands");
  EXPECT_EQ(refusal(kScatter, {{Dtype::F32, {2}}, {Dtype::I64, {1}}, {Dtype::F32, {1}}},
                    {{"mode", std::string("mul")}}),
            "[scatter] mode is 'mul'; choose 'assign' or 'add'");
  EXPECT_EQ(refusal(kGather, {{Dtype::F32, {2}}, {Dtype::F32, {1}}}),
            "[gather] positions must be integers, got f32[1]; cast them to i64");
  EXPECT_EQ(
      refusal(kIota, {},
              {{"expression", Expression::index(1, 4) + 1}, {"dims", Shape{4}}, {"dtype", Dtype::I64}}),
      "[iota] the expression i1 + 1 uses the index variable i1; iota's formula is over z and named dims");
  const TensorType word{Dtype::I64, {4}};
  EXPECT_EQ(refusal(kRandomBits, {word, word, {Dtype::I32, {4}}}, {{"bits", int64_t{24}}}),
            "[random_bits] element, key and run are i64, got i32[4]; cast it");
  EXPECT_EQ(refusal(kRandomBits, {word, word, word}, {{"bits", int64_t{64}}}),
            "[random_bits] bits is 64; give 1 to 63");
}

}  // namespace
}  // namespace luminal
