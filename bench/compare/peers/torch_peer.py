"""PyTorch: torch_peer.py THREADS eager|channels-last|compile."""
import sys

import torch
import torch.nn.functional as F
import torch_models
from worker import serve

THREADS, VARIANT = int(sys.argv[1]), sys.argv[2]
CHANNELS_LAST = VARIANT == "channels-last"
torch.set_num_threads(THREADS)
torch.manual_seed(0)


def compiled(function):
    if VARIANT != "compile":
        return function
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def images_first(*tensors):
    return [t.to(memory_format=torch.channels_last) if CHANNELS_LAST else t for t in tensors]


def inference(function, *arguments):
    made = compiled(function)

    def run():
        with torch.inference_mode() if VARIANT != "compile" else torch.no_grad():
            return made(*arguments)
    return run


def gemm(m, n, k, transposed):
    a = torch.randn(k, m).t() if "a" in transposed else torch.randn(m, k)
    b = torch.randn(n, k).t() if "b" in transposed else torch.randn(k, n)
    return inference(torch.matmul, a, b)


def batched(batch, m, n, k):
    return inference(torch.matmul, torch.randn(*batch, m, k), torch.randn(*batch, k, n))


def heads(batch, length, count, width):
    q, k = (torch.randn(batch, length, count, width) for _ in range(2))
    return inference(lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k), q, k)


def formula(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, -1) @ v


def attention(count, length, width, how, causal, grad=False):
    q, k, v = (torch.randn(1, count, length, width, requires_grad=grad) for _ in range(3))
    if how != "fused":
        return inference(formula, q, k, v)
    fused = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal)  # noqa: E731
    if not grad:
        return inference(fused, q, k, v)
    y = compiled(fused)(q, k, v)
    upstream = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, (q, k, v), upstream, retain_graph=True)


def decode(length, queries, keys, width):
    q, k, v = torch.randn(1, queries, 1, width), torch.randn(1, keys, length, width), torch.randn(1, keys, length, width)
    if VARIANT != "compile":
        return inference(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), q, k, v)
    return inference(lambda q, k, v: formula(q.view(1, keys, queries // keys, width), k, v), q, k, v)


def conv(batch, channels, side, out, kernel, stride, groups, grad):
    x, w = images_first(torch.randn(batch, channels, side, side), torch.randn(out, channels // groups, kernel, kernel))
    p = kernel // 2
    if not grad:
        return inference(lambda x, w: F.conv2d(x, w, None, stride, p, 1, groups), x, w)
    upstream, = images_first(torch.randn_like(F.conv2d(x, w, None, stride, p, 1, groups)))
    mask = [grad == "x", grad == "w", False]
    return inference(lambda d, x, w: torch.ops.aten.convolution_backward(
        d, x, w, None, [stride] * 2, [p] * 2, [1, 1], False, [0, 0], groups, mask), upstream, x, w)


def rows(name, n, m):
    if name in ("gather", "scatter-add"):
        index, table = torch.randint(0, 32000, (n,)), torch.randn(32000, m)
        if name == "gather":
            return inference(lambda t, i: F.embedding(i, t), table, index)
        upstream = torch.randn(n, m)
        return inference(lambda d, i: torch.zeros(32000, m).index_add_(0, i, d), upstream, index)
    if name == "max pool 3/2":
        return inference(lambda x: F.max_pool2d(x, 3, 2, 1), *images_first(torch.randn(16, 64, 112, 112)))
    if name == "sum middle axis":
        return inference(lambda x: x.sum(1), torch.randn(64, n // 64, m))
    weight, bias = torch.randn(m), torch.randn(m)
    functions = {
        "relu(a*b+c)*d": (lambda a, b, c, d: torch.relu(a * b + c) * d, 4),
        "gelu+residual": (lambda a, b: F.gelu(a) + b, 2),
        "softmax": (lambda a: torch.softmax(a, -1), 1),
        "layer_norm": (lambda a: F.layer_norm(a, (m,), weight, bias), 1),
        "rms_norm": (lambda a: F.rms_norm(a, (m,), weight, 1e-6), 1),
        "sum axis 0": (lambda a: a.sum(0), 1),
        "sum axis 1": (lambda a: a.sum(1), 1),
        "transpose": (lambda a: a.t().contiguous().exp(), 1),
        "cumsum": (lambda a: a.cumsum(1), 1),
        "sort": (lambda a: a.sort(1)[0], 1),
        "top-k 50": (lambda a: a.topk(50, 1)[0], 1),
    }
    function, count = functions[name]
    return inference(function, *(torch.randn(n, m) for _ in range(count)))


def step(model, x, y, optimizer):
    if x.dim() == 4:
        x, = images_first(x)
        model = model.to(memory_format=torch.channels_last) if CHANNELS_LAST else model
    fused = {} if VARIANT == "eager" else {"fused": True}
    update = optimizer(model.parameters(), **fused)
    forward = compiled(model)

    def run():
        update.zero_grad()
        F.cross_entropy(forward(x).flatten(0, -2), y.flatten()).backward()
        update.step()
    return run


def evaluated(model, x):
    model.eval()
    if x.dim() == 4:
        x, = images_first(x)
        model = model.to(memory_format=torch.channels_last) if CHANNELS_LAST else model
    return inference(model, x)


def image_sgd(parameters, **fused):
    return torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=1e-4, **fused)


def model(name, batch=None):
    if not name.endswith("-step"):
        return evaluated(*torch_models.evaluation(name, batch))
    made, x, y = torch_models.training(name, batch)
    optimizers = {
        "mnist-step": lambda p, **k: torch.optim.Adam(p, 1e-3, **k),
        "lstm-step": lambda p, **k: torch.optim.Adam(p, 1e-3, **k),
        "mlp-step": lambda p, **k: torch.optim.SGD(p, 0.01, **k),
        "gpt-step": lambda p, **k: torch.optim.AdamW(p, 1e-3, (0.9, 0.99), weight_decay=0.1, **k),
    }
    return step(made, x, y, optimizers.get(name, image_sgd))


OPERATIONS = dict(gemm=gemm, batched=batched, heads=heads, attention=attention, decode=decode, conv=conv, rows=rows)


def build(case):
    op, args = case["op"], case["args"]
    of_images = op == "conv" or op in ("mnist-step", "unet") or "net" in op or args[:1] == ["max pool 3/2"]
    if CHANNELS_LAST and not of_images:
        return None
    if op == "attention":
        return attention(*args, grad=case["suite"] == "attention-grad")
    return OPERATIONS[op](*args) if op in OPERATIONS else model(op, **case.get("dims", {}))


serve(build)
