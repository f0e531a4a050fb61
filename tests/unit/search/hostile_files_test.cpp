// Choices and replay files that somebody else wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/backend.h"
#include "codegen/schedule.h"
#include "luminal/error.h"
#include "search/kernel_cache.h"
#include "search/remembered.h"
#include "search/replay.h"
#include "support/files.h"

namespace luminal::search {
namespace {

using luminal::test::error_of;
using luminal::test::TemporaryFolder;

/// A sum over one axis.
kernel::KernelSpec sum_spec() {
  return kernel::KernelSpec::parse_json(
      R"({"extents":["64","100"],"slots":[{"dtype":"f32","elements":"6400"}],"values":[{"axes":[0],"reduced":[1],)"
      R"("combiner":"sum","body":{"nodes":[["input","f32","0"]],"result":0},"operands":[{"kind":"load",)"
      R"("dtype":"f32","slot":0,"index":"100 * i0[64] + i1[100]"}]}],"outputs":[{"value":0,"index":"i0[64]",)"
      R"("elements":"64"}]})");
}

TEST(Remembered, OnlyCandidatesOfTheFamilyComeOutOfTheCache) {
  const TemporaryFolder folder;
  Cache cache(folder.path());
  const auto backend = backends::make_cpu_backend();
  const kernel::KernelSpec spec = sum_spec();
  const std::vector<std::string> parts{"key"};
  const CacheKey key = make_key(parts);
  int kept = 0, refused = 0;
  for (const codegen::Schedule* family : codegen::schedules())
    for (const codegen::Candidate& candidate : family->candidates(spec, {}, backend->target())) {
      Cache::Choice choice{.schedule = std::string(family->name),
                           .parameters = candidate.parameters,
                           .measured_us = 1,
                           .measured_candidates = 1};
      cache.forget(key);
      cache.store(key, choice);
      EXPECT_TRUE(find_remembered(cache, key, spec, {}, backend->target())) << family->name;
      ++kept;
      for (const auto& [name, value] : candidate.parameters)
        for (const int64_t absurd : {int64_t{0}, int64_t{-1}, int64_t{1'000'003}, INT64_MAX, INT64_MIN}) {
          if (value == absurd) continue;
          choice.parameters = candidate.parameters;
          choice.parameters[name] = absurd;
          const auto all = family->candidates(spec, {}, backend->target());
          if (std::ranges::find(all, choice.parameters, &codegen::Candidate::parameters) != all.end())
            continue;
          cache.forget(key);
          cache.store(key, choice);
          EXPECT_FALSE(find_remembered(cache, key, spec, {}, backend->target()))
              << family->name << " " << name;
          EXPECT_FALSE(cache.find(key)) << "it is forgotten";
          ++refused;
        }
    }
  EXPECT_GT(kept, 0);
  EXPECT_GT(refused, 0);
  cache.store(key, {.schedule = "of nobody", .parameters = {}, .measured_us = 1, .measured_candidates = 1});
  EXPECT_FALSE(find_remembered(cache, key, spec, {}, backend->target()));
}

// Whoever prints or copies a document calls himself once a level.
TEST(HostileJson, DeepNestingIsAnError) {
  const std::string deep(1'000'000, '['), inside = "{\"luminal-replay\":2,\"exam\":" + deep + "}";
  EXPECT_EQ(error_of<FormatError>([&] { (void)parse_replay(inside); }),
            "[replay] the JSON is nested deeper than 64 levels");
  EXPECT_EQ(error_of<FormatError>([&] { (void)parse_exam(deep); }),
            "[replay] the JSON is nested deeper than 64 levels");
  EXPECT_EQ(error_of<FormatError>([&] { (void)kernel::KernelSpec::parse_json(deep); }),
            "[KernelSpec] the JSON is nested deeper than 64 levels");
}

}  // namespace
}  // namespace luminal::search
