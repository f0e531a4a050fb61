#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/fail.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/egg_page.h"
#include "cli/interrupt.h"
#include "luminal/egglog.h"
#include "luminal/error.h"

namespace luminal::cli {
namespace {

struct EggOptions {
  std::vector<std::string> files;
  std::string fact_directory, json_file, html_file;
  bool naive = false, strict = false, proofs = false, prove_checks = false;
  bool profile = false, interactive = false;
  int threads = environment::threads();
  std::optional<double> seconds, megabytes;
  std::optional<uint64_t> nodes;
};

egraph::EgglogOptions engine_options(const EggOptions& options, Console& console) {
  egraph::EgglogOptions out;
  out.fact_directory = options.fact_directory;
  out.seminaive = !options.naive;
  out.strict_globals = options.strict;
  out.proofs = options.proofs;
  out.prove_checks = options.prove_checks;
  out.threads = static_cast<uint32_t>(options.threads);
  if (options.seconds) out.budget.seconds = *options.seconds;
  if (options.nodes) out.budget.nodes = *options.nodes;
  constexpr double kMegabyte = 1e6;
  if (options.megabytes) out.budget.bytes = static_cast<uint64_t>(*options.megabytes * kMegabyte);
  out.on_output = [&console](std::string_view text) { console.out << text << std::flush; };
  return out;
}

// Names may be whole rules: one line, at most this long.
std::string short_name(std::string name) {
  constexpr size_t kWidth = 48;
  std::replace(name.begin(), name.end(), '\n', ' ');
  return name.size() > kWidth ? name.substr(0, kWidth - 3) + "..." : name;
}

void print_profile(const egraph::Report& report, std::ostream& out) {
  std::vector<egraph::RuleReport> rules = report.rules;
  std::sort(rules.begin(), rules.end(), [](const auto& a, const auto& b) {
    const double left = a.search_s + a.apply_s, right = b.search_s + b.apply_s;
    return left != right ? left > right : a.rule < b.rule;
  });
  double rule_s = 0;
  out << fmt::format("{:48} {:>6} {:>12} {:>12} {:>12} {:>10} {:>10}\n", "RULE", "RUNS", "SEARCHED",
                     "MATCHED", "APPLIED", "SEARCH ms", "APPLY ms");
  for (const egraph::RuleReport& rule : rules) {
    out << fmt::format("{:48} {:6} {:12} {:12} {:12} {:10.3f} {:10.3f}\n", short_name(rule.name), rule.runs,
                       rule.searched, rule.matched, rule.applied, rule.search_s * 1e3, rule.apply_s * 1e3);
    rule_s += rule.search_s + rule.apply_s;
  }
  const double known_s = rule_s + report.rebuild_s + report.plan_s;
  out << fmt::format(
      "{} iterations, {} unions, {:.3f} ms in all: rules {:.3f}, rebuild {:.3f}, plans {:.3f} ms; "
      "{:.1f} % attributed\n",
      report.iterations, report.unions, report.total_s * 1e3, rule_s * 1e3, report.rebuild_s * 1e3,
      report.plan_s * 1e3, report.total_s > 0 ? 100 * known_s / report.total_s : 100.0);
}

/// Shows the prompt and waits until there is something to read. False if a signal came first.
bool wait_for_input(const std::function<void()>& prompt) {
  constexpr int kLookMs = 100;  // a signal may come right before the wait begins
  const InterruptGuard guard;
  prompt();
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  while (!interrupted())
    if (::poll(&input, 1, kLookMs) > 0) return true;
  return false;
}

/// While it lives, Ctrl-C does nothing but in an InterruptGuard.
class IgnoredInterrupt {
 public:
  IgnoredInterrupt() : before_(std::signal(SIGINT, SIG_IGN)) {}
  IgnoredInterrupt(const IgnoredInterrupt&) = delete;
  IgnoredInterrupt& operator=(const IgnoredInterrupt&) = delete;
  ~IgnoredInterrupt() { std::signal(SIGINT, before_); }

