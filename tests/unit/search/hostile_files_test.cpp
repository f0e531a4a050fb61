// Choices and replay files that somebody else wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "backends/device.h"
#include "codegen/schedule.h"
#include "luminal/compile_report.h"
#include "luminal/egraph.h"
#include "luminal/luminal.h"
#include "search/cache/kernel_cache.h"
#include "search/tuning/remembered.h"
#include "search/verification/replay.h"
#include "support/files.h"
#include "support/replays.h"

namespace luminal::search {
namespace {

using luminal::test::error_of;
using luminal::test::TemporaryFolder;

/// A sum over one axis.
kernel::KernelSpec sum_spec() {
  return kernel::KernelSpec::parse_json(
      R"({"extents":["64","100"],"slots":[{"dtype":"f32","elements":"6400"}],"values":[{"axes":[0],"reduced":[1],)"
      R"("monoid":"sum","body":{"nodes":[["input","f32","0"]],"result":0},"operands":[{"kind":"load",)"
      R"("dtype":"f32","slot":0,"index":"100 * i0[64] + i1[100]"}]}],"outputs":[{"value":0,"index":"i0[64]",)"
      R"("elements":"64"}]})");
}

TEST(Remembered, OnlyCandidatesOfTheFamilyComeOutOfTheCache) {
  const TemporaryFolder folder;
  Cache cache(folder.path());
  const auto backend = backends::make_cpu_device();
  const kernel::KernelSpec spec = sum_spec();
  const std::vector<std::string> parts{"key"};
  const CacheKey key = make_key(parts);
  int kept = 0, refused = 0;
  for (const codegen::Schedule* family : codegen::schedules())
    for (const codegen::Candidate& candidate : family->candidates(spec, {}, backend->target())) {
      Cache::Choice choice{.schedule = std::string(family->name),
                           .parameters = candidate.parameters,
                           .measured_us = 1,
                           .effort = 1};
      cache.forget(key);
      cache.store(key, choice);
      EXPECT_TRUE(find_remembered(cache, key, spec, {}, backend->target(), 1)) << family->name;
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
          EXPECT_FALSE(find_remembered(cache, key, spec, {}, backend->target(), 1))
              << family->name << " " << name;
          EXPECT_FALSE(cache.find(key)) << "it is forgotten";
          ++refused;
        }
    }
  EXPECT_GT(kept, 0);
  EXPECT_GT(refused, 0);
  cache.store(key, {.schedule = "of nobody", .parameters = {}, .measured_us = 1, .effort = 1});
  EXPECT_FALSE(find_remembered(cache, key, spec, {}, backend->target(), 1));
}

/// A right replay with one part changed; the JSON pointer says which.
std::string changed_replay(const std::string& place, const nlohmann::json& value) {
  Graph cx;
  cx.tensor({"s", 9}).sum(1).retrieve();
  cx.set_dim("s", 8);
  nlohmann::json replay =
      nlohmann::json::parse(replay_json(luminal::test::replays_of(cx, {.facts = {{"s", {5, 8, 1}}}}).at(0)));
  replay[nlohmann::json::json_pointer(place)] = value;
  return replay.dump();
}

TEST(HostileReplay, EveryNumberHasItsRange) {
  EXPECT_NO_THROW((void)parse_replay(changed_replay("/fault", "another")));
  const int64_t huge = int64_t{1} << 40;
  const struct {
    const char* place;
    nlohmann::json value;
    const char* says;
  } cases[] = {
      {"/suite/tensors/0/dims", {huge, huge}, "a tensor has more than"},
      {"/suite/tensors/0/dims", {-1}, "a dim is -1; expected 0 to 2^40"},
      {"/suite/tensors/0/dims", {1.5}, "1.5 is not a whole number, or out of range"},
      {"/suite/tensors/0/dims", {UINT64_MAX}, "18446744073709551615 is not a whole number, or out of range"},
      {"/suite/kernels/0/inputs", {huge}, "1099511627776 is not a whole number, or out of range"},
      {"/suite/kernels/0/inputs", {5}, "a kernel names tensor 5, but there are 2"},
      {"/suite/kernels/0/inputs", {0, 0}, "a kernel has 2 inputs and 1 outputs, but its spec has 1 and 1"},
      {"/suite/kernels/0/inputs", {1}, "tensor 1 is read before a kernel makes it"},
      {"/suite/kernels/0/outputs", {0}, "tensor 0 exists before a kernel makes it"},
      {"/suite/kernels/0/in_place", 7, "a kernel with 1 inputs runs in place of input 7"},
      {"/suite/cases/0/inputs/0", nullptr, "tensor 0 is read before a kernel makes it"},
      {"/suite/cases/0/expectations/0/tensor", 0, "an expectation is about tensor 0, which is an input"},
      {"/suite/cases/0/expectations/0/tensor", -1, "an expectation is about tensor -1, but there are 2"},
      {"/suite/cases/0/expectations/0/positions/0", 8, "position 8 is outside a tensor of 8 elements"},
      {"/suite/cases/0/expectations/0/positions/0", -1, "position -1 is outside a tensor of 8 elements"},
      {"/suite/seed", -1, "-1 is not a whole number, or out of range"},
      {"/suite/dims/s", -3, "dim 's' is -3"},
      {"/suite/dims/s", 9, "dim 's' is 9, but the kernel is made for 5 to 8"},
      {"/suite/dims", nlohmann::json::object(), "dim 's' has no size"},
      {"/kernels/0/parameters/odd", huge, "1099511627776 is not a whole number, or out of range"},
      {"/kernels/0/parameters/odd", "8", "\"8\" is not a whole number, or out of range"},
      {"/kernels/0/bucket/s", {5, 8}, "the range of dim 's' is [5,8]; expected [min, max, multiple_of]"},
      {"/kernels/0/bucket/s",
       {-5, 8, 1},
       "the range of dim 's' is [-5,8,1]; expected [min, max, multiple_of]"},
      {"/kernels/0/bucket/s", {9, 8, 1}, "has min 9 above max 8"},
      {"/kernels/0/bucket/s", {5, 8, 0}, "multiple_of 0"},
  };
  for (const auto& each : cases)
    EXPECT_THAT(error_of<Error>([&] { (void)parse_replay(changed_replay(each.place, each.value)); }),
                testing::HasSubstr(each.says))
        << each.place;
}

/// Parameters that make no code, or more of it than there is room for, end a process that nobody needs.
TEST(HostileReplay, ParametersThatNoKernelHasAreRefused) {
  Graph cx;
  cx.tensor({8, 9}).sum(1).retrieve();
  int refused = 0;
  for (const Replay& right : luminal::test::replays_of(cx)) {
    EXPECT_FALSE(replay_kernel(replay_json(right)).reproduced) << right.kernels[0].schedule;
    for (const char* name : {"unroll", "lanes"}) {
      Replay wrong = right;
      const auto parameter = wrong.kernels[0].parameters.find(name);
      if (parameter == wrong.kernels[0].parameters.end()) continue;
      parameter->second = INT32_MAX;
      EXPECT_THAT(error_of<FormatError>([&] { (void)replay_kernel(replay_json(wrong)); }),
                  testing::HasSubstr("cannot make a kernel of the file's spec and parameters"));
      ++refused;
    }
  }
  EXPECT_EQ(refused, 2) << "of reduce and nest";
}

// Whoever prints or copies a document calls himself once a level.
TEST(HostileJson, DeepNestingIsAnError) {
  const std::string deep(1'000'000, '['), inside = "{\"luminal-replay\":2,\"suite\":" + deep + "}";
  EXPECT_EQ(error_of<FormatError>([&] { (void)parse_replay(inside); }),
            "[replay] the JSON is nested deeper than 64 levels");
  EXPECT_EQ(error_of<FormatError>([&] { (void)parse_suite(deep); }),
            "[replay] the JSON is nested deeper than 64 levels");
  EXPECT_EQ(error_of<FormatError>([&] { (void)kernel::KernelSpec::parse_json(deep); }),
            "[KernelSpec] the JSON is nested deeper than 64 levels");
  const std::string sort = deep + std::string(deep.size(), ']');  // a message quotes what is no name
  EXPECT_EQ(error_of<FormatError>([&] {
              egraph::EGraph().load_json("{\"luminal-egraph\":1,\"sorts\":[" + sort + "],\"functions\":[]}");
            }),
            "[json] the JSON is nested deeper than 64 levels");
}

}  // namespace
}  // namespace luminal::search
