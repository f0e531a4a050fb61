#include <fmt/format.h>

#include <array>

#include "validate/cases/case.h"

// Functions of one and two tensors, activations, comparisons, promotion.
namespace luminal::validate {
namespace {

using Unary = GraphTensor (GraphTensor::*)(Where) const;

struct Function {
  const char* name;
  Unary function;
  double low = -2, high = 2;
  const char* torch = nullptr;  ///< "torch.NAME(x)" if absent
  bool gradient = true;
};

void add_functions(Suite& suite) {
  const Function functions[] = {
      {"abs", &GraphTensor::abs},
      {"sign", &GraphTensor::sign},
      {"floor", &GraphTensor::floor},
      {"ceil", &GraphTensor::ceil},
      {"round", &GraphTensor::round},
      {"trunc", &GraphTensor::trunc},
      {"exp", &GraphTensor::exp},
      {"exp2", &GraphTensor::exp2},
      {"log", &GraphTensor::log, 0.05, 4},
      {"log2", &GraphTensor::log2, 0.05, 4},
      {"log1p", &GraphTensor::log1p, -0.9, 4},
      {"expm1", &GraphTensor::expm1},
      {"sin", &GraphTensor::sin, -8, 8},
      {"cos", &GraphTensor::cos, -8, 8},
      {"tan", &GraphTensor::tan, -1.2, 1.2},
      {"tanh", &GraphTensor::tanh},
      {"erf", &GraphTensor::erf},
      {"sqrt", &GraphTensor::sqrt, 0.05, 4},
      {"rsqrt", &GraphTensor::rsqrt, 0.05, 4},
      {"reciprocal", &GraphTensor::reciprocal, 0.2, 3},
      {"square", &GraphTensor::square},
      {"logical_not", &GraphTensor::logical_not, -2, 2, nullptr, false},
      {"isnan", &GraphTensor::isnan, -2, 2, nullptr, false},
      {"isinf", &GraphTensor::isinf, -2, 2, nullptr, false},
      {"isfinite", &GraphTensor::isfinite, -2, 2, nullptr, false},
      {"relu", &GraphTensor::relu, -2, 2, "F.relu(x)"},
      {"sigmoid", &GraphTensor::sigmoid, -6, 6},
      {"silu", &GraphTensor::silu, -6, 6, "F.silu(x)"},
      {"swish", &GraphTensor::swish, -6, 6, "F.silu(x)"},
      {"hard_swish", &GraphTensor::hard_swish, -5, 5, "F.hardswish(x)"},
      {"mish", &GraphTensor::mish, -6, 6, "F.mish(x)"},
  };
  for (const Function& each : functions) {
    const std::string torch = each.torch ? each.torch : fmt::format("torch.{}(x)", each.name);
    const Build build = [f = each.function](Graph&, const Tensors& in) {
      return Tensors{(in[0].*f)(Where::current())};
    };
    suite.specs.push_back({.group = each.name,
                           .torch = torch,
                           .inputs = {{{3, 5}, each.low, each.high}},
                           .build = build,
                           .gradient = each.gradient});
    suite.specs.push_back({.group = each.name,
                           .torch = torch,
                           .inputs = {{{}, each.low, each.high}},
                           .build = build,
                           .gradient = each.gradient,
                           .dtypes = {Dtype::F32},
                           .label = "rank 0"});
    // Integers and bool, as PyTorch takes them.
    suite.specs.push_back({.group = each.name,
                           .torch = fmt::format("INTEGER(lambda x: {}, x)", torch),
                           .inputs = {{{7}, std::max(each.low, 1.0), 5, Values::Integers}},
                           .build = build,
                           .gradient = false,
                           .dtypes = {Dtype::I32, Dtype::I64, Dtype::U8, Dtype::I8},
                           .ulps = 16,
                           .label = "integers"});
  }
}

void add_activations(Suite& suite) {
  const auto add = [&](const char* group, std::string torch, std::vector<InputSpec> inputs, Build build) {
    suite.specs.push_back({.group = group,
                           .torch = std::move(torch),
                           .inputs = std::move(inputs),
                           .build = std::move(build),
                           .ulps = 16});
  };
  const std::vector<InputSpec> one{{{3, 6}, -4, 4}};
  for (const double slope : {0.01, 0.3})
    add("leaky_relu", fmt::format("F.leaky_relu(x, {})", slope), one,
        [=](Graph&, const Tensors& in) { return Tensors{in[0].leaky_relu(slope)}; });
  for (const double alpha : {1.0, 0.5})
    add("elu", fmt::format("F.elu(x, {})", alpha), one,
        [=](Graph&, const Tensors& in) { return Tensors{in[0].elu(alpha)}; });
  for (const char* how : {"none", "tanh"})
    add("gelu", fmt::format("F.gelu(x, approximate='{}')", how), one,
        [=](Graph&, const Tensors& in) { return Tensors{in[0].gelu(how)}; });
  for (const double beta : {1.0, 2.5})
    add("softplus", fmt::format("F.softplus(x, {}, 5)", beta), one,
        [=](Graph&, const Tensors& in) { return Tensors{in[0].softplus(beta, 5)}; });
  add("prelu", "F.prelu(x, y)", {{{3, 6}, -4, 4}, {{6}, 0, 1}},
      [](Graph&, const Tensors& in) { return Tensors{in[0].prelu(in[1])}; });
  add("prelu", "F.prelu(x, y[:1])", {{{3, 6}, -4, 4}, {{1}, 0, 1}},
      [](Graph&, const Tensors& in) { return Tensors{in[0].prelu(in[1])}; });
  for (const int axis : {-1, 0}) {
    add("softmax", fmt::format("x.softmax({})", axis), one,
        [=](Graph&, const Tensors& in) { return Tensors{in[0].softmax(axis)}; });
    add("log_softmax", fmt::format("x.log_softmax({})", axis), one,
        [=](Graph&, const Tensors& in) { return Tensors{in[0].log_softmax(axis)}; });
  }
  add("softmax", "x.flatten().softmax(0).reshape(x.shape)", one,
      [](Graph&, const Tensors& in) { return Tensors{in[0].softmax({0, 1})}; });
  for (const int axis : {-1, 0}) {
    suite.specs.push_back({.group = "glu",
                           .torch = fmt::format("F.glu(x, {})", axis),
                           .inputs = {{.dims = {4, 6}, .low = -4, .high = 4, .fixed = {axis}}},
                           .build = [=](Graph&, const Tensors& in) { return Tensors{in[0].glu(axis)}; },
                           .ulps = 16});
    suite.specs.push_back({.group = "swiglu",
                           .torch = fmt::format("(lambda a, b: a * F.silu(b))(*x.chunk(2, {}))", axis),
                           .inputs = {{.dims = {4, 6}, .low = -4, .high = 4, .fixed = {axis}}},
                           .build = [=](Graph&, const Tensors& in) { return Tensors{in[0].swiglu(axis)}; },
                           .ulps = 16});
  }
}

struct Binary {
  const char* name;
  const char* torch;
  GraphTensor (*function)(const GraphTensor&, const GraphTensor&);
  double low = -2, high = 2;
  bool gradient = true;
};

#define LUMINAL_METHOD(name) [](const GraphTensor& a, const GraphTensor& b) { return a.name(b); }
const Binary kBinary[] = {
    {"add", "x + y", [](const GraphTensor& a, const GraphTensor& b) { return a + b; }},
    {"sub", "x - y", [](const GraphTensor& a, const GraphTensor& b) { return a - b; }},
    {"mul", "x * y", [](const GraphTensor& a, const GraphTensor& b) { return a * b; }},
    {"div", "x / y", [](const GraphTensor& a, const GraphTensor& b) { return a / b; }, 0.3, 3},
    {"mod", "torch.remainder(x, y)", [](const GraphTensor& a, const GraphTensor& b) { return a % b; }, 0.3,
     3},
    {"fmod", "torch.fmod(x, y)", LUMINAL_METHOD(fmod), 0.3, 3},
    {"floor_div", "torch.floor_divide(x, y)", LUMINAL_METHOD(floor_div), 0.3, 3, false},
    {"pow", "x ** y", LUMINAL_METHOD(pow), 0.3, 3},
    {"maximum", "torch.maximum(x, y)", LUMINAL_METHOD(maximum)},
    {"minimum", "torch.minimum(x, y)", LUMINAL_METHOD(minimum)},
    {"lt", "x < y", LUMINAL_METHOD(lt), 0, 3, false},
    {"gt", "x > y", LUMINAL_METHOD(gt), 0, 3, false},
    {"le", "x <= y", LUMINAL_METHOD(le), 0, 3, false},
    {"ge", "x >= y", LUMINAL_METHOD(ge), 0, 3, false},
    {"eq", "x == y", LUMINAL_METHOD(eq), 0, 3, false},
    {"ne", "x != y", LUMINAL_METHOD(ne), 0, 3, false},
    {"logical_and", "torch.logical_and(x, y)", LUMINAL_METHOD(logical_and), 0, 2, false},
    {"logical_or", "torch.logical_or(x, y)", LUMINAL_METHOD(logical_or), 0, 2, false},
    {"logical_xor", "torch.logical_xor(x, y)", LUMINAL_METHOD(logical_xor), 0, 2, false},
};

constexpr Dtype kAll[] = {Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::I8,
                          Dtype::U8,  Dtype::I32, Dtype::I64, Dtype::Bool};

bool is_byte(Dtype dtype) { return dtype == Dtype::I8 || dtype == Dtype::U8; }

/// Whether PyTorch has the pair as we do: it has no sums of bool as numbers, we have no i16.
bool comparable(const Binary& op, Dtype a, Dtype b) {
  if (is_byte(a) && is_byte(b) && a != b) return false;
  const std::string name = op.name;
  const bool arithmetic = name == "add" || name == "sub" || name == "mul" || name == "mod" ||
                          name == "fmod" || name == "floor_div" || name == "pow";
  return !(arithmetic && a == Dtype::Bool && b == Dtype::Bool) &&
         !(name == "sub" && (a == Dtype::Bool || b == Dtype::Bool));
}

void add_binary(Suite& suite) {
  for (const Binary& op : kBinary) {
    const Build build = [f = op.function](Graph&, const Tensors& in) { return Tensors{f(in[0], in[1])}; };
    for (const auto& [a, b] : {std::pair<std::vector<int64_t>, std::vector<int64_t>>{{3, 5}, {3, 5}},
                               {{3, 5}, {5}},
                               {{3, 1}, {2, 1, 5}},
                               {{}, {4}}})
      suite.specs.push_back({.group = op.name,
                             .torch = op.torch,
                             .inputs = {{a, op.low, op.high}, {b, op.low, op.high}},
                             .build = build,
                             .gradient = op.gradient,
                             .label = fmt::format("ranks {} {}", a.size(), b.size())});
    // Promotion: every pair of dtypes, in whole numbers that all of them hold.
    for (const Dtype x : kAll)
      for (const Dtype y : kAll) {
        if (!comparable(op, x, y)) continue;
        const auto range = [](Dtype dtype) {
          return InputSpec{{6}, 1, dtype == Dtype::Bool ? 2.0 : 4.0, Values::Integers, dtype};
        };
        suite.specs.push_back({.group = std::string(op.name) + " promotion",
                               .torch = op.torch,
                               .inputs = {range(x), range(y)},
                               .build = build,
                               .gradient = false,
                               .dtypes = {x},
                               .dynamic = false,
                               .label = fmt::format("{} {}", name(x), name(y))});
      }
  }
}
#undef LUMINAL_METHOD

void add_others(Suite& suite) {
  const auto add = [&](const char* group, std::string torch, std::vector<InputSpec> inputs, Build build) {
    suite.specs.push_back(
        {.group = group, .torch = std::move(torch), .inputs = std::move(inputs), .build = std::move(build)});
  };
  add("neg", "-x", {{{3, 5}}}, [](Graph&, const Tensors& in) { return Tensors{-in[0]}; });
  add("where", "torch.where(x > 0, y, z)", {{{3, 5}}, {{3, 5}}, {{5}}},
      [](Graph&, const Tensors& in) { return Tensors{where(in[0].gt(0), in[1], in[2])}; });
  add("clip", "x.clamp(-0.5, 1)", {{{3, 5}}},
      [](Graph&, const Tensors& in) { return Tensors{in[0].clip(-0.5, 1)}; });
  add("clip", "x.clamp(y, z)", {{{3, 5}}, {{5}, -1, -0.5}, {{3, 1}, 0.5, 1}},
      [](Graph&, const Tensors& in) { return Tensors{in[0].clip(in[1], in[2])}; });
  add("scalars", "2 - x, 3 / (x + 4), x * 0.5 + 1, (x + 4) % 3, 2 ** x", {{{3, 5}}},
      [](Graph&, const Tensors& in) {
        const GraphTensor& x = in[0];
        return Tensors{2 - x, 3 / (x + 4), x * 0.5 + 1, (x + 4) % 3, pow(2, x)};
      });
  for (const char* exponent : {"-1", "0", "0.5", "1", "2", "2.5", "3", "4"})
    add("pow of a number", fmt::format("x ** {}", exponent), {{{3, 5}, 0.3, 2}},
        [e = std::stod(exponent)](Graph&, const Tensors& in) { return Tensors{in[0].pow(e)}; });
  for (const Dtype to : kAll)
    for (const Dtype from : kAll)
      suite.specs.push_back({.group = "cast",
                             .torch = fmt::format("x.to(DTYPES['{}'])", name(to)),
                             .inputs = {{{6}, 0, 4}},
                             .build = [=](Graph&, const Tensors& in) { return Tensors{in[0].cast(to)}; },
                             .gradient = is_float(to) && is_float(from),
                             .dtypes = {from}});
  for (const char* op : {"and", "or", "xor"})
    suite.specs.push_back({.group = std::string("bitwise_") + op,
                           .torch = fmt::format("torch.bitwise_{}(x, y)", op),
                           .inputs = {{{3, 5}, 0, 100, Values::Integers}, {{5}, 0, 100, Values::Integers}},
                           .build =
                               [=](Graph&, const Tensors& in) {
                                 const std::string name = op;
                                 return Tensors{name == "and"  ? in[0].bitwise_and(in[1])
                                                : name == "or" ? in[0].bitwise_or(in[1])
                                                               : in[0].bitwise_xor(in[1])};
                               },
                           .gradient = false,
                           .dtypes = {Dtype::I32, Dtype::I64, Dtype::U8, Dtype::I8, Dtype::Bool}});
  for (const int by : {3, -2})
    suite.specs.push_back({.group = "shift",
                           .torch = by > 0 ? "x << 3" : "x >> 2",
                           .inputs = {{{3, 5}, -9, 9, Values::Integers}},
                           .build = [=](Graph&, const Tensors& in) { return Tensors{in[0].shift(by)}; },
                           .gradient = false,
                           .dtypes = {Dtype::I32, Dtype::I64, Dtype::I8}});
}

}  // namespace

void add_elementwise(Suite& suite) {
  add_functions(suite);
  add_activations(suite);
  add_binary(suite);
  add_others(suite);
}

}  // namespace luminal::validate
