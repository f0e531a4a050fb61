#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/environment.h"
#include "base/machine.h"
#include "cli/command.h"
#include "luminal/session.h"
#include "luminal/version.h"

namespace luminal::cli {
namespace {

struct EnvOptions {
  bool json = false;
};

double gibibytes(int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(int64_t{1} << 30); }

void print_json(const Machine& machine, std::ostream& out) {
  nlohmann::ordered_json json{{"version", version()},
                              {"cpu", machine.cpu},
                              {"vector_isa", machine.vector_isa},
                              {"cores", machine.cores},
                              {"memory_bytes", machine.memory_bytes},
                              {"available_bytes", machine.available_bytes},
                              {"devices", session_devices()},
                              {"variables", nlohmann::ordered_json::array()}};
  for (const environment::Variable& variable : environment::variables())
    json["variables"].push_back({{"name", variable.name},
                                 {"value", environment::current(variable)},
                                 {"default", variable.fallback},
                                 {"type", variable.type},
                                 {"help", variable.help}});
  out << json.dump(2) << '\n';
}

void print_table(const Machine& machine, std::ostream& out) {
  out << fmt::format(
      "luminal  {}\ncpu      {}, {} cores, vectors {}\nmemory   {:.1f} GiB, {:.1f} available\n", version(),
      machine.cpu, machine.cores, machine.vector_isa, gibibytes(machine.memory_bytes),
      gibibytes(machine.available_bytes));
  out << fmt::format("devices  {}\n\n", fmt::join(session_devices(), ", "));
  const auto variables = environment::variables();
  size_t name_width = 8, value_width = 5, type_width = 5;
  for (const environment::Variable& variable : variables) {
    name_width = std::max(name_width, variable.name.size());
    value_width = std::max(value_width, environment::current(variable).size());
    type_width = std::max(type_width, variable.type.size());
  }
  const auto row = [&](std::string_view name, std::string_view value, std::string_view type,
                       std::string_view help) {
    out << fmt::format("{:{}}  {:{}}  {:{}}  {}\n", name, name_width, value, value_width, type, type_width,
                       help);
  };
  row("VARIABLE", "VALUE", "TAKES", "MEANING");
  for (const environment::Variable& variable : variables)
    row(variable.name, environment::current(variable), variable.type, variable.help);
}

}  // namespace

extern const Command kEnv{"env", "Show the version, this machine, its devices and the environment variables",
                          [](CLI::App& app) -> Action {
                            auto options = std::make_shared<EnvOptions>();
                            app.add_flag("--json", options->json, "Print JSON");
                            return [options](Console& console) {
                              (options->json ? print_json : print_table)(this_machine(), console.out);
                              return kDone;
                            };
                          }};

}  // namespace luminal::cli
