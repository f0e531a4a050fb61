#include "luminal/function.h"

#include "base/call_site.h"
#include "base/fail.h"
#include "luminal/gradient.h"
#include "luminal/ops.h"
#include "ops/user_code.h"

namespace luminal {
namespace {

const HostFunction& code(const Attributes& attributes) {
  return ops::payload<HostFunction>("function", "function", attributes);
}

}  // namespace

std::vector<GraphTensor> function(Graph& cx, std::string name, std::span<const GraphTensor> inputs,
                                  std::vector<TensorType> outputs, HostFunction::Run run,
                                  GradientRule gradient, Where where) {
  const CallSite site("function", where);
  if (!run) fail("[function] '{}' has no code to run; give it a callable", name);
  auto host = std::make_shared<HostFunction>();
  host->name = std::move(name);
  host->outputs = std::move(outputs);
  host->run = std::move(run);
  host->gradient = std::move(gradient);
  ops::check_outputs("function", host->name, host->outputs, static_cast<bool>(host->gradient));
  OpBuilder builder = cx.add_op(kFunction);
  for (const GraphTensor& input : inputs) builder.input(input);
  return builder.attribute("function", std::shared_ptr<const Payload>(host)).finish_all(where);
}

const OpDef kFunction = {
    .name = "function",
    .arity = -1,
    .traits = Trait::SideEffect | Trait::Opaque | Trait::Stateful,
    .infer = [](std::span<const TensorType>,
                const Attributes& attributes) { return code(attributes).outputs; },
    .evaluate =
        [](EvalContext& context) {
          const HostFunction& host = code(context.attributes);
          ops::run_user_code("function", host.name, host.run, context);
        },
    .gradient =
        [](Gradient& g) {
          ops::user_gradient("function", code(g.attributes()).name, code(g.attributes()).gradient, g);
        },
    .flops_per_element = 0,
    .doc =
        "User code on the host, in program order with other side effects; with a gradient of the user's own.",
};

}  // namespace luminal
