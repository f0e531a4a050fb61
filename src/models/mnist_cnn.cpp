#include "luminal/models/mnist_cnn.h"

namespace luminal::models {
namespace {

constexpr int64_t kFirst = 16, kSecond = 32, kHidden = 128;
constexpr int64_t kPooledSide = MnistCnn::kSide / 4;  // two pools by two
const nn::Conv2d::Options kSameSize{.padding = {1, 1}};

}  // namespace

// Braces: the layers draw their initial weights in this order, from first to last.
MnistCnn::MnistCnn(nn::GraphSite cx)
    : layers{nn::Conv2d(cx, 1, kFirst, {3, 3}, kSameSize),
             nn::ReLU(),
             nn::MaxPool2d(2),
             nn::Conv2d(cx, kFirst, kSecond, {3, 3}, kSameSize),
             nn::ReLU(),
             nn::MaxPool2d(2),
             nn::Flatten(),
             nn::Linear(cx, kSecond * kPooledSide * kPooledSide, kHidden),
             nn::ReLU(),
             nn::Linear(cx, kHidden, kClasses)} {}

}  // namespace luminal::models
