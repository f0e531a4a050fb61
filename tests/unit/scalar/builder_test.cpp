#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "luminal/error.h"
#include "luminal/scalar.h"
#include "luminal/scalar_math.h"
#include "scalar/element.h"
#include "scalar/interpreter.h"
#include "scalar/typing.h"

namespace luminal {
namespace {

using testing::HasSubstr;

ScalarFunction example() {
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F32), y = b.input(1, Dtype::F32);
  const Scalar sum = b.fma(x, b.constant(Dtype::F32, 2), y);
  const Scalar masked =
      b.select(b.lt(b.coordinate(0), b.constant(Dtype::I64, 7)), sum, b.constant(Dtype::F32, -1.5));
  return b.finish(b.maximum(masked, y));
}

/// The bits that a text stands for, by the C library: what element_text promises.
uint64_t bits_of(Dtype dtype, const std::string& text) {
  if (dtype == Dtype::Bool) return text == "true" ? 1 : 0;
  if (text.starts_with("nan:")) return std::stoull(text.substr(4), nullptr, 16);
  if (is_integer(dtype)) {
    const auto value = static_cast<uint64_t>(std::stoll(text));
    const auto bytes = element_bytes(dtype);
    return bytes == 8 ? value : value & ((uint64_t{1} << (8 * bytes)) - 1);
  }
  if (dtype == Dtype::F64) return std::bit_cast<uint64_t>(std::strtod(text.c_str(), nullptr));
  const float value = std::strtof(text.c_str(), nullptr);
  if (dtype == Dtype::F16) return float16(value).bits;
  if (dtype == Dtype::BF16) return bfloat16(value).bits;
  return std::bit_cast<uint32_t>(value);
}

TEST(ElementText, ReadsBackToTheSameBits) {
  std::mt19937_64 random(7);
  for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8, Dtype::U8, Dtype::I32,
                            Dtype::I64, Dtype::U16}) {
    const auto bytes = element_bytes(dtype);
    const uint64_t mask = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * bytes)) - 1,
                   sign = mask ^ (mask >> 1);
    std::vector<uint64_t> samples{0, 1, sign, sign | 1, mask, mask >> 1, mask - 1, sign - 1};
    for (int bit = 0; bit < static_cast<int>(8 * bytes);
         ++bit)  // powers of two, infinities, NaN of every payload bit
      for (const uint64_t base :
           {uint64_t{0}, uint64_t{0x7f800000}, uint64_t{0x7c00}, uint64_t{0x7f80}, uint64_t{0x7ff} << 52})
        samples.push_back((base | uint64_t{1} << bit) & mask);
    if (bytes <= 2)
      for (uint64_t bits = 0; bits <= mask; ++bits) samples.push_back(bits);
    else
      for (int i = 0; i < 20000; ++i) samples.push_back(random() & mask);
    for (const uint64_t bits : samples) {
      const std::string text = element_text(dtype, bits);
      ASSERT_EQ(bits_of(dtype, text), bits) << name(dtype) << " " << text;
    }
  }
  EXPECT_EQ(element_text(Dtype::F32, std::bit_cast<uint32_t>(0.1F)), "0.1");
  EXPECT_EQ(element_text(Dtype::F32, 0x7fc00000), "nan");
  EXPECT_EQ(element_text(Dtype::F16, 0xfe01), "nan:0xfe01");
  EXPECT_EQ(element_text(Dtype::F64, uint64_t{1} << 63), "-0");
}

TEST(ScalarFunction, Prints) {
  EXPECT_EQ(example().to_string(),
            "%0 = i64 coordinate 0\n"
            "%1 = i64 constant 7\n"
            "%2 = bool lt %0 %1\n"
            "%3 = f32 input 0\n"
            "%4 = f32 constant 2\n"
            "%5 = f32 input 1\n"
            "%6 = f32 fma %3 %4 %5\n"
            "%7 = f32 constant -1.5\n"
            "%8 = f32 select %2 %6 %7\n"
            "%9 = f32 maximum %8 %5\n"
            "return %9\n");
  EXPECT_EQ(example().input_count(), 2);
  EXPECT_EQ(example().coordinate_count(), 1);
}

