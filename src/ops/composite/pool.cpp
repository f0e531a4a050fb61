#include "ops/composite/window.h"

// Pools: a maximum or a mean over windows, which are views.
namespace luminal {

using namespace composite;

namespace {

template <size_t N>
struct Pooled {
  WindowGeometry geometry;
  GraphTensor images;  ///< with a batch axis
  Shape behind;        ///< padding at the ends that the last window needs beside the usual one
  bool added = false;

  Pooled(const GraphTensor& x, const PoolOptions<N>& options)
      : geometry{Shape(options.kernel.begin(), options.kernel.end()), listed(options.stride),
                 listed(options.padding), listed(options.dilation)} {
    for (size_t i = 0; i < N; ++i)
      if (geometry.stride[i] == 0) geometry.stride[i] = options.kernel[i];
    images = batched(x, N, added);
    check_geometry(geometry);
    for (size_t i = 0; i < N; ++i) {
      if (options.padding[i] * 2 > options.kernel[i])
        reject(
            "the padding {} is more than half the kernel {}, so a window could hold padding only; pad less",
            options.padding[i], options.kernel[i]);
      place(i, options.ceil_mode);
    }
  }

  [[nodiscard]] GraphTensor seen(Number fill) const { return windows(images, geometry, behind, fill); }
  /// The axes of `seen` that hold a window.
  [[nodiscard]] std::vector<int> window_axes() const {
    std::vector<int> axes;
    for (size_t i = 0; i < N; ++i) axes.push_back(static_cast<int>(2 + N + i));
    return axes;
  }
  [[nodiscard]] GraphTensor unbatched(const GraphTensor& result) const {
    return added ? result.squeeze(0) : result;
  }

