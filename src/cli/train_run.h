#pragma once
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "cli/command.h"
#include "luminal/progress.h"
#include "luminal/tensor_data.h"
#include "luminal/training/checkpoint_manager.h"

/// What the ready-made training runs have in common: options, metrics and checkpoints on the
/// way, and what is left at the end.
namespace luminal::cli {

struct RunOptions {
  int64_t epochs = 1;  ///< of runs that count in passes over the data
  int64_t batch = 32;
  double learning_rate = 1e-3;
  uint64_t seed = 1;
  std::string device;                 ///< "" for the best there is
  std::filesystem::path data;         ///< "" for what ships with Luminal
  std::filesystem::path weights;      ///< where they are saved (safetensors)
  std::filesystem::path json;         ///< results for programs; "" for none
  std::filesystem::path metrics;      ///< JSON lines on the way; "" for none
  std::filesystem::path plot;         ///< curves as a page; "" for none
  std::filesystem::path checkpoints;  ///< folder of checkpoints; "" for none
  int64_t save_every = 0;             ///< steps from one to the next; 0: one after each pass over the data
  bool resume = false;                ///< go on from the newest of them
};

/// Declares them on a command, but for the epochs; `data_help` says what the data are.
void declare_epochs(CLI::App& app, RunOptions& options);
void declare_run(CLI::App& app, RunOptions& options, const std::string& data_help);
/// Errors: Error for a number that makes no sense, or a place that cannot be written to.
void check_run(const RunOptions& options);

/// An empty graph with the seed and the device that are asked for.
[[nodiscard]] Graph new_graph(const RunOptions& options);

/// The checkpoints of a run, if they are asked for.
class RunCheckpoints {
 public:
  /// `run` is its name and `examples` the size of what it learns from: of another run's or of other data a
  /// step means something else.  Errors: Error for a folder that holds checkpoints already, unless they are
  /// to be resumed from.
  RunCheckpoints(const RunOptions& options, std::string run, int64_t examples);
  /// Has them hold what the learner tracks, and loads the newest one if it is to be resumed from. The learner
  /// is a training::Trainer, or has `track` and `resume` as that one has.  Returns: the steps done so far.
  /// Errors: those of CheckpointManager::load; Error if its steps are of another run.
  template <class Learner>
  int64_t start(Learner& learner, Console& console) {
    if (!manager_) return 0;
    learner.track(*manager_);
    return resume_ ? go_on(learner.resume(*manager_), console) : 0;
  }
  [[nodiscard]] bool wanted() const { return manager_.has_value(); }
  void save(int64_t step, double loss);
  /// The loss when the checkpoint was made that the run resumed from.
  [[nodiscard]] std::optional<double> resumed_loss() const { return resumed_loss_; }

 private:
  int64_t go_on(const std::optional<training::CheckpointManager::Checkpoint>& found, Console& console);
  bool resume_;
  std::map<std::string, std::string> notes_;
  std::optional<training::CheckpointManager> manager_;
  std::optional<double> resumed_loss_;
};

/// Writes metrics while a run goes on, and their curves at its end.
class RunLog {
 public:
  /// A run that goes on after step `done` keeps what the file tells up to there.
  explicit RunLog(const RunOptions& options, int64_t done = 0);
  void write(std::initializer_list<data::MetricsLog::Metric> metrics);
  /// Whether anybody reads what is written.
  [[nodiscard]] bool wanted() const { return log_.has_value(); }
  /// Draws the curves, if they are wanted.
  void finish() const;

 private:
  std::filesystem::path metrics_, plot_;
  std::optional<data::MetricsLog> log_;
};

void save_weights(const std::map<std::string, TensorData>& weights, const std::filesystem::path& path,
                  const std::string& model);
/// Writes `result`, with seed, device and processor added, if a file is given.
void write_result(const RunOptions& options, const std::string& device, nlohmann::ordered_json result);

}  // namespace luminal::cli
