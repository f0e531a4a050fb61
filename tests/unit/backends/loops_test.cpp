#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "backends/device.h"
#include "codegen/interpreter.h"
#include "support/effort.h"
#include "support/loop_programs.h"
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
      TensorData chosen(Dtype::I32, {lanes});
      for (int k = 0; k < lanes; ++k) chosen.as<int32_t>()[static_cast<size_t>(k)] = k * 37 - 40;
      expect_same_at(test::permutation_of(d, Dtype::I32, lanes, lanes).program,
                     {random_tensor(d, 2 * lanes, 3), chosen}, {{}},
                     fmt::format("{} in {} lanes", name(d), lanes));
    }
}

TEST(CpuLoops, ShortTablesOfBytes) {
  for (const int lanes : {4, 16, 32, 64, 128}) {
    TensorData chosen(Dtype::U8, {lanes});
    for (int k = 0; k < lanes; ++k)
      chosen.as<uint8_t>()[static_cast<size_t>(k)] = static_cast<uint8_t>(k * 37);
    expect_same_at(test::permutation_of(Dtype::U8, Dtype::U8, 16, lanes).program,
                   {random_tensor(Dtype::U8, 32, 3), chosen}, {{}}, fmt::format("{} lanes", lanes));
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
    for (const int lanes : {1, 4, 16, 32})
      expect_same_at(test::lanes_of(d, lanes).program, {random_tensor(d, 97, 3)},
                     {{{"n", 0}}, {{"n", 2}}, {{"n", 5}}, {{"n", 40}}},
                     fmt::format("{} in {} lanes", name(d), lanes));
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
  constexpr int kLanes = 8;
  for (const LoopKind kind : {LoopKind::Serial, LoopKind::Unrolled}) {
    const Program p = test::loops_of(kind, kLanes).program;
    expect_same_at(p, {random_tensor(Dtype::F32, *p.buffers[0].elements.constant(), 5)},
                   {{{"n", 0}}, {{"n", 1}}, {{"n", 5}}}, "loops");
  }
}

TEST(CpuLoops, StagesShareAWorkspaceAndTasksHaveTheirOwn) {
  for (const int64_t size : {1, 17, 64})
    expect_same(test::stages_of().program, {random_tensor(Dtype::F32, size, 6)}, {{"n", size}},
                fmt::format("n = {}", size));
}

}  // namespace
}  // namespace luminal::backends
