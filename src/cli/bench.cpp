#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "base/fail.h"
#include "base/machine.h"
#include "base/stopwatch.h"
#include "cli/bench_model.h"
#include "cli/bench_request.h"
#include "cli/bench_search.h"
#include "cli/command.h"
#include "cli/compile_mode.h"
#include "cli/search_line.h"
#include "cli/workload.h"
#include "luminal/compile_report.h"
#include "luminal/quantized.h"

namespace luminal::cli {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

struct BenchOptions : WorkloadOptions {
  int samples = 15;
  double sample_ms = 20;
  int64_t classes = 10;  ///< integer inputs name one of so many
  bool json = false, serve = false;
};

/// Numbers that keep every op away from its hard cases; integers name one of `classes`.
void fill(const GraphTensor& input, const DimMap& dims, int64_t classes) {
  std::mt19937 random(7);
  const int64_t count = element_count(input.dims()).exec(dims);  // an error if it does not fit in 64 bits
  const int64_t available = this_machine().available_bytes;
  constexpr int64_t kBytesEach = 2 * sizeof(double);  // as drawn, and as the graph takes it
  if (count > available / 2 / kBytesEach)
    fail<ShapeError>("[bench] an input of {} elements does not fit in {} bytes of memory; use a smaller one",
                     count, available / 2);
  if (is_quantized(input.dtype())) {
    GraphTensor(input).set(random_blocks(input.dtype(), exec(input.dims(), dims), 7));
    return;
  }
  std::vector<double> values(static_cast<size_t>(count));
  const bool whole = !is_float(input.dtype());
  for (double& x : values)
    x = whole ? static_cast<double>(static_cast<int64_t>(random()) %
                                    (input.dtype() == Dtype::Bool ? 2 : classes))
              : std::uniform_real_distribution<double>(-1, 1)(random);
  std::vector<int64_t> sizes = exec(input.dims(), dims);
  GraphTensor handle = input;
  if (whole) {
    handle.set_dyn(std::vector<int64_t>(values.begin(), values.end()), sizes);
  } else {
    handle.set_dyn(values, sizes);
  }
}

/// A workload that is compiled and runs.
class Work {
 public:
  Work(const BenchOptions& options, Console& console) {
    const std::vector<GraphTensor> inputs = build_workload(graph_, options);
    for (const GraphTensor& input : inputs) fill(input, graph_.dims(), options.classes);
    const SearchLine line(console);
    const auto begin = Clock::now();
    compiled_ = std::make_unique<Compiled>(graph_.compile(parse_mode(options.mode)));
    (*compiled_)();
    compile_us_ = 1e6 * seconds_since(begin);
    (*compiled_)();
  }
  /// Time of one run, averaged over about `at_least_us`.
  double sample(double at_least_us) {
    auto begin = Clock::now();
    (*compiled_)();
    const int runs =
        static_cast<int>(std::clamp(at_least_us / std::max(1e6 * seconds_since(begin), 0.1), 1.0, 1e6));
    begin = Clock::now();
    for (int i = 0; i < runs; ++i) (*compiled_)();
    return 1e6 * seconds_since(begin) / runs;
  }
  struct Beside {
    double us = 0, flops_per_us = 0;
  };
  /// A sample in slices with the machine's fma rate between them, both averaged over the same time: the clock
  /// changes within milliseconds with what runs here and beside us.
  Beside sample_beside_peak(double at_least_us) {
    constexpr int kSlices = 5;
    Beside all;
    double rate = fma_rate_now(graph_.device());
    for (int i = 0; i < kSlices; ++i) {
      all.us += sample(at_least_us / kSlices) / kSlices;
      const double after = fma_rate_now(graph_.device());
      all.flops_per_us += (rate + after) / 2 / kSlices;
      rate = after;
    }
    return all;
  }
  [[nodiscard]] double compile_us() const { return compile_us_; }
  [[nodiscard]] std::string report() const { return compiled_->report(); }
  [[nodiscard]] CompileReport details() const { return compiled_->details(); }

