#include "luminal/models/language_model.h"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <optional>
#include <utility>

#include "base/fail.h"
#include "luminal/graph.h"
#include "models/joint_step.h"
#include "models/model_file.h"
#include "models/model_weights.h"
#include "models/shared_weights.h"
#include "models/text_cache.h"
#include "models/text_step.h"

namespace luminal::models {
namespace {

using text::TokenId;

/// Steps have so many tokens: the least that fits, padded, so that few sizes are compiled.
constexpr std::array<int64_t, 5> kStepTokens{1, 8, 32, 128, 512};
/// Those that give logits of each token.
constexpr std::array<int64_t, 3> kEachTokens{2, 4, LanguageModel::kMostLastLogits};

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
    build();
  }

  void check_options() const {
    if (options.context < 0)
      fail("[model] the context is {}; give the most tokens of a text", options.context);
    if (options.sequences < 1)
      fail("[model] {} sequences are asked for; keep the caches of at least one", options.sequences);
    const auto is_float = [](Dtype dtype) {
      return dtype == Dtype::F32 || dtype == Dtype::F16 || dtype == Dtype::BF16;
    };
    if (!is_float(options.cache) && options.cache != Dtype::I8)
      fail<DtypeError>("[model] cache is {}; choose f32, f16, bf16 or i8", name(options.cache));
    if (options.decoded && !is_float(*options.decoded))
      fail<DtypeError>("[model] decoded is {}; choose f32, f16 or bf16", name(*options.decoded));
  }

  void build() {
    step.emplace(step_parts(options.scores ? TextStep::Gives::Losses : TextStep::Gives::LastLogits,
                            [this](Graph& cx) -> DecoderWeights {
                              return [this, of_file = weights_of(cx, file, totals)](
                                         const std::string& name, const std::vector<int64_t>& dims) {
                                std::optional<GraphTensor> weight = of_file(name, dims);
                                if (weight) weights.emplace(name, *weight);
                                return weight;
                              };
                            }));
    sizes = step->sizes();
    refuse_unused(*file);
    if (sizes.rotary.frequencies.empty() && context > sizes.context)
      fail("[model] the context is {}, and the model has places for {} tokens", context, sizes.context);
    sequences.resize(static_cast<size_t>(options.sequences));
    for (TextCache& each : sequences)
      for (int64_t i = 0; i < sizes.layers; ++i) each.layers.push_back(new_layer());
  }

  [[nodiscard]] TextStep::Parts step_parts(TextStep::Gives gives,
                                           std::function<DecoderWeights(Graph&)> of_graph) const {
    const bool each = gives == TextStep::Gives::EachLogits;
    return {.sizes = sizes,
            .device = options.device,
            .mode = options.mode,
            .gives = gives,
            .lengths = each ? std::vector<int64_t>(kEachTokens.begin(), kEachTokens.end())
                            : std::vector<int64_t>(kStepTokens.begin(), kStepTokens.end()),
            .cache = options.cache,
            .capacity = capacity(),
            .weights = std::move(of_graph)};
  }

  /// The step that gives logits of each token.
  TextStep& step_of_each() {
    if (!each_step)
      each_step.emplace(
          step_parts(TextStep::Gives::EachLogits, [this](Graph& cx) { return shared_weights(cx, weights); }));
    return *each_step;
  }

  [[nodiscard]] int64_t capacity() const { return cache_rows_for(context); }
  [[nodiscard]] TextCache::Layer new_layer() const {
    TextCache::Layer layer;
    for (const CachePart& part : cache_parts(sizes, options.cache, capacity()))
      layer.push_back(std::make_shared<TensorData>(part.dtype, part.dims));
    return layer;
  }

  [[nodiscard]] size_t checked_sequence(int64_t number) const {
    if (number < 0 || number >= std::ssize(sequences))
      fail("[model] sequence {} is asked for, and the model was opened for {}", number, sequences.size());
    return static_cast<size_t>(number);
  }

