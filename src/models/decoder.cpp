#include "luminal/models/decoder.h"

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/fail.h"
#include "models/activation.h"
#include "models/expert_routes.h"
#include "models/rounded.h"

namespace luminal::models {
namespace {

DecoderOptions checked_decoder(DecoderOptions o) {
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  for (const int64_t value : {o.vocabulary, o.layers, o.size, o.heads, o.kv_heads, o.hidden, o.context})
    if (value < 1)
      fail<ShapeError>(
          "[model] a size is {}; vocabulary, layers, size, heads, hidden and context are 1 or more", value);
  if (o.head_size == 0) {
    if (o.size % o.heads != 0)
      fail<ShapeError>("[model] {} heads do not divide the size {}; give a head size", o.heads, o.size);
    o.head_size = o.size / o.heads;
  }
  if (o.heads % o.kv_heads != 0)
    fail<ShapeError>("[model] {} key heads do not divide the {} query heads; choose a divisor", o.kv_heads,
                     o.heads);
  for (const Rotary* rotary : {&o.rotary, &o.local_rotary})
    if (2 * static_cast<int64_t>(rotary->frequencies.size()) > o.head_size)
      fail<ShapeError>("[model] {} rotary frequencies do not fit in heads of {}; give at most half as many",
                       rotary->frequencies.size(), o.head_size);
  if (!o.local.empty() && static_cast<int64_t>(o.local.size()) != o.layers)
    fail<ShapeError>("[model] {} layers are local or not, of {}; tell it of each", o.local.size(), o.layers);
  if (o.experts < 0 || o.experts_used > o.experts || (o.experts > 0 && o.experts_used < 1))
    fail<ShapeError>("[model] {} of {} experts are used; use at least one of those there are", o.experts_used,
                     o.experts);
  if (o.activation == DecoderOptions::Activation::ClampedSwish && (!o.gated || !(o.swish_limit > 0)))
    fail("[model] ClampedSwish has a gate and a limit above 0, not {} and {}", o.gated, o.swish_limit);
  return o;
}

GraphTensor widened_weight(const GraphTensor& x) { return x.cast(Dtype::F32); }

}  // namespace

/// Asks for weights by name.
class Decoder::Builder {
 public:
  Builder(const DecoderOptions& options, const DecoderWeights& weights) : o_(options), weights_(weights) {}

  [[nodiscard]] GraphTensor tensor(const std::string& name, const std::vector<int64_t>& dims) const {
    if (auto found = weights_(name, dims)) return *found;
    fail("[model] there is no weight '{}', which the model needs; give all of its files", name);
  }
  /// `name` is without ".weight".
  [[nodiscard]] std::optional<Affine> maybe(const std::string& name, const std::vector<int64_t>& dims) const {
    auto weight = weights_(name + ".weight", dims);
    if (!weight) return std::nullopt;
    return Affine{*weight, bias(name, dims)};
  }
  [[nodiscard]] Affine affine(const std::string& name, const std::vector<int64_t>& dims) const {
    const GraphTensor weight = tensor(name + ".weight", dims);
    return {weight, bias(name, dims)};
  }

  [[nodiscard]] Layer layer(int64_t number) const {
    const auto named = [&](std::string_view part) { return fmt::format("blk.{}.{}", number, part); };
    const int64_t queries = o_.heads * o_.head_size, keys = o_.kv_heads * o_.head_size;
    Layer layer{.attention_norm = affine(named("attn_norm"), {o_.size}),
                .ffn_norm = affine(named("ffn_norm"), {o_.size}),
                .output = affine(named("attn_output"), {o_.size, queries}),
                .query_norm = maybe(named("attn_q_norm"), {o_.head_size}),
                .key_norm = maybe(named("attn_k_norm"), {o_.head_size}),
                .after_attention = maybe(named("post_attention_norm"), {o_.size}),
                .after_ffn = maybe(named("post_ffw_norm"), {o_.size}),
                .qkv = maybe(named("attn_qkv"), {queries + 2 * keys, o_.size})};
    if (!layer.qkv) {
      layer.query = affine(named("attn_q"), {queries, o_.size});
      layer.key = affine(named("attn_k"), {keys, o_.size});
      layer.value = affine(named("attn_v"), {keys, o_.size});
    }
    if (o_.experts > 0)
      layer.experts = experts(named("ffn"));
    else
      feed_forward(layer, named("ffn"));
    layer.sinks = weights_(named("attn_sinks.weight"), {o_.heads});
    layer.local = o_.window > 0 && (o_.local.empty() || o_.local[static_cast<size_t>(number)]);
    return layer;
  }

