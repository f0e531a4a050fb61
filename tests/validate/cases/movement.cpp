#include <fmt/format.h>

#include "validate/cases/case.h"

// Movement, joining, indexing, and tensors out of nothing.
namespace luminal::validate {
namespace {

using T = Tensors;

struct Movement {
  const char* group;
  const char* torch;
  std::vector<int64_t> dims;
  std::function<GraphTensor(const GraphTensor&)> function;
  bool dynamic = true;
  std::vector<int> fixed = {};  ///< axes that are numbers in dynamic cases
};

void add_views(Suite& suite) {
  const std::vector<int64_t> d{3, 4, 5};
  using G = const GraphTensor&;
  const Movement movements[] = {
      {"permute", "x.permute(2, 0, 1)", d, [](G x) { return x.permute({2, 0, 1}); }},
      {"transpose", "x.transpose(0, 2)", d, [](G x) { return x.transpose(0, 2); }},
      {"t", "x.mT", d, [](G x) { return x.t(); }},
      {"reshape", "x.reshape(6, 10)", d, [](G x) { return x.reshape({6, 10}); }, false},
      {"reshape", "x.reshape(2, -1)", d, [](G x) { return x.reshape({2, -1}); }, false},
      {"reshape", "x.reshape(-1, 10)", d, [](G x) { return x.reshape({-1, 10}); }, true, {1, 2}},
      {"reshape", "x.reshape(3, -1)", d, [](G x) { return x.reshape({x.dim(0), -1}); }},
      {"flatten", "x.flatten(1)", d, [](G x) { return x.flatten(1); }},
      {"flatten", "x.flatten()", d, [](G x) { return x.flatten(); }},
      {"expand", "x.expand(2, 3, 4, 5)", d, [](G x) { return x.expand({2, -1, -1, -1}); }},
      {"expand_dim", "x.unsqueeze(1).expand(3, 6, 4, 5)", d, [](G x) { return x.expand_dim(1, 6); }},
      {"unsqueeze", "x.unsqueeze(-1)", d, [](G x) { return x.unsqueeze(-1); }},
      {"squeeze", "x.squeeze(1)", {3, 1, 5}, [](G x) { return x.squeeze(1); }},
      {"merge_dims", "x.flatten(0, 1)", d, [](G x) { return x.merge_dims(0, 1); }},
      {"split_dims", "x.reshape(3, 2, 2, 5)", d, [](G x) { return x.split_dims(1, 2); }, true, {1}},
      {"slice", "x[1:3, :, -2:]", d, [](G x) { return x.slice({{1, 3}, {0, INT64_MAX}, {-2, INT64_MAX}}); }},
      {"slice_along", "x[:, :, 1:5:2]", d, [](G x) { return x.slice_along(2, 1, 5, 2); }, true, {2}},
      {"pad", "F.pad(x, (1, 2, 0, 1), value=3)", d, [](G x) { return x.pad({{0, 0}, {0, 1}, {1, 2}}, 3); }},
      {"pad", "F.pad(x, (-1, 2))", d, [](G x) { return x.pad({{0, 0}, {0, 0}, {-1, 2}}); }},
      {"pad_along", "F.pad(x, (0, 0, 2, 1))", d, [](G x) { return x.pad_along(1, 2, 1); }},
      {"repeat", "x.repeat(2, 1, 3)", d, [](G x) { return x.repeat({2, 1, 3}); }},
      {"repeat", "x.repeat(2, 1, 1, 1)", d, [](G x) { return x.repeat({2, 1, 1, 1}); }},
      {"flip", "x.flip(0, 2)", d, [](G x) { return x.flip({0, 2}); }},
      {"roll", "x.roll(2, 1)", d, [](G x) { return x.roll(2, 1); }},
      {"roll", "x.roll(-7, 2)", d, [](G x) { return x.roll(-7, 2); }},
      {"tril", "x.tril()", d, [](G x) { return x.tril(); }},
      {"tril", "x.tril(-1)", d, [](G x) { return x.tril(-1); }},
      {"triu", "x.triu(1)", d, [](G x) { return x.triu(1); }},
      {"unfold", "x.unfold(2, 3, 1)", d, [](G x) { return x.unfold(2, 3, 1); }},
      {"unfold", "x.unfold(1, 2, 2)", d, [](G x) { return x.unfold(1, 2, 2); }},
      {"pool_last_dim", "x.unfold(-1, 2, 2)", d, [](G x) { return x.pool_last_dim(2, 2); }},
      {"excise", "x[..., [0, 1, 4]]", d, [](G x) { return x.excise(2, 2); }},
      {"contiguous", "x.transpose(0, 1).contiguous()", d, [](G x) { return x.transpose(0, 1).contiguous(); }},
      {"graph_break", "x * 1", d, [](G x) { return x.graph_break(); }},
      {"stop_gradient", "x.detach() + x", d, [](G x) { return x.stop_gradient() + x; }},
  };
  for (const Movement& each : movements)
    suite.specs.push_back(
        {.group = each.group,
         .torch = each.torch,
         .inputs = {{.dims = each.dims, .fixed = each.fixed}},
         .build = [f = each.function](Graph&, const T& in) { return T{f(in[0])}; },
         .dtypes = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::I64},
         .dynamic = each.dynamic});
}

void add_joins(Suite& suite) {
  const auto add = [&](const char* group, const char* torch, std::vector<InputSpec> inputs, Build build) {
    suite.specs.push_back(
        {.group = group, .torch = torch, .inputs = std::move(inputs), .build = std::move(build)});
  };
  add("concat", "torch.cat((x, y, z), 1)", {{{3, 4}}, {{3, 1}}, {{3, 2}}},
      [](Graph&, const T& in) { return T{concat(in, 1)}; });
  add("concat_along", "torch.cat((x, y), 0)", {{{3, 4}}, {{2, 4}}},
      [](Graph&, const T& in) { return T{in[0].concat_along(in[1], 0)}; });
  add("stack", "torch.stack((x, y), 1)", {{{3, 4}}, {{3, 4}}},
      [](Graph&, const T& in) { return T{stack(in, 1)}; });
  add("split", "x.split(2, 1)", {{.dims = {3, 5}, .fixed = {1}}},
      [](Graph&, const T& in) { return in[0].split(2, 1); });
  add("chunk", "x.chunk(3, 1)", {{.dims = {3, 8}, .fixed = {1}}},
      [](Graph&, const T& in) { return in[0].chunk(3, 1); });
}

InputSpec places(std::vector<int64_t> dims, double end, Dtype dtype = Dtype::I64) {
  return {std::move(dims), 0, end, Values::Integers, dtype};
}

void add_indexing(Suite& suite) {
  const auto add = [&](const char* group, std::string torch, std::vector<InputSpec> inputs, Build build) {
    suite.specs.push_back(
        {.group = group, .torch = std::move(torch), .inputs = std::move(inputs), .build = std::move(build)});
  };
  for (const Dtype index : {Dtype::I64, Dtype::I32}) {
    add("take", fmt::format("x.take(y.long()) # {}", name(index)), {{{3, 4}}, places({2, 3}, 12, index)},
        [](Graph&, const T& in) { return T{in[0].gather(in[1])}; });
    for (const int axis : {0, 1}) {
      add("gather", fmt::format("x.gather({}, y.long()) # {}", axis, name(index)),
          {{{3, 4}}, places(axis == 0 ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{3, 2}, 3, index)},
          [=](Graph&, const T& in) { return T{in[0].gather(axis, in[1])}; });
      add("gather_elements", fmt::format("x.gather({}, y.long()) # elements, {}", axis, name(index)),
          {{{3, 4}}, places(axis == 0 ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{3, 2}, 3, index)},
          [=](Graph&, const T& in) { return T{in[0].gather_elements(axis, in[1])}; });
      add("index_select", fmt::format("x.index_select({}, y.long()) # {}", axis, name(index)),
          {{{3, 4}}, places({6}, 3, index)},
          [=](Graph&, const T& in) { return T{in[0].index_select(axis, in[1])}; });
      add("scatter_add", fmt::format("x.scatter_add({}, y.long(), z) # {}", axis, name(index)),
          {{{3, 4}}, places({3, 4}, 3, index), {{3, 4}}},
          [=](Graph&, const T& in) { return T{in[0].scatter_add(axis, in[1], in[2])}; });
    }
  }
  // PyTorch leaves open which of several updates stays, so places are distinct here.
  InputSpec apart = places({2, 4}, 0);
  apart.given = {2, 0, 1, 2, 0, 2, 2, 1};
  add("scatter", "x.scatter(0, y, z)", {{{3, 4}}, apart, {{2, 4}}},
      [](Graph&, const T& in) { return T{in[0].scatter(0, in[1], in[2])}; });
  // An index that reaches less far than the data.
  for (const int axis : {0, 1}) {
    const std::vector<InputSpec> smaller{{{3, 4}}, places({2, 3}, 3), {{2, 3}}};
    suite.specs.push_back({.group = "gather",
                           .torch = fmt::format("x.gather({}, y)", axis),
                           .inputs = {smaller[0], smaller[1]},
                           .build = [=](Graph&, const T& in) { return T{in[0].gather(axis, in[1])}; },
                           .dynamic = false});
    suite.specs.push_back(
        {.group = "scatter_add",
         .torch = fmt::format("x.scatter_add({}, y, z)", axis),
         .inputs = smaller,
         .build = [=](Graph&, const T& in) { return T{in[0].scatter_add(axis, in[1], in[2])}; },
         .dynamic = false});
  }
  suite.specs.push_back({.group = "one_hot",
                         .torch = "F.one_hot(x, 5)",
                         .inputs = {places({3, 4}, 5)},
                         .build = [](Graph&, const T& in) { return T{in[0].one_hot(5)}; },
                         .gradient = false,
                         .dtypes = {Dtype::I64}});
}

void add_created(Suite& suite) {
  const auto add = [&](const char* group, const char* torch, std::function<GraphTensor(Graph&)> make) {
    suite.specs.push_back({.group = group,
                           .torch = torch,
                           .inputs = {},
                           .build = [make = std::move(make)](Graph& cx, const T&) { return T{make(cx)}; },
                           .gradient = false,
                           .dtypes = {Dtype::F32},
                           .ulps = 1});
  };
  add("arange", "torch.arange(7)", [](Graph& cx) { return cx.arange(7); });
  add("iota", "torch.arange(12).reshape(3, 4)",
      [](Graph& cx) { return cx.iota(Expression::flat_index(), {3, 4}); });
  add("iota", "(torch.arange(12) * 2 + 5).reshape(3, 4).int()",
      [](Graph& cx) { return cx.iota(Expression::flat_index() * 2 + 5, {3, 4}, Dtype::I32); });
  add("arange_in_range", "torch.arange(3, 9)", [](Graph& cx) { return cx.arange_in_range(3, 9); });
  add("arange_step", "torch.arange(0, 1, 0.1)", [](Graph& cx) { return cx.arange_step(0.0, 1.0, 0.1); });
  add("arange_step", "torch.arange(9, -2, -3).float()", [](Graph& cx) { return cx.arange_step(9, -2, -3); });
  add("eye", "torch.eye(4)", [](Graph& cx) { return cx.eye(4); });
  add("tril", "torch.ones(3, 5).tril(1)", [](Graph& cx) { return cx.tril(3, 5, 1); });
  add("triu", "torch.ones(3, 5).triu(-1)", [](Graph& cx) { return cx.triu(3, 5, -1); });
  add("zeros", "torch.zeros(2, 3)", [](Graph& cx) { return cx.zeros({2, 3}); });
  add("ones", "torch.ones(2, 3)", [](Graph& cx) { return cx.ones({2, 3}); });
  add("full", "torch.full((2, 3), 2.5)", [](Graph& cx) { return cx.full({2, 3}, 2.5); });
}

}  // namespace

void add_movement(Suite& suite) {
  add_views(suite);
  add_joins(suite);
  add_indexing(suite);
  add_created(suite);
}

}  // namespace luminal::validate
