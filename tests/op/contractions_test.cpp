// Random products and sums of products: each of them runs as a contraction and is right.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "luminal/luminal.h"
#include "support/effort.h"
#include "unit/passes/random_graph.h"
#include "unit/search/pipeline.h"

namespace luminal {
namespace {

/// Draws a product over tensors of its own graph. Rows, columns and the sum have at least 16 elements each:
/// what is smaller may well be faster some other way.
class RandomProduct {
 public:
  explicit RandomProduct(uint64_t seed) : engine_(seed) {
    static constexpr void (RandomProduct::* kKinds[])() = {
        &RandomProduct::equation, &RandomProduct::batched, &RandomProduct::heads,
        &RandomProduct::grouped_heads, &RandomProduct::merged_batch};
    (this->*kKinds[between(0, std::size(kKinds) - 1)])();
    if (chance(25)) differentiate();
    for (GraphTensor& r : results_) r.retrieve();
    fill();
  }

  Graph cx;
  [[nodiscard]] const std::vector<GraphTensor>& results() const { return results_; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(engine_() % static_cast<uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  template <class T>
  void shuffle(T& values) {
    for (size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[static_cast<size_t>(between(0, static_cast<int64_t>(i) - 1))]);
  }

  /// A size of about `least` or more; a named dim at times.
  Expression size(int64_t least, int64_t most) {
    const int64_t value = between(least, most);
    if (!chance(20)) return value;
    const std::string name = "d" + std::to_string(named_++);
    sizes_[name] = value;  // set once a tensor has the dim
    return name;
  }
  Expression batch_size() { return size(2, 5); }
  Expression long_size() { return size(16, 40); }

  /// A tensor of these dims that lies in memory in any order of its axes.
  GraphTensor tensor(const Shape& dims) {
    std::vector<int> order(dims.size());
    std::iota(order.begin(), order.end(), 0);
    if (chance(50)) shuffle(order);
    Shape stored;
    std::vector<int> back(order.size());
    for (size_t k = 0; k < order.size(); ++k) {
      stored.push_back(dims[static_cast<size_t>(order[k])]);
      back[static_cast<size_t>(order[k])] = static_cast<int>(k);
    }
    inputs_.push_back(cx.tensor(stored));
    for (const std::string& name : cx.dim_names()) cx.set_dim(name, sizes_.at(name));
    std::string text = to_string(stored) + ".permute(";
    for (const int a : back) text += std::to_string(a) + " ";
    text_ += text + ") ";
    return inputs_.back().permute(back);
  }

  /// Letters in any order, several of each kind.
  void equation() {
    std::string left, right, out;
    std::map<char, Expression> sizes;
    char next = 'a';
    const auto add = [&](std::initializer_list<std::string*> where, int64_t count, bool is_long) {
      for (; count > 0; --count, is_long = false) {
        sizes[next] = is_long ? long_size() : batch_size();
        for (std::string* s : where) *s += next;
        ++next;
      }
    };
    const int64_t batch = between(0, 2);
    add({&left, &right, &out}, batch, false);
    add({&left, &out}, between(1, 2), true);
    add({&right, &out}, between(1, 2), true);
    add({&left, &right}, batch == 2 ? 1 : between(1, 2), true);
    for (std::string* s : {&left, &right, &out}) shuffle(*s);
    const auto operand = [&](const std::string& letters) {
      Shape dims;
      for (const char c : letters) dims.push_back(sizes[c]);
      return tensor(dims);
    };
    const GraphTensor a = operand(left), b = operand(right);
    text_ += left + "," + right + "->" + out;
    results_ = {einsum(left + "," + right + "->" + out, {a, b})};
  }

  /// Leading axes that broadcast, or that one side has not.
  void batched() {
    const int64_t rank = between(0, 3);
    Shape batch, left, right;
    for (int64_t k = 0; k < rank; ++k) batch.push_back(batch_size());
    const auto own = [&](bool open) {
      Shape dims;
      for (const Expression& b : batch) {
        const bool one = open && chance(25);
        if (!(one && dims.empty() && chance(50))) dims.push_back(one ? Expression(1) : b);
      }
      return dims;
    };
    const bool first = chance(50);
    left = own(first), right = own(!first);
    const Expression m = long_size(), n = long_size(), k = long_size();
    left.insert(left.end(), {m, k});
    right.insert(right.end(), {k, n});
    const GraphTensor a = tensor(left), b = tensor(right);
    text_ += "matmul";
    results_ = {a.matmul(b)};
  }

  /// [batch, sequence, heads * size] as [batch, heads, sequence, size].
  GraphTensor split_heads(const Expression& batch, const Expression& length, int64_t heads, int64_t size) {
    return tensor({batch, length, heads * size}).split_dims(2, size).permute({0, 2, 1, 3});
  }
  /// Scores of all heads, or what they weigh, put together again.
  void heads() {
    const Expression b = batch_size(), s = long_size(), t = long_size();
    const int64_t h = between(2, 4), d = between(16, 24);
    if (chance(50)) {
      text_ += "scores of heads ";
      results_ = {split_heads(b, s, h, d).matmul(split_heads(b, t, h, d).transpose(-2, -1))};
    } else {
      text_ += "values of heads ";
      const GraphTensor weights = tensor({b, h, s, t});
      results_ = {weights.matmul(split_heads(b, t, h, d)).permute({0, 2, 1, 3}).merge_dims(2, 3)};
    }
  }
  /// Several heads of the queries read one of the keys.
  void grouped_heads() {
    const Expression b = batch_size(), s = long_size(), t = long_size();
    const int64_t h = between(2, 3), g = between(2, 3), d = between(16, 24);
    const GraphTensor q = tensor({b, h * g, s, d}), k = tensor({b, h, t, d});
    text_ += "grouped heads";
    if (chance(50))
      results_ = {q.split_dims(1, g).matmul(k.unsqueeze(2).transpose(-2, -1)).merge_dims(1, 2)};
    else
      results_ = {q.matmul(k.expand_dim(2, g).merge_dims(1, 2).transpose(-2, -1))};
  }
  /// A batch that is merged before the product and split behind it.
  void merged_batch() {
    const Expression b = batch_size();
    const int64_t h = between(2, 4);
    const Expression m = long_size(), n = long_size(), k = long_size();
    GraphTensor x = tensor({b, h, m, k}).merge_dims(0, 1);
    if (chance(50)) x = x.flip(0);
    const GraphTensor y = tensor({b, h, k, n}).merge_dims(0, 1);
    text_ += "merged batch";
    GraphTensor product = x.matmul(y);
    if (chance(50)) product = product.split_dims(0, h);
    results_ = {product};
  }

  /// The gradients of both operands in place of the product.
  void differentiate() {
    text_ += ", gradients";
    const std::vector<GraphTensor> operands = inputs_;
    const GraphTensor upstream = tensor(results_[0].dims());
    results_ = cx.run_pass(Autograd(operands, (results_[0] * upstream).sum()));
  }

  void fill() {
    for (const GraphTensor& x : inputs_) {
      const std::vector<int64_t> dims = exec(x.dims(), cx.dims());
      std::vector<float> data(
          static_cast<size_t>(std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>())));
      for (float& v : data) v = static_cast<float>(between(-8, 8)) / 8;
      GraphTensor(x).set_dyn(data, dims);
    }
  }

  std::mt19937_64 engine_;
  int named_ = 0;
  std::map<std::string, int64_t> sizes_;  ///< of named dims
  std::vector<GraphTensor> inputs_, results_;
  std::string text_;
};

/// Every kernel of Fast mode's plan is a contraction.
void expect_contractions(const CompileReport& report) {
  for (const KernelReport& kernel : report.kernels) EXPECT_EQ(kernel.schedule, "contract") << kernel.spec;
}

constexpr uint64_t kProducts = 300;
class Contractions : public testing::TestWithParam<uint64_t> {};  // the first of so many seeds

TEST_P(Contractions, OfAnyLayout) {
  for (uint64_t i = 0; i < kProducts; ++i) {
    const uint64_t seed = effort::seed(GetParam()) + i;
    RandomProduct random(seed);
    Graph& cx = random.cx;
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed << ": " << random.text());
    cx.set_device("reference");
    cx.execute();
    std::vector<TensorData> wanted;
    for (const GraphTensor& r : random.results()) wanted.push_back(*cx.value(r.edge().source));
    cx.set_device("cpu");
    auto run = cx.compile(Fast{});
    run();
    const CompileReport report = run.details();
    EXPECT_EQ(report.kernels.size(), random.results().size()) << to_text(report);
    expect_contractions(report);
    for (size_t k = 0; k < wanted.size(); ++k)
      search::test::expect_near(*cx.value(random.results()[k].edge().source), wanted[k], 2e-4, "result");
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(From, Contractions, testing::Values(1, 301, 601, 901));

/// Lanes would pass the end of a row in memory with every fourth result: neighbours that are read as
/// scattered elements.
TEST(InnermostBatch, IsAContraction) {
  for (const auto& [rows, columns, summed, batch] : std::vector<std::array<int64_t, 4>>{
           {16, 16, 16, 4}, {18, 27, 30, 4}, {40, 40, 40, 5}, {64, 64, 64, 8}}) {
    Graph cx;
    GraphTensor a = cx.tensor({rows, summed, batch}), b = cx.tensor({columns, summed, batch});
    GraphTensor product = (a.unsqueeze(1) * b.unsqueeze(0)).sum(2).retrieve();
    a.set(std::vector<float>(static_cast<size_t>(rows * summed * batch), 0.5F));
    b.set(std::vector<float>(static_cast<size_t>(columns * summed * batch), 2));
    cx.set_device("cpu");
    auto run = cx.compile(Fast{});
    run();
    expect_contractions(run.details());
    for (const float x : product.data<float>()) ASSERT_EQ(x, static_cast<float>(summed));
  }
}

}  // namespace
}  // namespace luminal