 private:
  [[nodiscard]] std::optional<GraphTensor> bias(const std::string& name, std::vector<int64_t> dims) const {
    if (dims.size() > 1) dims.pop_back();  // that of the inputs
    return weights_(name + ".bias", dims);
  }
  void feed_forward(Layer& layer, const std::string& name) const {
    if (o_.gated) layer.gate = maybe(name + "_gate", {o_.hidden, o_.size});
    const bool joined = o_.gated && !layer.gate;
    layer.up = affine(name + "_up", {joined ? 2 * o_.hidden : o_.hidden, o_.size});
    layer.down = affine(name + "_down", {o_.size, o_.hidden});
  }
  [[nodiscard]] Experts experts(const std::string& name) const {
    const int64_t count = o_.experts, hidden = o_.expert_hidden > 0 ? o_.expert_hidden : o_.hidden;
    return {affine(name + "_gate_inp", {count, o_.size}),
            affine(name + "_gate_exps", {count, hidden, o_.size}),
            affine(name + "_up_exps", {count, hidden, o_.size}),
            affine(name + "_down_exps", {count, o_.size, hidden})};
  }

  const DecoderOptions& o_;
  const DecoderWeights& weights_;
};

Decoder::Decoder(Graph&, DecoderOptions options, const DecoderWeights& weights)
    : options_(checked_decoder(std::move(options))) {
  const Builder build(options_, weights);
  embedding_ = build.tensor("token_embd.weight", {options_.vocabulary, options_.size});
  positions_ = weights("position_embd.weight", {options_.context, options_.size});
  for (int64_t i = 0; i < options_.layers; ++i) layers_.push_back(build.layer(i));
  norm_ = build.affine("output_norm", {options_.size});
  if (!options_.tied) head_ = build.affine("output", {options_.vocabulary, options_.size});
}

/// One step: what its layers share.
class Decoder::Pass {
 public:
  Pass(const DecoderOptions& options, const Step& step) : Pass(options, step.tokens, step.past) {
    last_ = step.last;
    texts_.push_back({step.cache, step.past, number_, position_});
  }
  Pass(const DecoderOptions& options, const JointStep& step) : Pass(options, step.tokens, step.past) {
    for (size_t t = 0; t < step.caches.size(); ++t) {
      const auto own = [&](const GraphTensor& x) { return of_text(x, 0, t); };
      texts_.push_back({step.caches[t], own(step.past).squeeze(0), own(number_), own(position_)});
    }
  }

  [[nodiscard]] GraphTensor embedded(const GraphTensor& table,
                                     const std::optional<GraphTensor>& places) const {
    GraphTensor x = table.index_select(0, tokens_).cast(Dtype::F32);  // [1, T, size]
    if (o_.embedding_scale != 1) x = x * o_.embedding_scale;
    if (places)  // padding may lie behind the last place
      x = x + places->index_select(0, minimum(position_, o_.context - 1)).cast(Dtype::F32);
    return x;
  }

  [[nodiscard]] GraphTensor layer(const Layer& layer, size_t number, const GraphTensor& x, Rows& rows) const {
    GraphTensor attended = attention(layer, number, norm(x, layer.attention_norm), rows);
    if (layer.after_attention) attended = norm(attended, *layer.after_attention);
    const GraphTensor between = x + attended;
    const GraphTensor input = norm(between, layer.ffn_norm);
    GraphTensor y = layer.experts ? mixture(*layer.experts, input) : feed_forward(layer, input);
    if (layer.after_ffn) y = norm(y, *layer.after_ffn);
    return between + y;
  }