  /// A text whose logits are wanted, in the cache of its sequence, which is cut to the tokens of `text` before the last
  /// `wanted` that it holds. `computed` are then those that it lacks.
  TextCache& cut_to(std::span<const TokenId> text, int64_t wanted, int64_t sequence) {
    if (options.scores) fail("[model] it was opened for losses; open it without `scores` for logits");
    check_text(text);
    TextCache& cache = sequences[checked_sequence(sequence)];
    if (wanted < 1 || wanted > std::min(std::ssize(text), kMostLastLogits))
      fail("[model] logits of the last {} tokens are asked for, of {}; ask for 1 to {}", wanted, text.size(),
           std::min(std::ssize(text), kMostLastLogits));
    cache.seen.resize(static_cast<size_t>(std::min(known_tokens(text, cache), std::ssize(text) - wanted)));
    computed = std::ssize(text) - std::ssize(cache.seen);
    return cache;
  }
  /// How many tokens at the start of `text` the cache holds.
  [[nodiscard]] static int64_t known_tokens(std::span<const TokenId> text, const TextCache& cache) {
    return std::ranges::mismatch(text, cache.seen).in1 - text.begin();
  }
  /// Appends what `cache` lacks of `text`.
  void compute(std::span<const TokenId> text, TextCache& cache) {
    while (cache.seen.size() < text.size()) {
      const size_t done = cache.seen.size();
      step->run(text.subspan(done, std::min(text.size() - done, static_cast<size_t>(step->most_tokens()))),
                cache);
    }
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
                                                     .capacity = capacity(),
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
  int64_t context = 0;
  WeightsByName weights;
  std::optional<TextStep> step, each_step;
  std::vector<TextCache> sequences;
  std::deque<JointStep> joint_steps;
  std::vector<float> numbers;  ///< of the last step
  int64_t computed = 0;
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
  double all = state_->step->compile_seconds();
  if (state_->each_step) all += state_->each_step->compile_seconds();
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
  int64_t bytes = 0;
  for (const TextCache::Layer& layer : state_->sequences.front().layers)
    for (const std::shared_ptr<TensorData>& part : layer) bytes += std::ssize(part->bytes);
  return bytes;
}

int64_t LanguageModel::known_tokens(std::span<const TokenId> text, int64_t sequence) const {
  return State::known_tokens(text, state_->sequences[state_->checked_sequence(sequence)]);
}

void LanguageModel::copy_tokens(int64_t from, int64_t to, int64_t count) {
  State& s = *state_;
  const TextCache& source = s.sequences[s.checked_sequence(from)];
  TextCache& target = s.sequences[s.checked_sequence(to)];
  if (count < 0 || count > std::ssize(source.seen))
    fail("[model] {} tokens of sequence {} are asked for, and it holds {}", count, from, source.seen.size());
  if (&source == &target) return target.seen.resize(static_cast<size_t>(count));
  for (size_t layer = 0; layer < source.layers.size(); ++layer)
    for (size_t part = 0; part < source.layers[layer].size(); ++part)
      copy_rows(*source.layers[layer][part], 0, *target.layers[layer][part], 0, count);
  target.seen.assign(source.seen.begin(), source.seen.begin() + count);
}

std::span<const float> LanguageModel::logits(std::span<const TokenId> text, int64_t sequence) {
  State& s = *state_;
  s.compute(text, s.cut_to(text, 1, sequence));
  s.numbers = s.step->result();
  return s.numbers;
}

std::span<const float> LanguageModel::last_logits(std::span<const TokenId> text, int64_t count,
                                                  int64_t sequence) {
  State& s = *state_;
  if (count == 1) return logits(text, sequence);
  TextCache& cache = s.cut_to(text, count, sequence);
  const size_t before = text.size() - static_cast<size_t>(count);
  s.compute(text.first(before), cache);
  TextStep& step = s.step_of_each();
  step.run(text.subspan(before), cache);
  s.numbers = step.result();
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
  TextCache& cache = s.sequences.front();
  cache.seen.clear();
  s.computed = std::ssize(text) - 1;
  std::vector<float> result;
  while (cache.seen.size() + 1 < text.size()) {
    const size_t done = cache.seen.size();
    const size_t count = std::min(text.size() - 1 - done, static_cast<size_t>(s.step->most_tokens()));
    s.step->run(text.subspan(done, count), cache, text.subspan(done + 1, count));
    std::ranges::copy(s.step->result(), std::back_inserter(result));
  }
  return result;
}

}  // namespace luminal::models
