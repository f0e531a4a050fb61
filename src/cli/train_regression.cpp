#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "cli/interrupt.h"
#include "cli/train_loop.h"
#include "cli/train_runs.h"
#include "luminal/csv.h"
#include "luminal/loader.h"
#include "luminal/nn.h"
#include "luminal/training.h"

namespace luminal::cli {
namespace {

/// Columns brought to mean 0 and deviation 1 by the training rows, so that test rows stay unseen.
struct Table {
  std::vector<std::string> features;
  std::string target;
  std::vector<TensorData> train, test;  ///< f32 [rows, features], [rows, 1]
  double mean = 0, deviation = 1;       ///< of the target
};

struct Scale {
  double mean = 0, deviation = 1;
};

Scale scale_of(const TensorData& data, size_t column, std::span<const int64_t> rows) {
  const auto width = static_cast<size_t>(data.dims[1]);
  double sum = 0, squares = 0;
  for (const int64_t row : rows) sum += data.as<double>()[static_cast<size_t>(row) * width + column];
  const double mean = sum / static_cast<double>(rows.size());
  for (const int64_t row : rows) {
    const double off = data.as<double>()[static_cast<size_t>(row) * width + column] - mean;
    squares += off * off;
  }
  const double deviation = std::sqrt(squares / static_cast<double>(rows.size()));
  return {mean, deviation > 0 ? deviation : 1};  // a constant column says nothing, and stays 0
}

TensorData scaled(const TensorData& data, std::span<const Scale> scales, std::span<const int64_t> rows) {
  const auto width = static_cast<size_t>(data.dims[1]);
  TensorData result(Dtype::F32, {static_cast<int64_t>(rows.size()), data.dims[1]});
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t k = 0; k < width; ++k)
      result.as<float>()[i * width + k] =
          static_cast<float>((data.as<double>()[static_cast<size_t>(rows[i]) * width + k] - scales[k].mean) /
                             scales[k].deviation);
  return result;
}

void check_finite(const std::filesystem::path& path, const TensorData& numbers,
                  const std::vector<std::string>& columns) {
  const auto values = numbers.as<double>();
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail<FormatError>(
          "[train] '{}', row {} of the data, column '{}': {} is not a finite number; fix it or remove the "
          "row",
          path.string(), i / columns.size() + 1, columns[i % columns.size()], values[i]);
}

Table load_table(const TrainRegressionOptions& options) {
  const CsvTable csv = read_csv(options.data);
  Table table;
  table.target = options.target.empty() ? csv.columns().back() : csv.columns()[csv.column(options.target)];
  for (const std::string& name : csv.columns())
    if (name != table.target) table.features.push_back(name);
  if (table.features.empty())
    fail<FormatError>("[train] '{}' has only one column; give a table with at least two",
                      options.data.string());
  const TensorData x = csv.numbers(table.features, Dtype::F64), y = csv.numbers({table.target}, Dtype::F64);
  check_finite(options.data, x, table.features);
  check_finite(options.data, y, {table.target});
  const auto order = data::permutation(csv.rows(), options.seed, 0);
  const auto test_count = static_cast<size_t>(options.test_share * static_cast<double>(csv.rows()));
  if (test_count < 2 || order.size() < test_count + 2)
    fail<FormatError>("[train] '{}' has {} rows, too few to train and test; give more", options.data.string(),
                      csv.rows());
  const auto test = std::span(order).first(test_count), train = std::span(order).subspan(test_count);
  std::vector<Scale> scales;
  for (size_t k = 0; k < table.features.size(); ++k) scales.push_back(scale_of(x, k, train));
  const std::vector<Scale> target_scale{scale_of(y, 0, train)};
  table.train = {scaled(x, scales, train), scaled(y, target_scale, train)};
  table.test = {scaled(x, scales, test), scaled(y, target_scale, test)};
  table.mean = target_scale[0].mean, table.deviation = target_scale[0].deviation;
  return table;
}

nn::SequentialOf<std::vector<nn::AnyModule>> make_model(Graph& cx, int64_t features, int64_t hidden) {
  std::vector<nn::AnyModule> layers;
  if (hidden > 0) {
    layers.emplace_back(nn::Linear(cx, features, hidden));
    layers.emplace_back(nn::ReLU());
  }
  layers.emplace_back(nn::Linear(cx, hidden > 0 ? hidden : features, 1));
  return nn::SequentialOf(layers);
}

struct Score {
  double rmse = 0;  ///< in the target's own unit
  double r2 = 0;    ///< share of the variance that is told
};

Score score_of(const std::vector<float>& told, std::span<const float> real, double deviation) {
  double mean = 0, errors = 0, spread = 0;
  for (const float value : real) mean += value / static_cast<double>(real.size());
  for (size_t i = 0; i < real.size(); ++i) {
    errors += std::pow(static_cast<double>(told[i]) - real[i], 2);
    spread += std::pow(real[i] - mean, 2);
  }
  return {deviation * std::sqrt(errors / static_cast<double>(real.size())),
          spread > 0 ? 1 - errors / spread : 0};
}

}  // namespace

