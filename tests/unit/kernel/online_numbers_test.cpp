#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "graph/data_input.h"
#include "kernel/canonical_steps.h"
#include "kernel/evaluate.h"
#include "kernel/fetch.h"
#include "kernel/online.h"
#include "luminal/luminal.h"
#include "luminal/scalar_math.h"
#include "scalar/interpreter.h"
#include "unit/kernel/check.h"

// Sums that follow a rising maximum, added up as kernels do, beside the same sums as they are defined; and near-misses,
// which follow none.
namespace luminal::kernel::test {
namespace {

/// Computes a spec as `evaluate` does, but for its online sums: these go through their terms once, together with the
/// maximum, and are rescaled where it rises. For f32.
class OnlineEvaluator {
 public:
  OnlineEvaluator(const KernelSpec& spec, std::span<const TensorData> slots) : spec_(spec) {
    for (const TensorData& slot : slots) slots_.push_back(&slot);
    for (const Expression& e : spec.extents()) sizes_.push_back(e.exec({}));
  }

  /// What each value is, over its free axes.
  std::vector<std::vector<float>> run() {
    for (size_t v = 0; v < spec_.values().size(); ++v) values_.push_back(of(static_cast<int>(v)));
    return values_;
  }

 private:
  std::vector<float> of(int number) {
    const Value& v = spec_.values()[static_cast<size_t>(number)];
    const IterationSpace outer(v.axes, sizes_);
    std::vector<float> result;
    std::vector<int64_t> at(sizes_.size(), 0);
    for (int64_t i = 0; i < outer.count(); ++i, outer.step(at))
      result.push_back(v.online ? online(number, at) : plain(v, at));
    return result;
  }

  float plain(const Value& v, std::vector<int64_t> at) const {
    const IterationSpace inner(v.reduced, sizes_);
    inner.start(at);
    double folded = v.monoid == Monoid::Max   ? -HUGE_VAL
                    : v.monoid == Monoid::Min ? HUGE_VAL
                    : v.monoid == Monoid::Mul ? 1
                                              : 0;
    for (int64_t k = 0; k < inner.count(); ++k, inner.step(at)) {
      const float term = term_of(v, at);
      switch (v.monoid.value_or(Monoid::Add)) {
        case Monoid::Add:
          folded += term;
          break;
        case Monoid::Mul:
          folded *= term;
          break;
        case Monoid::Max:
          folded = std::isnan(folded) || folded >= term ? folded : term;  // NaN stays
          break;
        case Monoid::Min:
          folded = std::isnan(folded) || folded <= term ? folded : term;
          break;
      }
    }
    return static_cast<float>(folded);
  }

  float online(int number, std::vector<int64_t> at) const {
    const Value& v = spec_.values()[static_cast<size_t>(number)];
    const auto how = online_of(spec_.values(), number);
    EXPECT_TRUE(how.has_value());
    if (!how) return 0;
    const IterationSpace inner(v.reduced, sizes_);
    inner.start(at);
    float maximum = -HUGE_VALF, sum = 0;
    std::vector<float> operands;
    for (int64_t k = 0; k < inner.count(); ++k, inner.step(at)) {
      const float x = term_of(spec_.values()[static_cast<size_t>(how->maximum)], at);
      const float risen = std::max(maximum, x);
      operands = operands_of(v, at);
      if (risen != maximum) sum *= call(how->rescale, operands, {maximum, risen});
      maximum = risen;
      for (size_t j = 0; j < operands.size(); ++j)
        if (v.operands[j].kind == Operand::Kind::Value && v.operands[j].value == how->maximum)
          operands[j] = maximum == -HUGE_VALF ? 0 : maximum;  // nothing is added before there is a maximum
      sum += call(how->terms, operands, {x});
    }
    return maximum == -HUGE_VALF ? sum * call(how->nothing, operands, {maximum}) : sum;
  }

