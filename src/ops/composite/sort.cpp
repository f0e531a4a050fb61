#include <bit>

#include "ops/composite/build.h"

// Sorting without a primitive of its own. An element and its place are packed into one i64, the value in the
// upper half: comparing two of them compares values and, where these are equal, places, so every method below
// is stable. Values come back by a gather, through which gradients flow.
//
// Axes with a known bound go through Batcher's bitonic network (1968): log2(n)^2 / 2 stages, each a
// comparison of the whole axis with a view of itself. Axes without a bound go through a radix sort of one bit
// a pass (Blelloch 1990), whose graph does not depend on the size.
namespace luminal {

using namespace composite;

namespace {

constexpr int64_t kMaxNetwork = 4096;  // longest axis of symbolic size sorted by the network
constexpr int kKeyBits = 32;

/// An i64 in the order of x, equal where x is equal, NaN above all; 32 bits are used unless x has 64.
GraphTensor ordered_key(const GraphTensor& x) {
  if (!is_float(x.dtype())) return x.cast(Dtype::I64);
  const bool wide = x.dtype() == Dtype::F64;
  const Dtype bits_dtype = wide ? Dtype::I64 : Dtype::I32;
  const GraphTensor value = wide ? x : x.cast(Dtype::F32);
  const GraphTensor bits = value.as_dtype(bits_dtype).cast(Dtype::I64);
  // The bits of negative floats fall as the floats rise.
  const Number magnitude = wide ? Number(INT64_MAX) : Number(int64_t{INT32_MAX});
  const GraphTensor rising = select(less(bits, 0), elementwise(kXor, {bits, scalar(bits, magnitude)}), bits);
  const GraphTensor zero = both(inverted(less(value, 0)), inverted(less(0, value)));  // -0 is 0; NaN too
  return select(not_nan(value), select(zero, scalar(bits, 0), rising), scalar(bits, magnitude));
}

/// Key and place in one number. Shapes: key's, which must lie in 32 bits.
GraphTensor packed(const GraphTensor& key, int axis) {
  const GraphTensor high = elementwise(kShift, {key, scalar(key, kKeyBits)});
  return elementwise(kOr, {high, positions(key, axis)});
}

GraphTensor places_in(const GraphTensor& packed_keys) {
  return elementwise(kAnd, {packed_keys, scalar(packed_keys, int64_t{UINT32_MAX})});
}

// --- The network, on the last axis

/// Each element becomes the lesser of itself and its partner, or the greater where `upper` is 1.
GraphTensor exchanged(const GraphTensor& x, const GraphTensor& partner, const GraphTensor& upper) {
  return select(elementwise(kXor, {less(x, partner), upper}), x, partner);
}

/// Puts blocks of `width`, whose halves are each in order, in order: first against the mirrored block, then
/// with ever nearer partners. Shapes: [..., n], width divides n.
GraphTensor merged_halves(const GraphTensor& x, int64_t width) {
  Graph graph = x.graph();
  const int last = x.rank() - 1;
  GraphTensor blocks = x.split_dims(last, width);
  const GraphTensor behind = formula(graph, Expression::flat_index().gte(width / 2), {width}, Dtype::Bool);
  blocks = exchanged(blocks, blocks.flip(last + 1), behind).merge_dims(last, last + 1);
  const GraphTensor second = formula(graph, Expression::flat_index(), {2, 1}, Dtype::Bool);
  for (int64_t distance = width / 4; distance > 0; distance /= 2) {
    const GraphTensor pairs = blocks.split_dims(last, 2 * distance).split_dims(last + 1, distance);
    blocks = exchanged(pairs, pairs.flip(last + 1), second).merge_dims(last + 1, last + 2);
    blocks = blocks.merge_dims(last, last + 1);
  }
  return blocks;
}

/// The `count` least of each block of 2 * count, whose halves are in order: of each pair (i from the front, i
/// from the back) the lesser, in order again. Shapes: [..., n] -> [..., n / 2].
GraphTensor least_halves(const GraphTensor& x, int64_t count) {
  const int last = x.rank() - 1;
  const GraphTensor halves = x.split_dims(last, 2 * count).split_dims(last + 1, count);
  const GraphTensor front = halves.slice_along(last + 1, 0, 1).squeeze(last + 1);
  const GraphTensor back = halves.slice_along(last + 1, 1, 2).squeeze(last + 1).flip(last + 1);
  GraphTensor blocks = select(less(front, back), front, back);  // first falling or rising, then the other
  Graph graph = x.graph();
  const GraphTensor second = formula(graph, Expression::flat_index(), {2, 1}, Dtype::Bool);
  for (int64_t distance = count / 2; distance > 0; distance /= 2) {
    const GraphTensor pairs = blocks.split_dims(last + 1, distance).split_dims(last + 1, 2);
    blocks = exchanged(pairs, pairs.flip(last + 2), second)
                 .merge_dims(last + 1, last + 2)
                 .merge_dims(last + 1, last + 2);
  }
  return blocks.merge_dims(last, last + 1);
}

/// The first `wanted` of the last axis, which has at most `bound` elements, in order; what is beyond the end
/// is the greatest number.
GraphTensor network(const GraphTensor& x, int64_t bound, int64_t wanted) {
  const int last = x.rank() - 1;
  const auto block = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(wanted, 1))));
  auto size = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(bound, 1))));
  size = std::max(size, block);
  GraphTensor sorted = x.pad_along(last, 0, Expression(size) - x.dim(last), INT64_MAX);
  for (int64_t width = 2; width <= block; width *= 2) sorted = merged_halves(sorted, width);
  for (; size > block; size /= 2) sorted = least_halves(sorted, block);
  return sorted.slice_along(last, 0, wanted);
}

