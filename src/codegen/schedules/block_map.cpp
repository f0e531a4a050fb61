#include <algorithm>
#include <cmath>

#include "codegen/schedules/block_shape.h"
#include "codegen/schedules/cost.h"
#include "codegen/schedules/families.h"
#include "codegen/schedules/map.h"
#include "codegen/schedules/specialise.h"

// Elementwise specs by blocks of threads: neighbours have neighbouring elements of the result, and each thread has some
// of them, as far apart as the block has threads.
namespace luminal::codegen {
namespace {

using kernel::KernelSpec;

AxisGroup elements_of(const KernelSpec& spec) {
  return group_of(spec.extents(), memory_order(spec, spec.outputs()[0]));
}

std::vector<Candidate> block_map_candidates(const KernelSpec& given, const Bucket& bucket,
                                            const Target& target) {
  const std::vector<int> sizes = block_sizes(target);
  if (sizes.empty()) return {};
  const KernelSpec spec = specialised(given, bucket);
  if (!map::takes(spec)) return {};
  const DimMap top = bucket.top();
  const AxisGroup elements = elements_of(spec);
  const auto count = static_cast<double>(std::max<int64_t>(1, elements.size().exec(top)));
  double cycles = body_cycles(spec, kernel::axes_of(elements.axes));
  for (const kernel::Value& v : spec.values()) cycles += thread_load_cycles(spec, v.operands, elements);
  // Where threads run one after the other compilers make vectors of neighbours, since no barrier stands between.
  constexpr double kVectorised = 4;
  if (target.block_width == 1) cycles /= kVectorised;
  std::vector<Candidate> found;
  for (const int threads : sizes)
    for (const int64_t each : {1, 4}) {
      const double blocks = std::ceil(count / static_cast<double>(threads * each));
      const double all = block_cycles(target, blocks, threads, cycles * static_cast<double>(each), 0);
      found.push_back({{{"threads", threads}, {"each", each}}, block_us(spec, top, target, all, blocks)});
    }
  std::ranges::stable_sort(found, {}, &Candidate::predicted_us);
  return found;
}

Program block_map_lower(const KernelSpec& given, const Parameters& p, const Bucket& bucket, const Target&) {
  const KernelSpec spec = specialised(given, bucket);
  const AxisGroup elements = elements_of(spec);
  const Expression count = elements.size();
  const int threads = static_cast<int>(p.at("threads"));
  const int64_t each = p.at("each");
  Program program = program_for(spec, "block_map");
  StageBuilder b(program, count.ceil_div(threads * each), threads);
  b.loop(each, LoopKind::Unrolled, [&](const Expression& k) {
    const Expression position = (b.task() * each + k) * threads + b.thread();
    b.if_holds(position.lt(count), [&] {
      Coordinates at(spec.extents().size(), 0);
      elements.place(position, at);
      std::map<int, Id> known;
      map::store_outputs(spec, Ramp(b), at, known, false);
    });
  });
  b.finish();
  return program;
}

}  // namespace

const Schedule& block_map_schedule() {
  static const Schedule schedule{.name = "block_map",
                                 .doc = "elementwise by blocks of threads, one element or several for each",
                                 .candidates = block_map_candidates,
                                 .lower = block_map_lower,
                                 .for_blocks = true};
  return schedule;
}

}  // namespace luminal::codegen