  [[nodiscard]] float term_of(const Value& v, std::span<const int64_t> at) const {
    return call(v.body, operands_of(v, at), {});
  }
  [[nodiscard]] std::vector<float> operands_of(const Value& v, std::span<const int64_t> at) const {
    std::vector<float> list;
    for (const Operand& o : v.operands) list.push_back(read(o, at));
    return list;
  }
  [[nodiscard]] float read(const Operand& o, std::span<const int64_t> at) const {
    if (o.kind == Operand::Kind::Value) {
      const IterationSpace space(spec_.values()[static_cast<size_t>(o.value)].axes, sizes_);
      return values_[static_cast<size_t>(o.value)][static_cast<size_t>(space.position(at))];
    }
    TensorData element(o.dtype, {1});
    const DimMap no_dims;
    OperandReader(o, slots_, no_dims).read(at, element.bytes.data());
    return convert(element, Dtype::F32).as<float>()[0];
  }
  /// Inputs are held in the dtypes that the function asks for.
  [[nodiscard]] static float call(const ScalarFunction& f, std::vector<float> inputs,
                                  std::vector<float> further) {
    inputs.insert(inputs.end(), further.begin(), further.end());
    std::vector<TensorData> held;
    for (const float x : inputs) held.push_back(TensorData::of<float>({1}, std::vector<float>{x}));
    for (const ScalarNode& n : f.nodes())
      if (n.op == ScalarOp::Input) held[n.payload] = convert(held[n.payload], n.dtype);
    std::vector<const void*> pointers;
    for (const TensorData& each : held) pointers.push_back(each.bytes.data());
    TensorData result(f[f.outputs()[0]].dtype, {1});
    void* out = result.bytes.data();
    const ScalarInterpreter interpreter(f);
    interpreter(1, pointers, {}, {&out, 1});
    return convert(result, Dtype::F32).as<float>()[0];
  }

  const KernelSpec& spec_;
  std::vector<const TensorData*> slots_;
  std::vector<int64_t> sizes_;
  std::vector<std::vector<float>> values_;
};

/// Inputs of a case: 4 rows of 9, of which one rises, one falls, one is minus infinity here and there and one everywhere;
/// and others.
struct Given {
  Graph cx;
  GraphTensor x = cx.tensor({4, 9}), w = cx.tensor({4, 9}), t = cx.tensor({4, 1}), y = cx.tensor({4, 7}),
              cube = cx.tensor({2, 3, 5});
  GraphTensor m = x.max({1}, true), e = (x - m).exp();