 private:
  /// A last window counts if it starts inside the input or the padding before it, as in PyTorch.
  void place(size_t i, bool ceil_mode) {
    const Expression size = images.dim(2 + static_cast<int>(i));
    const int64_t stride = geometry.stride[i], padding = geometry.padding[i];
    const Expression room = size + 2 * padding - geometry.reach(i);
    if (!ceil_mode) {
      behind.emplace_back(0);
      return;
    }
    const Expression count = (room.ceil_div(stride) + 1).min((size + padding).ceil_div(stride));
    behind.push_back(((count - 1) * stride - room).max(0));
  }
};

template <size_t N>
GraphTensor pooled_maximum(const GraphTensor& x, const PoolOptions<N>& options) {
  const GraphTensor values = numeric(x);
  const Pooled<N> pool(values, options);
  return pool.unbatched(maximum_over(pool.seen(neutral_element(Monoid::Max, values.dtype())),
                                     pool.window_axes(), false, Ties::First));
}

/// How many elements each window of `seen` has, of dims [out...].
template <size_t N>
GraphTensor window_counts(const Pooled<N>& pool, const GraphTensor& seen, bool include_padding) {
  Graph graph = pool.images.graph();
  std::optional<GraphTensor> counts;
  for (size_t i = 0; i < N; ++i) {
    const Expression size = pool.images.dim(2 + static_cast<int>(i));
    const int64_t padding = pool.geometry.padding[i];
    const Expression start = Expression::flat_index() * pool.geometry.stride[i] - padding;
    const Expression end = (start + pool.geometry.kernel[i]).min(include_padding ? size + padding : size);
    GraphTensor along =
        formula(graph, end - (include_padding ? start : start.max(0)), {seen.dim(2 + static_cast<int>(i))});
    for (size_t behind = i + 1; behind < N; ++behind) along = along.unsqueeze(along.rank());
    counts = counts ? *counts * along : along;
  }
  return counts->cast(seen.dtype());
}

template <size_t N>
GraphTensor pooled_mean(const GraphTensor& x, const PoolOptions<N>& options) {
  const bool counted = options.ceil_mode || !options.count_include_pad;
  for (const int64_t dilation : options.dilation)
    if (counted && dilation != 1)
      reject("the dilation is {}; with ceil_mode, or without counting padding, it must be 1", dilation);
  const GraphTensor values = widened(x);
  const Pooled<N> pool(values, options);
  const GraphTensor seen = pool.seen(0), sums = reduced(kSumReduce, seen, pool.window_axes(), false);
  Expression count = 1;
  for (const int64_t size : options.kernel) count *= size;
  const GraphTensor mean =
      counted ? sums / window_counts(pool, seen, options.count_include_pad) : sums / count;
  return pool.unbatched(mean.cast(floating_dtype(x.dtype())));
}

}  // namespace

GraphTensor max_pool1d(const GraphTensor& x, const Pool1dOptions& options, Where at) {
  const CallSite site("max_pool1d", at);
  return pooled_maximum(x, options);
}
GraphTensor max_pool2d(const GraphTensor& x, const Pool2dOptions& options, Where at) {
  const CallSite site("max_pool2d", at);
  return pooled_maximum(x, options);
}
GraphTensor max_pool3d(const GraphTensor& x, const Pool3dOptions& options, Where at) {
  const CallSite site("max_pool3d", at);
  return pooled_maximum(x, options);
}
GraphTensor avg_pool1d(const GraphTensor& x, const Pool1dOptions& options, Where at) {
  const CallSite site("avg_pool1d", at);
  return pooled_mean(x, options);
}
GraphTensor avg_pool2d(const GraphTensor& x, const Pool2dOptions& options, Where at) {
  const CallSite site("avg_pool2d", at);
  return pooled_mean(x, options);
}
GraphTensor avg_pool3d(const GraphTensor& x, const Pool3dOptions& options, Where at) {
  const CallSite site("avg_pool3d", at);
  return pooled_mean(x, options);
}

namespace {

/// The mean of `wide`'s elements floor(i N / n) to ceil((i + 1) N / n), for i of n.
GraphTensor adapted(const GraphTensor& x, int axis, const Expression& size) {
  const Expression from = x.dim(axis);
  if (from == size) return x;
  const auto known_from = from.constant(), known_size = size.constant();
  if (known_from && known_size && *known_size > 0 && *known_from % *known_size == 0) {
    const GraphTensor parts = x.split_dims(axis, *known_from / *known_size);
    return reduced(kSumReduce, parts, {axis + 1}, false) / (*known_from / *known_size);
  }
  if (from.range().max < 1) reject("axis {} of {} has no elements to average", axis, x.type().to_string());
  // Windows of different length: as many places as the longest needs, those beyond the end count nothing.
  Graph graph = x.graph();
  const Expression places = known_from && known_size ? Expression((*known_from - 1) / *known_size + 2)
                                                     : from.ceil_div(size.max(1)) + 1;
  const Expression z = Expression::flat_index(), i = z / places.max(1), k = z % places.max(1);
  const Expression start = i * from / size.max(1), end = ((i + 1) * from).ceil_div(size.max(1));
  const GraphTensor index = formula(graph, (start + k).min(from - 1), {size, places});
  const GraphTensor inside = formula(graph, (start + k).lt(end), {size, places}, x.dtype());
  GraphTensor weight = inside / reduced(kSumReduce, inside, {1}, true);
  for (int behind = axis + 1; behind < x.rank(); ++behind) weight = weight.unsqueeze(weight.rank());
  return product_sum(x.index_select(axis, index), weight, {axis + 1});
}

}  // namespace

GraphTensor adaptive_avg_pool(const GraphTensor& x, Shape sizes, Where at) {
  const CallSite site("adaptive_avg_pool", at);
  if (sizes.empty() || sizes.size() > static_cast<size_t>(x.rank()))
    reject("{} sizes for {}; give one for each of the last axes that is to be averaged", sizes.size(),
           x.type().to_string());
  GraphTensor result = widened(x);
  const int first = x.rank() - static_cast<int>(sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].range().max < 1) reject("a size is {}; give sizes above 0", sizes[i].to_string());
    result = adapted(result, first + static_cast<int>(i), sizes[i]);
  }
  return result.cast(floating_dtype(x.dtype()));
}

}  // namespace luminal
