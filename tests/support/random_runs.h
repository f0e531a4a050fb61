#pragma once
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "graph/data_input.h"
#include "luminal/luminal.h"
#include "unit/passes/random_graph.h"

namespace luminal::test {

/// A dozen random graphs on a device, beside the reference device.
inline void expect_random_graphs_as_reference(std::string_view device) {
  for (uint64_t seed = 40; seed < 52; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph random(seed, RandomGraph::Kind::Tame, 12);
    Graph& cx = random.graph();
    cx.set_device(device);
    cx.set_step(0);  // random numbers are those of the run
    cx.execute();
    std::vector<TensorData> got;
    for (const auto& item : random.outputs())
      got.push_back(convert(*cx.value(item.tensor.edge().source), Dtype::F64));
    cx.set_device("reference");
    cx.set_step(0);
    cx.execute();
    for (size_t i = 0; i < got.size(); ++i) {
      const TensorData right = convert(*cx.value(random.outputs()[i].tensor.edge().source), Dtype::F64);
      EXPECT_THAT(
          got[i].as<double>(),
          testing::Pointwise(testing::DoubleNear(4 * random.outputs()[i].error + 1e-12), right.as<double>()));
    }
  }
}

}  // namespace luminal::test
