#include "luminal/nn/conv.h"

#include <functional>
#include <numeric>

#include "nn/weights.h"

namespace luminal::nn {
namespace {

template <size_t N>
int64_t elements(const std::array<int64_t, N>& kernel) {
  return std::accumulate(kernel.begin(), kernel.end(), int64_t{1}, std::multiplies<>());
}

template <size_t N>
std::vector<int64_t> weight_dims(int64_t first, int64_t second, const std::array<int64_t, N>& kernel) {
  std::vector<int64_t> dims{first, second};
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  return dims;
}

template <size_t N>
void check(const GraphSite& cx, const std::string& module, int64_t in, int64_t out, int64_t groups,
           Dtype dtype, const std::array<int64_t, N>& kernel) {
  const CallSite site(module, cx.where);
  if (in < 1 || out < 1 || groups < 1 || in % groups != 0 || out % groups != 0)
    fail<ShapeError>("[{}] in={} and out={} must be positive multiples of groups={}", module, in, out,
                     groups);
  for (const int64_t size : kernel) check_size(module, "kernel", size);
  check_float(module, dtype);
}

template <size_t N>
GraphTensor biased(const GraphTensor& y, const std::optional<GraphTensor>& bias) {
  if (!bias) return y;
  GraphTensor each = *bias;
  for (size_t axis = 0; axis < N; ++axis) each = each.unsqueeze(-1);
  return y + each;
}

template <size_t N>
std::string name_of(std::string_view family) {
  return fmt::format("{}{}d", family, N);
}

}  // namespace

template <size_t N>
Conv<N>::Conv(GraphSite cx, int64_t in, int64_t out, Sizes kernel, const Options& options)
    : geometry{options.stride, options.padding, options.dilation, options.groups} {
  check(cx, name_of<N>("Conv"), in, out, options.groups, options.dtype, kernel);
  const int64_t per_group = in / options.groups, fan_in = per_group * elements(kernel);
  weight = fan_in_weight(cx, "weight", weight_dims(out, per_group, kernel), fan_in, options.dtype);
  if (options.bias) bias = fan_in_weight(cx, "bias", {out}, fan_in, options.dtype);
}

template <size_t N>
GraphTensor Conv<N>::forward(const GraphTensor& x, Where where) const {
  const std::string name = name_of<N>("Conv");
  const CallSite site(name, where);
  if constexpr (N == 1) return biased<N>(conv1d(x, weight, geometry), bias);
  if constexpr (N == 2) return biased<N>(conv2d(x, weight, geometry), bias);
  if constexpr (N == 3) return biased<N>(conv3d(x, weight, geometry), bias);
}

template <size_t N>
ConvTranspose<N>::ConvTranspose(GraphSite cx, int64_t in, int64_t out, Sizes kernel, const Options& options)
    : geometry{options.stride, options.padding, options.output_padding, options.dilation, options.groups} {
  check(cx, name_of<N>("ConvTranspose"), in, out, options.groups, options.dtype, kernel);
  const int64_t per_group = out / options.groups, fan = per_group * elements(kernel);
  weight = fan_in_weight(cx, "weight", weight_dims(in, per_group, kernel), fan, options.dtype);
  if (options.bias) bias = fan_in_weight(cx, "bias", {out}, fan, options.dtype);
}

template <size_t N>
GraphTensor ConvTranspose<N>::forward(const GraphTensor& x, Where where) const {
  const std::string name = name_of<N>("ConvTranspose");
  const CallSite site(name, where);
  if constexpr (N == 1) return biased<N>(conv_transpose1d(x, weight, geometry), bias);
  if constexpr (N == 2) return biased<N>(conv_transpose2d(x, weight, geometry), bias);
  if constexpr (N == 3) return biased<N>(conv_transpose3d(x, weight, geometry), bias);
}

template struct Conv<1>;
template struct Conv<2>;
template struct Conv<3>;
template struct ConvTranspose<1>;
template struct ConvTranspose<2>;
template struct ConvTranspose<3>;

}  // namespace luminal::nn
