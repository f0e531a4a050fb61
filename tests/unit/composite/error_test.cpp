#include "run.h"

// Messages of the high-level ops, word for word. Each ends with the line of the call.
namespace luminal::composite_test {
namespace {

/// The message without " (made at error_test.cpp:<line>)", which must be there.
template <class E>
std::string said(const std::function<void()>& action) {
  const std::string message = message_of<E>(action);
  const size_t place = message.rfind(" (made at error_test.cpp:");
  return place == std::string::npos ? "no place in: " + message : message.substr(0, place);
}

struct Tensors {
  Graph cx;
  GraphTensor f23 = cx.tensor({2, 3}), f3 = cx.tensor({3}), f2 = cx.tensor({2}),
              i3 = cx.tensor({3}, Dtype::I32), u3 = cx.tensor({3}, Dtype::U8), f0 = cx.tensor({});
};

TEST(Errors, NameTheUsersLine) {
  Tensors t;
  const std::string message = message_of<ShapeError>([&] { (void)t.f23.matmul(t.f23); });
  const int line = __LINE__ - 1;
  EXPECT_EQ(message,
            std::string("[matmul] inner dimensions differ: lhs f32[2, 3] has K=3, rhs f32[2, 3] has K=2; "
                        "rhs.transpose(0, 1) would fit (made at error_test.cpp:") +
                std::to_string(line) + ")");
}

TEST(Errors, Broadcasting) {
  Tensors t;
  EXPECT_EQ(said<ShapeError>([&] { (void)(t.f23 + t.f2); }),
            "[add] shapes do not broadcast: lhs [2, 3] and rhs [2] have 3 and 2 at axis -1; rhs.reshape({2, "
            "1}) would fit");
  EXPECT_EQ(said<ShapeError>([&] { (void)(t.f23 * t.cx.tensor({3, 2})); }),
            "[mul] shapes do not broadcast: lhs [2, 3] and rhs [3, 2] have 3 and 2 at axis -1; "
            "rhs.transpose(0, 1) would "
            "fit");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f3.maximum(t.f2); }),
            "[maximum] shapes do not broadcast: lhs [3] and rhs [2] have 3 and 2 at axis -1; sizes must be "
            "equal, or one "
            "of them 1");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.cx.tensor({"s"}).lt(t.cx.tensor({"t"})); }),
            "[lt] shapes do not broadcast: lhs [s] and rhs [t] have s and t at axis -1; if both are always "
            "the same size, "
            "build them from one named dim");
}

TEST(Errors, Operands) {
  Tensors t;
  Graph other;
  EXPECT_EQ(
      said<Error>([&] { (void)(t.f3 + other.tensor({3})); }),
      "[add] the tensors belong to different graphs; move values from one to the other with transfer_data");
  EXPECT_EQ(said<DtypeError>([&] { (void)(t.u3 + 300); }),
            "[add] 300 does not fit in u8 (0 .. 255); cast the tensor to i32 first");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.cx.constant(2.5, Dtype::I32); }),
            "[constant] 2.5 is not a value of i32; use a float dtype or a whole number");
  EXPECT_EQ(
      said<DtypeError>([&] { (void)t.f3.bitwise_and(1); }),
      "[bitwise_and] takes integers or bool, got f32[3]; cast it to an integer type, or read its bits with "
      "as_dtype");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.i3.pow(-1); }),
            "[pow] i32[3] to the power -1 is not a whole number; cast the base to a float first");
  EXPECT_EQ(said<Error>([&] { (void)t.f3.gelu("tan"); }),
            "[gelu] approximate is 'tan'; choose 'none' (erf) or 'tanh'; did you mean 'tanh'?");
  EXPECT_EQ(said<DtypeError>([&] { (void)(t.cx.tensor({32}, Dtype::Q8_0) + 1); }),
            "[add] q8_0 holds blocks of weights and takes no part in arithmetic; cast it to a float first");
}

TEST(Errors, Axes) {
  Tensors t;
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.sum(2); }),
            "[sum] axis 2 is out of range for rank 2; axes go from -2 to 1");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.softmax({0, -2}); }),
            "[softmax] axis 0 is given twice; name each axis once");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.transpose(0, 2); }),
            "[transpose] axis 2 is out of range for f32[2, 3]; axes go from -2 to 1");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.unsqueeze(4); }),
            "[unsqueeze] a new axis at 4 is out of range for f32[2, 3]; places go from -3 to 2");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f0.cumsum(0); }),
            "[cumsum] axis 0 of f32[], which has no axes; reshape it to have one");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.cx.zeros({2, 0}).argmax(1); }),
            "[argmax] axis 1 of f32[2, 0] has no elements, so none is the greatest; give an axis of size 1 "
            "or more");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.glu(); }),
            "[glu] axis 1 of f32[2, 3] has the odd size 3; its two halves must be equal");
}