// Hashes stand in caches on disk: this number changes only together with the code generator's version.
TEST(ScalarFunction, HashIsTheSameOnEveryMachine) { EXPECT_EQ(example().hash(), 11578637513105151908ULL); }

TEST(ScalarFunction, NumberingDoesNotDependOnTheOrderOfBuilding) {
  ScalarBuilder b;
  const Scalar seven = b.constant(Dtype::I64, 7), y = b.input(1, Dtype::F32);
  (void)b.sqrt(y);  // needed by no output
  const Scalar below = b.lt(b.coordinate(0), seven), low = b.constant(Dtype::F32, -1.5);
  const Scalar two = b.constant(Dtype::F32, 2), x = b.input(0, Dtype::F32);
  const ScalarFunction again = b.finish(b.maximum(b.select(below, b.fma(x, two, y), low), y));
  EXPECT_EQ(again, example());
  EXPECT_EQ(again.hash(), example().hash());
  EXPECT_EQ(again.to_bytes(), example().to_bytes());
  EXPECT_NE(again.hash(), b.finish(x).hash());
}

TEST(ScalarFunction, CostCountsEachNodeOnce) {
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F32);
  const Scalar square = b.mul(x, x);
  const ScalarCost cost = b.finish(b.div(b.fma(square, x, square), b.sqrt(b.add(square, x)))).cost();
  EXPECT_EQ(cost.simple, 2);
  EXPECT_EQ(cost.fma, 1);
  EXPECT_EQ(cost.divide, 2);
  EXPECT_EQ(cost.nodes, 6);
  EXPECT_EQ(cost.flops(), 6);
}

TEST(ScalarBuilder, EqualNodesAreOne) {
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F32), y = b.input(1, Dtype::F32);
  EXPECT_EQ(b.add(x, y), b.add(x, y));
  EXPECT_EQ(b.add(x, y), b.add(y, x));
  EXPECT_EQ(b.fma(x, y, x), b.fma(y, x, x));
  EXPECT_NE(b.sub(x, y), b.sub(y, x));
  EXPECT_NE(b.constant(Dtype::F32, 0.0), b.constant(Dtype::F32, -0.0));
}

TEST(ScalarBuilder, FoldsWhatKeepsEveryBit) {
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F32), n = b.input(1, Dtype::I32), p = b.input(2, Dtype::Bool);
  const auto f = [&](double v) { return b.constant(Dtype::F32, v); };
  const auto i = [&](int v) { return b.constant(Dtype::I32, v); };
  EXPECT_EQ(b.mul(x, f(1)), x);
  EXPECT_EQ(b.add(x, f(-0.0)), x);
  EXPECT_NE(b.add(x, f(0.0)), x) << "-0 + 0 is +0";
  EXPECT_EQ(b.sub(x, f(0.0)), x);
  EXPECT_NE(b.sub(x, f(-0.0)), x);
  EXPECT_FALSE(b.is_constant(b.mul(x, f(0)))) << "NaN * 0 is NaN";
  EXPECT_FALSE(b.is_constant(b.sub(x, x))) << "inf - inf is NaN";
  EXPECT_EQ(b.neg(b.neg(x)), x);
  EXPECT_EQ(b.fma(x, f(3), f(-0.0)), b.mul(x, f(3)));
  EXPECT_EQ(b.add(n, i(0)), n);
  EXPECT_EQ(b.mul(n, i(0)), i(0));
  EXPECT_EQ(b.sub(n, n), i(0));
  EXPECT_EQ(b.bit_and(n, i(-1)), n);
  EXPECT_EQ(b.shift_left(n, 0), n);
  EXPECT_EQ(b.bit_not(b.bit_not(p)), p);
  EXPECT_EQ(b.select(p, x, x), x);
  EXPECT_EQ(b.convert(b.convert(n, Dtype::F64), Dtype::I32), n);
  EXPECT_NE(b.convert(b.convert(n, Dtype::F32), Dtype::I32), n) << "f32 does not hold every i32";
  EXPECT_EQ(b.add(f(0.1), f(0.2)), b.constant(Dtype::F32, 0.1F + 0.2F));
}

