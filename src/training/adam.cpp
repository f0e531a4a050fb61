#include <algorithm>

#include "base/fail.h"
#include "luminal/training/optimizer.h"

namespace luminal::training {
namespace {

void check(const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Adam::Options& options) {
  if (parameters.size() != gradients.size())
    fail("[Adam] {} parameters and {} gradients; give one gradient for each", parameters.size(),
         gradients.size());
  const auto in_unit = [](double beta) { return beta >= 0 && beta < 1; };
  if (!in_unit(options.beta1) || !in_unit(options.beta2) || !(options.epsilon >= 0) ||
      !(options.weight_decay >= 0))
    fail(
        "[Adam] beta1={}, beta2={}, epsilon={}, weight_decay={} are out of range; betas lie in [0, 1), the "
        "others are not negative",
        options.beta1, options.beta2, options.epsilon, options.weight_decay);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const TensorType parameter = parameters[i].type(), gradient = gradients[i].type();
    if (!is_float(parameter.dtype))
      fail<DtypeError>("[Adam] parameter {} is {}; only floats can be trained", i, parameter.to_string());
    if (parameter.dtype != gradient.dtype || parameter.dims != gradient.dims)
      fail<ShapeError>("[Adam] parameter {} is {} and its gradient {}; they must be alike", i,
                       parameter.to_string(), gradient.to_string());
  }
}

GraphTensor zero_state(Graph& cx, std::string name, const TensorType& type) {
  GraphTensor state = cx.named_tensor(std::move(name), type.dims, type.dtype);
  return state.set(TensorData(type.dtype, exec(type.dims, cx.dims())));
}

GraphTensor scalar_state(Graph& cx, std::string name, double value, Dtype dtype) {
  GraphTensor state = cx.named_tensor(std::move(name), {}, dtype);
  return state.set({value});
}

}  // namespace

Adam::Adam(Graph& cx, const std::vector<GraphTensor>& parameters, const std::vector<GraphTensor>& gradients,
           const Options& options, Where where) {
  const CallSite site("Adam", where);
  check(parameters, gradients, options);
  learning_rate_ = scalar_state(cx, "learning_rate", options.learning_rate, Dtype::F64);
  // Scalars in f64: 1 - 0.999^t loses half its digits in f32 while t is small.
  beta1_power_ = scalar_state(cx, "beta1_power", 1, Dtype::F64);
  beta2_power_ = scalar_state(cx, "beta2_power", 1, Dtype::F64);
  steps_ = cx.named_tensor("step", {}, Dtype::I64);
  steps_.set(TensorData(Dtype::I64, {}));
  const GraphTensor power1 = beta1_power_ * options.beta1, power2 = beta2_power_ * options.beta2;
  beta1_power_.assign(power1);
  beta2_power_.assign(power2);
  steps_.assign(steps_ + 1);
  const GraphTensor correction1 = (1 - power1).reciprocal(), root2 = (1 - power2).rsqrt();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const GraphTensor& parameter = parameters[i];
    const Dtype dtype = parameter.dtype();
    GraphTensor gradient = gradients[i];
    if (options.weight_decay != 0) gradient = gradient + parameter * options.weight_decay;
    const GraphTensor m = first_moments_.emplace_back(zero_state(cx, "exp_avg", parameter.type()));
    const GraphTensor v = second_moments_.emplace_back(zero_state(cx, "exp_avg_sq", parameter.type()));
    const GraphTensor m_next = m * options.beta1 + gradient * (1 - options.beta1);
    const GraphTensor v_next = v * options.beta2 + gradient.square() * (1 - options.beta2);
    const GraphTensor step_size = (learning_rate_ * correction1).cast(dtype);
    const GraphTensor denominator = v_next.sqrt() * root2.cast(dtype) + options.epsilon;
    m.assign(m_next);
    v.assign(v_next);
    parameter.assign(parameter - m_next / denominator * step_size);
  }
}

void Adam::set_learning_rate(double rate) { learning_rate_.set({rate}); }

void Adam::serialize(nn::Serializer& s) const {
  s.buffer("step", steps_);
  s.buffer("beta1_power", beta1_power_);
  s.buffer("beta2_power", beta2_power_);
  for (size_t i = 0; i < first_moments_.size(); ++i) {
    s.buffer(std::to_string(i) + "/exp_avg", first_moments_[i]);
    s.buffer(std::to_string(i) + "/exp_avg_sq", second_moments_[i]);
  }
}

}  // namespace luminal::training
