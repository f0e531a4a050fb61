#include "search/replay.h"

#include <nlohmann/json.hpp>

#include "backends/backend.h"
#include "base/fail.h"
#include "luminal/compile_report.h"

namespace luminal::search {

using nlohmann::json;

std::string replay_json(const Replay& replay) {
  json parameters = json::object(), bucket = json::object();
  for (const auto& [name, value] : replay.parameters) parameters[name] = value;
  for (const auto& [name, facts] : replay.bucket.facts)
    bucket[name] = {facts.min, facts.max, facts.multiple_of};
  return json{{"luminal-replay", 1},
              {"spec", json::parse(replay.spec.to_json())},
              {"schedule", replay.schedule},
              {"parameters", parameters},
              {"bucket", bucket},
              {"fault", replay.fault},
              {"exam", json::parse(to_json(replay.exam))}}
      .dump(1);
}

Replay parse_replay(std::string_view text) {
  try {
    const json parsed = json::parse(text);
    if (!parsed.is_object() || !parsed.contains("luminal-replay"))
      fail<FormatError>("[replay] this is no replay file");
    Replay replay{.spec = kernel::KernelSpec::parse_json(parsed.at("spec").dump()),
                  .schedule = parsed.at("schedule").get<std::string>(),
                  .parameters = {},
                  .bucket = {},
                  .exam = parse_exam(parsed.at("exam").dump()),
                  .fault = parsed.at("fault").get<std::string>()};
    for (const auto& [name, value] : parsed.at("parameters").items())
      replay.parameters[name] = value.get<int64_t>();
    for (const auto& [name, facts] : parsed.at("bucket").items())
      replay.bucket.facts[name] = {facts.at(0).get<int64_t>(), facts.at(1).get<int64_t>(),
                                   facts.at(2).get<int64_t>()};
    return replay;
  } catch (const json::exception& error) {
    fail<FormatError>("[replay] this is no replay file: {}", error.what());
  }
}

}  // namespace luminal::search

namespace luminal {

ReplayResult replay_kernel(std::string_view content) {
  const search::Replay replay = search::parse_replay(content);
  const std::shared_ptr<backends::Backend> backend = backends::make_cpu_backend();
  const codegen::Program program =
      codegen::find_schedule(replay.schedule)
          .lower(replay.spec, replay.parameters, replay.bucket, backend->target());
  ReplayResult result{.fault = replay.fault};
  result.kernel = {.name = program.name, .spec = replay.spec.to_string(), .schedule = replay.schedule};
  result.kernel.parameters = codegen::to_string(replay.parameters);
  result.kernel.loops = [program] { return program.to_string(); };
  result.kernel.source = [program, backend] { return backend->source(program); };
  result.kernel.assembly = [program, backend] { return backend->assembly(program); };
  const auto kernel = backend->compile(program);
  const backends::Kernel* list[] = {kernel.get()};
  const search::Verdict verdict = search::judge(replay.exam, list, backend->target().threads);
  result.reproduced = verdict.fault.has_value();
  result.verdict = verdict.fault ? verdict.fault->message : "all samples are right";
  return result;
}

}  // namespace luminal
