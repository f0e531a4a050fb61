#include "search/cover/known_covers.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <utility>

#include "luminal/autograd.h"
#include "support/files.h"
#include "unit/passes/random_graph.h"
#include "unit/search/pipeline.h"

// Covers on disk: what is read is what was written, and whatever else stands there is found out.
namespace luminal::search {
namespace {

using luminal::test::RandomGraph;
using luminal::test::TemporaryFolder;
using test::roofline;
using test::Searched;

/// A hidden layer, its gradients and an op that runs by its record.
Searched training_step(const SearchOptions& options = {}) {
  Graph cx;
  const GraphTensor w = cx.tensor({64, 64}), v = cx.tensor({64, 64});
  const GraphTensor rows = cx.tensor({16}, Dtype::I64), table = cx.tensor({100, 64});
  const GraphTensor x = table.index_select(0, rows);
  const GraphTensor y = x.matmul(w).relu().softmax(1).matmul(v).retrieve();
  for (GraphTensor gradient : cx.run_pass(Autograd({w, v}, y.square().sum(0).sum(0)))) gradient.retrieve();
  return test::search(cx, options);
}

Cover cover_of(const Searched& s, const SearchOptions& options = {}) {
  return find_cover(s.saturated.cover, *s.store, roofline(), options);
}

CacheKey key_of(const Searched& s, const SearchOptions& options = {}, const std::string& price = "a cpu") {
  return cover_key(s.saturated.cover, *s.store, options, std::span(&price, 1));
}

void expect_equal(const Cover& a, const SpecStore& a_store, const Cover& b, const SpecStore& b_store) {
  ASSERT_EQ(a.kernels.size(), b.kernels.size());
  for (size_t k = 0; k < a.kernels.size(); ++k) {
    EXPECT_EQ(a_store.at(a.kernels[k].spec), b_store.at(b.kernels[k].spec));
    EXPECT_EQ(a.kernels[k].inputs, b.kernels[k].inputs);
    EXPECT_EQ(a.kernels[k].outputs, b.kernels[k].outputs);
    EXPECT_EQ(a.kernels[k].interior, b.kernels[k].interior);
    EXPECT_EQ(a.kernels[k].cost_us, b.kernels[k].cost_us);
  }
  ASSERT_EQ(a.steps.size(), b.steps.size());
  for (size_t i = 0; i < a.steps.size(); ++i) {
    EXPECT_EQ(a.steps[i].kernel, b.steps[i].kernel);
    EXPECT_EQ(a.steps[i].host, b.steps[i].host);
  }
  EXPECT_EQ(a.cost_us, b.cost_us);
  EXPECT_EQ(a.unfused_us, b.unfused_us);
  EXPECT_EQ(a.flips, b.flips);
  EXPECT_EQ(a.merges, b.merges);
  EXPECT_EQ(a.fusion_counts, b.fusion_counts);
}

/// Read in a process that has not found it: another store, with other specs in it.
void expect_read_elsewhere(const Searched& s, const Cover& cover) {
  Graph other;
  (other.tensor({3, 5}).exp() + 1).sum(1).retrieve();
  SpecStore store;
  for (const auto& tensor : encode(other).tensors)
    if (tensor.kind == KernelGraph::Tensor::Kind::Kernel) (void)store.intern(tensor.spec);
  const std::optional<Cover> read = parse_cover(cover_to_text(cover, *s.store), s.saturated.cover, store);
  ASSERT_TRUE(read);
  expect_equal(*read, store, cover, *s.store);
}

TEST(KnownCovers, AreReadAsTheyWereWritten) {
  const Searched s = training_step();
  const Cover cover = cover_of(s);
  EXPECT_GE(cover.kernels.size(), 3U);
  ASSERT_TRUE(std::ranges::any_of(cover.steps, [](const CoverStep& step) { return step.host >= 0; }));
  expect_read_elsewhere(s, cover);
}

TEST(KnownCovers, OfRandomGraphsAreReadAsTheyWereWritten) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomGraph random(seed, RandomGraph::Kind::Wild);
    const Searched s = test::search(random.graph());
    expect_read_elsewhere(s, cover_of(s));
  }
}

