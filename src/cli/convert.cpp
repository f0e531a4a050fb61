#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "base/fail.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "luminal/models/convert.h"
#include "luminal/models/quantize.h"

namespace luminal::cli {
namespace {

struct ConvertOptions {
  std::string from, to, type;
};

int convert(const ConvertOptions& options, Console& console) {
  const InterruptGuard guard;
  std::error_code ignored;
  const bool from_folder = std::filesystem::is_directory(options.from, ignored);
  const bool to_file = options.to.ends_with(".gguf");
  if (from_folder && !to_file)
    fail("[convert] '{}' does not end in .gguf; a folder becomes a GGUF file", options.to);
  if (!from_folder && to_file)
    fail("[convert] '{}' and '{}' are both GGUF files; `luminal quantize` changes types", options.from,
         options.to);
  if (!from_folder)
    models::convert_to_folder(options.from, options.to,
                              options.type.empty() ? Dtype::F16 : parse_dtype(options.type));
  else if (options.type.empty())
    models::convert_to_gguf(options.from, options.to);
  else
    (void)models::quantize_model(options.from, options.to, options.type);
  console.out << fmt::format("{} written\n", options.to);
  return kDone;
}

Action declare_convert(CLI::App& app) {
  auto options = std::make_shared<ConvertOptions>();
  app.add_option("in", options->from, "A folder from Hugging Face, or a GGUF file")->required();
  app.add_option("out", options->to, "The GGUF file, or the new folder")->required();
  app.add_option(
      "--outtype", options->type,
      "Type of matrices: in a GGUF file as `luminal quantize` takes it, in a folder what blocks become "
      "(f16, bf16, f32)");
  return [options](Console& console) { return convert(*options, console); };
}

}  // namespace

extern const Command kConvert;
const Command kConvert{"convert", "Turn a Hugging Face folder into a GGUF file, or back", declare_convert};

}  // namespace luminal::cli
