#include "codegen/schedules/pick.h"

#include <gtest/gtest.h>

#include "cases.h"
#include "codegen/schedules/families.h"
#include "unit/kernel/one_term_specs.h"

// Sums of one term as gathers, beside their own definition. Places of inputs lie inside and outside of the axis.
namespace luminal::codegen {
namespace {

using namespace test_cases;
using kernel::test::chosen;
using kernel::test::element_of_each_row;

struct Table {
  Expression rows = 9, entries = 4, columns = 37;
  Dtype dtype = Dtype::F32;
  bool by_column = false;  ///< each element has a place of its own
  bool turned = false;     ///< the table lies column by column
  bool padded = false;     ///< its first entry is -1 everywhere
  /// Y[i,j] = (sum k in entries: k == P[i] + 1 ? A[k,j] : 0) * C[j]
  [[nodiscard]] KernelSpec spec() const {
    SpecBuilder s;
    const Expression i = s.axis(rows), j = s.axis(columns), k = s.axis(entries);
    const int p = s.slot(by_column ? rows * columns : rows, Dtype::I64), a = s.slot(entries * columns, dtype),
              c = s.slot(columns, dtype);
    std::vector<kernel::Mask> masks;
    if (padded) masks.push_back({k.gte(1), Number(-1)});
    const int sum = s.value({0, 1}, {2}, Monoid::Add,
                            {SpecBuilder::number(k), s.load(p, by_column ? i * columns + j : i),
                             s.load(a, turned ? j * entries + k : k * columns + j, masks)},
                            [](ScalarBuilder& b, std::span<const Scalar> v) {
                              return chosen(b, b.add(v[1], b.constant(Dtype::I64, 1)), v[0], v[2]);
                            });
    const int y = s.value({0, 1}, {}, std::nullopt, {s.read(sum), s.load(c, j)}, product);
    s.output(y, i * columns + j, rows * columns);
    return s.finish().spec;
  }
};

TEST(Pick, TakesRowsAndElementsOfTables) {
  for (const Target& target : {avx512(), avx2()})
    for (const int64_t columns : {1, 3, 16, 37, 64})
      for (const bool by_column : {false, true})
        for (const bool turned : {false, true})
          for (const bool padded : {false, true}) {
            const KernelSpec spec =
                Table{.columns = columns, .by_column = by_column, .turned = turned, .padded = padded}.spec();
            check_candidates(pick_schedule(), spec, {}, target, {{}});
          }
}

TEST(Pick, TakesAllDtypes) {
  for (const Dtype dtype : {Dtype::F64, Dtype::I32, Dtype::I64, Dtype::U8})
    check_candidates(pick_schedule(), Table{.dtype = dtype}.spec(), {}, avx512(), {{}});
}

TEST(Pick, TakesNamedSizes) {
  const Expression n = Expression::dim("n"), m = Expression::dim("m");
  const Bucket bucket{.facts = {{"m", {.min = 1, .max = 6}}, {"n", {.min = 1, .max = 70}}}};
  for (const bool by_column : {false, true})
    check_candidates(pick_schedule(),
                     Table{.rows = n, .entries = m, .columns = n, .by_column = by_column}.spec(), bucket,
                     avx512(), {{{"m", 4}, {"n", 70}}, {{"m", 1}, {"n", 1}}, {{"m", 6}, {"n", 33}}});
}

/// Y = sum k: k == P ? A[k] : 0
TEST(Pick, TakesASingleElement) {
  SpecBuilder s;
  const Expression k = s.axis(5);
  const int p = s.slot(1, Dtype::I64), a = s.slot(5);
  s.output(s.value({}, {0}, Monoid::Add, {SpecBuilder::number(k), s.load(p, 0), s.load(a, k)},
                   [](ScalarBuilder& b, std::span<const Scalar> v) { return chosen(b, v[1], v[0], v[2]); }),
           0, 1);
  check_candidates(pick_schedule(), s.finish().spec, {}, avx2(), {{}});
}

TEST(Pick, LeavesOtherSumsToOthers) {
  EXPECT_FALSE(pick_schedule().candidates(element_of_each_row(9, 21, false), {}, avx2()).empty());
  EXPECT_TRUE(pick_schedule().candidates(element_of_each_row(9, 21, true), {}, avx2()).empty());
  for (const Target& target : {avx512(), avx2()})
    check_candidates(row_schedule(), element_of_each_row(9, 21, true), {}, target, {{}});
  const KernelSpec quantised = [] {
    SpecBuilder s;
    const Expression i = s.axis(4), j = s.axis(64), k = s.axis(6);
    const int p = s.slot(4, Dtype::I64), a = s.slot(384, Dtype::Q8_0);
    s.output(s.value({0, 1}, {2}, Monoid::Add, {SpecBuilder::number(k), s.load(p, i), s.load(a, k * 64 + j)},
                     [](ScalarBuilder& b, std::span<const Scalar> v) { return chosen(b, v[1], v[0], v[2]); }),
             i * 64 + j, 256);
    return s.finish().spec;
  }();
  EXPECT_TRUE(pick_schedule().candidates(quantised, {}, avx2()).empty());
}

/// The loss of each row, but exact on whole numbers: m = max A; l = sum (A - m)^2; Y[i] = (A[i,P[i]] - m) * l, and
/// the rows A - m if `written`.
KernelSpec loss_like(int64_t length, bool written) {
  SpecBuilder s;
  const Expression i = s.axis(19), k = s.axis(length);
  const int p = s.slot(19, Dtype::I64), a = s.slot(19 * length);
  const Expression at = i * length + k;
  const int m = s.value({0}, {1}, Monoid::Max, {s.load(a, at)},
                        [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
  const int l = s.value({0}, {1}, Monoid::Add, {s.load(a, at), s.read(m)},
                        [](ScalarBuilder& b, std::span<const Scalar> v) {
                          const Scalar d = b.sub(v[0], v[1]);
                          return b.mul(d, d);
                        });
  const int y = s.value({0}, {1}, Monoid::Add,
                        {SpecBuilder::number(k), s.load(p, i), s.load(a, at), s.read(m), s.read(l)},
                        [](ScalarBuilder& b, std::span<const Scalar> v) {
                          return chosen(b, v[1], v[0], b.mul(b.sub(v[2], v[3]), v[4]));
                        });
  s.output(y, i, 19);
  if (written)
    s.output(s.value({0, 1}, {}, std::nullopt, {s.load(a, at), s.read(m)},
                     [](ScalarBuilder& b, std::span<const Scalar> v) { return b.sub(v[0], v[1]); }),
             at, 19 * length);
  return s.finish().spec;
}

TEST(Pick, NeedsNoPassInRows) {
  for (const Target& target : {avx512(), avx2()})
    for (const int64_t length : {5, 40, 131})
      for (const bool written : {false, true}) {
        const KernelSpec spec = loss_like(length, written);
        check_candidates(row_schedule(), spec, {}, target, {{}});
        for (const int64_t along : {0, 1})
          for (const int64_t keep : {0, 1})
            check_loops(row_schedule(), spec,
                        {{"along", along}, {"unroll", 1}, {"keep", keep}, {"task", 2}, {"far", 0}}, {},
                        target, {{}});
      }
}

}  // namespace
}  // namespace luminal::codegen
