#include "luminal/models/language_model.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/fail.h"
#include "luminal/compile_report.h"
#include "luminal/graph.h"
#include "models/joint_step.h"
#include "models/model_file.h"
#include "models/model_weights.h"
#include "models/text_cache.h"

namespace luminal::models {
namespace {

using text::TokenId;

/// Steps have so many tokens: the least that fits, padded, so that few sizes are compiled.
constexpr std::array<int64_t, 5> kStepTokens{1, 8, 32, 128, 512};

}  // namespace

struct LanguageModel::State {
  State(const std::filesystem::path& path, Options given)
      : options(std::move(given)), file(open_model(path, options.decoded)) {
    check_options();
    if (file->family().encodes)
      fail<FormatError>("[model] {} models make embeddings of texts and no texts; use `luminal embed`",
                        file->architecture());
    sizes = file->options(options.context);
    sizes.rounded_activations = options.rounded_activations;
    context = options.context > 0 ? options.context : usual_context(sizes.context);
    if (!options.device.empty()) cx.set_device(options.device);
    build();
  }

  void check_options() const {
    if (options.context < 0)
      fail("[model] the context is {}; give the most tokens of a text", options.context);
    if (options.sequences < 1)
      fail("[model] {} sequences are asked for; keep the caches of at least one", options.sequences);
    for (const auto& [dtype, what] :
         {std::pair(options.cache, "cache"), std::pair(options.decoded.value_or(Dtype::F32), "decoded")})
      if (dtype != Dtype::F32 && dtype != Dtype::F16 && dtype != Dtype::BF16)
        fail<DtypeError>("[model] {} is {}; choose f32, f16 or bf16", what, name(dtype));
  }

