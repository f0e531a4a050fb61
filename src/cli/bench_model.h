#pragma once
#include "cli/command.h"
#include "cli/model_choice.h"

/// `luminal bench MODEL`: tokens a second of prompts and of generation.
namespace luminal::cli {

struct ModelBenchOptions : ModelChoice {
  int64_t prompt = 512, generated = 128;  ///< tokens; 0: not timed
  int repetitions = 5;
  bool json = false;
};
/// Declares all but what ModelChoice shares with other workloads: the model, device and mode.
void declare_bench_model(CLI::App& bench, ModelBenchOptions& options);
/// Whether `what` means a language model: a GGUF file, or a folder with config.json.
[[nodiscard]] bool is_language_model(const std::string& what);
int bench_model(ModelBenchOptions options, Console& console);

}  // namespace luminal::cli
