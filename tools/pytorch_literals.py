#!/usr/bin/env python3
"""Writes tests/unit/composite/pytorch_literals.h: what PyTorch computes, in f64, for the high-level ops.

Run it in an environment with torch when an op is added:  python3 tools/pytorch_literals.py
"""
import math
import pathlib
import struct

import torch
from torch.nn import functional as F

INF, NAN = math.inf, math.nan


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def literal(x):
    if math.isnan(x):
        return "kNaN"
    if math.isinf(x):
        return "kInf" if x > 0 else "-kInf"
    return repr(x)


def literals(xs):
    return "{" + ", ".join(literal(x) for x in xs) + "}"


def clip(x, low, high):
    """clamp, with the gradient of 1 at its bounds that releases of PyTorch differ on."""
    return torch.where(x < low, low, torch.where(x > high, high, x))


UNARY_INPUTS = [f32(x) for x in (
    -INF, -1e30, -1000, -100, -25.5, -20, -3, -2.5, -1.5, -1, -0.7, -0.5, -1e-3, -1e-8, -0.0, 0.0, 1e-8, 1e-3, 0.3, 0.5,
    0.9, 1, 1.5, 2, 2.5, 3, 3.5, 20, 21, 100, 1000, 1e5, 1e30, INF, NAN)]
UNARY = {
    "abs": torch.abs, "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc,
    "exp": torch.exp, "exp2": torch.exp2, "log": torch.log, "log2": torch.log2, "log1p": torch.log1p,
    "expm1": torch.expm1, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "erf": torch.erf, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "square": torch.square, "relu": F.relu, "leaky_relu": F.leaky_relu,
    "elu": F.elu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "softplus": F.softplus, "softplus_2_3": lambda x: F.softplus(x, beta=2, threshold=3), "silu": F.silu,
    "hard_swish": F.hardswish, "mish": F.mish, "clip": lambda x: clip(x, -1.5, 2.5),
    "pow_2": lambda x: x ** 2, "pow_3": lambda x: x ** 3, "pow_m1": lambda x: x ** -1.0, "pow_m3": lambda x: x ** -3.0,
}

BINARY_INPUTS = [f32(x) for x in (-INF, -7, -3, -2.5, -2, -1, -0.5, -0.0, 0.0, 0.1, 0.5, 1, 2, 2.5, 3, 7, INF, NAN)]
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "mod": torch.remainder,
    "fmod": torch.fmod, "floor_div": lambda a, b: torch.div(a, b, rounding_mode="floor"), "pow": torch.pow,
    "maximum": torch.maximum, "minimum": torch.minimum, "lt": torch.lt, "gt": torch.gt, "le": torch.le,
    "ge": torch.ge, "eq": torch.eq, "ne": torch.ne,
}


def values_and_slopes(function):
    x = torch.tensor(UNARY_INPUTS, dtype=torch.float64, requires_grad=True)
    y = function(x)
    y.sum().backward()
    return y.tolist(), x.grad.tolist()


def main():
    lines = [
        "#pragma once", "// Written by tools/pytorch_literals.py.", "// clang-format off", "#include <limits>",
        "#include <map>", "#include <string>", "#include <vector>", "", "namespace luminal::pytorch {", "",
        "inline constexpr double kInf = std::numeric_limits<double>::infinity();",
        "inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();", "",
        "struct Curve {", "  std::vector<double> values, slopes;", "};", "",
        f"inline const std::vector<double> kUnaryInputs = {literals(UNARY_INPUTS)};",
        "inline const std::map<std::string, Curve> kUnary = {",
    ]
    for name, function in UNARY.items():
        values, slopes = values_and_slopes(function)
        lines.append(f'  {{"{name}", {{{literals(values)},\n    {literals(slopes)}}}}},')
    lines += ["};", "", "/// Every pair of these, row by row.",
              f"inline const std::vector<double> kBinaryInputs = {literals(BINARY_INPUTS)};",
              "inline const std::map<std::string, std::vector<double>> kBinary = {"]
    a = torch.tensor(BINARY_INPUTS, dtype=torch.float64)
    for name, function in BINARY.items():
        result = function(a[:, None], a[None, :]).to(torch.float64)
        lines.append(f'  {{"{name}", {literals(result.flatten().tolist())}}},')
    lines += ["};", "", "}  // namespace luminal::pytorch", ""]
    path = pathlib.Path(__file__).parent.parent / "tests/unit/composite/pytorch_literals.h"
    path.write_text("\n".join(lines))


main()
