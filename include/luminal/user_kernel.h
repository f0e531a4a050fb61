#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <string>

#include "luminal/graph_tensor.h"

/// A kernel written by hand, or a call of a library, that competes with the generated ones.
///
///   const UserKernel blas{.name = "sgemm", .run = [](const KernelCall& call) {
///     const auto* a = static_cast<const float*>(call.inputs[0]);
///     const auto* b = static_cast<const float*>(call.inputs[1]);
///     cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 64, 64, 64, 1, a, 64, b, 64, 0,
///                 static_cast<float*>(call.output), 64);
///   }};
///   GraphTensor y = with_kernel(blas, {a, b}, [](auto in) { return in[0].matmul(in[1]); }).relu();
///
/// The graph holds what the definition says and nothing else, so gradients, fusion and every device work as
/// without the kernel. Wherever a plan would compute the definition by one kernel, this one is a candidate:
/// it is timed and verified like the others, and taken if it is the fastest correct one. It competes in Optimal
/// and TimeBudget mode; no model predicts its speed, so Fast mode never takes it. docs/user_kernels.md.
namespace luminal {

/// What one call sees.
struct KernelCall {
  const void* const* inputs = nullptr;  ///< dense and row-major, in the order of the definition's inputs
  void* output = nullptr;               ///< dense and row-major; it shares no memory with an input
  std::span<const int64_t> dims;        ///< values of the inputs' named dims, sorted by name
  int64_t begin = 0, end = 0;           ///< the tasks to do
  std::byte* shared = nullptr;          ///< UserKernel::shared_bytes of the launch, on a cache line
  std::byte* local = nullptr;           ///< UserKernel::local_bytes of the thread, on a cache line
};

struct UserKernel {
  std::string name;  ///< a C identifier: what reports and profiles show
  /// Does tasks [begin, end). Tasks run at the same time on several threads, in any order and grouping; each
  /// output element is written by exactly one of them. Must not throw.
  std::function<void(const KernelCall& call)> run;
  Expression tasks = 1;                          ///< over the inputs' named dims
  Expression shared_bytes = 0, local_bytes = 0;  ///< workspace
  /// To be changed with the code: what was measured of one version says nothing of another.
  int version = 1;
  std::string device = "cpu";  ///< where `run` can run
};

using Definition = std::function<GraphTensor(std::span<const GraphTensor> inputs)>;

/// Lets `kernel` compete for `definition` of inputs of these types, in all graphs of the process that are
/// compiled from now on. Sizes may be named dims; they match dims of the same names. The same name may serve
/// several definitions. A kernel that is already there under the same name, definition and version stays.
/// Errors: Error if the name is that of a schedule family or not an identifier; if `run` is empty, there are no
/// inputs, more than 16, or one that the definition does not read; if no single kernel computes the definition,
/// so that no plan would ever take this one.
void add_kernel(const UserKernel& kernel, std::span<const TensorType> inputs, const Definition& definition);

/// definition(inputs), for which `kernel` competes. Errors: as add_kernel, and of the definition.
[[nodiscard]] GraphTensor with_kernel(const UserKernel& kernel, std::span<const GraphTensor> inputs,
                                      const Definition& definition);
[[nodiscard]] inline GraphTensor with_kernel(const UserKernel& kernel,
                                             std::initializer_list<GraphTensor> inputs,
                                             const Definition& definition) {
  return with_kernel(kernel, std::span(inputs.begin(), inputs.size()), definition);
}

}  // namespace luminal
