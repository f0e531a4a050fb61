#pragma once
#include <span>

#include "../kernel/spec_builder.h"

/// Specs of usual kernels, built by hand: for tests and benchmarks of schedules.
namespace luminal::codegen::test_cases {

using kernel::KernelSpec;
using kernel::Operand;
using kernel::SpecParts;
using kernel::test::SpecBuilder;

inline Scalar product(ScalarBuilder& b, std::span<const Scalar> x) { return b.mul(x[0], x[1]); }

/// C[m,n] = sum k: A[m,k] B[k,n], either side transposed in memory, `batch` of them; with an epilogue
/// max(sum + bias[n], 0).
struct Matmul {
  Expression m, n, k, batch = 1;
  bool turned_a = false, turned_b = false, epilogue = false;
  Dtype dtype = Dtype::F32;
  [[nodiscard]] kernel::Canonical spec() const {
    SpecBuilder s;
    const Expression g = s.axis(batch), i = s.axis(m), j = s.axis(n), r = s.axis(k);
    const int a = s.slot(batch * m * k, dtype), b = s.slot(batch * k * n, dtype), c = s.slot(n, dtype);
    const Dtype sum_type = accumulation_dtype(dtype);
    const int sum = s.value({0, 1, 2}, {3}, Monoid::Add,
                            {s.load(a, g * m * k + (turned_a ? r * m + i : i * k + r)),
                             s.load(b, g * k * n + (turned_b ? j * k + r : r * n + j))},
                            [&](ScalarBuilder& f, std::span<const Scalar> x) {
                              return f.mul(f.convert(x[0], sum_type), f.convert(x[1], sum_type));
                            });
    int result = sum;
    if (epilogue || sum_type != dtype)
      result = s.value(
          {0, 1, 2}, {}, std::nullopt, {s.read(sum), s.load(c, j)},
          [&](ScalarBuilder& f, std::span<const Scalar> x) {
            const Scalar y =
                epilogue ? f.maximum(f.add(x[0], f.convert(x[1], sum_type)), f.constant(sum_type, 0)) : x[0];
            return f.convert(y, dtype);
          });
    s.output(result, (g * m + i) * n + j, batch * m * n);
    return s.finish();
  }
};

/// Convolution over images [images, channels, height, width] with `filters` of side x side and padding, and
/// its gradients.
struct Conv {
  Expression images;
  int64_t channels, height, width, filters, side = 3, pad = 1, stride = 1;
  [[nodiscard]] int64_t out(int64_t size) const { return (size + 2 * pad - side) / stride + 1; }

  /// Y[n,o,y,x] = max(sum c,u,v: X[n,c,y*s+u-p,x*s+v-p] W[o,c,u,v] + B[o], 0)
  [[nodiscard]] kernel::Canonical forward() const {
    SpecBuilder s;
    const int64_t oh = out(height), ow = out(width);
    const Expression n = s.axis(images), o = s.axis(filters), y = s.axis(oh), x = s.axis(ow),
                     c = s.axis(channels), u = s.axis(side), v = s.axis(side);
    const int image = s.slot(images * channels * height * width),
              w = s.slot(filters * channels * side * side), bias = s.slot(filters);
    const int sum = s.value({0, 1, 2, 3}, {4, 5, 6}, Monoid::Add,
                            {at_image(s, image, n, c, y * stride + u - pad, x * stride + v - pad),
                             s.load(w, ((o * channels + c) * side + u) * side + v)},
                            product);
    const int relu = s.value({0, 1, 2, 3}, {}, std::nullopt, {s.read(sum), s.load(bias, o)},
                             [](ScalarBuilder& b, std::span<const Scalar> z) {
                               return b.maximum(b.add(z[0], z[1]), b.constant(Dtype::F32, 0));
                             });
    s.output(relu, ((n * filters + o) * oh + y) * ow + x, images * filters * oh * ow);
    return s.finish();
  }
  /// dW[o,c,u,v] = sum n,y,x: dY[n,o,y,x] X[n,c,y*s+u-p,x*s+v-p]
  [[nodiscard]] kernel::Canonical weight_gradient() const {
    SpecBuilder s;
    const int64_t oh = out(height), ow = out(width);
    const Expression o = s.axis(filters), c = s.axis(channels), u = s.axis(side), v = s.axis(side),
                     n = s.axis(images), y = s.axis(oh), x = s.axis(ow);
    const int image = s.slot(images * channels * height * width), dy = s.slot(images * filters * oh * ow);
    const int sum = s.value({0, 1, 2, 3}, {4, 5, 6}, Monoid::Add,
                            {s.load(dy, ((n * filters + o) * oh + y) * ow + x),
                             at_image(s, image, n, c, y * stride + u - pad, x * stride + v - pad)},
                            product);
    s.output(sum, ((o * channels + c) * side + u) * side + v, filters * channels * side * side);
    return s.finish();
  }
  /// dX[n,c,y,x] = sum o,u,v: dY[n,o,(y+p-u)/s,(x+p-v)/s] W[o,c,u,v], where it divides and lies within
  [[nodiscard]] kernel::Canonical input_gradient() const {
    SpecBuilder s;
    const int64_t oh = out(height), ow = out(width);
    const Expression n = s.axis(images), c = s.axis(channels), y = s.axis(height), x = s.axis(width),
                     o = s.axis(filters), u = s.axis(side), v = s.axis(side);
    const int dy = s.slot(images * filters * oh * ow), w = s.slot(filters * channels * side * side);
    const Expression fy = y + pad - u, fx = x + pad - v;
    const auto within = [&](const Expression& f, int64_t size) {
      const Expression divides = stride == 1 ? Expression(1) : (f % stride).lt(1);
      return f.gte(0) & (f / stride).lt(size) & divides;
    };
    const int sum = s.value({0, 1, 2, 3}, {4, 5, 6}, Monoid::Add,
                            {s.load(dy, ((n * filters + o) * oh + fy / stride) * ow + fx / stride,
                                    {{within(fy, oh) & within(fx, ow), 0}}),
                             s.load(w, ((o * channels + c) * side + u) * side + v)},
                            product);
    s.output(sum, ((n * channels + c) * height + y) * width + x, images * channels * height * width);
    return s.finish();
  }

 private:
  [[nodiscard]] Operand at_image(const SpecBuilder& s, int slot, const Expression& n, const Expression& c,
                                 const Expression& y, const Expression& x) const {
    const Expression index = ((n * channels + c) * height + y) * width + x;
    if (pad == 0) return s.load(slot, index);
    return s.load(slot, index, {{y.gte(0) & y.lt(height) & x.gte(0) & x.lt(width), 0}});
  }
};

}  // namespace luminal::codegen::test_cases