TEST(ScalarBuilder, NeverContracts) {
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F32), y = b.input(1, Dtype::F32), z = b.input(2, Dtype::F32);
  const std::vector<Scalar> both{b.add(b.mul(x, y), z), b.fma(x, y, z)};
  const float a = 1 + 0x1p-12F, c = -(1 + 0x1p-11F);
  float apart = 1, fused = 0;
  const void* inputs[] = {&a, &a, &c};
  void* outputs[] = {&apart, &fused};
  ScalarInterpreter(b.finish(both))(1, inputs, {}, outputs);
  EXPECT_EQ(apart, 0);
  EXPECT_EQ(fused, 0x1p-24F);
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(ScalarBuilder, ErrorsNameTheTypes) {
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F32), n = b.input(1, Dtype::I32), p = b.input(2, Dtype::Bool);
  EXPECT_EQ(message_of([&] { (void)b.add(x, n); }),
            "[add] cannot give f32 from f32 i32: the operands differ in type");
  EXPECT_EQ(message_of([&] { (void)b.div(n, n); }),
            "[div] cannot give i32 from i32 i32: i32 is no type it computes on");
  EXPECT_EQ(message_of([&] { (void)b.add(p, p); }),
            "[add] cannot give bool from bool bool: bool is no type it computes on");
  EXPECT_EQ(message_of([&] { (void)b.select(x, n, n); }),
            "[select] cannot give i32 from f32 i32 i32: takes a bool and two values of the result's type");
  EXPECT_EQ(message_of([&] { (void)b.bitcast(x, Dtype::F64); }),
            "[bitcast] cannot give f64 from f32: needs two types of one size, not bool");
  EXPECT_EQ(message_of([&] { (void)b.input(0, Dtype::Q8_0); }),
            "[input] cannot give q8_0: block-quantised types have no single elements to compute with");
  EXPECT_EQ(message_of([&] { (void)math::exp(b, n); }), "[exp] takes a float, not i32; cast it to f32 first");
  EXPECT_THROW((void)b.add(x, Scalar{999}), InternalError);
}

TEST(Verifier, NamesTheNode) {
  using Nodes = std::vector<ScalarNode>;
  const ScalarNode x{.op = ScalarOp::Input, .dtype = Dtype::F32, .operands = {}};
  const auto problem = [](const Nodes& nodes, std::vector<Scalar> outputs = {}) {
    return message_of([&] { verify(nodes, outputs); });
  };
  const auto with = [&](ScalarOp op, Dtype dtype, std::array<Scalar, 3> operands, uint64_t payload = 0) {
    return Nodes{x, {.op = op, .dtype = dtype, .operands = operands, .payload = payload}};
  };
  EXPECT_EQ(problem(with(ScalarOp::Neg, Dtype::F32, {Scalar{0}})), "no error");
  EXPECT_THAT(problem(with(ScalarOp::Neg, Dtype::F32, {Scalar{1}})),
              HasSubstr("%1 (neg): operand 1 is not an earlier node"));
  EXPECT_THAT(problem(with(ScalarOp::Neg, Dtype::F32, {Scalar{0}, Scalar{0}})),
              HasSubstr("takes 1 operands"));
  EXPECT_THAT(problem(with(ScalarOp::Neg, Dtype::F64, {Scalar{0}})),
              HasSubstr("%1 = f64 neg %0: the result is f32"));
  EXPECT_THAT(problem(with(ScalarOp::Lt, Dtype::F32, {Scalar{0}, Scalar{0}})),
              HasSubstr("the result is bool"));
  EXPECT_THAT(problem(with(ScalarOp::Neg, Dtype::F32, {Scalar{0}}, 3)),
              HasSubstr("only leaves have a payload"));
  EXPECT_THAT(problem(with(ScalarOp::Convert, Dtype::F32, {Scalar{0}})), HasSubstr("the types are equal"));
  EXPECT_THAT(problem(with(ScalarOp::Constant, Dtype::I8, {}, 256)),
              HasSubstr("constant bits 0x100 do not fit"));
  EXPECT_THAT(problem(with(ScalarOp::Coordinate, Dtype::I32, {})), HasSubstr("a coordinate is i64"));
  EXPECT_THAT(problem({x}, {Scalar{1}}), HasSubstr("output %1 is not a node; there are 1"));
  const Nodes half{{.op = ScalarOp::Input, .dtype = Dtype::F16, .operands = {}},
                   {.op = ScalarOp::Convert, .dtype = Dtype::F64, .operands = {Scalar{0}}}};
  EXPECT_THAT(problem(half), HasSubstr("f16 and bf16 convert to and from f32 only"));
}