  Given() {
    std::mt19937_64 random(5);
    std::normal_distribution<float> normal;
    for (GraphTensor tensor : {x, w, t, y, cube}) {
      int64_t count = 1;
      for (int axis = 0; axis < tensor.rank(); ++axis) count *= *tensor.dim(axis).constant();
      std::vector<float> data(static_cast<size_t>(count));
      for (float& each : data) each = 2 * normal(random);
      if (tensor.edge().source == x.edge().source)
        for (size_t i = 0; i < 9; ++i)
          data[i] = static_cast<float>(i) - 3, data[9 + i] = 5 - static_cast<float>(i);
      if (tensor.edge().source == x.edge().source) data[18] = data[19] = data[25] = -HUGE_VALF;
      if (tensor.edge().source == x.edge().source) std::fill(data.begin() + 27, data.end(), -HUGE_VALF);
      tensor.set(data);
    }
  }
};

struct SumCase {
  const char* name;
  int online;  ///< sums that follow a maximum
  std::function<GraphTensor(Given&)> build;
};
void PrintTo(const SumCase& c, std::ostream* out) { *out << c.name; }

GraphTensor total(const GraphTensor& terms) { return terms.sum({1}); }

const std::vector<SumCase>& sums_that_follow() {
  static const std::vector<SumCase> list{
      {"exponentials", 1, [](Given& g) { return total(g.e); }},
      {"powers_of_two", 1, [](Given& g) { return total((g.x - g.m).exp2()); }},
      {"weighted", 1, [](Given& g) { return total(g.e * g.w); }},
      {"weighted_from_the_left", 1, [](Given& g) { return total(g.w * g.e); }},
      {"negated", 1, [](Given& g) { return total(-(g.e * g.w)); }},
      {"divided_by_numbers", 1, [](Given& g) { return total(g.e / (g.w.square() + 1)); }},
      {"two_multiples", 1, [](Given& g) { return total(g.e * g.w + g.e * 3.0); }},
      {"a_difference_of_multiples", 1, [](Given& g) { return total(g.e * g.w - g.e); }},
      {"chosen_by_numbers", 1, [](Given& g) { return total(where(g.w.gt(0), g.e * g.w, 0)); }},
      {"chosen_otherwise", 1, [](Given& g) { return total(where(g.w.gt(0), 0, g.e)); }},
      {"scaled", 1, [](Given& g) { return total(((g.x - g.m) * 0.25).exp()); }},
      {"a_scaled_maximum", 1, [](Given& g) { return total((g.x * 3.0 - (g.x * 3.0).max({1}, true)).exp()); }},
      {"a_maximum_scaled", 1, [](Given& g) { return total((g.x * 3.0 - g.m * 3.0).exp()); }},
      {"shifted_by_rows", 1, [](Given& g) { return total(((g.x + g.t) - (g.m + g.t)).exp()); }},
      {"shifted_down_by_rows", 1, [](Given& g) { return total(((g.x - g.t) - (g.m - g.t)).exp()); }},
      {"at_least_a_row", 1, [](Given& g) { return total((g.x - g.m.maximum(g.t)).exp()); }},
      {"a_finite_maximum", 1,
       [](Given& g) { return total((g.x - where(g.m.isfinite(), g.m, 0)).exp() * g.w); }},
      {"beside_other_sums", 1, [](Given& g) { return total(g.e * g.y.sum({1}, true)); }},
      {"beside_a_maximum_of_others", 1, [](Given& g) { return total(g.e * g.w.max({1}, true)); }},
      {"softmax_times_numbers", 2, [](Given& g) { return total(g.x.softmax(1) * g.w); }},
      {"softmax_chosen", 2, [](Given& g) { return total(where(g.w.gt(0), g.x.softmax(1) * g.w, 0)); }},
      {"softmax_chosen_otherwise", 2,
       [](Given& g) { return total(where(g.w.gt(0), 0, g.x.softmax(1) * g.w)); }},
      {"softmax_divided", 2, [](Given& g) { return total(g.x.softmax(1) / (g.w.square() + 1)); }},
      {"softmax_negated", 2, [](Given& g) { return total(-g.x.softmax(1) * g.w); }},
      {"softmax_by_division", 2, [](Given& g) { return total(g.e / g.e.sum({1}, true) * g.w); }},
      {"weights_that_round", 1, [](Given& g) { return total(g.e * g.w.cast(Dtype::BF16).cast(Dtype::F32)); }},
  };
  return list;
}

const std::vector<SumCase>& near_misses() {
  static const std::vector<SumCase> list{
      {"a_maximum_of_exponentials", 0, [](Given& g) { return (g.e * g.w).max({1}); }},
      {"squared", 0, [](Given& g) { return total(g.e * g.e); }},
      {"a_row_more", 0, [](Given& g) { return total(g.e + g.w); }},
      {"less_a_row", 0, [](Given& g) { return total(g.w - g.e); }},
      {"one_more", 0, [](Given& g) { return total(g.e + 1.0); }},
      {"divided_by_it", 0, [](Given& g) { return total(g.w / (g.e + 1)); }},
      {"divided_by_the_maximum", 0, [](Given& g) { return total(g.e / (g.m.square() + 1)); }},
      {"times_the_maximum", 0, [](Given& g) { return total(g.e * g.m); }},
      {"the_maximum_times_it", 0, [](Given& g) { return total(g.m * g.e); }},
      {"chosen_by_the_maximum", 0, [](Given& g) { return total(where(g.m.gt(1), g.e, 0)); }},
      {"else_one", 0, [](Given& g) { return total(where(g.w.gt(0), g.e, 1)); }},
      {"one_or_it", 0, [](Given& g) { return total(where(g.w.gt(0), 1, g.e)); }},
      {"else_a_row", 0, [](Given& g) { return total(where(g.w.gt(0), g.e, g.w)); }},
      {"its_negative_power", 0, [](Given& g) { return total(((g.x - g.m) * -2.0).exp()); }},
      {"scaled_by_rows", 0, [](Given& g) { return total(((g.x - g.m) * g.t).exp()); }},
      {"one_less", 0, [](Given& g) { return total((g.x - g.m).expm1()); }},
      {"hyperbolic", 0, [](Given& g) { return total((g.x - g.m).tanh()); }},
      {"less_the_mean", 0, [](Given& g) { return total((g.x - g.x.sum({1}, true)).exp()); }},
      {"less_the_minimum", 0, [](Given& g) { return total((g.x - g.x.min({1}, true)).exp()); }},
      {"a_maximum_of_others", 0, [](Given& g) { return total((g.x - g.w.max({1}, true)).exp()); }},
      {"a_maximum_of_all", 0, [](Given& g) { return total((g.x - g.x.max({0, 1}, true)).exp()); }},
      {"a_maximum_that_comes_down", 0, [](Given& g) { return total((g.x - g.m.minimum(3.0)).exp()); }},
      {"a_negated_maximum", 0, [](Given& g) { return total((g.x * -3.0 - g.m * -3.0).exp()); }},
      {"three_less_a_maximum", 0, [](Given& g) { return total(((3.0 - g.x) - (3.0 - g.m)).exp()); }},
      {"a_maximum_times_rows", 0, [](Given& g) { return total((g.x * g.t - g.m * g.t).exp()); }},
      {"other_factors", 0, [](Given& g) { return total((g.x * 2.0 - g.m * 3.0).exp()); }},
      {"both_with_the_maximum", 0, [](Given& g) { return total(((g.x + g.m) - (g.m + g.m)).exp()); }},
      {"less_numbers_too", 0, [](Given& g) { return total((g.x - (g.m + g.w)).exp()); }},
      {"the_greater_of_two_of_it", 0, [](Given& g) { return total((g.x - g.m.maximum(3.0 - g.m)).exp()); }},
      {"chosen_where_it_is_great", 0, [](Given& g) { return total((g.x - where(g.m.gt(1), g.m, 0)).exp()); }},
      {"chosen_beside_itself", 0,
       [](Given& g) { return total((g.x - where(g.m.isfinite(), g.m, g.m * 2.0)).exp()); }},
      {"as_a_whole_number", 0, [](Given& g) { return total((g.e * 9.0).cast(Dtype::I32).cast(Dtype::F32)); }},
      {"beside_the_maximum_of_its_weights", 0,
       [](Given& g) { return total(g.e * g.w * g.w.max({1}, true)); }},
      {"beside_the_maximum_of_its_numbers", 0,
       [](Given& g) { return total((g.w - g.w.max({1}, true)).exp() * g.x * g.m); }},
      {"less_the_sum_beside_a_maximum", 0,
       [](Given& g) { return total((g.w - g.w.sum({1}, true)).exp() * g.y.max({1}, true)); }},
      {"less_the_minimum_beside_a_maximum", 0,
       [](Given& g) { return total((g.w - g.w.min({1}, true)).exp() * g.y.max({1}, true)); }},
      {"a_sum_over_more_than_the_maximum", 0,
       [](Given& g) { return (g.cube - g.cube.max({1}, true)).exp().sum({1, 2}); }},
      {"a_maximum_over_more_than_the_sum", 0,
       [](Given& g) { return (g.cube - g.cube.max({1, 2}, true)).exp().sum({1}); }},
      {"weighted_and_scaled_by_rows", 0, [](Given& g) { return total(g.w * (g.t * (g.x - g.m)).exp()); }},
      {"scaled_by_rows_of_its_own", 0,
       [](Given& g) { return total(g.w * ((g.x - g.m) * g.y.sum({1}, true)).exp()); }},
      {"plus_the_maximum", 0, [](Given& g) { return total((g.x + g.m).exp()); }},
      {"plus_the_maximum_and_a_row", 0, [](Given& g) { return total((g.x + (g.m + g.t)).exp()); }},
      {"a_row_and_the_maximum_more", 0, [](Given& g) { return total(((g.t + g.m) + g.x).exp()); }},
      {"both_with_numbers", 0, [](Given& g) { return total(((g.x + g.w) - (g.m + g.w)).exp()); }},
      {"what_it_divides", 0, [](Given& g) { return total(g.w / g.e); }},
      {"chosen_where_rows_are_great", 0,
       [](Given& g) {
         const GraphTensor chosen = g.m.lt(HUGE_VAL).logical_and(g.t.gt(0));
         return total((g.x - where(chosen, g.m, 0)).exp());
       }},
      {"chosen_by_finite_rows", 0,
       [](Given& g) { return total((g.x - where(g.t.lt(HUGE_VAL), g.m, 0)).exp()); }},
      {"chosen_where_twice_it_is_finite", 0,
       [](Given& g) { return total((g.x - where((g.m * 2.0).lt(HUGE_VAL), g.m, 0)).exp()); }},
      {"a_difference_that_falls", 0,
       [](Given& g) { return total(((g.x * 3.0 - g.x * 5.0) - (g.m * 3.0 - g.m * 5.0)).exp()); }},
      {"great_numbers_by_a_sum", 0,
       [](Given& g) {
         const GraphTensor size = g.w.abs() + 1;
         return total(size * 5e37 / size.sum({1}, true) * g.y.max({1}, true));
       }},
      {"softmax_or_a_row", 1, [](Given& g) { return total(where(g.w.gt(0), g.w, g.x.softmax(1))); }},
      {"a_maximum_of_softmax", 1, [](Given& g) { return (g.x.softmax(1) * g.w).max({1}); }},
      {"softmax_squared", 1, [](Given& g) { return total(g.x.softmax(1).square()); }},
      {"softmax_and_a_row", 1, [](Given& g) { return total(g.x.softmax(1) + g.w); }},
      {"softmax_else_one", 1, [](Given& g) { return total(where(g.w.gt(0), g.x.softmax(1), 1)); }},
  };
  return list;
}

class OnlineSums : public testing::TestWithParam<SumCase> {};

/// Whatever is marked is right.
TEST_P(OnlineSums, AreWhatTheyAreByDefinition) {
  Given given;
  GraphTensor y = GetParam().build(given);
  const auto fused = WholeFusion(given.cx, 3).run(y.edge().source);
  ASSERT_TRUE(fused.has_value());
  const KernelSpec& spec = fused->spec;
  EXPECT_EQ(std::ranges::count_if(spec.values(), &Value::online), GetParam().online) << spec.to_string();
  const std::vector<TensorData> slots = data_of(given.cx, *fused);
  const auto values = OnlineEvaluator(spec, slots).run();
  const TensorData by_definition = evaluate(spec, slots)[0];
  const auto wanted = by_definition.as<float>();
  const auto& got = values[static_cast<size_t>(spec.outputs()[0].value)];
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const bool is_same = got[i] == wanted[i] || (std::isnan(got[i]) && std::isnan(wanted[i]));
    if (is_same) continue;
    EXPECT_NEAR(got[i], wanted[i], 2e-6 * (1 + std::abs(wanted[i]))) << "row " << i << "\n"
                                                                     << spec.to_string();
  }
}

/// Nor does fusing change the user's nodes.
TEST_P(OnlineSums, AreWhatTheNodesSay) {
  Given given;
  GraphTensor y = GetParam().build(given);
  (void)check(given.cx, y, 1e-5);
}

std::string sum_name(const testing::TestParamInfo<SumCase>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Follow, OnlineSums, testing::ValuesIn(sums_that_follow()), sum_name);
INSTANTIATE_TEST_SUITE_P(NearMisses, OnlineSums, testing::ValuesIn(near_misses()), sum_name);

// --- Values written by hand, in forms that graphs of users do not come to

/// x[i,j] and w[i,j], their maxima m and n over j, a row's number t[i], and the sum over j of what `terms` makes of these.
struct ByHand {
  using Terms = std::function<Scalar(ScalarBuilder&, Scalar x, Scalar w, Scalar m, Scalar n, Scalar t)>;

