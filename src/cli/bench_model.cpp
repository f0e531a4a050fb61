#include "cli/bench_model.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/fail.h"
#include "base/machine.h"
#include "base/stopwatch.h"

namespace luminal::cli {
namespace {

using Json = nlohmann::json;
using text::TokenId;

/// Tokens a second of the samples.
struct Rate {
  double mean = 0, deviation = 0;  ///< of a sample; 0 of one alone
};

Rate rate_of(const std::vector<double>& samples) {
  const auto count = static_cast<double>(samples.size());
  const double mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  double squares = 0;
  for (const double x : samples) squares += (x - mean) * (x - mean);
  return {mean, samples.size() > 1 ? std::sqrt(squares / (count - 1)) : 0};
}

/// Times texts of random tokens, no two with the same beginning: nothing of one is known in the next.
class ModelBench {
 public:
  explicit ModelBench(models::LanguageModel& model) : model_(model) {}

  /// Seconds of `count` tokens into an empty cache: in one call, or one by one, each chosen when the one before is
  /// known, as generation does.
  double prompt(int64_t count) {
    begin();
    while (std::ssize(text_) < count) push();
    return timed(count, [&] { (void)model_.logits(text_); });
  }
  double generation(int64_t count) {
    begin();
    return timed(count, [&] {
      for (int64_t i = 0; i < count; ++i) {
        if (i > 0) push();
        (void)model_.logits(text_);
        LUMINAL_CHECK(model_.computed_tokens() == 1, "{} tokens of {}", model_.computed_tokens(), i);
      }
    });
  }
  /// Of so many texts at once, a step of all of them after the other.
  double joint_generation(int64_t count, int64_t texts) {
    std::vector<std::vector<TokenId>> all;
    for (int64_t t = 0; t < texts; ++t) {
      begin();
      all.push_back(text_);
    }
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < count; ++i) {
      std::vector<models::LanguageModel::SequenceText> step;
      for (std::vector<TokenId>& text : all) {
        if (i > 0) text.push_back(any_token());
        step.push_back({std::ssize(step), text});
      }
      (void)model_.joint_logits(step);
    }
    return seconds_since(start);
  }

 private:
  /// Another first token than before.
  void begin() {
    first_ = static_cast<TokenId>((first_ + 1) % model_.sizes().vocabulary);
    text_.assign(1, first_);
  }
  TokenId any_token() {
    return static_cast<TokenId>(random_() % static_cast<uint64_t>(model_.sizes().vocabulary));
  }
  void push() { text_.push_back(any_token()); }
  template <class Work>
  double timed(int64_t count, const Work& work) const {
    const auto start = std::chrono::steady_clock::now();
    work();
    const double seconds = seconds_since(start);
    LUMINAL_CHECK(std::ssize(text_) == count, "{} tokens of {}", text_.size(), count);
    return seconds;
  }

  models::LanguageModel& model_;
  std::vector<TokenId> text_;
  std::mt19937_64 random_{7};
  TokenId first_ = 0;
};

/// The tests that are asked for, by llama-bench's names.
struct ModelTest {
  std::string name;
  int64_t tokens;  ///< of all texts
  std::function<double(ModelBench&)> run;
};
std::vector<ModelTest> tests_of(const ModelBenchOptions& options) {
  std::vector<ModelTest> tests;
  const int64_t prompt = options.prompt, generated = options.generated, texts = options.sequences;
  if (prompt > 0)
    tests.push_back(
        {fmt::format("pp{}", prompt), prompt, [=](ModelBench& bench) { return bench.prompt(prompt); }});
  if (generated > 0)
    tests.push_back({fmt::format("tg{}", generated), generated,
                     [=](ModelBench& bench) { return bench.generation(generated); }});
  if (generated > 0 && texts > 1)
    tests.push_back({fmt::format("tg{} x {}", generated, texts), generated * texts,
                     [=](ModelBench& bench) { return bench.joint_generation(generated, texts); }});
  if (tests.empty()) fail("[bench] there is nothing to time; give -p or -n more than 0 tokens");
  return tests;
}

/// One test's figures. The first run, in which the plans are made, is no sample.
Json figures_of(const ModelTest& test, const ModelBenchOptions& options, models::LanguageModel& model,
                ModelBench& bench) {
  const double compiled = model.compile_seconds();
  (void)test.run(bench);
  std::vector<double> samples;
  for (int i = 0; i < options.repetitions; ++i)
    samples.push_back(static_cast<double>(test.tokens) / test.run(bench));
  const Rate rate = rate_of(samples);
  return {{"model", options.model},
          {"architecture", model.architecture()},
          {"bytes", model.weight_bytes()},
          {"parameters", model.parameter_count()},
          {"mode", options.mode},
          {"cores", this_machine().cores},
          {"cache", options.cache},
          {"activations", options.activations},
          {"test", test.name},
          {"parallel", options.sequences},
          {"tokens", test.tokens},
          {"tokens_per_s", rate.mean},
          {"deviation", rate.deviation},
          {"samples", samples},
          {"compile_s", model.compile_seconds() - compiled}};
}

constexpr std::string_view kRow = "| {:<24} | {:>10} | {:>9} | {:>5} | {:>10} | {:>19} | {:>9} |\n";

std::string row_of_figures(const Json& figures) {
  const std::string model = std::filesystem::path(figures.at("model").get<std::string>()).filename();
  return fmt::format(kRow, model.substr(0, 24),
                     fmt::format("{:.1f} MiB", figures.at("bytes").get<double>() / (1 << 20)),
                     fmt::format("{:.1f} M", figures.at("parameters").get<double>() * 1e-6),
                     figures.at("cores").get<int>(), figures.at("test").get<std::string>(),
                     fmt::format("{:.2f} ± {:.2f}", figures.at("tokens_per_s").get<double>(),
                                 figures.at("deviation").get<double>()),
                     fmt::format("{:.2f}", figures.at("compile_s").get<double>()));
}

}  // namespace

void declare_bench_model(CLI::App& bench, ModelBenchOptions& options) {
  bench.add_option("-p,--n-prompt", options.prompt, "Of a model: tokens of a prompt; 0: not timed")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  bench.add_option("-n,--n-gen", options.generated, "Of a model: tokens generated; 0: not timed")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20));
  bench
      .add_option("--parallel", options.sequences,
                  "Of a model: generate so many texts at once, too; their tokens are counted together")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, models::LanguageModel::kMostJointTexts));
  bench.add_option("-r,--repetitions", options.repetitions, "Of a model: how often each is timed")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  declare_model_dtypes(bench, options);
}

bool is_language_model(const std::string& what) {
  std::error_code ignored;
  return what.ends_with(".gguf") ||
         std::filesystem::exists(std::filesystem::path(what) / "config.json", ignored);
}

int bench_model(ModelBenchOptions options, Console& console) {
  const std::vector<ModelTest> tests = tests_of(options);
  options.context = std::max(options.prompt, options.generated);
  models::LanguageModel model = open_language_model(options);
  ModelBench bench(model);
  Json all = Json::array();
  if (!options.json) {
    console.out << fmt::format(kRow, "model", "size", "params", "cores", "test", "t/s", "compile s")
                << fmt::format("|{0:->26}|{0:->11}:|{0:->10}:|{0:->6}:|{0:->11}:|{0:->20}:|{0:->10}:|\n", "");
  }
  for (const ModelTest& test : tests) {
    all.push_back(figures_of(test, options, model, bench));
    if (!options.json) console.out << row_of_figures(all.back()) << std::flush;
  }
  if (options.json) console.out << all.dump(1) << "\n";
  return kDone;
}

}  // namespace luminal::cli
