#include "luminal/nn/linear.h"

#include <algorithm>
#include <type_traits>

#include "base/place.h"
#include "nn/weights.h"

namespace luminal::nn {

Linear::Linear(GraphSite cx, int64_t in, int64_t out, const Options& options) : permuted(options.permuted) {
  const CallSite site("Linear", cx.where);
  check_size("Linear", "in", in);
  check_size("Linear", "out", out);
  check_float("Linear", options.dtype);
  weight =
      fan_in_weight(cx, "weight", permuted ? std::vector{in, out} : std::vector{out, in}, in, options.dtype);
  if (options.bias) bias = fan_in_weight(cx, "bias", {out}, in, options.dtype);
}

GraphTensor Linear::forward(const GraphTensor& x, Where where) const {
  const CallSite site("Linear", where);
  const Expression& in = weight.dim(permuted ? 0 : 1);
  if (x.rank() == 0 || !Expression::known_equal(x.dim(-1), in))
    fail<ShapeError>("[Linear] x is {} and must end in {} to match the weight {}", x.type().to_string(),
                     in.to_string(), weight.type().to_string());
  const GraphTensor product = x.matmul(permuted ? weight : weight.t());
  return bias ? product + *bias : product;
}

void Linear::serialize(Serializer& s) const {
  s.tensor("weight", weight);
  if (bias) s.tensor("bias", *bias);
}

Embedding::Embedding(GraphSite cx, int64_t count, int64_t size, const Options& options)
    : padding_idx(options.padding_idx), permuted(options.permuted) {
  const CallSite site("Embedding", cx.where);
  check_size("Embedding", "count", count);
  check_size("Embedding", "size", size);
  check_float("Embedding", options.dtype);
  if (padding_idx && (*padding_idx < -count || *padding_idx >= count))
    fail("[Embedding] padding_idx={} is outside the {} rows; give one from {} to {}", *padding_idx, count,
         -count, count - 1);
  if (padding_idx && *padding_idx < 0) *padding_idx += count;
  const std::vector<int64_t> dims = permuted ? std::vector{size, count} : std::vector{count, size};
  weight = make_weight(
      cx, "weight", options.dtype, dims,
      [=, padding = padding_idx, columns = permuted, stream = init::Stream(cx)] {
        TensorData values = init::normal(stream, dims, 0, 1);
        for (int64_t i = 0; padding && i < size; ++i)
          values.as<float>()[static_cast<size_t>(columns ? i * count + *padding : *padding * size + i)] = 0;
        return values;
      });
}

namespace {

void check_rows(const TensorData& index, int64_t rows) {
  visit_dtype(index.dtype, [&](auto element) {
    if constexpr (std::is_integral_v<decltype(element)>) {
      const auto values = index.as<decltype(element)>();
      for (size_t i = 0; i < values.size(); ++i)
        if (const auto row = static_cast<int64_t>(values[i]); row < 0 || row >= rows)
          fail(
              "[Embedding] the index at {} is {}, but the table has the rows 0..{}; fix the data, or make "
              "the table larger",
              place_of(i, index.dims), row, rows - 1);
    }
  });
}

/// An input's indices are looked at when it is set, where what they are is still known.
void watch(GraphTensor index, int64_t rows) {
  const Graph graph = index.graph();
  if (is_computed(*graph.node(index.node()).op) || !index.edge().view.is_identity()) return;
  index.check_data([rows](const TensorData& data) { check_rows(data, rows); });
}

}  // namespace

GraphTensor Embedding::forward(const GraphTensor& index, Where where) const {
  const CallSite site("Embedding", where);
  if (const auto rows = weight.dim(permuted ? 1 : 0).constant()) watch(index, *rows);
  const GraphTensor rows = (permuted ? weight.t() : weight).index_select(0, index);
  if (!padding_idx) return rows;
  return index.eq(*padding_idx).unsqueeze(-1).where(rows.stop_gradient(), rows);
}

GraphTensor Embedding::logits(const GraphTensor& x, Where where) const {
  const CallSite site("Embedding", where);
  return x.matmul(permuted ? weight : weight.t());
}

}  // namespace luminal::nn
