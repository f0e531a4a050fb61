#include "models/rounded.h"

#include "luminal/graph.h"

namespace luminal::models {
namespace {

constexpr int64_t kRoundedBlock = 32;

}  // namespace

RoundedBlocks in_rounded_blocks(const GraphTensor& x, int64_t block) {
  constexpr double kGreatest = 127, kLeast = 1e-30;  // blocks of zeros have a scale, too
  const int last = x.rank() - 1;
  const GraphTensor blocks = x.split_dims(last, block);  // [..., K / block, block]
  // Both exist in memory: what reads them computes neither anew, and sees integers and their scales.
  const GraphTensor scales = (maximum(blocks.abs().max(-1, true), kLeast) * (1 / kGreatest)).graph_break();
  const GraphTensor steps = (blocks * scales.reciprocal() + 0.5).floor();
  const GraphTensor numbers = steps.cast(Dtype::I8).graph_break();
  return {numbers.merge_dims(last, last + 1), scales.squeeze(last + 1)};
}

GraphTensor RoundedBlocks::widened() const {
  const int last = numbers.rank() - 1;
  const int64_t block = *numbers.dim(last).constant() / *scales.dim(last).constant();
  return (numbers.split_dims(last, block).cast(Dtype::F32) * scales.unsqueeze(last + 1))
      .merge_dims(last, last + 1);
}

GraphTensor rounded_to_blocks(const GraphTensor& x) { return in_rounded_blocks(x, kRoundedBlock).widened(); }

bool has_whole_blocks(const GraphTensor& x) { return x.dim(-1) % kRoundedBlock == Expression(0); }

}  // namespace luminal::models
