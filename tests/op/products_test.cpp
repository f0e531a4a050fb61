// Models' sums of products and their gradients: each runs as a contraction, and is right beside loops in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>
#include <sstream>

#include "luminal/luminal.h"

namespace luminal {
namespace {

using Numbers = std::vector<double>;
using Sizes = std::vector<int64_t>;

int64_t count_of(const Sizes& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Calls visit(position) for each position of a box, the last axis fastest.
void for_each_position(const Sizes& sizes, const std::function<void(const Sizes&)>& visit) {
  Sizes at(sizes.size(), 0);
  for (int64_t left = count_of(sizes); left > 0; --left) {
    visit(at);
    for (size_t axis = sizes.size(); axis-- > 0;) {
      if (++at[axis] < sizes[axis]) break;
      at[axis] = 0;
    }
  }
}

size_t flat(const Sizes& at, const Sizes& sizes) {
  int64_t index = 0;
  for (size_t axis = 0; axis < at.size(); ++axis) index = index * sizes[axis] + at[axis];
  return static_cast<size_t>(index);
}

/// A graph with its inputs, what is to be computed and what that must be.
struct Products {
  explicit Products(bool named_dims) : named(named_dims) {}

  /// Random values. A size with a name is that named dim where dims are to be named.
  struct Dim {
    int64_t size = 1;
    std::string name = {};
    Dim(int64_t s, std::string n = "") : size(s), name(std::move(n)) {}  // NOLINT
  };
  GraphTensor input(const std::vector<Dim>& dims, Numbers& values) {
    Shape shape;
    Sizes sizes;
    for (const Dim& d : dims) {
      shape.push_back(named && !d.name.empty() ? Expression(d.name) : Expression(d.size));
      sizes.push_back(d.size);
    }
    std::uniform_real_distribution<float> draw(-1, 1);
    std::vector<float> data(static_cast<size_t>(count_of(sizes)));
    for (float& v : data) v = draw(engine);
    values.assign(data.begin(), data.end());
    GraphTensor x = cx.tensor(shape);
    x.set_dyn(data, sizes);
    return x;
  }

  /// The gradients of sum(y * upstream), and `y` itself.
  void differentiate(const std::vector<GraphTensor>& by, const GraphTensor& y, const GraphTensor& upstream) {
    results = cx.run_pass(Autograd(by, (y * upstream).sum()));
    results.push_back(y);
  }

  /// A kernel that shares what it loads among tiles of rows and columns; of one in phases each phase is such a kernel.
  static bool is_contraction(const KernelReport& kernel) {
    if (kernel.schedule == "phases") {
      std::istringstream words(kernel.parameters);  // "0.contract.tile_m=4 0.contract.tile_n=3 1.contract..."
      for (std::string word; words >> word;)
        if (word.find(".contract.") == std::string::npos) return false;
      return true;
    }
    const bool has_tiles = kernel.parameters.find("across=") != std::string::npos &&
                           kernel.parameters.find("across=1 ") == std::string::npos;
    return kernel.schedule == "contract" || (kernel.schedule == "reduce" && has_tiles);
  }

  /// `count` products, all of them contractions; no other kernel does the work of one.
  void check(size_t count) {
    for (GraphTensor& r : results) r.retrieve();
    cx.set_device("cpu");
    auto run = cx.compile(Fast{});
    run();
    const CompileReport report = run.details();
    size_t contractions = 0;
    double least_flops = HUGE_VAL;
    for (const KernelReport& kernel : report.kernels) {
      if (!is_contraction(kernel)) continue;
      ++contractions;
      least_flops = std::min(least_flops, kernel.flops);
    }
    EXPECT_EQ(contractions, count) << to_text(report);
    for (const KernelReport& kernel : report.kernels) {
      // `stream` is made for products inside walks; an exponential counts as many operations.
      if (is_contraction(kernel) || kernel.schedule == "stream") continue;
      if (kernel.spec.find("exp(") != std::string::npos) continue;
      EXPECT_LT(kernel.flops, least_flops) << kernel.schedule << "\n" << kernel.spec;
    }
    ASSERT_EQ(results.size(), wanted.size());
    for (size_t r = 0; r < wanted.size(); ++r) {
      const Numbers got = results[r].data<double>();
      ASSERT_EQ(got.size(), wanted[r].size()) << "result " << r;
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], wanted[r][i], 1e-4) << "result " << r << " element " << i;
    }
  }

