#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "luminal/nn/module.h"

namespace luminal::training {

/// Checkpoints of a training run in its own folder: one safetensors file each,
/// "step-000000000420.safetensors", with everything that lets the run continue as if it had not stopped:
/// weights, optimizer state, the graph's run count (random nodes depend on it) and what the caller adds, such
/// as the loader's position.
///
///   training::CheckpointManager checkpoints("runs/a");
///   checkpoints.track("model", model);
///   checkpoints.track("optimizer", adam);
///   int64_t step = 0;
///   if (auto found = checkpoints.resume()) step = found->step;
///   for (; step < 1000; ++step) {
///     cx.execute();
///     if (step % 100 == 99) checkpoints.save(step + 1, loss.data<float>()[0]);
///   }
///
/// A file is complete or absent: it is written beside its place, flushed and renamed, and older ones go only
/// afterwards. So a kill at any moment loses what came after the last save and nothing else. Checksums cover
/// its header and its data: a file that was damaged later is never loaded.
///
/// A resumed run gives the same bits as one that went on, if model and graph are built alike and the device
/// runs the same plan: the same kernels in the same order on the same kind of processor and as many threads.
/// Fast mode makes the same plan each time; a search does while its cache remembers. The file holds the key
/// of the plan, and a run that goes on under another one says so on standard error.
///
/// A manager holds a lock on its folder (the file ".lock") until its last copy is gone, however the process
/// ends: a second run in the folder, of this process or another, is an Error and touches nothing.
///
/// Thread safety: one thread at a time.
class CheckpointManager {
 public:
  struct Options {
    int64_t keep_best = 3;  ///< by metric; those without a metric are not among the best
    int64_t keep_last = 1;
    bool lower_is_better = true;
    bool read_only =
        false;  ///< to look on while a run goes on here: takes no lock, makes and removes nothing
  };
  struct Checkpoint {
    int64_t step = 0;
    std::optional<double> metric;
    std::map<std::string, std::string> notes;  ///< the caller's own
    std::string device;                        ///< where it ran
    std::map<std::string, uint64_t> plans;     ///< the plans it ran under (Graph::plans)
    std::filesystem::path path;
  };

  /// Makes the folder if need be, locks it and removes what a killed writer left.
  /// Errors: Error if the folder cannot be made, a limit is negative, or another manager has the folder; it
  /// names the process.
  CheckpointManager(std::filesystem::path folder, const Options& options);
  explicit CheckpointManager(std::filesystem::path folder)
      : CheckpointManager(std::move(folder), Options()) {}

  /// What is saved and loaded under this name: a model, an optimizer, anything with `serialize`.
  /// Errors: Error if the name is taken.
  template <nn::SerializableModule M>
  void track(const std::string& name, const M& thing) {
    add(name, nn::entries(thing));
  }

  /// Errors: Error if nothing is tracked, a tensor has no value or the manager is read_only, or if the file
  /// cannot be written (a full disk); the older checkpoints are untouched then.
  Checkpoint save(int64_t step, std::optional<double> metric = std::nullopt,
                  std::map<std::string, std::string> notes = {});
  /// Loads the newest checkpoint that is whole; nothing if there is none. A damaged file is reported and passed
  /// over, and the one that is used instead is named. Errors: as load(); Error if there are files and none is
  /// whole.
  std::optional<Checkpoint> resume();
  /// Loads this one. Nothing is changed if anything does not fit.
  /// Errors: FormatError if the file is damaged; Error if it is of another model or of a graph with another
  /// seed.
  Checkpoint load(const std::filesystem::path& file);

  /// What the folder holds, by step.
  [[nodiscard]] const std::vector<Checkpoint>& list() const { return list_; }
  [[nodiscard]] std::optional<Checkpoint> best() const;

 private:
  void add(const std::string& name, const std::vector<nn::Serializer::Entry>& entries);
  [[nodiscard]] std::vector<size_t> by_metric() const;
  void prune();

  std::filesystem::path folder_;
  Options options_;
  std::shared_ptr<const void> lock_;
  std::map<std::string, GraphTensor> tensors_;  ///< "model.layer1.weight"
  std::vector<std::string> names_;
  std::vector<Checkpoint> list_;
  std::vector<std::filesystem::path> damaged_;
};

}  // namespace luminal::training
