#include "codegen/schedules/phases.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/specialise.h"

// Each phase of a spec (phases.h) is lowered by a family of its own; their stages follow each other.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;

/// The families that may lower a phase, in the order in which parameters number them.
std::vector<const Schedule*> inner_families() {
  std::vector<const Schedule*> families;
#define LUMINAL_ADD_FAMILY(family) families.push_back(&family##_schedule());
  LUMINAL_SCHEDULES(LUMINAL_ADD_FAMILY)
#undef LUMINAL_ADD_FAMILY
  std::erase(families, &phases_schedule());
  return families;
}

constexpr std::string_view kFamily = "family";
std::string name_in_phase(size_t phase, std::string_view name) { return fmt::format("{}.{}", phase, name); }

void add_parameters(Parameters& all, size_t phase, int64_t family, const Parameters& own) {
  all.emplace(name_in_phase(phase, kFamily), family);
  for (const auto& [name, value] : own) all.emplace(name_in_phase(phase, name), value);
}

Parameters parameters_in(const Parameters& all, size_t phase) {
  const std::string prefix = name_in_phase(phase, "");
  Parameters own;
  for (const auto& [name, value] : all)
    if (name.starts_with(prefix)) own.emplace(name.substr(prefix.size()), value);
  return own;
}

/// How one phase may be lowered.
struct Way {
  int64_t family = 0;
  Candidate candidate;
};

/// The best first. `most`: 1 asks each family for its best alone.
std::vector<Way> ways_of(const KernelSpec& phase, const Bucket& bucket, const Target& target, size_t most) {
  const std::vector<const Schedule*> families = inner_families();
  std::vector<Way> ways;
  for (size_t f = 0; f < families.size(); ++f) {
    const auto number = static_cast<int64_t>(f);
    if (most == 1) {
      if (auto best = best_of(*families[f], phase, bucket, target))
        ways.push_back({number, std::move(*best)});
    } else {
      for (Candidate& each : families[f]->candidates(phase, bucket, target))
        ways.push_back({number, std::move(each)});
    }
  }
  std::ranges::stable_sort(ways, {}, [](const Way& way) { return way.candidate.predicted_us; });
  if (ways.size() > most) ways.resize(most);
  return ways;
}

/// Candidate k takes each phase's k-th way.
std::vector<Candidate> ways_together(const KernelSpec& original, const Bucket& bucket, const Target& target,
                                     size_t most) {
  const std::vector<KernelSpec> phases = phases_of(specialised(original, bucket), bucket.top());
  std::vector<std::vector<Way>> ways;
  size_t count = 0;
  for (const KernelSpec& phase : phases) {
    ways.push_back(ways_of(phase, bucket, target, most));
    count = std::max(count, ways.back().size());
  }
  std::vector<Candidate> together(count);
  for (size_t k = 0; k < count; ++k)
    for (size_t p = 0; p < phases.size(); ++p) {
      const Way& way = ways[p][std::min(k, ways[p].size() - 1)];
      add_parameters(together[k].parameters, p, way.family, way.candidate.parameters);
      together[k].predicted_us += way.candidate.predicted_us;
    }
  return together;
}

std::vector<Candidate> phases_candidates(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  constexpr size_t kMost = 4;
  return ways_together(spec, bucket, target, kMost);
}

std::optional<Candidate> phases_best(const KernelSpec& spec, const Bucket& bucket, const Target& target) {
  std::vector<Candidate> best = ways_together(spec, bucket, target, 1);
  return best.empty() ? std::nullopt : std::optional(std::move(best.front()));
}

void renumber_buffers(Block& block, const std::vector<int>& numbers) {
  for (Instruction& i : block) {
    if (i.buffer >= 0) i.buffer = numbers[static_cast<size_t>(i.buffer)];
    renumber_buffers(i.body, numbers);
  }
}

/// Appends the stages of a phase. Slots and outputs are the same ones; workspaces and tables come along.
void append_phase(Program& program, Program phase, size_t number) {
  std::vector<int> numbers;
  for (Buffer& buffer : phase.buffers) {
    const bool is_given = buffer.space == Space::Slot || buffer.space == Space::Output;
    if (is_given) {
      numbers.push_back(static_cast<int>(numbers.size()));
      continue;
    }
    buffer.name += fmt::format("_{}", number);
    numbers.push_back(add_buffer(program, std::move(buffer)));
  }
  for (Stage& stage : phase.stages) {
    renumber_buffers(stage.body, numbers);
    program.stages.push_back(std::move(stage));
  }
}

Program phases_lower(const KernelSpec& original, const Parameters& parameters, const Bucket& bucket,
                     const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const std::vector<KernelSpec> phases = phases_of(spec, bucket.top());
  LUMINAL_CHECK(!phases.empty(), "no phases: {}", spec.to_string());
  const std::vector<const Schedule*> families = inner_families();
  Program program = program_for(spec, "phases");
  for (size_t p = 0; p < phases.size(); ++p) {
    const Parameters own = parameters_in(parameters, p);
    const auto family = own.find(kFamily);
    LUMINAL_CHECK(
        family != own.end() && family->second >= 0 && family->second < static_cast<int64_t>(families.size()),
        "phases wants {} below {}", name_in_phase(p, kFamily), families.size());
    append_phase(program,
                 families[static_cast<size_t>(family->second)]->lower(phases[p], own, bucket, target), p);
  }
  return program;
}

}  // namespace

const Schedule& phases_schedule() {
  static const Schedule schedule{
      .name = "phases",
      .doc =
          "Reductions whose masks let each output of a short axis see other terms "
          "(input gradients of strided convolutions and poolings): what each of "
          "these outputs computes is lowered by itself, without the terms that are "
          "masked off.",
      .candidates = phases_candidates,
      .lower = phases_lower,
      .best = phases_best};
  return schedule;
}

}  // namespace luminal::codegen
