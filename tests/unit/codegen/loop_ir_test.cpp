#include "codegen/loop_ir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "codegen/index_code.h"
#include "codegen/interpreter.h"
#include "luminal/error.h"
#include "support/files.h"

namespace luminal::codegen {
namespace {

using test::error_of;

TensorData floats(std::vector<float> values) {
  return TensorData::of<float>({static_cast<int64_t>(values.size())}, values);
}
std::vector<float> counted(int64_t n) {
  std::vector<float> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(i) * 0.5F - 3);
  return v;
}

/// Y[i] = A[i] * A[i] over n elements, 8 tasks' worth a block of 16, tails by mask.
Program squares() {
  const Expression n = Expression::dim("n", {.min = 1});
  Program p{.name = "squares", .dims = {"n"}};
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .elements = n});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = n});
  StageBuilder b(p, n.ceil_div(16));
  b.loop(2, LoopKind::Serial, [&](const Expression& half) {
    const Expression at = b.task() * 16 + half * 8;
    const Id mask = b.lane_mask(n - at, 8);
    const Id x = b.load(a, at, 8, 1, mask);
    b.store(y, at, b.compute(ScalarOp::Mul, {x, x}), 1, mask);
  });
  b.finish();
  return p;
}

TEST(LoopIr, TextOfAProgram) {
  EXPECT_EQ(squares().to_string(), R"(kernel squares(n):
  A = slot 0 f32[n{1..}]
  Y = output 0 f32[n{1..}]
stage 0: task i0 in (n{1..} + 15)/16
  for i1 in 2:
    %0 = boolx8 lanes < n{1..} - 16*i0 - 8*i1
    %1 = f32x8 load A[16*i0 + 8*i1] mask %0
    %2 = f32x8 mul %1 %1
    store Y[16*i0 + 8*i1] = %2 mask %0
)");
}

TEST(LoopIr, MaskedTailsInAnyOrderOfTasks) {
  const Program p = squares();
  for (const int64_t n : {1, 7, 8, 16, 17, 50})
    for (const uint64_t seed : {0, 1, 2}) {
      const std::vector<float> values = counted(n);
      const auto y = interpret(p, std::vector{floats(values)}, {{"n", n}}, seed);
      for (int64_t i = 0; i < n; ++i) {
        const float x = values[static_cast<size_t>(i)];
        ASSERT_EQ(y[0].as<float>()[static_cast<size_t>(i)], x * x) << n;
      }
    }
}

TEST(LoopIr, CarriedValuesSwapTogether) {
  // (a, b) -> (b, a + b): Fibonacci, right only if both values change at once.
  Program p{.name = "fibonacci"};
  const int y =
      add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = Dtype::I64, .elements = 2});
  StageBuilder b(p, 1);
  const Type t{Dtype::I64, 1};
  const auto last = b.loop(10, LoopKind::Serial, {b.constant(t, 0), b.constant(t, 1)},
                           [&](const Expression&, std::span<const Id> v) {
                             return std::vector<Id>{v[1], b.compute(ScalarOp::Add, {v[0], v[1]})};
                           });
  b.store(y, 0, last[0]);
  b.store(y, 1, last[1]);
  b.finish();
  const auto out = interpret(p, {});
  EXPECT_EQ(out[0].as<int64_t>()[0], 55);
  EXPECT_EQ(out[0].as<int64_t>()[1], 89);
}

TEST(LoopIr, ALoopWithoutIterationsGivesItsInitialValues) {
  Program p{.name = "empty", .dims = {"n"}};
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0});
  StageBuilder b(p, 1);
  const auto last = b.loop(Expression("n") - 3, LoopKind::Serial, {b.constant({Dtype::F32, 1}, 7)},
                           [&](const Expression&, std::span<const Id> v) {
                             return std::vector<Id>{b.compute(ScalarOp::Add, {v[0], v[0]})};
                           });
  b.store(y, 0, last[0]);
  b.finish();
  EXPECT_EQ(interpret(p, {}, {{"n", 0}})[0].as<float>()[0], 7);
  EXPECT_EQ(interpret(p, {}, {{"n", 5}})[0].as<float>()[0], 28);
}

