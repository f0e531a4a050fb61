#include <fmt/format.h>

#include "luminal/models/gpt.h"
#include "luminal/models/llama.h"
#include "luminal/models/lstm.h"
#include "luminal/models/mobilenet.h"
#include "luminal/models/resnet.h"
#include "luminal/models/unet.h"
#include "luminal/models/vit.h"
#include "validate/cases/module_row.h"

// Whole models, small: the same weights under the names of the published ones, forward and backward.
namespace luminal::validate {
namespace {

/// Only the batch may be a named dim.
InputSpec images(std::vector<int64_t> dims) { return {.dims = std::move(dims), .fixed = {1, 2, 3}}; }

void add_convolutional_models(Suite& suite) {
  for (const bool bottleneck : {false, true})
    add_row(
        suite, "ResNet",
        fmt::format("networks.ResNet([1, 2, 1, 1], {}, 5, 3, 4)", bottleneck ? "True" : "False"),
        images({3, 3, 36, 40}),
        [bottleneck](Graph& cx, Dtype d) {
          return models::ResNet(
              cx, {.blocks = {1, 2, 1, 1}, .bottleneck = bottleneck, .classes = 5, .width = 4, .dtype = d});
        },
        true);
  add_row(
      suite, "MobileNetV3",
      "networks.MobileNetV3([(3, 4, 4, 0, False, 1), (5, 12, 4, 8, True, 1), (3, 8, 6, 0, True, 2)], 6, 5, "
      "3, 4)",
      std::vector<InputSpec>{images({3, 3, 36, 40})},
      [](Graph& cx, Dtype d) {
        return models::MobileNetV3(
            cx, {.stages = {{3, 4, 4, false, false, 1}, {5, 12, 4, true, true, 1}, {3, 8, 6, false, true, 2}},
                 .last = 6,
                 .classes = 5,
                 .stem = 4,
                 .dropout = 0,
                 .dtype = d});
      },
      // In training the gradients of biases in front of a convolution and a norm are 0, and what rounding left.
      [](const models::MobileNetV3& m, const Tensors& in) {
        nn::eval(m);
        return Tensors{m.forward(in[0])};
      },
      "m.eval()(x)");
  add_row(
      suite, "UNet", "networks.UNet(3, 2, 4)", images({2, 3, 36, 66}),
      [](Graph& cx, Dtype d) { return models::UNet(cx, {.width = 4, .dtype = d}); }, true);
  suite.modules.back().ulps = 1024;  // eighteen batch norms, some of few pixels, amplify what rounding left
}

void add_transformers_of_images(Suite& suite) {
  add_row(suite, "Vit", "networks.Vit(12, 4, 3, 5, 2, 2, 8, 12)", images({2, 3, 12, 12}),
          [](Graph& cx, Dtype d) {
            return models::Vit(cx, {.image = 12,
                                    .patch = 4,
                                    .classes = 5,
                                    .layers = 2,
                                    .heads = 2,
                                    .size = 8,
                                    .hidden = 12,
                                    .dtype = d});
          });
}

void add_text_models(Suite& suite) {
  const auto tokens = [](int64_t rows, int64_t columns, int bounded) {
    return InputSpec{.dims = {rows, columns},
                     .low = 0,
                     .high = 7,
                     .values = Values::Integers,
                     .dtype = Dtype::I64,
                     .bounded = bounded};
  };
  const auto gpt = [](Dtype d, bool bias, const char* approximate) {
    return models::Gpt::Options{.vocabulary = 7,
                                .context = 12,
                                .layers = 2,
                                .heads = 2,
                                .size = 8,
                                .bias = bias,
                                .approximate = approximate,
                                .dtype = d};
  };
  add_row(suite, "Gpt", "networks.Gpt(7, 12, 2, 2, 8)", tokens(2, 5, 1),
          [gpt](Graph& cx, Dtype d) { return models::Gpt(cx, gpt(d, true, "none")); });
  add_row(suite, "Gpt", "networks.Gpt(7, 12, 2, 2, 8, False, 'tanh')", tokens(2, 5, 1),
          [gpt](Graph& cx, Dtype d) { return models::Gpt(cx, gpt(d, false, "tanh")); });
  for (const bool tied : {true, false})
    add_row(suite, "Llama",
            fmt::format("networks.Llama(7, 2, 16, 4, 2, 24, 500.0, {})", tied ? "True" : "False"),
            tokens(2, 5, -1), [tied](Graph& cx, Dtype d) {
              return models::Llama(cx, {.vocabulary = 7,
                                        .layers = 2,
                                        .size = 16,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .hidden = 24,
                                        .rope_base = 500,
                                        .tied = tied,
                                        .dtype = d});
            });
  for (const bool tied : {true, false})
    add_row(suite, "LstmText",
            fmt::format("networks.LstmText(7, 4, {}, 2{})", tied ? 4 : 3, tied ? ", True" : ""),
            tokens(5, 2, 0), [tied](Graph& cx, Dtype d) {
              return models::LstmText(cx, {.vocabulary = 7,
                                           .embedding = 4,
                                           .hidden = tied ? 4 : 3,
                                           .layers = 2,
                                           .tied = tied,
                                           .dtype = d});
            });
}

}  // namespace

void add_models(Suite& suite) {
  const size_t first = suite.modules.size();
  add_convolutional_models(suite);
  // Where a half rounds to the other side of a ReLU, a gradient appears or is gone.
  for (size_t i = first; i < suite.modules.size(); ++i) suite.modules[i].dtypes = {Dtype::F32, Dtype::F64};
  add_transformers_of_images(suite);
  add_text_models(suite);
  for (size_t i = first; i < suite.modules.size(); ++i) {
    std::string& group = suite.modules[i].group;
    group.replace(0, group.find(' '), "model");
    suite.modules[i].half_ulps = 8;  // layers read what others have rounded
    suite.modules[i].searched = true;
  }
}

}  // namespace luminal::validate
