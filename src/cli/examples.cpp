#include "cli/examples.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/fail.h"
#include "base/suggest.h"
#include "cli/networks.h"

namespace luminal::cli {
namespace {

constexpr std::array kExamples{
    Example{"attention", "softmax(q k^T) v over 8 heads",
            "attention(q:f32[8,256,64], k:f32[8,256,64], v:f32[8,256,64])"},
    Example{"attention-step", "attention over 2048 tokens, 8 heads of 64, forward and backward", "",
            build_attention_step, true},
    Example{"conv", "a convolution with bias and relu",
            "(conv2d(x:f32[64,16,14,14], w:f32[32,16,3,3], padding=1) + b:f32[32,1,1]).relu()"},
    Example{"encoder", "6 layers of BERT, 384 wide, over 128 tokens (--dim batch=1 layers=6)", "",
            build_encoder, true},
    Example{"experts", "a layer of experts, of which each token takes two (--dim tokens=128 experts=8)", "",
            build_experts, true},
    Example{"gpt-step", "a training step of a GPT, 6 layers of 384, 256 tokens (--dim batch=4 layers=6)", "",
            build_gpt_step, true},
    Example{"layer-norm", "rows normalised to mean 0 and deviation 1", "layer_norm(x:f32[512,1024])"},
    Example{"llama-8b-decode", "a token of Llama 3 8B behind 511 others (--dim past=511 layers=32)", "",
            build_llama_decode, true},
    Example{"llama-8b-prompt", "a prompt of 512 tokens for Llama 3 8B (--dim length=512 layers=32)", "",
            build_llama_prompt, true},
    Example{"lstm-step", "a training step of 2 LSTM layers of 512 over 128 steps (--dim batch=16 steps=128)",
            "", build_lstm_step, true},
    Example{"matmul", "a matrix product", "a:f32[512,512] @ b:f32[512,512]"},
    Example{"mlp-step", "a training step of layers of 512, 512 and 10 on 784 inputs (--dim batch=128)", "",
            build_mlp_step, true},
    Example{"mnist-step", "a training step of the digit network (--dim batch=64): forward, backward, Adam",
            "", build_mnist_step, true},
    Example{"mobilenet", "MobileNetV3-Large on an image of 224 x 224 (--dim batch=1)", "", build_mobilenet,
            true},
    Example{"mobilenet-step", "a training step of MobileNetV3-Large (--dim batch=8)", "",
            build_mobilenet_step, true},
    Example{"resnet50", "ResNet-50 on an image of 224 x 224 (--dim batch=1)", "", build_resnet50, true},
    Example{"resnet50-step", "a training step of ResNet-50 (--dim batch=8)", "", build_resnet50_step, true},
    Example{"softmax", "a softmax over rows", "x:f32[32,1000].softmax(-1)"},
    Example{"unet", "U-Net with bilinear upsampling (--dim batch=1 side=256)", "", build_unet, true},
    Example{"vit-b16", "the vision transformer ViT-B/16 (--dim batch=1)", "", build_vit, true},
};
static_assert(std::ranges::is_sorted(kExamples, {}, &Example::name));

}  // namespace

std::span<const Example> examples() { return kExamples; }

const Example& find_example(std::string_view name) {
  const auto found = std::ranges::find(kExamples, name, &Example::name);
  if (found != kExamples.end()) return *found;
  std::vector<std::string> names;
  for (const Example& each : kExamples) names.emplace_back(each.name);
  fail("[formula] '{}' is neither an example ({}) nor a formula such as 'x:f32[32,1000].softmax(-1)'{}", name,
       fmt::join(names, ", "), did_you_mean(name, names));
}

}  // namespace luminal::cli
