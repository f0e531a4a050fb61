#include "run.h"
#include "unit/composite/pytorch_literals.h"

// Elementwise ops against PyTorch's results in f64 (pytorch_literals.h).
namespace luminal::composite_test {
namespace {

using Unary = std::function<GraphTensor(const GraphTensor&)>;
using Binary = std::function<GraphTensor(const GraphTensor&, const GraphTensor&)>;

const std::map<std::string, Unary> kUnaryOps = {
    {"abs", [](const GraphTensor& x) { return x.abs(); }},
    {"floor", [](const GraphTensor& x) { return x.floor(); }},
    {"ceil", [](const GraphTensor& x) { return x.ceil(); }},
    {"round", [](const GraphTensor& x) { return x.round(); }},
    {"trunc", [](const GraphTensor& x) { return x.trunc(); }},
    {"exp", [](const GraphTensor& x) { return x.exp(); }},
    {"exp2", [](const GraphTensor& x) { return x.exp2(); }},
    {"log", [](const GraphTensor& x) { return x.log(); }},
    {"log2", [](const GraphTensor& x) { return x.log2(); }},
    {"log1p", [](const GraphTensor& x) { return x.log1p(); }},
    {"expm1", [](const GraphTensor& x) { return x.expm1(); }},
    {"sin", [](const GraphTensor& x) { return x.sin(); }},
    {"cos", [](const GraphTensor& x) { return x.cos(); }},
    {"tan", [](const GraphTensor& x) { return x.tan(); }},
    {"tanh", [](const GraphTensor& x) { return x.tanh(); }},
    {"sigmoid", [](const GraphTensor& x) { return x.sigmoid(); }},
    {"erf", [](const GraphTensor& x) { return x.erf(); }},
    {"sqrt", [](const GraphTensor& x) { return x.sqrt(); }},
    {"rsqrt", [](const GraphTensor& x) { return x.rsqrt(); }},
    {"reciprocal", [](const GraphTensor& x) { return x.reciprocal(); }},
    {"square", [](const GraphTensor& x) { return x.square(); }},
    {"relu", [](const GraphTensor& x) { return x.relu(); }},
    {"leaky_relu", [](const GraphTensor& x) { return x.leaky_relu(); }},
    {"elu", [](const GraphTensor& x) { return x.elu(); }},
    {"gelu", [](const GraphTensor& x) { return x.gelu(); }},
    {"gelu_tanh", [](const GraphTensor& x) { return x.gelu("tanh"); }},
    {"softplus", [](const GraphTensor& x) { return x.softplus(); }},
    {"softplus_2_3", [](const GraphTensor& x) { return x.softplus(2, 3); }},
    {"silu", [](const GraphTensor& x) { return x.silu(); }},
    {"hard_swish", [](const GraphTensor& x) { return x.hard_swish(); }},
    {"mish", [](const GraphTensor& x) { return x.mish(); }},
    {"clip", [](const GraphTensor& x) { return x.clip(-1.5, 2.5); }},
    {"pow_2", [](const GraphTensor& x) { return x.pow(2); }},
    {"pow_3", [](const GraphTensor& x) { return x.pow(3); }},
    {"pow_m1", [](const GraphTensor& x) { return x.pow(-1); }},
    {"pow_m3", [](const GraphTensor& x) { return x.pow(-3); }},
};

const std::map<std::string, Binary> kBinaryOps = {
    {"add", [](const GraphTensor& a, const GraphTensor& b) { return a + b; }},
    {"sub", [](const GraphTensor& a, const GraphTensor& b) { return a - b; }},
    {"mul", [](const GraphTensor& a, const GraphTensor& b) { return a * b; }},
    {"div", [](const GraphTensor& a, const GraphTensor& b) { return a / b; }},
    {"mod", [](const GraphTensor& a, const GraphTensor& b) { return a % b; }},
    {"fmod", [](const GraphTensor& a, const GraphTensor& b) { return a.fmod(b); }},
    {"floor_div", [](const GraphTensor& a, const GraphTensor& b) { return a.floor_div(b); }},
    {"pow", [](const GraphTensor& a, const GraphTensor& b) { return a.pow(b); }},
    {"maximum", [](const GraphTensor& a, const GraphTensor& b) { return a.maximum(b); }},
    {"minimum", [](const GraphTensor& a, const GraphTensor& b) { return a.minimum(b); }},
    {"lt", [](const GraphTensor& a, const GraphTensor& b) { return a.lt(b); }},
    {"gt", [](const GraphTensor& a, const GraphTensor& b) { return a.gt(b); }},
    {"le", [](const GraphTensor& a, const GraphTensor& b) { return a.le(b); }},
    {"ge", [](const GraphTensor& a, const GraphTensor& b) { return a.ge(b); }},
    {"eq", [](const GraphTensor& a, const GraphTensor& b) { return a.eq(b); }},
    {"ne", [](const GraphTensor& a, const GraphTensor& b) { return a.ne(b); }},
};

/// Wanted values as f32 holds them.
std::vector<double> as_f32(std::vector<double> values) {
  for (double& value : values) value = static_cast<float>(value);
  return values;
}

std::vector<float> floats(const std::vector<double>& values) { return {values.begin(), values.end()}; }

TEST(Elementwise, EveryUnaryOpHasLiterals) {
  ASSERT_EQ(kUnaryOps.size(), pytorch::kUnary.size());
  ASSERT_EQ(kBinaryOps.size(), pytorch::kBinary.size());
}

// One graph for all ops and three sizes: the last run has every input once, others a part of them.
TEST(Elementwise, UnaryValues) {
  const std::vector<double>& inputs = pytorch::kUnaryInputs;
  const auto everything = static_cast<int64_t>(inputs.size());
  Graph cx;
  const GraphTensor x32 = cx.tensor({"s"}), x64 = cx.tensor({"s"}, Dtype::F64);
  std::map<std::string, std::pair<GraphTensor, GraphTensor>> results;
  for (const auto& [name, op] : kUnaryOps) results[name] = {op(x32).retrieve(), op(x64).retrieve()};
  for (const int64_t size : {int64_t{1}, int64_t{7}, everything}) {
    const std::vector<double> part(inputs.begin(), inputs.begin() + size);
    GraphTensor(x32).set_dyn(floats(part), {size});
    GraphTensor(x64).set_dyn(part, {size});
    cx.execute();
    for (const auto& [name, result] : results) {
      std::vector<double> wanted = pytorch::kUnary.at(name).values;
      // Where 0 * inf is NaN for PyTorch, the limit at minus infinity is what ours gives.
      if (name == "hard_swish") wanted[0] = 0;
      wanted.resize(static_cast<size_t>(size));
      EXPECT_TRUE(near(result.second.data<double>(), wanted, 2e-15, 2e-16))
          << name << " in f64, size " << size;
      // Beside 1 + erf, 1 + tanh, and for what squares of 1e30 do to f32, digits go where PyTorch's go as
      // well.
      std::vector<double> narrow = as_f32(wanted);
      EXPECT_TRUE(near(result.first.data<double>(), narrow, 6e-7, name.starts_with("gelu") ? 2e-7 : 1e-37))
          << name << " in f32, size " << size;
    }
  }
}

TEST(Elementwise, UnarySlopes) {
  std::vector<double> inputs;
  std::vector<size_t> places;
  for (size_t i = 0; i < pytorch::kUnaryInputs.size(); ++i)
    if (std::abs(pytorch::kUnaryInputs[i]) < 1e20) {
      inputs.push_back(pytorch::kUnaryInputs[i]);
      places.push_back(i);
    }
  for (const auto& [name, op] : kUnaryOps) {
    Graph cx;
    const GraphTensor x = input64(cx, {static_cast<int64_t>(inputs.size())}, inputs);
    std::vector<double> wanted;
    for (const size_t place : places) wanted.push_back(pytorch::kUnary.at(name).slopes[place]);
    EXPECT_TRUE(near(slope(cx, x, op(x)), wanted, 1e-13, 1e-15)) << name;
  }
}

TEST(Elementwise, BinaryValuesOfEveryPair) {
  const auto n = static_cast<int64_t>(pytorch::kBinaryInputs.size());
  for (const auto& [name, op] : kBinaryOps) {
    Graph cx;
    const GraphTensor a = input64(cx, {n, 1}, pytorch::kBinaryInputs),
                      b = input64(cx, {n}, pytorch::kBinaryInputs);
    EXPECT_TRUE(near(run(op(a, b)), pytorch::kBinary.at(name), 1e-15)) << name << " in f64";
    const GraphTensor a32 = a.cast(Dtype::F32), b32 = b.cast(Dtype::F32);
    EXPECT_TRUE(near(run(op(a32, b32)), as_f32(pytorch::kBinary.at(name)), 2e-7)) << name << " in f32";
  }
}

// A number beside a tensor gives what a tensor of that number gives.
TEST(Elementwise, NumbersOnEitherSide) {
  for (const auto& [name, op] : kBinaryOps) {
    Graph cx;
    const GraphTensor a =
        input64(cx, {static_cast<int64_t>(pytorch::kBinaryInputs.size())}, pytorch::kBinaryInputs);
    for (const double number : {-2.0, 0.0, 3.0, kInf, kNaN}) {
      const GraphTensor full = cx.full(a.dims(), number, Dtype::F64);
      const std::vector<double> wanted = run(op(a, full));
      const auto with_number = [&]() -> GraphTensor {
        if (name == "add") return a + number;
        if (name == "sub") return a - number;
        if (name == "mul") return a * number;
        if (name == "div") return a / number;
        if (name == "mod") return a % number;
        if (name == "fmod") return a.fmod(number);
        if (name == "floor_div") return a.floor_div(number);
        if (name == "pow") return a.pow(number);
        if (name == "maximum") return a.maximum(number);
        if (name == "minimum") return a.minimum(number);
        if (name == "lt") return a.lt(number);
        if (name == "gt") return a.gt(number);
        if (name == "le") return a.le(number);
        if (name == "ge") return a.ge(number);
        if (name == "eq") return a.eq(number);
        return a.ne(number);
      };
      EXPECT_TRUE(near(run(with_number()), wanted, 1e-15)) << name << " with " << number;
    }
    const auto number_first = [&]() -> GraphTensor {
      if (name == "add") return 3 + a;
      if (name == "sub") return 3.0 - a;
      if (name == "mul") return 3 * a;
      if (name == "div") return 3 / a;
      if (name == "mod") return 3 % a;
      if (name == "pow") return pow(3, a);
      if (name == "maximum") return maximum(3, a);
      if (name == "minimum") return minimum(3, a);
      return op(cx.full(a.dims(), 3, Dtype::F64), a);  // no form with the number first
    };
    EXPECT_TRUE(near(run(number_first()), run(op(cx.full(a.dims(), 3, Dtype::F64), a)), 1e-15))
        << "3 " << name;
  }
}

TEST(Elementwise, ExpressionsTakePartAsIntegers) {
  Graph cx;
  const GraphTensor x = cx.tensor({"s"}, Dtype::I32);
  const Expression s = "s";
  const GraphTensor scaled = (x * s + s - 1).retrieve(), half = (s / x.cast(Dtype::F32)).retrieve();
  EXPECT_EQ(scaled.dtype(), Dtype::I32);
  EXPECT_EQ(half.dtype(), Dtype::F32);
  for (const int32_t size : {1, 2, 5}) {
    std::vector<int32_t> values(static_cast<size_t>(size));
    std::iota(values.begin(), values.end(), 1);
    GraphTensor(x).set_dyn(values, {size});
    cx.execute();
    for (int32_t i = 0; i < size; ++i) {
      EXPECT_EQ(scaled.data<int32_t>()[static_cast<size_t>(i)], (i + 1) * size + size - 1);
      EXPECT_FLOAT_EQ(half.data<float>()[static_cast<size_t>(i)],
                      static_cast<float>(size) / static_cast<float>(i + 1));
    }
  }
}

TEST(Elementwise, SignNaNAndTests) {
  Graph cx;
  const GraphTensor x = input(cx, {6}, {-INFINITY, -2, -0.0F, 3, INFINITY, NAN});
  EXPECT_TRUE(near(run(x.sign()), {-1, -1, 0, 1, 1, kNaN}));  // NaN as in NumPy
  EXPECT_TRUE(near(run(x.isnan()), {0, 0, 0, 0, 0, 1}));
  EXPECT_TRUE(near(run(x.isinf()), {1, 0, 0, 0, 1, 0}));
  EXPECT_TRUE(near(run(x.isfinite()), {0, 1, 1, 1, 0, 0}));
  EXPECT_TRUE(near(run(x.logical_not()), {0, 0, 1, 0, 0, 0}));
  EXPECT_TRUE(near(slope(cx, x, x.sign()), {0, 0, 0, 0, 0, 0}));
  const GraphTensor n = cx.tensor({2}, Dtype::I32).set({-5, 0});
  EXPECT_TRUE(near(run(n.isnan()), {0, 0}));
  EXPECT_TRUE(near(run(n.isfinite()), {1, 1}));
  EXPECT_TRUE(near(run(n.sign()), {-1, 0}));
}

TEST(Elementwise, SignedZeros) {
  Graph cx;
  const GraphTensor x = input(cx, {4}, {-0.0F, 0.0F, -0.3F, 0.3F});
  const auto signs = [](const std::vector<double>& values) {
    std::vector<bool> bits;
    for (const double value : values) bits.push_back(std::signbit(value));
    return bits;
  };
  EXPECT_EQ(signs(run(x.ceil())), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(signs(run(x.trunc())), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(signs(run(x.round())), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(signs(run(x.abs())), (std::vector<bool>{false, false, false, false}));
  EXPECT_EQ(signs(run(-x)), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(signs(run(x - 0)), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(signs(run(x.fmod(1))), (std::vector<bool>{true, false, true, false}));
}

TEST(Elementwise, RoundsHalfToEvenAtEveryBinade) {
  Graph cx;
  std::vector<float> values;
  for (int i = -9; i <= 9; ++i) values.push_back(static_cast<float>(i) * 0.5F);
  for (const float x : {0.49999997F, 4194303.5F, 4194302.5F, 8388607.0F, 8388609.0F, 1e30F}) {
    values.push_back(x);
    values.push_back(-x);
    values.push_back(std::nextafter(x, 0.0F));
  }
  const std::vector<double> got = run(input(cx, {static_cast<int64_t>(values.size())}, values).round());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(got[i], std::nearbyint(values[i])) << values[i];
}

TEST(Elementwise, Prelu) {
  Graph cx;
  const GraphTensor x = input(cx, {1, 2, 2}, {-1, 2, -3, 4});
  EXPECT_TRUE(near(run(x.prelu(0.5)), {-0.5, 2, -1.5, 4}));
  EXPECT_TRUE(near(run(x.prelu(input(cx, {2}, {0.5, 0.25}))), {-0.5, 2, -0.75, 4}));  // one slope a channel
  EXPECT_TRUE(near(run(x.prelu(input(cx, {1}, {2}))), {-2, 2, -6, 4}));
}

TEST(Elementwise, ClipBounds) {
  Graph cx;
  const GraphTensor x = input(cx, {5}, {-INFINITY, -2, 1, 2, NAN});
  EXPECT_TRUE(near(run(x.clip(-INFINITY, 1)), {-kInf, -2, 1, 1, kNaN}));
  EXPECT_TRUE(near(run(x.clip(-1, INFINITY)), {-1, -1, 1, 2, kNaN}));
  EXPECT_TRUE(near(run(x.clip(NAN, 1)), {kNaN, kNaN, kNaN, kNaN, kNaN}));
  EXPECT_TRUE(near(run(x.clip(2, 1)), {1, 1, 1, 1, kNaN}));  // the upper bound wins, as in PyTorch
  EXPECT_TRUE(near(slope(cx, x, x.clip(-2, 1)), {0, 1, 1, 0, 1}));
  const GraphTensor n = cx.tensor({3}, Dtype::I32).set({-7, 3, 9}).clip(0, INFINITY);
  EXPECT_EQ(n.dtype(), Dtype::I32);
  EXPECT_TRUE(near(run(n), {0, 3, 9}));
}

TEST(Elementwise, MaximumAndMinimumSplitTheGradientOfATie) {
  Graph cx;
  const GraphTensor x = input(cx, {3}, {1, 2, 3});
  EXPECT_TRUE(near(slope(cx, x, x.maximum(2)), {0, 0.5, 1}));
  EXPECT_TRUE(near(slope(cx, x, x.minimum(2)), {1, 0.5, 0}));
}

TEST(Elementwise, WhereKeepsBitsAndBlocksGradients) {
  Graph cx;
  const GraphTensor x = input(cx, {3}, {-1, 0, 4});
  EXPECT_TRUE(near(run(x.gt(0).where(x.log(), -0.0)), {0, 0, std::log(4.0F)}));
  EXPECT_TRUE(near(slope(cx, x, x.gt(0).where(x * 2, kNaN)), {0, 0, 2}));
  EXPECT_TRUE(near(run(where(x, 1, 2)), {1, 2, 1}));  // numbers count as "not 0"
  EXPECT_EQ(where(x, 1, 2).dtype(), Dtype::I64);
  EXPECT_EQ(where(x, 1.5, 2).dtype(), Dtype::F32);
}

}  // namespace
}  // namespace luminal::composite_test
