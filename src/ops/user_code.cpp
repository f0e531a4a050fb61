#include "ops/user_code.h"

#include "graph/turn.h"

namespace luminal::ops {

void check_outputs(std::string_view op, std::string_view name, const std::vector<TensorType>& outputs,
                   bool has_gradient) {
  if (outputs.empty()) fail("[{}] '{}' has no output; give the dtype and dims of at least one", op, name);
  if (has_gradient && outputs.size() != 1)
    fail("[{}] '{}' has a gradient rule and {} outputs; a rule handles one output, so use a node for each",
         op, name, outputs.size());
}

void run_user_code(std::string_view op, std::string_view name, const HostFunction::Run& run,
                   EvalContext& context) {
  std::vector<std::pair<Dtype, std::vector<int64_t>>> due;
  for (const TensorData& out : context.outputs) due.emplace_back(out.dtype, out.dims);
  {
    const UserCode code(op, name);
    run(context.inputs, context.outputs);
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    const TensorData& out = context.outputs[i];
    if (out.dtype != due[i].first || out.dims != due[i].second)
      fail("[{}] '{}' left {}[{}] in output {}, which is {}[{}]; write into the data that are there", op,
           name, luminal::name(out.dtype), fmt::join(out.dims, ", "), i, luminal::name(due[i].first),
           fmt::join(due[i].second, ", "));
    if (static_cast<int64_t>(out.bytes.size()) != size_bytes(out.dtype, out.element_count()))
      fail("[{}] '{}' left {} bytes in output {}, whose {} {} values take {}; write into the given bytes", op,
           name, out.bytes.size(), i, out.element_count(), luminal::name(out.dtype),
           size_bytes(out.dtype, out.element_count()));
  }
}

void user_gradient(std::string_view op, std::string_view name, const GradientRule& rule, Gradient& g) {
  if (!rule)
    fail("[{}] '{}' has no gradient rule; give it one, or cut the path with stop_gradient", op, name);
  rule(g);
}

}  // namespace luminal::ops
