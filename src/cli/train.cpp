#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/data_folder.h"
#include "cli/train_runs.h"

namespace luminal::cli {
namespace {

/// A subcommand of `app`; `own` declares what the run has beside the common options, `run` runs it.
template <class Options, class Own>
void add_run(CLI::App& app, const std::string& name, const std::string& summary, const std::string& data_help,
             const std::filesystem::path& shipped_data, int (*run)(const Options&, Console&), Action* chosen,
             Own own) {
  CLI::App* command = app.add_subcommand(name, summary);
  auto options = std::make_shared<Options>();
  declare_run(*command, *options, data_help);
  own(*command, *options);
  command->callback([options, chosen, run, shipped_data] {
    *chosen = [options, run, shipped_data](Console& console) {
      if (options->data.empty()) options->data = shipped(shipped_data);
      return run(*options, console);
    };
  });
}

void declare_mode(CLI::App& command, std::string& mode) {
  command.add_option("--mode", mode, "How hard to look for fast kernels: fast, optimal or budget=SECONDS")
      ->capture_default_str();
}

void add_digits(CLI::App& app, Action* chosen) {
  add_run<TrainMnistOptions>(app, "mnist", "A convolutional network that learns handwritten digits",
                             "Folder with the digits in MNIST's files", "mnist10k", train_mnist, chosen,
                             [](CLI::App& command, TrainMnistOptions& options) {
                               declare_epochs(command, options);
                               command
                                   .add_option("--limit", options.limit, "Digits to train on, 0 for all 8500")
                                   ->capture_default_str();
                               declare_mode(command, options.mode);
                             });
  add_run<TrainDigitsOptions>(
      app, "digits", "A perceptron that learns small handwritten digits", "The digits (.npz: images, labels)",
      std::filesystem::path("digits") / "digits.npz", train_digits, chosen,
      [](CLI::App& command, TrainDigitsOptions& options) {
        declare_epochs(command, options);
        command.add_option("--hidden", options.hidden, "Units of the hidden layer")->capture_default_str();
      });
}

void add_regression(CLI::App& app, Action* chosen) {
  add_run<TrainRegressionOptions>(
      app, "regression", "A model that predicts one column of a table from the others",
      "The table (see FILE)", std::filesystem::path("diabetes") / "diabetes.csv", train_regression, chosen,
      [](CLI::App& command, TrainRegressionOptions& options) {
        declare_epochs(command, options);
        command.add_option("FILE", options.data, "The table, as CSV (default: the diabetes data)");
        command.add_option("--target", options.target, "Column to predict (default: the last one)");
        command.add_option("--hidden", options.hidden, "Units of a hidden layer, 0 for a linear model")
            ->capture_default_str();
        command.add_option("--test-share", options.test_share, "Share of the rows for testing")
            ->capture_default_str();
        command.add_option("--weight-decay", options.weight_decay, "How strongly weights are pulled to 0")
            ->capture_default_str();
      });
}

void add_text(CLI::App& app, Action* chosen) {
  add_run<TrainTextOptions>(
      app, "text", "A small Llama that learns to write like a text", "The text (see FILE)",
      std::filesystem::path("austen") / "pride_and_prejudice.txt", train_text, chosen,
      [](CLI::App& command, TrainTextOptions& options) {
        command.add_option("FILE", options.data,
                           "A text, or a folder with .txt and .md files (default: a third of a novel)");
        command.add_option("--steps", options.steps, "Steps of training")->capture_default_str();
        declare_mode(command, options.mode);
        command.add_option("--length", options.length, "Bytes in a window")->capture_default_str();
        command.add_option("--layers", options.layers, "Layers")->capture_default_str();
        command.add_option("--size", options.size, "Numbers in a token's vector")->capture_default_str();
        command.add_option("--heads", options.heads, "Query heads")->capture_default_str();
        command.add_option("--kv-heads", options.kv_heads, "Key and value heads")->capture_default_str();
        command.add_option("--prompt", options.prompt, "What the sample starts with")->capture_default_str();
        command.add_option("--sample", options.sample, "Bytes to write at the end")->capture_default_str();
        command.add_option("--temperature", options.temperature, "0 always picks the most likely byte")
            ->capture_default_str();
        command.add_flag("--chat", options.chat,
                         "The text is lines 'Q: ' and 'A: ' in turn; a GGUF file of weights says so");
      });
}

}  // namespace

extern const Command kTrain{"train", "Train a ready-made model on real data", [](CLI::App& app) -> Action {
                              app.require_subcommand(1);
                              auto chosen = std::make_shared<Action>();
                              add_digits(app, chosen.get());
                              add_regression(app, chosen.get());
                              add_text(app, chosen.get());
                              return [chosen](Console& console) { return (*chosen)(console); };
                            }};

}  // namespace luminal::cli
