#include <gtest/gtest.h>

#include <set>

#include "luminal/luminal.h"
#include "search/plan_builder.h"
#include "unit/search/pipeline.h"

// Which nodes of the graph a plan says that each launch computes.
namespace luminal::search {
namespace {

struct Covered {
  size_t listed = 0, nodes = 0, computed = 0;  ///< `computed`: by at least one launch
};

/// Updates of `count` weights, each of which computes the same scalars for itself, as optimizers do.
Covered covered(int count) {
  Graph cx;
  const GraphTensor step = cx.tensor({});
  for (int i = 0; i < count; ++i) {
    const GraphTensor weight = cx.tensor({32, 8 + i}), gradient = cx.tensor({32, 8 + i});
    const GraphTensor first = 1 - (step * -0.1).exp(), second = 1 - (step * -0.001).exp();
    (weight - gradient / first / ((gradient.square() / second).sqrt() + 1e-8)).retrieve();
  }
  const test::Searched searched = test::search(cx);
  const auto device = backends::make_null_device();
  const codegen::Target target = device->target();
  const CoverCosts costs{test::roofline(), nullptr, nullptr};
  const Cover cover = find_cover(searched.saturated.cover, *searched.store, costs, {});
  const LoopBodies bodies;
  const Loops loops{bodies, {}};
  const auto choose = [&](const kernel::KernelSpec& spec, const codegen::Bucket& bucket) {
    return best_by_model(spec, bucket, target);
  };
  const runtime::Plan plan = build_plan(cx, searched.kernel_graph, searched.saturated, cover, *searched.store,
                                        loops, choose, *device, {});
  Covered result;
  std::set<NodeId> all, computed;
  for (const KernelGraph::Tensor& tensor : searched.kernel_graph.tensors)
    all.insert(tensor.covers.begin(), tensor.covers.end());
  for (const runtime::Launch& launch : plan.launches) {
    result.listed += launch.covers.size();
    computed.insert(launch.covers.begin(), launch.covers.end());
  }
  result.nodes = all.size();
  result.computed = computed.size();
  return result;
}

/// Of equal values a launch names those that its own results are made of: the lists grow with the graph, and leave
/// nothing out.
TEST(PlanCovers, GrowWithTheGraph) {
  const Covered few = covered(8), many = covered(64);
  EXPECT_EQ(few.computed, few.nodes);
  EXPECT_EQ(many.computed, many.nodes);
  EXPECT_LT(static_cast<double>(many.listed) / static_cast<double>(many.nodes),
            1.5 * static_cast<double>(few.listed) / static_cast<double>(few.nodes))
      << few.listed << " of " << few.nodes << ", " << many.listed << " of " << many.nodes;
}

}  // namespace
}  // namespace luminal::search
