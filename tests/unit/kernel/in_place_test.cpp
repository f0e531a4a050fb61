#include "kernel/in_place.h"

#include <gtest/gtest.h>

#include "unit/kernel/spec_builder.h"

namespace luminal::kernel::test {
namespace {

using Scalars = std::span<const Scalar>;
using Body = std::function<Scalar(ScalarBuilder&, Scalars)>;

Scalar sum(ScalarBuilder& b, Scalars in) {
  Scalar result = in[0];
  for (size_t k = 1; k < in.size(); ++k) result = b.add(result, in[k]);
  return result;
}

/// Slots whose memory Y[i,j], 3 by 4, may take.
std::vector<int> slots_of(SpecBuilder& s, std::vector<Operand> operands, const Body& body = sum) {
  const Expression i = Expression::index(0, 3), j = Expression::index(1, 4);
  s.output(s.value({0, 1}, {}, std::nullopt, std::move(operands), body), i * 4 + j, 12);
  return replaceable_slots(s.plain());
}

TEST(InPlace, TakesTensorsThatAreReadWhereTheResultIsWritten) {
  SpecBuilder s;
  const Expression i = s.axis(3), j = s.axis(4), here = i * 4 + j;
  const int same = s.slot(12), turned = s.slot(12), columns = s.slot(4), both = s.slot(12),
            other = s.slot(12);
  EXPECT_EQ(slots_of(s, {s.load(same, here), s.load(turned, 11 - here), s.load(columns, j),
                         s.load(both, here), s.load(both, here), s.load(other, here)}),
            (std::vector{same, both, other}));
}

/// The element that one iteration reads was written by another before.
TEST(InPlace, NotWhereALoadReadsAnotherElement) {
  const auto taken = [](const Expression& second) {
    SpecBuilder s;
    const Expression i = s.axis(3), j = s.axis(4);
    const int a = s.slot(12);
    return !slots_of(s, {s.load(a, i * 4 + j), s.load(a, second)}).empty();
  };
  const Expression i = Expression::index(0, 3), j = Expression::index(1, 4);
  EXPECT_TRUE(taken(i * 4 + j));
  EXPECT_FALSE(taken(i * 4));
  EXPECT_FALSE(taken(11 - i * 4 - j));
  EXPECT_FALSE(taken(j * 3 + i)) << "as columns";
}

/// A larger tensor holds more than the result; only the part that is read may be overwritten.
TEST(InPlace, NotWhereSizesDiffer) {
  SpecBuilder s;
  const Expression i = s.axis(3), j = s.axis(4);
  EXPECT_TRUE(slots_of(s, {s.load(s.slot(13), i * 4 + j)}).empty());
}

TEST(InPlace, NotWhereALoadIsPadded) {
  SpecBuilder s;
  const Expression i = s.axis(3), j = s.axis(4);
  EXPECT_TRUE(slots_of(s, {s.load(s.slot(12), i * 4 + j, {{j.lt(3), Number(0)}})}).empty());
}

/// Elements of other types are taken where they have as many bytes.
TEST(InPlace, NotWhereElementsHaveOtherSizes) {
  const auto taken = [](Dtype read) {
    SpecBuilder s;
    const Expression i = s.axis(3), j = s.axis(4);
    return !slots_of(s, {s.load(s.slot(12, read), i * 4 + j)}, [](ScalarBuilder& b, Scalars in) {
              return b.convert(in[0], Dtype::F32);
            }).empty();
  };
  EXPECT_TRUE(taken(Dtype::F32));
  EXPECT_TRUE(taken(Dtype::I32));
  for (const Dtype other : {Dtype::F16, Dtype::F64, Dtype::Bool, Dtype::I64}) EXPECT_FALSE(taken(other));
}

TEST(InPlace, NotWhereElementsLieInBlocks) {
  SpecBuilder s;
  const Expression i = s.axis(32);
  const int a = s.slot(32, Dtype::Q8_0);
  s.output(s.value({0}, {}, std::nullopt, {s.load(a, i)}, sum), i, 32);
  EXPECT_TRUE(replaceable_slots(s.plain()).empty());
}

/// A loop that computes one value may have passed an element that another still reads.
TEST(InPlace, NotInSpecsOfSeveralValues) {
  SpecBuilder s;
  const Expression i = s.axis(6), j = s.axis(5);
  const int a = s.slot(6), c = s.slot(5);
  const int first = s.value({0}, {}, std::nullopt, {s.load(a, i)}, sum);
  const int most = s.value({}, {1}, Monoid::Max, {s.load(c, j)}, sum);
  s.output(s.value({0}, {}, std::nullopt, {s.read(first), s.read(most)}, sum), i, 6);
  const KernelSpec spec = s.plain();
  EXPECT_TRUE(replaceable_slots(spec).empty());
  EXPECT_TRUE(read_where_written(spec, a, spec.outputs()[0])) << "what a plan asks of a slot alone";
  EXPECT_FALSE(read_where_written(spec, c, spec.outputs()[0]));
}

TEST(InPlace, NotInSpecsOfSeveralOutputs) {
  SpecBuilder s;
  const Expression i = s.axis(6);
  const int v = s.value({0}, {}, std::nullopt, {s.load(s.slot(6), i)}, sum);
  s.output(v, i, 6);
  s.output(v, 5 - i, 6);
  EXPECT_TRUE(replaceable_slots(s.plain()).empty());
}

/// Y[i] = max k: A[i] * B[k] reads A once for each k.
TEST(InPlace, NotInReductions) {
  SpecBuilder s;
  const Expression i = s.axis(6), k = s.axis(5);
  const int a = s.slot(6), c = s.slot(5);
  s.output(s.value({0}, {1}, Monoid::Max, {s.load(a, i), s.load(c, k)},
                   [](ScalarBuilder& b, Scalars in) { return b.mul(in[0], in[1]); }),
           i, 6);
  EXPECT_TRUE(replaceable_slots(s.plain()).empty());
}

}  // namespace
}  // namespace luminal::kernel::test
