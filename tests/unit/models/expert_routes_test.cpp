#include "models/expert_routes.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "luminal/compile_report.h"
#include "luminal/luminal.h"

// Rows of a mixture of experts in blocks of one expert each.
namespace luminal::models {
namespace {

struct Mixture {
  int64_t tokens = 1, experts = 4, used = 2, in = 32, out = 8;
  Dtype weights = Dtype::F32;
  Expression rows = 1;  ///< of the graph: the tokens, or a named dim

  Graph cx;
  GraphTensor x, which, weight, y;

  void build() {
    rows = rows == Expression(1) ? Expression(tokens) : rows;
    x = cx.named_tensor("x", {rows, in});
    which = cx.named_tensor("which", {rows, used}, Dtype::I64);
    weight = cx.named_tensor("weight", {experts, out, in}, weights);
    const ExpertRoutes routes(which, experts);
    const GraphTensor each =
        routes.in_blocks(x).unsqueeze(1).matmul(weight.cast(Dtype::F32).transpose(-2, -1));
    y = routes.by_token(routes.by_expert(each)).retrieve();
  }
};

std::vector<float> numbers(int64_t count, std::mt19937& random) {
  std::vector<float> all(static_cast<size_t>(count));
  for (float& each : all) each = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return all;
}

/// The experts of each token, no two alike; `few`: all tokens use the first ones.
std::vector<int64_t> chosen(const Mixture& m, bool few, std::mt19937& random) {
  std::vector<int64_t> all;
  for (int64_t t = 0; t < m.tokens; ++t) {
    const int64_t first = few ? 0 : static_cast<int64_t>(random() % static_cast<uint64_t>(m.experts));
    for (int64_t u = 0; u < m.used; ++u) all.push_back((first + u) % m.experts);
  }
  return all;
}

void expect_right(Mixture m, bool few, bool is_named) {
  std::mt19937 random(7);
  if (is_named) m.rows = Expression::dim("n", {.min = 1, .max = 64});
  m.build();
  const std::vector<float> x = numbers(m.tokens * m.in, random),
                           w = numbers(m.experts * m.out * m.in, random);
  const std::vector<int64_t> which = chosen(m, few, random);
  if (is_named) m.cx.set_dim("n", m.tokens);
  m.x.set_dyn(x, {m.tokens, m.in});
  m.which.set_dyn(which, {m.tokens, m.used});
  m.weight.set(w);
  m.cx.compile(Fast{});
  m.cx.execute();
  const std::vector<float> y = m.y.data<float>();
  ASSERT_EQ(std::ssize(y), m.tokens * m.used * m.out);
  for (int64_t row = 0; row < m.tokens * m.used; ++row)
    for (int64_t o = 0; o < m.out; ++o) {
      float sum = 0;
      for (int64_t i = 0; i < m.in; ++i)
        sum += x[static_cast<size_t>(row / m.used * m.in + i)] *
               w[static_cast<size_t>((which[static_cast<size_t>(row)] * m.out + o) * m.in + i)];
      ASSERT_EQ(y[static_cast<size_t>(row * m.out + o)], sum) << fmt::format(
          "{} tokens, {} of {} experts, row {}, element {}", m.tokens, m.used, m.experts, row, o);
    }
}

TEST(ExpertRoutes, GiveEachTokenWhatItsExpertsMakeOfIt) {
  for (const int64_t tokens : {1, 2, 3, 17, 64})
    for (const auto& [experts, used] : {std::pair(4, 2), std::pair(1, 1), std::pair(7, 7), std::pair(60, 3)})
      for (const bool few : {false, true})
        for (const bool is_named : {false, true})
          expect_right({.tokens = tokens, .experts = experts, .used = used}, few, is_named);
}

/// Kernels of all experts' products are one for each weight, which computes those that are named.
TEST(ExpertRoutes, NothingElseIsComputed) {
  for (const Dtype weights : {Dtype::F32, Dtype::F16, Dtype::Q8_0})
    for (const int64_t tokens : {1, 128}) {
      Mixture m{.tokens = tokens, .experts = 128, .used = 8, .in = 256, .out = 96, .weights = weights};
      m.rows = Expression::dim("n", {.min = 1, .max = 512});
      m.build();
      m.cx.set_device("cpu");
      m.cx.set_dim("n", tokens);
      const CompileReport report = m.cx.compile(Fast{}).details();
      int routed = 0;
      for (const KernelReport& kernel : report.kernels) {
        routed += kernel.schedule == "routed" ? 1 : 0;
        EXPECT_NE(kernel.schedule, "contract") << kernel.spec;
      }
      EXPECT_EQ(routed, 1) << tokens << " tokens";
    }
}

}  // namespace
}  // namespace luminal::models
