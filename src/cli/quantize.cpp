#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "base/printable.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "luminal/models/quantize.h"

namespace luminal::cli {
namespace {

struct QuantizeCommand {
  std::string from, to, type;
  models::QuantizeOptions options;
};

int quantize(QuantizeCommand& command, Console& console) {
  const InterruptGuard guard;
  command.options.progress = [&console](const models::QuantizedTensor& tensor) {
    console.err << fmt::format("[{:>4}/{}] {:<40} [{}]  {}\n", tensor.number, tensor.count,
                               escaped(tensor.name), fmt::join(tensor.dims, ","),
                               tensor.from == tensor.to ? tensor.from : tensor.from + " -> " + tensor.to);
  };
  const models::QuantizeReport report =
      models::quantize_model(command.from, command.to, command.type, command.options);
  constexpr double kMiB = 1 << 20;
  console.out << fmt::format("{}: {:.2f} MiB from {:.2f} MiB, {:.2f} bits per weight\n", command.to,
                             static_cast<double>(report.bytes_after) / kMiB,
                             static_cast<double>(report.bytes_before) / kMiB, report.bits_per_weight());
  if (report.smaller_blocks > 0)
    console.err << fmt::format(
        "{} of {} tensors have rows that are no whole blocks of their type, and got a type with smaller "
        "ones\n",
        report.smaller_blocks, report.tensors);
  return kDone;
}

Action declare_quantize(CLI::App& app) {
  auto command = std::make_shared<QuantizeCommand>();
  app.add_option("in", command->from, "A GGUF file, or a folder from Hugging Face")->required();
  app.add_option("out", command->to, "The GGUF file to write")->required();
  app.add_option("type", command->type, fmt::format("One of {}", fmt::join(models::quantize_types(), ", ")))
      ->required();
  app.add_option("--imatrix", command->options.importance,
                 "How much each input matters, as llama.cpp's llama-imatrix writes it");
  app.add_option("--output-tensor-type", command->options.output_type, "Type of the head");
  app.add_option("--token-embedding-type", command->options.embedding_type, "Type of the embeddings");
  app.add_flag("--pure", command->options.pure, "One type for all matrices");
  app.add_flag("--allow-requantize", command->options.allow_requantize,
               "Also from blocks to other blocks, which loses more than from floats");
  return [command](Console& console) { return quantize(*command, console); };
}

}  // namespace

extern const Command kQuantize;
const Command kQuantize{"quantize", "Write a language model's weights in blocks, as a GGUF file",
                        declare_quantize};

}  // namespace luminal::cli
