#pragma once
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <vector>

/// Movement done the slow way: a dense tensor, copied after each step. Knows nothing of views.
namespace luminal::dense {

using Coordinates = std::vector<int64_t>;

struct Tensor {
  std::vector<int64_t> dims;
  std::vector<int64_t> values;
};

inline int64_t count(const std::vector<int64_t>& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

/// Calls body for all coordinates, last axis fastest.
inline void for_each(const std::vector<int64_t>& dims, const std::function<void(const Coordinates&)>& body) {
  if (count(dims) == 0) return;
  Coordinates at(dims.size(), 0);
  for (;;) {
    body(at);
    size_t k = dims.size();
    while (k > 0 && ++at[k - 1] == dims[k - 1]) at[--k] = 0;
    if (k == 0) return;
  }
}

inline int64_t offset(const std::vector<int64_t>& dims, const Coordinates& at) {
  int64_t flat = 0;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (at[k] < 0 || at[k] >= dims[k]) throw std::out_of_range("coordinate");
    flat = flat * dims[k] + at[k];
  }
  return flat;
}

inline bool inside(const std::vector<int64_t>& dims, const Coordinates& at) {
  for (size_t k = 0; k < dims.size(); ++k)
    if (at[k] < 0 || at[k] >= dims[k]) return false;
  return true;
}

/// The tensor of these dims whose element at o is the source's at from(o), or `fill` if that lies outside.
inline Tensor gather(const Tensor& x, std::vector<int64_t> dims,
                     const std::function<Coordinates(const Coordinates&)>& from, int64_t fill = 0) {
  Tensor y{std::move(dims), {}};
  for_each(y.dims, [&](const Coordinates& o) {
    const Coordinates i = from(o);
    y.values.push_back(inside(x.dims, i) ? x.values[static_cast<size_t>(offset(x.dims, i))] : fill);
  });
  return y;
}

/// 0, 1, 2, ... plus `first`.
inline Tensor counting(std::vector<int64_t> dims, int64_t first) {
  Tensor t{std::move(dims), {}};
  for (int64_t k = 0; k < count(t.dims); ++k) t.values.push_back(first + k);
  return t;
}

}  // namespace luminal::dense
