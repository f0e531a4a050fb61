"""Evaluates the cases that luminal_validate wrote with PyTorch and compares.

Values are compared with PyTorch's results in f64 (from the same, already rounded inputs), dtypes and shapes
with its results in the case's own dtypes. An error is |got - wanted| relative to |wanted|, or to the greatest
|wanted| of the tensor where a result is a sum; NaN and infinities must stand in the same places.
"""

import argparse
import json
import math
import pathlib
import sys
import textwrap
import warnings
from collections import OrderedDict

import modules
import networks
import numpy
import procedures
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16,
          "i8": torch.int8, "u8": torch.uint8, "u16": torch.uint16, "i32": torch.int32, "i64": torch.int64,
          "bool": torch.bool}
NAMES = ["x", "y", "z", "w", "v", "u"]


def amax_split(x, axes):
    return x.to(torch.uint8).amax(axes).bool() if x.dtype == torch.bool else x.amax(axes)


def prod(x, axes, keep=False):
    for axis in sorted(axes, reverse=True):
        x = x.prod(axis, keepdim=keep)
    return x


def wrapped_sum(x, axes):
    """Sums of integers in their own dtype, as the primitive has them."""
    return x.sum(axes).to(x.dtype) if not x.is_floating_point() else x.sum(axes)


def shift(x, y):
    """Left by y > 0, arithmetically right by -y; the width and more moves everything out."""
    bits = torch.iinfo(x.dtype).bits
    wide, by = x.to(torch.int64), y.to(torch.int64)
    left = torch.where(by >= bits, torch.zeros_like(wide), wide << by.clamp(0, bits - 1))
    right = wide >> (-by).clamp(0, 63 if bits == 64 else bits - 1 if x.dtype != torch.uint8 else bits)
    return torch.where(by >= 0, left, right).to(x.dtype)


def int_div(x, y):
    safe = torch.where(y == 0, torch.ones_like(y), y)
    return torch.where(y == 0, torch.zeros_like(x), torch.div(x, safe, rounding_mode="floor"))


def mod(x, y):
    if x.is_floating_point():
        return torch.remainder(x, y)
    safe = torch.where(y == 0, torch.ones_like(y), y)
    return torch.where(y == 0, torch.zeros_like(x), torch.remainder(x, safe))


def cast(x, name):
    """Out-of-range floats saturate and NaN gives 0; PyTorch leaves that open."""
    dtype = DTYPES[name]
    if x.is_floating_point() and not dtype.is_floating_point and dtype != torch.bool:
        info = torch.iinfo(dtype)
        wide = x.double().nan_to_num(0.0, 1e300, -1e300).trunc()
        inside = wide.clamp(info.min, math.nextafter(float(info.max) + (info.max > 2**53), 0.0)).to(torch.int64)
        inside = torch.where(wide >= float(info.max), torch.full_like(inside, info.max), inside)
        return torch.where(wide <= float(info.min), torch.full_like(inside, info.min), inside).to(dtype)
    return x.to(dtype)


def bitcast(x, name):
    return x.view(DTYPES[name])


def random_bits(element, key, run, bits):
    """Of word `element` of Philox4x32-10 (Salmon et al. 2011) the top bits; of two words for more than 32."""
    element, key, run = (x.cpu().numpy().astype(numpy.uint64) for x in (element, key, run))
    low, high = (lambda x: x & numpy.uint64(0xFFFFFFFF)), (lambda x: x >> numpy.uint64(32))
    first = element * numpy.uint64(2 if bits > 32 else 1)
    number, keys = first >> numpy.uint64(2), [low(key), high(key)]
    words = [low(number), high(number), low(run), high(run)]
    for _ in range(10):
        a, b = words[0] * numpy.uint64(0xD2511F53), words[2] * numpy.uint64(0xCD9E8D57)
        words = [high(b) ^ words[1] ^ keys[0], low(b), high(a) ^ words[3] ^ keys[1], low(a)]
        keys = [low(keys[0] + numpy.uint64(0x9E3779B9)), low(keys[1] + numpy.uint64(0xBB67AE85))]
    place = (first & numpy.uint64(3)).astype(int)
    value = numpy.choose(place, words)
    if bits > 32:
        value = value << numpy.uint64(32) | numpy.choose((place + 1) % 4, words)
    value = value >> numpy.uint64((64 if bits > 32 else 32) - bits)
    return torch.from_numpy(value.astype(numpy.int64)).to(torch.int32 if bits < 32 else torch.int64)


