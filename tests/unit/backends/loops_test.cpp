#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "backends/device.h"
#include "codegen/interpreter.h"
#include "support/effort.h"
#include "unit/backends/launch.h"

/// Every kind of instruction, loop and access as machine code against the loop interpreter.
namespace luminal::backends {
namespace {

using codegen::add_buffer;
using codegen::Id;
using codegen::kNone;
using codegen::LoopKind;
using codegen::Program;
using codegen::Space;
using codegen::StageBuilder;
using codegen::Type;

Device& backend() {
  static const std::shared_ptr<Device> cpu = make_cpu_device();
  return *cpu;
}

TensorData random_tensor(Dtype d, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  TensorData data(d, {count});
  visit_dtype(d, [&](auto zero) {
    using T = decltype(zero);
    for (T& x : data.as<T>()) {
      if constexpr (std::is_same_v<T, bool>)
        x = (random() & 1) != 0;
      else
        x = static_cast<T>(static_cast<float>(static_cast<int>(random() % 200) - (is_float(d) ? 100 : 0)));
    }
  });
  return data;
}

/// Runs a program both ways at each of these sizes.
void expect_same_at(const Program& p, const std::vector<TensorData>& slots, const std::vector<DimMap>& sizes,
                    const std::string& what) {
  const auto kernel = backend().compile(p);
  for (const DimMap& dims : sizes) {
    const auto want = interpret(p, slots, dims);
    const auto got = test::launch(*kernel, slots, want, dims);
    for (size_t o = 0; o < want.size(); ++o) {
      const auto size = static_cast<size_t>(element_bytes(want[o].dtype));
      for (size_t i = 0; i < static_cast<size_t>(want[o].element_count()); ++i)
        ASSERT_EQ(std::memcmp(got[o].bytes.data() + i * size, want[o].bytes.data() + i * size, size), 0)
            << what << ": element " << i << " of output " << o << "\n"
            << p.to_string().substr(0, 4000) << backend().source(p).substr(0, 8000);
    }
  }
}

void expect_same(const Program& p, const std::vector<TensorData>& slots, const DimMap& dims,
                 const std::string& what) {
  expect_same_at(p, slots, std::vector<DimMap>{dims}, what);
}

// --- formulas ---

class Formulas {
 public:
  explicit Formulas(uint64_t seed) : random_(seed) {}
  Expression operator()(std::span<const Expression> leaves, int depth) {
    if (depth == 0 || random_() % 5 == 0)
      return random_() % 3 == 0 ? Expression(static_cast<int64_t>(random_() % 41) - 20)
                                : leaves[random_() % leaves.size()];
    const Expression a = (*this)(leaves, depth - 1), b = (*this)(leaves, depth - 1);
    constexpr int64_t kDivisors[] = {1, 2, 3, 7, 8, 64, -1, -4, -5};
    const Expression divisor =
        random_() % 3 == 0 ? leaves[0] : Expression(kDivisors[random_() % 9]);  // leaf 0 is never 0
    switch (random_() % 9) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a.range().max > 10000 || b.range().max > 10000 ? a + b : a * b;
      case 3:
        return a / divisor;
      case 4:
        return a % divisor;
      case 5:
        return a.min(b);
      case 6:
        return a.max(b);
      case 7:
        return a.lt(b) & a.gte(3);
      default:
        return a.lt(b) | (b % 2).lt(1);
    }
  }

