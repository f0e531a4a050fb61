#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include "base/fail.h"
#include "base/file.h"
#include "base/stopwatch.h"
#include "cli/command.h"
#include "cli/compile_mode.h"
#include "cli/interrupt.h"
#include "cli/model_choice.h"
#include "luminal/models/embedding_model.h"

namespace luminal::cli {
namespace {

struct EmbedOptions {
  std::string model, file, device, mode = "fast", decoded;
  std::vector<std::string> texts;
  bool json = false, likeness = false, truncate = false, as_computed = false;
};

/// Those of the command line, and the lines of the file.
std::vector<std::string> texts_of(const EmbedOptions& options) {
  std::vector<std::string> texts = options.texts;
  if (!options.file.empty()) {
    std::istringstream lines(read_file(options.file, size_t{1} << 30));
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (!line.empty()) texts.push_back(std::move(line));
    }
  }
  if (texts.empty())
    fail("[embed] there are no texts; give some behind the model, or a file of lines with -f");
  return texts;
}

/// As OpenAI's interface has it.
nlohmann::ordered_json as_json(const std::string& model, const std::vector<models::Embedding>& found,
                               int64_t tokens) {
  nlohmann::ordered_json data = nlohmann::ordered_json::array();
  for (size_t i = 0; i < found.size(); ++i)
    data.push_back({{"object", "embedding"}, {"index", i}, {"embedding", found[i].values}});
  return {{"object", "list"},
          {"data", std::move(data)},
          {"model", model},
          {"usage", {{"prompt_tokens", tokens}, {"total_tokens", tokens}}}};
}

double cosine(const std::vector<float>& a, const std::vector<float>& b) {
  const auto product = [](const std::vector<float>& x, const std::vector<float>& y) {
    return std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
  };
  const double lengths = std::sqrt(product(a, a) * product(b, b));
  return lengths > 0 ? product(a, b) / lengths : 0;
}

void print_likeness(const std::vector<models::Embedding>& found, Console& console) {
  for (const models::Embedding& a : found) {
    std::vector<std::string> row;
    for (const models::Embedding& b : found)
      row.push_back(fmt::format("{:6.3f}", cosine(a.values, b.values)));
    console.out << fmt::format("{}\n", fmt::join(row, " "));
  }
}

int embed_texts(const EmbedOptions& options, Console& console) {
  const InterruptGuard guard;
  const std::vector<std::string> texts = texts_of(options);
  models::EmbeddingModel model(options.model, {.device = options.device,
                                               .mode = parse_mode(options.mode),
                                               .decoded = decoded_dtype(options.decoded),
                                               .normalize = !options.as_computed,
                                               .truncate = options.truncate});
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<models::Embedding> found = model.embed(texts);
  const double seconds = seconds_since(begin) - model.compile_seconds();
  int64_t tokens = 0;
  for (const models::Embedding& each : found) tokens += each.tokens;
  if (options.json)
    console.out << as_json(options.model, found, tokens).dump() << "\n";
  else if (options.likeness)
    print_likeness(found, console);
  else
    for (const models::Embedding& each : found)
      console.out << fmt::format("{:.7g}\n", fmt::join(each.values, " "));
  console.err << fmt::format("{} texts, {} tokens, {} numbers each; {:.3f} s, and {:.2f} s compiling\n",
                             found.size(), tokens, model.size(), seconds, model.compile_seconds());
  return kDone;
}

Action declare_embed(CLI::App& app) {
  auto options = std::make_shared<EmbedOptions>();
  app.add_option("model", options->model, "A GGUF file, or a folder from Hugging Face")->required();
  app.add_option("text", options->texts, "Texts");
  app.add_option("-f,--file", options->file, "A file whose lines are texts");
  auto* json = app.add_flag("--json", options->json, "Print JSON as OpenAI's interface has it");
  app.add_flag("--likeness", options->likeness, "Print the cosines between the texts instead of vectors")
      ->excludes(json);
  app.add_flag("--truncate", options->truncate, "Cut texts that are too long");
  app.add_flag("--no-normalize", options->as_computed, "Leave vectors as long as they are");
  app.add_option("--decoded", options->decoded,
                 "Decode block-quantised weights when they are read, to f16, bf16 or f32");
  app.add_option("--mode", options->mode, "fast, optimal or budget=SECONDS")->capture_default_str();
  app.add_option("--device", options->device, "Where to compute");
  return [options](Console& console) { return embed_texts(*options, console); };
}

}  // namespace

extern const Command kEmbed;
const Command kEmbed{"embed", "Turn texts into vectors that tell how alike they are", declare_embed};

}  // namespace luminal::cli
