#include "search/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/log.h"
#include "base/reason.h"
#include "graph/graph_state.h"
#include "luminal/compile_report.h"
#include "runtime/device_tensor.h"
#include "runtime/executor.h"
#include "runtime/prepared_weights.h"
#include "runtime/profiler.h"
#include "search/blame.h"
#include "search/cache/kernel_cache.h"
#include "search/compile_log.h"
#include "search/pipeline.h"
#include "search/tuning/example_inputs.h"
#include "search/variant.h"
#include "search/watch.h"

namespace luminal::search {
namespace {

constexpr size_t kMostVariants = 8;

/// A compiled graph: front ends for its versions, and a plan for each bucket of sizes, made on first use.
class SearchExecutable : public Executable, public Explained {
 public:
  SearchExecutable(std::shared_ptr<const BackEnd> target, CompilationMode mode, SearchOptions options)
      : target_(std::move(target)), mode_(mode), options_(std::move(options)) {}

  /// Makes the plan for the sizes in force, if all are known.
  void prepare(Graph& graph) {
    const Watch watch(mode_);
    check_examples(graph, options_);
    const FrontEndOf& key = front_end_of(graph, false);
    missing_.clear();
    for (const auto& [dim, facts] : key.front_end->dims)
      if (!graph.dims().contains(dim)) missing_.push_back(dim);
    if (missing_.empty()) note_sizes(graph.dims());
    if (missing_.empty()) (void)variant_for(graph, false);
  }

  void run(Graph& graph, const Options& options) override {
    ran_ = nullptr;
    const Watch watch(mode_);
    note_sizes(graph.dims());
    Variant& variant = variant_for(graph, options.keep_everything);
    if (options.check_finite && target_->backend->computes())
      variant.finite_launches.run(graph, *variant.executor, options.trace);
    else
      variant.executor->run(graph, options.trace);
    ran_ = &variant.identity;
  }
  [[nodiscard]] const PlanIdentity* plan() const override { return ran_; }

  [[nodiscard]] CompileReport details() const override {
    if (variants_.empty())
      fail(
          "[compile] nothing is compiled yet: the size of '{}' is not known; give it with set_dim (on the "
          "command line: --dim {}=SIZE)",
          fmt::join(missing_, "', '"), fmt::join(missing_, "=SIZE --dim "));
    CompileReport report = report_of(variants_.front(), *target_, mode_);
    report.laws_left_out = laws_left_out_;
    return report;
  }

  [[nodiscard]] std::string report() const override {
    if (variants_.empty()) return fmt::format("{}: not compiled until sizes are known", target_->device);
    const BackEndResult& c = variants_.front().compiled;
    const FrontEnd& f = *c.front_end;
    const runtime::Plan& plan = variants_.front().executor->plan();
    std::string text = fmt::format(
        "{}: {} kernels ({} distinct, {} compiled now), predicted {:.1f} us\nops_outside_plan: {}\n"
        "encode: {:.3f} ms, {} tensors\nsaturate: {:.3f} ms, {} rounds, {} -> {} rows\ncover: {:.3f} ms\n"
        "choose: {:.3f} ms\ncompile: {:.3f} ms",
        target_->device, c.facts.kernels, c.facts.distinct_kernels, c.facts.compiled_kernels, c.cost_us,
        c.facts.host_ops, f.encode_ms, f.kernel_graph.tensors.size(), f.saturate_ms, f.rounds, f.rows_before,
        f.rows_after, c.cover_ms, c.facts.choose_ms, c.facts.compile_ms);
    if (const auto loops =
            std::ranges::count_if(plan.launches, [](const auto& l) { return l.loop.has_value(); });
        loops > 0)
      text +=
          fmt::format("\nloops: {} of {} {}", loops, c.loops.size(), c.loops.size() == 1 ? "body" : "bodies");
    if (!laws_left_out_.empty()) text += fmt::format("\nlaws left out: {}", fmt::join(laws_left_out_, ", "));
    if (const std::string bucket = to_string(plan.bucket); !bucket.empty())
      text += fmt::format("\nbucket: {}", bucket);
    return text + fmt::format("\nplan: {:016x}", plan.key);
  }

 private:
  /// The front end of one version of the graph, with the values that are there and those that are wanted.
  struct FrontEndOf {
    uint64_t version = 0, presence = 0;
    bool everything = false;
    std::shared_ptr<const FrontEnd> front_end;
  };

  const FrontEndOf& front_end_of(const Graph& graph, bool everything) {
    const uint64_t version = graph.version(), presence = graph.state()->presence;
    for (const FrontEndOf& known : front_ends_)
      if (known.version == version && known.presence == presence && known.everything == everything)
        return known;
    std::shared_ptr<const FrontEnd> made;
    while (!made) try {
        made = std::make_shared<const FrontEnd>(run_front_end(graph, everything, options_));
      } catch (const LawFault& fault) {
        leave_out(find_impossible_laws(graph, everything, options_), reason_of(fault));
      }
    // An older version never comes back.
    std::erase_if(front_ends_, [&](const FrontEndOf& old) {
      return old.version != version || front_ends_.size() >= kMostVariants;
    });
    std::erase_if(variants_, [&](const Variant& old) { return old.version != version; });
    return front_ends_.emplace_back(FrontEndOf{version, presence, everything, std::move(made)});
  }

  /// The last sizes first.
  void note_sizes(const DimMap& sizes) {
    constexpr size_t kMostSizes = 64;
    std::vector<DimMap>& seen = earlier_.sizes;
    if (sizes.empty() || std::holds_alternative<Fast>(mode_) || (!seen.empty() && seen.front() == sizes))
      return;
    const auto known = std::ranges::find(seen, sizes);
    if (known == seen.end() && seen.size() == kMostSizes) seen.pop_back();
    if (known != seen.end())
      std::rotate(seen.begin(), known, known + 1);
    else
      seen.insert(seen.begin(), sizes);
  }

