#include "codegen/schedules/phases.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/fail.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/inner_ways.h"
#include "codegen/schedules/specialise.h"

// Each phase of a spec (phases.h) is lowered by a family of its own; their stages follow each other.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;

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
      add_parameters(together[k].parameters, p, way);
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

/// Adds the stages of a phase, those that prepare to the ones before: they read what nobody writes. Slots and outputs are
/// the same ones; workspaces and tables come along.
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
    const size_t place = stage.prepares ? preparing_stages(program) : program.stages.size();
    program.stages.insert(program.stages.begin() + static_cast<std::ptrdiff_t>(place), std::move(stage));
  }
}

Program phases_lower(const KernelSpec& original, const Parameters& parameters, const Bucket& bucket,
                     const Target& target) {
  const KernelSpec spec = specialised(original, bucket);
  const std::vector<KernelSpec> phases = phases_of(spec, bucket.top());
  LUMINAL_CHECK(!phases.empty(), "no phases: {}", spec.to_string());
  Program program = program_for(spec, "phases");
  for (size_t p = 0; p < phases.size(); ++p) {
    const Way way = way_of(parameters, p);
    append_phase(program, way.family->lower(phases[p], way.candidate.parameters, bucket, target), p);
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
