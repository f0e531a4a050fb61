#include <cmath>
#include <limits>

#include "ops/composite/build.h"

// Attention as plain math. A row that is masked whole gives zeros, as PyTorch's does, and so do its
// gradients: its maximum, minus infinity, counts as the least finite number, and its sum, 0, as 1/2. Other
// rows are not touched by either, since their sum is at least 1.
namespace luminal {

using namespace composite;

namespace {

/// The size of the query heads as groups of key heads, for the message: many models share keys between heads.
std::string head_remedy(const GraphTensor& q, const GraphTensor& k) {
  if (q.rank() < 3 || q.rank() != k.rank()) return "";
  const auto query_heads = q.dim(-3).constant(), key_heads = k.dim(-3).constant();
  if (!query_heads || !key_heads || *key_heads <= 1 || *query_heads % *key_heads != 0 ||
      *query_heads == *key_heads)
    return "";
  return fmt::format(
      "; {} query heads share {} key heads: q.split_dims({}, {}) with k.unsqueeze({}) and v.unsqueeze({})",
      *query_heads, *key_heads, q.rank() - 3, *query_heads / *key_heads, q.rank() - 2, q.rank() - 2);
}

void check_operand(const GraphTensor& x, std::string_view what) {
  if (x.rank() < 2) reject("{} is {}; give [..., length, size]", what, x.type().to_string());
  if (!is_float(x.dtype())) reject<DtypeError>("{} is {}; cast it to a float", what, x.type().to_string());
}

void check_keys(const GraphTensor& q, const GraphTensor& k) {
  check_operand(q, "q");
  check_operand(k, "k");
  if (!Expression::known_equal(q.dim(-1), k.dim(-1)))
    reject("q {} and k {} differ in their last axis; queries and keys have one head size",
           q.type().to_string(), k.type().to_string());
  if (const std::string heads = head_remedy(q, k); !heads.empty())
    reject("q {} and k {} differ in their heads{}", q.type().to_string(), k.type().to_string(), heads);
}

void check_values(const GraphTensor& k, const GraphTensor& v) {
  check_operand(v, "v");
  if (!Expression::known_equal(k.dim(-2), v.dim(-2)))
    reject("k {} and v {} differ in their length; give one value for each key", k.type().to_string(),
           v.type().to_string());
}

/// True where query i sees key j: j <= i + (keys - queries).
GraphTensor causal_mask(const GraphTensor& scores) {
  Graph graph = scores.graph();
  const Expression &queries = scores.dim(-2), &keys = scores.dim(-1);
  const GraphTensor end = formula(graph, Expression::flat_index() + keys - queries + 1, {queries});
  return less(formula(graph, Expression::flat_index(), {keys}), end.unsqueeze(1));
}

GraphTensor masked(const GraphTensor& scores, const GraphTensor& mask) {
  if (mask.dtype() == Dtype::Bool) return select(mask, scores, scalar(scores, -HUGE_VAL));
  if (!is_float(mask.dtype()))
    reject<DtypeError>("the mask is {}; give bool (true = seen), or floats to be added",
                       mask.type().to_string());
  return elementwise(kAdd, {scores, mask.cast(scores.dtype())});
}

GraphTensor weights(const GraphTensor& scores) {
  const int axis = scores.rank() - 1;
  const Number least = scores.dtype() == Dtype::F64 ? std::numeric_limits<double>::lowest()
                                                    : std::numeric_limits<float>::lowest();
  const GraphTensor top = maximum_over(scores, {axis}, true, Ties::First).stop_gradient();
  const GraphTensor e = (scores - greater_of(top, scalar(top, least), Ties::First)).exp();
  const GraphTensor total = reduced(kSumReduce, e, {axis}, true);
  return e * greater_of(total, scalar(total, 0.5), Ties::First).reciprocal();
}

/// The weights, in the dtype that products of q and k accumulate in.
GraphTensor weigh(const GraphTensor& q, const GraphTensor& k, const GraphTensor* mask, Dtype wide,
                  const AttentionOptions& options) {
  GraphTensor scores = q.cast(wide).matmul(k.cast(wide).transpose(-2, -1));
  if (options.scale != 0)
    scores = scores * options.scale;
  else if (const auto size = q.dim(-1).constant())
    scores = scores * (1 / std::sqrt(static_cast<double>(*size)));
  else
    scores = scores * (scalar(scores, 1) * q.dim(-1)).rsqrt();
  if (mask) scores = masked(scores, *mask);
  if (options.causal) scores = masked(scores, causal_mask(scores));
  return weights(scores);
}

GraphTensor attend(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v, const GraphTensor* mask,
                   const AttentionOptions& options) {
  check_keys(q, k);
  check_values(k, v);
  const Dtype dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const Dtype wide = accumulation_dtype(dtype);
  GraphTensor shares = weigh(q, k, mask, wide, options);
  if (options.dropout != 0) shares = shares.dropout(options.dropout);
  return shares.matmul(v.cast(wide)).cast(dtype);
}

GraphTensor weights_of(const GraphTensor& q, const GraphTensor& k, const GraphTensor* mask,
                       const AttentionOptions& options) {
  check_keys(q, k);
  const Dtype dtype = promote(q.dtype(), k.dtype());
  return weigh(q, k, mask, accumulation_dtype(dtype), options).cast(dtype);
}

}  // namespace

GraphTensor attention(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v,
                      const AttentionOptions& options, Where at) {
  const CallSite site("attention", at);
  return attend(q, k, v, nullptr, options);
}

GraphTensor attention(const GraphTensor& q, const GraphTensor& k, const GraphTensor& v,
                      const GraphTensor& mask, const AttentionOptions& options, Where at) {
  const CallSite site("attention", at);
  return attend(q, k, v, &mask, options);
}

GraphTensor attention_weights(const GraphTensor& q, const GraphTensor& k, const AttentionOptions& options,
                              Where at) {
  const CallSite site("attention_weights", at);
  return weights_of(q, k, nullptr, options);
}

GraphTensor attention_weights(const GraphTensor& q, const GraphTensor& k, const GraphTensor& mask,
                              const AttentionOptions& options, Where at) {
  const CallSite site("attention_weights", at);
  return weights_of(q, k, &mask, options);
}

}  // namespace luminal