TEST(ScalarBuilder, InlinesAFunction) {
  ScalarBuilder inner;
  const Scalar p = inner.input(0, Dtype::F32);
  const ScalarFunction scaled = inner.finish(inner.mul(p, inner.convert(inner.coordinate(0), Dtype::F32)));
  ScalarBuilder b;
  const Scalar x = b.sqrt(b.input(3, Dtype::F32)), axis = b.coordinate(2);
  const std::vector<Scalar> outputs =
      b.inline_function(scaled, std::vector<Scalar>{x}, std::vector<Scalar>{axis});
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_EQ(outputs[0], b.mul(x, b.convert(axis, Dtype::F32)));
  EXPECT_EQ(message_of([&] { (void)b.inline_function(scaled, std::vector<Scalar>{x}); }),
            "[inline_function] coordinate 0 is i64; only 0 are given");
  EXPECT_EQ(message_of([&] {
              (void)b.inline_function(scaled, std::vector<Scalar>{axis}, std::vector<Scalar>{axis});
            }),
            "[inline_function] input 0 is f32; i64 is given");
}

/// Random well-typed nodes over F32, F64, I32, U8 and Bool with many constants that invite folding.
class RandomFunction {
 public:
  explicit RandomFunction(uint64_t seed) : random_(seed) {
    for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::I32, Dtype::U8, Dtype::Bool, Dtype::F16})
      nodes_.push_back({.op = ScalarOp::Input, .dtype = d, .operands = {}, .payload = nodes_.size()});
    while (nodes_.size() < 60) add();
  }
  [[nodiscard]] ScalarFunction function() const {
    std::vector<Scalar> outputs;
    for (uint32_t i = 20; i < nodes_.size(); ++i) outputs.push_back({i});
    return {nodes_, outputs};
  }

 private:
  Scalar any() { return {static_cast<uint32_t>(random_() % nodes_.size())}; }
  void add_constant(Dtype d) {
    ScalarBuilder b;
    const double values[] = {0.0,
                             -0.0,
                             1,
                             -1,
                             2,
                             255,
                             0.5,
                             std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()};
    const Scalar s = b.constant(d, values[random_() % 9]);
    nodes_.push_back(b[s]);
  }
  void add() {
    constexpr Dtype kTypes[] = {Dtype::F32, Dtype::F64, Dtype::I32, Dtype::U8, Dtype::Bool, Dtype::F16};
    if (random_() % 24 == 0) return add_constant(kTypes[random_() % 6]);
    const auto op = static_cast<ScalarOp>(3 + random_() % static_cast<uint64_t>(kScalarOpCount - 3));
    ScalarNode node{.op = op, .dtype = kTypes[random_() % 6], .operands = {}};
    for (int k = 0; k < arity(op); ++k) node.operands[static_cast<size_t>(k)] = any();
    OperandTypes types{};
    for (size_t k = 0; k < static_cast<size_t>(arity(op)); ++k)
      types[k] = nodes_[node.operands[k].index].dtype;
    if (type_problem(node, types).empty()) nodes_.push_back(node);  // else draw again
  }

  std::mt19937_64 random_;
  std::vector<ScalarNode> nodes_;
};

std::vector<std::vector<uint64_t>> run_on(const ScalarFunction& f,
                                          const std::vector<std::vector<uint64_t>>& columns, int64_t count) {
  std::vector<const void*> inputs;
  for (const auto& c : columns) inputs.push_back(c.data());
  std::vector<std::vector<uint64_t>> results(f.outputs().size(),
                                             std::vector<uint64_t>(static_cast<size_t>(count), 0));
  std::vector<void*> outputs;
  for (auto& r : results) outputs.push_back(r.data());
  ScalarInterpreter run(f);
  run(count, inputs, {}, outputs);
  return results;
}