  /// The row of the wanted token, [size]: chosen by a mask, so that what is behind it never counts.
  [[nodiscard]] GraphTensor wanted(const GraphTensor& x) const {
    return number_.eq(last_).unsqueeze(1).where(x.squeeze(0), 0).sum(0);
  }

  [[nodiscard]] GraphTensor norm(const GraphTensor& x, const Affine& affine) const {
    const GraphTensor scale = widened_weight(affine.weight);
    const GraphTensor y = (o_.layer_norm ? x.layer_norm(-1, o_.norm_eps) : x.rms_norm(-1, o_.norm_eps)) *
                          (o_.norm_offset != 0 ? scale + o_.norm_offset : scale);
    return affine.bias ? y + widened_weight(*affine.bias) : y;
  }

  /// What projections read of activations: rounded ones where their weights are in blocks, if the model rounds.
  struct Input {
    GraphTensor exact, rounded;
    [[nodiscard]] const GraphTensor& beside(const GraphTensor& weight) const {
      return is_quantized(weight.dtype()) ? rounded : exact;
    }
  };
  [[nodiscard]] Input input(const GraphTensor& x) const {
    return {x, o_.rounded_activations && has_whole_blocks(x) ? rounded_to_blocks(x) : x};
  }

  [[nodiscard]] static GraphTensor project(const Input& x, const Affine& affine) {
    const GraphTensor y = product(x, affine.weight);
    return affine.bias ? y + widened_weight(*affine.bias) : y;
  }

 private:
  [[nodiscard]] static GraphTensor product(const Input& x, const GraphTensor& weight) {
    return x.beside(weight).matmul(widened_weight(weight).transpose(-2, -1));
  }

  struct Turns {
    GraphTensor cosine, sine;  ///< [T, pairs]; no tensors without rotary positions
  };

  [[nodiscard]] Turns turns(const Rotary& rotary) {
    if (rotary.frequencies.empty()) return {};
    const auto pairs = static_cast<int64_t>(rotary.frequencies.size());
    GraphTensor speeds = cx_.named_tensor("rotary_frequencies", {pairs});
    speeds.set(std::vector<float>(rotary.frequencies.begin(), rotary.frequencies.end()));
    const GraphTensor angles = position_.cast(Dtype::F32).unsqueeze(1) * speeds;
    // Computed once, not in each layer.
    return {(angles.cos() * rotary.magnitude).graph_break(), (angles.sin() * rotary.magnitude).graph_break()};
  }

  /// x [1, heads, T, head size], its first elements turned.
  [[nodiscard]] GraphTensor turned(const GraphTensor& x, const Layer& layer) const {
    const Rotary& rotary = layer.local ? o_.local_rotary : o_.rotary;
    const Turns& by = layer.local ? nearby_ : everywhere_;
    if (!by.cosine.valid()) return x;
    const auto pairs = static_cast<int64_t>(rotary.frequencies.size());
    const GraphTensor first = x.slice_along(3, 0, 2 * pairs);
    const GraphTensor split = first.split_dims(3, rotary.interleaved ? 2 : pairs);
    const int axis = rotary.interleaved ? 4 : 3;
    const GraphTensor a = split.slice_along(axis, 0, 1).squeeze(axis),
                      b = split.slice_along(axis, 1, 2).squeeze(axis);
    const GraphTensor y =
        stack({a * by.cosine - b * by.sine, b * by.cosine + a * by.sine}, axis).merge_dims(3, 4);
    if (2 * pairs == o_.head_size) return y;
    return concat({y, x.slice_along(3, 2 * pairs, o_.head_size)}, 3);
  }