TEST(Errors, Movement) {
  Tensors t;
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.reshape({4, 2}); }),
            "[reshape] [2, 3] holds 6 elements, [4, 2] holds 8; a reshape keeps the number of elements");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.squeeze(0); }),
            "[squeeze] axis 0 of [2, 3] has size 2, not 1; slice or sum it instead");
  EXPECT_EQ(
      said<ShapeError>([&] { (void)t.f23.expand({4, 3}); }),
      "[expand] f32[2, 3] does not expand to [4, 3]: axis 0 has size 2, and only 1 expands; repeat tiles");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f3.slice({{0, 1}, {0, 1}}); }),
            "[slice] 2 pairs for f32[3], which has 1 axes; give at most one for each axis");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f3.slice_along(0, 0, 3, -1); }),
            "[slice_along] a step of -1 is not above 0; flip the axis to go backwards");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.u3.pad({{1, 0}}, -1); }),
            "[pad] -1 does not fit in u8 (0 .. 255); cast the tensor to i32 first");
  EXPECT_EQ(
      said<ShapeError>([&] { (void)concat({t.f23, t.cx.tensor({3, 3})}, 1); }),
      "[concat] tensor 0 is f32[2, 3] and tensor 1 is f32[3, 3]: axis 0 has 2 and 3; only axis 1 may differ");
  EXPECT_EQ(said<ShapeError>([&] { (void)stack({t.f23, t.f3}); }),
            "[stack] tensor 0 is f32[2, 3] and tensor 1 is f32[3]; stack takes tensors of equal dims");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.cx.tensor({"s"}).split(2); }),
            "[split] how many pieces of size 2 axis 0 of f32[s] gives depends on the run; use slice_along, "
            "or chunk");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f3.tril(); }),
            "[tril] f32[3] has no rows and columns; give a tensor of rank 2 or more");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.repeat({2}); }),
            "[repeat] 1 counts for f32[2, 3]; give one for each axis, and more for new axes in front");
}

TEST(Errors, Indexing) {
  Tensors t;
  EXPECT_EQ(said<DtypeError>([&] { (void)t.f23.gather(t.f3); }),
            "[gather] the index is f32[3]; give integers, as cast(Dtype::I64) makes them");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.f23.index_select(0, t.f3.lt(1)); }),
            "[index_select] the index is bool[3]; give integers (for a mask, use where)");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.gather_elements(0, t.i3); }),
            "[gather_elements] the index i32[3] and the data f32[2, 3] differ in rank; index_select takes "
            "whole slices");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.gather(0, t.cx.tensor({1, 4}, Dtype::I64)); }),
            "[gather_elements] the index i64[1, 4] reaches beyond the data f32[2, 3] at axis 1; slice it");
}

TEST(Errors, Products) {
  Tensors t;
  EXPECT_EQ(said<ShapeError>([&] { (void)t.cx.tensor({2, 3, 4}).matmul(t.cx.tensor({3, 4, 5})); }),
            "[matmul] leading axes do not broadcast: lhs f32[2, 3, 4] and rhs f32[3, 4, 5] have 2 and 3 at "
            "axis -3; "
            "sizes must be equal, or one of them 1");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.t().matmul(t.f3); }),
            "[matmul] inner dimensions differ: lhs f32[3, 2] has K=2, rhs f32[3] has K=3; lhs.transpose(0, "
            "1) would fit");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f0.matmul(t.f3); }),
            "[matmul] lhs is f32[], a single number; multiply with * instead");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.f23.dot(t.f3); }),
            "[dot] takes two vectors, got f32[2, 3] and f32[3]; matmul takes other ranks");
  EXPECT_EQ(said<ShapeError>([&] { (void)einsum("ij,kj->ik", {t.f23, t.cx.tensor({4, 5})}); }),
            "[einsum] \"ij,kj->ik\": 'j' is 3 in operand 0 and 5 in operand 1; sizes must be equal, or one "
            "of them 1");
  EXPECT_EQ(said<ShapeError>([&] { (void)einsum("ijk->k", {t.f23}); }),
            "[einsum] \"ijk->k\": 'ijk' names 3 axes and operand 0 is f32[2, 3]");
  EXPECT_EQ(said<ShapeError>([&] { (void)einsum("ij->jl", {t.f23}); }),
            "[einsum] \"ij->jl\": 'l' appears in the output but in no operand");
  EXPECT_EQ(said<ShapeError>([&] { (void)einsum("ij,jk", {t.f23}); }),
            "[einsum] \"ij,jk\": it has 2 operands, but 1 tensors are given");
  EXPECT_EQ(said<ShapeError>([&] { (void)einsum("ii->i", {t.f23}); }),
            "[einsum] \"ii->i\": 'i' is 2 and 3 in f32[2, 3]; a diagonal needs equal sizes");
  EXPECT_EQ(said<ShapeError>([&] { (void)einsum("i?->i", {t.f23}); }),
            "[einsum] \"i?->i\": '?' is not a letter; write axes as letters, operands apart by ',', and '->' "
            "before the "
            "output");
}

