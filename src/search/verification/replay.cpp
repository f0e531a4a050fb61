#include "search/verification/replay.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backends/device.h"
#include "base/bounded_json.h"
#include "base/environment.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/reason.h"
#include "codegen/schedules/nest.h"
#include "luminal/cancel.h"
#include "luminal/compile_report.h"
#include "search/verification/contain.h"

namespace luminal::search {

using nlohmann::json;

namespace {

constexpr int kVersion = 5;

json json_of(const Replay::Kernel& kernel) {
  json parameters = json::object(), bucket = json::object();
  for (const auto& [name, value] : kernel.parameters) parameters[name] = value;
  for (const auto& [name, facts] : kernel.bucket.facts)
    bucket[name] = {facts.min, facts.max, facts.multiple_of};
  return {{"spec", json::parse(kernel.spec.to_json())},
          {"schedule", kernel.schedule},
          {"parameters", parameters},
          {"bucket", bucket}};
}

Replay::Kernel kernel_of(const json& text) {
  Replay::Kernel kernel{.spec = kernel::KernelSpec::parse_json(text.at("spec").dump()),
                        .schedule = text.at("schedule").get<std::string>(),
                        .parameters = {},
                        .bucket = {}};
  for (const auto& [name, value] : text.at("parameters").items())
    kernel.parameters[name] = whole_number<int32_t>(value, "replay");  // no family's are larger
  for (const auto& [name, facts] : text.at("bucket").items()) {
    const auto numbers = whole_numbers<int64_t>(facts, "replay");
    if (numbers.size() != 3 || numbers[0] < 0)
      fail<FormatError>(
          "[replay] the range of dim '{}' is {}; expected [min, max, multiple_of] with min >= 0", name,
          facts.dump());
    kernel.bucket.facts[name] = {numbers[0], numbers[1], numbers[2]};
    (void)Expression::dim(name, kernel.bucket.facts[name]);
  }
  return kernel;
}

/// A kernel runs at sizes that its code was made for, on as many tensors as its spec has.
void check_fit(const Replay::Kernel& kernel, const Unit::Kernel& part, const DimMap& dims) {
  if (kernel.spec.slots().size() != part.inputs.size() || kernel.spec.outputs().size() != part.outputs.size())
    fail<FormatError>("[replay] a kernel has {} inputs and {} outputs, but its spec has {} and {}",
                      part.inputs.size(), part.outputs.size(), kernel.spec.slots().size(),
                      kernel.spec.outputs().size());
  for (const std::string& name : kernel.spec.symbols())
    if (!dims.contains(name)) fail<FormatError>("[replay] dim '{}' has no size", name);
  for (const auto& [name, facts] : kernel.bucket.facts)
    if (const auto size = dims.find(name);
        size != dims.end() && (size->second < facts.min || size->second > facts.max))
      fail<FormatError>("[replay] dim '{}' is {}, but the kernel is made for {} to {}", name, size->second,
                        facts.min, facts.max);
}

}  // namespace

std::string replay_json(const Replay& replay) {
  json kernels = json::array();
  for (const Replay::Kernel& kernel : replay.kernels) kernels.push_back(json_of(kernel));
  return json{{"luminal-replay", kVersion},
              {"kernels", kernels},
              {"fault", replay.fault},
              {"suite", json::parse(to_json(replay.suite))}}
      .dump(1);
}

Replay parse_replay(std::string_view text) {
  try {
    const json parsed = parse_bounded_json(text, "replay");
    if (!parsed.is_object() || !parsed.contains("luminal-replay"))
      fail<FormatError>("[replay] this is not a replay file");
    if (parsed.at("luminal-replay") != kVersion)
      fail<FormatError>("[replay] the file's version is {}, not {}; replay it with the build that wrote it",
                        parsed.at("luminal-replay").dump(), kVersion);
    Replay replay{.kernels = {},
                  .suite = parse_suite(parsed.at("suite").dump()),
                  .fault = parsed.at("fault").get<std::string>()};
    for (const json& kernel : parsed.at("kernels")) replay.kernels.push_back(kernel_of(kernel));
    if (replay.kernels.empty() || replay.kernels.size() != replay.suite.unit.kernels.size())
      fail<FormatError>("[replay] the file has {} kernels, but its suite has {}", replay.kernels.size(),
                        replay.suite.unit.kernels.size());
    for (size_t k = 0; k < replay.kernels.size(); ++k) {
      Unit::Kernel& part = replay.suite.unit.kernels[k];
      check_fit(replay.kernels[k], part, replay.suite.dims);
      part.spec = replay.kernels[k].spec;
    }
    return replay;
  } catch (const json::exception& error) {
    fail<FormatError>("[replay] this is not a replay file: {}", error.what());
  }
}

namespace {

/// The launches from values with names, or from outside, to launch `last`, which is the last of them.
std::vector<int> launches_up_to(const runtime::Plan& plan, int last) {
  std::vector<int> open{last}, found;
  while (!open.empty()) {
    const int number = open.back();
    open.pop_back();
    if (std::ranges::find(found, number) != found.end()) continue;
    found.push_back(number);
    for (const runtime::TensorIndex input : plan.launches[static_cast<size_t>(number)].kernel->inputs) {
      if (plan.tensors[static_cast<size_t>(input)].value) continue;
      for (int maker = 0; maker < last; ++maker) {
        const runtime::Launch& launch = plan.launches[static_cast<size_t>(maker)];
        if (launch.kernel && std::ranges::find(launch.kernel->outputs, input) != launch.kernel->outputs.end())
          open.push_back(maker);
      }
    }
  }
  std::ranges::sort(found);
  return found;
}

/// Launches as a unit between values of the graph.
Unit unit_of(const runtime::Plan& plan, std::span<const int> launches) {
  Unit unit;
  std::map<runtime::TensorIndex, int> known;
  const auto tensor = [&](runtime::TensorIndex index) {
    const auto [at, fresh] = known.try_emplace(index, static_cast<int>(unit.tensors.size()));
    const runtime::PlanTensor& t = plan.tensors[static_cast<size_t>(index)];
    if (fresh) unit.tensors.push_back({{t.dtype, t.dims}, t.value, t.aliases});
    return at->second;
  };
  for (const int number : launches) {
    const runtime::KernelLaunch& launch = *plan.launches[static_cast<size_t>(number)].kernel;
    Unit::Kernel& kernel = unit.kernels.emplace_back();
    for (const runtime::TensorIndex input : launch.inputs) kernel.inputs.push_back(tensor(input));
    for (const runtime::TensorIndex output : launch.outputs) kernel.outputs.push_back(tensor(output));
  }
  return unit;
}

}  // namespace

std::optional<Replay> replay_of(const Graph& graph, const runtime::Plan& plan, const PlanFacts& facts,
                                const SpecStore& store, const PlanFault& fault) {
  if (fault.launch < 0) return std::nullopt;
  const bool in_place = fault.kind == PlanFault::Kind::InPlace;
  const std::vector<int> launches =
      in_place ? std::vector<int>{fault.launch} : launches_up_to(plan, fault.launch);
  Unit unit = unit_of(plan, launches);
  if (in_place) {
    const auto& allowed = plan.launches[static_cast<size_t>(fault.launch)].kernel->in_place;
    if (allowed.empty()) return std::nullopt;
    unit.kernels[0].in_place = allowed[0].input;
  }
  Replay replay{
      .kernels = {}, .suite = prepare_suite(graph, plan.bucket.top(), unit, {}), .fault = fault.message};
  for (const int number : launches) {
    const PlanFacts::Kernel& kernel = facts.list[facts.kernel_of.at(static_cast<size_t>(number))];
    replay.kernels.push_back({store.at(kernel.spec), std::string(kernel.implementation.schedule->name),
                              kernel.implementation.parameters, kernel.bucket});
  }
  return replay;
}

std::string write_replay(const Replay& replay, uint64_t key) {
  const std::string folder = environment::dump_folder().empty() ? "." : environment::dump_folder();
  const std::string name = fmt::format("luminal-replay-{:016x}.json", key);
  try {
    std::filesystem::create_directories(folder);
    write_file_atomic(std::filesystem::path(folder) / name, replay_json(replay));
    return fmt::format("look into it with: luminal explain --replay {}/{}", folder, name);
  } catch (const std::exception& error) {
    return fmt::format("no replay file could be written: {}", error.what());
  }
}

}  // namespace luminal::search

