#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <new>
#include <vector>

#include "base/environment.h"
#include "base/suggest.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "luminal/error.h"
#include "luminal/version.h"

namespace luminal::cli {
namespace {

/// The command line as CLI11 sees it, and which action belongs to which subcommand.
struct CommandLine {
  CLI::App app{"Luminal, a deep-learning compiler", "luminal"};
  std::vector<std::pair<const CLI::App*, Action>> actions;

  CommandLine() {
    app.set_version_flag("--version", "luminal " + std::string(version()), "Print the version and exit");
    app.set_help_flag("-h,--help", "Print this help and exit");
    for (const Command* command : commands()) {
      CLI::App* subcommand = app.add_subcommand(std::string(command->name), std::string(command->summary));
      actions.emplace_back(subcommand, command->declare(*subcommand));
    }
  }

  /// The innermost subcommand that the command line names, the program itself if it names none.
  [[nodiscard]] const CLI::App& chosen() const {
    const CLI::App* at = &app;
    for (auto parsed = at->get_subcommands(); !parsed.empty(); parsed = at->get_subcommands())
      at = parsed.front();
    return *at;
  }
};

int usage_error(Console& console, const CLI::App& app, const std::string& what) {
  std::string command = app.get_name();
  for (const CLI::App* parent = app.get_parent(); parent != nullptr; parent = parent->get_parent())
    command = parent->get_name() + " " + command;
  console.err << command << ": " << what << " (see '" << command << " --help')\n";
  return kUsage;
}

std::string unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : commands()) names.emplace_back(command->name);
  return "unknown command '" + name + "'" + did_you_mean(name, names);
}

/// CLI11 only says that something was left over; this says what, and what may have been meant.
std::string left_over(const CLI::App& app) {
  const std::vector<std::string> rest = app.remaining(true);
  const auto option =
      std::find_if(rest.begin(), rest.end(), [](const auto& text) { return text.starts_with("-"); });
  if (option == rest.end())
    return "unexpected argument '" + (rest.empty() ? std::string() : rest.front()) + "'";
  const std::string name = option->substr(0, option->find('='));
  std::vector<std::string> known;
  for (const CLI::Option* candidate : app.get_options())
    for (const std::string& text : candidate->get_lnames()) known.push_back("--" + text);
  return "unknown option '" + name + "'" + did_you_mean(name, known);
}

/// CLI11 says that a subcommand is required; this says which there are, and what may have been meant.
std::string no_subcommand(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  const std::vector<std::string> rest = app.remaining(false);
  if (rest.empty()) return fmt::format("missing subcommand; choose one of {}", fmt::join(names, ", "));
  return fmt::format("unknown subcommand '{}'; choose one of {}{}", rest.front(), fmt::join(names, ", "),
                     did_you_mean(rest.front(), names));
}

/// "Could not convert: --epochs = many", in words.
std::string not_converted(const CLI::App& app, const std::string& what) {
  const size_t colon = what.find(": "), equals = what.find(" = ");
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) return what;
  const std::string option = what.substr(colon + 2, equals - colon - 2);
  const CLI::Option* known = app.get_option_no_throw(option);
  const std::string type = known != nullptr ? known->get_type_name() : "";
  const std::string_view wanted = type == "INT"     ? "a whole number"
                                  : type == "UINT"  ? "a whole number of at least 0"
                                  : type == "FLOAT" ? "a number"
                                                    : "another value";
  return fmt::format("{} takes {}, not '{}'", option, wanted, what.substr(equals + 3));
}

int parse_and_act(std::span<const std::string> arguments, Console& console) {
  CommandLine line;
  if (arguments.empty()) {
    console.err << line.app.help();
    return kUsage;
  }
  if (const std::string& first = arguments.front(); !first.starts_with("-")) {
    const auto all = commands();
    if (std::none_of(all.begin(), all.end(), [&](const Command* command) { return command->name == first; }))
      return usage_error(console, line.app, unknown_command(first));
  }
  try {
    line.app.parse(
        std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 takes them reversed
  } catch (const CLI::CallForHelp&) {
    console.out << line.app.help();
    return kDone;
  } catch (const CLI::CallForVersion& version_text) {
    console.out << version_text.what() << '\n';
    return kDone;
  } catch (const CLI::ExtrasError&) {
    return usage_error(console, line.chosen(), left_over(line.chosen()));
  } catch (const CLI::RequiredError& error) {
    const CLI::App& app = line.chosen();
    return usage_error(console, app,
                       app.get_require_subcommand_min() > 0 ? no_subcommand(app) : error.what());
  } catch (const CLI::ConversionError& error) {
    return usage_error(console, line.chosen(), not_converted(line.chosen(), error.what()));
  } catch (const CLI::ParseError& error) {
    return usage_error(console, line.chosen(), error.what());
  }
  environment::check_all();
  for (const auto& [subcommand, action] : line.actions)
    if (subcommand->parsed()) return action(console);
  return usage_error(console, line.app, "no command given");
}

int report(Console& console, const std::string& message) {
  console.err << "luminal: " << message << '\n';
  return kFailed;
}

}  // namespace

int run(std::span<const std::string> arguments, Console& console) {
  try {
    const int code = parse_and_act(arguments, console);
    console.out.flush();
    if (code == kDone && !console.out) return report(console, "cannot write the output; is the disk full?");
    return code;
  } catch (const Cancelled&) {
    console.err << "luminal: stopped\n";
    return interrupted_code();
  } catch (const std::bad_alloc&) {
    return report(console, "out of memory; try a smaller model, batch or limit");
  } catch (const std::exception& error) {
    return report(console, error.what());
  }
}

}  // namespace luminal::cli