 private:
  std::mt19937_64 random_;
};

TEST(CpuLoops, IndexFormulas) {
  constexpr int kFormulas = 40;
  for (uint64_t seed = 0; seed < static_cast<uint64_t>(effort::cases(12, 300)); ++seed) {
    Program p{.name = "formulas", .dims = {"m", "n"}};
    const Expression n = Expression::dim("n", {.min = 1, .max = 100}), m = Expression::dim("m", {.min = 2});
    const int y = add_buffer(
        p, {.name = "Y", .space = Space::Output, .dtype = Dtype::I64, .elements = n * 5 * 3 * kFormulas});
    StageBuilder b(p, n);
    Formulas formulas(effort::seed(1) + seed);
    const auto kind = seed % 2 == 0 ? LoopKind::Serial : LoopKind::Unrolled;
    b.loop(5, LoopKind::Serial, [&](const Expression& i) {
      b.loop(3, kind, [&](const Expression& j) {
        const std::vector<Expression> leaves{m, n, b.task(), i, j};
        for (int k = 0; k < kFormulas; ++k)
          b.store(y, ((b.task() * 5 + i) * 3 + j) * kFormulas + k, b.index(formulas(leaves, 4)));
      });
    });
    b.finish();
    expect_same(p, {}, {{"n", 7}, {"m", 5}}, fmt::format("seed {}", seed));
    expect_same(p, {}, {{"n", 1}, {"m", 2}}, fmt::format("seed {}", seed));
  }
}

// --- memory ---

/// Loads of every stride, masked or not, at the very ends of their buffers; stores of every stride.
TEST(CpuLoops, LoadsAndStoresOfEveryStride) {
  for (const Dtype d : kPlainDtypes)
    for (const int lanes : {1, 8, 16, 64}) {
      Program p{.name = "strides", .dims = {"n"}};
      constexpr int64_t kStrides[] = {1, -1, 0, 2, 3, -2};
      std::vector<TensorData> slots;
      std::vector<int> inputs;
      for (const int64_t s : kStrides) {
        const int64_t count = (lanes - 1) * std::abs(s) + 1;
        inputs.push_back(add_buffer(p, {.name = fmt::format("A{}", inputs.size()),
                                        .space = Space::Slot,
                                        .number = static_cast<int>(inputs.size()),
                                        .dtype = d,
                                        .elements = count}));
        slots.push_back(random_tensor(d, count, inputs.size()));
      }
      const int64_t all = 2 * 6 * lanes;
      const int y =
          add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = d, .elements = all});
      const int z = add_buffer(
          p, {.name = "Z", .space = Space::Output, .number = 1, .dtype = d, .elements = 4 * lanes});
      StageBuilder b(p, 1);
      const Id mask = b.lane_mask(Expression("n"), lanes);
      Id last = kNone;
      for (size_t k = 0; k < 6; ++k) {
        const Expression first = kStrides[k] < 0 ? -kStrides[k] * (lanes - 1) : 0;
        last = b.load(inputs[k], first, lanes, kStrides[k], mask);
        b.store(y, static_cast<int64_t>(2 * k) * lanes, b.load(inputs[k], first, lanes, kStrides[k]));
        b.store(y, static_cast<int64_t>(2 * k + 1) * lanes, last);
      }
      const Id other = b.compute(ScalarOp::Not, {mask});
      b.store(z, lanes - 1, last, -1, mask);
      b.store(z, lanes - 1, last, -1, other);
      b.store(z, lanes, last, 2);
      b.store(z, lanes + 1, last, 2, mask);
      b.store(z, lanes + 1, last, 2, other);
      b.store(z, 3 * lanes, last, 1, mask);
      b.store(z, 3 * lanes, last, 1, other);
      b.finish();
      expect_same_at(p, slots, {{{"n", 0}}, {{"n", 1}}, {{"n", 7}}, {{"n", 200}}},
                     fmt::format("{} in {} lanes", name(d), lanes));
    }
}

/// Loads of which no lane is on give 0 from places far outside their buffers too.
TEST(CpuLoops, MaskedLoadsFarOutside) {
  for (const Dtype d : {Dtype::F32, Dtype::F64, Dtype::U8})
    for (const int lanes : {8, 32}) {
      Program p{.name = "far", .dims = {"n"}};
      const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .dtype = d, .elements = 2 * lanes});
      const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .dtype = d, .elements = 6 * lanes});
      StageBuilder b(p, 1);
      const Expression n = "n", away = n * 1000003;
      const Id here = b.compute(ScalarOp::Eq, {b.index(n), b.constant({Dtype::I64, 1}, 0)});
      const Id all = b.broadcast(here, lanes), some = b.lane_mask(3 - n * 1000, lanes);
      b.store(y, 0, b.load(a, away, lanes, 1, all));
      b.store(y, lanes, b.load(a, -away, lanes, 1, some));
      b.store(y, 2 * lanes, b.load(a, away, lanes, 2, some));
      b.store(y, 3 * lanes, b.load(a, lanes + away, lanes, -1, b.compute(ScalarOp::And, {some, all})));
      b.store(y, 4 * lanes, b.load(a, away, lanes, 1, b.compute(ScalarOp::And, {all, some})));
      b.store(y, 5 * lanes, b.load(a, away + lanes, lanes, 1, b.compute(ScalarOp::And, {all, all})));
      b.finish();
      expect_same_at(p, {random_tensor(d, 2 * lanes, 5)}, {{{"n", 0}}, {{"n", 1}}, {{"n", 1000000}}},
                     fmt::format("{} in {} lanes", name(d), lanes));
    }
}