TEST(KnownCovers, EqualGraphsHaveOneKeyAndAllElseHasOthers) {
  const Searched s = training_step();
  EXPECT_EQ(key_of(training_step()), key_of(s));
  std::vector<CacheKey> keys{key_of(s),
                             key_of(s, {}, "another cpu"),
                             key_of(s, {.math = MathMode::Strict}),
                             key_of(s, {.fusions = 9}),
                             key_of(s, {.merge = false}),
                             key_of(s, {.large_bytes = 1000})};
  const auto add_changed = [&](const std::function<void(CoverProblem&)>& change) {
    Searched other = training_step();
    change(other.saturated.cover);
    keys.push_back(key_of(other));
  };
  const auto first = [](CoverProblem& problem) -> CoverProblem::Class& {
    return *std::ranges::find_if(problem.classes, [](const CoverProblem::Class& each) {
      return !each.alternatives.empty() && each.alternatives[0].arguments.size() > 1;
    });
  };
  add_changed([&](CoverProblem& p) { first(p).alternatives[0].spec ^= 1U; });
  add_changed([&](CoverProblem& p) {
    std::swap(first(p).alternatives[0].arguments[0], first(p).alternatives[0].arguments[1]);
  });
  add_changed([&](CoverProblem& p) { first(p).alternatives.push_back(first(p).alternatives[0]); });
  add_changed([&](CoverProblem& p) { first(p).wanted = !first(p).wanted; });
  add_changed([&](CoverProblem& p) { first(p).no_recompute = true; });
  add_changed([&](CoverProblem& p) { first(p).unstored = true; });
  add_changed([&](CoverProblem& p) { first(p).label = 17; });
  add_changed([&](CoverProblem& p) { p.hosts[0].must_run = !p.hosts[0].must_run; });
  add_changed([&](CoverProblem& p) { p.hosts[0].after.push_back(0); });
  add_changed([&](CoverProblem& p) { p.hosts[0].label = 17; });
  std::set<std::pair<uint64_t, uint64_t>> distinct;
  for (const CacheKey& key : keys) distinct.emplace(key.high, key.low);
  EXPECT_EQ(distinct.size(), keys.size());
}

TEST(KnownCovers, AreFoundOnce) {
  const TemporaryFolder folder;
  const Searched s = training_step();
  const CacheKey key = key_of(s);
  const Cover cover = cover_of(s);
  int found = 0;
  for (int process = 0; process < 3; ++process) {
    Cache cache(folder.path());
    const auto find = [&] {
      ++found;
      return cover;
    };
    expect_equal(known_cover(cache, key, s.saturated.cover, *s.store, find), *s.store, cover, *s.store);
  }
  EXPECT_EQ(found, 1);
}

/// The text with one part of it changed.
std::string changed(std::string text, std::string_view part, std::string_view into) {
  const size_t at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), into);
}

TEST(KnownCovers, ThatAreNoneOfTheGraphAreFoundAgain) {
  const Searched s = training_step();
  const Cover cover = cover_of(s);
  const std::string text = cover_to_text(cover, *s.store);
  Cover without_a_kernel = cover, backwards = cover, of_another_spec = cover, beyond = cover;
  std::erase_if(without_a_kernel.steps, [](const CoverStep& step) { return step.kernel == 0; });
  std::ranges::reverse(backwards.steps);
  for (CoverKernel& kernel : of_another_spec.kernels)  // of other slots
    if (kernel.inputs.size() != of_another_spec.kernels[0].inputs.size())
      kernel.spec = of_another_spec.kernels[0].spec;
  beyond.kernels[0].outputs[0] = static_cast<int>(s.saturated.cover.classes.size());
  Graph smaller;
  smaller.tensor({3}).exp().retrieve();
  const Searched other = test::search(smaller);
  std::vector<std::string> wrong{"",
                                 "x",
                                 "{}",
                                 text.substr(0, text.size() / 2),
                                 text.substr(0, text.rfind('\n')),
                                 changed(text, "\"steps\":[", "\"steps\":[-99,"),
                                 changed(text, "\"steps\":[", "\"steps\":[99999,"),
                                 changed(text, "\"cost_us\":", "\"cost_us\":\"7\",\"cost\":"),
                                 changed(text, "\"spec\":0", "\"spec\":-1"),
                                 cover_to_text(cover_of(other), *other.store)};
  for (const Cover* each : {&without_a_kernel, &backwards, &of_another_spec, &beyond})
    wrong.push_back(cover_to_text(*each, *s.store));
  const TemporaryFolder folder;
  Cache cache(folder.path());
  const CacheKey key = key_of(s);
  for (const std::string& each : wrong) {
    SCOPED_TRACE(each.substr(0, 200));
    EXPECT_FALSE(parse_cover(each, s.saturated.cover, *s.store));
    cache.store_object(key, std::as_bytes(std::span(each)));
    bool is_found = false;
    const auto find = [&] {
      is_found = true;
      return cover;
    };
    expect_equal(known_cover(cache, key, s.saturated.cover, *s.store, find), *s.store, cover, *s.store);
    EXPECT_TRUE(is_found);
  }
  EXPECT_TRUE(parse_cover(text, s.saturated.cover, *s.store));
}

}  // namespace
}  // namespace luminal::search