namespace luminal {
namespace {

using search::Replay;

codegen::Program program_of(const Replay::Kernel& kernel, const codegen::Target& target) {
  codegen::Program program =
      codegen::find_schedule(kernel.schedule).lower(kernel.spec, kernel.parameters, kernel.bucket, target);
  codegen::verify(program);
  return program;
}

/// From here on the process gets no more than this beside what it has.
void limit_memory(int64_t more_bytes) {
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  if (!(file >> pages)) return;  // no Linux: no telling
  const auto bytes = static_cast<rlim_t>(pages * ::sysconf(_SC_PAGESIZE) + more_bytes);
  const rlimit limit{bytes, bytes};
  ::setrlimit(RLIMIT_AS, &limit);
}

/// What a file says of a kernel need not fit, and its parameters may ask for code without end: whether it can
/// be made is found out in a process of its own. Errors: FormatError.
void try_to_make(const Replay::Kernel& kernel, backends::Device& backend) {
  const std::vector<std::string> families = codegen::schedule_names();
  if (std::ranges::find(families, kernel.schedule) == families.end())
    fail<FormatError>(
        "[replay] unknown schedule '{}'; if it is a user kernel or a schedule that a program adds, call "
        "replay_kernel (luminal/compile_report.h) in that program",
        kernel.schedule);
  constexpr std::chrono::milliseconds kTimeout{20'000};
  constexpr int64_t kMostBytes = int64_t{1} << 30;
  const std::string trouble = [&]() -> std::string {
    try {
      return search::run_contained(
          [&](search::Progress&) {
            limit_memory(kMostBytes);
            (void)kernel.spec.to_string();
            (void)backend.compile(program_of(kernel, backend.target()));
          },
          kTimeout);
    } catch (const Cancelled&) {
      throw;
    } catch (const std::exception& error) {
      return reason_of(error);
    }
  }();
  if (!trouble.empty())
    fail<FormatError>(
        "[replay] schedule '{}' cannot make a kernel of the file's spec and parameters ({}): {}",
        kernel.schedule, codegen::to_string(kernel.parameters), trouble);
}

/// What loops as the spec says them make of the suite; none for several kernels, or if these loops are wrong
/// too.
std::optional<search::Verdict> reference_for(const Replay& replay, backends::Device& backend) {
  if (replay.kernels.size() != 1) return std::nullopt;
  const Replay::Kernel& replayed = replay.kernels[0];
  const codegen::Schedule& nest = codegen::find_schedule("nest");
  for (const codegen::Candidate& plain :
       codegen::plain_loops(replayed.spec, replayed.bucket, backend.target())) {
    if (replayed.schedule == nest.name && replayed.parameters == plain.parameters) continue;
    const auto kernel =
        backend.compile(nest.lower(replayed.spec, plain.parameters, replayed.bucket, backend.target()));
    const backends::Kernel* list[] = {kernel.get()};
    search::Verdict made = search::verify(replay.suite, list, {.keep_outputs = true, .launches = 0});
    if (!made.fault) return made;
  }
  return std::nullopt;
}

}  // namespace

ReplayResult replay_kernel(std::string_view content, std::string_view device) {
  const Replay replay = search::parse_replay(content);
  const std::shared_ptr<backends::Device> backend = backends::find_device(device);
  ReplayResult result{.fault = replay.fault};
  std::vector<std::shared_ptr<const backends::Kernel>> kernels;
  std::vector<const backends::Kernel*> pointers;
  for (const Replay::Kernel& each : replay.kernels) {
    try_to_make(each, *backend);
    const codegen::Program program = program_of(each, backend->target());
    KernelReport& report = result.kernels.emplace_back();
    report.name = program.name;
    report.spec = each.spec.to_string();
    report.schedule = each.schedule;
    report.parameters = codegen::to_string(each.parameters);
    report.loops = [program] { return program.to_string(); };
    report.source = [program, backend] { return backend->source(program); };
    report.assembly = [program, backend] { return backend->assembly(program); };
    pointers.push_back(kernels.emplace_back(backend->compile(program)).get());
  }
  const std::optional<search::Verdict> reference = reference_for(replay, *backend);
  const search::Verdict verdict =
      search::verify(replay.suite, pointers,
                     {.threads = backend->target().threads, .reference = reference ? &*reference : nullptr});
  result.reproduced = verdict.fault.has_value();
  result.verdict = verdict.fault ? verdict.fault->message
                   : reference ? "all samples are right, and all elements equal those of the plainest kernel"
                               : "all samples are right";
  return result;
}

}  // namespace luminal
