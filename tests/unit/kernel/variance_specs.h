#pragma once
#include "unit/kernel/spec_builder.h"

namespace luminal::kernel::test {

/// m = sum j: x(j) / length; Y = sum j: (x(j) - m)^2, and m beside it.
struct Variance {
  Expression rows = 3, length = 2500;
  Dtype dtype = Dtype::F32;
  bool by_column = false;    ///< the rows are columns in memory
  bool of_products = false;  ///< x is a product with a vector along the row
  bool from_given = false;   ///< deviations from a number of each row, not from the mean
  bool adds = false;         ///< that number is added
  bool padded = false;       ///< the first 100 elements of a row are 2
  bool with_least = false;   ///< the greatest element of each row, too

  [[nodiscard]] KernelSpec spec() const {
    SpecBuilder s;
    const Expression r = s.axis(rows), j = s.axis(length);
    const int x = s.slot(rows * length, dtype);
    std::vector<Mask> masks;
    if (padded) masks.push_back({j.gte(100), Number(2)});
    std::vector<Operand> loads{s.load(x, by_column ? j * rows + r : r * length + j, masks)};
    if (of_products) loads.push_back(s.load(s.slot(length, dtype), j));
    const auto term = [&](ScalarBuilder& b, std::span<const Scalar> v) {
      return of_products ? b.mul(v[0], v[1]) : v[0];
    };
    const int sum = s.value({0}, {1}, Monoid::Add, loads, term);
    if (with_least) s.output(s.value({0}, {1}, Monoid::Max, loads, term), r, rows);
    std::vector<Operand> operands = loads;
    operands.push_back(from_given ? s.load(s.slot(rows, dtype), r) : s.read(sum));
    operands.push_back(SpecBuilder::number(length));
    const int squares =
        s.value({0}, {1}, Monoid::Add, operands, [&](ScalarBuilder& b, std::span<const Scalar> v) {
          const Scalar given = v[v.size() - 2];
          const Scalar from = from_given ? given : b.div(given, b.convert(v.back(), dtype));
          const Scalar difference = adds ? b.add(term(b, v), from) : b.sub(term(b, v), from);
          return b.mul(difference, difference);
        });
    s.output(squares, r, rows);
    s.output(sum, r, rows);
    return s.finish().spec;
  }
};

}  // namespace luminal::kernel::test
