#include "cli/train_run.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "base/file.h"
#include "base/machine.h"
#include "luminal/plot.h"
#include "luminal/safetensors.h"

namespace luminal::cli {
namespace {

void make_folder_of(const std::filesystem::path& file) {
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path());
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
  app.add_option("--weights", options.weights, "Where the weights go (safetensors)")->capture_default_str();
  app.add_option("--json", options.json, "Write the results to this file");
  app.add_option("--metrics", options.metrics, "Write metrics on the way to this file, as JSON lines");
  app.add_option("--plot", options.plot, "Draw the metrics' curves into this file (HTML)");
}

void check_run(const RunOptions& options) {
  if (options.epochs < 1) fail("[train] --epochs {} is not at least 1", options.epochs);
  if (options.batch < 1) fail("[train] --batch {} is not at least 1", options.batch);
  if (!(options.learning_rate > 0)) fail("[train] --lr {} is not positive", options.learning_rate);
}

RunLog::RunLog(const RunOptions& options) : metrics_(options.metrics), plot_(options.plot) {
  // Curves are drawn from the metrics, so these are written beside them if nowhere else.
  if (metrics_.empty() && !plot_.empty()) metrics_ = std::filesystem::path(plot_).replace_extension(".jsonl");
  if (metrics_.empty()) return;
  make_folder_of(metrics_);
  log_.emplace(metrics_);
}

void RunLog::write(std::initializer_list<data::MetricsLog::Metric> metrics) {
  if (log_) log_->write(metrics);
}

void RunLog::finish() const {
  if (plot_.empty()) return;
  make_folder_of(plot_);
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
