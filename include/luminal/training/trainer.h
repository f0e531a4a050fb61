#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "luminal/graph.h"
#include "luminal/nn/module.h"
#include "luminal/training/amp.h"
#include "luminal/training/checkpoint_manager.h"
#include "luminal/training/gradients.h"
#include "luminal/training/optimizer.h"

namespace luminal::training {

/// Makes an optimizer for weights and gradients; runs where the last argument, a bool, is false do not count.
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(
    Graph&, const std::vector<GraphTensor>&, const std::vector<GraphTensor>&, const GraphTensor& apply_if)>;
/// use<AdamW>({.learning_rate = 3e-4}), with parameter groups if there are any (optimizer.h).
template <class O>
[[nodiscard]] MakeOptimizer use(typename O::Options options,
                                std::vector<ParameterGroup<typename O::Options>> groups = {},
                                Where where = Where::current()) {
  return [options, groups, where](Graph& cx, const std::vector<GraphTensor>& weights,
                                  const std::vector<GraphTensor>& gradients, const GraphTensor& apply_if) {
    auto with_condition = options;
    with_condition.apply_if = apply_if;
    return std::make_unique<O>(cx, weights, gradients, with_condition, groups, where);
  };
}

/// The usual training run from a loss: gradients, mixed precision, accumulation, clipping, optimizer,
/// schedule, checkpoints. src/training/trainer.cpp shows how to write it out in a few lines of public API.
///
///   training::Trainer trainer(cx, model, loss, training::use<training::AdamW>({}), {.clip_norm = 1});
///   trainer.fit({.steps = 1000, .feed = [&](int64_t step) { x.set(images(step)); }});
///
/// Where the loss or a gradient is not finite, no weight changes and step() throws; with a scaler (f16)
/// that may happen now and then, and the scaler answers with a smaller scale.
///
/// Thread safety: one thread at a time; trainers of different graphs may train at once.
class Trainer {
 public:
  struct Options {
    std::function<double(int64_t)> schedule = {};  ///< learning rate by update; absent: the optimizer's own
    double clip_norm = 0;                          ///< 0: no clipping
    int64_t accumulate = 1;                        ///< runs for one update
    std::optional<Dtype> precision = {};           ///< of products: f16 (with a GradScaler) or bf16
    CompilationMode mode = Fast{};                 ///< how hard to look for kernels, at the first run
  };

  template <nn::SerializableModule M>
  Trainer(Graph& cx, const M& model, const GraphTensor& loss, const MakeOptimizer& make_optimizer,
          const Options& options)
      : Trainer(cx, nn::params(model), loss, make_optimizer, options) {
    entries_ = nn::entries(model);
  }
  template <nn::SerializableModule M>
  Trainer(Graph& cx, const M& model, const GraphTensor& loss, const MakeOptimizer& make_optimizer)
      : Trainer(cx, model, loss, make_optimizer, Options()) {}
  Trainer(Graph& cx, const std::vector<GraphTensor>& weights, const GraphTensor& loss,
          const MakeOptimizer& make_optimizer, const Options& options);

  /// One run of the graph on the inputs as they are set. Returns the loss.
  /// Errors: Error if it or the gradients are not finite, with the input that is not, or what else may be the
  /// cause.
  double step();
  /// The norm of all gradients in the last run, before clipping.
  [[nodiscard]] double gradient_norm() const;
  [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }
  /// Runs so far, resumed ones included.
  [[nodiscard]] int64_t steps() const { return steps_; }

  struct Progress {
    int64_t step;  ///< from 1 on
    double loss, learning_rate;
  };
  struct Fit {
    int64_t steps = 0;
    std::function<void(int64_t step)> feed = {};  ///< sets the inputs of this run; equal steps, equal inputs
    std::function<void(const Progress&)> seen = {};  ///< after each run
    CheckpointManager* checkpoints = nullptr;        ///< resumed from at the start, saved to at the end
    int64_t save_every = 0;                          ///< and every so many runs
  };
  /// Has `checkpoints` hold the model's state and the trainer's own.
  void track(CheckpointManager& checkpoints);
  /// Goes on from the newest checkpoint, if there is one.  Errors: as CheckpointManager::resume().
  std::optional<CheckpointManager::Checkpoint> resume(CheckpointManager& checkpoints);
  /// Trains until `steps` runs are done, counting those of the checkpoint that it resumes from.
  void fit(const Fit& fit);
  /// Optimizer, accumulator and scaler; the model's weights are the model's.
  void serialize(nn::Serializer& s) const;

 private:
  Graph graph() const { return loss_.graph(); }
  GraphTensor loss_, norm_;
  std::optional<GradScaler> scaler_;
  std::optional<GradientAccumulator> accumulator_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<Compiled> run_;
  Options options_;
  std::vector<nn::Serializer::Entry> entries_;
  CheckpointManager* tracked_by_ = nullptr;
  int64_t steps_ = 0;
};

}  // namespace luminal::training
