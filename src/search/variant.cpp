#include "search/variant.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "kernel/print_body.h"
#include "runtime/machine.h"
#include "runtime/profiler.h"

namespace luminal::search {
namespace {

std::string name_of(const CompilationMode& mode) {
  if (std::holds_alternative<Fast>(mode)) return "fast";
  if (const auto* budget = std::get_if<TimeBudget>(&mode))
    return fmt::format("budget {} ms", budget->duration.count());
  return "optimal";
}

/// What the family says of a kernel that was remembered; 0 if it no longer offers it.
double predicted_us(const kernel::KernelSpec& spec, const PlanFacts::Kernel& kernel,
                    const backends::Device& backend) {
  const auto candidates = kernel.implementation.schedule->candidates(spec, kernel.bucket, backend.target());
  const auto found =
      std::ranges::find(candidates, kernel.implementation.parameters, &codegen::Candidate::parameters);
  return found == candidates.end() ? 0 : found->predicted_us;
}

/// A plan and how it came to be: that of the graph, or of a loop's body.
struct PlanOrigin {
  const BackEndResult& compiled;
  const runtime::Plan& plan;
};

/// What a plan's tensor is: an input by its name, what a launch made by the name of that.
std::string name_of(const PlanOrigin& made, runtime::TensorIndex tensor) {
  const runtime::Plan& plan = made.plan;
  const runtime::PlanTensor& content = plan.tensors[static_cast<size_t>(tensor)];
  const std::string type = fmt::format("{}{}", name(content.dtype), to_string(content.dims));
  if (content.role == runtime::PlanTensor::Role::Constant) return "constant " + type;
  for (const runtime::Launch& launch : plan.launches) {
    if (std::ranges::find(launch.outputs(), tensor) != launch.outputs().end())
      return fmt::format("{} of {}", type, launch.name);
  }
  const auto named = content.value ? made.compiled.front_end->names.find(*content.value)
                                   : made.compiled.front_end->names.end();
  if (named != made.compiled.front_end->names.end() && !named->second.empty())
    return fmt::format("{} {}", named->second, type);
  return "input " + type;
}

/// The letters that a spec prints for its slots (kernel/print.cpp), and what the kernel's first launch reads
/// there.
std::string reads_text(const PlanOrigin& made, const PlanFacts::Kernel& kernel) {
  const runtime::Launch& launch = made.plan.launches[kernel.first_launch];
  std::string text;
  for (size_t slot = 0; slot < launch.kernel->inputs.size(); ++slot)
    text += fmt::format("{}{} = {}", slot == 0 ? "  where " : ", ", kernel::slot_name(slot),
                        name_of(made, launch.kernel->inputs[slot]));
  return text.empty() ? text : text + "\n";
}

/// What the model ranked behind a kernel that it took, best first.
std::vector<KernelReport::Rejected> behind(const kernel::KernelSpec& spec, const PlanFacts::Kernel& kernel,
                                           const backends::Device& backend) {
  constexpr size_t kMost = 5;
  std::vector<KernelReport::Rejected> list;
  for (const codegen::Schedule* schedule : codegen::schedules()) {
    if (schedule->foreign) continue;
    for (const codegen::Candidate& other : schedule->candidates(spec, kernel.bucket, backend.target()))
      if (schedule != kernel.implementation.schedule || other.parameters != kernel.implementation.parameters)
        list.push_back({std::string(schedule->name), codegen::to_string(other.parameters),
                        "slower by the model", other.predicted_us});
  }
  std::ranges::stable_sort(list, {}, &KernelReport::Rejected::predicted_us);
  if (list.size() > kMost) list.resize(kMost);
  return list;
}

KernelReport report_of(const PlanOrigin& made, const PlanFacts::Kernel& kernel,
                       const std::shared_ptr<backends::Device>& backend) {
  const runtime::Launch& launch = made.plan.launches[kernel.first_launch];
  const kernel::KernelSpec spec = made.compiled.front_end->store->at(kernel.spec);
  KernelReport report{
      .name = launch.name, .origin = launch.origin, .spec = spec.to_string() + reads_text(made, kernel)};
  report.schedule = kernel.implementation.schedule->name;
  report.parameters = codegen::to_string(kernel.implementation.parameters);
  report.launches = kernel.launches;
  report.predicted_us = launch.predicted_us > 0 ? launch.predicted_us : predicted_us(spec, kernel, *backend);
  report.measured_us = launch.measured_us;
  report.flops = launch.flops;
  report.bytes = launch.bytes;
  report.roofline_us = kernel::roofline_us(launch.flops, launch.bytes, runtime::machine_limits(*backend));
  if (const auto tuned = made.compiled.tuned.find(kernel.spec); tuned != made.compiled.tuned.end()) {
    report.verified = tuned->second.verified;
    report.from_cache = tuned->second.from_cache;
    for (size_t i = 1; i < tuned->second.tried.size(); ++i) {
      const Tried& t = tuned->second.tried[i];
      report.rejected.push_back(
          {t.schedule, codegen::to_string(t.parameters), t.rejected, t.predicted_us, t.measured_us});
    }
  } else if (made.compiled.tuned.empty()) {
    report.rejected = behind(spec, kernel, *backend);
  }
  const auto program = [spec, implementation = kernel.implementation, bucket = kernel.bucket, backend] {
    return implementation.schedule->lower(spec, implementation.parameters, bucket, backend->target());
  };
  report.loops = [program] { return program().to_string(); };
  report.source = [program, backend] { return backend->source(program()); };
  report.assembly = [program, backend] { return backend->assembly(program()); };
  return report;
}

std::vector<CompileReport::UserKernel> user_kernels_of(const PlanOrigin& made) {
  std::vector<CompileReport::UserKernel> list;
  for (const auto& [spec, tuned] : made.compiled.tuned) {
    double generated_us = 0;
    for (const Tried& t : tuned.tried)
      if (!codegen::find_schedule(t.schedule).foreign && t.measured_us > 0 &&
          (generated_us == 0 || t.measured_us < generated_us))
        generated_us = t.measured_us;
    const bool in_plan = std::ranges::find(made.compiled.facts.list, spec, &PlanFacts::Kernel::spec) !=
                         made.compiled.facts.list.end();
    for (const Tried& t : tuned.tried) {
      if (!codegen::find_schedule(t.schedule).foreign) continue;
      const bool won = t.schedule == tuned.schedule && t.parameters == tuned.parameters;
      list.push_back({.name = t.schedule,
                      .parameters = codegen::to_string(t.parameters),
                      .spec = made.compiled.front_end->store->at(spec).to_string(),
                      .outcome = !won      ? t.rejected
                                 : in_plan ? "taken"
                                           : "faster, but not part of the best plan",
                      .measured_us = tuned.from_cache ? tuned.measured_us : t.measured_us,
                      .generated_us = generated_us});
    }
  }
  return list;
}

void count_model_hits(const BackEndResult& compiled, CompileReport::ModelHits& hits) {
  for (const auto& [spec, tuned] : compiled.tuned) {
    std::vector<const Tried*> timed;
    for (const Tried& t : tuned.tried)
      if (t.measured_us > 0 && !codegen::find_schedule(t.schedule).foreign) timed.push_back(&t);
    if (timed.size() < 2) continue;
    const auto* const fastest = *std::ranges::min_element(timed, {}, &Tried::measured_us);
    const auto before = std::ranges::count_if(
        timed, [&](const Tried* other) { return other->predicted_us < fastest->predicted_us; });
    hits.specs += 1;
    hits.first += before == 0 ? 1 : 0;
    hits.first_three += before < 3 ? 1 : 0;
  }
  for (const CompiledLoop& loop : compiled.loops) count_model_hits(loop.body, hits);
}

/// The kernels of a plan that runs so many times, and those of its loops. The launches of each are counted.
void add_kernels(CompileReport& report, const PlanOrigin& made, int64_t times,
                 const std::shared_ptr<backends::Device>& backend) {
  for (const PlanFacts::Kernel& kernel : made.compiled.facts.list) {
    report.kernels.push_back(report_of(made, kernel, backend));
    report.kernels.back().launches = static_cast<int>(
        std::min<int64_t>(report.kernels.back().launches * times, std::numeric_limits<int>::max()));
  }
  for (const CompiledLoop& loop : made.compiled.loops) {
    int64_t steps = 0;
    for (const runtime::Launch& launch : made.plan.launches)
      if (launch.loop && launch.loop->body == loop.plan)
        steps += launch.loop->length.exec(made.plan.bucket.top());
    add_kernels(report, {loop.body, *loop.plan}, times * steps, backend);
  }
}

}  // namespace

CompileReport report_of(const Variant& v, const BackEnd& target, const CompilationMode& mode) {
  const FrontEnd& f = *v.compiled.front_end;
  const runtime::Plan& plan = v.executor->plan();
  const PlanOrigin made{v.compiled, plan};
  CompileReport report{.mode = name_of(mode), .device = target.device, .total_s = v.compiled.total_ms * 1e-3};
  const double of_front_end = v.compiled.has_own_front_end ? 1e-3 : 0;
  report.phases = {{"encode", f.encode_ms * of_front_end},
                   {"saturate", f.saturate_ms * of_front_end},
                   {"cover", v.compiled.cover_ms * 1e-3},
                   {"compile", v.compiled.facts.compile_ms * 1e-3 + v.compiled.tuning.compile_s},
                   {"measure", v.compiled.tuning.measure_s},
                   {"verify", v.compiled.tuning.verify_s},
                   {"plan", v.compiled.plan_ms * 1e-3}};
  report.rules = f.rules;
  report.rounds = static_cast<int>(f.rounds);
  report.tensors = f.kernel_graph.tensors.size();
  report.classes = f.saturated.cover.classes.size();
  report.rows = f.rows_after;
  report.growth = f.growth;
  for (const int count : v.compiled.cover.fusion_counts) {
    report.fusions += static_cast<uint64_t>(count);
    report.most_fusions = std::max<uint64_t>(report.most_fusions, static_cast<uint64_t>(count));
  }
  report.unfused_us = v.compiled.cover.unfused_us;
  report.search = v.compiled.rounds;
  report.user_kernels = user_kernels_of(made);
  count_model_hits(v.compiled, report.model_hits);
  report.predicted_us = v.compiled.cover.cost_us;
  report.compiled = v.compiled.facts.compiled_kernels + v.compiled.tuning.compiled;
  report.timed = v.compiled.tuning.timed;
  report.compared = v.compiled.tuning.compared;
  report.proven = v.compiled.tuning.proven;
  report.measured_us = v.compiled.plan_us;
  report.fast_us = v.compiled.fast_us;
  report.note = v.compiled.note;
  for (const DimMap& sizes : v.compiled.timed_at) {
    std::vector<std::string> parts;
    for (const auto& [dim, size] : sizes) parts.push_back(fmt::format("{} {}", dim, size));
    report.timed_at.push_back(fmt::format("{}", fmt::join(parts, ", ")));
  }
  report.plan_key = plan.key;
  const runtime::MemoryUse memory = v.executor->memory(plan.bucket.top());
  report.arena_bytes = memory.arena_bytes;
  report.kept_bytes = memory.kept_bytes;
  for (const runtime::Launch& launch : plan.launches)
    if (launch.host)
      report.host_launches.push_back(launch.name);
    else if (launch.loop)
      report.predicted_us += launch.predicted_us;
  report.ops_outside_plan = v.compiled.facts.host_ops;
  std::set<NodeId> nodes;
  for (const KernelGraph::Tensor& tensor : f.kernel_graph.tensors)
    nodes.insert(tensor.covers.begin(), tensor.covers.end());
  report.graph_nodes = nodes.size() + f.kernel_graph.hosts.size();
  add_kernels(report, made, 1, target.backend);
  std::ranges::stable_sort(report.kernels, std::greater<>(),
                           [](const KernelReport& k) { return k.launches * k.time_us(); });
  return report;
}

}  // namespace luminal::search
