#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/train_run.h"
#include "luminal/loader.h"

namespace luminal::cli {

/// One run of a learner over batches, from the step where it stands.
struct TrainLoop {
  const data::Loader& loader;
  int64_t done = 0, steps = 0;                                        ///< so far, and of the whole run
  std::function<double(const std::vector<TensorData>& batch)> learn;  ///< a step; its loss
  std::function<void(int64_t step)> seen = {};                        ///< after each step, from 1 on
  std::string unit = "images";                                        ///< of what the bar counts
  int64_t units = 1;                                                  ///< of them in an example
  bool bar_each_pass = true;
};
struct LoopResult {
  double loss = 0;        ///< mean of the last pass over the data, or of its last 100 steps
  int64_t examples = 0;   ///< learnt from, since the run began or was resumed
  int64_t passes = 0;     ///< over the data that are done, those before it was resumed included
  bool complete = false;  ///< all steps are done
};
/// Learns until the steps are done or Ctrl-C is pressed, with a bar, metrics, and checkpoints after each pass
/// (or as often as asked for) and at the end.  Errors: those of `learn`, and of files that cannot be written.
[[nodiscard]] LoopResult run_loop(const TrainLoop& loop, const RunOptions& options, RunLog& log,
                                  RunCheckpoints& checkpoints, Console& console);

/// What is left of a run: its weights, saved, or why they were not. Ctrl-C leaves a file of weights as it was
/// unless the run went over all its data at least once: it may hold what took hours to learn. Without a file
/// there, whatever was learnt is saved. Returns false after Ctrl-C: then nothing else is to be done.
[[nodiscard]] bool finish_loop(const LoopResult& learnt, const RunOptions& options,
                               const std::function<void()>& save, const std::string& unit, Console& console);

}  // namespace luminal::cli