TEST(Errors, Images) {
  Tensors t;
  const GraphTensor x = t.cx.tensor({1, 4, 8, 8}), w = t.cx.tensor({6, 3, 3, 3});
  EXPECT_EQ(said<ShapeError>([&] { (void)conv2d(x, w); }),
            "[conv2d] x f32[1, 4, 8, 8] has 4 channels, but weight f32[6, 3, 3, 3] expects 3 (3 x 1 groups); "
            "weight must be [out, 4, kh, kw]");
  EXPECT_EQ(said<ShapeError>([&] { (void)conv2d(x, t.cx.tensor({6, 4, 9, 3})); }),
            "[conv2d] a window of 9 (kernel 9, dilation 1) does not fit in the 8 of f32[1, 4, 8, 8] with "
            "padding 0; pad "
            "more");
  EXPECT_EQ(said<ShapeError>([&] { (void)conv2d(x, t.cx.tensor({5, 2, 3, 3}), {.groups = 2}); }),
            "[conv2d] weight f32[5, 2, 3, 3] has 5 output channels, which 2 groups do not divide; choose "
            "groups that do");
  EXPECT_EQ(said<ShapeError>([&] { (void)max_pool2d(x, {.padding = {2, 0}}); }),
            "[max_pool2d] the padding 2 is more than half the kernel 2, so a window could hold padding only; "
            "pad less");
  EXPECT_EQ(
      said<ShapeError>([&] { (void)avg_pool2d(t.f23); }),
      "[avg_pool2d] x is f32[2, 3]; give [batch, channels, height, width] or [channels, height, width]");
}

TEST(Errors, Attention) {
  Tensors t;
  const GraphTensor q = t.cx.tensor({8, 5, 4}), k = t.cx.tensor({2, 6, 4});
  EXPECT_EQ(
      said<ShapeError>([&] { (void)attention(q, k, k); }),
      "[attention] q f32[8, 5, 4] and k f32[2, 6, 4] differ in their heads; 8 query heads share 2 key heads: "
      "q.split_dims(0, 4) with k.unsqueeze(1) and v.unsqueeze(1)");
  EXPECT_EQ(said<DtypeError>([&] { (void)attention(k, k, k, t.cx.tensor({6, 6}, Dtype::I32)); }),
            "[attention] the mask is i32[6, 6]; give bool (true = seen), or floats to be added");
}

TEST(Errors, Numbers) {
  Tensors t;
  EXPECT_EQ(said<Error>([&] { (void)t.f3.dropout(1.5); }),
            "[dropout] p is 1.5; give a probability between 0 and 1");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.cx.uniform({2}, 0, 1, Dtype::I32); }),
            "[uniform] random numbers are floats, got i32; draw f32 and cast");
  EXPECT_EQ(said<Error>([&] { (void)t.cx.arange_step(0, 1, 0); }),
            "[arange_step] from 0 to 1 in steps of 0 never ends; give finite bounds and a step other than 0");
  EXPECT_EQ(said<ShapeError>([&] { (void)t.cx.arange_step(0, 1, -0.5); }),
            "[arange_step] a step of -0.5 leads away from 1 when starting at 0; change its sign");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.cx.arange(300, Dtype::U8); }),
            "[arange] 299 does not fit in u8 (0 .. 255); cast the tensor to i32 first");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.cx.arange_in_range(-200, 3, Dtype::I8); }),
            "[arange_in_range] -200 does not fit in i8 (-128 .. 127); cast the tensor to i32 first");
  EXPECT_EQ(said<DtypeError>([&] { (void)t.cx.arange_step(0, 600, 100, Dtype::U8); }),
            "[arange_step] 500 does not fit in u8 (0 .. 255); cast the tensor to i32 first");
  EXPECT_EQ(t.cx.arange(256, Dtype::U8).dims()[0].constant(), 256);
  EXPECT_EQ(t.cx.arange(0, Dtype::U8).dims()[0].constant(), 0);
  EXPECT_EQ(said<ShapeError>([&] { (void)t.cx.tensor({2, -1}); }),
            "[tensor] a size is -1 in [2, -1]; sizes are at least 0");
}

}  // namespace
}  // namespace luminal::composite_test
