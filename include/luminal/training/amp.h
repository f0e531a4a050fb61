#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "luminal/graph.h"
#include "luminal/nn/module.h"
#include "luminal/pass.h"

/// Mixed precision: products in bf16 or f16, weights and everything else in f32.
///
///   cx.run_pass(training::AMPContext(Dtype::F16));           // before Autograd
///   training::GradScaler scaler(cx);
///   auto gradients = cx.run_pass(Autograd(weights, scaler.scale(loss)));
///   auto unscaled = scaler.unscale(gradients);
///   training::AdamW adam(cx, weights, unscaled, {.apply_if = scaler.finite()});
///
/// The weights stay the f32 ones that the optimizer updates (master weights); what a product reads is their
/// rounded value. bf16 has f32's range and needs no scaler.
/// Thread safety: as the graph they belong to.
namespace luminal::training {

/// A pass that rounds both operands of every contraction of f32 (matrix products, convolutions, attention's
/// two products, whatever they were written as) to `dtype`, and its result; sums stay f32. A contraction is a
/// sum of products in which an operand is repeated along an axis that stays. Products that Autograd makes
/// afterwards carry rounded gradients, as it differentiates the rounding. Norms, softmax, losses and
/// elementwise ops are left alone; bodies of loops are seen into.  Source: Micikevicius et al. 2018.
class AMPContext {
 public:
  static constexpr std::string_view kName = "AMPContext";
  /// Errors: DtypeError unless `dtype` is f16 or bf16.
  explicit AMPContext(Dtype dtype = Dtype::BF16);
  /// Returns how many contractions it has changed.
  int64_t run(Graph& graph, Remap& remap) const;

 private:
  [[nodiscard]] int64_t round_contractions(Graph& graph) const;
  Dtype dtype_;
};

/// Scales the loss so that small gradients do not vanish in f16, and the gradients back. All of it is part of
/// the graph: in a run with a gradient that is not finite `finite()` is false and the scale shrinks; after
/// enough good runs it grows. Names, defaults and rules are torch.amp.GradScaler's.
class GradScaler {
 public:
  struct Options {
    double init_scale = 65536;
    double growth_factor = 2, backoff_factor = 0.5;
    int64_t growth_interval = 2000;
  };
  /// Errors: Error if an option is out of range.
  GradScaler(Graph& cx, const Options& options, Where where = Where::current());
  explicit GradScaler(Graph& cx, Where where = Where::current()) : GradScaler(cx, Options(), where) {}
  /// loss * scale, in f32 or wider.
  [[nodiscard]] GraphTensor scale(const GraphTensor& loss, Where where = Where::current()) const;
  /// Gradients / scale, in f32 or wider, and the scale's next value. Call it once.
  /// `when`: a bool, the runs in which weights would change (GradientAccumulator::ready); absent: all.
  [[nodiscard]] std::vector<GraphTensor> unscale(const std::vector<GraphTensor>& gradients,
                                                 const GraphTensor& when = {},
                                                 Where where = Where::current());
  /// Whether the optimizer may use them (and `when` holds): its `apply_if`.  Errors: Error before unscale().
  [[nodiscard]] const GraphTensor& finite() const;
  /// The scale (f32).
  [[nodiscard]] const GraphTensor& factor() const { return scale_; }
  void serialize(nn::Serializer& s) const;

 private:
  Options options_;
  GraphTensor scale_, growth_tracker_, finite_;
};

}  // namespace luminal::training
