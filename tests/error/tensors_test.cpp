#include <cmath>

#include "error/mistake.h"

// Mistakes in what is said of tensors: shapes, dtypes, axes, graphs.
namespace luminal::error_test {
namespace {

TEST(TensorMistakes, Shapes) {
  Graph cx;
  const GraphTensor x = cx.named_tensor("x", {8, 100}), w = cx.named_tensor("w", {128, 10});
  const GraphTensor image = cx.tensor({4, 3, 32, 32});
  expect_told({
      {"matmul of sizes that differ", [&] { (void)x.matmul(w); },
       "[matmul] inner dimensions differ: lhs f32[8, 100] has K=100, rhs f32[128, 10] has K=128; the last "
       "axis of lhs must be as long as the one before last of rhs (made at `(void)x.matmul(w);`)"},
      {"matmul with the weight the wrong way around", [&] { (void)x.matmul(cx.tensor({10, 100})); },
       "[matmul] inner dimensions differ: lhs f32[8, 100] has K=100, rhs f32[10, 100] has K=10; "
       "rhs.transpose(0, 1) would fit (made at `(void)x.matmul(cx.tensor({10, 100}));`)"},
      {"a bias of another length", [&] { (void)(x + cx.tensor({10})); },
       "[add] shapes do not broadcast: lhs [8, 100] and rhs [10] have 100 and 10 at axis -1; sizes must be "
       "equal, or one of them 1 (made at `(void)(x + cx.tensor({10}));`)"},
      {"a bias for rows", [&] { (void)(x + cx.tensor({8})); },
       "[add] shapes do not broadcast: lhs [8, 100] and rhs [8] have 100 and 8 at axis -1; rhs.reshape({8, "
       "1}) would fit (made at `(void)(x + cx.tensor({8}));`)"},
      {"in place",
       [&] {
         GraphTensor y = x;
         y *= w;
       },
       "[mul] shapes do not broadcast: lhs [8, 100] and rhs [128, 10] have 100 and 10 at axis -1; sizes must "
       "be equal, or one of them 1 (made at `y *= w;`)"},
      {"reshape to another count", [&] { (void)x.reshape({8, 99}); },
       "[reshape] [8, 100] holds 800 elements, [8, 99] holds 792; a reshape keeps the number of elements "
       "(made at `(void)x.reshape({8, 99});`)"},
      {"reshape with a rest", [&] { (void)x.reshape({-1, 7}); },
       "[reshape] [8, 100] holds 800 elements, [114, 7] holds 798; a reshape keeps the number of elements "
       "(made at `(void)x.reshape({-1, 7});`)"},
      {"reshape with two unknowns", [&] { (void)x.reshape({-1, -1}); },
       "[reshape] more than one -1 in [-1, -1]; give all sizes but one (made at `(void)x.reshape({-1, "
       "-1});`)"},
      {"expand of what is not 1", [&] { (void)x.expand({8, 200}); },
       "[expand] f32[8, 100] does not expand to [8, 200]: axis 1 has size 100, and only 1 expands; repeat "
       "tiles (made at `(void)x.expand({8, 200});`)"},
      {"concat of other sizes", [&] { (void)concat({x, w}, 0); },
       "[concat] tensor 0 is f32[8, 100] and tensor 1 is f32[128, 10]: axis 1 has 100 and 10; only axis 0 "
       "may differ (made at `(void)concat({x, w}, 0);`)"},
      {"stack of other sizes", [&] { (void)stack({x, w}); },
       "[stack > concat] tensor 0 is f32[1, 8, 100] and tensor 1 is f32[1, 128, 10]: axis 1 has 8 and 128; "
       "only axis 0 may differ (made at `(void)stack({x, w});`)"},
      {"an image of another layout",
       [&] { (void)conv2d(cx.tensor({4, 32, 32, 3}), cx.tensor({8, 3, 3, 3})); },
       "[conv2d] x f32[4, 32, 32, 3] has 32 channels, but weight f32[8, 3, 3, 3] expects 3 (3 x 1 groups); "
       "weight must be [out, 32, kh, kw] (made at `(void)conv2d(cx.tensor({4, 32, 32, 3}), cx.tensor({8, 3, "
       "3, 3}));`)"},
      {"a kernel larger than the image", [&] { (void)max_pool2d(image, {.kernel = {64, 64}}); },
       "[max_pool2d] a window of 64 (kernel 64, dilation 1) does not fit in the 32 of f32[4, 3, 32, 32] with "
       "padding 0; pad more (made at `(void)max_pool2d(image, {.kernel = {64, 64}});`)"},
      {"einsum", [&] { (void)einsum("ij,jk->ik", {x, w}); },
       "[einsum] \"ij,jk->ik\": 'j' is 100 in operand 0 and 128 in operand 1; sizes must be equal, or one of "
       "them 1 (made at `(void)einsum(\"ij,jk->ik\", {x, w});`)"},
      {"attention",
       [&] { (void)attention(cx.tensor({2, 4, 8}), cx.tensor({2, 4, 16}), cx.tensor({2, 4, 16})); },
       "[attention] q f32[2, 4, 8] and k f32[2, 4, 16] differ in their last axis; queries and keys have one "
       "head size (made at `(void)attention(cx.tensor({2, 4, 8}), cx.tensor({2, 4, 16}), cx.tensor({2, 4, "
       "16}));`)"},
      {"a rank that is not there", [&] { (void)x.dims4(); },
       "[dims4] 'x' f32[8, 100] (made at `const GraphTensor x = cx.named_tensor(\"x\", {8, 100}), w = "
       "cx.named_tensor(\"w\", {128, 10});`) has rank 2; ask for as many dims as it has"},
      {"a scalar where a vector is meant", [&] { (void)cx.constant(1).matmul(w); },
       "[matmul] lhs is f32[], a single number; multiply with * instead (made at "
       "`(void)cx.constant(1).matmul(w);`)"},
  });
}

TEST(TensorMistakes, Axes) {
  Graph cx;
  const GraphTensor x = cx.named_tensor("x", {2, 3, 4});
  expect_told({
      {"softmax below the first axis", [&] { (void)x.softmax(-4); },
       "[softmax] axis -4 is out of range for rank 3; axes go from -3 to 2 (made at `(void)x.softmax(-4);`)"},
      {"sum beyond the last", [&] { (void)x.sum(3); },
       "[sum] axis 3 is out of range for rank 3; axes go from -3 to 2 (made at `(void)x.sum(3);`)"},
      {"the same axis twice", [&] { (void)x.mean({1, -2}); },
       "[mean] axis 1 is given twice; name each axis once (made at `(void)x.mean({1, -2});`)"},
      {"permute of too few", [&] { (void)x.permute({1, 0}); },
       "[permute] 2 entries for the 3 axes of [2, 3, 4]; give one for each axis (made at "
       "`(void)x.permute({1, 0});`)"},
      {"permute with one twice", [&] { (void)x.permute({0, 1, 1}); },
       "[permute] order (0, 1, 1) of [2, 3, 4] does not name axis 1 once; name each axis once (made at "
       "`(void)x.permute({0, 1, 1});`)"},
      {"dim", [&] { (void)x.dim(-4); },
       "[dim] axis -4 is out of range for 'x' f32[2, 3, 4] (made at `const GraphTensor x = "
       "cx.named_tensor(\"x\", {2, 3, 4});`); axes go from -3 to 2"},
      {"unsqueeze", [&] { (void)x.unsqueeze(5); },
       "[unsqueeze] a new axis at 5 is out of range for f32[2, 3, 4]; places go from -4 to 3 (made at "
       "`(void)x.unsqueeze(5);`)"},
      {"squeeze of a long one", [&] { (void)x.squeeze(1); },
       "[squeeze] axis 1 of [2, 3, 4] has size 3, not 1; slice or sum it instead (made at "
       "`(void)x.squeeze(1);`)"},
      {"argmax", [&] { (void)x.argmax(7); },
       "[argmax] axis 7 is out of range for f32[2, 3, 4]; axes go from -3 to 2 (made at "
       "`(void)x.argmax(7);`)"},
      {"slice", [&] { (void)x.slice_along(3, 0, 1); },
       "[slice_along] axis 3 is out of range for f32[2, 3, 4]; axes go from -3 to 2 (made at "
       "`(void)x.slice_along(3, 0, 1);`)"},
      {"topk of too many", [&] { (void)x.topk(5); },
       "[topk] k is 5 and axis 2 of f32[2, 3, 4] has 4 elements; give a k from 0 to that number (made at "
       "`(void)x.topk(5);`)"},
      {"split into pieces of 0", [&] { (void)x.split(0); },
       "[split] pieces of size 0; give a size above 0 (made at `(void)x.split(0);`)"},
      {"glu of an odd size", [&] { (void)x.glu(1); },
       "[glu] axis 1 of f32[2, 3, 4] has the odd size 3; its two halves must be equal (made at "
       "`(void)x.glu(1);`)"},
  });
}

TEST(TensorMistakes, Dtypes) {
  Graph cx;
  const GraphTensor x = cx.named_tensor("x", {4}), i = cx.tensor({4}, Dtype::I32),
                    u = cx.tensor({4}, Dtype::U8);
  expect_told({
      {"an index of floats", [&] { (void)cx.tensor({10, 2}).index_select(0, x); },
       "[index_select] the index is f32[4]; give integers, as cast(Dtype::I64) makes them (made at "
       "`(void)cx.tensor({10, 2}).index_select(0, x);`)"},
      {"bits of floats", [&] { (void)x.bitwise_and(3); },
       "[bitwise_and] takes integers or bool, got f32[4]; cast it to an integer type, or read its bits with "
       "as_dtype (made at `(void)x.bitwise_and(3);`)"},
      {"300 added to bytes", [&] { (void)(u + 300); },
       "[add] 300 does not fit in u8 (0 .. 255); cast the tensor to i32 first (made at `(void)(u + 300);`)"},
      {"-1 as a byte", [&] { (void)cx.constant(-1, Dtype::U8); },
       "[constant] -1 does not fit in u8 (0 .. 255); cast the tensor to i32 first (made at "
       "`(void)cx.constant(-1, Dtype::U8);`)"},
      {"300 as a byte", [&] { (void)cx.full({2}, 300, Dtype::U8); },
       "[full] 300 does not fit in u8 (0 .. 255); cast the tensor to i32 first (made at `(void)cx.full({2}, "
       "300, Dtype::U8);`)"},
      {"half as an integer", [&] { (void)cx.constant(0.5, Dtype::I32); },
       "[constant] 0.5 is not a value of i32; use a float dtype or a whole number (made at "
       "`(void)cx.constant(0.5, Dtype::I32);`)"},
      {"NaN as an integer", [&] { (void)cx.constant(std::nan(""), Dtype::I64); },
       "[constant] nan is not a value of i64; use a float dtype or a whole number (made at "
       "`(void)cx.constant(std::nan(\"\"), Dtype::I64);`)"},
      {"random integers", [&] { (void)cx.uniform({4}, 0, 9, Dtype::I32); },
       "[uniform] random numbers are floats, got i32; draw f32 and cast (made at `(void)cx.uniform({4}, 0, "
       "9, Dtype::I32);`)"},
      {"one_hot of floats", [&] { (void)x.one_hot(10); },
       "[one_hot] the index is f32[4]; give integers, as cast(Dtype::I64) makes them (made at "
       "`(void)x.one_hot(10);`)"},
      {"integers to a negative power", [&] { (void)i.pow(-2); },
       "[pow] i32[4] to the power -2 is not a whole number; cast the base to a float first (made at "
       "`(void)i.pow(-2);`)"},
      {"a mask of integers",
       [&] {
         (void)attention(cx.tensor({4, 8}), cx.tensor({4, 8}), cx.tensor({4, 8}),
                         cx.tensor({4, 4}, Dtype::I64));
       },
       "[attention] the mask is i64[4, 4]; give bool (true = seen), or floats to be added (made at "
       "`(void)attention(cx.tensor({4, 8}), cx.tensor({4, 8}), cx.tensor({4, 8}),`)"},
      {"bits of another width", [&] { (void)x.as_dtype(Dtype::F16); },
       "[bitcast] the bits of f32[4] cannot be read as f16: elements must be of equal width, and not bool; "
       "cast converts values (made at `(void)x.as_dtype(Dtype::F16);`)"},
  });
}

TEST(TensorMistakes, Graphs) {
  Graph cx, other;
  const GraphTensor x = cx.named_tensor("x", {4}), y = other.named_tensor("y", {4}), none;
  GraphTensor gone;
  {
    Graph local;
    gone = local.tensor({4});
  }
  const auto loss = (x * 2).sum();
  expect_told({
      {"a sum over two graphs", [&] { (void)(x + y); },
       "[add] the tensors belong to different graphs; move values from one to the other with transfer_data "
       "(made at `(void)(x + y);`)"},
      {"concat over two graphs", [&] { (void)concat({x, y}, 0); },
       "[concat] the tensors belong to different graphs; move values from one to the other with "
       "transfer_data (made at `(void)concat({x, y}, 0);`)"},
      {"gradients over two graphs", [&] { (void)cx.run_pass(Autograd({y}, loss)); },
       "[Autograd] parameter 0 'y' f32[4] (made at `const GraphTensor x = cx.named_tensor(\"x\", {4}), y = "
       "other.named_tensor(\"y\", {4}), none;`) belongs to another graph; give tensors of the graph that is "
       "compiled"},
      {"a state of another graph", [&] { x.assign(y); },
       "[assign] state and next value belong to different graphs; build both in one (made at "
       "`x.assign(y);`)"},
      {"an index of another graph", [&] { (void)x.gather(other.tensor({2}, Dtype::I64)); },
       "[gather] the tensors belong to different graphs; move values from one to the other with "
       "transfer_data (made at `(void)x.gather(other.tensor({2}, Dtype::I64));`)"},
      {"a tensor that was never made", [&] { (void)(none + 1); },
       "[tensor] this tensor was declared but never made; assign it one that Graph::tensor returns "
       "(made at `(void)(none + 1);`)"},
      {"the value of a tensor that was never made", [&] { (void)none.data<float>(); },
       "[tensor] this tensor was declared but never made; assign it one that Graph::tensor returns"},
      {"a tensor whose graph is gone", [&] { (void)(gone + 1); },
       "[tensor] the graph of this tensor no longer exists; keep the Graph alive as long as its tensors are "
       "used (made at `(void)(gone + 1);`)"},
      {"the value of a tensor whose graph is gone", [&] { (void)gone.data<float>(); },
       "[tensor] the graph of this tensor no longer exists; keep the Graph alive as long as its tensors are "
       "used"},
      {"a graph that was moved",
       [&] {
         Graph a;
         Graph b = std::move(a);
         (void)a.tensor({1});
       },
       "[graph] this Graph or Compiled was moved from; use the one that it was moved to (made at "
       "`(void)a.tensor({1});`)"},
      {"a state that is computed", [&] { (x * 2).assign(x); },
       "[assign] only an input can be state, and this tensor is made by 'mul'; declare it with tensor() "
       "(made at `(x * 2).assign(x);`)"},
      {"a state of another size", [&] { x.assign(cx.tensor({5})); },
       "[assign] the state is f32[4] and its next value f32[5]; cast or reshape the next value (made at "
       "`x.assign(cx.tensor({5}));`)"},
      {"a dim with a bad name", [&] { (void)cx.tensor({"batch size", 3}); },
       "[Expression] 'batch size' cannot name a dim: use letters, digits, '_' and '.', a letter or '_' "
       "first"},
      {"a negative size", [&] { (void)cx.tensor({-1, 3}); },
       "[tensor] a size is -1 in [-1, 3]; sizes are at least 0 (made at `(void)cx.tensor({-1, 3});`)"},
  });
}

}  // namespace
}  // namespace luminal::error_test