TEST(CpuLoops, Permutations) {
  for (const Dtype d : kPlainDtypes)
    for (const int lanes : {2, 8, 16, 32}) {
      Program p{.name = "lanes"};
      const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .dtype = d, .elements = 2 * lanes});
      const int n = add_buffer(
          p, {.name = "N", .space = Space::Slot, .number = 1, .dtype = Dtype::I32, .elements = lanes});
      const int y = add_buffer(
          p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = d, .elements = 2 * lanes});
      StageBuilder b(p, 1);
      const Id low = b.load(a, 0, lanes), high = b.load(a, lanes, lanes), numbers = b.load(n, 0, lanes);
      b.store(y, 0, b.permute(numbers, {high}));
      b.store(y, lanes, b.permute(numbers, {low, high}));
      b.finish();
      TensorData chosen(Dtype::I32, {lanes});
      for (int k = 0; k < lanes; ++k) chosen.as<int32_t>()[static_cast<size_t>(k)] = k * 37 - 40;
      expect_same_at(p, {random_tensor(d, 2 * lanes, 3), chosen}, {{}},
                     fmt::format("{} in {} lanes", name(d), lanes));
    }
}

TEST(CpuLoops, ShortTablesOfBytes) {
  for (const int lanes : {4, 16, 32, 64, 128}) {
    Program p{.name = "lanes"};
    const auto bytes = [&](const char* name, Space space, int number, int64_t elements) {
      return add_buffer(
          p, {.name = name, .space = space, .number = number, .dtype = Dtype::U8, .elements = elements});
    };
    const int t = bytes("T", Space::Slot, 0, 32), n = bytes("N", Space::Slot, 1, lanes);
    const int y = bytes("Y", Space::Output, 0, 2 * lanes);
    StageBuilder b(p, 1);
    const Id low = b.load(t, 0, 16), high = b.load(t, 16, 16), numbers = b.load(n, 0, lanes);
    b.store(y, 0, b.permute(numbers, {low}));
    b.store(y, lanes, b.permute(numbers, {low, high}));
    b.finish();
    TensorData chosen(Dtype::U8, {lanes});
    for (int k = 0; k < lanes; ++k)
      chosen.as<uint8_t>()[static_cast<size_t>(k)] = static_cast<uint8_t>(k * 37);
    expect_same_at(p, {random_tensor(Dtype::U8, 32, 3), chosen}, {{}}, fmt::format("{} lanes", lanes));
  }
}

TEST(CpuLoops, WordsOfBytes) {
  for (const int lanes : {1, 4, 16}) {
    Program p{.name = "words"};
    const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .dtype = Dtype::U8, .elements = 64});
    const int y = add_buffer(
        p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = Dtype::U16, .elements = 2 * lanes});
    StageBuilder b(p, 1);
    for (const int begin : {0, 1}) b.store(y, begin * lanes, b.load_words(a, 3 * begin, lanes));
    b.finish();
    expect_same_at(p, {random_tensor(Dtype::U8, 64, 3)}, {{}}, fmt::format("{} lanes", lanes));
  }
}

TEST(CpuLoops, DotsOfBytes) {
  for (const int greatest : {255, 127})
    for (const int lanes : {1, 4, 8, 16, 32}) {
      Program p{.name = "dots"};
      const int a =
          add_buffer(p, {.name = "A", .space = Space::Slot, .dtype = Dtype::U8, .elements = 8 * lanes});
      const int y = add_buffer(
          p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = Dtype::I32, .elements = lanes});
      StageBuilder b(p, 1);
      const Id whole = b.bitcast(b.load(a, 4 * lanes, 4 * lanes), Dtype::I8);
      const Id sum = b.constant_bits({Dtype::I32, lanes}, 5);
      b.store(y, 0, b.dot4(sum, b.load(a, 0, 4 * lanes), whole, greatest));
      b.finish();
      TensorData in(Dtype::U8, {8 * lanes});
      for (int k = 0; k < 8 * lanes; ++k) {
        // The first four products are as large as they get, of either sign.
        const int number = k < 4 ? greatest : k * 89 % (greatest + 1);
        const int factor = k % (4 * lanes) < 4 ? 128 : k * 89 + 255;
        in.as<uint8_t>()[static_cast<size_t>(k)] = static_cast<uint8_t>(k < 4 * lanes ? number : factor);
      }
      expect_same_at(p, {in}, {{}}, fmt::format("{} lanes, up to {}", lanes, greatest));
    }
}