TEST(LoopIr, InlinedFunctionsBroadcastScalars) {
  ScalarBuilder s;
  const Scalar x = s.input(0, Dtype::F32), c = s.input(1, Dtype::F32);
  const ScalarFunction f = s.finish(s.add(s.mul(x, s.mul(c, c)), s.constant(Dtype::F32, 0.5)));
  Program p{.name = "inlined"};
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .elements = 4});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 4});
  StageBuilder b(p, 1);
  const std::vector<Id> inputs{b.load(a, 0, 4), b.constant({Dtype::F32, 1}, 3)};
  b.store(y, 0, b.inline_function(f, inputs));
  b.finish();
  const auto out = interpret(p, std::vector{floats({1, 2, 3, 4})});
  EXPECT_EQ(out[0].as<float>()[3], 36.5F);
}

TEST(LoopIr, ShufflesReductionsGathersAndScatters) {
  Program p{.name = "lanes"};
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .elements = 8});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 10});
  StageBuilder b(p, 1);
  const Id x = b.load(a, 0, 4), z = b.load(a, 1, 4, 2);  // 0 1 2 3 and 1 3 5 7
  b.store(y, 0, b.shuffle(x, z, {0, 4, 3, 7}));
  const Id twice = b.compute(ScalarOp::Mul, {b.lanes(4), b.broadcast(b.index(2), 4)});
  b.scatter(y, b.gather(a, twice), b.compute(ScalarOp::Add, {b.lanes(4), b.broadcast(b.index(4), 4)}));
  b.store(y, 8, b.reduce(ScalarOp::Add, z));
  b.store(y, 9, b.reduce(ScalarOp::Maximum, x));
  b.finish();
  const auto out = interpret(p, std::vector{floats({0, 1, 2, 3, 4, 5, 6, 7})});
  const std::vector<float> expected{0, 1, 3, 7, 0, 2, 4, 6, 16, 3};
  EXPECT_EQ(std::vector<float>(out[0].as<float>().begin(), out[0].as<float>().end()), expected);
}

TEST(LoopIr, PermutationsCountLanesOfAllTablesModuloTheirNumber) {
  Program p{.name = "lanes"};
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .elements = 8});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 8});
  StageBuilder b(p, 1);
  const Id low = b.load(a, 0, 4), high = b.load(a, 4, 4);
  const Id numbers = b.convert(b.lanes({3, 4, 9, -1}), Dtype::I32);
  b.store(y, 0, b.permute(numbers, {low}));
  b.store(y, 4, b.permute(numbers, {low, high}));
  b.finish();
  verify(p);
  const auto out = interpret(p, std::vector{floats({0, 1, 2, 3, 4, 5, 6, 7})});
  const std::vector<float> expected{3, 0, 1, 3, 3, 4, 1, 7};
  EXPECT_EQ(std::vector<float>(out[0].as<float>().begin(), out[0].as<float>().end()), expected);
}

TEST(LoopIr, TablesMayHaveFewerEntriesThanThereAreLanes) {
  Program p{.name = "lanes"};
  const int a =
      add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .dtype = Dtype::U8, .elements = 8});
  const int y =
      add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = Dtype::U8, .elements = 4});
  StageBuilder b(p, 1);
  b.store(y, 0, b.permute(b.load(a, 0, 4), {b.load(a, 4, 2)}));
  b.finish();
  verify(p);
  TensorData in(Dtype::U8, {8});
  std::ranges::copy(std::vector<uint8_t>{1, 0, 254, 255, 7, 9, 0, 0}, in.as<uint8_t>().begin());
  const auto out = interpret(p, std::vector{in});
  EXPECT_EQ(std::vector<uint8_t>(out[0].as<uint8_t>().begin(), out[0].as<uint8_t>().end()),
            (std::vector<uint8_t>{9, 7, 7, 9}));
}

TEST(LoopIr, APermutationsTablesAreAlike) {
  Program p{.name = "lanes"};
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .elements = 8});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 8});
  StageBuilder b(p, 1);
  b.store(y, 0, b.permute(b.convert(b.lanes(4), Dtype::I32), {b.load(a, 0, 4), b.load(a, 0, 8)}));
  b.finish();
  EXPECT_NE(error_of<InternalError>([&] { verify(p); }).find("table 2 has another type"), std::string::npos);
}