def maximum(x, y):
    return torch.maximum(x, y)


PRIMITIVES = {
    "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "div": lambda x, y: x / y, "mod": mod, "int_div": int_div,
    "max": maximum, "less_than": lambda x, y: x < y, "and": torch.bitwise_and, "or": torch.bitwise_or,
    "xor": torch.bitwise_xor, "shift": shift, "where": torch.where, "pow": torch.pow, "log2": torch.log2,
    "exp2": torch.exp2, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "tanh": torch.tanh,
    "recip": torch.reciprocal, "sqrt": torch.sqrt, "floor": torch.floor, "exp": torch.exp, "log": torch.log,
    "log1p": torch.log1p, "expm1": torch.expm1, "erf": torch.erf, "cast": cast, "bitcast": bitcast,
    "random_bits": random_bits, "detach": lambda x: x.detach(), "graph_break": lambda x: x, "sum_reduce": wrapped_sum, "max_reduce": amax_split,
    "prod_reduce": lambda x, axes: prod(x, axes).to(x.dtype),
}


def integer(function, x):
    """What a function gives for integers: PyTorch has some of them for floats only, where f32 is meant."""
    try:
        return function(x)
    except (RuntimeError, NotImplementedError):
        return function(x.float())


def widened(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def single(tensor):
    """What torch.autocast makes of an input of a loss."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def as_tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def focal(x, y, reduction):
    """torchvision.ops.sigmoid_focal_loss, which PyTorch itself lacks."""
    p = torch.sigmoid(x)
    entropy = F.binary_cross_entropy_with_logits(x, y, reduction="none")
    loss = entropy * (1 - (p * y + (1 - p) * (1 - y))) ** 2 * (0.25 * y + 0.75 * (1 - y))
    return loss if reduction == "none" else getattr(loss, reduction)()


SCOPE = {"FOCAL": focal, "procedures": procedures, "modules": modules, "networks": networks,
         "OrderedDict": OrderedDict, "torch": torch, "F": F, "nn": nn, "math": math, "PRIMITIVES": PRIMITIVES, "DTYPES": DTYPES, "PROD": prod,
         "INTEGER": integer, "S": procedures.S}


def clipped(results):
    """The norm of halves is f32 here: PyTorch's own overflows in f16 from 65,504 on."""
    return (*results[:-1], results[-1] if results[-1].dtype == torch.float64 else results[-1].float())


SCOPE["CLIPPED"] = clipped


class Mismatch(Exception):
    pass


def error_of(got, wanted, scale):
    if tuple(got.shape) != tuple(wanted.shape):
        raise Mismatch(f"shape {tuple(got.shape)}, PyTorch has {tuple(wanted.shape)}")
    if got.numel() == 0:
        return 0.0
    dtype = got.dtype
    if not dtype.is_floating_point:
        if not wanted.dtype.is_floating_point:
            return 0.0 if torch.equal(got.to(torch.int64), wanted.to(torch.int64)) else math.inf
        return 0.0 if torch.equal(got.double(), wanted.double()) else math.inf
    a, b = got.double(), wanted.double()
    least = torch.finfo(dtype).tiny
    same = (a == b) | (a.isnan() & b.isnan())
    overflows = b.to(dtype).isinf() | b.isinf()
    same |= overflows & (a == b.to(dtype).double())
    finite = a.isfinite() & b.isfinite()
    if not (same | finite).all():
        return math.inf
    measure = b.abs()
    if scale == "tensor":
        measure = torch.full_like(b, float(b[b.isfinite()].abs().max()) if b.isfinite().any() else 0.0)
    error = (a - b).abs() / measure.clamp(min=least)
    return float(error[~same].max()) if (~same).any() else 0.0


def check_dtype(name, got, wanted):
    if got.dtype != wanted.dtype:
        raise Mismatch(f"{name} is {got.dtype}, PyTorch has {wanted.dtype}")


class Case:
    """One entry of cases.json with its tensors; `wanted` collects what PyTorch says, by tensor name."""

    def __init__(self, entry, number, tensors):
        self.entry = entry
        self.tensors = {name: tensors[f"{number}/{name}"] for name in entry["tensors"]}
        self.wanted, self.peer = {}, {}
        self.dtype = DTYPES[entry["dtype"]]

    def listed(self, prefix):
        found = {}
        for name, tensor in self.tensors.items():
            if name.startswith(prefix):
                found[name[len(prefix):]] = tensor
        return found

    def inputs(self, convert=lambda tensor: tensor):
        found = self.listed("in/")
        return [convert(found[str(i)]) for i in range(len(found))]

    def evaluate(self, expression, inputs, **more):
        scope = dict(SCOPE)
        scope.update(zip(NAMES, inputs))
        scope.update(more)
        return eval(expression, scope)

    def run_value(self):
        code = self.entry["torch"]
        # Reading bits as another dtype means nothing in f64.
        bits = "bitcast" in code
        precise = as_tuple(self.evaluate(code, self.inputs() if bits else self.inputs(widened)))
        try:
            plain = as_tuple(self.evaluate(code, self.inputs(single) if self.entry.get("single") else self.inputs()))
        except NotImplementedError:  # PyTorch lacks some functions of f16, which would give f16
            plain = tuple(result.to(self.inputs()[0].dtype) for result in precise)
        outputs = self.listed("out/")
        if len(plain) != len(outputs):
            raise Mismatch(f"{len(outputs)} results, PyTorch has {len(plain)}")
        for i, (own, exact) in enumerate(zip(plain, precise)):
            check_dtype(f"result {i}", outputs[str(i)], own)
            self.wanted[f"out/{i}"] = exact

    def leaves(self, convert=widened):
        wanted = self.listed("grad/")
        return [tensor.requires_grad_() if str(i) in wanted else tensor
                for i, tensor in enumerate(self.inputs(lambda t: convert(t).clone()))]

    def backward(self, outputs):
        ups = self.listed("up/")
        loss = sum((output * ups[str(i)].to(output.dtype)).sum() for i, output in enumerate(outputs) if str(i) in ups)
        if loss.requires_grad:
            loss.backward()

    def run_gradient(self):
        leaves = self.leaves()
        self.backward(as_tuple(self.evaluate(self.entry["torch"], leaves)))
        for key in self.listed("grad/"):
            leaf = leaves[int(key)]
            self.wanted[f"grad/{key}"] = leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
            own = self.tensors[f"in/{key}"]
            check_dtype(f"gradient {key}", self.tensors[f"grad/{key}"], own)

    def module_results(self, dtype):
        """What PyTorch's module computes in this dtype, by tensor name."""
        def convert(tensor):
            return tensor.to(dtype) if tensor.is_floating_point() else tensor

        module = self.evaluate(self.entry["torch"], []).to(dtype)
        state = self.listed("state/")
        module.load_state_dict({name: convert(tensor) for name, tensor in state.items()})
        own = module.state_dict()
        for name, tensor in state.items():
            if tuple(own[name].shape) != tuple(tensor.shape):
                raise Mismatch(f"weight {name} is {tuple(tensor.shape)}, PyTorch has {tuple(own[name].shape)}")
        module.train(self.entry["train"])
        leaves = self.leaves(convert)
        outputs = as_tuple(self.evaluate(self.entry["call"], leaves, m=module))
        self.backward(outputs)
        results = {f"out/{i}": output.detach() for i, output in enumerate(outputs[: len(self.listed("out/"))])}
        parameters = dict(module.named_parameters(remove_duplicate=False))
        for key in self.listed("grad/"):
            tensor = leaves[int(key)] if key.isdigit() else parameters[key]
            results[f"grad/{key}"] = tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
        for key in self.listed("after/"):
            results[f"after/{key}"] = module.state_dict()[key]
        return results

    def run_module(self):
        self.wanted = self.module_results(torch.float64)
        try:
            self.peer = self.module_results(self.dtype)
        except RuntimeError as problem:
            if "not implemented" not in str(problem):
                raise
            return  # PyTorch lacks it in this dtype on the CPU
        for name, tensor in self.peer.items():
            check_dtype(name, self.tensors[name], tensor)

    def peer_error(self):
        """PyTorch's own worst error in the case's dtype, by the same measure."""
        return max((error_of(self.peer[name], self.wanted[name].detach(), self.entry["scale"]) for name in self.peer),
                   default=0.0)

    def run_procedure(self):
        outputs = self.listed("out/")
        result = self.evaluate(self.entry["torch"], self.inputs(widened), t=outputs, state=self.listed("state/"))
        if not self.entry["gives_error"]:
            if result.keys() != outputs.keys():
                raise Mismatch(f"results {sorted(outputs)}, PyTorch has {sorted(result)}")
            self.wanted = {f"out/{name}": torch.as_tensor(tensor) for name, tensor in result.items()}
        return result

    def judge(self):
        """Worst share of the tolerance, and the (error, tolerance) it comes from."""
        if "error" in self.entry:
            raise Mismatch(self.entry["error"])
        kind = self.entry["kind"]
        result = getattr(self, f"run_{kind}")()
        tolerances = self.entry["tolerances"]
        if kind == "procedure" and self.entry["gives_error"]:
            return float(result), next(iter(tolerances.values()))
        worst = (0.0, 0.0)
        for name, wanted in self.wanted.items():
            error = error_of(self.tensors[name], wanted.detach(), self.entry["scale"])
            if error > 0 and error * worst[1] >= worst[0] * tolerances[name] or worst == (0.0, 0.0):
                worst = (error, tolerances[name])
        return worst


def judge_all(cases, tensors):
    rows, failures, halves = {}, [], {"f16": [0.0, 0.0], "bf16": [0.0, 0.0]}
    judged = []
    for number, entry in enumerate(cases):
        case = Case(entry, number, tensors)
        try:
            error, tolerance = case.judge()
            ok, why = error <= tolerance, f"error {error:.3g}, tolerance {tolerance:.3g}"
        except Exception as problem:  # an expression that PyTorch rejects is a failed case, too
            error, tolerance, ok, why = math.inf, 0.0, False, f"{type(problem).__name__}: {problem}"
        row = rows.setdefault(entry["group"], [0, 0.0, tolerance, True])
        row[0] += 1
        row[3] &= ok
        # The case that comes nearest to its tolerance stands for all.
        if error > 0 and error * row[2] >= row[1] * tolerance:
            row[1:3] = error, tolerance
        judged.append(case)
        if case.peer and entry["dtype"] in halves:
            worst = halves[entry["dtype"]]
            worst[:] = max(worst[0], error), max(worst[1], case.peer_error())
        if not ok:
            failures.append(f"{entry['name']}: {why}")
    return rows, failures, judged, halves


def write_table(path, device_rows, total, failed, halves):
    worst = "; ".join(f"{dtype} {ours:.2g}, PyTorch's own in that dtype {theirs:.2g}"
                      for dtype, (ours, theirs) in halves.items())
    lines = [f"{total} cases, {failed} failed (PyTorch {torch.__version__.split('+')[0]})", "",
             "Made by `make validate`: every op, its gradient, module, loss, optimizer, scheduler and random",
             "distribution against PyTorch. An error is relative to the value, or to the greatest value of the",
             "tensor where the result is a sum. Each case has the tolerance of its own dtype; of a row's cases, dtypes and",
             "views, the one that comes nearest to its tolerance is shown. How the cases are made:",
             "`tests/validate/cases/`, what they mean in PyTorch: `tools/validate/compare.py`.", "",
             *textwrap.wrap(
                 "Dtypes and shapes are those of PyTorch in the same dtype, values those of PyTorch in f64 on the same "
                 "rounded inputs and weights: against its halves two roundings would be compared. Every op, module and "
                 "loss runs in f32, f64, f16 and bf16, with fixed sizes and with named ones (batch, lengths, images: all "
                 "that weights do not decide). Allowed are up to 256 units of the last place in f32 and f64, by the "
                 "length of sums; 4 in f16 and bf16, where sums are formed in f32 and each op rounds once, and 8 for "
                 "recurrent layers and transformers, whose steps and blocks follow each other. ResNet and U-Net run in "
                 "f32 and f64: where a half rounds to the other side of a ReLU, a gradient comes or goes. The worst error "
                 f"of a module: {worst}.", 120), ""]
    for device, rows in device_rows:
        device, _, mode = device.partition(":")
        title = f"## Device `{device}`" + (", Optimal mode: a case in f32 of every fourth row, all plain ones of models, a run of each optimizer" if mode else "")
        lines += [title, "", "| case | cases | worst error | tolerance | result |", "|---|---|---|---|---|"]
        for group in sorted(rows):
            count, worst, tolerance, ok = rows[group]
            lines.append(f"| {group} | {count} | {worst:.2g} | {tolerance:.2g} | {'ok' if ok else 'FAIL'} |")
        lines.append("")
    path.write_text("\n".join(lines))


def store(path, judged):
    """The first plain f32 value and gradient of each group, and of modules one in bf16 at named sizes, too."""
    chosen, seen = {}, set()
    for case in judged:
        entry = case.entry
        small = sum(tensor.numel() for tensor in case.wanted.values()) <= 700
        form = "/bf16/dynamic/" if entry["kind"] == "module" and entry["group"] in seen else "/f32/plain/"
        if not case.wanted or not small or entry["kind"] == "procedure" or form not in entry["name"]:
            continue
        if entry["group"] + form in seen:
            continue
        seen.update((entry["group"], entry["group"] + form))
        for name, wanted in case.wanted.items():
            got = case.tensors[name]
            chosen[f"{entry['name']}|{name}"] = wanted.detach().to(got.dtype).contiguous().clone()
    save_file(chosen, path)
    return len({entry for entry in seen if not entry.endswith("/")})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="what luminal_validate wrote, one per device")
    parser.add_argument("--table", type=pathlib.Path)
    parser.add_argument("--store", type=pathlib.Path, help="write the expectations of `make test`")
    arguments = parser.parse_args()
    # What PyTorch says of its own future is no result.
    warnings.filterwarnings("ignore", category=UserWarning)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tables, total, failures, first, halves = [], 0, [], None, {}
    for folder in arguments.folders:
        content = json.loads((folder / "cases.json").read_text())
        rows, failed, judged, errors = judge_all(content["cases"], load_file(folder / "tensors.safetensors"))
        for dtype, pair in errors.items():
            halves[dtype] = [max(both) for both in zip(pair, halves.get(dtype, pair))]
        name = content["device"] + (":optimal" if content["optimal"] else "")
        tables.append((name, rows))
        first = first or judged
        total += len(content["cases"])
        failures += [f"[{name}] {line}" for line in failed]
    for line in failures:
        print(line, file=sys.stderr)
    if arguments.table:
        write_table(arguments.table, tables, total, len(failures), halves)
    if arguments.store and not failures:
        print(f"{store(arguments.store, first)} groups stored in {arguments.store}")
    print(f"{total} cases, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
