#include "luminal/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/fail.h"
#include "luminal/autograd.h"
#include "luminal/training/activation_checkpoint.h"
#include "training/finite.h"

namespace luminal::training {
namespace {

std::string made_at(const GraphTensor& tensor) {
  const Graph graph = tensor.graph();
  const Node& node = graph.node(tensor.node());
  return node.origin ? fmt::format(" (made at {}:{})", node.origin->file, node.origin->line) : "";
}

GraphTensor both(const GraphTensor& a, const GraphTensor& b) { return a.valid() ? a.logical_and(b) : b; }

/// What a Trainer tracks in a checkpoint beside its own state.
struct Entries {
  const std::vector<nn::Serializer::Entry>& list;
  void serialize(nn::Serializer& s) const {
    for (const auto& entry : list) s.tensor(entry.name, entry.tensor);
  }
};

}  // namespace

Trainer::Trainer(Graph& cx, const std::vector<GraphTensor>& weights, const GraphTensor& loss,
                 const MakeOptimizer& make_optimizer, const Options& options)
    : loss_(loss), options_(options) {
  if (loss.rank() != 0)
    fail<ShapeError>("[Trainer] the loss is {}; give one number, as mean() or sum() makes{}",
                     loss.type().to_string(), made_at(loss));
  if (weights.empty())
    fail("[Trainer] there are no weights to train; does serialize() list them with tensor()?");
  const std::set<NodeId> read = inputs_of(loss.graph(), loss);
  if (std::ranges::none_of(weights, [&](const GraphTensor& w) { return read.contains(w.node()); }))
    fail(
        "[Trainer] the loss depends on none of the {} weights; is it computed from what forward() "
        "returned?{}",
        weights.size(), made_at(loss));
  if (options.precision) cx.run_pass(AMPContext(*options.precision));
  GraphTensor target = loss;
  if (options.precision == Dtype::F16) target = scaler_.emplace(cx).scale(loss);
  std::vector<GraphTensor> gradients = cx.run_pass(Autograd(weights, target));
  cx.run_pass(RecomputeCheckpoints());

  GraphTensor counts = loss.isfinite();
  if (options.accumulate != 1) {
    accumulator_.emplace(cx, gradients, options.accumulate);
    gradients = accumulator_->gradients();
    counts = both(accumulator_->ready(), counts);
  }
  if (scaler_) {
    gradients = scaler_->unscale(gradients, accumulator_ ? accumulator_->ready() : GraphTensor());
    counts = both(scaler_->finite(), counts);
  }
  // Without a bound the norm alone is of use.
  auto [clipped, norm] = clip_grad_norm(
      gradients, options.clip_norm > 0 ? options.clip_norm : std::numeric_limits<double>::infinity());
  if (options.clip_norm > 0) gradients = clipped;
  norm_ = norm;
  counts = both(norm.isfinite(), counts);  // a sum under way may hold what an earlier run left in it
  optimizer_ = make_optimizer(cx, weights, gradients, counts);
  loss_.retrieve();
  norm_.retrieve();
}

double Trainer::step() {
  if (options_.schedule) optimizer_->set_learning_rate(options_.schedule(steps_ / options_.accumulate));
  if (!run_) run_ = graph().compile(options_.mode);
  (*run_)();
  const double loss = loss_.item();
  // A scaler meets gradients that are not finite by itself.
  if (!std::isfinite(loss) || (!scaler_ && !std::isfinite(gradient_norm())))
    fail(
        "[Trainer] the loss is {} in run {} (learning rate {}, norm of the gradients {}); the weights are "
        "unchanged. {}",
        std::isnan(loss) ? "nan" : fmt::format("{}", loss), steps_ + 1, optimizer_->learning_rate(),
        std::abs(gradient_norm()), remedy(loss_));
  ++steps_;
  return loss;
}

double Trainer::gradient_norm() const { return norm_.item(); }

void Trainer::track(CheckpointManager& checkpoints) {
  if (&checkpoints == tracked_by_) return;
  checkpoints.track("model", Entries{entries_});
  checkpoints.track("trainer", *this);
  tracked_by_ = &checkpoints;
}

std::optional<CheckpointManager::Checkpoint> Trainer::resume(CheckpointManager& checkpoints) {
  track(checkpoints);
  auto found = checkpoints.resume();
  if (found) steps_ = found->step;
  return found;
}

void Trainer::fit(const Fit& fit) {
  if (!fit.feed) fail("[Trainer] fit has no feed; give a function that sets the inputs of each run");
  if (fit.checkpoints && fit.checkpoints != tracked_by_) (void)resume(*fit.checkpoints);
  bool saved = true;
  double loss = 0;
  while (steps_ < fit.steps) {
    fit.feed(steps_);
    loss = step();
    if (fit.seen) fit.seen({steps_, loss, optimizer_->learning_rate()});
    saved = fit.checkpoints && fit.save_every > 0 && steps_ % fit.save_every == 0;
    if (saved) fit.checkpoints->save(steps_, loss);
  }
  if (fit.checkpoints && !saved) fit.checkpoints->save(steps_, loss);
}

void Trainer::serialize(nn::Serializer& s) const {
  s.module("optimizer", *optimizer_);
  if (accumulator_) s.module("accumulator", *accumulator_);
  if (scaler_) s.module("scaler", *scaler_);
}

}  // namespace luminal::training
