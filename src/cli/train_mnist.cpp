#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/fail.h"
#include "base/stopwatch.h"
#include "cli/compile_mode.h"
#include "cli/interrupt.h"
#include "cli/mnist_step.h"
#include "cli/search_line.h"
#include "cli/train_loop.h"
#include "cli/train_runs.h"
#include "luminal/compile_report.h"
#include "luminal/data.h"
#include "luminal/models/mnist_cnn.h"
#include "luminal/training.h"

namespace luminal::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// The training step as one compiled graph: forward, backward and update.
class Learner {
 public:
  Learner(const TrainMnistOptions& options, const std::string& mode, int64_t total_steps)
      : cx_(new_graph(options)),
        step_(cx_, options.batch, options.learning_rate),
        schedule_{.start = options.learning_rate, .steps = total_steps} {
    const auto begin = Clock::now();
    executable_ = make_session(cx_.device())->compile(cx_, parse_mode(mode));
    compile_s_ = seconds_since(begin);
    run_.emplace(cx_.state(), executable_);
  }

  double step(const std::vector<TensorData>& batch) {
    step_.images.set(batch[0]);
    step_.labels.set(batch[1]);
    step_.adam.set_learning_rate(schedule_(steps_++));
    (*run_)();
    return training::finite_loss(step_.loss);
  }
  /// Time of one more run on the inputs as they are.
  double time_us() {
    const auto begin = Clock::now();
    (*run_)();
    return 1e6 * seconds_since(begin);
  }

  /// What the compile did; nothing on devices that interpret.
  [[nodiscard]] std::optional<CompileReport> report() const {
    const auto* explained = dynamic_cast<const Explained*>(executable_.get());
    return explained ? std::optional(explained->details()) : std::nullopt;
  }
  [[nodiscard]] std::map<std::string, TensorData> weights() const { return nn::state_dict(step_.model); }
  void track(training::CheckpointManager& checkpoints) const {
    checkpoints.track("model", step_.model);
    checkpoints.track("optimizer", step_.adam);
  }
  std::optional<training::CheckpointManager::Checkpoint> resume(training::CheckpointManager& checkpoints) {
    auto found = checkpoints.resume();
    if (found) steps_ = found->step;
    return found;
  }
  [[nodiscard]] std::string device() const { return cx_.device(); }
  [[nodiscard]] double compile_s() const { return compile_s_; }

 private:
  Graph cx_;
  MnistStep step_;
  training::CosineSchedule schedule_;
  std::shared_ptr<Executable> executable_;
  std::optional<Compiled> run_;
  double compile_s_ = 0;
  int64_t steps_ = 0;
};

/// Step times of a plan made without measuring and of the one in use, in turn, on one batch.
struct StepTimes {
  double fast_us = 0, chosen_us = 0, fast_compile_s = 0;
};

/// `chosen` has learnt: its plan may be one that no other compile comes to, such as that of a search that was ended
/// early.
StepTimes compare_modes(const TrainMnistOptions& options, const data::Loader& loader, Learner& chosen) {
  constexpr int kRounds = 7, kRuns = 20;
  Learner fast(options, "fast", 1);
  auto batches = loader.epoch(0);
  const std::vector<TensorData>* batch = batches.next();
  LUMINAL_CHECK(batch != nullptr, "no batch of {}", options.batch);
  for (Learner* learner : {&fast, &chosen})
    for (int i = 0; i < 3; ++i) (void)learner->step(*batch);
  std::vector<double> fast_us, chosen_us;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kRuns; ++i) fast_us.push_back(fast.time_us());
    for (int i = 0; i < kRuns; ++i) chosen_us.push_back(chosen.time_us());
  }
  return {.fast_us = median(fast_us), .chosen_us = median(chosen_us), .fast_compile_s = fast.compile_s()};
}

/// Seconds from the compile call to a ready plan in a new process that finds the cache filled, if it can be
/// told.
std::optional<double> warm_start_s(const TrainMnistOptions& options) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error || self.filename() != "luminal") return std::nullopt;  // another program embeds this command
  const std::string command =
      fmt::format("'{}' explain mnist-step --json --device cpu --mode {} --dim batch={} 2>/dev/null",
                  self.string(), options.mode, options.batch);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  if (!pipe) return std::nullopt;
  std::string text;
  std::array<char, 4096> buffer{};
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe.get())) > 0;)
    text.append(buffer.data(), n);
  const auto report = nlohmann::json::parse(text, nullptr, false);
  if (!report.is_object() || !report.contains("total_s")) return std::nullopt;
  return report["total_s"].get<double>();
}

nlohmann::ordered_json kernels_json(const CompileReport& report) {
  auto list = nlohmann::ordered_json::array();
  for (const KernelReport& kernel : report.kernels) {
    const double us = kernel.time_us();
    list.push_back({{"name", kernel.name},
                    {"launches", kernel.launches},
                    {"us", us},
                    {"measured", kernel.measured_us > 0},
                    {"gflops", kernel.flops / us * 1e-3},
                    {"gb_per_s", kernel.bytes / us * 1e-3},
                    {"roofline_share", kernel.roofline_us / us},
                    {"made_for", kernel.origin}});
  }
  return list;
}

