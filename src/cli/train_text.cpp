#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "cli/interrupt.h"
#include "cli/train_runs.h"
#include "luminal/data.h"
#include "luminal/models/small_llama.h"
#include "luminal/training.h"

namespace luminal::cli {
namespace {

void check(const TrainTextOptions& options) {
  check_run(options);
  if (options.steps < 1) fail("[train] --steps {} is not at least 1", options.steps);
  if (options.length < 2) fail("[train] --length {} is not at least 2", options.length);
  if (options.sample < 0) fail("[train] --sample {} is negative; 0 writes nothing", options.sample);
  if (!(options.temperature >= 0)) fail("[train] --temperature {} is negative", options.temperature);
  if (options.prompt.empty()) fail("[train] --prompt is empty; give at least one byte to start from");
}

models::SmallLlama::Options sizes_of(const TrainTextOptions& options) {
  return {
      .layers = options.layers, .size = options.size, .heads = options.heads, .kv_heads = options.kv_heads};
}

/// Batches without an end: epoch after epoch.
class Windows {
 public:
  Windows(const data::TextSource& source, const TrainTextOptions& options)
      : loader_(source, {.batch = options.batch, .seed = options.seed, .drop_last = true}),
        batches_(loader_.epoch(0)) {
    if (loader_.batches_per_epoch() == 0)
      fail(
          "[train] the text gives {} windows of {} bytes, fewer than a batch of {}; give more text or "
          "smaller ones",
          source.size(), options.length, options.batch);
  }
  const std::vector<TensorData>& next() {
    const std::vector<TensorData>* batch = batches_.next();
    if (batch == nullptr) {
      batches_ = loader_.epoch(++epoch_);
      batch = batches_.next();
    }
    return *batch;
  }

 private:
  data::Loader loader_;
  data::Loader::Epoch batches_;
  int64_t epoch_ = 0;
};

/// A byte drawn from softmax(logits / temperature), or the likeliest one.
unsigned char drawn(std::span<const float> logits, double temperature, data::Random& random) {
  const auto best = std::ranges::max_element(logits);
  if (temperature == 0) return static_cast<unsigned char>(best - logits.begin());
  std::vector<double> sums;
  double sum = 0;
  for (const float logit : logits)
    sums.push_back(sum += std::exp((static_cast<double>(logit) - *best) / temperature));
  const auto at = std::ranges::upper_bound(sums, random.uniform() * sum);
  return static_cast<unsigned char>(std::min<ptrdiff_t>(at - sums.begin(), std::ssize(sums) - 1));
}

/// Text that the model writes after the prompt, with keys and values of past bytes kept.
std::string written(const TrainTextOptions& options, const std::map<std::string, TensorData>& weights,
                    const std::string& device) {
  Graph cx;
  cx.set_device(device);
  const models::SmallLlama model(cx, sizes_of(options));
  nn::load_state_dict(model, weights);
  GraphTensor tokens = cx.named_tensor("tokens", {1, "new"}, Dtype::I32);
  const auto rows = static_cast<int64_t>(options.prompt.size()) + options.sample;
  const auto caches = model.caches(cx, rows, "past");
  const GraphTensor all = model.forward(tokens, caches);
  const GraphTensor logits = all.slice_along(1, Expression("new") - 1, Expression("new")).retrieve();
  data::Random random(options.seed, 1);
  std::string text = options.prompt;
  std::vector<int32_t> fresh(text.size());
  std::ranges::transform(text, fresh.begin(), [](char c) { return static_cast<unsigned char>(c); });
  int64_t past = 0;
  for (int64_t i = 0; i < options.sample && !interrupted(); ++i) {
    cx.set_dim("past", past);
    tokens.set_dyn(fresh, {1, static_cast<int64_t>(fresh.size())});
    cx.execute();
    past += static_cast<int64_t>(fresh.size());
    const std::vector<float> last = logits.data<float>();
    const unsigned char byte = drawn(last, options.temperature, random);
    text.push_back(static_cast<char>(byte));
    fresh = {byte};
  }
  return text;
}

/// What a terminal can show: other bytes become dots.
std::string shown(std::string text) {
  for (char& c : text)
    if (c != '\n' && (c < ' ' || c > '~')) c = '.';
  return text;
}

}  // namespace

int train_text(const TrainTextOptions& options, Console& console) {
  check(options);
  const InterruptGuard guard;
  const data::TextSource source(data::load_text(options.data), options.length, options.length);
  RunLog log(options);
  Graph cx;
  cx.set_seed(options.seed);
  if (!options.device.empty()) cx.set_device(options.device);
  const models::SmallLlama model(cx, sizes_of(options));
  const Shape window{options.batch, options.length};
  GraphTensor bytes = cx.named_tensor("bytes", window, Dtype::I32),
              next = cx.named_tensor("next", window, Dtype::I32);
  const GraphTensor loss = training::cross_entropy(model.forward(bytes).flatten(0, 1), next.flatten());
  const training::WarmupCosineSchedule schedule{.peak = options.learning_rate,
                                                .warmup = std::min<int64_t>(20, options.steps / 10),
                                                .steps = options.steps,
                                                .floor = options.learning_rate / 10};
  training::Trainer trainer(
      cx, model, loss,
      training::use<training::AdamW>({.learning_rate = options.learning_rate, .beta2 = 0.99}),
      {.schedule = schedule, .clip_norm = 1});
  console.out << fmt::format("{} bytes of text, {} layers of {}, device {}\n", source.text().size(),
                             options.layers, options.size, cx.device());
  Windows windows(source, options);
  data::ProgressBar bar("training", options.steps * options.batch * options.length,
                        {.out = &console.err, .unit = "bytes"});
  double recent = std::log(256.0);  // of the last steps, as one step's loss jumps about
  for (int64_t step = 0; step < options.steps && !interrupted(); ++step) {
    const std::vector<TensorData>& batch = windows.next();
    bytes.set(batch[0]);
    next.set(batch[1]);
    const double value = trainer.step();
    recent += (value - recent) * 0.1;
    bar.advance(options.batch * options.length, value);
    log.write({{"step", step + 1}, {"train_loss", value}});
  }
  bar.finish();
  const auto weights = nn::state_dict(model);
  save_weights(weights, options.weights, "small_llama");
  log.finish();
  console.out << fmt::format("loss {:.3f} nats a byte, weights saved to {}\n", recent,
                             options.weights.string());
  if (interrupted()) return kInterrupted;
  std::string sample;
  if (options.sample > 0) {
    sample = shown(written(options, weights, cx.device()));
    console.out << "\n" << sample << "\n";
  }
  write_result(options, cx.device(), {{"train_loss", recent}, {"steps", options.steps}, {"sample", sample}});
  return kDone;
}

}  // namespace luminal::cli
