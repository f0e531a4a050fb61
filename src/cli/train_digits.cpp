#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "cli/interrupt.h"
#include "cli/train_loop.h"
#include "cli/train_runs.h"
#include "luminal/loader.h"
#include "luminal/nn.h"
#include "luminal/npy.h"
#include "luminal/training.h"

namespace luminal::cli {
namespace {

constexpr int64_t kSide = 8, kClasses = 10, kTestDigitEvery = 5;

struct Digits {
  std::vector<TensorData> train, test;  ///< images f32 [N, 64] of 0..1, labels i32 [N]
};

/// Rows `which` of images and labels.
std::vector<TensorData> rows_of(const TensorData& images, const TensorData& labels,
                                const std::vector<int64_t>& which) {
  constexpr int64_t kPixels = kSide * kSide;
  constexpr float kBrightest = 16;
  const auto count = static_cast<int64_t>(which.size());
  TensorData x(Dtype::F32, {count, kPixels}), y(Dtype::I32, {count});
  for (size_t i = 0; i < which.size(); ++i) {
    for (int64_t k = 0; k < kPixels; ++k)
      x.as<float>()[i * kPixels + static_cast<size_t>(k)] =
          static_cast<float>(images.as<uint8_t>()[static_cast<size_t>(which[i] * kPixels + k)]) / kBrightest;
    y.as<int32_t>()[i] = labels.as<uint8_t>()[static_cast<size_t>(which[i])];
  }
  return {std::move(x), std::move(y)};
}

Digits load_digits(const std::filesystem::path& path) {
  const auto file = read_npz(path);
  for (const char* name : {"images", "labels"})
    if (!file.contains(name) || file.at(name).dtype != Dtype::U8)
      fail<FormatError>("[train] '{}' has no u8 tensor '{}'; use the digits.npz that ships with Luminal",
                        path.string(), name);
  const TensorData &images = file.at("images"), &labels = file.at("labels");
  if (images.dims.size() != 3 || images.dims[1] != kSide || images.dims[2] != kSide ||
      labels.dims.size() != 1 || labels.dims[0] != images.dims[0] || labels.dims[0] < kTestDigitEvery)
    fail<FormatError>("[train] '{}': images [{}] and labels [{}] do not fit; give [N, 8, 8] and [N]",
                      path.string(), fmt::join(images.dims, ", "), fmt::join(labels.dims, ", "));
  std::vector<int64_t> train, test;
  for (int64_t i = 0; i < labels.dims[0]; ++i)
    (i % kTestDigitEvery == kTestDigitEvery - 1 ? test : train).push_back(i);
  Digits digits{rows_of(images, labels, train), rows_of(images, labels, test)};
  training::check_targets(digits.train[1].as<int32_t>(), kClasses);
  training::check_targets(digits.test[1].as<int32_t>(), kClasses);
  return digits;
}

using Perceptron = nn::Sequential<nn::Linear, nn::ReLU, nn::Linear>;

double share_right(const std::vector<int64_t>& guesses, std::span<const int32_t> labels) {
  int64_t right = 0;
  for (size_t i = 0; i < guesses.size(); ++i) right += guesses[i] == labels[i] ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(guesses.size());
}

/// Two graphs with the same weights: one trains, one tests.
class DigitRun {
 public:
  DigitRun(const TrainDigitsOptions& options, const Digits& digits)
      : options_(options),
        digits_(digits),
        source_(digits.train),
        loader_(source_, {.batch = options.batch, .seed = options.seed}),
        steps_(options.epochs * loader_.batches_per_epoch()),
        cx_(new_graph(options)) {
    const Perceptron model(nn::Linear(cx_, kSide * kSide, options.hidden), nn::ReLU(),
                           nn::Linear(cx_, options.hidden, kClasses));
    model_.emplace(model);
    images_ = cx_.named_tensor("images", {"batch", kSide * kSide});
    labels_ = cx_.named_tensor("labels", {"batch"}, Dtype::I32);
    const GraphTensor loss = training::cross_entropy(model.forward(images_), labels_);
    const training::CosineSchedule schedule{.start = options.learning_rate, .steps = steps_};
    trainer_.emplace(cx_, model, loss,
                     training::use<training::Adam>({.learning_rate = options.learning_rate}),
                     training::Trainer::Options{.schedule = schedule});
  }

  LoopResult train(Console& console) {
    RunCheckpoints checkpoints(options_, "digits", source_.size());
    const int64_t done = checkpoints.start(*trainer_, console);
    RunLog log(options_, done);
    const auto learn = [&](const std::vector<TensorData>& batch) {
      images_.set(batch[0]);
      labels_.set(batch[1]);
      return trainer_->step();
    };
    const auto seen = [&](int64_t step) {
      if (log.wanted() && step % loader_.batches_per_epoch() == 0)
        log.write({{"step", step}, {"test_accuracy", test_accuracy()}});
    };
    const LoopResult learnt = run_loop(
        {.loader = loader_, .done = done, .steps = steps_, .learn = learn, .seen = seen, .unit = "digits"},
        options_, log, checkpoints, console);
    log.finish();
    return learnt;
  }

  [[nodiscard]] double test_accuracy() const {
    Graph cx;
    cx.set_device(cx_.device());
    const Perceptron model(nn::Linear(cx, kSide * kSide, options_.hidden), nn::ReLU(),
                           nn::Linear(cx, options_.hidden, kClasses));
    nn::load_state_dict(model, weights());
    GraphTensor images = cx.tensor({digits_.test[0].dims[0], kSide * kSide}).set(digits_.test[0]);
    const GraphTensor guesses = model.forward(images).argmax(1).retrieve();
    cx.execute();
    return share_right(guesses.data<int64_t>(), digits_.test[1].as<int32_t>());
  }
  [[nodiscard]] std::map<std::string, TensorData> weights() const { return nn::state_dict(*model_); }
  [[nodiscard]] std::string device() const { return cx_.device(); }

 private:
  const TrainDigitsOptions& options_;
  const Digits& digits_;
  data::TensorSource source_;
  data::Loader loader_;
  int64_t steps_;
  Graph cx_;
  std::optional<Perceptron> model_;
  GraphTensor images_, labels_;
  std::optional<training::Trainer> trainer_;
};

}  // namespace

int train_digits(const TrainDigitsOptions& options, Console& console) {
  check_run(options);
  if (options.hidden < 1) fail("[train] --hidden is {}; give 1 or more", options.hidden);
  const InterruptGuard guard;
  const Digits digits = load_digits(options.data);
  DigitRun run(options, digits);
  console.out << fmt::format("training on {} digits, testing on {}, device {}\n", digits.train[1].dims[0],
                             digits.test[1].dims[0], run.device());
  const LoopResult learnt = run.train(console);
  if (!finish_loop(
          learnt, options, [&] { save_weights(run.weights(), options.weights, "digits_mlp"); }, "digits",
          console))
    return interrupted_code();
  const double accuracy = run.test_accuracy();
  console.out << fmt::format("test accuracy {:.1f} %, weights saved to {}\n", 100 * accuracy,
                             options.weights.string());
  write_result(options, run.device(),
               {{"test_accuracy", accuracy}, {"train_loss", learnt.loss}, {"epochs", options.epochs}});
  return kDone;
}

}  // namespace luminal::cli
