#pragma once
#include "spec_builder.h"

/// Specs of sums of one term.
namespace luminal::kernel::test {

/// place == index ? x : 0
inline Scalar chosen(ScalarBuilder& b, Scalar place, Scalar index, Scalar x) {
  return b.select(b.eq(place, index), x, b.constant(b.dtype(x), 0));
}

/// Y[i] = sum k: k == P[i] ? A[i,k] : 0, times the sum of each row if `with_sums`.
inline KernelSpec element_of_each_row(int64_t rows, int64_t length, bool with_sums) {
  SpecBuilder s;
  const Expression i = s.axis(rows), k = s.axis(length);
  const int p = s.slot(rows, Dtype::I64), a = s.slot(rows * length);
  const Operand element = s.load(a, i * length + k);
  int y = s.value({0}, {1}, Monoid::Add, {SpecBuilder::number(k), s.load(p, i), element},
                  [](ScalarBuilder& b, std::span<const Scalar> v) { return chosen(b, v[1], v[0], v[2]); });
  if (with_sums) {
    const int sum = s.value({0}, {1}, Monoid::Add, {element},
                            [](ScalarBuilder&, std::span<const Scalar> v) { return v[0]; });
    y = s.value({0}, {}, std::nullopt, {s.read(y), s.read(sum)},
                [](ScalarBuilder& b, std::span<const Scalar> v) { return b.mul(v[0], v[1]); });
  }
  s.output(y, i, rows);
  return s.finish().spec;
}

}  // namespace luminal::kernel::test
