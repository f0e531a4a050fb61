#include <gtest/gtest.h>

#include "luminal/graph.h"
#include "luminal/session.h"

namespace luminal {
namespace {

// Its kernel compares halves under a mask with one of them in memory, where LLVM 19 mixes up the operands if it
// may compute with halves.
TEST(Halves, FlooredQuotientsOfTruthAndHalves) {
  for (const std::string& device : session_devices()) {
    SCOPED_TRACE(device);
    Graph cx;
    cx.set_device(device);
    const GraphTensor x = cx.tensor({4}, Dtype::Bool).set(std::vector<bool>{true, true, false, true});
    const GraphTensor y = cx.tensor({4}, Dtype::F16).set({2, 3, 1.5, 0.5});
    const GraphTensor quotient = x.floor_div(y).cast(Dtype::F32).retrieve();
    cx.execute();
    EXPECT_EQ(quotient.data<float>(), (std::vector<float>{0, 0, 0, 2}));
  }
}

}  // namespace
}  // namespace luminal
