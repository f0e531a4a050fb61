#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "luminal/nn/module.h"

/// Activations as modules: PyTorch's names and defaults; the math is in GraphTensor.
namespace luminal::nn {

/// A module without weights or options that applies one function of GraphTensor.
template <GraphTensor (GraphTensor::*Function)(Where) const>
struct Activation {
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return (x.*Function)(where);
  }
  void serialize(Serializer&) const {}
};
using ReLU = Activation<&GraphTensor::relu>;
using Sigmoid = Activation<&GraphTensor::sigmoid>;
using Tanh = Activation<&GraphTensor::tanh>;
using SiLU = Activation<&GraphTensor::silu>;
using Hardswish = Activation<&GraphTensor::hard_swish>;
using Mish = Activation<&GraphTensor::mish>;

struct GELU {
  std::string approximate = "none";  ///< or "tanh"
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.gelu(approximate, where);
  }
  void serialize(Serializer&) const {}
};

struct LeakyReLU {
  double negative_slope = 0.01;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.leaky_relu(negative_slope, where);
  }
  void serialize(Serializer&) const {}
};

struct ELU {
  double alpha = 1;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.elu(alpha, where);
  }
  void serialize(Serializer&) const {}
};

struct Softplus {
  double beta = 1, threshold = 20;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.softplus(beta, threshold, where);
  }
  void serialize(Serializer&) const {}
};

struct Softmax {
  int dim = -1;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.softmax(dim, where);
  }
  void serialize(Serializer&) const {}
};

struct LogSoftmax {
  int dim = -1;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.log_softmax(dim, where);
  }
  void serialize(Serializer&) const {}
};

struct GLU {
  int dim = -1;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.glu(dim, where);
  }
  void serialize(Serializer&) const {}
};

/// x above 0, weight * x elsewhere.  Shapes: weight [channels] (axis 1 of x), or [1] for all.
struct PReLU {
  GraphTensor weight;
  explicit PReLU(GraphSite cx, int64_t channels = 1, double initial = 0.25, Dtype dtype = Dtype::F32);
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.prelu(Operand(weight, where));
  }
  void serialize(Serializer& s) const { s.tensor("weight", weight); }
};

/// All axes from `first` to `last` as one: [N, C, H, W] -> [N, C*H*W].
struct Flatten {
  int first = 1, last = -1;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.flatten(first, last, where);
  }
  void serialize(Serializer&) const {}
};

/// While training, zeroes each element with probability p and scales the others by 1 / (1 - p); nothing
/// otherwise. The mask comes from the counter-based generator, another one at each run of the graph, and is
/// drawn again for the backward pass: nothing is stored.  Errors: Error if p is not in [0, 1].
struct Dropout {
  double p;
  Mode mode;
  explicit Dropout(double probability = 0.5);
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return mode.training() ? x.dropout(p, where) : x;
  }
  void serialize(Serializer& s) const { s.mode(mode); }
};

}  // namespace luminal::nn
