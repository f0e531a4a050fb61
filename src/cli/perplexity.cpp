#include "luminal/models/perplexity.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/stopwatch.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/model_choice.h"

namespace luminal::cli {
namespace {

struct PerplexityOptions : ModelChoice {
  std::string text;
  int64_t chunks = 0;
  bool json = false;
};

struct Measured {
  models::Perplexity perplexity;
  double seconds = 0;  ///< without compiling
};

Measured measured(models::LanguageModel model, const PerplexityOptions& options, const std::string& text,
                  Console& console) {
  const auto start = std::chrono::steady_clock::now();
  const models::Perplexity result =
      models::perplexity(model, text, options.context, options.chunks, [&](const models::Perplexity& so_far) {
        if (!options.json)
          console.out << fmt::format("[{}]{:.4f},", so_far.chunks, so_far.value()) << std::flush;
      });
  return {result, seconds_since(start) - model.compile_seconds()};
}

/// What the text's perplexity is, and where activations are rounded what it is without.
int measure_perplexity(const PerplexityOptions& options, Console& console) {
  constexpr size_t kMostTextBytes = size_t{1} << 30;
  const InterruptGuard guard;
  const std::string text = read_file(options.text, kMostTextBytes);
  const auto [result, seconds] = measured(open_language_model(options, true), options, text, console);
  std::optional<models::Perplexity> exact;
  if (rounds_activations(options.activations)) {
    PerplexityOptions plain = options;
    plain.activations = "f32";
    if (!options.json) console.out << "\nwith f32 activations: ";
    exact = measured(open_language_model(plain, true), plain, text, console).perplexity;
  }
  if (options.json) {
    nlohmann::ordered_json json{{"model", options.model},
                                {"context", options.context},
                                {"chunks", result.chunks},
                                {"tokens", result.tokens},
                                {"perplexity", result.value()},
                                {"error", result.error()},
                                {"activations", options.activations},
                                {"seconds", seconds}};
    if (exact) json["perplexity_f32"] = exact->value();
    console.out << json.dump(1) << "\n";
    return kDone;
  }
  console.out << fmt::format("\nPerplexity {:.4f} +/- {:.5f} of {} tokens in {} chunks of {}, {:.1f} s\n",
                             result.value(), result.error(), result.tokens, result.chunks, options.context,
                             seconds);
  if (exact)
    console.out << fmt::format("with f32 activations {:.4f}: rounding them adds {:+.4f} ({:+.3f} %)\n",
                               exact->value(), result.value() - exact->value(),
                               100 * (result.value() / exact->value() - 1));
  return kDone;
}

Action declare_perplexity(CLI::App& app) {
  auto options = std::make_shared<PerplexityOptions>();
  options->context = 512;
  options->activations = "f32";
  app.add_option("model", options->model, "A GGUF file, or a folder from Hugging Face")->required();
  app.add_option("-f,--file", options->text, "The text")->required();
  app.add_option("-c,--ctx-size", options->context, "Tokens of a chunk; those of its second half are counted")
      ->capture_default_str();
  app.add_option("--chunks", options->chunks, "The first chunks alone; 0: all")->capture_default_str();
  declare_model_dtypes(app, *options);
  app.add_option("--mode", options->mode, "fast, optimal or budget=SECONDS")->capture_default_str();
  app.add_option("--device", options->device, "Where to compute");
  app.add_flag("--json", options->json, "Print the result as JSON");
  return [options](Console& console) { return measure_perplexity(*options, console); };
}

}  // namespace

extern const Command kPerplexity;
const Command kPerplexity{"perplexity", "Measure how well a language model knows a text", declare_perplexity};

}  // namespace luminal::cli
