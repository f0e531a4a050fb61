#include "luminal/models/embedding_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/cancel.h"
#include "base/fail.h"
#include "luminal/compile_report.h"
#include "luminal/graph.h"
#include "models/encoder.h"
#include "models/model_weights.h"

namespace luminal::models {
namespace {

using text::TokenId;

/// A step has so many tokens of each text: the least that fits, padded, so that few sizes are compiled.
constexpr std::array<int64_t, 4> kTextTokens{16, 64, 256, 512};
/// Texts of a step, where there are more than kFewTexts; these are computed one by one.
constexpr int64_t kStepTexts = 8, kFewTexts = 2;

int64_t padded_length(int64_t tokens) {
  const auto found = std::ranges::lower_bound(kTextTokens, tokens);
  if (found != kTextTokens.end()) return *found;
  const int64_t most = kTextTokens.back();
  return (tokens + most - 1) / most * most;
}

/// A tokenizer that puts tokens of its own around texts keeps the one behind them.
std::vector<TokenId> cut(std::vector<TokenId> tokens, int64_t most, const text::TokenizerSpec& spec) {
  if (std::ssize(tokens) <= most) return tokens;
  const auto tail = std::min<ptrdiff_t>(std::ssize(spec.end), most);
  tokens.erase(tokens.begin() + (most - tail), tokens.end() - tail);
  return tokens;
}

void scale_to_length_1(std::span<float> values) {
  double squares = 0;
  for (const float value : values) squares += static_cast<double>(value) * value;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& value : values) value = static_cast<float>(value / length);
}

}  // namespace

struct EmbeddingModel::State {
  State(const std::filesystem::path& path, Options given)
      : options(std::move(given)),
        file(open_model(path, options.decoded)),
        sizes(checked(*file).options(0)),
        tokenizer(file->tokenizer()) {
    if (!options.device.empty()) cx.set_device(options.device);
    const Encoder encoder(sizes, weights_of(cx, file, totals));
    refuse_unused(*file);
    const Expression texts = Expression::dim("texts", {.min = 1, .max = kStepTexts});
    const Expression length = Expression::dim("length", {.min = 1, .max = padded_length(sizes.context)});
    tokens = cx.named_tensor("tokens", {texts, length}, Dtype::I32);
    lengths = cx.named_tensor("lengths", {texts}, Dtype::I32);
    vectors = encoder.forward(tokens, lengths).retrieve();
  }

  static ModelFile& checked(ModelFile& file) {
    if (!file.family().encodes)
      fail<FormatError>("[model] {} models make texts and no embeddings; give one of BERT's kind",
                        file.architecture());
    return file;
  }

  [[nodiscard]] std::vector<TokenId> tokens_of(const std::string& text) const {
    std::vector<TokenId> ids = tokenizer.encode(text, {.parse_special = false});
    if (ids.empty()) fail("[model] a text has no tokens; give at least one word");
    if (std::ssize(ids) > sizes.context && !options.truncate)
      fail("[model] a text has {} tokens, and the model takes {}; give a shorter one or allow it to be cut",
           ids.size(), sizes.context);
    ids = cut(std::move(ids), sizes.context, tokenizer.spec());
    for (const TokenId id : ids)
      if (id >= sizes.vocabulary)
        fail<FormatError>("[model] the tokenizer gives the token {}, of a vocabulary of {}", id,
                          sizes.vocabulary);
    return ids;
  }

  /// Texts of these numbers, all padded to `length`.
  void step(std::span<const size_t> which, const std::vector<std::vector<TokenId>>& ids, int64_t length,
            std::vector<Embedding>& results) {
    throw_if_cancelled();
    const int64_t rows = which.size() == 1 ? 1 : kStepTexts;
    std::vector<int32_t> all(static_cast<size_t>(rows * length)), counts(static_cast<size_t>(rows), 1);
    for (size_t i = 0; i < which.size(); ++i) {
      const std::vector<TokenId>& text = ids[which[i]];
      std::ranges::copy(text, all.begin() + static_cast<ptrdiff_t>(i) * length);
      counts[i] = static_cast<int32_t>(text.size());
    }
    if (!compiled) compiled.emplace(cx.compile(options.mode));
    tokens.set_dyn(all, {rows, length});
    lengths.set_dyn(counts, {rows});
    const size_t plans = cx.plans().size();
    (*compiled)();
    if (cx.plans().size() > plans) compile_s += compiled->details().total_s;
    const std::vector<float> values = vectors.data<float>();
    for (size_t i = 0; i < which.size(); ++i) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(i) * sizes.size;
      Embedding& result = results[which[i]];
      result = {.values = {begin, begin + sizes.size}, .tokens = counts[i]};
      if (options.normalize) scale_to_length_1(result.values);
    }
  }

  Options options;
  std::shared_ptr<ModelFile> file;
  DecoderOptions sizes;
  text::Tokenizer tokenizer;
  WeightTotals totals;
  Graph cx;
  GraphTensor tokens, lengths, vectors;
  std::optional<Compiled> compiled;
  double compile_s = 0;
};

EmbeddingModel::EmbeddingModel(const std::filesystem::path& path, Options options)
    : state_(std::make_unique<State>(path, std::move(options))) {}
EmbeddingModel::EmbeddingModel(EmbeddingModel&&) noexcept = default;
EmbeddingModel& EmbeddingModel::operator=(EmbeddingModel&&) noexcept = default;
EmbeddingModel::~EmbeddingModel() = default;

const std::string& EmbeddingModel::architecture() const { return state_->file->architecture(); }
int64_t EmbeddingModel::size() const { return state_->sizes.size; }
int64_t EmbeddingModel::context() const { return state_->sizes.context; }
int64_t EmbeddingModel::parameter_count() const { return state_->totals.count; }
int64_t EmbeddingModel::weight_bytes() const { return state_->totals.bytes; }
const text::Tokenizer& EmbeddingModel::tokenizer() const { return state_->tokenizer; }
double EmbeddingModel::compile_seconds() const { return state_->compile_s; }

std::vector<Embedding> EmbeddingModel::embed(std::span<const std::string> texts) {
  std::vector<std::vector<TokenId>> ids;
  for (const std::string& text : texts) ids.push_back(state_->tokens_of(text));
  std::vector<size_t> order(texts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return ids[i].size(); });
  std::vector<Embedding> results(texts.size());
  const auto length_of = [&](size_t i) { return padded_length(std::ssize(ids[i])); };
  for (std::span<const size_t> rest(order); !rest.empty();) {
    const int64_t length = length_of(rest.front());
    const auto end = std::ranges::find_if(rest, [&](size_t i) { return length_of(i) != length; });
    const auto like = static_cast<size_t>(end - rest.begin());
    const size_t count = like <= kFewTexts ? 1 : std::min<size_t>(like, kStepTexts);
    state_->step(rest.first(count), ids, length, results);
    rest = rest.subspan(count);
  }
  return results;
}

}  // namespace luminal::models
