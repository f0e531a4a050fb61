#include "codegen/schedules/inner_ways.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/families.h"

namespace luminal::codegen {
namespace {

/// Those that lower what they are given themselves.
std::vector<const Schedule*> inner_families() {
  std::vector<const Schedule*> families;
#define LUMINAL_ADD_FAMILY(family) families.push_back(&family##_schedule());
  LUMINAL_SCHEDULES(LUMINAL_ADD_FAMILY)
#undef LUMINAL_ADD_FAMILY
  std::erase(families, &phases_schedule());
  std::erase(families, &routed_schedule());
  std::erase_if(families, [](const Schedule* each) { return each->for_blocks; });
  return families;
}

std::string prefix_of(size_t number, const Schedule& family) {
  return fmt::format("{}.{}.", number, family.name);
}

}  // namespace

std::vector<Way> ways_of(const kernel::KernelSpec& part, const Bucket& bucket, const Target& target,
                         size_t most) {
  std::vector<Way> ways;
  for (const Schedule* family : inner_families()) {
    if (most == 1) {
      if (auto best = best_of(*family, part, bucket, target)) ways.push_back({family, std::move(*best)});
    } else {
      for (Candidate& each : family->candidates(part, bucket, target))
        ways.push_back({family, std::move(each)});
    }
  }
  std::ranges::stable_sort(ways, {}, [](const Way& way) { return way.candidate.predicted_us; });
  if (ways.size() > most) ways.resize(most);
  return ways;
}

void add_parameters(Parameters& all, size_t number, const Way& way) {
  for (const auto& [name, value] : way.candidate.parameters)
    all.emplace(prefix_of(number, *way.family) + name, value);
}

Way way_of(const Parameters& all, size_t number) {
  for (const Schedule* family : inner_families()) {
    const std::string prefix = prefix_of(number, *family);
    Way way{.family = family, .candidate = {}};
    for (const auto& [name, value] : all)
      if (name.starts_with(prefix)) way.candidate.parameters.emplace(name.substr(prefix.size()), value);
    if (!way.candidate.parameters.empty()) return way;
  }
  throw InternalError(fmt::format("[schedules] no parameters for part {}: {}", number, to_string(all)));
}

}  // namespace luminal::codegen