  bool named = false;
  Graph cx;
  std::mt19937 engine{7};
  std::vector<GraphTensor> results;
  std::vector<Numbers> wanted;
};

class InProducts : public testing::TestWithParam<bool> {};  // whether dims are named

// --- Matrix products and einsums: letters say what is multiplied.

constexpr int64_t kAxis[] = {/*a*/ 3, /*b*/ 2, /*c*/ 4};
int64_t size_of(char letter) { return letter <= 'c' ? kAxis[letter - 'a'] : 24 + 4 * (letter - 'i'); }

Sizes sizes_of(const std::string& letters) {
  Sizes sizes;
  for (const char c : letters) sizes.push_back(size_of(c));
  return sizes;
}

/// Batch axes and rows have names where dims are named.
std::vector<Products::Dim> dims_of(const std::string& letters) {
  std::vector<Products::Dim> dims;
  for (const char c : letters) {
    if (c == '1')
      dims.emplace_back(1);
    else
      dims.emplace_back(size_of(c), c == 'a' || c == 'i' ? std::string(1, c) : "");
  }
  return dims;
}

std::string without_ones(std::string letters) {
  std::erase(letters, '1');
  return letters;
}

Numbers sum_of_products(const std::string& left, const Numbers& a, const std::string& right, const Numbers& b,
                        const std::string& out) {
  std::string all = out;
  for (const char c : left + right)
    if (all.find(c) == std::string::npos) all += c;
  const auto part = [&](const Sizes& at, const std::string& letters) {
    Sizes own;
    for (const char c : letters) own.push_back(at[all.find(c)]);
    return flat(own, sizes_of(letters));
  };
  Numbers sums(static_cast<size_t>(count_of(sizes_of(out))));
  for_each_position(sizes_of(all),
                    [&](const Sizes& at) { sums[part(at, out)] += a[part(at, left)] * b[part(at, right)]; });
  return sums;
}

void check_gradients(bool named, const std::string& left, const std::string& right, const std::string& out,
                     const std::function<GraphTensor(const GraphTensor&, const GraphTensor&)>& multiply) {
  SCOPED_TRACE(left + "," + right + "->" + out);
  Products p(named);
  Numbers a, b, u;
  const GraphTensor x = p.input(dims_of(left), a), y = p.input(dims_of(right), b);
  const GraphTensor upstream = p.input(dims_of(out), u);
  p.differentiate({x, y}, multiply(x, y), upstream);
  const std::string l = without_ones(left), r = without_ones(right);
  p.wanted = {sum_of_products(out, u, r, b, l), sum_of_products(l, a, out, u, r),
              sum_of_products(l, a, r, b, out)};
  p.check(3);
}

TEST_P(InProducts, MatrixProductsOfBatchesAndTheirGradients) {
  for (const auto& [left, right, out] : std::vector<std::array<std::string, 3>>{{"ik", "kj", "ij"},
                                                                                {"aik", "akj", "aij"},
                                                                                {"ik", "akj", "aij"},
                                                                                {"aik", "kj", "aij"},
                                                                                {"1ik", "akj", "aij"},
                                                                                {"abik", "abkj", "abij"},
                                                                                {"abik", "bkj", "abij"},
                                                                                {"ik", "abkj", "abij"},
                                                                                {"abik", "a1kj", "abij"},
                                                                                {"a1ik", "1bkj", "abij"},
                                                                                {"cabik", "a1kj", "cabij"}}) {
    check_gradients(GetParam(), left, right, out,
                    [](const GraphTensor& x, const GraphTensor& y) { return x.matmul(y); });
  }
}

TEST_P(InProducts, EinsumsAndTheirGradients) {
  for (const auto& [left, right, out] : std::vector<std::array<std::string, 3>>{{"ki", "kj", "ij"},
                                                                                {"ik", "jk", "ji"},
                                                                                {"aik", "ajk", "aij"},
                                                                                {"ika", "kja", "ija"},
                                                                                {"iak", "jak", "aij"},
                                                                                {"aibk", "ajbk", "abij"},
                                                                                {"abij", "ajbk", "aibk"},
                                                                                {"bika", "kjb", "jaib"},
                                                                                {"ik", "kja", "iaj"},
                                                                                {"iakc", "kcj", "aij"},
                                                                                {"ibk", "bkj", "ij"}}) {
    const std::string equation = left + "," + right + "->" + out;
    check_gradients(GetParam(), left, right, out,
                    [&](const GraphTensor& x, const GraphTensor& y) { return einsum(equation, {x, y}); });
  }
}

// --- Attention

struct Attention {
  int64_t batch = 1, heads = 1, queries = 40, keys = 48, size = 32, values = 24;
};

/// q, k and v of all batches and heads one after another; `bias` is added to the scores, minus infinity
/// hides.
struct AttentionByLoops {
  Attention s;
  Numbers q, k, v, upstream, bias;

