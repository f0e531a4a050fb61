#include <cmath>
#include <numbers>

#include "ops/composite/build.h"

// Random numbers: each node draws from a stream of its own, numbered in the order in which they are made.
namespace luminal {

using namespace composite;

namespace {

/// Uniform in [0, 1): 24 random bits, 53 for f64. A function of the element, so that who reads few of the numbers, or
/// reads them once more, makes them where they are needed.
GraphTensor draw(Graph& graph, Shape dims, Dtype dtype) {
  const GraphTensor words = leaf(
      graph, kRandom, {{"seed", static_cast<int64_t>(graph.seed())}, {"stream", graph.next_random_stream()}});
  const auto word = [&](int64_t i) { return words.slice_along(0, i, i + 1).squeeze(0); };
  const int64_t bits = dtype == Dtype::F64 ? 53 : 24;
  const GraphTensor element = formula(graph, Expression::flat_index(), std::move(dims));
  return elementwise(kRandomBits, {element, word(0), word(1)}, {{"bits", bits}}).cast(dtype) *
         std::ldexp(1.0, -static_cast<int>(bits));
}

/// f16 and bf16 are drawn in f32 and rounded.
Dtype drawn_dtype(Dtype dtype) {
  if (!is_float(dtype))
    reject<DtypeError>("random numbers are floats, got {}; draw f32 and cast", name(dtype));
  return accumulation_dtype(dtype);
}

}  // namespace

GraphTensor Graph::uniform(Shape dims, double low, double high, Dtype dtype, Where at) {
  const CallSite site("uniform", at);
  if (!(low <= high) || !std::isfinite(high - low))
    reject<Error>("low is {} and high {}; give finite numbers, low first", low, high);
  GraphTensor u = draw(*this, std::move(dims), drawn_dtype(dtype));
  if (low != 0 || high != 1) u = u * (high - low) + low;
  return u.cast(dtype);
}

// Box and Muller 1958. 1 - u is in (0, 1], so its logarithm is finite.
GraphTensor Graph::normal(Shape dims, double mean, double stddev, Dtype dtype, Where at) {
  const CallSite site("normal", at);
  if (!(stddev >= 0) || !std::isfinite(stddev) || !std::isfinite(mean))
    reject<Error>("mean is {} and stddev {}; give finite numbers, stddev at least 0", mean, stddev);
  const Dtype drawn = drawn_dtype(dtype);
  const GraphTensor u = draw(*this, dims, drawn), v = draw(*this, std::move(dims), drawn);
  GraphTensor z = ((1 - u).log() * -2).sqrt() * (v * (2 * std::numbers::pi)).cos();
  if (mean != 0 || stddev != 1) z = z * stddev + mean;
  return z.cast(dtype);
}

GraphTensor GraphTensor::dropout(double p, Where at) const {
  const CallSite site("dropout", at);
  if (!(p >= 0 && p <= 1)) reject<Error>("p is {}; give a probability between 0 and 1", p);
  if (p == 0) return *this;
  const GraphTensor x = floating(*this);
  if (p == 1) return broadcast_to(scalar(x, 0), x.dims());
  Graph owner = graph();
  const GraphTensor dropped = less(draw(owner, x.dims(), Dtype::F32), p);
  return select(dropped, scalar(x, 0), x * (1 / (1 - p)));
}

}  // namespace luminal