  static Operand load(int slot, bool is_row = false) {
    const Expression at =
        is_row ? Expression::index(0, 4) : Expression::index(0, 4) * 9 + Expression::index(1, 9);
    return {.dtype = Dtype::F32, .slot = slot, .index = at, .masks = {}};
  }
  static Operand value(int number) {
    return {.kind = Operand::Kind::Value, .dtype = Dtype::F32, .value = number, .masks = {}};
  }
  static Value maximum(int slot) {
    ScalarBuilder b;
    return {.axes = {0},
            .reduced = {1},
            .monoid = Monoid::Max,
            .body = b.finish(b.input(0, Dtype::F32)),
            .operands = {load(slot)}};
  }
  static std::vector<Value> values(const Terms& terms, std::vector<int> reduced = {1}) {
    ScalarBuilder b;
    std::vector<Scalar> in;
    for (int k = 0; k < 5; ++k) in.push_back(b.input(k, Dtype::F32));
    const Scalar root = terms(b, in[0], in[1], in[2], in[3], in[4]);
    std::vector<Value> list{maximum(0), maximum(1)};
    list.push_back({.axes = {0},
                    .reduced = std::move(reduced),
                    .monoid = Monoid::Add,
                    .body = b.finish(root),
                    .operands = {load(0), load(1), value(0), value(1), load(2, true)}});
    return list;
  }
  static bool follows(const Terms& terms, std::vector<int> reduced = {1}) {
    std::vector<Value> list = values(terms, std::move(reduced));
    Value& sum = list.back();
    for (size_t k = 0; k < sum.operands.size(); ++k)
      if (!reads(sum.body, k))
        sum.operands[k] = {.kind = Operand::Kind::Index, .dtype = Dtype::F32, .masks = {}};
    return online_of(list, 2).has_value();
  }
  static bool reads(const ScalarFunction& body, size_t operand) {
    return std::ranges::any_of(
        body.nodes(), [&](const ScalarNode& n) { return n.op == ScalarOp::Input && n.payload == operand; });
  }
};

TEST(OnlineByHand, FollowsOneMaximumOverItsOwnAxes) {
  const ByHand::Terms plain = [](auto& b, Scalar x, Scalar, Scalar m, Scalar, Scalar) {
    return math::exp(b, b.sub(x, m));
  };
  EXPECT_TRUE(ByHand::follows(plain));
  EXPECT_FALSE(ByHand::follows(plain, {1, 2}));
  EXPECT_FALSE(ByHand::follows([](auto& b, Scalar x, Scalar, Scalar m, Scalar n, Scalar) {
    return b.mul(math::exp(b, b.sub(x, m)), n);
  }));
  EXPECT_FALSE(ByHand::follows([](auto& b, Scalar, Scalar w, Scalar m, Scalar n, Scalar) {
    return b.mul(math::exp(b, b.sub(w, n)), m);
  }));
}

TEST(OnlineByHand, ScalesAreConstants) {
  for (const bool first : {false, true})
    EXPECT_FALSE(ByHand::follows([&](auto& b, Scalar x, Scalar, Scalar m, Scalar, Scalar t) {
      const Scalar d = b.sub(x, m);
      return math::exp(b, first ? b.mul(t, d) : b.mul(d, t));
    }));
}

TEST(OnlineByHand, WhatIsAddedIsNegated) {
  for (const bool first : {false, true})
    for (const bool negated : {false, true})
      EXPECT_EQ(ByHand::follows([&](auto& b, Scalar x, Scalar, Scalar m, Scalar, Scalar) {
                  const Scalar u = negated ? b.neg(m) : b.maximum(m, m);
                  return math::exp(b, first ? b.add(u, x) : b.add(x, u));
                }),
                negated);
}

/// A row's value that is stored stands between the sum and the maximum: u = m + t.
TEST(OnlineByHand, ReadsStoredRowsThrough) {
  std::vector<Value> list = ByHand::values([](auto& b, Scalar x, Scalar, Scalar, Scalar n, Scalar t) {
    return math::exp(b, b.sub(b.add(x, t), n));  // n is u here
  });
  ScalarBuilder b;
  const Scalar u = b.add(b.input(0, Dtype::F32), b.input(1, Dtype::F32));
  list[1] = {.axes = {0},
             .reduced = {},
             .monoid = std::nullopt,
             .body = b.finish(u),
             .operands = {ByHand::value(0), ByHand::load(2, true)}};
  list[2].operands[1] =
      list[2].operands[2] = {.kind = Operand::Kind::Index, .dtype = Dtype::F32, .masks = {}};
  SpecParts parts{.extents = {4, 9},
                  .slots = {{Dtype::F32, 36}, {Dtype::F32, 36}, {Dtype::F32, 4}},
                  .values = list,
                  .outputs = {{2, Expression::index(0, 4), 4}, {1, Expression::index(0, 4), 4}}};
  mark_online(parts);
  EXPECT_EQ(std::ranges::count_if(parts.values, &Value::online), 1);
}

/// Which sums a single walk over the axes can make.
TEST(OnlineByHand, JoinsAWalk) {
  const auto joins = [](const std::function<GraphTensor(Given&)>& build) {
    Given given;
    GraphTensor y = build(given);
    const auto fused = WholeFusion(given.cx, 3).run(y.edge().source);
    EXPECT_TRUE(fused.has_value());
    const auto values = fused->spec.values();
    std::vector<bool> list;
    for (size_t v = 0; v < values.size(); ++v)
      if (values[v].monoid) list.push_back(joins_walk(values, static_cast<int>(v)));
    return list;
  };
  using List = std::vector<bool>;
  EXPECT_EQ(joins([](Given& g) { return total(g.e); }), (List{true, true}));
  EXPECT_EQ(joins([](Given& g) { return total(g.w); }), (List{true}));
  EXPECT_EQ(joins([](Given& g) { return total((g.w - g.w.sum({1}, true)).square()); }), (List{true, true}));
  EXPECT_EQ(joins([](Given& g) { return total((g.w - g.w.sum({1}, true)) * g.w); }), (List{true, false}));
  EXPECT_EQ(joins([](Given& g) { return total(g.w / g.w.abs().sum({1}, true)); }), (List{true, true}));
  EXPECT_EQ(joins([](Given& g) { return (g.w / g.w.abs().sum({1}, true)).max({1}); }), (List{true, false}));
  EXPECT_EQ(joins([](Given& g) {
              const GraphTensor sum = g.w.sum({1}, true);
              return total((g.w - sum).square() / sum);
            }),
            (List{true, false}));
}

}  // namespace
}  // namespace luminal::kernel::test
