#include "graph/finite.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fail.h"
#include "base/place.h"
#include "graph/graph_state.h"

namespace luminal {
namespace {

double number_at(const TensorData& data, size_t position) {
  return visit_dtype(
      data.dtype, [&](auto element) { return static_cast<double>(data.as<decltype(element)>()[position]); });
}

/// The position of the first float that `is` holds for.
template <class Predicate>
std::optional<size_t> first_of(const TensorData& data, Predicate is) {
  if (!is_float(data.dtype)) return std::nullopt;
  return visit_dtype(data.dtype, [&](auto element) -> std::optional<size_t> {
    const auto values = data.as<decltype(element)>();
    const auto found = std::ranges::find_if(values, [&](auto v) { return is(static_cast<double>(v)); });
    if (found == values.end()) return std::nullopt;
    return static_cast<size_t>(found - values.begin());
  });
}

std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value); }

}  // namespace

NotFinite not_finite(const TensorData& data) {
  return {first_of(data, [](double v) { return std::isnan(v); }),
          first_of(data, [](double v) { return std::isinf(v); })};
}

std::string element_at(const TensorData& data, size_t position) {
  const std::string place = place_of(position, data.dims);
  return number_text(number_at(data, position)) + (place.empty() ? "" : " at " + place);
}

Tainted& Tainted::operator|=(const Tainted& other) {
  nan |= other.nan;
  infinity |= other.infinity;
  return *this;
}

std::optional<size_t> Tainted::unexplained(const NotFinite& found) const {
  if (found.nan && !nan) return found.nan;
  if (found.infinity && !nan && !infinity) return found.infinity;
  return std::nullopt;
}

void FiniteCheck::given(const Value& value, const TensorData& data) {
  const NotFinite found = not_finite(data);
  known_[value] = {found.nan.has_value(), found.infinity.has_value()};
  if (!found.nan && !found.infinity) return;
  const auto fault =
      first_of(data, [](double v) { return std::isnan(v) || v == std::numeric_limits<double>::infinity(); });
  if (fault)
    fail("[finite] {} is set to {}; give it finite numbers (minus infinity passes, for masks)",
         describe_value(graph_, value), element_at(data, *fault));
}

std::optional<size_t> FiniteCheck::computed(const Value& value, const TensorData& data) {
  const NotFinite found = not_finite(data);
  const Node& node = graph_.node(value.node);
  if (node.inputs.empty()) {
    known_[value] = {.nan = false, .infinity = found.nan || found.infinity};
    return std::nullopt;
  }
  known_[value] = {found.nan.has_value(), found.infinity.has_value()};
  if (!found.nan && !found.infinity) return std::nullopt;
  return operands_of(node).unexplained(found);
}

Tainted FiniteCheck::operands_of(const Node& node) const {
  Tainted all;
  for (const Edge& edge : node.inputs) {
    for (const ShapeTracker::Mask& mask : edge.view.masks())
      all.infinity |= !std::isfinite(mask.fill.as<double>());
    const Tainted* known = find(edge.source);
    all |= known != nullptr ? *known : operands_of(graph_.node(edge.source.node));
  }
  return all;
}

const Tainted* FiniteCheck::find(const Value& value) const {
  const auto found = known_.find(value);
  return found == known_.end() ? nullptr : &found->second;
}

void FiniteCheck::report(const Value& value, const TensorData& data, size_t position,
                         std::span<const TensorData> operands) const {
  const Node& node = graph_.node(value.node);
  std::vector<std::string> calls = node.origin ? node.origin->ops : std::vector<std::string>();
  if (calls.empty() || calls.back() != node.op->name) calls.emplace_back(node.op->name);
  std::vector<std::string> of;
  for (const TensorData& operand : operands) of.push_back(number_text(number_at(operand, position)));
  const bool nan = std::isnan(number_at(data, position));
  fail("[finite] {} is the first tensor that is not finite: {} gives {}{}; {}", describe_value(graph_, value),
       fmt::join(calls, " > "), element_at(data, position),
       of.empty() ? "" : fmt::format(", of {}", fmt::join(of, " and ")),
       nan ? "keep its operands where the op is defined (maximum, clip, where)"
           : "bound its operands (clip), or compute in a wider dtype");
}

}  // namespace luminal