 private:
  void (*before_)(int);
};

// Reads commands from the standard input as they become complete. At a terminal an error or Ctrl-C ends the command,
// not the session: the one that runs, or what has been typed of the next.
int run_prompt(egraph::EgglogProgram& program, Console& console, bool keep_going) {
  constexpr int kEndedByInterrupt = 128 + SIGINT;
  const bool at_terminal = isatty(STDIN_FILENO) != 0;
  std::string pending, line;
  std::optional<IgnoredInterrupt> between_commands;
  if (at_terminal) between_commands.emplace();
  const auto prompt = [&] { console.out << (pending.empty() ? "> " : "  ") << std::flush; };
  int code = kDone;
  const auto run_pending = [&] {
    const InterruptGuard guard;
    try {
      program.run(pending, "<input>");
    } catch (const std::exception& error) {
      if (!at_terminal && !keep_going) throw;
      console.err << error.what() << '\n';
      code = at_terminal ? kDone : kFailed;
    }
    pending.clear();
  };
  for (;;) {
    if (at_terminal && !wait_for_input(prompt)) {
      pending.clear();
      console.out << '\n';
      if (interrupted_code() == kEndedByInterrupt) continue;
      return interrupted_code();
    }
    if (!std::getline(std::cin, line)) break;
    pending += line + '\n';
    if (!egraph::EgglogProgram::is_incomplete(pending)) run_pending();
  }
  if (!pending.empty()) run_pending();
  if (at_terminal) console.out << '\n';
  return code;
}

int run_programs(egraph::EgglogProgram& program, const EggOptions& options, Console& console) {
  {
    const InterruptGuard guard;
    for (const std::string& file : options.files) program.run_file(file);
  }
  if (!options.interactive && !options.files.empty()) return kDone;
  return run_prompt(program, console, options.interactive);
}

/// The text is whole before the file is made. Errors: Error where there is not enough memory for it.
void write_result(const std::string& file, const egraph::EGraph& graph,
                  const std::function<std::string()>& text) {
  if (file.empty()) return;
  try {
    write_file_atomic(file, text());
  } catch (const std::bad_alloc&) {
    fail(
        "[egg] there is not enough memory to write the e-graph of {} rows into '{}'; free some, or keep the "
        "e-graph smaller with --nodes",
        graph.row_count(), file);
  }
}

/// Where a budget is spent or Ctrl-C ends a program, what it has found so far is written and counted all the same.
int run_egg(const EggOptions& options, Console& console) {
  egraph::EgglogProgram program(engine_options(options, console));
  int code = kDone;
  bool was_interrupted = false;
  try {
    code = run_programs(program, options, console);
  } catch (const egraph::BudgetError& error) {
    was_interrupted = error.reason == egraph::StopReason::Interrupted;
    code = was_interrupted ? interrupted_code() : kFailed;
    console.err << "luminal: " << error.what() << '\n';
  }
  if (options.profile || was_interrupted) print_profile(program.report(), console.err);
  const egraph::EGraph& graph = program.graph();
  write_result(options.json_file, graph, [&] { return graph.to_json(); });
  write_result(options.html_file, graph, [&] { return egraph_page(graph, program.report()); });
  return code;
}

/// CLI's own check lets NaN pass, and numbers for which no counter has room.
CLI::Validator positive_number() {
  return {[](const std::string& text) -> std::string {
            constexpr double kMost = 1e12;
            double value = 0;
            const bool is_number = CLI::detail::lexical_cast(text, value);
            return is_number && value > 0 && value <= kMost
                       ? ""
                       : fmt::format("'{}' is no positive number up to {}", text, kMost);
          },
          "POSITIVE"};
}

Action declare_egg(CLI::App& app) {
  auto options = std::make_shared<EggOptions>();
  app.add_option("files", options->files, "Programs in the egglog language; none: the standard input")
      ->check(CLI::ExistingFile);
  app.add_option("-F,--fact-directory", options->fact_directory,
                 "Folder for the files that input and output name");
  app.add_option("--to-json", options->json_file, "Write the e-graph to this file at the end");
  app.add_option("--html", options->html_file,
                 "Write a page that shows the e-graph and its growth at the end");
  app.add_option("--seconds", options->seconds,
                 "Time budget of each file, or of each command that is typed in")
      ->check(positive_number());
  app.add_option("--nodes", options->nodes, "Row limit of the e-graph")->check(positive_number());
  app.add_option("--megabytes", options->megabytes, "Memory limit of the e-graph")->check(positive_number());
  app.add_option("--threads", options->threads,
                 "Threads (default: LUMINAL_THREADS); the output does not depend on it")
      ->check(CLI::Range(1, 256));
  app.add_flag("--naive", options->naive, "Match the whole database in every iteration");
  app.add_flag("--strict-mode", options->strict, "Globals must start with $");
  app.add_flag("--proofs", options->proofs, "Log explanations, so that prove works");
  app.add_flag("--proof-testing", options->prove_checks, "Prove every check, and verify the proof");
  app.add_flag("--profile", options->profile, "Print what each rule cost");
  app.add_flag("-i,--interactive", options->interactive, "Read further commands from a prompt");
  return [options](Console& console) { return run_egg(*options, console); };
}

}  // namespace

extern const Command kEgg{"egg", "Run a program in the egglog language (equality saturation)", declare_egg};

}  // namespace luminal::cli
