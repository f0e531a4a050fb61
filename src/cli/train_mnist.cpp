#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/fail.h"
#include "cli/interrupt.h"
#include "cli/train_runs.h"
#include "luminal/autograd.h"
#include "luminal/data.h"
#include "luminal/models/mnist_cnn.h"
#include "luminal/progress.h"
#include "luminal/training.h"

namespace luminal::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// One graph that holds forward, backward and update: each run is a step.
class Trainer {
 public:
  Trainer(const TrainMnistOptions& options, int64_t total_steps)
      : cx_(seeded(options)), model_(cx_), schedule_{.start = options.learning_rate, .steps = total_steps} {
    images_ = cx_.named_tensor("images", {"batch", 1, models::MnistCnn::kSide, models::MnistCnn::kSide});
    labels_ = cx_.named_tensor("labels", {"batch"}, Dtype::I32);
    loss_ = training::cross_entropy(model_.forward(images_), labels_);
    const std::vector<GraphTensor> weights = nn::params(model_);
    const auto gradients = cx_.compile(Autograd(weights, loss_), loss_, weights);
    adam_.emplace(cx_, weights, gradients, training::Adam::Options{.learning_rate = options.learning_rate});
    loss_.retrieve();
  }

  double step(const data::Batch& batch) {
    images_.set_dyn(batch.images, {batch.size, 1, models::MnistCnn::kSide, models::MnistCnn::kSide});
    labels_.set_dyn(batch.labels, {batch.size});
    adam_->set_learning_rate(schedule_(steps_++));
    cx_.execute();
    return loss_.data<double>()[0];
  }

  [[nodiscard]] std::map<std::string, TensorData> weights() const { return nn::state_dict(model_); }
  [[nodiscard]] std::string device() const { return cx_.device(); }
  [[nodiscard]] int64_t steps() const { return steps_; }

 private:
  static Graph seeded(const TrainMnistOptions& options) {
    Graph cx;
    cx.set_seed(options.seed);
    if (!options.device.empty()) cx.set_device(options.device);
    return cx;
  }

  Graph cx_;
  models::MnistCnn model_;
  training::CosineSchedule schedule_;
  GraphTensor images_, labels_, loss_;
  std::optional<training::Adam> adam_;
  int64_t steps_ = 0;
};

/// Share of the set that the weights classify rightly.
double accuracy(const std::map<std::string, TensorData>& weights, const data::ImageSet& set,
                const std::string& device) {
  constexpr int64_t kBatch = 100;
  Graph cx;
  cx.set_device(device);
  const models::MnistCnn model(cx);
  nn::load_state_dict(model, weights);
  GraphTensor images =
      cx.named_tensor("images", {"batch", 1, models::MnistCnn::kSide, models::MnistCnn::kSide});
  GraphTensor guesses = model.forward(images).argmax(1).retrieve();
  const data::BatchLoader loader(set, {.batch = kBatch, .shuffle = false});
  auto batches = loader.epoch(0);
  int64_t right = 0;
  while (const data::Batch* batch = batches.next()) {
    images.set_dyn(batch->images, {batch->size, 1, models::MnistCnn::kSide, models::MnistCnn::kSide});
    cx.execute();
    const std::vector<int64_t> found = guesses.data<int64_t>();
    for (size_t i = 0; i < found.size(); ++i) right += found[i] == batch->labels[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(set.size());
}

}  // namespace

int train_mnist(const TrainMnistOptions& options, Console& console) {
  check_run(options);
  if (options.limit < 0) fail("[train] --limit {} is negative; 0 means all digits", options.limit);
  const InterruptGuard guard;
  RunLog log(options);
  const data::ImageSet digits = data::load_mnist(options.data, data::Split::Train).first(options.limit);
  const data::ImageSet test = data::load_mnist(options.data, data::Split::Test);
  const data::BatchLoader loader(digits, {.batch = options.batch, .seed = options.seed});
  Trainer trainer(options, options.epochs * loader.batches_per_epoch());
  console.out << fmt::format("training on {} digits, testing on {}, device {}\n", digits.size(), test.size(),
                             trainer.device());

  const auto begin = Clock::now();
  int64_t images_seen = 0;
  double loss = 0;
  for (int64_t epoch = 0; epoch < options.epochs && !interrupted(); ++epoch) {
    data::ProgressBar bar(fmt::format("epoch {}/{}", epoch + 1, options.epochs), digits.size(),
                          {.out = &console.err});
    auto batches = loader.epoch(epoch);
    while (const data::Batch* batch = batches.next()) {
      if (interrupted()) break;
      loss = trainer.step(*batch);
      images_seen += batch->size;
      bar.advance(batch->size, loss);
      log.write({{"step", trainer.steps()}, {"train_loss", loss}});
    }
    bar.finish();
    loss = bar.mean_loss();
  }
  const double train_s = seconds_since(begin);
  const auto weights = trainer.weights();
  save_weights(weights, options.weights, "mnist_cnn");
  log.finish();
  if (interrupted()) {
    console.out << fmt::format("stopped after {} images; weights so far saved to {}\n", images_seen,
                               options.weights.string());
    return kInterrupted;
  }
  const double test_accuracy = accuracy(weights, test, trainer.device());
  console.out << fmt::format("test accuracy {:.1f} %, weights saved to {}\n", 100 * test_accuracy,
                             options.weights.string());
  write_result(options, trainer.device(),
               {{"test_accuracy", test_accuracy},
                {"train_loss", loss},
                {"train_s", train_s},
                {"images_per_s", static_cast<double>(images_seen) / train_s},
                {"images", digits.size()},
                {"epochs", options.epochs}});
  return kDone;
}

}  // namespace luminal::cli
