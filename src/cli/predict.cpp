#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/fail.h"
#include "cli/command.h"
#include "cli/data_folder.h"
#include "luminal/data.h"
#include "luminal/models/mnist_cnn.h"
#include "luminal/safetensors.h"

namespace luminal::cli {
namespace {

struct PredictOptions {
  std::filesystem::path weights = "build/mnist.safetensors", data;
  int64_t index = 0;
  std::string device;
  bool json = false;
};

std::map<std::string, TensorData> read_weights(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  std::map<std::string, TensorData> weights;
  for (const std::string& name : file.names()) weights.emplace(name, file.read(name));
  return weights;
}

/// Probability of each class.
std::vector<double> classify(const PredictOptions& options, std::span<const uint8_t> pixels) {
  Graph cx;
  if (!options.device.empty()) cx.set_device(options.device);
  const models::MnistCnn model(cx);
  nn::load_state_dict(model, read_weights(options.weights));
  std::vector<float> image;
  for (const uint8_t pixel : pixels) image.push_back(static_cast<float>(pixel) / 255);
  GraphTensor input = cx.tensor({1, 1, models::MnistCnn::kSide, models::MnistCnn::kSide}).set(image);
  const GraphTensor probabilities = model.forward(input).softmax(1).retrieve();
  cx.execute();
  return probabilities.data<double>();
}

/// Two rows of pixels a line, for letters are twice as high as wide; five shades.
std::string picture(std::span<const uint8_t> pixels, int64_t height, int64_t width) {
  constexpr std::array<std::string_view, 5> kShades{" ", "░", "▒", "▓", "█"};
  std::string text;
  for (int64_t y = 0; y + 1 < height; y += 2) {
    std::string line;
    for (int64_t x = 0; x < width; ++x) {
      const auto at = [&](int64_t row) { return int{pixels[static_cast<size_t>(row * width + x)]}; };
      const auto shade =
          static_cast<size_t>((at(y) + at(y + 1)) * static_cast<int>(kShades.size() - 1) / 510.0 + 0.5);
      line += kShades[shade];
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

int predict(const PredictOptions& options, Console& console) {
  const data::ImageSet digits = data::load_mnist(options.data, data::Split::Test);
  if (options.index < 0 || options.index >= digits.size())
    fail("[predict] no test digit {}; choose one from 0 to {}", options.index, digits.size() - 1);
  const auto pixels = digits.image(options.index);
  const std::vector<double> probabilities = classify(options, pixels);
  const auto best = std::ranges::max_element(probabilities) - probabilities.begin();
  const int label = digits.labels[static_cast<size_t>(options.index)];
  if (options.json) {
    console.out << nlohmann::ordered_json{{"index", options.index},
                                          {"label", label},
                                          {"prediction", best},
                                          {"probabilities", probabilities}}
                       .dump(2)
                << '\n';
    return kDone;
  }
  console.out << picture(pixels, digits.height, digits.width) << '\n';
  constexpr int kBarWidth = 40;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    std::string bar;
    for (int k = 0; k < static_cast<int>(probabilities[i] * kBarWidth + 0.5); ++k) bar += "█";
    console.out << fmt::format("{}  {:5.1f} %  {}\n", i, 100 * probabilities[i], bar);
  }
  console.out << fmt::format("\nThis is a {} ({:.1f} % sure); the label says {}.\n", best,
                             100 * probabilities[static_cast<size_t>(best)], label);
  return kDone;
}

}  // namespace

extern const Command kPredict{
    "predict", "Show a digit and what the trained network predicts", [](CLI::App& app) -> Action {
      auto options = std::make_shared<PredictOptions>();
      app.add_option("--weights", options->weights, "Weights that 'luminal train mnist' saved")
          ->capture_default_str();
      app.add_option("--index", options->index, "Which of the test digits")->capture_default_str();
      app.add_option("--data", options->data, "Folder with the digits in MNIST's files");
      app.add_option("--device", options->device, "Where to run (see 'luminal env')");
      app.add_flag("--json", options->json, "Print JSON");
      return [options](Console& console) {
        if (options->data.empty()) options->data = shipped("mnist10k");
        return predict(*options, console);
      };
    }};

}  // namespace luminal::cli