// --- The radix sort, on the last axis

GraphTensor radix(GraphTensor x) {
  Graph graph = x.graph();
  const int last = x.rank() - 1;
  const Expression size = x.dim(last), z = Expression::flat_index();
  const GraphTensor row_start = formula(graph, z / size.max(1) * size, x.dims());
  const GraphTensor place = positions(x, last);
  for (int bit = kKeyBits; bit < 2 * kKeyBits; ++bit) {
    GraphTensor ones = elementwise(kAnd, {elementwise(kShift, {x, scalar(x, -bit)}), scalar(x, 1)});
    if (bit + 1 == 2 * kKeyBits) ones = elementwise(kXor, {ones, scalar(ones, 1)});  // the sign: 1 is less
    const GraphTensor ones_before = ones.cumsum(last) - ones;
    const GraphTensor zeros = graph.constant(size) - ones.sum(last, true);
    const GraphTensor target = select(truth(ones), zeros + ones_before, place - ones_before);
    x = apply(kScatter, {x, row_start + target, x}, {{"mode", std::string("assign")}});
  }
  return x;
}

/// The places of the first `wanted` (all, if empty) elements of the last axis in order of a 32-bit key.
GraphTensor sorted_places(const GraphTensor& key, std::optional<int64_t> wanted) {
  const int last = key.rank() - 1;
  const GraphTensor numbers = packed(key, last);
  const Expression& size = key.dim(last);
  const int64_t bound = size.range().max;
  GraphTensor sorted;
  if (size.constant() || bound <= kMaxNetwork)
    sorted = network(numbers, bound, wanted.value_or(bound));
  else
    sorted = wanted ? radix(numbers).slice_along(last, 0, *wanted) : radix(numbers);
  if (!wanted && !size.constant() && bound <= kMaxNetwork) sorted = sorted.slice_along(last, 0, size);
  return places_in(sorted);
}

/// Keys of 64 bits by their lower half, then, stably, by their upper half.
GraphTensor wide_places(const GraphTensor& key, std::optional<int64_t> wanted) {
  const int last = key.rank() - 1;
  const GraphTensor low = elementwise(kAnd, {key, scalar(key, int64_t{UINT32_MAX})}) - (int64_t{1} << 31);
  const GraphTensor by_low = sorted_places(low, std::nullopt);
  const GraphTensor high = elementwise(kShift, {key, scalar(key, -kKeyBits)}).gather_elements(last, by_low);
  return by_low.gather_elements(last, sorted_places(high, wanted));
}

GraphTensor first_places(const GraphTensor& x, int axis, bool descending, std::optional<int64_t> wanted) {
  std::vector<int> order(static_cast<size_t>(x.rank()));
  for (int i = 0; i < x.rank(); ++i) order[static_cast<size_t>(i)] = i;
  std::swap(order[static_cast<size_t>(axis)], order.back());
  GraphTensor key = ordered_key(x.stop_gradient()).permute(order);
  if (descending) key = reversed(key);
  const bool wide = x.dtype() == Dtype::F64 || x.dtype() == Dtype::I64;
  return (wide ? wide_places(key, wanted) : sorted_places(key, wanted)).permute(order);
}

}  // namespace

GraphTensor GraphTensor::argsort(int axis, bool descending, Where at) const {
  const CallSite site("argsort", at);
  return first_places(*this, axis_of(*this, axis), descending, std::nullopt);
}

GraphTensor GraphTensor::sort(int axis, bool descending, Where at) const {
  const CallSite site("sort", at);
  const int on = axis_of(*this, axis);
  return gather_elements(on, first_places(*this, on, descending, std::nullopt));
}

std::pair<GraphTensor, GraphTensor> GraphTensor::topk(int64_t k, int axis, bool largest, Where at) const {
  const CallSite site("topk", at);
  const int on = axis_of(*this, axis);
  if (k < 0 || Expression::known_less(dim(on), k))
    reject("k is {} and axis {} of {} has {} elements; give a k from 0 to that number", k, on,
           type().to_string(), dim(on).to_string());
  const GraphTensor places = first_places(*this, on, largest, k);
  return {gather_elements(on, places), places};
}

}  // namespace luminal
