#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dense.h"
#include "luminal/shape_tracker.h"
#include "oracle.h"

/// Random chains of movement steps, each with the same step on dense tensors.
namespace luminal::chain {

using Pair = std::pair<Expression, Expression>;

/// One step: on views, and on dense tensors at given sizes.
struct Step {
  std::function<ShapeTracker(const ShapeTracker&)> view;
  std::function<dense::Tensor(const dense::Tensor&, const DimMap&)> dense;
};

class Generator {
 public:
  explicit Generator(oracle::Random& random) : random_(random) {}

  /// A step that fits the view at every size.
  Step next(const ShapeTracker& v) {
    const int rank = v.rank();
    for (;;) {
      const int64_t kind = random_.between(0, 11);
      const int axis = rank == 0 ? 0 : static_cast<int>(random_.between(0, rank - 1));
      if (kind == 0 && rank > 1) return permute(rank);
      if (kind == 1 && rank < 6) return expand(static_cast<int>(random_.between(0, rank)));
      if (kind == 2 && rank > 1 && axis + 1 < rank) return merge(axis);
      if (kind == 3 && rank > 0 && rank < 6) {
        const int64_t inner = random_.pick(std::vector<int64_t>{2, 3, 4});
        if (v.dims()[static_cast<size_t>(axis)].divisor() % inner == 0) return split(axis, inner);
      }
      if (kind == 4) return reshape(v);
      if (kind == 5 && rank > 0) return slice(v);
      if (kind == 6 && rank > 0) return slice_along(axis);
      if (kind == 7 && rank > 0) return pad(rank);
      if (kind == 8 && rank < 6) return unsqueeze(static_cast<int>(random_.between(0, rank)));
      if (kind == 9 && rank > 0 && v.dims()[static_cast<size_t>(axis)] == Expression(1)) return squeeze(axis);
      if (kind == 10 && rank > 0) return flip(axis);
      if (kind == 11 && rank > 0 && rank < 6) return pool(axis);
    }
  }

 private:
  using Coordinates = dense::Coordinates;
  using Tensor = dense::Tensor;

  static Coordinates without(Coordinates c, int axis) {
    c.erase(c.begin() + axis);
    return c;
  }
  static Coordinates with(Coordinates c, int axis, int64_t value) {
    c.insert(c.begin() + axis, value);
    return c;
  }

  Step permute(int rank) {
    std::vector<int> order;
    for (int k = 0; k < rank; ++k) order.push_back(k);
    random_.shuffle(order);
    return {[=](const ShapeTracker& v) { return v.permute(order); },
            [=](const Tensor& x, const DimMap&) {
              std::vector<int64_t> dims;
              for (int a : order) dims.push_back(x.dims[static_cast<size_t>(a)]);
              return gather(x, dims, [=](const Coordinates& o) {
                Coordinates i(o.size());
                for (size_t k = 0; k < o.size(); ++k) i[static_cast<size_t>(order[k])] = o[k];
                return i;
              });
            }};
  }

  Step expand(int axis) {
    const Expression size = random_.chance(30) ? Expression("a") : Expression(random_.between(1, 3));
    return {[=](const ShapeTracker& v) { return v.expand(axis, size); },
            [=](const Tensor& x, const DimMap& at) {
              return gather(x, with(x.dims, axis, size.exec(at)),
                            [=](const Coordinates& o) { return without(o, axis); });
            }};
  }

  // Row-major changes of shape keep the values as they stand.
  template <class Dims>
  static Step regroup(std::function<ShapeTracker(const ShapeTracker&)> view, Dims dims) {
    return {std::move(view),
            [=](const Tensor& x, const DimMap& at) { return Tensor{dims(x.dims, at), x.values}; }};
  }

  Step merge(int axis) {
    return regroup([=](const ShapeTracker& v) { return v.merge_dims(axis, axis + 1); },
                   [=](std::vector<int64_t> dims, const DimMap&) {
                     const auto k = static_cast<size_t>(axis);
                     dims[k] *= dims[k + 1];
                     return without(dims, axis + 1);
                   });
  }

  Step split(int axis, int64_t inner) {
    return regroup([=](const ShapeTracker& v) { return v.split_dims(axis, inner); },
                   [=](std::vector<int64_t> dims, const DimMap&) {
                     dims[static_cast<size_t>(axis)] /= inner;
                     return with(dims, axis + 1, inner);
                   });
  }

  // Runs of axes merged, factors of 2 and 3 moved to axes of their own, the axes' sizes in another order.
  Step reshape(const ShapeTracker& v) {
    Shape dims = v.dims();
    if (random_.chance(50)) random_.shuffle(dims);
    Shape to;
    for (const Expression& d : dims) {
      if (!to.empty() && random_.chance(30)) {
        to.back() *= d;
      } else if (d.divisor() % 2 == 0 && d.divisor() != 0 && to.size() < 5 && random_.chance(40)) {
        to.push_back(2);
        to.push_back(d / 2);
      } else {
        to.push_back(d);
      }
    }
    return regroup([=](const ShapeTracker& w) { return w.reshape(to); },
                   [=](const std::vector<int64_t>&, const DimMap& at) { return exec(to, at); });
  }

