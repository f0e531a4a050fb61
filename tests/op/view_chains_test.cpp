// Random chains of views and random einsums: views cost no kernel of their own, and every kernel is made by a
// family that knows its shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "op/written_graph.h"
#include "support/effort.h"

namespace luminal {
namespace {

using test::fill;
using test::WrittenGraph;

/// Views of one to three inputs, joined now and then, and an op that reads the last one.
class ViewChain : public WrittenGraph {
 public:
  explicit ViewChain(uint64_t seed) : WrittenGraph(seed) {
    current_ = fresh();
    const int64_t steps = between(2, 7);
    for (int64_t i = 0; i < steps; ++i) step();
    end();
  }

 private:
  static constexpr int64_t kMost = 20000;
  static int64_t size(const GraphTensor& x, int axis) { return *x.dim(axis).constant(); }
  int64_t draw_size() {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 24};
    return kSizes[between(0, std::size(kSizes) - 1)];
  }
  int axis_of(const GraphTensor& x) { return static_cast<int>(between(0, x.rank() - 1)); }

  GraphTensor fresh() {
    Shape dims;
    int64_t count = 1;
    for (int64_t rank = between(1, 4); rank > 0; --rank) {
      const int64_t n = draw_size();
      if (count * n > 4000) break;
      count *= n;
      dims.emplace_back(n);
    }
    return input(dims);
  }

  void step() {
    static constexpr void (ViewChain::* kSteps[])() = {
        &ViewChain::permuted, &ViewChain::sliced,   &ViewChain::padded,  &ViewChain::expanded,
        &ViewChain::merged,   &ViewChain::split,    &ViewChain::flipped, &ViewChain::joined,
        &ViewChain::stacked,  &ViewChain::repeated, &ViewChain::rolled,  &ViewChain::windows,
        &ViewChain::reshaped, &ViewChain::triangle, &ViewChain::squeezed};
    (this->*kSteps[between(0, std::size(kSteps) - 1)])();
  }
  /// Takes the step unless the result is too large, or has too many axes.
  void take(const GraphTensor& made, const std::string& call) {
    const auto count = element_count(made.dims()).constant();
    if (made.rank() > 6 || !count || *count > kMost || *count == 0) return;
    current_ = named(made, name(current_) + "." + call);
  }

