#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "base/stopwatch.h"
#include "cli/compile_mode.h"
#include "cli/interrupt.h"
#include "cli/search_line.h"
#include "cli/train_loop.h"
#include "cli/train_runs.h"
#include "luminal/data.h"
#include "luminal/models/llama.h"
#include "luminal/training.h"

namespace luminal::cli {
namespace {

void check(const TrainTextOptions& options) {
  check_run(options);
  if (options.steps < 1) fail("[train] --steps is {}; give 1 or more", options.steps);
  if (options.length < 2) fail("[train] --length is {}; give 2 or more", options.length);
  if (options.sample < 0) fail("[train] --sample {} is negative; 0 writes nothing", options.sample);
  if (!(options.temperature >= 0)) fail("[train] --temperature is {}; give 0 or more", options.temperature);
  if (options.chat && options.weights.extension() != ".gguf")
    fail("[train] --chat is for a model that `luminal run` runs; give it a file: --weights out.gguf");
  if (options.prompt.empty()) fail("[train] --prompt is empty; give at least one byte to start from");
}

models::Llama::Options sizes_of(const TrainTextOptions& options) {
  return {
      .layers = options.layers, .size = options.size, .heads = options.heads, .kv_heads = options.kv_heads};
}

/// A question alone, as the text has it: what came before does not help a model that learnt short windows.
constexpr const char* kQuestionTemplate = "{{ '\\nQ: ' + messages[-1]['content'] + '\\nA: ' }}";

/// Weights as safetensors; into a .gguf file with all that `luminal run` needs.
void save_model(const TrainTextOptions& options, const std::map<std::string, TensorData>& weights) {
  if (options.weights.extension() != ".gguf") return save_weights(weights, options.weights, "llama");
  text::TokenizerSpec tokenizer = text::byte_tokenizer();
  std::vector<text::TokenId> ends;
  if (options.chat) {
    tokenizer.chat_template = kQuestionTemplate;
    ends = {'\n'};
  }
  models::write_llama_gguf(sizes_of(options), weights, options.length, tokenizer, ends, options.weights);
}

/// Every tenth window is for testing: nothing is learnt from it.
std::vector<int64_t> windows(const data::TextSource& source, bool test) {
  constexpr int64_t kTestEvery = 10;
  std::vector<int64_t> which;
  for (int64_t i = 0; i < source.size(); ++i)
    if ((i % kTestEvery == kTestEvery - 1) == test) which.push_back(i);
  return which;
}

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
  const models::Llama model(cx, sizes_of(options));
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
  for (int64_t i = 0; i < options.sample; ++i) {
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

/// Model and loss on windows of bytes, in a graph of its own.
struct TextGraph {
  Graph cx;
  models::Llama model;
  GraphTensor bytes, next, loss;

  TextGraph(const TrainTextOptions& options, const Expression& batch)
      : cx(new_graph(options)), model(cx, sizes_of(options)) {
    bytes = cx.named_tensor("bytes", {batch, options.length}, Dtype::I32);
    next = cx.named_tensor("next", {batch, options.length}, Dtype::I32);
    loss = training::cross_entropy(model.forward(bytes).flatten(0, 1), next.flatten());
  }
  void feed(const std::vector<TensorData>& batch) {
    bytes.set(batch[0]);
    next.set(batch[1]);
  }
};

/// The mean loss on windows that nothing was learnt from, in nats a byte; nothing if there are none.
class Examiner {
 public:
  Examiner(const data::Source& source, const TrainTextOptions& options)
      : graph_(options, "batch"), loader_(source, {.batch = options.batch, .shuffle = false}) {
    graph_.loss.retrieve();
  }
  [[nodiscard]] std::optional<double> loss(const std::map<std::string, TensorData>& weights) {
    nn::load_state_dict(graph_.model, weights);
    double sum = 0;
    int64_t count = 0;
    auto batches = loader_.epoch(0);
    while (const std::vector<TensorData>* batch = batches.next()) {
      graph_.feed(*batch);
      graph_.cx.execute();
      const int64_t rows = (*batch)[0].dims[0];
      sum += graph_.loss.data<double>()[0] * static_cast<double>(rows);
      count += rows;
    }
    return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
  }

 private:
  TextGraph graph_;
  data::Loader loader_;
};

/// Trains, and returns how it went.
LoopResult learn(TextGraph& graph, const data::Source& source, Examiner& examiner,
                 const TrainTextOptions& options, Console& console) {
  constexpr int64_t kEvaluations = 10;  // on the way
  const data::Loader loader(source, {.batch = options.batch, .seed = options.seed, .drop_last = true});
  if (loader.batches_per_epoch() == 0)
    fail(
        "[train] the text has {} training windows of {} bytes, fewer than a batch of {}; give more text, or "
        "a smaller --batch or --length",
        source.size(), options.length, options.batch);
  const training::WarmupCosineSchedule schedule{.peak = options.learning_rate,
                                                .warmup = std::min<int64_t>(20, options.steps / 10),
                                                .steps = options.steps,
                                                .floor = options.learning_rate / 10};
  training::Trainer trainer(
      graph.cx, graph.model, graph.loss,
      training::use<training::AdamW>({.learning_rate = options.learning_rate, .beta2 = 0.99}),
      {.schedule = schedule, .clip_norm = 1, .mode = parse_mode(options.mode)});
  RunCheckpoints checkpoints(options, "text", source.size());
  const int64_t done = checkpoints.start(trainer, console);
  RunLog log(options, done);
  std::optional<SearchLine> line(std::in_place, console);  // the first step searches
  const auto step = [&](const std::vector<TensorData>& batch) {
    graph.feed(batch);
    const double loss = trainer.step();
    line.reset();
    return loss;
  };
  const auto seen = [&](int64_t number) {
    if (!log.wanted() || number % std::max<int64_t>(1, options.steps / kEvaluations) != 0) return;
    if (const auto test = examiner.loss(nn::state_dict(graph.model)))
      log.write({{"step", number}, {"test_loss", *test}});
  };
  const LoopResult learnt = run_loop({.loader = loader,
                                      .done = done,
                                      .steps = options.steps,
                                      .learn = step,
                                      .seen = seen,
                                      .unit = "bytes",
                                      .units = options.length,
                                      .bar_each_pass = false},
                                     options, log, checkpoints, console);
  log.finish();
  return learnt;
}

}  // namespace

int train_text(const TrainTextOptions& options, Console& console) {
  check(options);
  (void)parse_mode(options.mode);
  const InterruptGuard guard;
  const data::TextSource text(data::load_text(options.data), options.length, options.length);
  const data::Subset known(text, windows(text, false)), unseen(text, windows(text, true));
  TextGraph graph(options, options.batch);
  Examiner examiner(unseen, options);
  console.out << fmt::format("{} bytes of text, a tenth of them for testing; {} layers of {}, device {}\n",
                             text.text().size(), options.layers, options.size, graph.cx.device());
  const auto begin = std::chrono::steady_clock::now();
  const LoopResult learnt = learn(graph, known, examiner, options, console);
  const double recent = learnt.loss, train_s = seconds_since(begin);
  if (!finish_loop(
          learnt, options, [&] { save_model(options, nn::state_dict(graph.model)); }, "windows", console))
    return interrupted_code();
  const auto weights = nn::state_dict(graph.model);
  const std::optional<double> test = examiner.loss(weights);
  console.out << fmt::format("loss {:.3f} nats a byte{}, weights saved to {}\n", recent,
                             test ? fmt::format(", {:.3f} on unseen text", *test) : "",
                             options.weights.string());
  std::string sample;
  if (options.sample > 0) {
    sample = shown(written(options, weights, graph.cx.device()));
    console.out << "\n" << sample << "\n";
  }
  nlohmann::ordered_json result{{"train_loss", recent}, {"steps", options.steps}, {"train_s", train_s}};
  if (test) result["test_loss"] = *test;
  result["sample"] = sample;
  write_result(options, graph.cx.device(), std::move(result));
  return kDone;
}

}  // namespace luminal::cli
