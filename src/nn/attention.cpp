#include "luminal/nn/attention.h"

#include <array>
#include <cmath>
#include <limits>

#include "luminal/ops.h"
#include "nn/weights.h"

namespace luminal::nn {
namespace {

struct HeadCounts {
  int64_t heads, kv_heads;
};

HeadCounts checked_heads(const GraphSite& cx, std::string_view module, int64_t embed, int64_t heads,
                         int64_t kv_heads) {
  const CallSite site(module, cx.where);
  check_size(module, "embed", embed);
  check_size(module, "heads", heads);
  if (kv_heads == 0) kv_heads = heads;
  if (kv_heads < 0 || heads % kv_heads != 0)
    fail<ShapeError>("[{}] {} heads cannot share {} heads of keys; give a divisor of {}", module, heads,
                     kv_heads, heads);
  return {heads, kv_heads};
}

int64_t head_size(const GraphSite& cx, std::string_view module, int64_t embed, int64_t heads) {
  const CallSite site(module, cx.where);
  if (heads < 1 || embed % heads != 0)
    fail<ShapeError>("[{}] embed={} is not a multiple of heads={}; give a multiple", module, embed, heads);
  return embed / heads;
}

/// [N, H, S, size] as [N, kv heads, heads of one, S, size], to be used with keys that have 1 there.
GraphTensor grouped(const GraphTensor& x, int64_t per_group) { return x.split_dims(1, per_group); }

/// Attention of grouped queries, and the groups joined again: [N, H, S, size].
GraphTensor attend_grouped(const GraphTensor& query, const GraphTensor& key, const GraphTensor& value,
                           const GraphTensor& mask, const AttentionOptions& options) {
  const GraphTensor y =
      mask.valid() ? attention(query, key, value, mask, options) : attention(query, key, value, options);
  return y.merge_dims(1, 2);
}

}  // namespace

// --- MultiheadAttention

MultiheadAttention::MultiheadAttention(GraphSite cx, int64_t embed_dim, int64_t num_heads,
                                       const Options& options)
    : out_proj(cx, embed_dim, embed_dim, {.bias = options.bias, .dtype = options.dtype}),
      embed(embed_dim),
      heads(num_heads),
      kv_heads(checked_heads(cx, "MultiheadAttention", embed_dim, num_heads, options.kv_heads).kv_heads),
      dropout(options.dropout),
      batch_first(options.batch_first) {
  const CallSite site("MultiheadAttention", cx.where);
  check_probability("MultiheadAttention", dropout);
  const int64_t kv_size = head_size(cx, "MultiheadAttention", embed, heads) * kv_heads;
  const int64_t kdim = options.kdim == 0 ? embed : options.kdim,
                vdim = options.vdim == 0 ? embed : options.vdim;
  const auto projection = [&](const char* name, int64_t rows, int64_t columns) {
    const std::vector<int64_t> dims{rows, columns};
    return make_weight(cx, name, options.dtype, dims,
                       [stream = init::Stream(cx), dims] { return init::xavier_uniform(stream, dims); });
  };
  if (kdim == embed && vdim == embed && kv_heads == heads) {
    in_proj_weight = projection("in_proj_weight", 3 * embed, embed);
  } else {
    q_proj_weight = projection("q_proj_weight", embed, embed);
    k_proj_weight = projection("k_proj_weight", kv_size, kdim);
    v_proj_weight = projection("v_proj_weight", kv_size, vdim);
  }
  if (!options.bias) return;
  in_proj_bias = constant_weight(cx, "in_proj_bias", {embed + 2 * kv_size}, 0, options.dtype);
  out_proj.bias->set_lazily([size = embed] { return init::constant({size}, 0); });
}

void MultiheadAttention::serialize(Serializer& s) const {
  if (in_proj_weight) s.tensor("in_proj_weight", *in_proj_weight);
  if (q_proj_weight) {
    s.tensor("q_proj_weight", *q_proj_weight);
    s.tensor("k_proj_weight", *k_proj_weight);
    s.tensor("v_proj_weight", *v_proj_weight);
  }
  if (in_proj_bias) s.tensor("in_proj_bias", *in_proj_bias);
  s.module("out_proj", out_proj);
  s.mode(mode);
}

/// [N, S, embed] (or as x is laid out) as [N, heads, S, size].
GraphTensor MultiheadAttention::heads_of(const GraphTensor& x, int64_t count) const {
  const GraphTensor batched = x.rank() == 2 ? x.unsqueeze(0) : batch_first ? x : x.transpose(0, 1);
  return batched.split_dims(2, batched.dim(2) / count).transpose(1, 2);
}

MultiheadAttention::Heads MultiheadAttention::project(const GraphTensor& query, const GraphTensor& key,
                                                      const GraphTensor& value) const {
  const std::array<const GraphTensor*, 3> inputs{&query, &key, &value};
  for (const GraphTensor* x : inputs)
    if (x->rank() != query.rank() || (x->rank() != 2 && x->rank() != 3))
      fail<ShapeError>(
          "[MultiheadAttention] query {}, key {} and value {} must all have rank 3, or 2 without a batch",
          query.type().to_string(), key.type().to_string(), value.type().to_string());
  const int64_t kv_size = embed / heads * kv_heads;
  const std::array<int64_t, 4> bounds{0, embed, embed + kv_size, embed + 2 * kv_size};
  const std::array<const std::optional<GraphTensor>*, 3> apart{&q_proj_weight, &k_proj_weight,
                                                               &v_proj_weight};
  std::array<GraphTensor, 3> projected;
  for (size_t i = 0; i < 3; ++i) {
    const auto rows = [&](const GraphTensor& all) { return all.slice_along(0, bounds[i], bounds[i + 1]); };
    const GraphTensor weight = in_proj_weight ? rows(*in_proj_weight) : **apart[i];
    if (!Expression::known_equal(inputs[i]->dim(-1), weight.dim(1)))
      fail<ShapeError>("[MultiheadAttention] {} is {} and must end in {}",
                       std::array{"query", "key", "value"}[i], inputs[i]->type().to_string(),
                       weight.dim(1).to_string());
    projected[i] = inputs[i]->matmul(weight.t());
    if (in_proj_bias) projected[i] = projected[i] + rows(*in_proj_bias);
  }
  return {grouped(heads_of(projected[0], heads), heads / kv_heads),
          heads_of(projected[1], kv_heads).unsqueeze(2), heads_of(projected[2], kv_heads).unsqueeze(2)};
}

/// Both masks as one for `attention`: true = seen, or floats to be added; no tensor if there is none.
GraphTensor MultiheadAttention::masks(const AttentionMask& mask, Dtype dtype) const {
  GraphTensor blocked, added;
  const auto take = [&](const GraphTensor& each, std::string_view what) {
    if (each.dtype() == Dtype::Bool)
      blocked = blocked.valid() ? blocked.logical_or(each) : each;
    else if (is_float(each.dtype()))
      added = added.valid() ? added + each : each;
    else
      fail<DtypeError>("[MultiheadAttention] the {} is {}; give bool (true = not seen) or floats to be added",
                       what, each.type().to_string());
  };
  if (mask.mask.valid()) {
    const GraphTensor& m = mask.mask;
    if (m.rank() != 2 && m.rank() != 3)
      fail<ShapeError>("[MultiheadAttention] the mask is {}; give [S, T] or [N * {}, S, T]",
                       m.type().to_string(), heads);
    take(m.rank() == 2 ? m : grouped(m.split_dims(0, heads), heads / kv_heads), "mask");
  }
  if (mask.key_padding.valid()) {
    const GraphTensor& m = mask.key_padding;
    if (m.rank() > 2 || m.rank() < 1)
      fail<ShapeError>("[MultiheadAttention] the key padding is {}; give [N, T]", m.type().to_string());
    const GraphTensor rows = m.rank() == 1 ? m.unsqueeze(0) : m;
    take(rows.unsqueeze(1).unsqueeze(1).unsqueeze(1), "key padding");
  }
  if (!added.valid()) return blocked.valid() ? blocked.logical_not() : GraphTensor();
  if (!blocked.valid()) return added;
  return blocked.where(-std::numeric_limits<double>::infinity(), added.cast(accumulation_dtype(dtype)));
}

GraphTensor MultiheadAttention::forward(const GraphTensor& query, const GraphTensor& key,
                                        const GraphTensor& value, const AttentionMask& mask,
                                        Where where) const {
  const CallSite site("MultiheadAttention", where);
  const Heads h = project(query, key, value);
  const AttentionOptions options{.causal = mask.causal, .dropout = mode.training() ? dropout : 0};
  const GraphTensor joined = attend_grouped(h.query, h.key, h.value, masks(mask, query.dtype()), options)
                                 .transpose(1, 2)
                                 .merge_dims(2, 3);  // [N, S, embed]
  const GraphTensor y = out_proj.forward(joined);
  return query.rank() == 2 ? y.squeeze(0) : batch_first ? y : y.transpose(0, 1);
}

MultiheadAttention::Result MultiheadAttention::forward_with_weights(const GraphTensor& query,
                                                                    const GraphTensor& key,
                                                                    const GraphTensor& value,
                                                                    const AttentionMask& mask,
                                                                    Where where) const {
  const CallSite site("MultiheadAttention", where);
  const Heads h = project(query, key, value);
  const GraphTensor seen = masks(mask, query.dtype());
  const AttentionOptions options{.causal = mask.causal};
  const GraphTensor weights = (seen.valid() ? attention_weights(h.query, h.key, seen, options)
                                            : attention_weights(h.query, h.key, options))
                                  .mean({1, 2});
  return {forward(query, key, value, mask), query.rank() == 2 ? weights.squeeze(0) : weights};
}

// --- RotaryEmbedding

GraphTensor RotaryEmbedding::forward(const GraphTensor& x, const Expression& first, Where where) const {
  const CallSite site("RotaryEmbedding", where);
  if (size < 2 || size % 2 != 0)
    fail<ShapeError>("[RotaryEmbedding] the size {} cannot be split into pairs; give an even number above 0",
                     size);
  if (x.rank() < 2 || !known_to_be(x.dim(-1), size))
    fail<ShapeError>("[RotaryEmbedding] x is {} and must be [..., length, {}]", x.type().to_string(), size);
  const Dtype wide = accumulation_dtype(x.dtype());
  Graph cx = x.graph();
  const double rate = -2 * std::log(base) / static_cast<double>(size);
  const GraphTensor speeds = (cx.arange(size / 2).cast(wide) * rate).exp();
  const GraphTensor positions = cx.arange_in_range(first, first + x.dim(-2)).cast(wide);
  const GraphTensor angles = positions.unsqueeze(1) * speeds;  // [T, size / 2]
  const GraphTensor cosine = angles.cos(), sine = angles.sin();
  const GraphTensor pairs =  // [..., T, 2, size / 2], or [..., T, size / 2, 2]
      x.cast(wide).split_dims(-1, interleaved ? 2 : size / 2);
  const int axis = interleaved ? -1 : -2;
  const auto part = [&](int which) { return pairs.slice_along(axis, which, which + 1).squeeze(axis); };
  const GraphTensor a = part(0), b = part(1);
  return stack({a * cosine - b * sine, b * cosine + a * sine}, interleaved ? a.rank() : a.rank() - 1)
      .merge_dims(-2, -1)
      .cast(x.dtype());
}

// --- KvCache

KvCache::KvCache(GraphSite cx, int64_t batch, int64_t kv_heads, int64_t rows, int64_t size,
                 const Expression& filled_rows, Dtype dtype)
    : past(filled_rows), capacity(rows) {
  const CallSite site("KvCache", cx.where);
  for (const int64_t each : {batch, kv_heads, rows, size}) check_size("KvCache", "size", each);
  const std::vector<int64_t> dims{batch, kv_heads, rows, size};
  keys = constant_weight(cx, "keys", dims, 0, dtype);
  values = constant_weight(cx, "values", dims, 0, dtype);
}

namespace {

/// `x` as it is, in runs whose sizes meet the conditions of `steps`; others are refused before they begin.
GraphTensor only_if(std::span<const MovementStep> steps, const GraphTensor& x) {
  MovementStep step{.name = "only_if", .in_dims = x.dims(), .out_dims = x.dims()};
  for (int axis = 0; axis < x.rank(); ++axis) step.in_of_out.push_back(Expression::index(axis, x.dim(axis)));
  step.out_of_in = step.in_of_out;
  for (const MovementStep& each : steps)
    step.conditions.insert(step.conditions.end(), each.conditions.begin(), each.conditions.end());
  return x.with_view(x.view().apply(step));
}

}  // namespace

KvCache::Rows KvCache::append(const GraphTensor& key, const GraphTensor& value, Where where) const {
  const CallSite site("KvCache", where);
  Graph cx = keys.graph();
  const auto add = [&](const GraphTensor& state, const GraphTensor& rows) {
    if (rows.rank() != 4 || !Expression::known_equal(rows.dim(0), state.dim(0)) ||
        !Expression::known_equal(rows.dim(1), state.dim(1)) ||
        !Expression::known_equal(rows.dim(3), state.dim(3)))
      fail<ShapeError>("[KvCache] new rows {} do not fit the cache {}; only the third axis may differ",
                       rows.type().to_string(), state.type().to_string());
    const Expression count = past + rows.dim(2);
    const std::string refusal = fmt::format(
        "[KvCache] {} rows do not fit in axis 2 of the cache {}, which has {}; make it larger, or set past "
        "back "
        "to 0",
        count.to_string(), state.type().to_string(), capacity);
    if (Expression::known_less(capacity, count)) throw ShapeError(with_call_site(refusal));
    std::vector<MovementStep> filled =  // none where the rows are known to fill the cache
        ShapeTracker::contiguous(state.dims()).slice_along(2, 0, count).steps();
    for (MovementStep& step : filled)
      for (auto& [condition, text] : step.conditions) text = refusal;
    // Flat positions of [N, H, T, size] within [N, H, capacity, size].
    const Expression z = Expression::flat_index(), size = state.dim(3), length = rows.dim(2);
    const Expression row = z / size % length + past;
    const GraphTensor place = cx.iota((z / (size * length) * capacity + row) * size + z % size, rows.dims());
    const GraphTensor next = cx.add_op(kScatter)
                                 .input(state)
                                 .input(place)
                                 .input(only_if(filled, rows.cast(state.dtype())))
                                 .attribute("mode", std::string("assign"))
                                 .finish();
    state.assign(next);
    ShapeTracker view = next.view();
    for (const MovementStep& step : filled) view = view.apply(step);
    return next.with_view(std::move(view));
  };
  return {add(keys, key), add(values, value)};
}

// --- CausalSelfAttention

namespace {

int64_t size_of_head(const GraphSite& cx, int64_t embed, int64_t heads, int64_t given) {
  return given != 0 ? given : head_size(cx, "CausalSelfAttention", embed, heads);
}

}  // namespace

CausalSelfAttention::CausalSelfAttention(GraphSite cx, int64_t embed, int64_t num_heads,
                                         const Options& options)
    : q_proj(cx, embed, num_heads * size_of_head(cx, embed, num_heads, options.head_size),
             {.bias = options.bias, .dtype = options.dtype}),
      k_proj(cx, embed,
             checked_heads(cx, "CausalSelfAttention", embed, num_heads, options.kv_heads).kv_heads *
                 size_of_head(cx, embed, num_heads, options.head_size),
             {.bias = options.bias, .dtype = options.dtype}),
      v_proj(cx, embed,
             checked_heads(cx, "CausalSelfAttention", embed, num_heads, options.kv_heads).kv_heads *
                 size_of_head(cx, embed, num_heads, options.head_size),
             {.bias = options.bias, .dtype = options.dtype}),
      o_proj(cx, num_heads * size_of_head(cx, embed, num_heads, options.head_size), embed,
             {.bias = options.bias, .dtype = options.dtype}),
      heads(num_heads),
      kv_heads(options.kv_heads == 0 ? num_heads : options.kv_heads),
      head_size(size_of_head(cx, embed, num_heads, options.head_size)),
      dropout(options.dropout) {
  const CallSite site("CausalSelfAttention", cx.where);
  check_probability("CausalSelfAttention", dropout);
  if (options.rope_base)
    rope = RotaryEmbedding{
        .size = head_size, .base = *options.rope_base, .interleaved = options.rope_interleaved};
}

GraphTensor CausalSelfAttention::attend(const GraphTensor& x, const KvCache* cache) const {
  if (x.rank() != 3)
    fail<ShapeError>("[CausalSelfAttention] x is {} and must be [batch, length, embed]",
                     x.type().to_string());
  const auto split = [&](const Linear& projection) {
    return projection.forward(x).split_dims(2, head_size).transpose(1, 2);  // [N, H, T, size]
  };
  const Expression first = cache ? cache->past : Expression(0);
  GraphTensor query = split(q_proj), key = split(k_proj), value = split(v_proj);
  if (rope) {
    query = rope->forward(query, first);
    key = rope->forward(key, first);
  }
  if (cache) {
    const KvCache::Rows rows = cache->append(key, value);
    key = rows.keys;
    value = rows.values;
  }
  const AttentionOptions options{.causal = true, .dropout = mode.training() ? dropout : 0};
  const GraphTensor y = attend_grouped(grouped(query, heads / kv_heads), key.unsqueeze(2), value.unsqueeze(2),
                                       GraphTensor(), options);
  return o_proj.forward(y.transpose(1, 2).merge_dims(2, 3));
}

GraphTensor CausalSelfAttention::forward(const GraphTensor& x, Where where) const {
  const CallSite site("CausalSelfAttention", where);
  return attend(x, nullptr);
}

GraphTensor CausalSelfAttention::forward(const GraphTensor& x, const KvCache& cache, Where where) const {
  const CallSite site("CausalSelfAttention", where);
  return attend(x, &cache);
}

void CausalSelfAttention::serialize(Serializer& s) const {
  s.module("q_proj", q_proj);
  s.module("k_proj", k_proj);
  s.module("v_proj", v_proj);
  s.module("o_proj", o_proj);
  s.mode(mode);
}

}  // namespace luminal::nn
