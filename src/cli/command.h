#pragma once
#include <functional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>

namespace CLI {
class App;
}

/// The `luminal` program. A subcommand is one file with one Command record, and one line in commands.cpp.
namespace luminal::cli {

/// Where a command writes: results to `out`, everything else to `err`.
struct Console {
  std::ostream& out;
  std::ostream& err;
};

/// Exit codes: 0 done; kFailed for what an error message explains; kUsage for a command line that makes no
/// sense; 130 and 143 after Ctrl-C and SIGTERM, as shells expect it (interrupted_code).
inline constexpr int kDone = 0, kFailed = 1, kUsage = 2;

/// What a command does once its options are known; returns the exit code. Errors are thrown.
using Action = std::function<int(Console&)>;

struct Command {
  std::string_view name, summary;
  /// Declares the options on `app`. The Action keeps what they were parsed into (a shared_ptr to the
  /// options).
  Action (*declare)(CLI::App& app);
};

/// All commands, sorted by name.
[[nodiscard]] std::span<const Command* const> commands();

/// Runs the program: `arguments` without the program's name. Every error becomes one line on `err` and an
/// exit code.
[[nodiscard]] int run(std::span<const std::string> arguments, Console& console);

}  // namespace luminal::cli
