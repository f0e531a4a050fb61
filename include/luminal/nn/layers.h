#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "luminal/nn/module.h"

/// Layers with PyTorch's names, defaults and weight layouts.
namespace luminal::nn {

/// y = x W^T + b.  Shapes: x [..., in] -> [..., out]; weight [out, in] (or [in, out] if permuted), bias
/// [out]. Initial values: U(-1/sqrt(in), 1/sqrt(in)).
struct Linear {
  struct Options {
    bool bias = true;
    bool permuted = false;  ///< weight as [in, out]
    Dtype dtype = Dtype::F32;
  };
  GraphTensor weight;
  std::optional<GraphTensor> bias;
  bool permuted = false;

  Linear(Graph& cx, int64_t in, int64_t out, const Options& options);
  Linear(Graph& cx, int64_t in, int64_t out) : Linear(cx, in, out, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

/// Shapes: x [N, in, H, W] -> [N, out, OH, OW]; weight [out, in / groups, KH, KW], bias [out].
struct Conv2d {
  struct Options {
    std::array<int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1};
    int64_t groups = 1;
    bool bias = true;
    Dtype dtype = Dtype::F32;
  };
  GraphTensor weight;
  std::optional<GraphTensor> bias;
  Conv2dOptions geometry;

  Conv2d(Graph& cx, int64_t in, int64_t out, std::array<int64_t, 2> kernel, const Options& options);
  Conv2d(Graph& cx, int64_t in, int64_t out, std::array<int64_t, 2> kernel)
      : Conv2d(cx, in, out, kernel, Options()) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const;
  void serialize(Serializer& s) const;
};

/// Shapes: [N, C, H, W] -> [N, C, OH, OW]; the stride is the kernel's size unless given.
struct MaxPool2d {
  Pool2dOptions options;
  explicit MaxPool2d(int64_t kernel) : options{.kernel = {kernel, kernel}} {}
  explicit MaxPool2d(Pool2dOptions pool) : options(pool) {}
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return max_pool2d(x, options, where);
  }
  void serialize(Serializer&) const {}
};

struct ReLU {
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.relu(where);
  }
  void serialize(Serializer&) const {}
};

/// All axes from `first` on as one: [N, C, H, W] -> [N, C*H*W].
struct Flatten {
  int first = 1;
  [[nodiscard]] GraphTensor forward(const GraphTensor& x, Where where = Where::current()) const {
    return x.flatten(first, -1, where);
  }
  void serialize(Serializer&) const {}
};

}  // namespace luminal::nn
