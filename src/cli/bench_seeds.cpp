#include "cli/bench_seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "base/bounded_json.h"
#include "base/cancel.h"
#include "base/fail.h"
#include "base/file.h"
#include "cli/search_process.h"

// Whether searches agree: one that depends on the moment is no better than a guess.
namespace luminal::cli {
namespace {

using Json = nlohmann::json;

/// One search, whose plan stays in its process and runs when it is asked to.
class SeededSearch {
 public:
  SeededSearch(const WorkloadOptions& options, const std::string& name, uint64_t seed)
      : process_(arguments(options), folder_.path(), SearchProcess::Talks::Yes), request_{{"what", name}} {
    request_["seed"] = seed;
    request_["mode"] = options.mode;
    std::map<std::string, int64_t> dims;
    for (const std::string& entry : options.dims)
      dims[entry.substr(0, entry.find('='))] = std::stoll(entry.substr(entry.find('=') + 1));
    request_["dims"] = dims;
    Json first = request_;
    first["report"] = true, first["ms"] = 0;
    report_ = ask(first);
  }
  [[nodiscard]] const Json& report() const { return report_; }
  double sample_us(double ms) {
    request_["ms"] = ms;
    return ask(request_).at("us");
  }

 private:
  static std::vector<std::string> arguments(const WorkloadOptions& options) {
    std::vector<std::string> words{"bench", "--serve", "--math", options.math};
    if (!options.device.empty()) words.insert(words.end(), {"--device", options.device});
    if (!options.rules.empty()) words.insert(words.end(), {"--rules", options.rules});
    for (const std::string& rule : options.rules_off) words.insert(words.end(), {"--without-rule", rule});
    return words;
  }
  Json ask(const Json& request) {
    const auto answer = process_.ask(request.dump());
    throw_if_cancelled();
    if (!answer)
      fail("[bench] the search of '{}' ended before it answered", request_.at("what").get<std::string>());
    Json parsed = parse_bounded_json(*answer, "bench");
    if (parsed.contains("error")) fail("{}", parsed.at("error").get<std::string>());
    return parsed;
  }

  CacheFolder folder_;
  SearchProcess process_;
  Json request_, report_;
};

/// Kernels of all seeds whose fastest candidate was the model's first, or among its first three.
struct Hits {
  int specs = 0, first = 0, first_three = 0;
};

std::string key_of(const SeededSearch& search) { return search.report().at("report").at("plan_key"); }

Json seeds_of(const WorkloadOptions& options, const SeedBench& bench, const std::string& name,
              Console& console) {
  constexpr int kRounds = 60;
  constexpr double kSampleMs = 5;
  std::vector<std::unique_ptr<SeededSearch>> searches;
  for (int seed = 0; seed < bench.seeds; ++seed) {
    searches.push_back(std::make_unique<SeededSearch>(options, name, static_cast<uint64_t>(seed)));
    const Json& found = searches.back()->report().at("report");
    console.out << fmt::format("{} seed {}: searched in {:.1f} s, {} candidates timed, plan {}\n", name, seed,
                               found.at("total_s").get<double>(), found.at("timed").get<int>(),
                               found.at("plan_key").get<std::string>())
                << std::flush;
  }
  // In turn, and the least of each plan: other programs only ever add time, and plans of one key are the same code.
  std::vector<double> least(searches.size(), std::numeric_limits<double>::infinity());
  for (int round = 0; round < kRounds; ++round)
    for (size_t i = 0; i < searches.size(); ++i)
      least[i] = std::min(least[i], searches[i]->sample_us(kSampleMs));
  std::map<std::string, int> plans;
  std::map<std::string, double> least_of;
  Hits hits;
  double longest_s = 0;
  for (const auto& search : searches) {
    const Json& found = search->report().at("report");
    ++plans[key_of(*search)];
    hits.specs += found.at("model_hits").at("specs").get<int>();
    hits.first += found.at("model_hits").at("first").get<int>();
    hits.first_three += found.at("model_hits").at("first_three").get<int>();
    longest_s = std::max(longest_s, found.at("total_s").get<double>());
  }
  for (size_t i = 0; i < least.size(); ++i) {
    double& us = least_of.try_emplace(key_of(*searches[i]), least[i]).first->second;
    us = std::min(us, least[i]);
  }
  for (size_t i = 0; i < least.size(); ++i) least[i] = least_of.at(key_of(*searches[i]));
  const auto [fastest, slowest] = std::ranges::minmax(least);
  const int most_equal =
      std::ranges::max_element(plans, {}, &std::pair<const std::string, int>::second)->second;
  return {{"name", name},
          {"us", least},
          {"spread", slowest / fastest},
          {"plans", plans.size()},
          {"most_equal", most_equal},
          {"specs", hits.specs},
          {"first", hits.first},
          {"first_three", hits.first_three},
          {"longest_s", longest_s}};
}

std::string text_of(const Json& all) {
  std::string text = fmt::format("{} us a run:", all.at("name").get<std::string>());
  for (const double us : all.at("us")) text += fmt::format(" {:.1f}", us);
  return text + fmt::format(
                    "\n  the slowest takes {:.3f} times as long as the fastest; {} different plans, {} of {} "
                    "are the "
                    "same\n  the fastest candidate was the model's first for {} of {} kernels, one of its "
                    "first three "
                    "for {}\n",
                    all.at("spread").get<double>(), all.at("plans").get<int>(),
                    all.at("most_equal").get<int>(), all.at("us").size(), all.at("first").get<int>(),
                    all.at("specs").get<int>(), all.at("first_three").get<int>());
}

}  // namespace

int bench_seeds(const WorkloadOptions& search, const SeedBench& bench, Console& console) {
  if (bench.names.empty()) fail("[bench] --seeds needs the names of workloads, such as 'gpt-step'");
  Json all = Json::array();
  for (const std::string& name : bench.names) {
    all.push_back(seeds_of(search, bench, name, console));
    console.out << text_of(all.back()) << std::flush;
  }
  if (!bench.json_file.empty()) write_file_atomic(bench.json_file, all.dump(1) + "\n");
  return kDone;
}

}  // namespace luminal::cli
