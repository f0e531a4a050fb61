#include "training/step_builder.h"

#include <algorithm>
#include <set>

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
  return state.set_lazily(
      [dtype = type.dtype, sizes = exec(type.dims, cx.dims())] { return TensorData(dtype, sizes); });
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

std::vector<size_t> groups_of(std::string_view optimizer, const std::vector<GraphTensor>& parameters,
                              const std::vector<std::vector<GraphTensor>>& groups) {
  std::vector<size_t> group_of(parameters.size(), 0);
  for (size_t group = 1; group <= groups.size(); ++group)
    for (size_t i = 0; i < groups[group - 1].size(); ++i) {
      const GraphTensor& tensor = groups[group - 1][i];
      const auto same = [&](const GraphTensor& p) { return p.edge().source == tensor.edge().source; };
      const auto found = std::ranges::find_if(parameters, same);
      if (found == parameters.end())
        fail(
            "[{}] tensor {} of group {} is {} and none of the {} parameters; name parameters of this "
            "optimizer",
            optimizer, i, group, tensor.type().to_string(), parameters.size());
      size_t& owner = group_of[static_cast<size_t>(found - parameters.begin())];
      if (owner != 0)
        fail("[{}] parameter {} is named in group {} and in group {}; name it once", optimizer,
             found - parameters.begin(), owner, group);
      owner = group;
    }
  return group_of;
}

void check_group_condition(std::string_view group, const GraphTensor& optimizers, const GraphTensor& groups) {
  if (groups.valid() && !(optimizers.valid() && optimizers.edge() == groups.edge()))
    fail("[{}] apply_if holds for all parameters; give it in the optimizer's own options", group);
}

StepBuilder::StepBuilder(std::string_view name, Graph& cx, const std::vector<GraphTensor>& parameters,
                         const std::vector<GraphTensor>& gradients, GraphTensor apply_if,
                         std::vector<double> rates, std::vector<size_t> group_of)
    : cx_(cx),
      apply_if_(std::move(apply_if)),
      parameters_(parameters),
      gradients_(gradients),
      first_rates_(std::move(rates)),
      group_of_(std::move(group_of)) {
  check(name, cx, parameters, gradients);
  if (apply_if_.valid()) check_condition(name, apply_if_);
  // Scalars in f64: 1 - 0.999^t loses half its digits in f32 while t is small.
  for (const double rate : first_rates_)
    rates_.push_back(scalar_state(cx, "learning_rate", rate, Dtype::F64));
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

GraphTensor StepBuilder::group_scalar(size_t group, std::string_view name, double value) {
  GraphTensor made = scalar_state(cx_, std::string(name), value, Dtype::F64);
  states_.emplace_back(group == 0 ? std::string(name) : fmt::format("group{}/{}", group, name), made);
  return made;
}

void StepBuilder::assign(const GraphTensor& state, const GraphTensor& next) {
  state.assign(apply_if_.valid() ? apply_if_.where(next, state) : next);
}

void StepBuilder::set_parameter(size_t i, const GraphTensor& next) {
  if (const auto master = masters_.find(i); master != masters_.end()) assign(master->second, next);
  assign(parameters_[i], next.cast(parameters_[i].dtype()));
}

void Optimizer::finish(StepBuilder&& builder) {
  rates_ = std::move(builder.rates_);
  first_rates_ = std::move(builder.first_rates_);
  steps_ = builder.steps_;
  states_ = std::move(builder.states_);
}

GraphTensor Optimizer::rate_of(size_t group) const {
  if (group >= rates_.size())
    fail(
        "[learning_rate] there is no group {}; the optimizer has {}, counted from 1, and 0 for the other "
        "parameters",
        group, rates_.size() - 1);
  return rates_[group];
}

void Optimizer::set_learning_rate(double rate, size_t group) {
  if (!(rate >= 0)) fail("[set_learning_rate] the rate is {}; give 0 or more", rate);
  rate_of(group).set({rate});
}

void Optimizer::set_learning_rate(double rate) {
  if (rates_.size() > 1 && first_rates_[0] == 0)
    fail(
        "[set_learning_rate] the optimizer was made with a rate of 0, and the rates of its {} groups follow "
        "no "
        "factor of that; give each its own with set_learning_rate(rate, group)",
        rates_.size() - 1);
  set_learning_rate(rate, 0);
  for (size_t group = 1; group < rates_.size(); ++group)
    set_learning_rate(rate * (first_rates_[group] / first_rates_[0]), group);
}

double Optimizer::learning_rate(size_t group) const { return rate_of(group).item(); }
int64_t Optimizer::steps() const { return steps_.item<int64_t>(); }

void Optimizer::serialize(nn::Serializer& s) const {
  for (const auto& [name, state] : states_) s.buffer(name, state);
}

}  // namespace luminal::training