  Variant& variant_for(Graph& graph, bool everything) {
    const std::shared_ptr<const FrontEnd> front_end = front_end_of(graph, everything).front_end;
    const auto found = std::ranges::find_if(variants_, [&](const Variant& v) {
      return v.compiled.front_end == front_end && holds(v.executor->plan().bucket, graph.dims());
    });
    if (found != variants_.end()) {
      variants_.splice(variants_.begin(), variants_, found);  // most recently used first
      return variants_.front();
    }
    std::shared_ptr<const FrontEnd> tried = front_end;
    while (!tried_variant(graph, everything, tried)) tried = front_end_of(graph, everything).front_end;
    return variants_.front();
  }

  /// False if laws turned out to be wrong: they are left out from now on, and the graph is to be compiled
  /// once more.
  bool tried_variant(Graph& graph, bool everything, const std::shared_ptr<const FrontEnd>& front_end) {
    try {
      add_variant(graph, front_end);
      return true;
    } catch (const LawFault& wrong) {
      const codegen::Bucket bucket = admitted(graph, bucket_of(front_end->dims, graph.dims()), graph.dims());
      leave_out(find_wrong_laws(graph, everything, options_, *front_end, wrong.classes, *target_, bucket),
                reason_of(wrong));
      return false;
    }
  }

  /// Errors: InternalError if nobody is to blame.
  void leave_out(const Blame& blame, std::string_view why) {
    if (blame.laws.empty()) throw InternalError(fmt::format("{}; no law was used for it", why));
    log_line(fmt::format("{}; compiling the graph again without '{}'{}", why, fmt::join(blame.laws, "', '"),
                         blame.value.empty() ? "" : ", by which " + blame.value + " is wrong"));
    options_.rules_off.insert(blame.laws.begin(), blame.laws.end());
    laws_left_out_.insert(laws_left_out_.end(), blame.laws.begin(), blame.laws.end());
    front_ends_.clear();
    variants_.clear();
  }

  void add_variant(const Graph& graph, const std::shared_ptr<const FrontEnd>& front_end) {
    const codegen::Bucket bucket = admitted(graph, bucket_of(front_end->dims, graph.dims()), graph.dims());
    if (!variants_.empty())
      debug(1, "{}: recompiling because {}", target_->device,
            variants_.front().compiled.front_end == front_end
                ? fmt::format("sizes left the bucket: {} now, {} before", to_string(bucket),
                              to_string(variants_.front().executor->plan().bucket))
                : std::string("the wanted or given values changed"));
    Variant variant{.version = graph.version(),
                    .compiled = run_back_end(graph, front_end, *target_, bucket, mode_, options_, earlier_)};
    const auto has_front_end = [&](const Variant& v) { return v.compiled.front_end == front_end; };
    if (std::ranges::any_of(variants_, has_front_end)) {
      variant.compiled.has_own_front_end = false;
      variant.compiled.total_ms -= front_end->encode_ms + front_end->saturate_ms;
    }
    variant.identity = {to_string(bucket), variant.compiled.plan.key};
    variant.executor = std::make_unique<runtime::Executor>(target_->backend, std::move(variant.compiled.plan),
                                                           arena_, prepared_);
    if (variants_.size() == kMostVariants) variants_.pop_back();
    variants_.push_front(std::move(variant));
    if (is_logged())
      log_compile(
          {details(), graph, front_end->saturated, *front_end->store, variants_.front().executor->plan()});
  }

  std::shared_ptr<const BackEnd> target_;
  CompilationMode mode_;
  SearchOptions options_;  ///< the graph's, without laws that were found wrong
  std::vector<std::string> laws_left_out_;
  Earlier earlier_;
  std::vector<std::string> missing_;   ///< dims whose sizes were not known when it was compiled
  const PlanIdentity* ran_ = nullptr;  ///< of the variant that ran last: it lives as long as that is the case
  std::vector<FrontEndOf> front_ends_;
  /// Of all variants: they take turns, and what outlives a run is the graph's.
  std::shared_ptr<backends::Buffer> arena_ = std::make_shared<backends::Buffer>(*target_->backend);
  std::shared_ptr<runtime::PreparedWeights> prepared_ =
      std::make_shared<runtime::PreparedWeights>(*target_->backend);
  std::list<Variant> variants_;
};

class SearchSession : public Session {
 public:
  explicit SearchSession(BackEnd target) : target_(std::make_shared<const BackEnd>(std::move(target))) {}
  [[nodiscard]] std::string_view device() const override { return target_->device; }
  [[nodiscard]] std::unique_ptr<Executable> compile(Graph& graph, const CompilationMode& mode) override {
    auto executable = std::make_unique<SearchExecutable>(target_, mode, graph.search());
    executable->prepare(graph);
    return executable;
  }
  [[nodiscard]] std::shared_ptr<const DeviceValue> to_device(const TensorData& data) override {
    if (target_->backend->shares_host_memory()) return nullptr;
    return runtime::to_device(target_->backend, data);
  }

 private:
  std::shared_ptr<const BackEnd> target_;
};

}  // namespace

std::shared_ptr<Session> make_session(BackEnd target) {
  return std::make_shared<SearchSession>(std::move(target));
}

void register_device(const std::string& name, std::function<std::shared_ptr<backends::Device>()> make) {
  backends::register_device(name, std::move(make));
  register_session(name,
                   [name] { return make_session({.device = name, .backend = backends::find_device(name)}); });
}

}  // namespace luminal::search