TEST(LoopIr, Dot4AddsFourProductsOfBytesToEachLane) {
  Program p{.name = "dots"};
  const int a =
      add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .dtype = Dtype::U8, .elements = 8});
  const int y =
      add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .dtype = Dtype::I32, .elements = 2});
  StageBuilder b(p, 1);
  const Id bytes = b.load(a, 0, 8);
  b.store(y, 0, b.dot4(b.constant_bits({Dtype::I32, 2}, 7), bytes, b.bitcast(bytes, Dtype::I8)));
  b.finish();
  verify(p);
  TensorData in(Dtype::U8, {8});
  std::ranges::copy(std::vector<uint8_t>{1, 2, 3, 4, 255, 128, 127, 0}, in.as<uint8_t>().begin());
  const auto out = interpret(p, std::vector{in});
  EXPECT_EQ(out[0].as<int32_t>()[0], 7 + 1 + 4 + 9 + 16);
  EXPECT_EQ(out[0].as<int32_t>()[1], 7 - 255 - 128 * 128 + 127 * 127);
}

TEST(LoopIr, ASumTakesAProductUnrounded) {
  Program p{.name = "sums"};
  const int a = add_buffer(p, {.name = "A", .space = Space::Slot, .number = 0, .elements = 2});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 2});
  StageBuilder b(p, 1);
  const Id x = b.load(a, 0), sum = b.load(a, 1);
  b.store(y, 0, b.add_term(sum, b.compute(ScalarOp::Mul, {x, x})));
  b.store(y, 1, b.add_term(sum, x));
  b.finish();
  verify(p);
  // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24, which rounding the product would lose.
  const auto out = interpret(p, std::vector{floats({1 + 0x1p-12F, -(1 + 0x1p-11F)})});
  EXPECT_EQ(out[0].as<float>()[0], 0x1p-24F);
  EXPECT_EQ(out[0].as<float>()[1], -0x1p-12F);
}

/// A program with a frozen slot W, another one X, and what is prepared of them; `body` is that of a stage.
Program preparing(const std::function<void(StageBuilder&)>& body, bool prepares = true,
                  bool comes_first = true) {
  Program p{.name = "prepares"};
  add_buffer(p, {.name = "W", .space = Space::Slot, .number = 0, .elements = 4, .is_frozen = true});
  add_buffer(p, {.name = "X", .space = Space::Slot, .number = 1, .elements = 4});
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 4});
  add_buffer(p, {.name = "P", .space = Space::Prepared, .elements = 4});
  add_buffer(p, {.name = "S", .space = Space::Shared, .elements = 4});
  const auto add_rest = [&] {
    StageBuilder b(p, 4);
    b.store(y, b.task(), b.load(1, b.task()));
    b.finish();
  };
  if (!comes_first) add_rest();
  StageBuilder b(p, 4);
  body(b);
  b.finish(prepares);
  if (comes_first) add_rest();
  return p;
}

TEST(LoopIr, StagesThatPrepareReadWhatIsFrozenAlone) {
  constexpr int kW = 0, kX = 1, kP = 3, kS = 4;
  const auto copy = [](int from, int to) {
    return [from, to](StageBuilder& b) { b.store(to, b.task(), b.load(from, b.task())); };
  };
  const auto problem = [](const Program& p) { return error_of<InternalError>([&] { verify(p); }); };
  using testing::HasSubstr;
  verify(preparing(copy(kW, kP)));
  EXPECT_EQ(preparing_stages(preparing(copy(kW, kP))), 1U);
  EXPECT_THAT(problem(preparing(copy(kX, kP))), HasSubstr("a stage that prepares reads X, which may change"));
  EXPECT_THAT(problem(preparing(copy(kS, kP))), HasSubstr("a stage that prepares reads S, which may change"));
  EXPECT_THAT(problem(preparing(copy(kW, kS))), HasSubstr("a stage that prepares writes S"));
  EXPECT_THAT(problem(preparing(copy(kW, kP), false)), HasSubstr("a stage that does not prepare writes P"));
  EXPECT_THAT(problem(preparing(copy(kW, kP), true, false)), HasSubstr("comes behind one that does not"));
}

