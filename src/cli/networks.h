#pragma once
#include <vector>

#include "luminal/graph.h"

/// Networks of real size as workloads (examples.h): what people search. Their weights are drawn when a run
/// first needs them, and never for a compile.
///
/// Each builds a graph with its results retrieved and returns the inputs that data are given for. From `sizes`
/// it takes those that are numbers in its graph, such as the batch; the others stay for named dims.
namespace luminal::cli {

using Inputs = std::vector<GraphTensor>;

// Training steps: forward, backward and the optimizer's update.
Inputs build_mnist_step(Graph& cx, DimMap& sizes);
Inputs build_gpt_step(Graph& cx, DimMap& sizes);
Inputs build_resnet50_step(Graph& cx, DimMap& sizes);
Inputs build_lstm_step(Graph& cx, DimMap& sizes);
Inputs build_mlp_step(Graph& cx, DimMap& sizes);
Inputs build_mobilenet_step(Graph& cx, DimMap& sizes);

/// Forward and backward of attention over long sequences.
Inputs build_attention_step(Graph& cx, DimMap& sizes);

// Inference.
Inputs build_resnet50(Graph& cx, DimMap& sizes);
Inputs build_mobilenet(Graph& cx, DimMap& sizes);
Inputs build_unet(Graph& cx, DimMap& sizes);
Inputs build_vit(Graph& cx, DimMap& sizes);
/// Layers of BERT over 128 tokens.
Inputs build_encoder(Graph& cx, DimMap& sizes);
/// A layer of experts, of which each token takes two.
Inputs build_experts(Graph& cx, DimMap& sizes);
/// One token behind "past" others, which a cache holds.
Inputs build_llama_decode(Graph& cx, DimMap& sizes);
/// A prompt of 512 tokens into an empty cache; the logits of the last.
Inputs build_llama_prompt(Graph& cx, DimMap& sizes);

}  // namespace luminal::cli