  /// The new tokens of one text.
  struct Text {
    std::span<const Rows> cache;   ///< by layer
    GraphTensor past;              ///< a number
    GraphTensor number, position;  ///< [tokens]: in the step, in the text
  };
  /// Of several texts, each has one place along an axis of tokens.
  [[nodiscard]] static GraphTensor of_text(const GraphTensor& x, int axis, size_t text) {
    const auto place = static_cast<int64_t>(text);
    return x.slice_along(axis, place, place + 1);
  }

  /// Which rows of the cache each token sees, bool [tokens or 1, rows]: those that are filled and near enough.
  [[nodiscard]] GraphTensor past_seen(const Text& text, const Expression& rows, bool local) const {
    const GraphTensor place = cx_.arange(rows, Dtype::I32), filled = place.lt(text.past).unsqueeze(0);
    return local ? filled.logical_and((text.position.unsqueeze(1) - place).lt(o_.window)) : filled;
  }

  /// Which new tokens each token sees, bool [tokens, tokens].
  [[nodiscard]] GraphTensor fresh_seen(const Text& text, bool local) const {
    const GraphTensor before = text.number.unsqueeze(1) - text.number;
    return local ? before.ge(0).logical_and(before.lt(o_.window)) : before.ge(0);
  }

  [[nodiscard]] GraphTensor heads_of(const GraphTensor& x) const {
    return x.split_dims(2, o_.head_size).transpose(1, 2);  // [1, heads, T, head size]
  }

  [[nodiscard]] std::array<GraphTensor, 3> projected(const Layer& layer, const GraphTensor& x) const {
    const Input in = input(x);
    if (!layer.qkv) return {project(in, *layer.query), project(in, *layer.key), project(in, *layer.value)};
    const GraphTensor all = project(in, *layer.qkv);
    const int64_t queries = o_.heads * o_.head_size, keys = o_.kv_heads * o_.head_size;
    return {all.slice_along(2, 0, queries), all.slice_along(2, queries, queries + keys),
            all.slice_along(2, queries + keys, queries + 2 * keys)};
  }

  [[nodiscard]] GraphTensor attention(const Layer& layer, size_t number, const GraphTensor& x,
                                      Rows& rows) const {
    const auto [q, k, v] = projected(layer, x);
    GraphTensor query = heads_of(q), key = heads_of(k);
    if (layer.query_norm) query = norm(query, *layer.query_norm);
    if (layer.key_norm) key = norm(key, *layer.key_norm);
    query = turned(query, layer);
    // What the cache's dtype rounds is rounded from the start: a token sees the same in one step and in two.
    rows = stored_as(texts_[0].cache[number], turned(key, layer), heads_of(v));
    const GraphTensor y = weighted_of_all(query.split_dims(1, o_.heads / o_.kv_heads), number, rows, layer);
    return project(input(y.merge_dims(1, 2).transpose(1, 2).merge_dims(2, 3)), layer.output);
  }

  [[nodiscard]] static Rows stored_as(const Rows& cache, const GraphTensor& keys, const GraphTensor& values) {
    const auto cast = [&](const GraphTensor& x) { return x.cast(cache.keys.dtype()); };
    if (!cache.key_scales.valid()) return {cast(keys), cast(values)};
    const int64_t block = *cache.keys.dim(3).constant() / *cache.key_scales.dim(3).constant();
    const RoundedBlocks k = in_rounded_blocks(keys, block), v = in_rounded_blocks(values, block);
    return {k.numbers, v.numbers, k.scales, v.scales};
  }
  [[nodiscard]] static GraphTensor widened_rows(const GraphTensor& rows, const GraphTensor& scales) {
    return scales.valid() ? RoundedBlocks{rows, scales}.widened() : rows.cast(Dtype::F32);
  }
  [[nodiscard]] static Rows rows_of_text(const Rows& rows, size_t text) {
    const auto own = [&](const GraphTensor& x) { return x.valid() ? of_text(x, 2, text) : x; };
    return {own(rows.keys), own(rows.values), own(rows.key_scales), own(rows.value_scales)};
  }

