#include <fmt/format.h>
#include <fmt/ranges.h>

#include "validate/cases/case.h"

// Products: matmul, einsum, convolutions, pools, resizing, attention.
namespace luminal::validate {
namespace {

using T = Tensors;
using Dims = std::vector<int64_t>;

void add(Suite& suite, const char* group, std::string torch, std::vector<InputSpec> inputs, Build build,
         std::string label = {}) {
  suite.specs.push_back({.group = group,
                         .torch = std::move(torch),
                         .inputs = std::move(inputs),
                         .build = std::move(build),
                         .ulps = 64,
                         .label = std::move(label)});
}

void add_matmul(Suite& suite) {
  for (const auto& [a, b] : {std::pair<Dims, Dims>{{3, 4}, {4, 5}},
                             {{4}, {4, 5}},
                             {{3, 4}, {4}},
                             {{4}, {4}},
                             {{2, 3, 4}, {4, 5}},
                             {{2, 1, 3, 4}, {6, 4, 5}},
                             {{17, 33}, {33, 9}}})
    add(
        suite, "matmul", "x @ y", {{a}, {b}}, [](Graph&, const T& in) { return T{in[0].matmul(in[1])}; },
        fmt::format("ranks {} {} of {}", a.size(), b.size(), b.back()));
  add(suite, "dot", "x.dot(y)", {{{7}}, {{7}}}, [](Graph&, const T& in) { return T{in[0].dot(in[1])}; });
  struct Sum {
    const char* equation;
    Dims a, b;
  };
  for (const Sum& each :
       {Sum{"ij,jk->ik", {3, 4}, {4, 5}}, Sum{"bij,bjk->bik", {2, 3, 4}, {2, 4, 5}},
        Sum{"bhqd,bhkd->bhqk", {2, 2, 3, 4}, {2, 2, 5, 4}}, Sum{"ij,kl->ijkl", {2, 3}, {4, 5}},
        Sum{"...ij,jk->...ik", {2, 3, 4}, {4, 5}}, Sum{"ij,ij->", {3, 4}, {3, 4}},
        Sum{"ii,ij->j", {4, 4}, {4, 5}}, Sum{"ijk,jil->kl", {2, 3, 4}, {3, 2, 5}}})
    add(suite, "einsum", fmt::format("torch.einsum('{}', x, y)", each.equation), {{each.a}, {each.b}},
        [equation = std::string(each.equation)](Graph&, const T& in) { return T{einsum(equation, in)}; });
}

template <size_t N>
std::string tuple(const std::array<int64_t, N>& values) {
  return fmt::format("({},)", fmt::join(values, ", "));
}

/// Spatial sizes 7, 6, 5 and so on.
template <size_t N>
Dims images(int64_t channels) {
  Dims dims{2, channels};
  for (size_t i = 0; i < N; ++i) dims.push_back(7 - static_cast<int64_t>(i));
  return dims;
}

template <size_t N>
Dims kernels(int64_t first, int64_t second, int64_t size) {
  Dims dims{first, second};
  for (size_t i = 0; i < N; ++i) dims.push_back(size);
  return dims;
}

template <size_t N>
GraphTensor convolution(const GraphTensor& x, const GraphTensor& w, const ConvOptions<N>& o) {
  if constexpr (N == 1) return conv1d(x, w, o);
  if constexpr (N == 2) return conv2d(x, w, o);
  if constexpr (N == 3) return conv3d(x, w, o);
}
template <size_t N>
GraphTensor transposed(const GraphTensor& x, const GraphTensor& w, const ConvTransposeOptions<N>& o) {
  if constexpr (N == 1) return conv_transpose1d(x, w, o);
  if constexpr (N == 2) return conv_transpose2d(x, w, o);
  if constexpr (N == 3) return conv_transpose3d(x, w, o);
}
template <size_t N>
GraphTensor pooled(bool maximum, const GraphTensor& x, const PoolOptions<N>& o) {
  if constexpr (N == 1) return maximum ? max_pool1d(x, o) : avg_pool1d(x, o);
  if constexpr (N == 2) return maximum ? max_pool2d(x, o) : avg_pool2d(x, o);
  if constexpr (N == 3) return maximum ? max_pool3d(x, o) : avg_pool3d(x, o);
}

template <size_t N>
void add_convolutions(Suite& suite) {
  std::vector<ConvOptions<N>> options(6);
  options[1].stride = filled<N>(2);
  options[2].padding = filled<N>(1);
  options[3].dilation = filled<N>(2);
  options[4].groups = 2;
  options[5] = {.stride = filled<N>(3), .padding = filled<N>(2), .dilation = filled<N>(2), .groups = 2};
  // Weights are of fixed sizes, and with them the channels; batch and images may be of any.
  const InputSpec picture{.dims = images<N>(4), .fixed = {1}};
  const auto kernel = [](int64_t first, int64_t second) {
    InputSpec spec{.dims = kernels<N>(first, second, N == 3 ? 2 : 3)};
    for (int axis = 0; axis < static_cast<int>(N) + 2; ++axis) spec.fixed.push_back(axis);
    return spec;
  };
  for (const ConvOptions<N>& o : options) {
    const std::string arguments = fmt::format("stride={}, padding={}, dilation={}, groups={}",
                                              tuple(o.stride), tuple(o.padding), tuple(o.dilation), o.groups);
    add(suite,
        N == 1   ? "conv1d"
        : N == 2 ? "conv2d"
                 : "conv3d",
        fmt::format("F.conv{}d(x, y, {})", N, arguments), {picture, kernel(6, 4 / o.groups)},
        [o](Graph&, const T& in) { return T{convolution<N>(in[0], in[1], o)}; });
    ConvTransposeOptions<N> t{
        .stride = o.stride, .padding = o.padding, .dilation = o.dilation, .groups = o.groups};
    for (size_t i = 0; i < N; ++i) t.output_padding[i] = o.stride[i] - 1;
    add(suite,
        N == 1   ? "conv_transpose1d"
        : N == 2 ? "conv_transpose2d"
                 : "conv_transpose3d",
        fmt::format("F.conv_transpose{}d(x, y, output_padding={}, {})", N, tuple(t.output_padding),
                    arguments),
        {picture, kernel(4, 3)}, [t](Graph&, const T& in) { return T{transposed<N>(in[0], in[1], t)}; });
  }
}

template <size_t N>
void add_pools(Suite& suite) {
  std::vector<PoolOptions<N>> options(6);
  options[1] = {.kernel = filled<N>(3), .stride = filled<N>(2)};
  options[2] = {.kernel = filled<N>(3), .stride = filled<N>(2), .padding = filled<N>(1)};
  options[3] = {.kernel = filled<N>(2), .ceil_mode = true};
  options[4] = {.kernel = filled<N>(3), .stride = filled<N>(2), .padding = filled<N>(1), .ceil_mode = true};
  options[5] = {.kernel = filled<N>(2), .stride = filled<N>(1), .dilation = filled<N>(2)};
  for (const PoolOptions<N>& o : options) {
    const std::string common = fmt::format("{}{}, padding={}, ceil_mode={}", tuple(o.kernel),
                                           o.stride[0] == 0 ? "" : ", stride=" + tuple(o.stride),
                                           tuple(o.padding), o.ceil_mode ? "True" : "False");
    const InputSpec input{images<N>(3), -2, 2, Values::Distinct};
    add(suite, "max_pool", fmt::format("F.max_pool{}d(x, {}, dilation={})", N, common, tuple(o.dilation)),
        {input}, [o](Graph&, const T& in) { return T{pooled<N>(true, in[0], o)}; });
    if (o.dilation[0] != 1) continue;
    for (const bool counted : {true, false}) {
      PoolOptions<N> p = o;
      p.count_include_pad = counted;
      add(suite, "avg_pool",
          fmt::format("F.avg_pool{}d(x, {}, count_include_pad={})", N, common, counted ? "True" : "False"),
          {input}, [p](Graph&, const T& in) { return T{pooled<N>(false, in[0], p)}; });
    }
  }
  for (const int64_t size : {1, 3, 5}) {
    const Shape sizes(N, size);
    add(suite, "adaptive_avg_pool", fmt::format("F.adaptive_avg_pool{}d(x, {})", N, size), {{images<N>(3)}},
        [sizes](Graph&, const T& in) { return T{adaptive_avg_pool(in[0], sizes)}; });
  }
}

template <size_t N>
void add_resizing(Suite& suite) {
  struct Mode {
    Interpolation mode;
    std::string name;
    bool align;
  };
  const char* linear[] = {"", "linear", "bilinear", "trilinear"};
  std::vector<Mode> modes{{Interpolation::Nearest, "nearest", false},
                          {Interpolation::NearestExact, "nearest-exact", false},
                          {Interpolation::Linear, linear[N], false},
                          {Interpolation::Linear, linear[N], true}};
  if (N == 2) {
    modes.push_back({Interpolation::Cubic, "bicubic", false});
    modes.push_back({Interpolation::Cubic, "bicubic", true});
  }
  for (const Mode& mode : modes)
    for (const int64_t size : {4, 11}) {
      const Shape sizes(N, size);
      const bool picks = mode.name.starts_with("nearest");
      add(suite, "interpolate",
          fmt::format("F.interpolate(x, {}, mode='{}'{})", tuple(filled<N>(size)), mode.name,
                      picks        ? ""
                      : mode.align ? ", align_corners=True"
                                   : ", align_corners=False"),
          {{images<N>(2)}}, [=](Graph&, const T& in) {
            return T{interpolate(in[0], sizes, {.mode = mode.mode, .align_corners = mode.align})};
          });
    }
  add(suite, "upsample", fmt::format("F.interpolate(x, scale_factor=3, mode='nearest') # {}", N),
      {{images<N>(2)}}, [](Graph&, const T& in) { return T{upsample(in[0], 3)}; });
}

void add_attention(Suite& suite) {
  const std::vector<InputSpec> qkv{{{2, 3, 4, 8}}, {{2, 3, 4, 8}}, {{2, 3, 4, 6}}};
  for (const bool causal : {false, true})
    add(suite, "attention",
        fmt::format("F.scaled_dot_product_attention(x, y, z, is_causal={})", causal ? "True" : "False"), qkv,
        [=](Graph&, const T& in) { return T{attention(in[0], in[1], in[2], {.causal = causal})}; });
  add(suite, "attention", "F.scaled_dot_product_attention(x, y, z, scale=0.3)", qkv,
      [](Graph&, const T& in) { return T{attention(in[0], in[1], in[2], {.scale = 0.3})}; });
  std::vector<InputSpec> masked = qkv;
  masked.push_back({{4, 4}});
  add(suite, "attention", "F.scaled_dot_product_attention(x, y, z, attn_mask=w)", masked,
      [](Graph&, const T& in) { return T{attention(in[0], in[1], in[2], in[3])}; });
  add(suite, "attention", "F.scaled_dot_product_attention(x, y, z, attn_mask=w > 0)", masked,
      [](Graph&, const T& in) { return T{attention(in[0], in[1], in[2], in[3].gt(0))}; });
}

}  // namespace

void add_products(Suite& suite) {
  add_matmul(suite);
  add_convolutions<1>(suite);
  add_convolutions<2>(suite);
  add_convolutions<3>(suite);
  add_pools<1>(suite);
  add_pools<2>(suite);
  add_pools<3>(suite);
  add_resizing<1>(suite);
  add_resizing<2>(suite);
  add_resizing<3>(suite);
  add_attention(suite);
}

}  // namespace luminal::validate