  // Python's meaning of a bound.
  static int64_t clamp(int64_t bound, int64_t size) {
    if (bound < 0) bound = std::max<int64_t>(bound + size, 0);
    return std::min(bound, size);
  }
  static Tensor strided_slice(const Tensor& x, const std::vector<int64_t>& start,
                              const std::vector<int64_t>& end, const std::vector<int64_t>& step) {
    std::vector<int64_t> dims, first;
    for (size_t k = 0; k < x.dims.size(); ++k) {
      first.push_back(clamp(start[k], x.dims[k]));
      dims.push_back(std::max<int64_t>((clamp(end[k], x.dims[k]) - first[k] + step[k] - 1) / step[k], 0));
    }
    return gather(x, dims, [=](const Coordinates& o) {
      Coordinates i(o.size());
      for (size_t k = 0; k < o.size(); ++k) i[k] = first[k] + o[k] * step[k];
      return i;
    });
  }

  Step slice(const ShapeTracker& v) {
    std::vector<Pair> ranges;
    for (const Expression& d : v.dims()) {
      const Expression start = random_.chance(60) ? 0 : random_.between(-3, 2);
      const int64_t kind = random_.between(0, 3);
      // A symbolic end must lie within the dim: at most d, at least 0.
      const Expression end = kind == 0   ? Expression(INT64_MAX)
                             : kind == 1 ? Expression(random_.between(-2, 6))
                             : kind == 2 ? d
                                         : (d - 1).max(0);
      ranges.emplace_back(start, end);
    }
    return {[=](const ShapeTracker& w) { return w.slice(ranges); },
            [=](const Tensor& x, const DimMap& at) {
              std::vector<int64_t> start, end;
              for (const auto& [s, e] : ranges) {
                start.push_back(s.exec(at));
                end.push_back(e.exec(at));
              }
              return strided_slice(x, start, end, std::vector<int64_t>(start.size(), 1));
            }};
  }

  Step slice_along(int axis) {
    const int64_t start = random_.between(-2, 2),
                  end = random_.chance(50) ? INT64_MAX : random_.between(-1, 7);
    const int64_t step = random_.between(1, 3);
    return {[=](const ShapeTracker& v) { return v.slice_along(axis, start, end, step); },
            [=](const Tensor& x, const DimMap&) {
              const auto at = static_cast<size_t>(axis);
              std::vector<int64_t> starts(x.dims.size(), 0), ends = x.dims, steps(x.dims.size(), 1);
              starts[at] = start, ends[at] = end, steps[at] = step;
              return strided_slice(x, starts, ends, steps);
            }};
  }

  Step pad(int rank) {
    std::vector<Pair> amounts;
    for (int k = 0; k < rank; ++k) {
      const bool symbolic = random_.chance(10);
      amounts.emplace_back(random_.chance(50) ? 0 : random_.between(0, 2),
                           random_.chance(50) ? Expression(0)
                           : symbolic         ? Expression("a")
                                              : Expression(random_.between(0, 2)));
    }
    const int64_t fill = random_.pick(std::vector<int64_t>{0, 0, 7, -3});
    return {[=](const ShapeTracker& v) { return v.pad(amounts, fill); },
            [=](const Tensor& x, const DimMap& at) {
              std::vector<int64_t> dims = x.dims, before;
              for (size_t k = 0; k < dims.size(); ++k) {
                before.push_back(amounts[k].first.exec(at));
                dims[k] += before[k] + amounts[k].second.exec(at);
              }
              const auto from = [=](Coordinates o) {
                for (size_t k = 0; k < o.size(); ++k) o[k] -= before[k];
                return o;
              };
              return gather(x, dims, from, fill);
            }};
  }

  Step unsqueeze(int axis) {
    return regroup([=](const ShapeTracker& v) { return v.unsqueeze(axis); },
                   [=](const std::vector<int64_t>& dims, const DimMap&) { return with(dims, axis, 1); });
  }
  Step squeeze(int axis) {
    return regroup([=](const ShapeTracker& v) { return v.squeeze(axis); },
                   [=](const std::vector<int64_t>& dims, const DimMap&) { return without(dims, axis); });
  }

  Step flip(int axis) {
    return {[=](const ShapeTracker& v) { return v.flip(axis); },
            [=](const Tensor& x, const DimMap&) {
              return gather(x, x.dims, [=, size = x.dims[static_cast<size_t>(axis)]](Coordinates o) {
                o[static_cast<size_t>(axis)] = size - 1 - o[static_cast<size_t>(axis)];
                return o;
              });
            }};
  }

  Step pool(int axis) {
    const int64_t window = random_.between(1, 3), stride = random_.between(1, 3),
                  dilation = random_.between(1, 2);
    return {[=](const ShapeTracker& v) { return v.pool(axis, window, stride, dilation); },
            [=](const Tensor& x, const DimMap&) {
              const auto at = static_cast<size_t>(axis);
              int64_t windows = 0;  // counted, not computed
              while (windows * stride + dilation * (window - 1) < x.dims[at]) ++windows;
              std::vector<int64_t> dims = with(x.dims, axis + 1, window);
              dims[at] = windows;
              return gather(x, dims, [=](const Coordinates& o) {
                Coordinates i = without(o, axis + 1);
                i[at] = o[at] * stride + o[at + 1] * dilation;
                return i;
              });
            }};
  }

  oracle::Random& random_;
};

}  // namespace luminal::chain
