#include <gtest/gtest.h>

#include <algorithm>

#include "luminal/luminal.h"
#include "search/encode/kernel_graph.h"

namespace luminal::search {
namespace {

using TensorKind = KernelGraph::Tensor::Kind;

int count(const KernelGraph& kernel_graph, TensorKind kind) {
  return static_cast<int>(std::ranges::count(kernel_graph.tensors, kind, &KernelGraph::Tensor::kind));
}

TEST(Encode, FoldsElementwiseNodesIntoTheirOnlyReader) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 6}), y = cx.tensor({4, 6});
  ((x + y) * 2.0).exp2().sum(1).retrieve();
  const KernelGraph kernel_graph = encode(cx);
  ASSERT_EQ(count(kernel_graph, TensorKind::Kernel), 1);
  EXPECT_EQ(kernel_graph.tensors.back().covers.size(), 4U);
  EXPECT_EQ(kernel_graph.tensors.back().arguments.size(), 2U);
}

TEST(Encode, KeepsAValueThatSeveralNodesRead) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 6});
  const GraphTensor shared = x.exp2();
  (shared.sum(1).expand_dim(1, 6) * shared).retrieve();
  EXPECT_EQ(count(encode(cx), TensorKind::Kernel), 3);
}

TEST(Encode, AContractionIsOneKernel) {
  Graph cx;
  cx.tensor({"m", 64}).matmul(cx.tensor({64, 32})).retrieve();
  const KernelGraph kernel_graph = encode(cx);
  ASSERT_EQ(count(kernel_graph, TensorKind::Kernel), 1);
  const kernel::KernelSpec& spec = kernel_graph.tensors.back().spec;
  EXPECT_EQ(spec.result().monoid, Monoid::Add);
  EXPECT_EQ(spec.symbols(), std::vector<std::string>{"m"});
}

TEST(Encode, DoesNotRepeatWorkByFolding) {
  Graph cx;
  const GraphTensor x = cx.tensor({8}), y = cx.tensor({8, 16});
  (x.exp2().expand_dim(1, 16) * y).retrieve();  // each power is read 16 times: the cover decides
  EXPECT_EQ(count(encode(cx), TensorKind::Kernel), 2);
}

TEST(Encode, ConstantsAndFormulasStandInBodies) {
  Graph cx;
  const GraphTensor x = cx.tensor({3, 5});
  (x * cx.iota(Expression::flat_index() * 2 + 1, {3, 5}, Dtype::F32).pad_along(0, 0, 0) + 1.5).retrieve();
  const KernelGraph kernel_graph = encode(cx);
  ASSERT_EQ(count(kernel_graph, TensorKind::Kernel), 1);
  EXPECT_EQ(kernel_graph.tensors.back().arguments.size(), 1U);
}

TEST(Encode, NarrowFloatsAccumulateInF32) {
  Graph cx;
  cx.tensor({3, 5}, Dtype::BF16).sum(1).retrieve();
  const kernel::KernelSpec spec = encode(cx).tensors.back().spec;
  ASSERT_EQ(spec.values().size(), 2U);
  EXPECT_EQ(spec.values()[0].dtype(), Dtype::F32);
  EXPECT_EQ(spec.result().dtype(), Dtype::BF16);
}

TEST(Encode, OpaqueOpsReadDenseCopiesAndCutKernels) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 6});
  ((x * 2.0).transpose(0, 1).graph_break() + 1.0).retrieve();
  const KernelGraph kernel_graph = encode(cx);
  ASSERT_EQ(kernel_graph.hosts.size(), 1U);
  ASSERT_EQ(count(kernel_graph, TensorKind::Kernel),
            3);  // the product, its transposed copy, the sum behind the break
}

TEST(Encode, EverythingIsAResultOnRequest) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 6});
  ((x * 2.0) + 1.0).sum(1).retrieve();
  const KernelGraph kernel_graph = encode(cx, true);
  EXPECT_EQ(kernel_graph.results.size(),
            6U);  // two products and sums with their constants: all but the input
}

TEST(Encode, PresentValuesAreInputs) {
  Graph cx;
  const GraphTensor x = cx.tensor({2}).set({1, 2});
  const GraphTensor y = (x * 2.0).keep();
  cx.set_device("reference");
  cx.execute();
  (y + 1.0).retrieve();
  const KernelGraph kernel_graph = encode(cx);
  EXPECT_EQ(count(kernel_graph, TensorKind::Input), 1);
  EXPECT_EQ(count(kernel_graph, TensorKind::Kernel), 1);
}

TEST(Encode, NextStatesAreWantedInTheirOwnShape) {
  Graph cx;
  const GraphTensor state = cx.tensor({2, 3}).set({1, 2, 3, 4, 5, 6});
  state.assign((cx.tensor({3, 2}) * 2.0).transpose(0, 1));
  const KernelGraph kernel_graph = encode(cx);
  ASSERT_EQ(kernel_graph.updates.size(), 1U);
  EXPECT_EQ(kernel_graph.updates[0].first, state.edge().source);
  const KernelGraph::Tensor& next = kernel_graph.tensors[static_cast<size_t>(kernel_graph.updates[0].second)];
  EXPECT_EQ(to_string(next.type.dims), "[2, 3]");
}

TEST(Encode, SideEffectsKeepTheirOrder) {
  Graph cx;
  const GraphTensor x = cx.tensor({2});
  x.print("first");
  (x + 1.0).print("second");
  const KernelGraph kernel_graph = encode(cx);
  ASSERT_EQ(kernel_graph.hosts.size(), 2U);
  EXPECT_TRUE(kernel_graph.hosts[0].must_run && kernel_graph.hosts[1].must_run);
  EXPECT_TRUE(kernel_graph.hosts[0].after.empty());
  EXPECT_EQ(kernel_graph.hosts[1].after, std::vector<int>{0});
}

/// The gradient of a maximum asks which elements equal it: the sums behind them are computed once.
TEST(Encode, SumsBehindAComparisonWithTheirOwnMaximumAreComputedOnce) {
  Graph cx;
  const GraphTensor x = cx.tensor({4, 8}), w = cx.tensor({8, 6});
  const GraphTensor loss = x.matmul(w).max(1).sum();
  auto gradients = cx.run_pass(Autograd({w}, loss));
  gradients[0].retrieve();
  const KernelGraph kernel_graph = encode(cx);
  EXPECT_EQ(std::ranges::count(kernel_graph.tensors, true, &KernelGraph::Tensor::no_recompute), 1);

  Graph plain;  // relu compares with a constant: nothing to keep in step
  const GraphTensor a = plain.tensor({4, 8}), b = plain.tensor({8, 6});
  const GraphTensor other = a.matmul(b).relu().sum();
  plain.run_pass(Autograd({b}, other))[0].retrieve();
  EXPECT_EQ(std::ranges::count(encode(plain).tensors, true, &KernelGraph::Tensor::no_recompute), 0);
}

}  // namespace
}  // namespace luminal::search
