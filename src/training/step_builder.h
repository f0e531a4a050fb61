#pragma once
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/call_site.h"
#include "base/fail.h"
#include "luminal/graph.h"

namespace luminal::training {

/// A graph input that starts with zeros, or with one number.
[[nodiscard]] GraphTensor zero_state(Graph& cx, std::string name, const TensorType& type);
[[nodiscard]] GraphTensor scalar_state(Graph& cx, std::string name, double value, Dtype dtype);
/// Errors: DtypeError, ShapeError unless it is one bool.
void check_condition(std::string_view op, const GraphTensor& condition);

/// What an optimizer's constructor works with: checked parameters and gradients in the dtype that steps are
/// computed in (f32 for f16 and bf16), states, and assignments that happen only in runs that count.
///
///   StepBuilder step("SGD", cx, parameters, gradients, rate, apply_if);
///   for (size_t i = 0; i < step.size(); ++i)
///     step.set_parameter(i, step.parameter(i) - step.gradient(i) * step.rate(i));
class StepBuilder {
 public:
  StepBuilder(std::string_view name, Graph& cx, const std::vector<GraphTensor>& parameters,
              const std::vector<GraphTensor>& gradients, double learning_rate, GraphTensor apply_if);

  [[nodiscard]] size_t size() const { return parameters_.size(); }
  /// The weight, or its f32 master.
  [[nodiscard]] const GraphTensor& parameter(size_t i) const { return working_[i]; }
  [[nodiscard]] GraphTensor gradient(size_t i) const { return gradients_[i].cast(working_[i].dtype()); }
  /// The learning rate, in f64 and in parameter i's dtype.
  [[nodiscard]] const GraphTensor& rate() const { return learning_rate_; }
  [[nodiscard]] GraphTensor rate(size_t i) const { return learning_rate_.cast(working_[i].dtype()); }
  /// The number of steps with this one (i64).
  [[nodiscard]] GraphTensor count() const { return steps_ + 1; }
  /// A state shaped like parameter i, "i/name", starting with zeros.
  [[nodiscard]] GraphTensor state(size_t i, std::string_view name);
  /// A number of f64 that belongs to all of them.
  [[nodiscard]] GraphTensor scalar(std::string_view name, double value);
  /// After a run that counts `state` holds `next`.
  void assign(const GraphTensor& state, const GraphTensor& next);
  void set_parameter(size_t i, const GraphTensor& next);

 private:
  friend class Optimizer;
  Graph& cx_;
  GraphTensor learning_rate_, steps_, apply_if_;
  std::vector<GraphTensor> parameters_, gradients_, working_;
  std::map<size_t, GraphTensor> masters_;
  std::vector<std::pair<std::string, GraphTensor>> states_;
};

/// Errors: Error unless 0 <= value < 1.
void check_decay(std::string_view optimizer, std::string_view what, double value);
void check_not_negative(std::string_view optimizer, std::string_view what, double value);

}  // namespace luminal::training
