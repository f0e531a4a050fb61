#include "base/call_site.h"
#include "base/fail.h"
#include "luminal/function.h"
#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/user_code.h"

namespace luminal {
namespace {

const CustomKernel& kernel_of(const Attributes& attributes) {
  return ops::payload<CustomKernel>("custom_kernel", "kernel", attributes);
}

void run_reference(EvalContext& context) {
  const CustomKernel& kernel = kernel_of(context.attributes);
  if (!kernel.reference) {
    std::vector<std::string_view> targets;
    for (const auto& [target, source] : kernel.sources) targets.push_back(target);
    fail<DeviceError>(
        "[custom_kernel] '{}' has sources for {} and no reference function; run the graph on such a device "
        "or "
        "give the kernel a reference",
        kernel.name, fmt::join(targets, ", "));
  }
  ops::run_user_code("custom_kernel", kernel.name, kernel.reference, context);
}

}  // namespace

std::vector<GraphTensor> custom_kernel(Graph& cx, CustomKernel kernel, std::span<const GraphTensor> inputs,
                                       Where where) {
  const CallSite site("custom_kernel", where);
  if (kernel.sources.empty() && !kernel.reference)
    fail("[custom_kernel] '{}' has neither a source nor a reference function; give it one", kernel.name);
  if (kernel.work_items.size() > 3 || kernel.group.size() > kernel.work_items.size())
    fail(
        "[custom_kernel] '{}' is launched over {} extents in groups of {}; there are at most three, and no "
        "more "
        "of groups than of work items",
        kernel.name, kernel.work_items.size(), kernel.group.size());
  ops::check_outputs("custom_kernel", kernel.name, kernel.outputs, static_cast<bool>(kernel.gradient));
  OpBuilder builder = cx.add_op(kCustomKernel);
  for (const GraphTensor& input : inputs) builder.input(input);
  const auto payload = std::make_shared<const CustomKernel>(std::move(kernel));
  return builder.attribute("kernel", std::shared_ptr<const Payload>(payload)).finish_all(where);
}

const OpDef kCustomKernel = {
    .name = "custom_kernel",
    .arity = -1,
    .traits = Trait::Opaque,
    .infer = [](std::span<const TensorType>,
                const Attributes& attributes) { return kernel_of(attributes).outputs; },
    .evaluate = run_reference,
    .gradient =
        [](Gradient& g) {
          const CustomKernel& kernel = kernel_of(g.attributes());
          ops::user_gradient("custom_kernel", kernel.name, kernel.gradient, g);
        },
    .flops_per_element = 0,
    .doc =
        "A kernel of the user's own, by target; the reference device runs the function that comes with it.",
};

}  // namespace luminal
