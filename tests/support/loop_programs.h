#pragma once
#include <functional>

#include "support/operations.h"

/// Programs of every kind of instruction, loop and access, for targets: the interpreter of the loops says what they give.
namespace luminal::test {

/// A program, and what it runs on.
struct LoopProgram {
  struct Run {
    DimMap dims;
    std::vector<TensorData> slots;
  };
  codegen::Program program;
  std::vector<Run> runs;
  std::string what;
};

/// The same slots at all of these sizes.
inline std::vector<LoopProgram::Run> runs_at(const std::vector<DimMap>& sizes,
                                             const std::vector<TensorData>& slots) {
  std::vector<LoopProgram::Run> runs;
  for (const DimMap& dims : sizes) runs.push_back({dims, slots});
  return runs;
}

/// Adds a buffer to `p`, its number that of the others in its space.
inline int buffer_of(codegen::Program& p, codegen::Space space, Dtype dtype, const Expression& elements) {
  const auto number = std::ranges::count(p.buffers, space, &codegen::Buffer::space);
  return codegen::add_buffer(p, {.name = fmt::format("B{}", p.buffers.size()),
                                 .space = space,
                                 .number = static_cast<int>(number),
                                 .dtype = dtype,
                                 .elements = elements});
}

inline TensorData sampled(Dtype dtype, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  return tensor(dtype, samples(dtype, static_cast<size_t>(count), random));
}

/// Loads and stores of every stride, masked or not, up to the very ends of their buffers.
inline LoopProgram strides_of(Dtype d, int lanes) {
  using codegen::Id;
  codegen::Program p{.name = "strides", .dims = {"n"}};
  constexpr int64_t kStrides[] = {1, -1, 0, 2, 3, -2};
  std::vector<TensorData> slots;
  for (const int64_t s : kStrides) {
    const int64_t count = (lanes - 1) * std::abs(s) + 1;
    buffer_of(p, codegen::Space::Slot, d, count);
    slots.push_back(sampled(d, count, slots.size()));
  }
  const int y = buffer_of(p, codegen::Space::Output, d, 12 * lanes);
  const int z = buffer_of(p, codegen::Space::Output, d, 4 * lanes);
  codegen::StageBuilder b(p, 1);
  const Id mask = b.lane_mask(Expression("n"), lanes), other = b.compute(ScalarOp::Not, {mask});
  Id last = codegen::kNone;
  for (int k = 0; k < 6; ++k) {
    const Expression first = kStrides[k] < 0 ? -kStrides[k] * (lanes - 1) : 0;
    last = b.load(k, first, lanes, kStrides[k], mask);
    b.store(y, 2 * k * lanes, b.load(k, first, lanes, kStrides[k]));
    b.store(y, (2 * k + 1) * lanes, last);
  }
  b.store(z, lanes - 1, last, -1, mask);
  b.store(z, lanes - 1, last, -1, other);
  b.store(z, lanes, last, 2);
  b.store(z, lanes + 1, last, 2, mask);
  b.store(z, lanes + 1, last, 2, other);
  b.store(z, 3 * lanes, last, 1, mask);
  b.store(z, 3 * lanes, last, 1, other);
  b.finish();
  return {std::move(p), runs_at({{{"n", 0}}, {{"n", 1}}, {{"n", 7}}, {{"n", 200}}}, slots),
          fmt::format("strides of {} in {} lanes", name(d), lanes)};
}

/// Gathers, scatters, shuffles, choices and every fold of lanes.
inline LoopProgram lanes_of(Dtype d, int lanes) {
  using codegen::Id;
  codegen::Program p{.name = "lanes", .dims = {"n"}};
  const int a = buffer_of(p, codegen::Space::Slot, d, 97);
  const int y = buffer_of(p, codegen::Space::Output, d, 8 * lanes + 10);
  codegen::StageBuilder b(p, 1);
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
  for (const ScalarOp op : {ScalarOp::Add, ScalarOp::Mul, ScalarOp::Maximum, ScalarOp::Minimum, ScalarOp::And,
                            ScalarOp::Or, ScalarOp::Xor}) {
    const bool folds =
        type_problem({.op = op, .dtype = d}, {d, d, {}}).empty() && std::has_single_bit(unsigned(lanes));
    b.store(y, at++, folds ? b.reduce(op, plain) : b.load(a, 5));
  }
  b.store(y, at++, b.load(a, 96, 1, 1, b.lane_mask(Expression("n"), 1)));
  b.store(y, at++, b.gather(a, b.index(Expression("n") / 3), b.lane_mask(Expression("n") - 2, 1)));
  b.store(y, at, b.load(a, 1), 1, b.lane_mask(Expression("n"), 1));
  b.store(y, at, b.load(a, 2), 1, b.compute(ScalarOp::Not, {b.lane_mask(Expression("n"), 1)}));
  b.finish();
  return {std::move(p), runs_at({{{"n", 0}}, {{"n", 2}}, {{"n", 5}}, {{"n", 40}}}, {sampled(d, 97, 3)}),
          fmt::format("lanes of {}, {} of them", name(d), lanes)};
}

/// Entries of one table and of two, by numbers of any size.
inline LoopProgram permutation_of(Dtype d, Dtype numbers, int entries, int lanes) {
  codegen::Program p{.name = "permutation"};
  const int a = buffer_of(p, codegen::Space::Slot, d, 2 * entries);
  const int n = buffer_of(p, codegen::Space::Slot, numbers, lanes);
  const int y = buffer_of(p, codegen::Space::Output, d, 2 * lanes);
  codegen::StageBuilder b(p, 1);
  const codegen::Id low = b.load(a, 0, entries), high = b.load(a, entries, entries), at = b.load(n, 0, lanes);
  b.store(y, 0, b.permute(at, {high}));
  b.store(y, lanes, b.permute(at, {low, high}));
  b.finish();
  return {std::move(p), runs_at({{}}, {sampled(d, 2 * entries, 3), sampled(numbers, lanes, 4)}),
          fmt::format("{} of {} entries of {} by {}", lanes, entries, name(d), name(numbers))};
}

/// Sums of products of bytes, as large as they get, and pairs of bytes as words.
inline LoopProgram bytes_of(int lanes) {
  using codegen::Id;
  codegen::Program p{.name = "bytes"};
  const int a = buffer_of(p, codegen::Space::Slot, Dtype::U8, 8 * lanes + 8);
  const int y = buffer_of(p, codegen::Space::Output, Dtype::I32, lanes);
  const int z = buffer_of(p, codegen::Space::Output, Dtype::U16, 2 * lanes);
  codegen::StageBuilder b(p, 1);
  const Id whole = b.bitcast(b.load(a, 4 * lanes, 4 * lanes), Dtype::I8);
  b.store(y, 0, b.dot4(b.constant_bits({Dtype::I32, lanes}, 5), b.load(a, 0, 4 * lanes), whole));
  for (const int begin : {0, 1}) b.store(z, begin * lanes, b.load_words(a, 3 * begin, lanes));
  b.finish();
  return {std::move(p), runs_at({{}}, {sampled(Dtype::U8, 8 * lanes + 8, 3)}),
          fmt::format("bytes in {} lanes", lanes)};
}

/// Two vectors that swap, a loop whose extent depends on outer ones, results used behind it, both sides of a condition.
inline LoopProgram loops_of(codegen::LoopKind kind, int lanes) {
  using codegen::Id;
  codegen::Program p{.name = "loops", .dims = {"n"}};
  const Expression n = "n";
  const int a = buffer_of(p, codegen::Space::Slot, Dtype::F32, 8 * lanes + 24);
  const int y = buffer_of(p, codegen::Space::Output, Dtype::F32, 4 * 5 * lanes);
  const int z = buffer_of(p, codegen::Space::Output, Dtype::I64, 16);
  codegen::StageBuilder b(p, 4);
  const Expression t = b.task();
  const auto outer = b.loop(4, kind, {b.load(a, t * lanes, lanes), b.load(a, 8, lanes)},
                            [&](const Expression& i, std::span<const Id> v) {
                              const auto inner =
                                  b.loop((n - i).min(t + 2), codegen::LoopKind::Serial, {v[0]},
                                         [&](const Expression& j, std::span<const Id> w) {
                                           const Id x = b.load(a, t + i * 3 + j, lanes);
                                           return std::vector<Id>{b.compute(ScalarOp::Add, {w[0], x})};
                                         });
                              return std::vector<Id>{v[1], inner[0]};
                            });
  b.store(y, t * 5 * lanes, outer[0]);
  b.store(y, t * 5 * lanes + lanes, outer[1]);
  const Id some = b.compute(ScalarOp::Lt, {b.index(t), b.index(n / 2)});
  const auto write = [&](double factor) {
    b.loop(3, kind, [&](const Expression& i) {
      const Id scaled = b.compute(ScalarOp::Mul, {outer[1], b.constant({Dtype::F32, lanes}, factor)});
      b.store(y, t * 5 * lanes + 2 * lanes + i * lanes, scaled);
    });
  };
  b.if_true(some, [&] { write(2); });
  b.if_true(b.compute(ScalarOp::Not, {some}), [&] { write(-1); });
  const auto sum = b.loop(n, codegen::LoopKind::Serial, {b.constant({Dtype::I64, 1}, 3), b.index(t)},
                          [&](const Expression& i, std::span<const Id> v) {
                            return std::vector<Id>{v[1], b.compute(ScalarOp::Add, {v[0], b.index(i * i)})};
                          });
  b.store(z, t * 4, sum[0]);
  b.store(z, t * 4 + 1, sum[1]);
  const auto turned = b.loop(3, kind, sum, [&](const Expression&, std::span<const Id> v) {
    return std::vector<Id>{v[1], v[0]};  // neither may be overwritten before the other is read
  });
  b.store(z, t * 4 + 2, turned[0]);
  b.store(z, t * 4 + 3, turned[1]);
  b.finish();
  return {std::move(p),
          runs_at({{{"n", 0}}, {{"n", 1}}, {{"n", 5}}}, {sampled(Dtype::F32, 8 * lanes + 24, 5)}),
          fmt::format("loops in {} lanes", lanes)};
}

/// Two stages that meet in Shared memory, Local memory of a known size and of one that depends on n, a table.
inline LoopProgram stages_of() {
  codegen::Program p{.name = "stages", .dims = {"n"}};
  static constexpr int32_t kTable[] = {3, -1, 2147483647, 7};
  const Expression n = "n";
  const int a = buffer_of(p, codegen::Space::Slot, Dtype::F32, n);
  const int y = buffer_of(p, codegen::Space::Output, Dtype::F32, n);
  const int w = buffer_of(p, codegen::Space::Output, Dtype::I32, n);
  const int shared = buffer_of(p, codegen::Space::Shared, Dtype::F32, n);
  const int odd = buffer_of(p, codegen::Space::Shared, Dtype::I8, n);
  const int local = buffer_of(p, codegen::Space::Local, Dtype::F32, n + 1);
  const int second = buffer_of(p, codegen::Space::Local, Dtype::F64, 3);
  {
    codegen::StageBuilder b(p, n);
    b.store(local, n, b.load(a, b.task()));
    b.store(second, 2, b.convert(b.load(local, n), Dtype::F64));
    b.store(shared, b.task(), b.convert(b.load(second, 2), Dtype::F32));
    b.store(odd, b.task(), b.convert(b.index(b.task() % 100), Dtype::I8));
    b.finish();
  }
  codegen::StageBuilder b(p, n);
  const codegen::Id other = b.load(shared, n - 1 - b.task());
  b.store(y, b.task(), b.compute(ScalarOp::Mul, {other, b.convert(b.load(odd, b.task()), Dtype::F32)}));
  b.store(w, b.task(), b.look_up(kTable, b.index(b.task() % 4)));
  b.finish();
  std::vector<LoopProgram::Run> runs;
  for (const int64_t size : {1, 17, 1000}) runs.push_back({{{"n", size}}, {sampled(Dtype::F32, size, 6)}});
  return {std::move(p), std::move(runs), "stages"};
}

/// Vectors of a table, masked or not.
inline LoopProgram table_of(int lanes) {
  static constexpr int32_t kTable[] = {3, -1, 2147483647, 7, 11, 2, 5, 9, 0, 1, -8, 4, 6, 10, 12, 13, 99};
  codegen::Program p{.name = "table", .dims = {"n"}};
  const int y = buffer_of(p, codegen::Space::Output, Dtype::I32, 2 * lanes);
  const int table = codegen::add_buffer(p, {.name = "T",
                                            .space = codegen::Space::Table,
                                            .dtype = Dtype::I32,
                                            .elements = static_cast<int64_t>(std::size(kTable)),
                                            .values = kTable});
  codegen::StageBuilder b(p, 1);
  b.store(y, 0, b.load(table, 1, lanes));
  b.store(y, lanes, b.load(table, 1, lanes, 1, b.lane_mask(Expression("n"), lanes)));
  b.finish();
  return {std::move(p), runs_at({{{"n", 3}}, {{"n", 40}}}, {}), fmt::format("table in {} lanes", lanes)};
}

/// Index formulas of both signs, with divisions by dims and by numbers.
inline LoopProgram formulas() {
  codegen::Program p{.name = "formulas", .dims = {"m", "n"}};
  const Expression n = Expression::dim("n", {.min = 1, .max = 100}), m = "m";
  const int y = buffer_of(p, codegen::Space::Output, Dtype::I64, n * 5 * 12);
  codegen::StageBuilder b(p, n);
  b.loop(5, codegen::LoopKind::Serial, [&](const Expression& i) {
    const Expression t = b.task(), x = i * 7 - t * 3, far = m * m * 1000003 - t;
    const Expression all[] = {x / 4,
                              x % 8,
                              x / n,
                              x % (n + 2),
                              x / -3,
                              x % -5,
                              far * i - 12,
                              far % (m * 2 + 1),
                              (t * n + i) / n,
                              x.min(m).max(t - 4),
                              x.lt(t) & i.gte(2),
                              x.lt(t) | (i % 2).lt(1)};
    for (int k = 0; k < 12; ++k) b.store(y, (t * 5 + i) * 12 + k, b.index(all[k]));
  });
  b.finish();
  return {std::move(p), runs_at({{{"m", 2}, {"n", 1}}, {{"m", 50000}, {"n", 9}}}, {}), "formulas"};
}

/// All of them.
inline std::vector<LoopProgram> loop_programs() {
  std::vector<LoopProgram> all;
  for (const Dtype d : kPlainDtypes) {
    for (const int lanes : {1, 3, 8, 16, 64}) all.push_back(strides_of(d, lanes));
    for (const int lanes : {1, 4, 6, 16, 32}) all.push_back(lanes_of(d, lanes));
    for (const int lanes : {2, 16, 32}) all.push_back(permutation_of(d, Dtype::I32, lanes, lanes));
  }
  for (const int lanes : {4, 16, 64}) all.push_back(permutation_of(Dtype::U8, Dtype::U8, 16, lanes));
  for (const int lanes : {1, 4, 8, 32}) all.push_back(bytes_of(lanes));
  for (const auto kind : {codegen::LoopKind::Serial, codegen::LoopKind::Unrolled})
    for (const int lanes : {1, 8, 32}) all.push_back(loops_of(kind, lanes));
  for (const int lanes : {1, 16}) all.push_back(table_of(lanes));
  all.push_back(formulas());
  all.push_back(stages_of());
  return all;
}

}  // namespace luminal::test
