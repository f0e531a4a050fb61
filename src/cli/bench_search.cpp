#include "cli/bench_search.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bounded_json.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/fork.h"
#include "base/stopwatch.h"
#include "cli/bench_seeds.h"
#include "cli/compile_mode.h"
#include "cli/examples.h"
#include "cli/interrupt.h"
#include "cli/search_line.h"
#include "cli/search_process.h"
#include "cli/workload.h"
#include "luminal/compile_report.h"

// How long searches take: each workload is compiled in a process of its own with an empty cache, so that neither
// this process nor the cache knows anything of it.
namespace luminal::cli {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

struct SearchBenchOptions : WorkloadOptions {
  std::vector<std::string> names;
  bool warm = false;
  double limit_s = 600;
  std::string json_file, one;
  int seeds = 0;
};

/// What all threads and ended children of this process have used.
double used_cpu_s() {
  double sum = 0;
  for (const auto who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    ::getrusage(who, &used);
    for (const timeval& time : {used.ru_utime, used.ru_stime})
      sum += static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  }
  return sum;
}

/// Compiles one workload in this process and writes the figures into `options.one`; without a workload, only
/// measures the machine: that is done once for a kind of machine and not for each graph.
int measure_one(const SearchBenchOptions& options, Console& console) {
  die_with_parent(::getppid());
  if (options.names.empty()) {
    (void)device_limits(options.device);
    return kDone;
  }
  Graph graph;
  auto begin = Clock::now();
  WorkloadOptions workload = options;
  workload.what = options.names.at(0);
  (void)build_workload(graph, workload);
  const double build_s = seconds_since(begin);
  const SearchLine line(console);
  const double cpu_before_s = used_cpu_s();
  begin = Clock::now();
  const Compiled compiled = graph.compile(parse_mode(options.mode));
  const double compile_s = seconds_since(begin), cpu_s = used_cpu_s() - cpu_before_s;
  rusage own{}, children{};  // candidates run in processes of their own
  ::getrusage(RUSAGE_SELF, &own);
  ::getrusage(RUSAGE_CHILDREN, &children);
  Json figures = Json::parse(to_json(compiled.details()));
  figures["name"] = workload.what;
  figures["build_s"] = build_s;
  figures["compile_s"] = compile_s;
  figures["cpu_s"] = cpu_s;
  figures["peak_bytes"] = int64_t{1024} * std::max(own.ru_maxrss, children.ru_maxrss);
  write_file_atomic(options.one, figures.dump(1));
  return kDone;
}

/// `name` "": only the machine is measured.
std::vector<std::string> command_for(const SearchBenchOptions& options, const std::string& name,
                                     const std::filesystem::path& result) {
  std::vector<std::string> words{"bench", "search"};
  if (!name.empty()) words.push_back(name);
  words.insert(words.end(), {"--mode", options.mode, "--math", options.math, "--one", result.string()});
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--device", options.device);
  add("--rules", options.rules);
  if (options.seed != 0) add("--seed", std::to_string(options.seed));
  for (const std::string& dim : options.dims) add("--dim", dim);
  for (const std::string& rule : options.rules_off) add("--without-rule", rule);
  return words;
}

/// Figures of one workload, searched for in a new process; if `warm`, with those of a second search, which finds what
/// the first left in the cache, as "warm".
Json searched(const SearchBenchOptions& options, const std::string& name) {
  const CacheFolder folder;
  const std::filesystem::path result = folder.path() / "figures.json";
  std::vector<std::string> runs{"", name};
  if (options.warm) runs.push_back(name);
  std::vector<Json> found;
  for (const std::string& run : runs) {
    SearchProcess process(command_for(options, run, result), folder.path() / "cache");
    const std::optional<int> code = process.ends_within(options.limit_s);
    if (code == kDone && (!interrupted() || !run.empty())) {
      if (!run.empty())
        found.push_back(parse_bounded_json(read_file(result.string(), size_t{1} << 30), "bench"));
      continue;
    }
    if (interrupted()) return {{"name", name}, {"error", "interrupted"}};
    return {{"name", name},
            {"error", code ? std::string("failed, as said above")
                           : fmt::format("stopped after {} s", options.limit_s)}};
  }
  if (options.warm) found[0]["warm"] = std::move(found[1]);
  return std::move(found[0]);
}

constexpr std::array kPhases{"encode", "saturate", "cover", "compile", "measure", "verify", "plan"};

std::string heading() {
  std::string text = fmt::format("{:<16} {:>8} {:>8} {:>8}", "seconds", "build", "cpu", "total");
  for (const char* phase : kPhases) text += fmt::format(" {:>8}", phase);
  return text + fmt::format(" {:>6} {:>6} {:>7} {:>8} {:>8} {:>6} {:>9} {:>8}\n", "nodes", "rows", "kernels",
                            "distinct", "compiled", "timed", "compared", "peak MB");
}

std::string line_of(const Json& figures, const std::string& name) {
  std::string text = fmt::format("{:<16}", name);
  if (figures.contains("error")) return fmt::format("{} {}\n", text, figures.at("error").get<std::string>());
  for (const char* time : {"build_s", "cpu_s", "compile_s"})
    text += fmt::format(" {:>8.3f}", figures.at(time).get<double>());
  for (const char* phase : kPhases)
    text += fmt::format(" {:>8.3f}", figures.at("phases_s").at(phase).get<double>());
  int64_t launches = 0;
  for (const Json& kernel : figures.at("kernels")) launches += kernel.at("launches").get<int64_t>();
  text += fmt::format(" {:>6} {:>6} {:>7} {:>8}", figures.at("graph_nodes").get<int64_t>(),
                      figures.at("rows").get<int64_t>(), launches, figures.at("kernels").size());
  text += fmt::format(" {:>8} {:>6} {:>9} {:>8.0f}\n", figures.at("compiled").get<int64_t>(),
                      figures.at("timed").get<int64_t>(), figures.at("compared").get<int64_t>(),
                      figures.at("peak_bytes").get<double>() / 1e6);
  if (const std::string note = figures.at("note"); !note.empty()) text += fmt::format("  {}\n", note);
  if (figures.contains("warm")) text += line_of(figures.at("warm"), "  once more");
  return text;
}

int bench_search(SearchBenchOptions& options, Console& console) {
  if (!options.one.empty()) return measure_one(options, console);
  (void)parse_mode(options.mode);
  const InterruptGuard guard;
  if (options.seeds > 0)
    return bench_seeds(
        options, {.names = options.names, .seeds = options.seeds, .json_file = options.json_file}, console);
  if (options.names.empty())
    for (const Example& example : examples())
      if (example.is_network) options.names.emplace_back(example.name);
  console.out << heading() << std::flush;
  Json all = Json::array();
  bool complete = true;
  for (const std::string& name : options.names) {
    if (interrupted()) break;
    all.push_back(searched(options, name));
    complete = complete && !all.back().contains("error");
    console.out << line_of(all.back(), name) << std::flush;
  }
  if (!options.json_file.empty()) write_file_atomic(options.json_file, all.dump(1) + "\n");
  if (interrupted()) return interrupted_code();
  return complete ? kDone : kFailed;
}

}  // namespace

void declare_bench_search(CLI::App& bench, Action* chosen) {
  CLI::App* command =
      bench.add_subcommand("search", "Time searches: each workload anew, with an empty cache");
  auto options = std::make_shared<SearchBenchOptions>();
  options->mode = "fast";
  command->add_option("names", options->names, "Examples or formulas; all networks if none is named");
  declare_search(*command, *options);
  command->add_flag("--warm", options->warm, "Search once more with the cache of the first, and show both");
  command->add_option("--limit", options->limit_s, "Seconds after which a search is given up")
      ->capture_default_str();
  command
      ->add_option("--seeds", options->seeds,
                   "Search as often, with other numbers to time on, and show how far the plans are apart")
      ->check(CLI::Range(2, 64));
  command->add_option("--json", options->json_file, "Write all figures into this file as JSON");
  command->add_option("--one", options->one, "Search in this process and write the figures into this file")
      ->group("");
  command->callback([options, chosen] {
    *chosen = [options](Console& console) { return bench_search(*options, console); };
  });
}

}  // namespace luminal::cli