TEST(LoopIr, PreparationsAreKnownByWhatTheyDo) {
  constexpr int kW = 0, kP = 3;
  const auto at = [](const std::function<Expression(const Expression&)>& place) {
    return [place](StageBuilder& b) { b.store(kP, place(b.task()), b.load(kW, b.task())); };
  };
  const auto straight = [](const Expression& task) { return task; };
  const auto preparation = [](const Program& p, const std::function<void(Program&)>& change) {
    Program changed = p;
    change(changed);
    return preparation_of(changed).hash;
  };
  const Program p = preparing(at(straight));
  const uint64_t own = preparation_of(p).hash;
  EXPECT_NE(own, 0U);
  EXPECT_EQ(preparation_of(preparing(at(straight), false)).hash, 0U) << "nothing is prepared";
  // Not by what is done with it.
  EXPECT_EQ(own, preparation(p, [](Program& c) { c.name = "another", c.dims = {"n"}; }));
  EXPECT_EQ(own, preparation(p, [](Program& c) { c.stages[1].tasks = Expression("n") + 1; }));
  EXPECT_EQ(own, preparation(p, [](Program& c) { c.buffers[1].elements = Expression("n"); }));
  EXPECT_EQ(own, preparation(p, [](Program& c) { c.buffers[1].is_kept = c.buffers[0].is_kept = true; }));
  EXPECT_EQ(own, preparation(p, [](Program& c) {
              add_buffer(c, {.name = "sums", .space = Space::Local, .elements = 8});
            }));
  // Nor by which slot it is made of, which is told beside it.
  Program second = p;
  second.buffers[0].number = 2;
  EXPECT_EQ(own, preparation_of(second).hash);
  EXPECT_EQ(preparation_of(p).slots, std::vector{p.buffers[0].number});
  EXPECT_EQ(preparation_of(second).slots, std::vector{2});
  // Other elements, places and sizes are others.
  EXPECT_NE(own, preparation_of(preparing(at([](const Expression& task) { return 3 - task; }))).hash);
  EXPECT_NE(own, preparation(p, [](Program& c) { c.stages[0].tasks = 3; }));
  EXPECT_NE(own, preparation(p, [](Program& c) { c.buffers[3].elements = 5; }));
  EXPECT_NE(own, preparation(p, [](Program& c) { c.buffers[0].dtype = c.buffers[3].dtype = Dtype::I32; }));
  // What depends on named dims is not the same at other sizes.
  EXPECT_EQ(0U, preparation(p, [](Program& c) { c.stages[0].tasks = Expression("n"); }));
  EXPECT_EQ(0U, preparation(p, [](Program& c) { c.buffers[3].elements = Expression("n"); }));
  EXPECT_EQ(
      0U, preparation_of(preparing(at([](const Expression& task) { return task % Expression("n"); }))).hash);
}

// --- what the interpreter refuses ---

/// A program of two stages over a shared buffer; `index` says where task i0 of the first stage writes, `read`
/// what it reads before.
std::string shared_problem(const std::function<void(StageBuilder&, int shared, int y)>& body) {
  Program p{.name = "shared"};
  const int y = add_buffer(p, {.name = "Y", .space = Space::Output, .number = 0, .elements = 4});
  const int w = add_buffer(p, {.name = "W", .space = Space::Shared, .elements = 4});
  StageBuilder b(p, 4);
  body(b, w, y);
  b.finish();
  return error_of<InternalError>([&] { (void)interpret(p, {}); });
}

