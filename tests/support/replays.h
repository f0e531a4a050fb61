#pragma once
#include <string>
#include <vector>

#include "backends/device.h"
#include "codegen/schedule.h"
#include "search/encode/kernel_graph.h"
#include "search/verification/replay.h"

namespace luminal::test {

/// A replay of the kernel that makes the graph's last result, from each family that takes it: its first
/// candidate, which is right, on few samples.
[[nodiscard]] inline std::vector<search::Replay> replays_of(const Graph& cx,
                                                            const codegen::Bucket& bucket = {}) {
  static const auto backend = backends::make_cpu_device();
  const search::KernelGraph program = search::encode(cx);
  const search::KernelGraph::Tensor& made = program.tensors.back();
  search::Unit unit;
  search::Unit::Kernel kernel;
  for (const search::TensorId input : made.arguments) {
    const auto& tensor = program.tensors.at(static_cast<size_t>(input));
    kernel.inputs.push_back(static_cast<int>(unit.tensors.size()));
    unit.tensors.push_back({tensor.type, tensor.value, {}});
  }
  kernel.outputs.push_back(static_cast<int>(unit.tensors.size()));
  unit.tensors.push_back({made.type, made.value, {}});
  unit.kernels.push_back(std::move(kernel));
  const search::VerificationSuite suite = search::prepare_suite(
      cx, bucket.top(), unit, {.operations = 2000, .samples = 2, .kinds = {"integers"}});
  std::vector<search::Replay> list;
  for (const codegen::Schedule* family : codegen::schedules())
    if (const auto best = codegen::best_of(*family, made.spec, bucket, backend->target()))
      list.push_back({.kernels = {{made.spec, std::string(family->name), best->parameters, bucket}},
                      .suite = suite,
                      .fault = "tensor 1 at [0] is 1, must be 2"});
  return list;
}

}  // namespace luminal::test
