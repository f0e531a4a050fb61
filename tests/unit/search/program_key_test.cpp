#include "search/program_key.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "backends/device.h"
#include "luminal/luminal.h"
#include "luminal/scan.h"

// What a search remembers of a program is found by these parts: two programs must not share them.
namespace luminal::search {
namespace {

std::vector<std::string> parts_of(const std::function<GraphTensor(Graph&)>& make,
                                  const SearchOptions& options = {}, const codegen::Bucket& bucket = {}) {
  static const auto backend = backends::make_cpu_device();
  Graph cx;
  make(cx).retrieve();
  return program_parts(cx, encode(cx), backend->target(), bucket, options);
}

GraphTensor sorted(Graph& cx, int axis) { return cx.tensor({6, 6}).sort(axis) + 1; }

/// A loop, whose body is a graph of its own.
GraphTensor summed(Graph& cx) {
  const GraphTensor x = cx.tensor({4, 3});
  return scan({cx.constant(0.0).expand({3})}, {x},
              [](auto carry, auto element) -> ScanStep {
                return {.carry = {0.5 * carry[0] + element[0]}, .outputs = {}};
              })
      .carry[0];
}

TEST(ProgramKey, IsEqualForEqualPrograms) {
  EXPECT_EQ(parts_of([](Graph& cx) { return sorted(cx, 0); }),
            parts_of([](Graph& cx) { return sorted(cx, 0); }));
  EXPECT_EQ(parts_of(summed), parts_of(summed));
}

TEST(ProgramKey, TellsProgramsApart) {
  const auto base = [](Graph& cx) { return sorted(cx, 0); };
  codegen::Bucket bucket;
  bucket.facts.emplace("n", DimFacts{.min = 3, .max = 5});
  const std::vector<std::vector<std::string>> all{
      parts_of(base),
      parts_of([](Graph& cx) { return sorted(cx, 1); }),  // an attribute of an op of the host
      parts_of([](Graph& cx) { return cx.tensor({6, 6}).sort(0) + 2; }),
      parts_of([](Graph& cx) { return cx.tensor({6, 7}).sort(0) + 1; }),
      parts_of([](Graph& cx) { return cx.tensor({6, 6}, Dtype::F16).sort(0) + 1; }),
      parts_of(base, {.math = MathMode::Strict}),
      parts_of(base, {.rules_off = {"exchange"}}),
      parts_of(base, {.large_bytes = 77}),
      parts_of(base, {}, bucket)};
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
}

}  // namespace
}  // namespace luminal::search
