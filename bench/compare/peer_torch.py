"""PyTorch as a peer: answers requests from standard input, one JSON object a line, one sample at a time."""
import json
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

THREADS, VARIANT = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "eager"
torch.set_num_threads(THREADS)
torch.manual_seed(0)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.l1, self.l2 = nn.Linear(1568, 128), nn.Linear(128, 10)

    def forward(self, x, y):
        x = F.max_pool2d(torch.relu(self.c1(x)), 2)
        x = F.max_pool2d(torch.relu(self.c2(x)), 2).flatten(1)
        return F.cross_entropy(self.l2(torch.relu(self.l1(x))), y)


def train():
    model, x, y = Digits(), torch.randn(64, 1, 28, 28), torch.randint(0, 10, (64,))
    if VARIANT == "channels-last":
        model, x = model.to(memory_format=torch.channels_last), x.to(memory_format=torch.channels_last)
    adam = torch.optim.Adam(model.parameters(), 1e-3, fused=VARIANT != "eager")

    def step():
        adam.zero_grad()
        model(x, y).backward()
        adam.step()
    return step


def row_function(name, n, m):
    a, b, c, d = (torch.randn(n, m) for _ in range(4))
    return {
        "relu(a*b+c)*d": lambda: torch.relu(a * b + c) * d,
        "gelu+residual": lambda: F.gelu(a) + b,
        "softmax": lambda: torch.softmax(a, -1),
        "layer_norm": lambda: F.layer_norm(a, (m,)),
        "sum axis 0": lambda: a.sum(0),
        "sum axis 1": lambda: a.sum(1),
        "transpose": lambda: a.t().contiguous().exp(),
    }[name]


def function_of(case):
    args = case["args"]
    if case["suite"] == "gemm":
        m, n, k = args
        a, b = torch.randn(m, k), torch.randn(k, n)
        return lambda: a @ b
    if case["suite"] == "batched":
        batch, m, n, k = args
        a, b = torch.randn(*batch, m, k), torch.randn(*batch, k, n)
        return lambda: a @ b
    if case["suite"] == "attention":
        heads, length, size, how = args
        q, k, v = (torch.randn(1, heads, length, size) for _ in range(3))
        if how == "fused":
            return lambda: F.scaled_dot_product_attention(q, k, v)
        return lambda: torch.softmax(q @ k.transpose(-1, -2) * size ** -0.5, -1) @ v
    if case["suite"] == "conv":
        batch, channels, side, out, kernel = args
        x, w = torch.randn(batch, channels, side, side), torch.randn(out, channels, kernel, kernel)
        if VARIANT == "channels-last":
            x, w = x.to(memory_format=torch.channels_last), w.to(memory_format=torch.channels_last)
        return lambda: F.conv2d(x, w, padding=kernel // 2)
    if case["suite"] == "rows":
        return row_function(*args)
    return train()


def main():
    known = {}
    for line in sys.stdin:
        case = json.loads(line)
        key = case["suite"] + case["case"]
        if key not in known:
            known.clear()
            known[key] = function_of(case)
            for _ in range(3):
                with torch.set_grad_enabled(case["suite"] == "train"):
                    known[key]()
        run = known[key]
        with torch.set_grad_enabled(case["suite"] == "train"):
            start = time.perf_counter()
            run()
            runs = max(1, int(case["ms"] * 1e-3 / max(time.perf_counter() - start, 1e-7)))
            start = time.perf_counter()
            for _ in range(runs):
                run()
        print(json.dumps({"us": (time.perf_counter() - start) / runs * 1e6}), flush=True)


main()