 private:
  Graph graph_;
  std::unique_ptr<Compiled> compiled_;
  double compile_us_ = 0;
};

Json limits_answer(const BenchOptions& options) {
  const DeviceLimits limits = device_limits(options.device, true);
  return {{"cpu", limits.cpu},
          {"threads", limits.threads},
          {"flops_per_us", limits.flops_per_us},
          {"memory_bytes_per_us", limits.memory_bytes_per_us},
          {"cache_bytes_per_us", limits.cache_bytes_per_us},
          {"cache_bytes", limits.cache_bytes}};
}

BenchOptions options_of(const BenchRequest& request, BenchOptions options) {
  options.what = request.what, options.mode = request.mode;
  options.gradients = request.grad;
  for (const auto& [dim, size] : request.dims) options.dims.push_back(fmt::format("{}={}", dim, size));
  options.seed = request.seed, options.classes = request.classes;
  return options;
}

Json sample_answer(const BenchRequest& request, Work& work) {
  const double at_least_us = 1e3 * request.ms;
  Json answer{{"compile_us", work.compile_us()}};
  if (request.report) answer["report"] = Json::parse(to_json(work.details()));
  if (request.peak) {
    const Work::Beside beside = work.sample_beside_peak(at_least_us);
    answer["us"] = beside.us, answer["flops_per_us"] = beside.flops_per_us;
  } else {
    answer["us"] = work.sample(at_least_us);
  }
  return answer;
}

/// For programs that compare systems: one JSON object a line in, one out, one sample at a time, so that
/// systems can be timed in turn. {"what": FORMULA, "mode": "optimal", "ms": 50} -> {"us": 12.5, "compile_us":
/// ...}; with "peak": true also "flops_per_us", the machine's fma rate at the same time. "grad": ["x"],
/// "classes": 10, "seed": 1 and "dims": {"batch": 8} are the options of these names (--dim); with "report": true also
/// "report", how the plan came to be.
int serve(const BenchOptions& options, Console& console) {
  BenchRequest usual;
  usual.mode = options.mode, usual.grad = options.gradients;
  usual.seed = options.seed, usual.classes = options.classes, usual.ms = options.sample_ms;
  std::map<std::string, std::unique_ptr<Work>> known;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      const BenchRequest request = parse_bench_request(line, usual);
      if (request.limits) {
        answer = limits_answer(options);
      } else {
        auto& work = known[request.key()];
        if (!work) work = std::make_unique<Work>(options_of(request, options), console);
        answer = sample_answer(request, *work);
      }
      if (request.last) known.clear();
    } catch (const std::exception& error) {  // also what is a fault of ours: the next request is answered
      answer = {{"error", error.what()}};
    }
    // A message may quote bytes of the request that are no UTF-8.
    console.out << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  return kDone;
}

int bench(const BenchOptions& options, Console& console) {
  if (options.serve) return serve(options, console);
  Work work(options, console);
  std::vector<double> samples;
  for (int i = 0; i < options.samples; ++i) samples.push_back(work.sample(options.sample_ms * 1e3));
  const double middle = median(samples), least = *std::ranges::min_element(samples);
  if (options.json) {
    console.out << Json{{"what", options.what}, {"mode", options.mode}, {"median_us", middle},
                        {"min_us", least},      {"samples", samples},   {"compile_us", work.compile_us()}}
                       .dump(1)
                << "\n";
    return kDone;
  }
  console.out << fmt::format(
      "{:.1f} us a run (median of {} samples, least {:.1f}); compiled and first run in {:.1f} ms\n{}\n",
      middle, samples.size(), least, work.compile_us() * 1e-3, work.report());
  return kDone;
}

Action declare_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  declare_workload(app, *options);
  app.add_option("--samples", options->samples, "How many samples")
      ->capture_default_str()
      ->check(CLI::Range(1, 100000));
  app.add_option("--sample-ms", options->sample_ms, "Length of a sample in ms")->capture_default_str();
  app.add_option("--classes", options->classes, "Integer inputs are drawn from 0 to CLASSES - 1")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{INT32_MAX}));
  app.add_flag("--json", options->json, "Print the result as JSON");
  app.add_flag("--serve", options->serve, "Answer requests from standard input, one JSON object a line");
  app.get_option("what")->description(
      "A formula, e.g. 'x:f32[32,1000].softmax(-1)', the name of an example, or a language model: a GGUF "
      "file or a "
      "folder from Hugging Face");
  auto model = std::make_shared<ModelBenchOptions>();
  declare_bench_model(app, *model);
  auto search = std::make_shared<Action>();
  declare_bench_search(app, search.get());
  return [options, model, search, &app](Console& console) {
    if (*search) return (*search)(console);
    if (is_language_model(options->what)) {
      model->model = options->what;
      model->device = options->device;
      if (app.count("--mode") > 0) model->mode = options->mode;
      model->json = options->json;
      return bench_model(*model, console);
    }
    if (options->what.empty() && !options->serve) {
      console.err << app.help("luminal");
      return kUsage;
    }
    return bench(*options, console);
  };
}

}  // namespace

extern const Command kBench;
const Command kBench{"bench", "time a formula, a language model, or searches", declare_bench};

}  // namespace luminal::cli
