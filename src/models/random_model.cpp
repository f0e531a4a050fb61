#include "luminal/models/random_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/cancel.h"
#include "base/fail.h"
#include "base/suggest.h"
#include "base/team.h"
#include "luminal/gguf.h"
#include "luminal/models/gguf_tokenizer.h"
#include "luminal/models/llama.h"
#include "luminal/tensor_data.h"
#include "luminal/text/tokenizer.h"

namespace luminal::models {
namespace {

/// Feed-forward layers of which each token uses a few.
struct KnownExperts {
  int64_t count = 0, used = 0, hidden = 0;
};
struct KnownShape {
  std::string_view name;
  Llama::Options sizes;
  int64_t context;
  std::string_view architecture = "llama";
  int64_t head_size = 0;    ///< 0: size / heads
  bool head_norms = false;  ///< of queries and keys
  KnownExperts experts = {};

  [[nodiscard]] int64_t size_of_head() const { return head_size > 0 ? head_size : sizes.size / sizes.heads; }
};
Llama::Options shape(int64_t vocabulary, int64_t layers, int64_t size, int64_t heads, int64_t kv_heads,
                     int64_t hidden, double rope_base, bool tied) {
  return {.vocabulary = vocabulary,
          .layers = layers,
          .size = size,
          .heads = heads,
          .kv_heads = kv_heads,
          .hidden = hidden,
          .rope_base = rope_base,
          .tied = tied};
}

/// From the models' config.json.
const std::array kShapes{
    KnownShape{"llama-3.1-8b", Llama::llama3_8b(), 8192},
    KnownShape{"llama-3.2-1b", shape(128'256, 16, 2048, 32, 8, 8192, 5e5, true), 8192},
    KnownShape{.name = "qwen3-30b-a3b",
               .sizes = shape(151'936, 48, 2048, 32, 4, 6144, 1e6, false),
               .context = 40'960,
               .architecture = "qwen3moe",
               .head_size = 128,
               .head_norms = true,
               .experts = {.count = 128, .used = 8, .hidden = 768}},
    KnownShape{"smollm2-135m", shape(49'152, 30, 576, 9, 3, 1536, 1e5, true), 8192},
    KnownShape{"tinyllama-1.1b", shape(32'000, 22, 2048, 32, 4, 5632, 1e4, false), 2048},
};

GgufMetadata metadata_of(const KnownShape& shape, int64_t layers) {
  const Llama::Options& o = shape.sizes;
  const auto count = [](int64_t value) { return GgufValue(static_cast<uint32_t>(value)); };
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", shape.architecture, name); };
  GgufMetadata metadata{{"general.architecture", GgufValue(std::string(shape.architecture))},
                        {"general.name", GgufValue(fmt::format("{} with random weights", shape.name))},
                        {"general.file_type", count(1)},
                        {key("vocab_size"), count(o.vocabulary)},
                        {key("context_length"), count(shape.context)},
                        {key("embedding_length"), count(o.size)},
                        {key("block_count"), count(layers)},
                        {key("feed_forward_length"), count(o.hidden)},
                        {key("attention.head_count"), count(o.heads)},
                        {key("attention.head_count_kv"), count(o.kv_heads)},
                        {key("attention.key_length"), count(shape.size_of_head())},
                        {key("attention.value_length"), count(shape.size_of_head())},
                        {key("rope.dimension_count"), count(shape.size_of_head())},
                        {key("rope.freq_base"), GgufValue(static_cast<float>(o.rope_base))},
                        {key("attention.layer_norm_rms_epsilon"), GgufValue(static_cast<float>(o.norm_eps))}};
  if (shape.experts.count > 0) {
    metadata.push_back({key("expert_count"), count(shape.experts.count)});
    metadata.push_back({key("expert_used_count"), count(shape.experts.used)});
    metadata.push_back({key("expert_feed_forward_length"), count(shape.experts.hidden)});
  }
  text::TokenizerSpec tokens = text::byte_tokenizer();
  for (auto id = static_cast<text::TokenId>(tokens.vocabulary.size()); id < o.vocabulary; ++id)
    tokens.added.push_back({.id = id, .content = fmt::format("<token {}>", id)});
  for (auto& entry : gguf_tokenizer_metadata(tokens, {}, "llama")) metadata.push_back(std::move(entry));
  return metadata;
}

std::vector<GgufTensorInfo> tensors_of(const KnownShape& shape, int64_t layers) {
  const Llama::Options& o = shape.sizes;
  std::vector<GgufTensorInfo> tensors;
  const auto matrix = [&](std::string name, int64_t out, int64_t in) {
    tensors.push_back({std::move(name) + ".weight", &gguf_type("f16"), {out, in}});
  };
  const auto matrices = [&](std::string name, int64_t out, int64_t in) {
    tensors.push_back({std::move(name) + ".weight", &gguf_type("f16"), {shape.experts.count, out, in}});
  };
  const auto norm = [&](std::string name, int64_t size) {
    tensors.push_back({std::move(name) + ".weight", &gguf_type("f32"), {size}});
  };
  const int64_t queries = o.heads * shape.size_of_head(), keys = o.kv_heads * shape.size_of_head();
  matrix("token_embd", o.vocabulary, o.size);
  for (int64_t i = 0; i < layers; ++i) {
    const auto named = [&](std::string_view part) { return fmt::format("blk.{}.{}", i, part); };
    norm(named("attn_norm"), o.size);
    matrix(named("attn_q"), queries, o.size);
    matrix(named("attn_k"), keys, o.size);
    matrix(named("attn_v"), keys, o.size);
    matrix(named("attn_output"), o.size, queries);
    if (shape.head_norms) {
      norm(named("attn_q_norm"), shape.size_of_head());
      norm(named("attn_k_norm"), shape.size_of_head());
    }
    norm(named("ffn_norm"), o.size);
    if (shape.experts.count > 0) {
      matrix(named("ffn_gate_inp"), shape.experts.count, o.size);
      matrices(named("ffn_gate_exps"), shape.experts.hidden, o.size);
      matrices(named("ffn_up_exps"), shape.experts.hidden, o.size);
      matrices(named("ffn_down_exps"), o.size, shape.experts.hidden);
      continue;
    }
    matrix(named("ffn_gate"), o.hidden, o.size);
    matrix(named("ffn_up"), o.hidden, o.size);
    matrix(named("ffn_down"), o.size, o.hidden);
  }
  norm("output_norm", o.size);
  if (!o.tied) matrix("output", o.vocabulary, o.size);
  return tensors;
}

/// Uniform numbers with the deviation that keeps the size of a row of `inputs` numbers.
TensorData random_numbers(int64_t count, int64_t inputs, uint64_t seed) {
  TensorData data(Dtype::F16, {count});
  const auto most = static_cast<float>(std::sqrt(3.0 / static_cast<double>(inputs)));
  std::mt19937_64 random(seed);
  for (float16& x : data.as<float16>())
    x = float16(most * (static_cast<float>(random() >> 40) * 0x1p-23F - 1));
  return data;
}

void write_numbers(GgufWriter& writer, const GgufTensorInfo& tensor, std::mt19937_64& seeds) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const int64_t count = tensor.element_count();
  if (tensor.dims.size() == 1) {  // of a norm
    const TensorData ones =
        TensorData::of<float>({count}, std::vector<float>(static_cast<size_t>(count), 1.0F));
    return writer.append(ones.bytes);
  }
  std::vector<uint64_t> seed_of(static_cast<size_t>((count + kPiece - 1) / kPiece));
  for (uint64_t& seed : seed_of) seed = seeds();
  const auto at_once = static_cast<size_t>(Team::shared().size());
  for (size_t first = 0; first < seed_of.size(); first += at_once) {
    throw_if_cancelled();
    std::vector<TensorData> pieces(std::min(at_once, seed_of.size() - first));
    Team::shared().for_each(pieces.size(), [&](size_t i) {
      const auto begin = static_cast<int64_t>(first + i) * kPiece;
      pieces[i] = random_numbers(std::min(kPiece, count - begin), tensor.dims.back(), seed_of[first + i]);
    });
    for (const TensorData& piece : pieces) writer.append(piece.bytes);
  }
}

}  // namespace

std::vector<std::string> random_model_names() {
  std::vector<std::string> names;
  for (const KnownShape& shape : kShapes) names.emplace_back(shape.name);
  return names;
}

void write_random_model(std::string_view name, const std::filesystem::path& file,
                        const RandomModelOptions& options) {
  const auto known = std::ranges::find(kShapes, name, &KnownShape::name);
  if (known == kShapes.end()) {
    const std::vector<std::string> names = random_model_names();
    fail("[model] there is no shape '{}'; there are {}{}", name, fmt::join(names, ", "),
         did_you_mean(name, names));
  }
  if (options.layers < 0) fail("[model] {} layers are asked for; give 1 or more", options.layers);
  const int64_t layers = options.layers > 0 ? options.layers : known->sizes.layers;
  const std::vector<GgufTensorInfo> tensors = tensors_of(*known, layers);
  GgufWriter writer(file, metadata_of(*known, layers), tensors);
  std::mt19937_64 seeds(options.seed);
  for (size_t i = 0; i < tensors.size(); ++i) {
    write_numbers(writer, tensors[i], seeds);
    if (options.progress) options.progress(static_cast<int64_t>(i) + 1, std::ssize(tensors));
  }
  writer.finish();
}

}  // namespace luminal::models
