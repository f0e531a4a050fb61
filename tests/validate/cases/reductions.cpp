#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "validate/cases/case.h"

// Reductions over several sets of axes, scans, sorting, norms.
namespace luminal::validate {
namespace {

struct Reduction {
  const char* name;
  const char* torch;  ///< {axes}, {keep} are put in
  std::function<GraphTensor(const GraphTensor&, Axes, bool)> function;
  bool gradient = true;
  double low = -1.5, high = 2;  // a sum of about 0 would have no error to speak of
};

void add_plain(Suite& suite) {
  using In = const GraphTensor&;
  const Reduction reductions[] = {
      {"sum", "x.sum({axes}, keepdim={keep})", [](In x, Axes a, bool k) { return x.sum(a, k); }},
      {"mean", "x.mean({axes}, keepdim={keep})", [](In x, Axes a, bool k) { return x.mean(a, k); }},
      {"max", "x.amax({axes}, keepdim={keep})", [](In x, Axes a, bool k) { return x.max(a, k); }},
      {"min", "x.amin({axes}, keepdim={keep})", [](In x, Axes a, bool k) { return x.min(a, k); }},
      {"prod", "PROD(x, {axes}, {keep})", [](In x, Axes a, bool k) { return x.prod(a, k); }, true, 0.5, 1.5},
      {"var", "x.var({axes}, correction=1, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.var(a, k); }},
      {"var", "x.var({axes}, correction=0, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.var(a, k, 0); }},
      {"std", "x.std({axes}, correction=1, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.std(a, k); }},
      {"logsumexp", "x.logsumexp({axes}, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.logsumexp(a, k); }},
      {"any", "(x > 1.9).any({axes}, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.gt(1.9).any(a, k); }, false},
      {"all", "(x > -1.9).all({axes}, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.gt(-1.9).all(a, k); }, false},
      {"norm", "torch.linalg.vector_norm(x, 2, {axes}, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.norm(2, a, k); }},
      {"norm", "torch.linalg.vector_norm(x, 1, {axes}, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.norm(1, a, k); }},
      {"norm", "torch.linalg.vector_norm(x, 3, {axes}, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.norm(3, a, k); }},
      {"norm", "torch.linalg.vector_norm(x, float('inf'), {axes}, keepdim={keep})",
       [](In x, Axes a, bool k) { return x.norm(HUGE_VAL, a, k); }},
  };
  for (const Reduction& each : reductions)
    for (const std::vector<int>& axes : {std::vector<int>{0}, {2}, {0, 2}, {0, 1, 2}})
      for (const bool keep : {false, true}) {
        const std::string list = fmt::format("({},)", fmt::join(axes, ", "));
        suite.specs.push_back(
            {.group = each.name,
             .torch = fmt::format(fmt::runtime(each.torch), fmt::arg("axes", list),
                                  fmt::arg("keep", keep ? "True" : "False")),
             .inputs = {{{3, 4, 5}, each.low, each.high, Values::Distinct}},
             .build = [f = each.function, axes, keep](
                          Graph&, const Tensors& in) { return Tensors{f(in[0], axes, keep)}; },
             .gradient = each.gradient,
             .ulps = 64});
      }
}

/// Whole numbers and bools, as PyTorch takes them.
void add_integers(Suite& suite) {
  struct OfIntegers {
    const char* name;
    const char* torch;
    std::function<Tensors(const GraphTensor&)> function;
  };
  using X = const GraphTensor&;
  const OfIntegers functions[] = {
      {"sum", "x.sum(1)", [](X x) { return Tensors{x.sum(1)}; }},
      {"prod", "x.prod(1)", [](X x) { return Tensors{x.prod(1)}; }},
      {"max", "x.amax(1)", [](X x) { return Tensors{x.max(1)}; }},
      {"min", "x.amin(0)", [](X x) { return Tensors{x.min(0)}; }},
      {"any", "x.bool().any(1)", [](X x) { return Tensors{x.any(1)}; }},
      {"all", "x.bool().all(1)", [](X x) { return Tensors{x.all(1)}; }},
      {"argmax", "x.argmax(1)", [](X x) { return Tensors{x.argmax(1)}; }},
      {"argmin", "x.argmin(0)", [](X x) { return Tensors{x.argmin(0)}; }},
      {"cumsum", "x.cumsum(1)", [](X x) { return Tensors{x.cumsum(1)}; }},
      {"cumprod", "x.cumprod(0)", [](X x) { return Tensors{x.cumprod(0)}; }},
      {"cummax", "x.cummax(1).values", [](X x) { return Tensors{x.cummax(1)}; }},
      {"sort", "x.sort(1).values", [](X x) { return Tensors{x.sort(1)}; }},
      {"sort", "x.sort(0, descending=True).values", [](X x) { return Tensors{x.sort(0, true)}; }},
      {"argsort", "x.argsort(dim=1, stable=True)", [](X x) { return Tensors{x.argsort(1)}; }},
      {"topk", "x.topk(2, 1).values", [](X x) { return Tensors{x.topk(2, 1, true).first}; }}};
  for (const OfIntegers& each : functions)
    suite.specs.push_back({.group = each.name,
                           .torch = each.torch,
                           .inputs = {{{3, 4}, 0, 11, Values::Distinct}},
                           .build = [f = each.function](Graph&, const Tensors& in) { return f(in[0]); },
                           .gradient = false,
                           .dtypes = {Dtype::I64, Dtype::I32, Dtype::I8, Dtype::U8},
                           .label = std::string(each.torch) + " of integers"});
}

void add_places(Suite& suite) {
  const std::vector<InputSpec> distinct{{{3, 4, 5}, -1.5, 2, Values::Distinct}};
  const auto add = [&](const char* group, std::string torch, Build build, bool gradient,
                       std::vector<Dtype> dtypes = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16}) {
    suite.specs.push_back({.group = group,
                           .torch = std::move(torch),
                           .inputs = distinct,
                           .build = std::move(build),
                           .gradient = gradient,
                           .dtypes = std::move(dtypes),
                           .ulps = 64});
  };
  for (const int axis : {0, 1, 2}) {
    add(
        "argmax", fmt::format("x.argmax({})", axis),
        [=](Graph&, const Tensors& in) { return Tensors{in[0].argmax(axis)}; }, false);
    add(
        "argmin", fmt::format("x.argmin({}, keepdim=True)", axis),
        [=](Graph&, const Tensors& in) { return Tensors{in[0].argmin(axis, true)}; }, false);
    add(
        "cumsum", fmt::format("x.cumsum({})", axis),
        [=](Graph&, const Tensors& in) { return Tensors{in[0].cumsum(axis)}; }, true);
    add(
        "cumprod", fmt::format("x.cumprod({})", axis),
        [=](Graph&, const Tensors& in) { return Tensors{in[0].cumprod(axis)}; }, true);
    add(
        "cummax", fmt::format("x.cummax({}).values", axis),
        [=](Graph&, const Tensors& in) { return Tensors{in[0].cummax(axis)}; }, true);
    for (const bool down : {false, true}) {
      const char* flag = down ? "True" : "False";
      add(
          "sort", fmt::format("x.sort({}, descending={}).values", axis, flag),
          [=](Graph&, const Tensors& in) { return Tensors{in[0].sort(axis, down)}; }, true);
      add(
          "argsort", fmt::format("x.argsort(dim={}, descending={}, stable=True)", axis, flag),
          [=](Graph&, const Tensors& in) { return Tensors{in[0].argsort(axis, down)}; }, false);
      add(
          "topk", fmt::format("tuple(x.topk(3, {}, largest={}))", axis, flag),
          [=](Graph&, const Tensors& in) {
            const auto [values, places] = in[0].topk(3, axis, down);
            return Tensors{values, places};
          },
          true);
    }
  }
  for (const int64_t n : {300, 1000})
    for (const Dtype dtype : {Dtype::F32, Dtype::I32, Dtype::I64, Dtype::F64}) {
      const InputSpec input{{2, n}, -100, 100, Values::Integers};
      suite.specs.push_back({.group = "argsort",
                             .torch = "x.argsort(dim=1, stable=True)",
                             .inputs = {input},
                             .build = [](Graph&, const Tensors& in) { return Tensors{in[0].argsort(1)}; },
                             .gradient = false,
                             .dtypes = {dtype},
                             .label = fmt::format("{} with ties", n)});
      suite.specs.push_back({.group = "cumsum",
                             .torch = "x.cumsum(1)",
                             .inputs = {input},
                             .build = [](Graph&, const Tensors& in) { return Tensors{in[0].cumsum(1)}; },
                             .gradient = is_float(dtype),
                             .dtypes = {dtype},
                             .ulps = 256,
                             .label = fmt::format("{} elements", n)});
    }
}

void add_norms(Suite& suite) {
  const auto add = [&](const char* group, std::string torch, std::vector<int64_t> dims, Build build) {
    suite.specs.push_back({.group = group,
                           .torch = std::move(torch),
                           .inputs = {{std::move(dims)}},
                           .build = std::move(build),
                           .ulps = 64});
  };
  add("layer_norm", "F.layer_norm(x, (5,))", {3, 4, 5},
      [](Graph&, const Tensors& in) { return Tensors{in[0].layer_norm()}; });
  add("layer_norm", "F.layer_norm(x, (4, 5), eps=1e-3)", {3, 4, 5},
      [](Graph&, const Tensors& in) { return Tensors{in[0].layer_norm({1, 2}, 1e-3)}; });
  add("rms_norm", "F.rms_norm(x, (5,), eps=1e-6)", {3, 4, 5},
      [](Graph&, const Tensors& in) { return Tensors{in[0].rms_norm()}; });
  add("mean_norm", "x - x.mean(-1, keepdim=True)", {3, 4, 5},
      [](Graph&, const Tensors& in) { return Tensors{in[0].mean_norm()}; });
  add("std_norm", "x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()", {3, 4, 5},
      [](Graph&, const Tensors& in) { return Tensors{in[0].std_norm()}; });
  for (const char* p : {"1", "2", "3"})
    add("normalize", fmt::format("F.normalize(x, {}, 1)", p), {3, 4, 5},
        [p = std::stod(p)](Graph&, const Tensors& in) { return Tensors{in[0].normalize(p, 1)}; });
  for (const int64_t groups : {1, 2, 4})
    add("group_norm", fmt::format("F.group_norm(x, {})", groups), {3, 4, 5},
        [=](Graph&, const Tensors& in) { return Tensors{in[0].group_norm(groups)}; });
  add("batch_norm", "F.batch_norm(x, None, None, training=True)", {3, 4, 5},
      [](Graph&, const Tensors& in) { return Tensors{in[0].batch_norm()}; });
  suite.specs.push_back(
      {.group = "batch_norm",
       .torch = "F.batch_norm(x, y, z)",
       .inputs = {{{3, 4, 5}},
                  {{4}, -1, 1, Values::Uniform, {}, false},
                  {{4}, 0.5, 2, Values::Uniform, {}, false}},
       .build = [](Graph&, const Tensors& in) { return Tensors{in[0].batch_norm(in[1], in[2])}; },
       .ulps = 64});
}

}  // namespace

void add_reductions(Suite& suite) {
  add_plain(suite);
  add_integers(suite);
  add_places(suite);
  add_norms(suite);
}

}  // namespace luminal::validate