  /// Attention of q [1, kv_heads, heads of one, T, head size], each token to the rows of its own text.
  [[nodiscard]] GraphTensor weighted_of_all(const GraphTensor& q, size_t number, const Rows& fresh,
                                            const Layer& layer) const {
    if (texts_.size() == 1) return weighted(q, texts_[0], number, fresh, layer);
    std::vector<GraphTensor> parts;
    for (size_t t = 0; t < texts_.size(); ++t)
      parts.push_back(weighted(of_text(q, 3, t), texts_[t], number, rows_of_text(fresh, t), layer));
    return concat(parts, 3);
  }

  /// Attention to rows of the cache and to new ones, each in products of its own: joined, they would be copied.
  [[nodiscard]] GraphTensor weighted(const GraphTensor& q, const Text& text, size_t number, const Rows& fresh,
                                     const Layer& layer) const {
    const bool local = layer.local;
    const Rows& past = text.cache[number];
    const auto keys = [](const Rows& x) { return widened_rows(x.keys, x.key_scales).unsqueeze(2); };
    const auto values = [](const Rows& x) { return widened_rows(x.values, x.value_scales).unsqueeze(2); };
    const GraphTensor of_past = scores(q, keys(past), past_seen(text, past.keys.dim(2), local)),
                      of_fresh = scores(q, keys(fresh), fresh_seen(text, local));
    GraphTensor top = maximum(of_past.max(-1, true), of_fresh.max(-1, true));  // each token sees itself
    std::optional<GraphTensor> sinks;  // [kv_heads, heads of one, 1, 1]
    if (layer.sinks) {
      sinks = widened_weight(*layer.sinks).split_dims(0, o_.heads / o_.kv_heads).unsqueeze(2).unsqueeze(3);
      top = maximum(top, *sinks);
    }
    const GraphTensor past_shares = (of_past - top).exp(), fresh_shares = (of_fresh - top).exp();
    GraphTensor total = past_shares.sum(-1, true) + fresh_shares.sum(-1, true);
    if (sinks) total = total + (*sinks - top).exp();
    return (past_shares.matmul(values(past)) + fresh_shares.matmul(values(fresh))) / total;
  }

  /// Capped softly if so asked; minus infinity where nothing is seen.
  [[nodiscard]] GraphTensor scores(const GraphTensor& q, const GraphTensor& keys,
                                   const GraphTensor& seen) const {
    const double cap = o_.attention_softcap;
    const double scale =
        o_.attention_scale != 0 ? o_.attention_scale : 1 / std::sqrt(static_cast<double>(o_.head_size));
    GraphTensor all = q.matmul(keys.transpose(-2, -1)) * (cap != 0 ? scale / cap : scale);
    if (cap != 0) all = all.tanh() * cap;
    return seen.where(all, -std::numeric_limits<double>::infinity());
  }

  [[nodiscard]] GraphTensor activated(const GraphTensor& x) const {
    return models::activated(x, o_.activation);
  }

  [[nodiscard]] GraphTensor gated(const GraphTensor& gate, const GraphTensor& up) const {
    if (o_.activation != DecoderOptions::Activation::ClampedSwish) return activated(gate) * up;
    const GraphTensor bounded = minimum(gate, o_.swish_limit);
    const GraphTensor rest = maximum(minimum(up, o_.swish_limit), -o_.swish_limit) + 1;
    return bounded * (bounded * o_.swish_slope).sigmoid() * rest;
  }

  [[nodiscard]] GraphTensor feed_forward(const Layer& layer, const GraphTensor& x) const {
    const Input in = input(x);
    const GraphTensor up = project(in, *layer.up);
    if (!o_.gated) return project(input(activated(up)), *layer.down);
    if (layer.gate) return project(input(gated(project(in, *layer.gate), up)), *layer.down);
    const GraphTensor gate = up.slice_along(2, 0, o_.hidden),
                      rest = up.slice_along(2, o_.hidden, 2 * o_.hidden);
    return project(input(gated(gate, rest)), *layer.down);
  }