TEST(CpuLoops, GathersScattersShufflesAndReductions) {
  for (const Dtype d : kPlainDtypes)
    for (const int lanes : {1, 4, 16, 32}) {
      Program p{.name = "lanes", .dims = {"n"}};
      const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .dtype = d, .elements = 97});
      const int y = add_buffer(
          p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = d, .elements = 8 * lanes + 10});
      StageBuilder b(p, 1);
      const Id mask = b.lane_mask(Expression("n"), lanes), off = b.compute(ScalarOp::Not, {mask});
      const auto times = [&](int64_t factor, int64_t offset) {
        const Id product = b.compute(ScalarOp::Mul, {b.lanes(lanes), b.broadcast(b.index(factor), lanes)});
        return b.compute(ScalarOp::Add, {product, b.broadcast(b.index(offset), lanes)});
      };
      const Id plain = b.gather(a, times(3, 0)), masked = b.gather(a, times(1, 90 - lanes), mask);
      b.store(y, 0, plain);
      b.store(y, lanes, masked);
      b.scatter(y, plain, times(2, 2 * lanes));
      b.scatter(y, masked, times(2, 2 * lanes + 1), mask);
      b.scatter(y, plain, times(2, 2 * lanes + 1), off);
      b.store(y, 4 * lanes, b.broadcast(b.load(a, 96), lanes));
      std::vector<int> pattern;
      for (int l = 0; l < 2 * lanes; ++l) pattern.push_back((l * 5 + 3) % (2 * lanes));
      b.store(y, 5 * lanes, b.shuffle(plain, masked, pattern));
      b.store(y, 7 * lanes, b.compute(ScalarOp::Select, {mask, plain, masked}));
      int at = 8 * lanes;
      const bool half = d == Dtype::F16 || d == Dtype::BF16;
      for (const ScalarOp op : {ScalarOp::Add, ScalarOp::Mul, ScalarOp::Maximum, ScalarOp::Minimum,
                                ScalarOp::And, ScalarOp::Or, ScalarOp::Xor}) {
        const bool bits = op == ScalarOp::And || op == ScalarOp::Or || op == ScalarOp::Xor;
        const bool sum = op == ScalarOp::Add || op == ScalarOp::Mul;
        const bool works = !half && (!bits || !is_float(d)) && (!sum || d != Dtype::Bool);
        b.store(y, at++, works ? b.reduce(op, plain) : b.load(a, 5));
      }
      b.store(y, at++, b.load(a, 96, 1, 1, b.lane_mask(Expression("n"), 1)));
      b.store(y, at++, b.gather(a, b.index(Expression("n") / 3), b.lane_mask(Expression("n") - 2, 1)));
      b.store(y, at, b.load(a, 1), 1, b.lane_mask(Expression("n"), 1));
      b.store(y, at, b.load(a, 2), 1, b.compute(ScalarOp::Not, {b.lane_mask(Expression("n"), 1)}));
      b.finish();
      expect_same_at(p, {random_tensor(d, 97, 3)}, {{{"n", 0}}, {{"n", 2}}, {{"n", 5}}, {{"n", 40}}},
                     fmt::format("{} in {} lanes", name(d), lanes));
    }
}

TEST(CpuLoops, StreamingStoresAtAnyAddress) {
  for (const int64_t n :
       {256, 255, 241}) {  // fenced memory ends at a page: these sizes begin off a vector's boundary
    Program p{.name = "streaming"};
    const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .elements = n});
    const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .elements = n});
    StageBuilder b(p, 1);
    b.loop(n / 16, LoopKind::Serial,
           [&](const Expression& i) { b.store(y, i * 16, b.load(a, i * 16, 16), 1, kNone, true); });
    if (n % 16 != 0)
      b.store(y, n / 16 * 16, b.load(a, n / 16 * 16, 16, 1, b.lane_mask(n % 16, 16)), 1,
              b.lane_mask(n % 16, 16), true);
    b.finish();
    EXPECT_NE(backend().source(p).find("!nontemporal"), std::string::npos);
    expect_same(p, {random_tensor(Dtype::F32, n, 4)}, {}, fmt::format("{} elements", n));
  }
}

