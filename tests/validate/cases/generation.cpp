#include <fmt/format.h>

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>

#include "luminal/nn.h"
#include "validate/cases/case.h"

// Attention with a cache, as language models generate with it: the rows of several runs, and what the cache
// holds after them, are those that PyTorch has for the whole sequence at once.
namespace luminal::validate {
namespace {

struct Decoding {
  const char* torch;  ///< the module over the whole sequence
  int64_t batch, embed, heads;
  nn::CausalSelfAttention::Options options;
  std::vector<int64_t> counts;  ///< tokens of each run
};

TensorData sequence(Dtype dtype, int64_t batch, int64_t length, int64_t embed) {
  TensorData data(dtype, {batch, length, embed});
  visit_dtype(dtype, [&]<class T>(T) {
    if constexpr (std::is_floating_point_v<T> || sizeof(T) == 2)
      for (size_t i = 0; T & value : data.as<T>())
        value = static_cast<T>(static_cast<float>(std::sin(1.7 * static_cast<double>(++i))));
  });
  return data;
}

/// Rows [first, first + count) of the middle axis of [N, T, embed].
TensorData rows_of(const TensorData& all, int64_t first, int64_t count) {
  TensorData part(all.dtype, {all.dims[0], count, all.dims[2]});
  const int64_t row = all.dims[2] * element_bytes(all.dtype);
  for (int64_t n = 0; n < all.dims[0]; ++n)
    std::copy_n(all.bytes.begin() + (n * all.dims[1] + first) * row, count * row,
                part.bytes.begin() + n * count * row);
  return part;
}

Results decoded(const Decoding& how, Dtype dtype, const Place& place) {
  constexpr int64_t kCapacity = 8;
  Graph cx;
  cx.set_device(place.device);
  nn::CausalSelfAttention::Options options = how.options;
  options.dtype = dtype;
  const nn::CausalSelfAttention attention(cx, how.embed, how.heads, options);
  nn::KvCache cache(cx, how.batch, attention.kv_heads, kCapacity, attention.head_size, "past", dtype);
  GraphTensor x = cx.tensor({how.batch, "new", how.embed}, dtype);
  const GraphTensor y = attention.forward(x, cache).retrieve();
  int64_t length = 0;
  for (const int64_t count : how.counts) length += count;
  Results results{{"in/0", sequence(dtype, how.batch, length, how.embed)}};
  for (auto& [name, data] : nn::state_dict(attention)) results.emplace("state/" + name, std::move(data));
  std::function<void()> run;
  int64_t past = 0;
  for (size_t i = 0; i < how.counts.size(); past += how.counts[i++]) {
    cx.set_dim("past", past);
    x.set(rows_of(results.at("in/0"), past, how.counts[i]));
    if (!run) run = runner(cx, place);
    run();
    results.emplace(fmt::format("out/{}", i), y.data());
  }
  results.emplace("out/keys", cache.keys.data());
  results.emplace("out/values", cache.values.data());
  return results;
}

}  // namespace

void add_generation(Suite& suite) {
  const std::vector<Decoding> all{
      {"CausalSelfAttention(8, 2)", 1, 8, 2, {}, {3, 1, 1, 1}},
      {"CausalSelfAttention(8, 4, kv_heads=2, bias=True)",
       2,
       8,
       4,
       {.kv_heads = 2, .bias = true},
       {1, 1, 1, 1, 1}},
      {"CausalSelfAttention(8, 4, kv_heads=1, head_size=6, rope_base=500.0, rope_interleaved=True)",
       1,
       8,
       4,
       {.kv_heads = 1, .head_size = 6, .rope_base = 500, .rope_interleaved = true},
       {2, 4, 1}},
      {"CausalSelfAttention(8, 2, rope_base=None)", 2, 8, 2, {.rope_base = {}}, {5, 1, 2}},
  };
  for (const Decoding& how : all)
    for (const auto& [dtype, tolerance] : {std::pair{Dtype::F32, 3e-5},
                                           {Dtype::F64, 1e-12},
                                           {Dtype::F16, 8 * 0x1p-10},
                                           {Dtype::BF16, 8 * 0x1p-7}}) {
      ProcedureSpec spec;
      spec.group = "nn KvCache";
      spec.label =
          fmt::format("{}, runs of {} tokens, {}", how.torch, fmt::join(how.counts, "+"), name(dtype));
      spec.torch =
          fmt::format("modules.decoded(modules.{}, state, x, [{}])", how.torch, fmt::join(how.counts, ", "));
      spec.tolerance = tolerance;
      spec.searched = true;
      spec.run = [how, dtype = dtype](const Place& place) { return decoded(how, dtype, place); };
      suite.procedures.push_back(std::move(spec));
    }
}

}  // namespace luminal::validate
