#include "training/step_builder.h"

#include <algorithm>
#include <set>

#include "luminal/training/optimizer.h"

namespace luminal::training {
namespace {

void check(std::string_view optimizer, const Graph& cx, const std::vector<GraphTensor>& parameters,
           const std::vector<GraphTensor>& gradients) {
  if (parameters.size() != gradients.size())
    fail("[{}] {} parameters and {} gradients; give one gradient for each", optimizer, parameters.size(),
         gradients.size());
  if (parameters.empty())
    fail("[{}] there are no parameters to train; does the module's serialize() list them with tensor()?",
         optimizer);
  std::set<Value> seen;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const TensorType parameter = parameters[i].type(), gradient = gradients[i].type();
    for (const GraphTensor& tensor : {parameters[i], gradients[i]})
      if (tensor.graph().state() != cx.state())
        fail(
            "[{}] parameter {} or its gradient belongs to another graph; give tensors of the optimizer's own",
            optimizer, i);
    if (!seen.insert(parameters[i].edge().source).second)
      fail("[{}] parameter {} is given twice; give each weight once, as nn::params does", optimizer, i);
    const auto updated = [&](const Graph::StateUpdate& update) {
      return update.state == parameters[i].edge().source;
    };
    if (std::ranges::any_of(parameters[i].graph().state_updates(), updated))
      fail("[{}] parameter {} already has an update; give each weight to one optimizer of a graph", optimizer,
           i);
    if (!is_float(parameter.dtype))
      fail<DtypeError>("[{}] parameter {} is {}; only floats can be trained", optimizer, i,
                       parameter.to_string());
    if (!is_float(gradient.dtype) || parameter.dims != gradient.dims)
      fail<ShapeError>("[{}] parameter {} is {} but its gradient {}; both must be floats of the same dims",
                       optimizer, i, parameter.to_string(), gradient.to_string());
  }
}

}  // namespace

GraphTensor zero_state(Graph& cx, std::string name, const TensorType& type) {
  GraphTensor state = cx.named_tensor(std::move(name), type.dims, type.dtype);
  return state.set(TensorData(type.dtype, exec(type.dims, cx.dims())));
}

GraphTensor scalar_state(Graph& cx, std::string name, double value, Dtype dtype) {
  GraphTensor state = cx.named_tensor(std::move(name), {}, dtype);
  return state.set({value});
}

void check_condition(std::string_view op, const GraphTensor& condition) {
  if (condition.dtype() != Dtype::Bool || condition.rank() != 0)
    fail<DtypeError>("[{}] the condition is {}; give one bool, as GradientAccumulator::ready does", op,
                     condition.type().to_string());
}

void check_decay(std::string_view optimizer, std::string_view what, double value) {
  if (!(value >= 0 && value < 1))
    fail("[{}] {}={} is out of range; give a number in [0, 1)", optimizer, what, value);
}

void check_not_negative(std::string_view optimizer, std::string_view what, double value) {
  if (!(value >= 0)) fail("[{}] {}={} is out of range; give 0 or more", optimizer, what, value);
}

StepBuilder::StepBuilder(std::string_view name, Graph& cx, const std::vector<GraphTensor>& parameters,
                         const std::vector<GraphTensor>& gradients, double learning_rate,
                         GraphTensor apply_if)
    : cx_(cx), apply_if_(std::move(apply_if)), parameters_(parameters), gradients_(gradients) {
  check(name, cx, parameters, gradients);
  check_not_negative(name, "learning_rate", learning_rate);
  if (apply_if_.valid()) check_condition(name, apply_if_);
  // Scalars in f64: 1 - 0.999^t loses half its digits in f32 while t is small.
  learning_rate_ = scalar_state(cx, "learning_rate", learning_rate, Dtype::F64);
  steps_ = zero_state(cx, "step", {Dtype::I64, {}});
  states_.emplace_back("step", steps_);
  assign(steps_, count());
  for (size_t i = 0; i < parameters.size(); ++i) {
    const GraphTensor& parameter = parameters[i];
    const Dtype wide = accumulation_dtype(parameter.dtype());
    if (wide == parameter.dtype()) {
      working_.push_back(parameter);
      continue;
    }
    GraphTensor master = cx.named_tensor("master", parameter.dims(), wide);
    master.set(parameter.data());
    masters_.emplace(i, master);
    // A weight that is not its master rounded was set since, by load_state_dict perhaps: then it is what
    // counts.
    working_.push_back(master.cast(parameter.dtype()).eq(parameter).where(master, parameter.cast(wide)));
    states_.emplace_back(std::to_string(i) + "/master", master);
  }
}

GraphTensor StepBuilder::state(size_t i, std::string_view name) {
  GraphTensor made = zero_state(cx_, std::string(name), working_[i].type());
  states_.emplace_back(std::to_string(i) + "/" + std::string(name), made);
  return made;
}

GraphTensor StepBuilder::scalar(std::string_view name, double value) {
  GraphTensor made = scalar_state(cx_, std::string(name), value, Dtype::F64);
  states_.emplace_back(std::string(name), made);
  return made;
}

void StepBuilder::assign(const GraphTensor& state, const GraphTensor& next) {
  state.assign(apply_if_.valid() ? apply_if_.where(next, state) : next);
}

void StepBuilder::set_parameter(size_t i, const GraphTensor& next) {
  if (const auto master = masters_.find(i); master != masters_.end()) assign(master->second, next);
  assign(parameters_[i], next.cast(parameters_[i].dtype()));
}

void Optimizer::finish(StepBuilder& builder) {
  learning_rate_ = builder.learning_rate_;
  steps_ = builder.steps_;
  states_ = std::move(builder.states_);
}

void Optimizer::set_learning_rate(double rate) {
  if (!(rate >= 0)) fail("[set_learning_rate] the rate is {}; give 0 or more", rate);
  learning_rate_.set({rate});
}
double Optimizer::learning_rate() const { return learning_rate_.data<double>().at(0); }
int64_t Optimizer::steps() const { return steps_.data<int64_t>().at(0); }

void Optimizer::serialize(nn::Serializer& s) const {
  for (const auto& [name, state] : states_) s.buffer(name, state);
}

}  // namespace luminal::training
