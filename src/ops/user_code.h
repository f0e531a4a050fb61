#pragma once
#include "base/fail.h"
#include "luminal/function.h"

/// What ops that carry user code share.
namespace luminal::ops {

/// The payload in attribute `key` as a T. Errors: InternalError if it is something else.
template <class T>
const T& payload(std::string_view op, std::string_view key, const Attributes& attributes) {
  const auto* typed = dynamic_cast<const T*>(attributes.get<std::shared_ptr<const Payload>>(key).get());
  LUMINAL_CHECK(typed != nullptr, "attribute '{}' of {}", key, op);
  return *typed;
}

/// Errors: Error if there are no outputs, or several with a gradient rule, which knows of one only.
void check_outputs(std::string_view op, std::string_view name, const std::vector<TensorType>& outputs,
                   bool has_gradient);

/// Calls the code and checks that it left the outputs' sizes alone. Errors: Error naming the code.
void run_user_code(std::string_view op, std::string_view name, const HostFunction::Run& run,
                   EvalContext& context);

/// Errors: Error naming the code if it has no gradient rule.
void user_gradient(std::string_view op, std::string_view name, const GradientRule& rule, Gradient& g);

}  // namespace luminal::ops
