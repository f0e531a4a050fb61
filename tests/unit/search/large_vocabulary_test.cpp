#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"

// A cross entropy behind a linear layer: its logits, tokens x vocabulary, are never in memory.
namespace luminal::search {
namespace {

constexpr int64_t kTokens = 300, kVocabulary = 2000, kTokenWidth = 12;

struct Vocabulary {
  Graph cx;
  GraphTensor x = cx.tensor({kTokens, kTokenWidth}), w = cx.tensor({kVocabulary, kTokenWidth}),
              target = cx.tensor({kTokens}, Dtype::I32), loss = cross_entropy();

  GraphTensor cross_entropy() {
    const GraphTensor is_target = cx.arange(kVocabulary, Dtype::I32).eq(target.unsqueeze(1));
    return -where(is_target, x.matmul(w.t()).log_softmax(1), 0.0).sum(1).mean();
  }
  std::vector<GraphTensor> results{loss};

  void set() {
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (GraphTensor* each : {&x, &w}) {
      std::vector<float> data(static_cast<size_t>((each == &x ? kTokens : kVocabulary) * kTokenWidth));
      for (float& number : data) number = normal(random);
      each->set(data);
    }
    std::vector<int32_t> classes(kTokens);
    for (int32_t& c : classes) c = static_cast<int32_t>(random() % kVocabulary);
    target.set(classes);
  }
  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> list;
    for (GraphTensor& each : results) list.push_back(each.data<float>());
    return list;
  }
  void check() {
    for (GraphTensor& each : results) each.retrieve();
    cx.set_search({.large_bytes = 0});
    set();
    cx.set_device("cpu");
    const CompileReport report = cx.compile(Fast{}).details();
    EXPECT_LT(report.arena_bytes, int64_t{4} * kTokens * kVocabulary) << to_text(report);
    cx.compile(Fast{})();
    const auto got = values();
    cx.set_device("reference");
    cx.execute();
    const auto want = values();
    for (size_t k = 0; k < got.size(); ++k)
      EXPECT_THAT(got[k], testing::Pointwise(testing::FloatNear(1e-5F), want[k])) << "result " << k;
  }
};

TEST(LargeVocabulary, TheLossKeepsNoLogits) { Vocabulary().check(); }

TEST(LargeVocabulary, ItsGradientsKeepNoLogits) {
  Vocabulary v;
  for (const GraphTensor& gradient : v.cx.run_pass(Autograd(std::vector{v.x, v.w}, v.loss)))
    v.results.push_back(gradient);
  v.check();
}

}  // namespace
}  // namespace luminal::search