int train_regression(const TrainRegressionOptions& options, Console& console) {
  check_run(options);
  if (options.hidden < 0) fail("[train] --hidden {} is negative; 0 means a linear model", options.hidden);
  if (!(options.test_share > 0 && options.test_share < 1))
    fail("[train] --test-share is {}; give a number between 0 and 1", options.test_share);
  const InterruptGuard guard;
  const Table table = load_table(options);
  Graph cx = new_graph(options);
  const auto features = static_cast<int64_t>(table.features.size());
  const auto model = make_model(cx, features, options.hidden);
  GraphTensor x = cx.named_tensor("x", {"batch", features}), y = cx.named_tensor("y", {"batch", 1});
  const GraphTensor told = model.forward(x).retrieve();
  const GraphTensor loss = training::mse(told, y);
  const data::TensorSource source(table.train);
  const data::Loader loader(source, {.batch = options.batch, .seed = options.seed});
  const int64_t steps = options.epochs * loader.batches_per_epoch();
  const training::CosineSchedule schedule{.start = options.learning_rate, .steps = steps};
  training::Trainer trainer(cx, model, loss,
                            training::use<training::AdamW>({.learning_rate = options.learning_rate,
                                                            .weight_decay = options.weight_decay}),
                            {.schedule = schedule});
  console.out << fmt::format("'{}' from {} columns, training on {} rows, testing on {}, device {}\n",
                             table.target, features, source.size(), table.test[0].dims[0], cx.device());
  RunCheckpoints checkpoints(options, "regression", source.size());
  const int64_t done = checkpoints.start(trainer, console);
  RunLog log(options, done);
  const auto learn = [&](const std::vector<TensorData>& batch) {
    x.set(batch[0]);
    y.set(batch[1]);
    return trainer.step();
  };
  const LoopResult learnt = run_loop({.loader = loader,
                                      .done = done,
                                      .steps = steps,
                                      .learn = learn,
                                      .unit = "rows",
                                      .bar_each_pass = false},
                                     options, log, checkpoints, console);
  log.finish();
  if (!finish_loop(
          learnt, options, [&] { save_weights(nn::state_dict(model), options.weights, "regression"); },
          "rows", console))
    return interrupted_code();
  const auto weights = nn::state_dict(model);
  // A graph of its own for the test: the one above also updates the weights.
  Graph test;
  test.set_device(cx.device());
  const auto tested = make_model(test, features, options.hidden);
  nn::load_state_dict(tested, weights);
  GraphTensor unseen = test.tensor({table.test[0].dims[0], features}).set(table.test[0]);
  const GraphTensor answer = tested.forward(unseen).retrieve();
  test.execute();
  const Score score = score_of(answer.data<float>(), table.test[1].as<float>(), table.deviation);
  console.out << fmt::format("test RMSE {:.4g}, R2 {:.3f}, weights saved to {}\n", score.rmse, score.r2,
                             options.weights.string());
  write_result(options, cx.device(),
               {{"test_rmse", score.rmse},
                {"test_r2", score.r2},
                {"train_loss", learnt.loss},
                {"target", table.target},
                {"epochs", options.epochs}});
  return kDone;
}

}  // namespace luminal::cli
