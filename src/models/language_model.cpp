#include "luminal/models/language_model.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "base/fail.h"
#include "luminal/compile_report.h"
#include "luminal/graph.h"
#include "models/model_file.h"
#include "models/model_weights.h"

namespace luminal::models {
namespace {

using text::TokenId;

/// Steps have so many tokens: the least that fits, padded, so that few sizes are compiled.
constexpr std::array<int64_t, 5> kStepTokens{1, 8, 32, 128, 512};
/// Of a cache, a multiple of so many rows is read.
constexpr int64_t kCacheRows = 256;

int64_t rounded_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace

struct LanguageModel::State {
  struct LayerCache {
    std::shared_ptr<TensorData> keys, values;  ///< [1, kv_heads, capacity, head_size], shared with the graph
  };

  State(const std::filesystem::path& path, Options given)
      : options(std::move(given)), file(open_model(path, options.decoded)) {
    check_options();
    if (file->family().encodes)
      fail<FormatError>("[model] {} models make embeddings of texts and no texts; use `luminal embed`",
                        file->architecture());
    sizes = file->options(options.context);
    context = options.context > 0 ? options.context : usual_context(sizes.context);
    if (!options.device.empty()) cx.set_device(options.device);
    build();
  }

  void check_options() const {
    if (options.context < 0)
      fail("[model] the context is {}; give the most tokens of a text", options.context);
    for (const auto& [dtype, what] :
         {std::pair(options.cache, "cache"), std::pair(options.decoded.value_or(Dtype::F32), "decoded")})
      if (dtype != Dtype::F32 && dtype != Dtype::F16 && dtype != Dtype::BF16)
        fail<DtypeError>("[model] {} is {}; choose f32, f16 or bf16", what, name(dtype));
  }

  void build() {
    const Decoder decoder(cx, sizes, weights_of(cx, file, totals));
    sizes = decoder.options();
    refuse_unused(*file);
    if (sizes.rotary.frequencies.empty() && context > sizes.context)
      fail("[model] the context is {}, and the model has places for {} tokens", context, sizes.context);
    capacity = rounded_up(context, kCacheRows);
    const Expression rows =
        Expression::dim("past_rows", {.min = kCacheRows, .max = capacity, .multiple_of = kCacheRows});
    std::vector<Decoder::Rows> past_rows;
    for (int64_t i = 0; i < sizes.layers; ++i) past_rows.push_back(add_cache(rows));
    tokens = cx.named_tensor("tokens", {1, Expression::dim("new", {.min = 1, .max = kStepTokens.back()})},
                             Dtype::I32);
    past = cx.named_tensor("past", {}, Dtype::I32);
    last = cx.named_tensor("last", {}, Dtype::I32);
    if (options.scores) targets = cx.named_tensor("targets", {1, tokens.dim(1)}, Dtype::I32);
    Decoder::Result next = decoder.forward(
        {.tokens = tokens, .past = past, .last = last, .cache = past_rows, .targets = targets});
    if (options.scores)
      losses = next.losses.retrieve();
    else
      logits = next.logits.retrieve();
    for (Decoder::Rows& each : next.rows)
      fresh.push_back({each.keys.contiguous().retrieve(), each.values.contiguous().retrieve()});
  }

  Decoder::Rows add_cache(const Expression& rows) {
    LayerCache cache;
    const auto input = [&](const char* what, std::shared_ptr<TensorData>& data) {
      const std::vector<int64_t> dims{1, sizes.kv_heads, capacity, sizes.head_size};
      data = std::make_shared<TensorData>(options.cache, dims);
      GraphTensor whole = cx.named_tensor(fmt::format("blk.{}.{}", caches.size(), what),
                                          Shape(dims.begin(), dims.end()), options.cache);
      cx.store(whole.edge().source, data, true);
      return whole.slice_along(2, 0, rows);
    };
    const Decoder::Rows past_rows{input("keys", cache.keys), input("values", cache.values)};
    caches.push_back(std::move(cache));
    return past_rows;
  }

  /// Computes the tokens, at most a step of them, behind those in the cache. `following`: the token behind each.
  void step(std::span<const TokenId> next, std::span<const TokenId> following = {}) {
    if (!compiled) compiled.emplace(cx.compile(options.mode));
    const auto count = static_cast<int64_t>(next.size());
    const int64_t length = *std::ranges::lower_bound(kStepTokens, count);
    const auto done = static_cast<int64_t>(seen.size());
    std::vector<int32_t> padded(next.begin(), next.end());
    padded.resize(static_cast<size_t>(length), next.back());
    tokens.set_dyn(padded, {1, length});
    if (options.scores) {
      padded.assign(following.begin(), following.end());
      padded.resize(static_cast<size_t>(length), following.back());
      targets.set_dyn(padded, {1, length});
    }
    past.set(std::vector{static_cast<int32_t>(done)});
    last.set(std::vector{static_cast<int32_t>(count - 1)});
    cx.set_dim("past_rows", std::max(kCacheRows, rounded_up(done, kCacheRows)));
    const size_t plans = cx.plans().size();
    (*compiled)();
    if (cx.plans().size() > plans) compile_s += compiled->details().total_s;
    for (size_t i = 0; i < caches.size(); ++i) {
      append(*caches[i].keys, fresh[i].keys, done, count);
      append(*caches[i].values, fresh[i].values, done, count);
    }
    seen.insert(seen.end(), next.begin(), next.end());
  }