  void build() {
    const Decoder decoder(cx, sizes,
                          [this, of_file = weights_of(cx, file, totals)](const std::string& name,
                                                                         const std::vector<int64_t>& dims) {
                            std::optional<GraphTensor> weight = of_file(name, dims);
                            if (weight) weights.emplace(name, *weight);
                            return weight;
                          });
    sizes = decoder.options();
    refuse_unused(*file);
    if (sizes.rotary.frequencies.empty() && context > sizes.context)
      fail("[model] the context is {}, and the model has places for {} tokens", context, sizes.context);
    capacity = cache_rows_for(context);
    cache_inputs.emplace(cx, "", sizes.layers, cache_dims(), options.cache);
    const std::vector<Decoder::Rows> past_rows = cache_inputs->rows();
    sequences.resize(static_cast<size_t>(options.sequences));
    for (TextCache& each : sequences)
      for (int64_t i = 0; i < sizes.layers; ++i) each.layers.push_back({new_cache(), new_cache()});
    select(0);
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

  [[nodiscard]] std::vector<int64_t> cache_dims() const {
    return {1, sizes.kv_heads, capacity, sizes.head_size};
  }
  [[nodiscard]] std::shared_ptr<TensorData> new_cache() const {
    return std::make_shared<TensorData>(options.cache, cache_dims());
  }

  /// The steps that follow read and extend this sequence.
  void select(size_t number) {
    current = &sequences[number];
    cache_inputs->bind(*current);
  }
  [[nodiscard]] size_t checked_sequence(int64_t number) const {
    if (number < 0 || number >= std::ssize(sequences))
      fail("[model] sequence {} is asked for, and the model was opened for {}", number, sequences.size());
    return static_cast<size_t>(number);
  }

  /// Computes the tokens, at most a step of them, behind those in the cache. `following`: the token behind each.
  void step(std::span<const TokenId> next, std::span<const TokenId> following = {}) {
    if (!compiled) compiled.emplace(cx.compile(options.mode));
    const auto count = static_cast<int64_t>(next.size());
    const int64_t length = *std::ranges::lower_bound(kStepTokens, count);
    const auto done = static_cast<int64_t>(current->seen.size());
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
    cx.set_dim("past_rows", cache_rows_for(done));
    const size_t plans = cx.plans().size();
    (*compiled)();
    if (cx.plans().size() > plans) compile_s += compiled->details().total_s;
    for (size_t i = 0; i < fresh.size(); ++i) {
      copy_rows(*cx.value(fresh[i].keys.edge().source), 0, *current->layers[i].keys, done, count);
      copy_rows(*cx.value(fresh[i].values.edge().source), 0, *current->layers[i].values, done, count);
    }
    current->seen.insert(current->seen.end(), next.begin(), next.end());
  }

  /// The step over texts of which there are `count`.
  JointStep& joint_step(int64_t count) {
    const int64_t most = std::min(*std::ranges::lower_bound(kJointTexts, count), std::ssize(sequences));
    const auto known = std::ranges::find(joint_steps, most, &JointStep::texts);
    if (known != joint_steps.end()) return *known;
    return joint_steps.emplace_back(JointStep::Parts{.sizes = sizes,
                                                     .device = options.device,
                                                     .mode = options.mode,
                                                     .texts = most,
                                                     .cache = options.cache,
                                                     .cache_dims = cache_dims(),
                                                     .weights = weights});
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
  std::optional<CacheInputs> cache_inputs;     ///< of the current sequence
  std::map<std::string, GraphTensor> weights;  ///< by name
  std::vector<TextCache> sequences;
  TextCache* current = nullptr;
  std::vector<Decoder::Rows> fresh;  ///< of the last step
  std::optional<Compiled> compiled;
  std::deque<JointStep> joint_steps;
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
double LanguageModel::compile_seconds() const {
  double all = state_->compile_s;
  for (const JointStep& each : state_->joint_steps) all += each.compile_seconds();
  return all;
}

const text::Tokenizer& LanguageModel::tokenizer() {
  if (!state_->tokenizer) state_->tokenizer.emplace(state_->file->tokenizer());
  return *state_->tokenizer;
}

const std::vector<TokenId>& LanguageModel::end_tokens() {
  if (!state_->ends) {
    std::vector<TokenId> ends = state_->file->end_tokens();
    if (const auto id = tokenizer().find(tokenizer().spec().end_token)) ends.push_back(*id);
    std::ranges::sort(ends);
    ends.erase(std::ranges::unique(ends).begin(), ends.end());
    state_->ends = std::move(ends);
  }
  return *state_->ends;
}

int64_t LanguageModel::sequences() const { return std::ssize(state_->sequences); }

int64_t LanguageModel::cache_bytes() const {
  const std::vector<int64_t> dims = state_->cache_dims();
  const int64_t count = std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
  return 2 * state_->sizes.layers * size_bytes(state_->options.cache, count);
}

int64_t LanguageModel::known_tokens(std::span<const TokenId> text, int64_t sequence) const {
  const std::vector<TokenId>& seen = state_->sequences[state_->checked_sequence(sequence)].seen;
  return std::ranges::mismatch(text, seen).in1 - text.begin();
}

void LanguageModel::copy_tokens(int64_t from, int64_t to, int64_t count) {
  State& s = *state_;
  const TextCache& source = s.sequences[s.checked_sequence(from)];
  TextCache& target = s.sequences[s.checked_sequence(to)];
  if (count < 0 || count > std::ssize(source.seen))
    fail("[model] {} tokens of sequence {} are asked for, and it holds {}", count, from, source.seen.size());
  if (&source == &target) return target.seen.resize(static_cast<size_t>(count));
  for (size_t i = 0; i < source.layers.size(); ++i) {
    copy_rows(*source.layers[i].keys, 0, *target.layers[i].keys, 0, count);
    copy_rows(*source.layers[i].values, 0, *target.layers[i].values, 0, count);
  }
  target.seen.assign(source.seen.begin(), source.seen.begin() + count);
}

std::span<const float> LanguageModel::logits(std::span<const TokenId> text, int64_t sequence) {
  State& s = *state_;
  if (s.options.scores) fail("[model] it was opened for losses; open it without `scores` for logits");
  s.check_text(text);
  const int64_t known = known_tokens(text, sequence);
  s.select(s.checked_sequence(sequence));
  std::vector<TokenId>& seen = s.current->seen;
  seen.resize(std::min(static_cast<size_t>(known), text.size() - 1));  // the last token's logits are wanted
  s.computed = static_cast<int64_t>(text.size() - seen.size());
  while (seen.size() < text.size())
    s.step(text.subspan(seen.size())
               .first(std::min(text.size() - seen.size(), static_cast<size_t>(kStepTokens.back()))));
  s.numbers = s.logits.data<float>();
  return s.numbers;
}

std::span<const float> LanguageModel::joint_logits(std::span<const SequenceText> texts) {
  State& s = *state_;
  if (s.options.scores) fail("[model] it was opened for losses; open it without `scores` for logits");
  if (texts.empty() || std::ssize(texts) > kMostJointTexts)
    fail("[model] {} texts in a joint step; give 1 to {}", texts.size(), kMostJointTexts);
  std::vector<TokenId> tokens;
  std::vector<TextCache*> caches;
  for (const SequenceText& each : texts) {
    s.check_text(each.text);
    TextCache& cache = s.sequences[s.checked_sequence(each.sequence)];
    if (std::ranges::find(caches, &cache) != caches.end())
      fail("[model] sequence {} is twice in a joint step", each.sequence);
    const int64_t known = known_tokens(each.text, each.sequence), missing = std::ssize(each.text) - known;
    if (missing > 1)
      fail(
          "[model] sequence {} lacks {} tokens of its text; a joint step computes one, logits() does the "
          "rest",
          each.sequence, missing);
    tokens.push_back(each.text.back());
    caches.push_back(&cache);
  }
  for (size_t i = 0; i < texts.size(); ++i)  // the last token's logits are wanted
    caches[i]->seen.resize(texts[i].text.size() - 1);
  s.computed = std::ssize(texts);
  return s.joint_step(std::ssize(texts)).run(tokens, caches);
}

std::vector<float> LanguageModel::losses(std::span<const TokenId> text) {
  State& s = *state_;
  if (!s.options.scores) fail("[model] it was opened for logits; open it with `scores` for losses");
  s.check_text(text);
  std::vector<TokenId>& seen = s.current->seen;
  seen.clear();
  s.computed = std::ssize(text) - 1;
  std::vector<float> result;
  while (seen.size() + 1 < text.size()) {
    const size_t done = seen.size();
    const size_t count = std::min(text.size() - 1 - done, static_cast<size_t>(kStepTokens.back()));
    s.step(text.subspan(done, count), text.subspan(done + 1, count));
    const auto step = s.losses.data<float>();
    result.insert(result.end(), step.begin(), step.begin() + static_cast<ptrdiff_t>(count));
  }
  return result;
}

}  // namespace luminal::models
