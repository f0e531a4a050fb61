#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"

// A step of one token, a batch of one image: sizes are named in the graph and 1 when it runs. Plans are those of graphs in
// which they are 1 from the start.
namespace luminal::search {
namespace {

using BuildBatched = std::function<GraphTensor(Graph&, const Expression&)>;

struct BatchedGraph {
  std::string name;
  BuildBatched build;
};

std::vector<BatchedGraph> batched_graphs() {
  const auto rows = [](Graph& cx, const Expression& n) { return cx.named_tensor("x", {n, 512}); };
  return {
      {"rms norm", [=](Graph& cx, const Expression& n) { return rows(cx, n).rms_norm(-1, 1e-5); }},
      {"layer norm", [=](Graph& cx, const Expression& n) { return rows(cx, n).layer_norm(-1, 1e-5); }},
      {"softmax", [=](Graph& cx, const Expression& n) { return rows(cx, n).softmax(-1); }},
      {"log softmax", [=](Graph& cx, const Expression& n) { return rows(cx, n).log_softmax(-1); }},
      {"argmax", [=](Graph& cx, const Expression& n) { return rows(cx, n).argmax(1); }},
      {"variance",
       [=](Graph& cx, const Expression& n) {
         const GraphTensor x = rows(cx, n);
         return (x - x.mean(1, true)).square().mean(1);
       }},
      {"sum", [=](Graph& cx, const Expression& n) { return rows(cx, n).sum(1); }},
      {"product",
       [=](Graph& cx, const Expression& n) { return rows(cx, n).matmul(cx.tensor({512, 256})).relu(); }},
      {"turned product",
       [=](Graph& cx, const Expression& n) { return rows(cx, n).matmul(cx.tensor({256, 512}).t()); }},
      {"quantised product",
       [=](Graph& cx, const Expression& n) {
         return rows(cx, n).matmul(cx.tensor({256, 512}, Dtype::Q4_K).cast(Dtype::F32).t());
       }},
      {"middle", [](Graph& cx, const Expression& n) { return cx.named_tensor("x", {n, 64, 32}).mean(1); }},
      {"permuted",
       [](Graph& cx, const Expression& n) {
         return cx.named_tensor("x", {n, 8, 64}).permute({1, 0, 2}).contiguous() * 2;
       }},
      {"attention",
       [](Graph& cx, const Expression& n) {
         const GraphTensor q = cx.named_tensor("q", {4, n, 64}), k = cx.tensor({4, 256, 64}),
                           v = cx.tensor({4, 256, 64});
         return (q.matmul(k.transpose(1, 2)) * 0.125).softmax(-1).matmul(v);
       }},
      {"convolution",
       [](Graph& cx, const Expression& n) {
         return conv2d(cx.named_tensor("x", {n, 8, 14, 14}), cx.tensor({16, 8, 3, 3}), {.padding = {1}});
       }},
  };
}

/// Operands are numbered by their content, which differs with the sizes: the one whose rows are the tile's is told by what
/// it is, "x" or else.
std::string parameters_of(const KernelReport& kernel) {
  std::string text = kernel.parameters;
  constexpr std::string_view kSwapped = "swap_operands=";
  const size_t at = text.find(kSwapped);
  if (at == std::string::npos) return text;
  const bool swapped = text.at(at + kSwapped.size()) == '1',
             x_is_first = kernel.spec.find("A = x ") != std::string::npos;
  return text.replace(at, kSwapped.size() + 1, swapped == x_is_first ? "rows=else" : "rows=x");
}

/// Schedules of a plan's kernels and their parameters, in an order of their own.
std::vector<std::string> schedules(const BuildBatched& build, bool named) {
  Graph cx;
  cx.set_device("cpu");
  const Expression n = named ? Expression::dim("n", {.min = 1, .max = 64}) : Expression(1);
  build(cx, n).retrieve();
  if (named) cx.set_dim("n", 1);
  std::vector<std::string> list;
  for (const KernelReport& kernel : cx.compile(Fast{}).details().kernels)
    list.push_back(kernel.schedule + " " + parameters_of(kernel));
  std::ranges::sort(list);
  return list;
}

TEST(BatchOfOne, HasThePlanOfFixedSizes) {
  for (const BatchedGraph& each : batched_graphs())
    EXPECT_EQ(schedules(each.build, true), schedules(each.build, false)) << each.name;
}

}  // namespace
}  // namespace luminal::search