// --- loops ---

TEST(CpuLoops, CarriedValuesBranchesAndLoopsWithoutIterations) {
  for (const LoopKind kind : {LoopKind::Serial, LoopKind::Unrolled})
    for (const int64_t n : {0, 1, 5}) {
      Program p{.name = "loops", .dims = {"n"}};
      const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .elements = 64});
      const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 4 * 40});
      const int z = add_buffer(
          p, {.name = "Z", .space = Space::Output, .number = 1, .dtype = Dtype::I64, .elements = 8});
      StageBuilder b(p, 4);
      const Expression t = b.task();
      // Two vectors that swap, a loop whose extent depends on outer ones, and a result used after the loop.
      const auto outer = b.loop(
          4, kind, {b.load(a, t * 8, 8), b.load(a, 8, 8)}, [&](const Expression& i, std::span<const Id> v) {
            const auto inner = b.loop((Expression("n") - i).min(t + 2), LoopKind::Serial, {v[0]},
                                      [&](const Expression& j, std::span<const Id> w) {
                                        const Id x = b.load(a, t + i * 3 + j, 8);
                                        return std::vector<Id>{b.compute(ScalarOp::Add, {w[0], x})};
                                      });
            return std::vector<Id>{v[1], inner[0]};
          });
      b.store(y, t * 40, outer[0]);
      b.store(y, t * 40 + 8, outer[1]);
      // Both sides of a condition, with values from outside.
      const Id some = b.compute(ScalarOp::Lt, {b.index(t), b.index(Expression("n") / 2)});
      const auto write = [&](double factor) {
        b.loop(3, kind, [&](const Expression& i) {
          const Id scaled = b.compute(ScalarOp::Mul, {outer[1], b.constant({Dtype::F32, 8}, factor)});
          b.store(y, t * 40 + 16 + i * 8, scaled);
        });
      };
      b.if_true(some, [&] { write(2); });
      b.if_true(b.compute(ScalarOp::Not, {some}), [&] { write(-1); });
      const auto sum =
          b.loop(Expression("n"), LoopKind::Serial, {b.constant({Dtype::I64, 1}, 3), b.index(t)},
                 [&](const Expression& i, std::span<const Id> v) {
                   return std::vector<Id>{v[1], b.compute(ScalarOp::Add, {v[0], b.index(i * i)})};
                 });
      b.store(z, t * 2, sum[0]);
      b.store(z, t * 2 + 1, sum[1]);
      b.finish();
      expect_same(p, {random_tensor(Dtype::F32, 64, 5)}, {{"n", n}}, fmt::format("n = {}", n));
    }
}

TEST(CpuLoops, StagesShareAWorkspaceAndTasksHaveTheirOwn) {
  Program p{.name = "stages", .dims = {"n"}};
  const Expression n = "n";
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .elements = n});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .elements = n});
  const int shared = add_buffer(p, {.name = "S", .space = Space::Shared, .elements = n});
  const int odd = add_buffer(p, {.name = "T", .space = Space::Shared, .dtype = Dtype::I8, .elements = n});
  const int local = add_buffer(p, {.name = "L", .space = Space::Local, .elements = n + 1});
  const int second = add_buffer(p, {.name = "M", .space = Space::Local, .dtype = Dtype::F64, .elements = 3});
  {
    StageBuilder b(p, n);
    b.store(local, n, b.load(a, b.task()));
    b.store(second, 2, b.convert(b.load(local, n), Dtype::F64));
    b.store(shared, b.task(), b.convert(b.load(second, 2), Dtype::F32));
    b.store(odd, b.task(), b.convert(b.index(b.task() % 100), Dtype::I8));
    b.finish();
  }
  StageBuilder b(p, n);
  const Id other = b.load(shared, n - 1 - b.task());
  b.store(y, b.task(), b.compute(ScalarOp::Mul, {other, b.convert(b.load(odd, b.task()), Dtype::F32)}));
  b.finish();
  for (const int64_t size : {1, 17, 64})
    expect_same(p, {random_tensor(Dtype::F32, size, 6)}, {{"n", size}}, fmt::format("n = {}", size));
}

}  // namespace
}  // namespace luminal::backends