  void permuted() {
    std::vector<int> order(static_cast<size_t>(current_.rank()));
    std::iota(order.begin(), order.end(), 0);
    shuffle(order);
    take(current_.permute(order), "permute(" + list(order) + ")");
  }
  void sliced() {
    if (current_.rank() == 0) return;
    const int axis = axis_of(current_);
    const int64_t n = size(current_, axis), from = between(0, n - 1), to = between(from + 1, n);
    const int64_t every = chance(30) ? between(1, 3) : 1;
    take(current_.slice_along(axis, from, to, every),
         fmt::format("slice_along({}, {}, {}, {})", axis, from, to, every));
  }
  void padded() {
    if (current_.rank() == 0) return;
    const int axis = axis_of(current_);
    const int64_t before = between(0, 3), behind = between(0, 3);
    const double value = chance(70) ? 0 : 1;
    take(current_.pad_along(axis, before, behind, value),
         fmt::format("pad_along({}, {}, {}, {:.1f})", axis, before, behind, value));
  }
  void expanded() {
    const int axis = static_cast<int>(between(0, current_.rank()));
    const int64_t n = draw_size();
    take(current_.expand_dim(axis, n), fmt::format("expand_dim({}, {})", axis, n));
  }
  void merged() {
    if (current_.rank() < 2) return;
    const int axis = static_cast<int>(between(0, current_.rank() - 2));
    take(current_.merge_dims(axis, axis + 1), fmt::format("merge_dims({}, {})", axis, axis + 1));
  }
  void split() {
    if (current_.rank() == 0) return;
    const int axis = axis_of(current_);
    std::vector<int64_t> divisors;
    for (int64_t d = 2; d < size(current_, axis); ++d)
      if (size(current_, axis) % d == 0) divisors.push_back(d);
    if (divisors.empty()) return;
    const int64_t inner = divisors[static_cast<size_t>(between(0, std::ssize(divisors) - 1))];
    take(current_.split_dims(axis, inner), fmt::format("split_dims({}, {})", axis, inner));
  }
  void flipped() {
    if (current_.rank() == 0) return;
    const int axis = axis_of(current_);
    take(current_.flip(axis), fmt::format("flip({})", axis));
  }
  /// Behind another view of itself or an input of its dims.
  void joined() {
    if (current_.rank() == 0) return;
    const int axis = axis_of(current_);
    const GraphTensor other = partner();
    const GraphTensor made = chance(50) ? concat({current_, other}, axis) : concat({other, current_}, axis);
    take_function(made, fmt::format("concat({{{}, {}}}, {})", name(current_), name(other), axis));
  }
  void stacked() {
    const GraphTensor other = partner();
    const int axis = static_cast<int>(between(0, current_.rank()));
    take_function(stack({current_, other}, axis),
                  fmt::format("stack({{{}, {}}}, {})", name(current_), name(other), axis));
  }
  void take_function(const GraphTensor& made, const std::string& call) {
    if (made.rank() > 6 || *element_count(made.dims()).constant() > kMost) return;
    current_ = named(made, call);
  }
  GraphTensor partner() {
    if (current_.rank() > 0 && chance(40)) {
      const int axis = axis_of(current_);
      return named(current_.flip(axis), fmt::format("{}.flip({})", name(current_), axis));
    }
    return input(current_.dims());
  }
  void repeated() {
    Shape times;
    for (int axis = 0; axis < current_.rank(); ++axis) times.emplace_back(chance(30) ? between(2, 3) : 1);
    if (times.empty()) return;
    take(current_.repeat(times), "repeat(" + list(times) + ")");
  }
  void rolled() {
    if (current_.rank() == 0) return;
    const int axis = axis_of(current_);
    const int64_t shift = between(-3, 3);
    take(current_.roll(shift, axis), fmt::format("roll({}, {})", shift, axis));
  }
  void windows() {
    if (current_.rank() == 0) return;
    const int axis = axis_of(current_);
    const int64_t n = size(current_, axis), length = between(1, std::min<int64_t>(n, 4)),
                  every = between(1, 2);
    take(current_.unfold(axis, length, every), fmt::format("unfold({}, {}, {})", axis, length, every));
  }
  void reshaped() {
    int64_t count = *element_count(current_.dims()).constant();
    Shape dims;
    while (count > 1 && dims.size() < 4) {
      std::vector<int64_t> divisors;
      for (int64_t d = 2; d <= std::min<int64_t>(count, 24); ++d)
        if (count % d == 0) divisors.push_back(d);
      if (divisors.empty()) break;
      const int64_t d = divisors[static_cast<size_t>(between(0, std::ssize(divisors) - 1))];
      dims.emplace_back(d);
      count /= d;
    }
    if (count > 1) dims.emplace_back(count);
    take(current_.reshape(dims), "reshape(" + list(dims) + ")");
  }
  void triangle() {
    if (current_.rank() < 2) return;
    const int64_t diagonal = between(-2, 2);
    take(current_.tril(diagonal), fmt::format("tril({})", diagonal));
  }
  void squeezed() {
    if (chance(50)) {
      const int axis = static_cast<int>(between(0, current_.rank()));
      return take(current_.unsqueeze(axis), fmt::format("unsqueeze({})", axis));
    }
    for (int axis = 0; axis < current_.rank(); ++axis)
      if (size(current_, axis) == 1) return take(current_.squeeze(axis), fmt::format("squeeze({})", axis));
  }

  void end() {
    switch (between(0, 4)) {
      case 0:
        return elementwise();
      case 1:
      case 2:
        return reduction();
      default:
        return product();
    }
  }
  void elementwise() {
    const std::string x = name(current_);
    switch (between(0, 2)) {
      case 0:
        return result(named(current_.relu() * 2 + 1, x + ".relu() * 2 + 1"));
      case 1: {
        const GraphTensor other = input(current_.dims());
        return result(named(current_ * other, x + " * " + name(other)));
      }
      default:
        return result(named(current_.exp(), x + ".exp()"));
    }
  }
  void reduction() {
    std::vector<int> axes;
    for (int axis = 0; axis < current_.rank(); ++axis)
      if (chance(50)) axes.push_back(axis);
    if (axes.empty()) return elementwise();
    const std::string x = name(current_);
    if (chance(60)) return result(named(current_.sum(Axes(axes)), x + ".sum(" + list(axes) + ")"));
    if (chance(60)) return result(named(current_.max(Axes(axes)), x + ".max(" + list(axes) + ")"));
    const int axis = axes[0];
    return result(named(current_.softmax(axis), fmt::format("{}.softmax({})", x, axis)));
  }
  void product() {
    if (current_.rank() == 0) return elementwise();
    const GraphTensor weight = input({current_.dim(current_.rank() - 1), draw_size()});
    const std::string text = name(current_) + ".matmul(" + name(weight) + ")";
    const GraphTensor y = current_.matmul(weight);
    if (chance(50)) return result(named(y, text));
    result(named(y.relu() + 1, text + ".relu() + 1"));
  }

