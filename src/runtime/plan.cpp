#include "runtime/plan.h"

#include "base/fail.h"

namespace luminal::runtime {
namespace {

std::string tensor_text(const Plan& plan, TensorIndex tensor) {
  const PlanTensor& t = plan.tensors.at(static_cast<size_t>(tensor));
  return fmt::format("%{} {}{}", tensor, name(t.dtype), to_string(t.dims));
}

std::string list_text(const Plan& plan, const std::vector<TensorIndex>& list) {
  std::string text;
  for (const TensorIndex tensor : list)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", tensor_text(plan, tensor));
  return text;
}

std::string indented(const std::string& lines) {
  std::string text;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin) + 1;
    text += "    " + lines.substr(begin, end - begin);
    begin = end;
  }
  return text;
}

}  // namespace

/// One line a tensor that is given, a launch, a result, an update.
std::string Plan::to_string() const {
  std::string text = fmt::format("plan {:016x}\n", key);
  for (const auto& [dim, facts] : bucket.facts)
    text +=
        fmt::format("  dim {} in [{}, {}], a multiple of {}\n", dim, facts.min, facts.max, facts.multiple_of);
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    const PlanTensor& tensor = tensors[static_cast<size_t>(i)];
    if (tensor.role == PlanTensor::Role::Input)
      text += fmt::format("  input {} = #{}{}\n", tensor_text(*this, i), tensor.value->node.index,
                          tensor.donated ? ", donated" : "");
    if (tensor.role == PlanTensor::Role::Constant)
      text += fmt::format("  constant {}\n", tensor_text(*this, i));
  }
  for (const Launch& launch : launches) {
    text += fmt::format("  {}{}({}) -> {}",
                        launch.host   ? "host "
                        : launch.loop ? "loop "
                                      : "",
                        launch.name, list_text(*this, launch.inputs()), list_text(*this, launch.outputs()));
    if (!launch.origin.empty()) text += fmt::format("  // {}", launch.origin);
    text += '\n';
    if (launch.loop) text += indented(launch.loop->body->to_string());
  }
  for (const PlanResult& result : results)
    text += fmt::format("  result #{} = %{}\n", result.value.node.index, result.tensor);
  for (const PlanUpdate& update : updates)
    text += fmt::format("  state #{} = %{}\n", update.state.node.index, update.next);
  return text;
}

}  // namespace luminal::runtime
