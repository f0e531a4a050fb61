#include "cli/train_loop.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <numeric>

#include "base/fail.h"
#include "cli/interrupt.h"

namespace luminal::cli {
namespace {

/// The mean of the last losses.
class RecentLoss {
 public:
  explicit RecentLoss(int64_t pass) : most_(static_cast<size_t>(std::min<int64_t>(pass, 100))) {}
  void add(double loss) {
    losses_.push_back(loss);
    if (losses_.size() > most_) losses_.pop_front();
  }
  [[nodiscard]] double mean() const {
    return std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
  }

 private:
  size_t most_;
  std::deque<double> losses_;
};

/// The bar of a pass, or of all that is left.
class LoopBar {
 public:
  LoopBar(const TrainLoop& loop, int64_t batch, Console& console)
      : loop_(loop), batch_(batch), console_(console) {}
  void begin(int64_t step) {
    const int64_t pass = loop_.loader.batches_per_epoch();
    if (bar_ && !loop_.bar_each_pass) return;
    const int64_t end = loop_.bar_each_pass ? std::min(loop_.steps, (step / pass + 1) * pass) : loop_.steps;
    const std::string title =
        loop_.bar_each_pass ? fmt::format("epoch {}/{}", step / pass + 1, (loop_.steps + pass - 1) / pass)
                            : "training";
    bar_.emplace(title, loop_.units * (examples_before(end) - examples_before(step)),
                 data::ProgressBar::Options{.out = &console_.err, .unit = loop_.unit});
  }
  void advance(int64_t examples, double loss) { bar_->advance(examples * loop_.units, loss); }
  void end_of_pass(bool last) {
    if (bar_ && (last || loop_.bar_each_pass)) bar_->finish();
  }

 private:
  [[nodiscard]] int64_t examples_before(int64_t step) const {
    const int64_t pass = loop_.loader.batches_per_epoch();
    return step / pass * loop_.loader.examples_per_epoch() + step % pass * batch_;
  }
  const TrainLoop& loop_;
  int64_t batch_;
  Console& console_;
  std::optional<data::ProgressBar> bar_;
};

}  // namespace

LoopResult run_loop(const TrainLoop& loop, const RunOptions& options, RunLog& log,
                    RunCheckpoints& checkpoints, Console& console) {
  const int64_t pass = loop.loader.batches_per_epoch();
  const int64_t save_every = options.save_every > 0 ? options.save_every : pass;
  RecentLoss recent(std::min(pass, save_every));
  LoopBar bar(loop, options.batch, console);
  LoopResult result{.loss = checkpoints.resumed_loss().value_or(0)};
  int64_t step = loop.done, saved = loop.done;
  while (step < loop.steps && !interrupted()) {
    bar.begin(step);
    auto batches = loop.loader.epoch(step / pass, step % pass);
    while (step < loop.steps && !interrupted()) {
      const std::vector<TensorData>* batch = batches.next();
      if (batch == nullptr) break;
      double loss = 0;
      try {
        loss = loop.learn(*batch);
      } catch (const Cancelled&) {  // a compile for new sizes, or the run: the step changed nothing
        break;
      }
      ++step;
      recent.add(loss);
      result.loss = recent.mean();
      result.examples += (*batch)[0].dims[0];
      bar.advance((*batch)[0].dims[0], loss);
      log.write({{"step", step}, {"train_loss", loss}});
      try {
        if (loop.seen) loop.seen(step);
      } catch (const Cancelled&) {  // in the validation between steps; the step stands
        break;
      }
      if (checkpoints.wanted() && step % save_every == 0) checkpoints.save(saved = step, result.loss);
    }
    bar.end_of_pass(step == loop.steps || interrupted());
  }
  if (checkpoints.wanted() && step > saved) checkpoints.save(step, result.loss);
  result.passes = pass > 0 ? step / pass : 0;
  result.complete = step >= loop.steps;
  return result;
}

bool finish_loop(const LoopResult& learnt, const RunOptions& options, const std::function<void()>& save,
                 const std::string& unit, Console& console) {
  const bool stopped = interrupted() && !learnt.complete;
  const bool there = std::filesystem::exists(options.weights);
  const bool earned = !stopped || learnt.passes > 0 || (!there && learnt.examples > 0);
  if (earned) save();
  if (!interrupted()) return true;
  console.out << fmt::format("stopped after {} {}; ", learnt.examples, unit);
  if (earned)
    console.out << fmt::format("weights so far saved to {}\n", options.weights.string());
  else if (there)
    console.out << fmt::format("no pass over the data is complete, so {} is left as it was\n",
                               options.weights.string());
  else
    console.out << "no weights saved\n";
  return false;
}

}  // namespace luminal::cli
