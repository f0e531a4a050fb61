#include "search/saturate/spec_store.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "luminal/luminal.h"
#include "search/encode/kernel_graph.h"

// What rules ask of single kernels, at the borders.
namespace luminal::search {
namespace {

/// The last kernel of the graph, computed together with all that it reads if `fused`.
kernel::KernelSpec last_kernel(Graph& cx, GraphTensor out, bool fused = false) {
  out.retrieve();
  const KernelGraph kernel_graph = encode(cx, false, MathMode::Strict);
  const KernelGraph::Tensor& last = kernel_graph.tensors.back();
  kernel::KernelSpec spec = last.spec;
  if (!fused) return spec;
  for (size_t slot = 0; slot < last.arguments.size(); ++slot) {
    const KernelGraph::Tensor& producer = kernel_graph.tensors[static_cast<size_t>(last.arguments[slot])];
    if (producer.kind == KernelGraph::Tensor::Kind::Kernel)
      return kernel::compose(spec, static_cast<int>(slot), producer.spec, {}, {}, {.mode = MathMode::Strict})
          ->spec;
  }
  ADD_FAILURE() << "it reads no kernel";
  return spec;
}

TEST(SpecStore, SumsAreExactByWhatIsSummed) {
  SpecStore store(MathMode::Strict);
  Graph cx;
  const auto exact = [&](const GraphTensor& out, bool fused) {
    return store.is_exact(store.intern(last_kernel(cx, out, fused)));
  };
  const auto floats = cx.tensor({3, 4}), integers = cx.tensor({3, 4}, Dtype::I32);
  EXPECT_FALSE(exact(floats.sum(1), false));
  EXPECT_FALSE(exact(floats.prod(1), false));
  EXPECT_TRUE(exact(floats.max(1), false)) << "a maximum rounds nothing";
  EXPECT_TRUE(exact(integers.sum(1), false));
  EXPECT_FALSE(exact(floats.sum(1).cast(Dtype::I32), true)) << "the integer is made of a sum that rounds";
  EXPECT_TRUE(exact(integers.sum(1).cast(Dtype::F32) / 3.0F, true)) << "what rounds is not summed";
}

TEST(SpecStore, ElementwiseKernelsAreSmall) {
  SpecStore store;
  Graph cx;
  const auto matrix = [&] { return cx.tensor({3, 4}); };
  const auto small = [&](const GraphTensor& out) {
    return store.is_elementwise(store.intern(last_kernel(cx, out)));
  };
  const auto chain = [&](int steps) {
    GraphTensor x = matrix();
    for (int i = 0; i < steps; ++i) x = x * x;
    return x;
  };
  EXPECT_TRUE(small(chain(15))) << "16 nodes, its input being one";
  EXPECT_FALSE(small(chain(16)));
  EXPECT_TRUE(small(matrix() * matrix() * matrix() * matrix()));
  EXPECT_FALSE(small(matrix() * matrix() * matrix() * matrix() * matrix()));
  EXPECT_FALSE(small(matrix().sum(1)));
}

TEST(SpecStore, SlotsAreSymmetricWhereTwoMayChangePlacesAlone) {
  SpecStore store;
  Graph cx;
  const auto matrix = [&] { return cx.tensor({3, 4}); };
  const auto symmetric = [&](const GraphTensor& out, int i, int j) {
    return store.symmetric(store.intern(last_kernel(cx, out)), i, j);
  };
  EXPECT_TRUE(symmetric(matrix() * matrix(), 0, 1));
  EXPECT_FALSE(symmetric(matrix() * matrix(), 1, 1)) << "one slot";
  EXPECT_FALSE(symmetric(matrix() / matrix(), 0, 1));
  const GraphTensor products = matrix() * matrix() + matrix() * matrix();
  EXPECT_TRUE(symmetric(products, 0, 1));
  EXPECT_FALSE(symmetric(products, 0, 2)) << "only with their partners";
}

// Threads that compose the same kernels at once get the same, and find all specs by number meanwhile.
TEST(SpecStore, ThreadsComposeWhatOneThreadDoes) {
  constexpr int kKernels = 40, kThreads = 4;
  SpecStore store, alone;
  std::vector<SpecId> specs, own;
  for (int n = 1; n <= kKernels; ++n) {
    Graph cx;
    const kernel::KernelSpec spec = last_kernel(cx, cx.tensor({n + 1, 8}).exp2());
    specs.push_back(store.intern(spec));
    own.push_back(alone.intern(spec));
  }
  const auto compose = [](SpecStore& in, SpecId spec) {
    const std::vector<uint32_t> consumer{0}, producer{1};
    for (int depth = 0; depth < 3; ++depth) spec = in.compose(spec, 0, spec, consumer, producer)->spec;
    return spec;
  };
  std::vector<std::vector<SpecId>> made(kThreads, std::vector<SpecId>(kKernels));
  std::vector<std::thread> threads;
  for (auto& list : made)
    threads.emplace_back([&] {
      for (size_t i = 0; i < list.size(); ++i) list[i] = compose(store, specs[i]);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& list : made) EXPECT_EQ(list, made[0]);
  for (size_t i = 0; i < specs.size(); ++i) {
    EXPECT_EQ(store.at(made[0][i]), alone.at(compose(alone, own[i])));
    EXPECT_EQ(store.operations(made[0][i]), alone.operations(compose(alone, own[i])));
  }
  EXPECT_EQ(store.size(), alone.size());
}

}  // namespace
}  // namespace luminal::search
