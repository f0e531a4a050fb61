#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/interrupt.h"
#include "luminal/models/random_model.h"

namespace luminal::cli {
namespace {

struct RandomModelCommand {
  std::string shape, to;
  models::RandomModelOptions options;
};

int write(RandomModelCommand& command, Console& console) {
  const InterruptGuard guard;
  command.options.progress = [&console](int64_t number, int64_t count) {
    if (number % 32 == 0 || number == count) console.err << fmt::format("[{:>4}/{}]\n", number, count);
  };
  models::write_random_model(command.shape, command.to, command.options);
  console.out << fmt::format("{}: {:.2f} MiB\n", command.to,
                             static_cast<double>(std::filesystem::file_size(command.to)) / (1 << 20));
  return kDone;
}

Action declare_random_model(CLI::App& app) {
  auto command = std::make_shared<RandomModelCommand>();
  app.add_option("shape", command->shape,
                 fmt::format("One of {}", fmt::join(models::random_model_names(), ", ")))
      ->required();
  app.add_option("out", command->to, "The GGUF file to write, in f16")->required();
  app.add_option("--layers", command->options.layers, "Fewer layers, or more; 0: as many as the model has")
      ->capture_default_str();
  app.add_option("--seed", command->options.seed, "Of the weights")->capture_default_str();
  return [command](Console& console) { return write(*command, console); };
}

}  // namespace

extern const Command kRandomModel;
const Command kRandomModel{"random-model", "Write a model of a known shape with random weights, to time it",
                           declare_random_model};

}  // namespace luminal::cli
