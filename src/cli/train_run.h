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

/// What the ready-made training runs have in common: options, metrics on the way, and what is left at the
/// end.
namespace luminal::cli {

struct RunOptions {
  int64_t epochs = 1;  ///< of runs that count in passes over the data
  int64_t batch = 32;
  double learning_rate = 1e-3;
  uint64_t seed = 1;
  std::string device;             ///< "" for the best there is
  std::filesystem::path data;     ///< "" for what ships with Luminal
  std::filesystem::path weights;  ///< where they are saved (safetensors)
  std::filesystem::path json;     ///< results for programs; "" for none
  std::filesystem::path metrics;  ///< JSON lines on the way; "" for none
  std::filesystem::path plot;     ///< curves as a page; "" for none
};

/// Declares them on a command, but for the epochs; `data_help` says what the data are.
void declare_epochs(CLI::App& app, RunOptions& options);
void declare_run(CLI::App& app, RunOptions& options, const std::string& data_help);
/// Errors: Error for a number that makes no sense.
void check_run(const RunOptions& options);

/// Writes metrics while a run goes on, and their curves at its end.
class RunLog {
 public:
  explicit RunLog(const RunOptions& options);
  void write(std::initializer_list<data::MetricsLog::Metric> metrics);
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
