#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "base/fail.h"
#include "base/suggest.h"
#include "codegen/schedule.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {

std::string to_string(const Parameters& parameters) {
  std::string text;
  for (const auto& [name, value] : parameters)
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

int64_t parameter_or(const Parameters& parameters, std::string_view name, int64_t otherwise) {
  const auto at = parameters.find(name);
  return at == parameters.end() ? otherwise : at->second;
}

namespace {

struct Families {
  std::mutex mutex;
#define LUMINAL_SCHEDULE(family) &family##_schedule(),
  std::vector<const Schedule*> all{LUMINAL_SCHEDULES(LUMINAL_SCHEDULE)};
#undef LUMINAL_SCHEDULE
  const std::vector<const Schedule*> built_in = all;
  static Families& of_process() {
    static Families families;
    return families;
  }
};

}  // namespace

std::optional<Candidate> best_of(const Schedule& schedule, const kernel::KernelSpec& spec,
                                 const Bucket& bucket, const Target& target) {
  if (schedule.best) return schedule.best(spec, bucket, target);
  std::vector<Candidate> candidates = schedule.candidates(spec, bucket, target);
  if (candidates.empty()) return std::nullopt;
  return std::move(candidates.front());
}

std::vector<const Schedule*> schedules() {
  Families& families = Families::of_process();
  const std::scoped_lock lock(families.mutex);
  return families.all;
}

const std::vector<const Schedule*>& built_in_schedules() { return Families::of_process().built_in; }

void register_schedule(const Schedule& schedule) {
  Families& families = Families::of_process();
  const std::scoped_lock lock(families.mutex);
  if (std::ranges::find(families.all, schedule.name, &Schedule::name) != families.all.end())
    fail("[schedules] a family '{}' is registered already; give yours another name", schedule.name);
  families.all.insert(families.all.end() - 1, &schedule);
}

bool has_added_families() {
  const std::vector<const Schedule*>& built_in = built_in_schedules();
  return std::ranges::any_of(schedules(), [&](const Schedule* s) {
    return !s->foreign && std::ranges::find(built_in, s) == built_in.end();
  });
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule* s : schedules()) names.emplace_back(s->name);
  return names;
}

const Schedule& find_schedule(std::string_view name) {
  for (const Schedule* s : schedules())
    if (s->name == name) return *s;
  throw InternalError(
      fmt::format("[schedules] there is no family '{}'{}", name, did_you_mean(name, schedule_names())));
}

}  // namespace luminal::codegen
