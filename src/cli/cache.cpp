#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/command.h"
#include "luminal/tuning.h"

namespace luminal::cli {
namespace {

struct CacheOptions {
  std::string export_to, import_from;
};

int cache(const CacheOptions& options, Console& console) {
  if (!options.import_from.empty())
    console.out << fmt::format("{} new choices from {}\n", import_tuning(options.import_from),
                               options.import_from);
  if (!options.export_to.empty()) {
    export_tuning(options.export_to);
    console.out << fmt::format("wrote {}\n", options.export_to);
  }
  const TuningState state = tuning_state();
  if (!state.trouble.empty()) {
    console.out << fmt::format("the cache is not used: {}\n", state.trouble);
    return kDone;
  }
  console.out << fmt::format("{}: {} choices, {} stored objects ({:.1f} MB)\n", state.file.string(),
                             state.choices, state.objects, static_cast<double>(state.object_bytes) / 1e6);
  return kDone;
}

Action declare_cache(CLI::App& app) {
  auto options = std::make_shared<CacheOptions>();
  app.add_option("--import", options->import_from,
                 "Import the choices of an exported file; each is verified at its first use");
  app.add_option("--export", options->export_to,
                 "Write all choices to a new file, for other machines of this kind");
  return [options](Console& console) { return cache(*options, console); };
}

}  // namespace

extern const Command kCache;
const Command kCache{"cache", "show, export and import what tuning found", declare_cache};

}  // namespace luminal::cli