  GraphTensor current_;
};

/// One to four operands with letters in any order, some twice in one operand, some of size 1 where others
/// are longer; scalars.
class RandomEinsum : public WrittenGraph {
 public:
  explicit RandomEinsum(uint64_t seed) : WrittenGraph(seed) {
    const int64_t letters = between(1, 6), count = between(1, 4);
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16};
    int64_t all = 1;
    for (int64_t i = 0; i < letters; ++i) {
      const int64_t n = kSizes[between(0, std::size(kSizes) - 1)];
      sizes_.push_back(all * n <= 50'000 ? n : 1);
      all *= sizes_.back();
    }
    std::string equation;
    std::vector<GraphTensor> operands;
    std::set<char> used;
    for (int64_t k = 0; k < count; ++k) {
      const std::string own = operand_letters();
      used.insert(own.begin(), own.end());
      equation += (k > 0 ? "," : "") + own;
      operands.push_back(operand(own));
    }
    std::string out;
    for (const char c : used)
      if (chance(45) && elements(out) * size(c) <= 20000) out += c;
    shuffle(out);
    equation += "->" + out;
    std::vector<std::string> names;
    for (const GraphTensor& x : operands) names.push_back(name(x));
    std::string arguments;
    for (const std::string& n : names) arguments += (arguments.empty() ? "" : ", ") + n;
    const std::string call = "einsum(\"" + equation + "\", {" + arguments + "})";
    const GraphTensor y = einsum(equation, operands);
    // An equation of one operand without a sum is a view, which is stored by a copy; its negative is not.
    if (count == 1 || chance(30))
      result(named(0.5 - y, "0.5 - " + call));
    else
      result(named(y, call));
  }

 private:
  [[nodiscard]] int64_t size(char letter) const { return sizes_[static_cast<size_t>(letter - 'a')]; }
  [[nodiscard]] int64_t elements(const std::string& letters) const {
    int64_t n = 1;
    for (const char c : letters) n *= size(c);
    return n;
  }
  std::string operand_letters() {
    std::string own;
    for (size_t i = 0; i < sizes_.size(); ++i)
      if (chance(50) && elements(own) * sizes_[i] <= 4000) own += static_cast<char>('a' + i);
    if (!own.empty() && chance(15))
      own += own[static_cast<size_t>(between(0, std::ssize(own) - 1))];  // a trace
    shuffle(own);
    return own;
  }
  GraphTensor operand(const std::string& own) {
    Shape dims;
    for (const char c : own) {
      // Both axes of a diagonal have one size.
      const bool once = std::ranges::count(own, c) == 1;
      dims.emplace_back(once && chance(10) ? 1 : size(c));
    }
    return input(dims);
  }

  std::vector<int64_t> sizes_;  ///< by letter
};

/// Sums, maxima and products in the text of a spec.
int64_t fold_count(const std::string& spec) {
  int64_t count = 0;
  for (const std::string word : {"sum ", "max ", "prod "})
    for (size_t at = spec.find(word); at != std::string::npos; at = spec.find(word, at + 1))
      if (spec.find(" in ", at) < spec.find(':', at)) ++count;  // not a function's name
  return count;
}

/// No kernel that only moves data, and none of the family for what has no shape but where that is right:
/// sums within sums, in one launch that the model finds cheaper than all of them apart. Returns how many.
int64_t expect_fast_plan(Graph& cx, const std::vector<GraphTensor>& results, const std::string& text = "") {
  const CompileReport report = test::run_beside_reference(cx, results, 1e-5);
  EXPECT_TRUE(report.host_launches.empty()) << text;
  int64_t sums_within_sums = 0;
  for (const KernelReport& kernel : report.kernels) {
    // A result that is all zeros is stored as well.
    EXPECT_TRUE(kernel.flops > 0 || report.kernels.size() == results.size())
        << "a copy: " << kernel.spec << text;
    if (kernel.schedule == "nest" && fold_count(kernel.spec) > 1 && report.predicted_us <= report.unfused_us)
      ++sums_within_sums;
    else
      EXPECT_NE(kernel.schedule, "nest") << kernel.spec << text;
  }
  return sums_within_sums;
}

constexpr uint64_t kChains = 200;

TEST(ViewChains, TakeNoCopyAndNoNest) {
  for (uint64_t i = 0; i < kChains; ++i) {
    const uint64_t seed = effort::seed(500'000) + i;
    ViewChain chain(seed);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    EXPECT_EQ(expect_fast_plan(chain.cx, chain.results(), chain.text()), 0) << chain.text();
    if (HasFatalFailure()) return;
  }
}

TEST(Einsums, TakeNoCopyAndNoNest) {
  int64_t sums_within_sums = 0;
  for (uint64_t i = 0; i < kChains; ++i) {
    const uint64_t seed = effort::seed(510'000) + i;
    RandomEinsum random(seed);
    SCOPED_TRACE(testing::Message() << "LUMINAL_TEST_SEED=" << seed);
    sums_within_sums += expect_fast_plan(random.cx, random.results(), random.text());
    if (HasFatalFailure()) return;
  }
  EXPECT_LT(sums_within_sums, kChains / 4) << "of some 130 equations with several operands";
}

}  // namespace
}  // namespace luminal