  /// Tokens go to the experts that they use.
  [[nodiscard]] GraphTensor mixture(const Experts& experts, const GraphTensor& x) const {
    const GraphTensor scores = project(input(x), experts.router);  // [1, T, experts]
    const auto [top, which] = scores.topk(o_.experts_used);
    const GraphTensor shares =
        o_.route_over_all ? scores.softmax(-1).gather_elements(2, which) : top.softmax(-1);
    const ExpertRoutes routes(which.squeeze(0), o_.experts);
    const auto project_each = [&](const Input& in, const Affine& affine) {
      const GraphTensor y =
          in.beside(affine.weight).unsqueeze(1).matmul(widened_weight(affine.weight).transpose(-2, -1));
      return routes.by_expert(affine.bias ? y + widened_weight(*affine.bias).unsqueeze(1) : y);
    };
    const Input in = input(routes.in_blocks(x.squeeze(0)));
    const GraphTensor hidden = gated(project_each(in, experts.gate), project_each(in, experts.up));
    const GraphTensor y = routes.by_token(project_each(input(hidden), experts.down));  // [T, used, size]
    return (y * shares.squeeze(0).unsqueeze(2)).sum(1).unsqueeze(0);
  }

  /// `past`: a number, or one for each token.
  Pass(const DecoderOptions& options, const GraphTensor& tokens, const GraphTensor& past)
      : o_(options), cx_(tokens.graph()), tokens_(tokens), number_(cx_.arange(tokens.dim(1), Dtype::I32)) {
    position_ = past.rank() == 0 ? number_ + past : past;
    everywhere_ = turns(o_.rotary);
    if (o_.window > 0) nearby_ = turns(o_.local_rotary);
  }

  const DecoderOptions& o_;
  mutable Graph cx_;  // a handle
  GraphTensor tokens_, last_;
  GraphTensor number_, position_;  ///< [T]: of the step, of the text
  std::vector<Text> texts_;
  Turns everywhere_, nearby_;
};

GraphTensor Decoder::logits(const Pass& pass, std::vector<Rows>& rows, bool every) const {
  rows.resize(layers_.size());
  GraphTensor x = pass.embedded(embedding_, positions_);
  for (size_t i = 0; i < layers_.size(); ++i) x = pass.layer(layers_[i], i, x, rows[i]);
  const GraphTensor wanted = pass.norm(every ? x.squeeze(0) : pass.wanted(x).unsqueeze(0), norm_);
  const GraphTensor logits = Pass::project(pass.input(wanted), head_ ? *head_ : Affine{embedding_});
  const double cap = options_.logit_softcap;
  return cap != 0 ? (logits * (1 / cap)).tanh() * cap : logits;
}

Decoder::Result Decoder::forward(const Step& step) const {
  if (step.cache.size() != layers_.size())
    fail("[model] {} caches for {} layers; give one for each", step.cache.size(), layers_.size());
  const bool losses = step.targets.valid(), each = losses || !step.last.valid();
  Result result;
  const GraphTensor all = logits(Pass(options_, step), result.rows, each);
  if (losses)
    result.losses = -all.log_softmax(-1).gather_elements(1, step.targets.transpose(0, 1)).squeeze(1);
  else
    result.logits = each ? all : all.squeeze(0);
  return result;
}

Decoder::Result Decoder::forward(const JointStep& step) const {
  if (step.tokens.dim(1) != Expression(static_cast<int64_t>(step.caches.size())))
    fail("[model] {} texts have caches, and tokens are {}; give one of each", step.caches.size(),
         step.tokens.type().to_string());
  for (const std::vector<Rows>& cache : step.caches)
    if (cache.size() != layers_.size())
      fail("[model] {} caches for {} layers; give one for each", cache.size(), layers_.size());
  Result result;
  result.logits = logits(Pass(options_, step), result.rows, true);
  return result;
}

}  // namespace luminal::models
