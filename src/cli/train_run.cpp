#include "cli/train_run.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/fail.h"
#include "base/file.h"
#include "base/machine.h"
#include "luminal/plot.h"
#include "luminal/safetensors.h"

namespace luminal::cli {
namespace {

namespace fs = std::filesystem;

void make_folder_of(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  std::error_code status;
  fs::create_directories(folder, status);
  if (status)
    fail("[train] cannot create the folder '{}': {}; choose another place", folder.string(),
         status.message());
  if (::access(folder.c_str(), W_OK) != 0)
    fail("[train] the folder '{}' cannot be written to: {}; choose another place", folder.string(),
         std::strerror(errno));
}

/// A run that took its time should not fail for want of a place for what it learnt.
void check_place(const char* option, const fs::path& file) {
  if (file.empty()) return;
  if (fs::is_directory(file)) fail("[train] {} '{}' is a folder; give a file", option, file.string());
  make_folder_of(file);
}

}  // namespace

void declare_epochs(CLI::App& app, RunOptions& options) {
  app.add_option("--epochs", options.epochs, "Passes over the data")->capture_default_str();
}

void declare_run(CLI::App& app, RunOptions& options, const std::string& data_help) {
  app.add_option("--batch", options.batch, "Examples in a step")->capture_default_str();
  app.add_option("--lr", options.learning_rate, "Learning rate at the start; it decays along a cosine")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of weights and order")->capture_default_str();
  app.add_option("--device", options.device, "Where to run (see 'luminal env')");
  app.add_option("--data", options.data, data_help);
  app.add_option("--weights", options.weights, "File for the weights (safetensors)")->capture_default_str();
  app.add_option("--json", options.json, "Write the results to this file");
  app.add_option("--metrics", options.metrics, "Write metrics on the way to this file, as JSON lines");
  app.add_option("--plot", options.plot, "Draw the metrics' curves into this file (HTML)");
  auto* checkpoints = app.add_option("--checkpoints", options.checkpoints,
                                     "Folder for checkpoints, one after each pass over the data");
  app.add_option("--save-every", options.save_every, "Save a checkpoint every so many steps instead")
      ->needs(checkpoints);
  app.add_flag("--resume", options.resume, "Continue from the newest checkpoint")->needs(checkpoints);
}

void check_run(const RunOptions& options) {
  if (options.epochs < 1) fail("[train] --epochs is {}; give 1 or more", options.epochs);
  if (options.batch < 1) fail("[train] --batch is {}; give 1 or more", options.batch);
  if (!(options.learning_rate > 0)) fail("[train] --lr is {}; give a rate above 0", options.learning_rate);
  if (options.save_every < 0)
    fail("[train] --save-every {} is negative; 0 means after each pass over the data", options.save_every);
  check_place("--weights", options.weights);
  check_place("--json", options.json);
  check_place("--metrics", options.metrics);
  check_place("--plot", options.plot);
}

Graph new_graph(const RunOptions& options) {
  Graph cx;
  cx.set_seed(options.seed);
  if (!options.device.empty()) cx.set_device(options.device);
  return cx;
}

RunCheckpoints::RunCheckpoints(const RunOptions& options, std::string run, int64_t examples)
    : resume_(options.resume),
      notes_{{"run", std::move(run)},
             {"examples", std::to_string(examples)},
             {"batch", std::to_string(options.batch)}} {
  if (options.checkpoints.empty()) return;
  manager_.emplace(options.checkpoints);
  // Steps of two runs in one folder would push each other out.
  if (!resume_ && !manager_->list().empty())
    fail(
        "[train] '{}' holds checkpoints of a run up to step {}; use --resume to continue from them, or "
        "choose another folder",
        options.checkpoints.string(), manager_->list().back().step);
}

int64_t RunCheckpoints::go_on(const std::optional<training::CheckpointManager::Checkpoint>& found,
                              Console& console) {
  if (!found) {
    console.out << "no checkpoint yet: starting from the beginning\n";
    return 0;
  }
  for (const auto& [name, here] : notes_) {
    const auto there = found->notes.find(name);
    if (there == found->notes.end() || there->second == here) continue;
    fail(
        "[train] '{}' was made with {} {}, but this run has {}, so the batches would differ; use the same "
        "value, or another folder",
        found->path.string(), name, there->second, here);
  }
  resumed_loss_ = found->metric;
  console.out << fmt::format("resuming at step {} from {}\n", found->step, found->path.string());
  return found->step;
}

void RunCheckpoints::save(int64_t step, double loss) {
  if (manager_) manager_->save(step, loss, notes_);
}

namespace {

/// Leaves the lines of a file of metrics up to step `done`: those behind it will be written again.
void cut_metrics(const fs::path& path, int64_t done) {
  if (!fs::exists(path)) return;
  std::istringstream lines(read_file(path));
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto metrics = nlohmann::json::parse(line, nullptr, false);  // a killed run may leave half a line
    if (!metrics.is_object()) continue;
    const auto step = metrics.find("step");
    if (step == metrics.end() || (step->is_number() && step->get<double>() <= static_cast<double>(done)))
      kept += line + "\n";
  }
  write_file_atomic(path, kept);
}

}  // namespace

RunLog::RunLog(const RunOptions& options, int64_t done) : metrics_(options.metrics), plot_(options.plot) {
  // Curves are drawn from the metrics, so these are written beside them if nowhere else.
  if (metrics_.empty() && !plot_.empty()) metrics_ = fs::path(plot_).replace_extension(".jsonl");
  if (metrics_.empty()) return;
  if (done > 0) cut_metrics(metrics_, done);
  log_.emplace(metrics_, done > 0);
}

void RunLog::write(std::initializer_list<data::MetricsLog::Metric> metrics) {
  if (log_) log_->write(metrics);
}

void RunLog::finish() const {
  if (plot_.empty()) return;
  data::plot_metrics(metrics_, plot_);
}

void save_weights(const std::map<std::string, TensorData>& weights, const std::filesystem::path& path,
                  const std::string& model) {
  make_folder_of(path);
  write_safetensors(path, {weights.begin(), weights.end()}, {{"model", model}});
}

void write_result(const RunOptions& options, const std::string& device, nlohmann::ordered_json result) {
  if (options.json.empty()) return;
  result["batch"] = options.batch;
  result["seed"] = options.seed;
  result["device"] = device;
  result["cpu"] = this_machine().cpu;
  make_folder_of(options.json);
  write_file_atomic(options.json, result.dump(2) + "\n");
}

}  // namespace luminal::cli