/// Share of the set that the weights classify rightly.
double accuracy(const std::map<std::string, TensorData>& weights, const data::ImageSet& set,
                const std::string& device) {
  constexpr int64_t kBatch = 100;
  Graph cx;
  cx.set_device(device);
  const models::MnistCnn model(cx);
  nn::load_state_dict(model, weights);
  GraphTensor images =
      cx.named_tensor("images", {"batch", 1, models::MnistCnn::kSide, models::MnistCnn::kSide});
  GraphTensor guesses = model.forward(images).argmax(1).retrieve();
  const data::BatchLoader loader(set, {.batch = kBatch, .shuffle = false});
  auto batches = loader.epoch(0);
  int64_t right = 0;
  while (const data::Batch* batch = batches.next()) {
    images.set_dyn(batch->images, {batch->size, 1, models::MnistCnn::kSide, models::MnistCnn::kSide});
    cx.execute();
    const std::vector<int64_t> found = guesses.data<int64_t>();
    for (size_t i = 0; i < found.size(); ++i) right += found[i] == batch->labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(set.size());
}

}  // namespace

int train_mnist(const TrainMnistOptions& options, Console& console) {
  check_run(options);
  if (options.limit < 0) fail("[train] --limit {} is negative; 0 means all digits", options.limit);
  (void)parse_mode(options.mode);
  const InterruptGuard guard;
  const data::ImageSet digits = data::load_mnist(options.data, data::Split::Train).first(options.limit);
  const data::ImageSet test = data::load_mnist(options.data, data::Split::Test);
  if (digits.size() < options.batch)
    fail("[train] --batch {} is more than the {} digits to train on; give a smaller one", options.batch,
         digits.size());
  RunCheckpoints checkpoints(options, "mnist", digits.size());
  const data::ImageSource source(digits);
  const data::Loader loader(source, {.batch = options.batch, .seed = options.seed, .drop_last = true});
  const int64_t steps = options.epochs * loader.batches_per_epoch();
  std::optional<SearchLine> line(std::in_place, console);
  Learner learner(options, options.mode, steps);
  const bool searched_whole = !line->asked_to_end();
  line.reset();
  console.out << fmt::format("training on {} digits, testing on {}, device {}\n", digits.size(), test.size(),
                             learner.device());
  const std::optional<CompileReport> report = learner.report();
  if (report) console.out << to_text(*report) << "\n";

  const int64_t done = checkpoints.start(learner, console);
  RunLog log(options, done);
  const auto begin = Clock::now();
  const auto learn = [&](const std::vector<TensorData>& batch) { return learner.step(batch); };
  const LoopResult learnt = run_loop({.loader = loader, .done = done, .steps = steps, .learn = learn},
                                     options, log, checkpoints, console);
  const double train_s = seconds_since(begin);
  log.finish();
  if (!finish_loop(
          learnt, options, [&] { save_weights(learner.weights(), options.weights, "mnist_cnn"); }, "images",
          console))
    return interrupted_code();
  const double test_accuracy = accuracy(learner.weights(), test, learner.device());
  console.out << fmt::format("test accuracy {:.1f} %, weights saved to {}\n", 100 * test_accuracy,
                             options.weights.string());
  nlohmann::ordered_json result{
      {"test_accuracy", test_accuracy},
      {"train_loss", learnt.loss},
      {"train_s", train_s},
      {"images_per_s", train_s > 0 ? static_cast<double>(learnt.examples) / train_s : 0},
      {"images", digits.size()},
      {"epochs", options.epochs},
      {"mode", options.mode}};
  if (report) {
    const StepTimes times = compare_modes(options, loader, learner);
    // A search that was ended early has left no plan behind that another process could find.
    std::optional<double> warm_s;
    if (searched_whole) warm_s = warm_start_s(options);
    console.out << fmt::format(
        "a step takes {:.0f} us in {} mode, {:.0f} us in fast mode ({:.2f}x); fast compiles in {:.3f} s, {} "
        "took {:.1f} s{}\n",
        times.chosen_us, options.mode, times.fast_us, times.fast_us / times.chosen_us, times.fast_compile_s,
        options.mode, learner.compile_s(),
        warm_s ? fmt::format(" and {:.3f} s in a new process with the cache filled", *warm_s) : "");
    result["step_us"] = {{"fast", times.fast_us}, {options.mode, times.chosen_us}};
    result["search_s"] = learner.compile_s();
    result["fast_compile_s"] = times.fast_compile_s;
    if (warm_s) result["warm_start_s"] = *warm_s;
    for (const auto& [phase, seconds] : report->phases) result["phases_s"][phase] = seconds;
    result["kernels"] = kernels_json(*report);
    result["compared"] = report->compared;
    result["ops_outside_plan"] = report->ops_outside_plan;
  }
  write_result(options, learner.device(), std::move(result));
  return kDone;
}

}  // namespace luminal::cli