TEST(LoopIr, TheInterpreterSeesRacesAndHoles) {
  const Type f{Dtype::F32, 1};
  EXPECT_NE(shared_problem([&](StageBuilder& b, int w, int y) {
              b.store(w, 0, b.constant(f, 1));
              b.store(y, b.task(), b.constant(f, 1));
            }).find("two tasks of a stage write element 0 of W"),
            std::string::npos);
  EXPECT_NE(shared_problem([&](StageBuilder& b, int w, int y) {
              b.store(w, b.task(), b.constant(f, 1));
              b.store(y, b.task(), b.load(w, 0));
            }).find("reads element 0 of W, which another task of the stage writes"),
            std::string::npos);
  EXPECT_NE(shared_problem([&](StageBuilder& b, int w, int y) {
              b.store(y, b.task(), b.load(w, b.task()));
            }).find("reads element 0 of W, which nobody wrote"),
            std::string::npos);
  EXPECT_NE(shared_problem([&](StageBuilder& b, int, int y) {
              b.store(y, b.task() / 2, b.constant(f, 1));
            }).find("writes element 0 of output Y twice"),
            std::string::npos);
  EXPECT_NE(shared_problem([&](StageBuilder& b, int, int y) {
              b.store(y, b.task(), b.constant(f, 1), 1, b.lane_mask(3 - b.task(), 1));
            }).find("element 3 of 4 in output Y is never written"),
            std::string::npos);
  EXPECT_NE(shared_problem([&](StageBuilder& b, int, int y) {
              b.store(y, b.task() + 1, b.constant(f, 1));
            }).find("writes element 4 of 4 in Y"),
            std::string::npos);
}

// --- what the verifier refuses ---

TEST(LoopIr, TheVerifierNamesWhatIsWrong) {
  const auto problem = [](const std::function<void(Program&)>& spoil) {
    Program p = squares();
    spoil(p);
    return error_of<InternalError>([&] { verify(p); });
  };
  const auto body = [](Program& p) -> Block& { return p.stages[0].body[0].body; };
  const auto holds = [&](const std::function<void(Program&)>& spoil, const std::string& expected) {
    EXPECT_NE(problem(spoil).find(expected), std::string::npos) << problem(spoil);
  };
  holds([&](Program& p) { body(p)[2].operands[1] = 9; }, "%2 (compute): value %9 is not defined");
  holds([&](Program& p) { std::swap(body(p)[1], body(p)[2]); }, "%2 (compute): value %1 is not defined");
  holds([&](Program& p) { body(p)[2].type.dtype = Dtype::I32; }, "the result is f32");
  holds([&](Program& p) { body(p)[1].type.lanes = 4; }, "takes a mask of 4 bool lanes");
  holds([&](Program& p) { body(p)[3].buffer = 0; }, "slot A is read only");
  holds([&](Program& p) { body(p)[3].index = Expression::index(7, 4); }, "uses i7, which no open loop has");
  holds([&](Program& p) { body(p)[3].index = "m"; }, "uses dim m, which is not the program's");
  holds([&](Program& p) { body(p)[2].op = ScalarOp::And; }, "f32 is no type it computes on");
  holds([&](Program& p) { p.stages[0].body[0].loop = LoopKind::Unrolled, p.stages[0].body[0].extent = "n"; },
        "unrolled with extent n");
  holds([&](Program& p) { p.stages[0].body.push_back(body(p)[3]); }, "is used outside its block");
  holds([&](Program& p) { p.buffers[1].number = 1; }, "output Y is out of order");
  holds([&](Program& p) { p.name = "a b"; }, "no C identifier");
}

TEST(IndexCode, AgreesWithExpressions) {
  const Expression n = "n", m = Expression::dim("m", {.min = 1}), i = Expression::index(0, 100),
                   j = Expression::index(1, n);
  const std::vector<std::string> dims{"m", "n"};
  const Expression formulas[] = {
      n * 3 - i,          (i - 50) / m,       (i - 50) % m,  i.min(n - 4).max(j * 2), (i - n).lt(j),
      i.lt(n) & j.gte(3), i.lt(n) | j.gte(3), i * j * n + 7, (i * n + j) / n,         n.ceil_div(m)};
  for (const Expression& e : formulas) {
    const IndexCode code(e, dims);
    for (int64_t nv = 1; nv < 9; ++nv)
      for (int64_t mv = 1; mv < 5; ++mv)
        for (const int64_t iv : {0, 1, 49, 50, 99})
          for (int64_t jv = 0; jv < nv; ++jv) {
            const int64_t d[] = {mv, nv}, v[] = {iv, jv};
            ASSERT_EQ(code(d, v), e.exec({{"m", mv}, {"n", nv}}, v)) << e.to_string();
          }
  }
}

}  // namespace
}  // namespace luminal::codegen
