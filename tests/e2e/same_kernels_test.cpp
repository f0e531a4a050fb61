#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <vector>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"
#include "luminal/nn.h"
#include "luminal/training.h"

// What an op is called does not matter: written out in plain math, or in another of its ways, it becomes kernels of the
// same families that read and write as much and compute as much.
namespace luminal {
namespace {

/// Kernels of a plan, however their values are called.
struct Work {
  std::vector<std::string> families;
  double bytes = 0, flops = 0;
  std::string text;
};

using Written = std::function<GraphTensor(Graph&)>;

Work work_of(const Written& write) {
  Graph cx;
  write(cx).retrieve();
  cx.set_device("cpu");
  const CompileReport report = cx.compile(Fast{}).details();
  Work work;
  for (const KernelReport& kernel : report.kernels) {
    for (int launch = 0; launch < kernel.launches; ++launch) work.families.push_back(kernel.schedule);
    work.bytes += kernel.bytes * kernel.launches;
    work.flops += kernel.flops * kernel.launches;
  }
  std::ranges::sort(work.families);
  work.text = to_text(report);
  return work;
}

struct Pair {
  const char* name;
  Written op, by_hand;
};

constexpr double kLn2 = std::numbers::ln2;
const Shape kMatrix{192, 320};

GraphTensor mean_by_hand(const GraphTensor& x, int axis) {
  return x.sum(axis, true) * x.graph().constant(1.0 / static_cast<double>(*x.dim(axis).constant()));
}
/// [m, k] and [k, n] as a sum of products.
GraphTensor product_by_hand(const GraphTensor& a, const GraphTensor& b) {
  return (a.unsqueeze(2) * b.unsqueeze(0)).sum(1);
}
/// 3 x 3 windows of [N, C, H, W], no padding: [N, C, H - 2, W - 2, 3, 3].
GraphTensor windows(const GraphTensor& x) { return x.unfold(2, 3, 1).unfold(3, 3, 1); }

const std::vector<Pair>& pairs() {
  static const std::vector<Pair> list{
      {"softmax", [](Graph& cx) { return cx.tensor(kMatrix).softmax(1); },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix), e = (x - x.max(1, true)).exp();
         return e * e.sum(1, true).reciprocal();
       }},
      {"log_softmax", [](Graph& cx) { return cx.tensor(kMatrix).log_softmax(1); },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix), d = x - x.max(1, true);
         return d - d.exp().sum(1, true).log2() * kLn2;
       }},
      {"mean", [](Graph& cx) { return cx.tensor(kMatrix).mean(1); },
       [](Graph& cx) { return mean_by_hand(cx.tensor(kMatrix), 1).squeeze(1); }},
      {"a sum, in two steps", [](Graph& cx) { return cx.tensor(kMatrix).sum(); },
       [](Graph& cx) { return cx.tensor(kMatrix).sum(1).sum(0); }},
      {"rms_norm", [](Graph& cx) { return cx.tensor(kMatrix).rms_norm(1, 1e-6); },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix);
         return x * (mean_by_hand(x * x, 1) + 1e-6).sqrt().reciprocal();
       }},
      {"layer_norm", [](Graph& cx) { return cx.tensor(kMatrix).layer_norm(1); },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix), d = x - mean_by_hand(x, 1);
         return d * (mean_by_hand(d * d, 1) + 1e-5).sqrt().reciprocal();
       }},
      {"group_norm", [](Graph& cx) { return cx.tensor({4, 12, 10, 10}).group_norm(3); },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({4, 12, 10, 10}).reshape({4, 3, 400}), d = x - mean_by_hand(x, 2);
         return (d * (mean_by_hand(d * d, 2) + 1e-5).sqrt().reciprocal()).reshape({4, 12, 10, 10});
       }},
      {"silu", [](Graph& cx) { return cx.tensor(kMatrix).silu(); },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix);
         return x * x.sigmoid();
       }},
      {"relu", [](Graph& cx) { return cx.tensor(kMatrix).relu(); },
       [](Graph& cx) { return maximum(cx.tensor(kMatrix), 0); }},
      {"clip", [](Graph& cx) { return cx.tensor(kMatrix).clip(-1, 2); },
       [](Graph& cx) { return minimum(maximum(cx.tensor(kMatrix), -1), 2); }},
      {"glu", [](Graph& cx) { return cx.tensor(kMatrix).glu(1); },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix);
         return x.slice_along(1, 0, 160) * x.slice_along(1, 160, 320).sigmoid();
       }},
      {"matmul", [](Graph& cx) { return cx.tensor({120, 200}).matmul(cx.tensor({200, 90})); },
       [](Graph& cx) {
         const GraphTensor a = cx.tensor({120, 200});
         return product_by_hand(a, cx.tensor({200, 90}));
       }},
      {"matmul, by einsum", [](Graph& cx) { return cx.tensor({120, 200}).matmul(cx.tensor({200, 90})); },
       [](Graph& cx) {
         const GraphTensor a = cx.tensor({120, 200});
         return einsum("ik,kj->ij", {a, cx.tensor({200, 90})});
       }},
      {"matmul, as its transpose's",
       [](Graph& cx) { return cx.tensor({120, 200}).matmul(cx.tensor({200, 90})); },
       [](Graph& cx) {
         const GraphTensor a = cx.tensor({120, 200}), b = cx.tensor({200, 90});
         return b.t().matmul(a.t()).t();
       }},
      {"batched matmul", [](Graph& cx) { return cx.tensor({6, 40, 64}).matmul(cx.tensor({6, 64, 48})); },
       [](Graph& cx) {
         const GraphTensor a = cx.tensor({6, 40, 64}), b = cx.tensor({6, 64, 48});
         return (a.unsqueeze(3) * b.unsqueeze(1)).sum(2);
       }},
      {"outer product", [](Graph& cx) { return einsum("i,j->ij", {cx.tensor({200}), cx.tensor({300})}); },
       [](Graph& cx) {
         const GraphTensor a = cx.tensor({200});
         return a.unsqueeze(1) * cx.tensor({300}).unsqueeze(0);
       }},
      {"nn::Linear and relu",
       [](Graph& cx) {
         const nn::Linear layer(cx, 200, 90);
         return layer.forward(cx.tensor({120, 200})).relu();
       },
       [](Graph& cx) {
         const GraphTensor w = cx.tensor({90, 200}), b = cx.tensor({90}), x = cx.tensor({120, 200});
         const GraphTensor y = (x.unsqueeze(1) * w.unsqueeze(0)).sum(2) + b;
         return maximum(y, 0);
       }},
      {"conv2d",
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({2, 8, 20, 20});
         return conv2d(x, cx.tensor({16, 8, 3, 3}));
       },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({2, 8, 20, 20}), w = cx.tensor({16, 8, 3, 3});
         return (windows(x).unsqueeze(1) * w.reshape({1, 16, 8, 1, 1, 3, 3})).sum({2, 5, 6});
       }},
      {"avg_pool2d",
       [](Graph& cx) { return avg_pool2d(cx.tensor({2, 8, 20, 20}), {.kernel = {3, 3}, .stride = {1, 1}}); },
       [](Graph& cx) { return windows(cx.tensor({2, 8, 20, 20})).sum({4, 5}) * (1.0 / 9); }},
      {"max_pool2d",
       [](Graph& cx) { return max_pool2d(cx.tensor({2, 8, 20, 20}), {.kernel = {3, 3}, .stride = {1, 1}}); },
       [](Graph& cx) { return windows(cx.tensor({2, 8, 20, 20})).max({4, 5}); }},
      {"batch_norm with statistics",
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({4, 12, 10, 10}), mean = cx.tensor({12});
         return x.batch_norm(mean, cx.tensor({12}));
       },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({4, 12, 10, 10}), mean = cx.tensor({12}).reshape({12, 1, 1}),
                           variance = cx.tensor({12}).reshape({12, 1, 1});
         return (x - mean) * (variance + 1e-5).sqrt().reciprocal();
       }},
      {"attention",
       [](Graph& cx) {
         const GraphTensor q = cx.tensor({4, 600, 32}), k = cx.tensor({4, 600, 32});
         return attention(q, k, cx.tensor({4, 600, 32}));
       },
       [](Graph& cx) {
         const GraphTensor q = cx.tensor({4, 600, 32}), k = cx.tensor({4, 600, 32}),
                           v = cx.tensor({4, 600, 32});
         const GraphTensor x = (q.unsqueeze(2) * k.unsqueeze(1)).sum(3) * (1 / std::sqrt(32.0)),
                           e = (x - x.max(2, true)).exp();
         return ((e * e.sum(2, true).reciprocal()).unsqueeze(3) * v.unsqueeze(1)).sum(2);
       }},
      {"cross_entropy",
       [](Graph& cx) {
         const GraphTensor logits = cx.tensor({64, 100});
         return training::cross_entropy(logits, cx.tensor({64, 100}));
       },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor({64, 100}), wanted = cx.tensor({64, 100}), d = x - x.max(1, true);
         const GraphTensor log_probabilities = d - d.exp().sum(1, true).log2() * kLn2;
         return (log_probabilities * wanted).sum(1).sum() * (-1.0 / 64);
       }},
      {"mse",
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix);
         return training::mse(x, cx.tensor(kMatrix));
       },
       [](Graph& cx) {
         const GraphTensor x = cx.tensor(kMatrix), d = x - cx.tensor(kMatrix);
         return (d * d).sum() * (1.0 / (192 * 320));
       }},
  };
  return list;
}

class SameKernels : public testing::TestWithParam<Pair> {};

TEST_P(SameKernels, WhateverItIsCalled) {
  const Work op = work_of(GetParam().op), by_hand = work_of(GetParam().by_hand);
  EXPECT_EQ(op.families, by_hand.families) << op.text << "\n" << by_hand.text;
  EXPECT_EQ(op.bytes, by_hand.bytes) << op.text << "\n" << by_hand.text;
  EXPECT_NEAR(op.flops / by_hand.flops, 1, 0.1) << op.text << "\n" << by_hand.text;
}

std::string test_name(const testing::TestParamInfo<Pair>& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == ',' || c == ':' || c == '\''; });
  std::ranges::replace(name, ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Table, SameKernels, testing::ValuesIn(pairs()), test_name);

}  // namespace
}  // namespace luminal