  void append(TensorData& cache, const GraphTensor& rows, int64_t done, int64_t count) const {
    const std::shared_ptr<const TensorData> data = cx.value(rows.edge().source);
    const auto row = static_cast<size_t>(sizes.head_size * element_bytes(options.cache));
    const auto to = static_cast<size_t>(capacity) * row, from = static_cast<size_t>(data->dims.at(2)) * row;
    for (size_t head = 0; head < static_cast<size_t>(sizes.kv_heads); ++head)
      std::memcpy(cache.bytes.data() + head * to + static_cast<size_t>(done) * row,
                  data->bytes.data() + head * from, static_cast<size_t>(count) * row);
  }

  void check_text(std::span<const TokenId> text) const {
    if (text.empty()) fail("[model] the text has no tokens; give at least one");
    if (std::ssize(text) > context)
      fail("[model] the text has {} tokens and the context {}; open the model with a larger one", text.size(),
           context);
    for (const TokenId id : text)
      if (id < 0 || id >= sizes.vocabulary)
        fail("[model] token {} is not one of the {} of the vocabulary", id, sizes.vocabulary);
  }

  Options options;
  std::shared_ptr<ModelFile> file;
  DecoderOptions sizes;
  WeightTotals totals;
  int64_t context = 0, capacity = 0;
  Graph cx;
  GraphTensor tokens, past, last, targets, logits, losses;
  std::vector<LayerCache> caches;
  std::vector<Decoder::Rows> fresh;  ///< of the last step
  std::optional<Compiled> compiled;
  std::vector<TokenId> seen;   ///< whose rows are in the caches
  std::vector<float> numbers;  ///< of the last step
  int64_t computed = 0;
  double compile_s = 0;
  std::optional<text::Tokenizer> tokenizer;
  std::optional<std::vector<TokenId>> ends;
};

LanguageModel::LanguageModel(const std::filesystem::path& path, Options options)
    : state_(std::make_unique<State>(path, std::move(options))) {}
LanguageModel::LanguageModel(LanguageModel&&) noexcept = default;
LanguageModel& LanguageModel::operator=(LanguageModel&&) noexcept = default;
LanguageModel::~LanguageModel() = default;

const std::string& LanguageModel::architecture() const { return state_->file->architecture(); }
const DecoderOptions& LanguageModel::sizes() const { return state_->sizes; }
int64_t LanguageModel::parameter_count() const { return state_->totals.count; }
int64_t LanguageModel::weight_bytes() const { return state_->totals.bytes; }
int64_t LanguageModel::context() const { return state_->context; }
int64_t LanguageModel::computed_tokens() const { return state_->computed; }
double LanguageModel::compile_seconds() const { return state_->compile_s; }

const text::Tokenizer& LanguageModel::tokenizer() {
  if (!state_->tokenizer) state_->tokenizer.emplace(state_->file->tokenizer());
  return *state_->tokenizer;
}

const std::vector<TokenId>& LanguageModel::end_tokens() {
  if (!state_->ends) {
    state_->ends = state_->file->end_tokens();
    if (const auto id = tokenizer().find(tokenizer().spec().end_token)) state_->ends->push_back(*id);
  }
  return *state_->ends;
}

std::span<const float> LanguageModel::logits(std::span<const TokenId> text) {
  State& s = *state_;
  if (s.options.scores) fail("[model] it was opened for losses; open it without `scores` for logits");
  s.check_text(text);
  const auto same = std::ranges::mismatch(text, s.seen).in1 - text.begin();
  s.seen.resize(std::min(static_cast<size_t>(same), text.size() - 1));  // the last token's logits are wanted
  s.computed = static_cast<int64_t>(text.size() - s.seen.size());
  while (s.seen.size() < text.size())
    s.step(text.subspan(s.seen.size())
               .first(std::min(text.size() - s.seen.size(), static_cast<size_t>(kStepTokens.back()))));
  s.numbers = s.logits.data<float>();
  return s.numbers;
}

std::vector<float> LanguageModel::losses(std::span<const TokenId> text) {
  State& s = *state_;
  if (!s.options.scores) fail("[model] it was opened for logits; open it with `scores` for losses");
  s.check_text(text);
  s.seen.clear();
  s.computed = std::ssize(text) - 1;
  std::vector<float> result;
  while (s.seen.size() + 1 < text.size()) {
    const size_t done = s.seen.size();
    const size_t count = std::min(text.size() - 1 - done, static_cast<size_t>(kStepTokens.back()));
    s.step(text.subspan(done, count), text.subspan(done + 1, count));
    const auto step = s.losses.data<float>();
    result.insert(result.end(), step.begin(), step.begin() + static_cast<ptrdiff_t>(count));
  }
  return result;
}

}  // namespace luminal::models
