#pragma once
#include "cli/train_run.h"

/// The ready-made runs of `luminal train`. Each returns the exit code; after Ctrl-C what was learnt so far is
/// saved (finish_loop). Errors: those of the options, the data, the device and the files.
namespace luminal::cli {

struct TrainMnistOptions : RunOptions {
  TrainMnistOptions() {
    epochs = 15, batch = 64, learning_rate = 2e-3, weights = "build/mnist.safetensors", device = "cpu";
  }
  int64_t limit = 0;             ///< digits to train on; 0 for all
  std::string mode = "optimal";  ///< how hard to look for kernels
};
int train_mnist(const TrainMnistOptions& options, Console& console);

struct TrainDigitsOptions : RunOptions {
  TrainDigitsOptions() {
    epochs = 30, batch = 32, learning_rate = 3e-3, weights = "build/digits.safetensors";
  }
  int64_t hidden = 128;
};
/// A perceptron of one hidden layer on scikit-learn's digits; every fifth digit is for testing.
int train_digits(const TrainDigitsOptions& options, Console& console);

struct TrainRegressionOptions : RunOptions {
  TrainRegressionOptions() {
    epochs = 100, batch = 32, learning_rate = 1e-2, weights = "build/regression.safetensors";
  }
  std::string target;       ///< the column to be told; "" for the last one
  int64_t hidden = 0;       ///< units of the hidden layer; 0 for a linear model
  double test_share = 0.2;  ///< of the rows, chosen by the seed
  double weight_decay = 0.1;
};
/// Tells one column of a table from the others.
int train_regression(const TrainRegressionOptions& options, Console& console);

struct TrainTextOptions : RunOptions {
  TrainTextOptions() { batch = 8, learning_rate = 3e-3, weights = "build/text.safetensors"; }
  int64_t steps = 2000;
  std::string mode = "fast";  ///< how hard to look for kernels
  int64_t length = 64;        ///< bytes in a window
  int64_t layers = 4, size = 64, heads = 4, kv_heads = 2;
  std::string prompt = "The ";
  int64_t sample = 200;  ///< bytes to write at the end
  double temperature = 0.8;
  bool chat = false;  ///< the text is lines "Q: " and "A: " in turn
};
/// A small Llama on the bytes of a text, which then writes some of its own.
int train_text(const TrainTextOptions& options, Console& console);

}  // namespace luminal::cli
