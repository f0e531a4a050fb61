#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "cli/command.h"

namespace luminal::cli {

struct TrainMnistOptions {
  int64_t epochs = 2;
  int64_t limit = 2000;  ///< digits to train on; 0 for all
  int64_t batch = 20;
  double learning_rate = 2e-3;
  uint64_t seed = 1;
  std::string device;                                         ///< "" for the best there is
  std::filesystem::path data;                                 ///< folder of the digits
  std::filesystem::path weights = "build/mnist.safetensors";  ///< where they are saved
  std::filesystem::path json;                                 ///< results for programs; "" for none
};

/// Trains models::MnistCnn and tests it. Returns the exit code; after Ctrl-C what was learnt so far is saved.
/// Errors: those of the options, the data, the device and the files.
int train_mnist(const TrainMnistOptions& options, Console& console);

}  // namespace luminal::cli
