#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "cli/data_folder.h"
#include "cli/train_mnist.h"

namespace luminal::cli {

extern const Command kTrain{
    "train", "Train a ready-made model on real data", [](CLI::App& app) -> Action {
      app.require_subcommand(1);
      CLI::App* mnist = app.add_subcommand("mnist", "A convolutional network that learns handwritten digits");
      auto options = std::make_shared<TrainMnistOptions>();
      mnist->add_option("--epochs", options->epochs, "Passes over the digits")->capture_default_str();
      mnist->add_option("--limit", options->limit, "Digits to train on, 0 for all 8500")
          ->capture_default_str();
      mnist->add_option("--batch", options->batch, "Digits in a step")->capture_default_str();
      mnist
          ->add_option("--lr", options->learning_rate, "Learning rate at the start; it decays along a cosine")
          ->capture_default_str();
      mnist->add_option("--seed", options->seed, "Seed of weights and order")->capture_default_str();
      mnist->add_option("--device", options->device, "Where to run (see 'luminal env')");
      mnist->add_option("--data", options->data, "Folder with the digits in MNIST's files");
      mnist->add_option("--weights", options->weights, "Where the weights go (safetensors)")
          ->capture_default_str();
      mnist->add_option("--json", options->json, "Write the results to this file");
      return [options](Console& console) {
        if (options->data.empty()) options->data = default_digits();
        return train_mnist(*options, console);
      };
    }};

}  // namespace luminal::cli
