#include "models/rounded.h"

#include "luminal/graph.h"

namespace luminal::models {
namespace {

constexpr int64_t kRoundedBlock = 32;

}  // namespace

GraphTensor rounded_to_blocks(const GraphTensor& x) {
  constexpr double kGreatest = 127, kLeast = 1e-30;  // blocks of zeros have a scale, too
  const int last = x.rank() - 1;
  const GraphTensor blocks = x.split_dims(last, kRoundedBlock);  // [..., K / 32, 32]
  // Both exist in memory: what reads them computes neither anew, and sees integers and their scales.
  const GraphTensor scales = (maximum(blocks.abs().max(-1, true), kLeast) * (1 / kGreatest)).graph_break();
  const GraphTensor steps = (blocks * scales.reciprocal() + 0.5).floor();
  const GraphTensor numbers = steps.cast(Dtype::I8).graph_break();
  return (numbers.cast(Dtype::F32) * scales).merge_dims(last, last + 1);
}

bool has_whole_blocks(const GraphTensor& x) { return x.dim(-1) % kRoundedBlock == Expression(0); }

}  // namespace luminal::models
