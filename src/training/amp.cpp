#include "luminal/training/amp.h"

#include <algorithm>

#include "luminal/ops.h"
#include "luminal/scan.h"
#include "training/step_builder.h"

namespace luminal::training {
namespace {

/// Whether a view reads other elements along this axis.
bool varies_along(const ShapeTracker& view, int axis) {
  const Shape& dims = view.dims();
  std::vector<Expression> places;
  for (int i = 0; i < view.rank(); ++i)
    places.push_back(i == axis ? Expression(0) : Expression::index(i, dims[static_cast<size_t>(i)]));
  return !(view.index_expression().substitute_indices(places) == view.index_expression());
}

/// A sum over products of two f32 tensors, both read along the summed axes, of which one is repeated along an
/// axis that stays. (x * x).sum() and other sums of elementwise products are none.
bool is_contraction(const Graph& graph, const Node& sum) {
  if (sum.op != &kSumReduce || sum.outputs[0].dtype != Dtype::F32) return false;
  const Edge& edge = sum.inputs[0];
  const Node& product = graph.node(edge.source.node);
  if (product.op != &kMul || product.inputs[0].source == product.inputs[1].source) return false;
  const auto& axes = sum.attributes.get<std::vector<int64_t>>("axes");
  bool repeated = false;
  for (const Edge& operand : product.inputs) {
    const ShapeTracker seen = edge.view.is_identity() ? operand.view : operand.view.then(edge.view);
    for (int axis = 0; axis < seen.rank(); ++axis) {
      if (Expression::known_equal(seen.dims()[static_cast<size_t>(axis)], Expression(1))) continue;
      const bool varies = varies_along(seen, axis);
      if (std::ranges::find(axes, axis) != axes.end()) {
        if (!varies) return false;
      } else {
        repeated |= !varies;
      }
    }
  }
  return repeated;
}

}  // namespace

AMPContext::AMPContext(Dtype dtype) : dtype_(dtype) {
  if (dtype != Dtype::F16 && dtype != Dtype::BF16)
    fail<DtypeError>("[AMPContext] products cannot be computed in {}; choose f16 or bf16", name(dtype));
}

int64_t AMPContext::run(Graph& graph, Remap&) const {
  return round_contractions(graph) +
         rewrite_bodies(graph, [&](Graph& body) { return round_contractions(body); });
}

int64_t AMPContext::round_contractions(Graph& graph) const {
  int64_t changed = 0;
  const auto rounded = [&](const GraphTensor& x) { return x.cast(dtype_).cast(Dtype::F32); };
  for (const NodeId id : graph.topological_order()) {
    if (!is_contraction(graph, graph.node(id))) continue;
    const Node sum = graph.node(id),
               product = graph.node(sum.inputs[0].source.node);  // copies: nodes are added
    const Graph::OriginScope scope(graph, sum.origin);
    const auto operand = [&](size_t i) {
      const Edge& edge = product.inputs[i];  // rounds the buffer, not each of the places that show it
      return rounded(graph.tensor_of(edge.source)).with_view(edge.view);
    };
    const GraphTensor terms = graph.add_op(kMul).input(operand(0)).input(operand(1)).finish();
    const GraphTensor total = graph.add_op(kSumReduce)
                                  .input(terms.with_view(sum.inputs[0].view))
                                  .attribute("axes", sum.attributes.get<std::vector<int64_t>>("axes"))
                                  .finish();
    graph.replace({id, 0}, rounded(total).edge());
    graph.remove_unused(id);
    ++changed;
  }
  return changed;
}

GradScaler::GradScaler(Graph& cx, const Options& options, Where where) : options_(options) {
  const CallSite site("GradScaler", where);
  if (!(options.init_scale > 0) || !(options.growth_factor > 1) || !(options.backoff_factor > 0) ||
      !(options.backoff_factor < 1) || options.growth_interval < 1)
    fail(
        "[GradScaler] init_scale={}, growth_factor={}, backoff_factor={}, growth_interval={} are out of "
        "range; give a scale above 0, growth above 1, backoff between 0 and 1, an interval of at least 1",
        options.init_scale, options.growth_factor, options.backoff_factor, options.growth_interval);
  scale_ = scalar_state(cx, "scale", options.init_scale, Dtype::F32);
  growth_tracker_ = zero_state(cx, "growth_tracker", {Dtype::I64, {}});
}

GraphTensor GradScaler::scale(const GraphTensor& loss, Where where) const {
  const CallSite site("GradScaler", where);
  const Dtype dtype = accumulation_dtype(loss.dtype());
  return loss.cast(dtype) * scale_.cast(dtype);
}

std::vector<GraphTensor> GradScaler::unscale(const std::vector<GraphTensor>& gradients,
                                             const GraphTensor& when, Where where) {
  const CallSite site("GradScaler", where);
  if (finite_.valid()) fail("[GradScaler] unscale was already called; create one scaler for each optimizer");
  if (gradients.empty()) fail("[GradScaler] there are no gradients; give at least one");
  if (when.valid()) check_condition("GradScaler", when);
  std::vector<GraphTensor> unscaled;
  GraphTensor finite;
  for (const GraphTensor& gradient : gradients) {
    const Dtype dtype = accumulation_dtype(gradient.dtype());
    unscaled.push_back(gradient.cast(dtype) / scale_.cast(dtype));
    const GraphTensor all = gradient.isfinite().all();
    finite = finite.valid() ? finite.logical_and(all) : all;
  }
  const GraphTensor run = growth_tracker_ + 1, grown = run.ge(options_.growth_interval);
  const GraphTensor larger = scale_ * options_.growth_factor;
  GraphTensor scale = finite.where(grown.logical_and(larger.isfinite()).where(larger, scale_),
                                   scale_ * options_.backoff_factor);
  GraphTensor tracker = finite.where(grown.where(0, run), 0);
  if (when.valid()) {
    scale = when.where(scale, scale_);
    tracker = when.where(tracker, growth_tracker_);
    finite = finite.logical_and(when);
  }
  scale_.assign(scale);
  growth_tracker_.assign(tracker);
  finite_ = finite;
  return unscaled;
}

const GraphTensor& GradScaler::finite() const {
  if (!finite_.valid()) fail("[GradScaler] nothing was unscaled yet; call unscale with the gradients first");
  return finite_;
}

void GradScaler::serialize(nn::Serializer& s) const {
  s.buffer("scale", scale_);
  s.buffer("growth_tracker", growth_tracker_);
}

}  // namespace luminal::training
