#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/call_site.h"
#include "base/fail.h"
#include "luminal/graph.h"
#include "luminal/training/optimizer.h"

namespace luminal::training {

/// A graph input that starts with zeros, or with one number.
[[nodiscard]] GraphTensor zero_state(Graph& cx, std::string name, const TensorType& type);
[[nodiscard]] GraphTensor scalar_state(Graph& cx, std::string name, double value, Dtype dtype);
/// Errors: DtypeError, ShapeError unless it is one bool.
void check_condition(std::string_view op, const GraphTensor& condition);

/// What an optimizer's constructor works with: checked parameters and gradients in the dtype that steps are
/// computed in (f32 for f16 and bf16), states, and assignments that happen only in runs that count.
///
///   for (const size_t i : group.members)
///     step.set_parameter(i, step.parameter(i) - step.gradient(i) * step.rate(i));
class StepBuilder {
 public:
  /// `rates`: by group; `group_of`: by parameter.
  StepBuilder(std::string_view name, Graph& cx, const std::vector<GraphTensor>& parameters,
              const std::vector<GraphTensor>& gradients, GraphTensor apply_if, std::vector<double> rates,
              std::vector<size_t> group_of);

  /// The weight, or its f32 master.
  [[nodiscard]] const GraphTensor& parameter(size_t i) const { return working_[i]; }
  [[nodiscard]] GraphTensor gradient(size_t i) const { return gradients_[i].cast(working_[i].dtype()); }
  /// The learning rate of parameter i's group, in the dtype of i's steps.
  [[nodiscard]] GraphTensor rate(size_t i) const { return rates_[group_of_[i]].cast(working_[i].dtype()); }
  /// The learning rate of a group, in f64.
  [[nodiscard]] const GraphTensor& group_rate(size_t group) const { return rates_[group]; }
  /// The number of steps with this one (i64).
  [[nodiscard]] GraphTensor count() const { return steps_ + 1; }
  /// A state shaped like parameter i, "i/name", starting with zeros.
  [[nodiscard]] GraphTensor state(size_t i, std::string_view name);
  /// A number of f64 that belongs to all of a group: "name", or "group1/name" and so on.
  [[nodiscard]] GraphTensor group_scalar(size_t group, std::string_view name, double value);
  /// After a run that counts `state` holds `next`.
  void assign(const GraphTensor& state, const GraphTensor& next);
  void set_parameter(size_t i, const GraphTensor& next);

 private:
  friend class Optimizer;
  Graph& cx_;
  GraphTensor steps_, apply_if_;
  std::vector<GraphTensor> rates_, parameters_, gradients_, working_;
  std::vector<double> first_rates_;
  std::vector<size_t> group_of_;
  std::map<size_t, GraphTensor> masters_;
  std::vector<std::pair<std::string, GraphTensor>> states_;
};

/// Errors: Error unless 0 <= value < 1.
void check_decay(std::string_view optimizer, std::string_view what, double value);
void check_not_negative(std::string_view optimizer, std::string_view what, double value);

/// For each parameter the group that names it, counted from 1, or 0.  Errors: Error if a group names what is
/// no parameter, or two name the same one.
[[nodiscard]] std::vector<size_t> groups_of(std::string_view optimizer,
                                            const std::vector<GraphTensor>& parameters,
                                            const std::vector<std::vector<GraphTensor>>& groups);
/// Errors: Error if a group has a condition that is not the optimizer's.
void check_group_condition(std::string_view group, const GraphTensor& optimizers, const GraphTensor& groups);

/// Parameters that share options.
template <class Options>
struct StepGroup {
  std::string label;  ///< for messages: "Adam", "Adam, group 1"
  size_t number;
  Options options;
  std::vector<size_t> members;  ///< places in the list of parameters
};

/// What all constructors of optimizers do: `check(group)` refuses options, then `update(step, group)`
/// declares the steps of a group's members.
template <class Options, class Check, class Update>
[[nodiscard]] StepBuilder build_steps(std::string_view name, Graph& cx,
                                      const std::vector<GraphTensor>& parameters,
                                      const std::vector<GraphTensor>& gradients, const Options& options,
                                      const std::vector<ParameterGroup<Options>>& changed, Check check,
                                      Update update) {
  std::vector<StepGroup<Options>> groups{{std::string(name), 0, options, {}}};
  std::vector<std::vector<GraphTensor>> named;
  for (const ParameterGroup<Options>& group : changed) {
    groups.push_back({fmt::format("{}, group {}", name, groups.size()), groups.size(), options, {}});
    named.push_back(group.parameters);
    if (group.change) group.change(groups.back().options);
    check_group_condition(groups.back().label, options.apply_if, groups.back().options.apply_if);
  }
  std::vector<double> rates;
  for (const StepGroup<Options>& group : groups) {
    check(group);
    check_not_negative(group.label, "learning_rate", group.options.learning_rate);
    rates.push_back(group.options.learning_rate);
  }
  std::vector<size_t> group_of = groups_of(name, parameters, named);
  for (size_t i = 0; i < parameters.size(); ++i) groups[group_of[i]].members.push_back(i);
  StepBuilder step(name, cx, parameters, gradients, options.apply_if, std::move(rates), std::move(group_of));
  for (const StepGroup<Options>& group : groups)
    if (!group.members.empty()) update(step, group);
  return step;
}

}  // namespace luminal::training
