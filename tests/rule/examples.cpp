#include "rule/examples.h"

#include "luminal/luminal.h"
#include "luminal/ops.h"

namespace luminal::search::test {
namespace {

GraphTensor matrix(Graph& cx) { return cx.tensor({3, 4}); }

GraphTensor rows(Graph& cx) { return cx.tensor({3}).expand_dim(1, 4); }
/// Of three tensors, which one number a row makes four.
GraphTensor four(Graph& cx) { return matrix(cx) + matrix(cx) + matrix(cx); }
void sum_of_shared(Graph&, GraphTensor shared) {
  shared.retrieve();
  shared.sum(1).retrieve();
}

}  // namespace

const std::map<std::string, Example>& examples() {
  static const std::map<std::string, Example> all = {
      {"matmul", [](Graph& cx) { matrix(cx).matmul(cx.tensor({4, 5})).retrieve(); }},
      {"identity-copy", [](Graph& cx) { (matrix(cx) * 1.0).retrieve(); }},
      {"transpose", [](Graph& cx) { (matrix(cx).transpose(0, 1) * 1.0).retrieve(); }},
      {"add-one", [](Graph& cx) { (matrix(cx) + 1.0).retrieve(); }},
      {"scale-by-tensor", [](Graph& cx) { (matrix(cx) * matrix(cx)).retrieve(); }},
      {"divide", [](Graph& cx) { (matrix(cx) / matrix(cx)).retrieve(); }},
      {"scale-by-constant-tensor",
       [](Graph& cx) {
         GraphTensor constant = cx.full({3, 4}, 2.0) * 3.0;
         constant.retrieve();
         (matrix(cx) * constant).retrieve();
       }},
      {"square-of-equal",
       [](Graph& cx) {
         GraphTensor x = matrix(cx), same = x + 0.0;  // equal by a law, and no copy
         same.retrieve();
         (x * same).retrieve();
       }},
      {"sum-of-scaled-rows",
       [](Graph& cx) { (matrix(cx) * cx.tensor({3}).expand_dim(1, 4)).sum(1).retrieve(); }},
      {"sum-of-doubled-rows", [](Graph& cx) { (matrix(cx) * 2.0).sum(1).retrieve(); }},
      {"sum-of-rows-by-the-least", [](Graph& cx) { (matrix(cx) * 0x1p-24).sum(1).retrieve(); }},
      {"sum-of-rows-below-the-least", [](Graph& cx) { (matrix(cx) * 0x1.fp-25).sum(1).retrieve(); }},
      {"sum-of-chosen-doubles",
       [](Graph& cx) {
         const GraphTensor x = matrix(cx);
         where(x.lt(0.0), x * 2.0, cx.full({3, 4}, 0.0)).sum(1).retrieve();
       }},
      {"sum-of-either",  // no branch is zero
       [](Graph& cx) {
         const GraphTensor x = matrix(cx);
         where(x.lt(0.0), x * 2.0, cx.full({3, 4}, 1.0)).sum(1).retrieve();
       }},
      {"sum-of-chosen-rows",
       [](Graph& cx) {
         const GraphTensor x = matrix(cx), scaled = x * cx.tensor({3}).expand_dim(1, 4);
         where(x.lt(0.0), scaled, cx.full({3, 4}, 0.0)).sum(1).retrieve();
       }},
      {"add-zero", [](Graph& cx) { (matrix(cx) + 0.0).retrieve(); }},
      {"sum-of-scaled-integer-rows",
       [](Graph& cx) {
         const GraphTensor rows = cx.tensor({3, 4}, Dtype::I64), scale = cx.tensor({3}, Dtype::I64);
         (rows * scale.expand_dim(1, 4)).sum(1).retrieve();
       }},
      {"max-of-doubled-rows", [](Graph& cx) { (matrix(cx) * 2.0).max(1).retrieve(); }},
      {"max-of-negated-rows", [](Graph& cx) { (matrix(cx) * -1.0).max(1).retrieve(); }},
      {"sum-of-repeated-rows", [](Graph& cx) { cx.tensor({3}).expand_dim(1, 4).sum(1).retrieve(); }},
      {"sum-of-repeated-integers",
       [](Graph& cx) { cx.tensor({3}, Dtype::I64).expand_dim(1, 4).sum(1).retrieve(); }},
      {"sum-of-shared-doubled-rows",
       [](Graph& cx) {
         GraphTensor doubled = matrix(cx) * 2.0;
         doubled.retrieve();
         doubled.sum(1).retrieve();
       }},
      {"sum-of-shared-doubled-integers",
       [](Graph& cx) {
         GraphTensor doubled = cx.tensor({3, 4}, Dtype::I64) * 2;
         doubled.retrieve();
         doubled.sum(1).retrieve();
       }},
      {"sum-of-shared-scaled-integers",
       [](Graph& cx) {
         GraphTensor scaled = cx.tensor({3, 4}, Dtype::I64) * cx.tensor({3}, Dtype::I64).expand_dim(1, 4);
         scaled.retrieve();
         scaled.sum(1).retrieve();
       }},
      {"sum-of-shared-scaled-rows",
       [](Graph& cx) {
         GraphTensor scaled = matrix(cx) * cx.tensor({3}).expand_dim(1, 4);
         scaled.retrieve();
         scaled.sum(1).retrieve();
       }},
      {"sum-of-scaled-columns",
       [](Graph& cx) { (matrix(cx) * cx.tensor({4}).expand_dim(0, 3)).sum(1).retrieve(); }},
      {"sum-of-copied-view",
       [](Graph& cx) {
         GraphTensor copy = matrix(cx).transpose(0, 1) * 1.0;
         copy.retrieve();
         copy.sum(1).retrieve();
       }},
      {"sum-of-tripled-rows", [](Graph& cx) { (matrix(cx) * 3.0).sum(1).retrieve(); }},
      {"sum-of-tripled-scaled-rows",
       [](Graph& cx) { (matrix(cx) * cx.tensor({3}).expand_dim(1, 4) * 3.0).sum(1).retrieve(); }},
      {"sum-of-long-scaled-rows",  // without the small factors the sum overflows
       [](Graph& cx) { (cx.tensor({3, 64}) * cx.tensor({3}).expand_dim(1, 64)).sum(1).retrieve(); }},
      {"sum-of-long-shared-scaled-rows",
       [](Graph& cx) {
         GraphTensor scaled = cx.tensor({3, 64}) * cx.tensor({3}).expand_dim(1, 64);
         scaled.retrieve();
         scaled.sum(1).retrieve();
       }},
      {"sum-of-products-with-shared",  // what is shared has its own arguments, at either place of the product
       [](Graph& cx) {
         const GraphTensor y = matrix(cx), z = matrix(cx), scale = cx.tensor({3}).expand_dim(1, 4);
         GraphTensor shared = (matrix(cx) + cx.tensor({4}).expand_dim(0, 3)) * scale * 3.0;
         shared.retrieve();
         (shared / y).sum(1).retrieve();
         (z.exp2() * shared).sum(1).retrieve();
       }},
      {"sum-of-shared-small-sums",  // the producer is no elementwise kernel, and keeps its constant
       [](Graph& cx) {
         GraphTensor sums = (cx.tensor({3, 4, 5}) * 0x1p-25).sum(2);
         sums.retrieve();
         (sums * 1024.0).sum(1).retrieve();
       }},
      {"sum-of-shared-scaled-four", [](Graph& cx) { sum_of_shared(cx, four(cx) * rows(cx) * 3.0); }},
      {"sum-of-shared-scaled-five",
       [](Graph& cx) { sum_of_shared(cx, (four(cx) + matrix(cx)) * rows(cx) * 3.0); }},
      {"sum-of-shared-scaled-long",  // of little that is read much is computed
       [](Graph& cx) {
         const GraphTensor x = matrix(cx);
         sum_of_shared(cx, x.exp2().sin().exp2().sin().exp2().sin().exp2().sin() * rows(cx) * 3.0);
       }},
      {"quotients-of-constant-tensor",
       [](Graph& cx) {
         GraphTensor constant = cx.full({3, 4}, 2.0) * 3.0;
         constant.retrieve();
         const GraphTensor x = matrix(cx);
         (x / constant).retrieve();
         (constant / x).retrieve();
       }},
      {"product-less-power", [](Graph& cx) { (matrix(cx) * matrix(cx) - matrix(cx).exp2()).retrieve(); }},
      {"power-less-product", [](Graph& cx) { (matrix(cx).exp2() - matrix(cx) * matrix(cx)).retrieve(); }},
      {"product-and-product",  // a slot changes places with its partner, or together with it
       [](Graph& cx) { (matrix(cx) * matrix(cx) + matrix(cx) * matrix(cx)).retrieve(); }},
      {"positive-part", [](Graph& cx) { matrix(cx).relu().retrieve(); }},
      {"integer-of-scaled-sum",  // what is summed rounds, what comes out does not
       [](Graph& cx) { ((cx.tensor({3, 7}, Dtype::F64) * 0.7).sum(1) * 1e15).cast(Dtype::I64).retrieve(); }},
      {"integer-of-repeated-sum",
       [](Graph& cx) {
         (cx.tensor({3}, Dtype::F64).expand_dim(1, 7).sum(1) * 1e15).cast(Dtype::I64).retrieve();
       }},
      {"sum-of-integers-halved",
       [](Graph& cx) { ((cx.tensor({3, 4}, Dtype::I32) * 3).sum(1).cast(Dtype::F32) / 2.0).retrieve(); }},
      {"sum-of-chosen-shared",  // read through the second slot
       [](Graph& cx) {
         const GraphTensor scale = cx.tensor({3}).expand_dim(1, 4);
         GraphTensor shared = (matrix(cx) + cx.tensor({4}).expand_dim(0, 3)) * scale * 3.0;
         shared.retrieve();
         where(matrix(cx).lt(0.5), shared, cx.full({3, 4}, 0.0)).sum(1).retrieve();
       }},
      {"sum-of-repeated-doubles",
       [](Graph& cx) { cx.tensor({3}, Dtype::F64).expand_dim(1, 7).sum(1).retrieve(); }},
      {"quotient-of-copied-views",
       [](Graph& cx) {
         GraphTensor a = cx.tensor({4, 3}).transpose(0, 1) * 1.0, b = cx.tensor({4, 3}).transpose(0, 1) * 1.0;
         a.retrieve(), b.retrieve();
         (matrix(cx) + a / b).retrieve();
       }},
      {"sum-of-product", [](Graph& cx) { (matrix(cx) * matrix(cx)).sum(1).retrieve(); }},
  };
  return all;
}

}  // namespace luminal::search::test