uint64_t element_of(const std::vector<uint64_t>& column, Dtype dtype, int64_t i) {
  uint64_t bits = 0;
  const auto size = static_cast<size_t>(element_bytes(dtype));
  std::memcpy(&bits, reinterpret_cast<const char*>(column.data()) + static_cast<size_t>(i) * size, size);
  return bits;
}

bool is_nan(Dtype dtype, uint64_t bits) {
  if (dtype == Dtype::F32) return std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  if (dtype == Dtype::F64) return std::isnan(std::bit_cast<double>(bits));
  return dtype == Dtype::F16 && (bits & 0x7fff) > 0x7c00;
}

/// Which NaN a NaN is may show through a bitcast: those nodes and what hangs on them are left out.
std::vector<bool> sees_nan_bits(const ScalarFunction& f) {
  std::vector<bool> sees(f.nodes().size(), false);
  for (size_t i = 0; i < sees.size(); ++i) {
    const ScalarNode& n = f.nodes()[i];
    sees[i] = n.op == ScalarOp::Bitcast;
    for (int k = 0; k < arity(n.op); ++k) sees[i] = sees[i] || sees[n.operands[static_cast<size_t>(k)].index];
  }
  return sees;
}

TEST(ScalarBuilder, FoldingKeepsEveryBitOfRandomFunctions) {
  constexpr int64_t kCount = 300;
  size_t folded_away = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const ScalarFunction plain = RandomFunction(seed).function();
    ScalarBuilder b;
    std::vector<Scalar> inputs;
    for (int i = 0; i < 6; ++i) inputs.push_back(b.input(i, plain.nodes()[static_cast<size_t>(i)].dtype));
    const ScalarFunction folded = b.finish(b.inline_function(plain, inputs));
    folded_away += plain.nodes().size() - std::min(plain.nodes().size(), folded.nodes().size());

    std::mt19937_64 random(seed);
    std::vector<std::vector<uint64_t>> columns(6, std::vector<uint64_t>(kCount));
    for (auto& column : columns)
      for (uint64_t& word : column) word = random() % 5 == 0 ? 0x7fc000007fc00000 : random();
    for (uint64_t& word : columns[4]) word &= 0x0101010101010101;
    const auto want = run_on(plain, columns, kCount), got = run_on(folded, columns, kCount);
    const std::vector<bool> skip = sees_nan_bits(plain);
    for (size_t k = 0; k < want.size(); ++k) {
      const Scalar output = plain.outputs()[k];
      const Dtype dtype = plain[output].dtype;
      if (skip[output.index]) continue;
      for (int64_t i = 0; i < kCount; ++i) {
        const uint64_t w = element_of(want[k], dtype, i), g = element_of(got[k], dtype, i);
        ASSERT_TRUE(w == g || (is_nan(dtype, w) && is_nan(dtype, g))) << "output " << k << " of\n"
                                                                      << plain.to_string() << "folded to\n"
                                                                      << folded.to_string();
      }
    }
  }
  EXPECT_GT(folded_away, 1000U);  // or the test would show nothing
}

TEST(Interpreter, ChunksAndInPlace) {
  ScalarBuilder b;
  const Scalar x = b.input(0, Dtype::F32);
  const std::vector<Scalar> results{b.add(b.mul(x, x), b.convert(b.coordinate(1), Dtype::F32)), x};
  const ScalarInterpreter run(b.finish(results));
  for (const int64_t count : {0, 1, 255, 256, 257, 1000}) {
    std::vector<float> values(static_cast<size_t>(count)), copy(values.size());
    std::vector<int64_t> axis(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i) / 4, axis[i] = static_cast<int64_t>(i);
    const std::vector<float> before = values;
    const void* inputs[] = {values.data()};
    const int64_t* coordinates[] = {nullptr, axis.data()};
    void* outputs[] = {values.data(), copy.data()};
    run(count, inputs, coordinates, outputs);
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], before[i] * before[i] + static_cast<float>(i)) << i << " of " << count;
  }
  EXPECT_THROW(run(1, {}, {}, {}), InternalError);
}

}  // namespace
}  // namespace luminal