  /// Gradients by q, k, v and the result.
  [[nodiscard]] std::vector<Numbers> run() const {
    Numbers dq(q.size()), dk(k.size()), dv(v.size()), y(upstream.size());
    for (int64_t h = 0; h < s.batch * s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) row(h, i, dq, dk, dv, y);
    return {dq, dk, dv, y};
  }

 private:
  void row(int64_t h, int64_t i, Numbers& dq, Numbers& dk, Numbers& dv, Numbers& y) const {
    const double scale = 1 / std::sqrt(static_cast<double>(s.size));
    const auto at = [&](int64_t length, int64_t place, int64_t width, int64_t e) {
      return static_cast<size_t>((h * length + place) * width + e);
    };
    Numbers p(static_cast<size_t>(s.keys)), g(p.size());
    double total = 0, mean = 0;
    for (int64_t j = 0; j < s.keys; ++j) {
      double score = 0;
      for (int64_t e = 0; e < s.size; ++e)
        score += q[at(s.queries, i, s.size, e)] * k[at(s.keys, j, s.size, e)];
      total += p[static_cast<size_t>(j)] = std::exp(score * scale + bias[at(s.queries, i, s.keys, j)]);
    }
    for (int64_t j = 0; j < s.keys; ++j) {
      const auto n = static_cast<size_t>(j);
      p[n] /= total;
      for (int64_t c = 0; c < s.values; ++c) {
        const double u = upstream[at(s.queries, i, s.values, c)], value = v[at(s.keys, j, s.values, c)];
        y[at(s.queries, i, s.values, c)] += p[n] * value;
        dv[at(s.keys, j, s.values, c)] += p[n] * u;
        g[n] += u * value;
      }
      mean += p[n] * g[n];
    }
    for (int64_t j = 0; j < s.keys; ++j) {
      const double slope = p[static_cast<size_t>(j)] * (g[static_cast<size_t>(j)] - mean) * scale;
      for (int64_t e = 0; e < s.size; ++e) {
        dq[at(s.queries, i, s.size, e)] += slope * k[at(s.keys, j, s.size, e)];
        dk[at(s.keys, j, s.size, e)] += slope * q[at(s.queries, i, s.size, e)];
      }
    }
  }
};

enum class Hidden { Nothing, Later, ByMask, ByAddedMask };

/// q, k, v [batch, length, heads, size] as projections leave them, or [batch, heads, length, size].
void check_attention(bool named, const Attention& s, Hidden hidden, bool heads_inside) {
  Products p(named);
  AttentionByLoops loops{.s = s};
  const auto operand = [&](const std::string& length_name, int64_t length, int64_t size, Numbers& values) {
    const Products::Dim batch(s.batch, "batch"), along(length, length_name);
    if (!heads_inside) return p.input({batch, s.heads, along, size}, values);
    Numbers stored;
    const GraphTensor x = p.input({batch, along, s.heads * size}, stored);
    values.resize(stored.size());
    for_each_position({s.batch, s.heads, length, size}, [&](const Sizes& at) {
      values[flat(at, {s.batch, s.heads, length, size})] =
          stored[flat({at[0], at[2], at[1], at[3]}, {s.batch, length, s.heads, size})];
    });
    return x.split_dims(2, size).permute({0, 2, 1, 3});
  };
  const GraphTensor q = operand("queries", s.queries, s.size, loops.q);
  const GraphTensor k = operand("keys", s.keys, s.size, loops.k);
  const GraphTensor v = operand("keys", s.keys, s.values, loops.v);
  Numbers added;
  const Products::Dim queries(s.queries, "queries"), keys(s.keys, "keys");
  const bool masked = hidden == Hidden::ByMask || hidden == Hidden::ByAddedMask;
  const GraphTensor mask = masked ? p.input({queries, keys}, added) : q;
  for_each_position({s.batch, s.heads, s.queries, s.keys}, [&](const Sizes& at) {
    const double m = masked ? added[flat({at[2], at[3]}, {s.queries, s.keys})] : 0;
    const bool seen = hidden == Hidden::Later    ? at[3] <= at[2] + s.keys - s.queries
                      : hidden == Hidden::ByMask ? m > -0.5
                                                 : true;
    loops.bias.push_back(!seen ? -HUGE_VAL : hidden == Hidden::ByAddedMask ? m : 0);
  });
  const AttentionOptions options{.causal = hidden == Hidden::Later};
  const GraphTensor y = hidden == Hidden::ByMask        ? attention(q, k, v, mask.gt(-0.5), options)
                        : hidden == Hidden::ByAddedMask ? attention(q, k, v, mask, options)
                                                        : attention(q, k, v, options);
  const GraphTensor upstream = p.input({{s.batch, "batch"}, s.heads, queries, s.values}, loops.upstream);
  p.differentiate({q, k, v}, y, upstream);
  // Gradients of views are views of gradients.
  p.wanted = loops.run();
  p.check(6);
}

TEST_P(InProducts, AttentionAndItsGradients) {
  for (const Hidden hidden : {Hidden::Nothing, Hidden::Later, Hidden::ByMask, Hidden::ByAddedMask})
    for (const Attention& s : {Attention{}, Attention{.heads = 3}, Attention{.batch = 2, .heads = 3}})
      for (const bool heads_inside : {false, true}) {
        SCOPED_TRACE(testing::Message()
                     << s.batch << " batches, " << s.heads << " heads, mask " << static_cast<int>(hidden)
                     << (heads_inside ? ", heads inside" : ""));
        check_attention(GetParam(), s, hidden, heads_inside);
        if (HasFatalFailure()) return;
      }
}

// --- Convolutions

struct Convolution {
  int64_t images = 2, channels = 8, out = 12, side = 12, kernel = 3, stride = 1, padding = 1, dilation = 1,
          groups = 1;
  [[nodiscard]] int64_t places() const {
    return (side + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

/// Gradients by image and weight, and the result.
std::vector<Numbers> convolution_by_loops(const Convolution& c, const Numbers& x, const Numbers& w,
                                          const Numbers& u) {
  Numbers dx(x.size()), dw(w.size()), y(u.size());
  const int64_t channels = c.channels / c.groups, out = c.out / c.groups, places = c.places();
  for_each_position({c.images, c.out, places, places, channels, c.kernel, c.kernel}, [&](const Sizes& at) {
    const int64_t row = at[2] * c.stride + at[5] * c.dilation - c.padding;
    const int64_t column = at[3] * c.stride + at[6] * c.dilation - c.padding;
    if (row < 0 || row >= c.side || column < 0 || column >= c.side) return;
    const size_t in =
        flat({at[0], at[1] / out * channels + at[4], row, column}, {c.images, c.channels, c.side, c.side});
    const size_t tap = flat({at[1], at[4], at[5], at[6]}, {c.out, channels, c.kernel, c.kernel});
    const size_t to = flat({at[0], at[1], at[2], at[3]}, {c.images, c.out, places, places});
    y[to] += x[in] * w[tap];
    dx[in] += u[to] * w[tap];
    dw[tap] += u[to] * x[in];
  });
  return {dx, dw, y};
}

TEST_P(InProducts, ConvolutionsAndTheirGradients) {
  for (const Convolution& c :
       {Convolution{}, Convolution{.padding = 0},
        Convolution{.channels = 16, .out = 24, .kernel = 1, .padding = 0}, Convolution{.stride = 2},
        Convolution{.padding = 2, .dilation = 2}, Convolution{.channels = 32, .out = 32, .groups = 2},
        Convolution{.channels = 32, .out = 32, .stride = 2, .groups = 2}}) {
    SCOPED_TRACE(testing::Message() << "kernel " << c.kernel << " stride " << c.stride << " padding "
                                    << c.padding << " dilation " << c.dilation << " groups " << c.groups);
    Products p(GetParam());
    Numbers x, w, u;
    const Products::Dim images(c.images, "images");
    const GraphTensor image = p.input({images, c.channels, c.side, c.side}, x);
    const GraphTensor weight = p.input({c.out, c.channels / c.groups, c.kernel, c.kernel}, w);
    const GraphTensor upstream = p.input({images, c.out, c.places(), c.places()}, u);
    const GraphTensor y = conv2d(image, weight,
                                 {.stride = filled<2>(c.stride),
                                  .padding = filled<2>(c.padding),
                                  .dilation = filled<2>(c.dilation),
                                  .groups = c.groups});
    p.differentiate({image, weight}, y, upstream);
    p.wanted = convolution_by_loops(c, x, w, u);
    p.check(3);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, InProducts, testing::Bool(),
                         [](const auto& named) { return named.param ? "Named" : "Known"; });

}  // namespace
}  // namespace luminal
