#!/usr/bin/env python3
"""Writes tests/unit/training/data/pytorch.safetensors: what PyTorch's optimizers, losses, schedules, clipping and
GradScaler compute in f64. LAMB and Lion, which PyTorch lacks, are written out here from their papers.

Run it in an environment with torch and safetensors when one is added: python3 tools/pytorch_training.py
"""
import math
import pathlib
import warnings

import torch
from safetensors.torch import save_file
from torch.nn import functional as F
from torch.optim import lr_scheduler

warnings.filterwarnings("ignore")
torch.set_default_dtype(torch.float64)
tensors = {}


def wave(*dims, rate=0.7, shift=0.3):
    n = math.prod(dims)
    return torch.sin(torch.arange(n) * rate + shift).reshape(dims)


# --- Optimizers: 100 steps on a small problem; the rate halves after 50.
def problem():
    a, b = wave(3, 4).clone().requires_grad_(), (wave(4, rate=1.3) * 0.5).clone().requires_grad_()
    x, y = wave(5, 3, rate=2.1), wave(5, 4, rate=0.9)
    return [a, b], lambda: ((torch.tanh(x @ a + b) - y) ** 2).mean() + 0.01 * (a ** 4).sum()


def optimizer(name, make, rate):
    params, loss = problem()
    step = make(params)
    for i in range(100):
        for p in params:
            p.grad = None
        loss().backward()
        step(rate if i < 50 else rate / 2)
        if i + 1 in (1, 10, 100):
            for j, p in enumerate(params):
                tensors[f"optimizer/{name}/{i + 1}/{j}"] = p.detach().clone()


def of_torch(cls, **options):
    def make(params):
        opt = cls(params, lr=1.0, **options)

        def step(rate):
            opt.param_groups[0]["lr"] = rate
            opt.step()
        return step
    return make


def lamb(beta1=0.9, beta2=0.999, eps=1e-6, decay=0.01):
    def make(params):
        m, v, t = [torch.zeros_like(p) for p in params], [torch.zeros_like(p) for p in params], [0]

        @torch.no_grad()
        def step(rate):
            t[0] += 1
            for i, p in enumerate(params):
                m[i] = beta1 * m[i] + (1 - beta1) * p.grad
                v[i] = beta2 * v[i] + (1 - beta2) * p.grad ** 2
                r = (m[i] / (1 - beta1 ** t[0])) / (torch.sqrt(v[i] / (1 - beta2 ** t[0])) + eps) + decay * p
                weight, update = torch.linalg.norm(p), torch.linalg.norm(r)
                p -= rate * (weight / update if weight > 0 and update > 0 else 1.0) * r
        return step
    return make


def lion(beta1=0.9, beta2=0.99, decay=0.0):
    def make(params):
        m = [torch.zeros_like(p) for p in params]

        @torch.no_grad()
        def step(rate):
            for i, p in enumerate(params):
                update = torch.sign(beta1 * m[i] + (1 - beta1) * p.grad)
                m[i] = beta2 * m[i] + (1 - beta2) * p.grad
                p -= rate * (update + decay * p)
        return step
    return make


optimizer("sgd", of_torch(torch.optim.SGD), 0.1)
optimizer("sgd_momentum", of_torch(torch.optim.SGD, momentum=0.9, dampening=0.3, weight_decay=0.02), 0.05)
optimizer("sgd_nesterov", of_torch(torch.optim.SGD, momentum=0.8, nesterov=True), 0.05)
optimizer("adam", of_torch(torch.optim.Adam), 0.05)
optimizer("adam_decay", of_torch(torch.optim.Adam, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1), 0.05)
optimizer("adam_amsgrad", of_torch(torch.optim.Adam, amsgrad=True, betas=(0.9, 0.9)), 0.05)
optimizer("adamw", of_torch(torch.optim.AdamW), 0.05)
optimizer("adamw_amsgrad", of_torch(torch.optim.AdamW, weight_decay=0.2, amsgrad=True), 0.05)
optimizer("rmsprop", of_torch(torch.optim.RMSprop), 0.01)
optimizer("rmsprop_all", of_torch(torch.optim.RMSprop, alpha=0.9, momentum=0.5, centered=True, weight_decay=0.01, eps=1e-4), 0.01)
optimizer("lamb", lamb(), 0.02)
optimizer("lamb_plain", lamb(0.8, 0.9, 1e-4, 0.0), 0.02)
optimizer("lion", lion(), 0.01)
optimizer("lion_decay", lion(0.95, 0.98, 0.1), 0.01)


# --- Clipping
def clip(name, limit, norm_type):
    a, b = wave(3, 4).requires_grad_(), wave(4, rate=1.3).requires_grad_()
    a.grad, b.grad = wave(3, 4, rate=0.4) * 2, wave(4, rate=0.8) * 3
    if norm_type is None:
        torch.nn.utils.clip_grad_value_([a, b], limit)
    else:
        tensors[f"clip/{name}/norm"] = torch.nn.utils.clip_grad_norm_([a, b], limit, norm_type).clone()
    tensors[f"clip/{name}/0"], tensors[f"clip/{name}/1"] = a.grad, b.grad


clip("norm", 1.5, 2.0)
clip("norm_loose", 100.0, 2.0)
clip("norm_3", 1.5, 3.0)
clip("norm_inf", 0.5, math.inf)
clip("value", 0.7, None)


# --- Losses
def loss(name, function, *inputs):
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    y = function(*inputs)
    (y * torch.cos(torch.arange(y.numel(), dtype=torch.float64).reshape(y.shape) * 0.7 + 0.3)).sum().backward()
    tensors[f"loss/{name}/value"] = y.detach().clone()
    for i, x in enumerate(inputs):
        tensors[f"loss/{name}/in/{i}"] = x.detach().clone()
        if x.requires_grad and x.grad is not None:
            tensors[f"loss/{name}/grad/{i}"] = x.grad.clone()


x, y = wave(4, 3) * 2, wave(4, 3, rate=1.1)
for reduction in ("mean", "sum", "none"):
    loss(f"mse_{reduction}", lambda a, b: F.mse_loss(a, b, reduction=reduction), x, y)
    loss(f"mae_{reduction}", lambda a, b: F.l1_loss(a, b, reduction=reduction), x, y)
    loss(f"huber_{reduction}", lambda a, b: F.huber_loss(a, b, delta=0.6, reduction=reduction), x, y)
    loss(f"smooth_l1_{reduction}", lambda a, b: F.smooth_l1_loss(a, b, beta=0.6, reduction=reduction), x, y)
loss("rmse", lambda a, b: F.mse_loss(a, b).sqrt(), x, y)
loss("huber_default", F.huber_loss, x, y)
loss("smooth_l1_default", F.smooth_l1_loss, x, y)

logits = wave(5, 4, rate=1.7) * 3
target = torch.tensor([2, 0, 3, 1, 2])
weight = torch.tensor([0.5, 1.0, 2.0, 0.3])
for reduction in ("mean", "sum", "none"):
    loss(f"cross_entropy_{reduction}", lambda a, t: F.cross_entropy(a, t, reduction=reduction), logits, target)
    loss(f"cross_entropy_weight_{reduction}",
         lambda a, t: F.cross_entropy(a, t, weight, ignore_index=1, label_smoothing=0.2, reduction=reduction), logits, target)
    loss(f"nll_{reduction}", lambda a, t: F.nll_loss(a, t, weight, ignore_index=3, reduction=reduction), F.log_softmax(logits, 1), target)
probabilities = torch.softmax(wave(5, 4, rate=0.5), 1)
loss("cross_entropy_probabilities", lambda a, p: F.cross_entropy(a, p.detach(), weight, label_smoothing=0.1), logits, probabilities)
images, classes = wave(2, 3, 2, 2, rate=0.9), torch.tensor([[[0, 2], [1, 1]], [[2, 0], [0, 1]]])
loss("cross_entropy_images", F.cross_entropy, images, classes)
loss("nll_images", F.nll_loss, F.log_softmax(images, 1), classes)

log_p, q = F.log_softmax(logits, 1), probabilities.clone()
q[0, 1] = 0
for reduction in ("mean", "sum", "none", "batchmean"):
    loss(f"kl_div_{reduction}", lambda a, b: F.kl_div(a, b.detach(), reduction=reduction), log_p, q)
loss("kl_div_log", lambda a, b: F.kl_div(a, b, reduction="batchmean", log_target=True), log_p, probabilities.log())

p = torch.tensor([[0.0, 1.0, 0.3], [0.5, 1e-60, 0.999], [0.25, 0.7, 1.0]])
t = torch.tensor([[0.0, 1.0, 1.0], [0.5, 0.0, 0.2], [1.0, 0.9, 0.0]])
inner = p.clamp(0.01, 0.99)
for reduction in ("mean", "sum", "none"):
    loss(f"bce_{reduction}", lambda a, b: F.binary_cross_entropy(a, b.detach(), reduction=reduction), inner, t)
with torch.no_grad():
    tensors["loss/bce_extreme/value"] = F.binary_cross_entropy(p, t, reduction="none")
    tensors["loss/bce_extreme/in/0"], tensors["loss/bce_extreme/in/1"] = p.clone(), t.clone()
raw = torch.tensor([[-800.0, 30.0, 0.2], [0.0, -2.0, 700.0], [1.5, -0.3, 5.0]])
w = torch.tensor([1.0, 0.5, 2.0])
loss("bce_logits", lambda a, b: F.binary_cross_entropy_with_logits(a, b.detach()), raw, t)
loss("bce_logits_weights", lambda a, b: F.binary_cross_entropy_with_logits(a, b.detach(), weight=w, pos_weight=w * 1.5), raw, t)


def focal(a, b, alpha=0.25, gamma=2.0):  # torchvision.ops.sigmoid_focal_loss, written out
    ce = F.binary_cross_entropy_with_logits(a, b, reduction="none")
    prob = torch.sigmoid(a)
    p_t = prob * b + (1 - prob) * (1 - b)
    each = ce * (1 - p_t) ** gamma
    return ((alpha * b + (1 - alpha) * (1 - b)) * each if alpha >= 0 else each).mean()


hard = (wave(3, 3, rate=2.2) > 0).double()
loss("focal", lambda a, b: focal(a, b.detach()), wave(3, 3) * 3, hard)
loss("focal_options", lambda a, b: focal(a, b.detach(), -1, 1.5), wave(3, 3) * 3, hard)


# --- Schedules: the rate of each of 40 steps
def schedule(name, start, make, steps=40):
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=start)
    scheduler = make(opt)
    rates = []
    for _ in range(steps):
        rates.append(opt.param_groups[0]["lr"])
        opt.step()
        scheduler.step()
    tensors[f"schedule/{name}"] = torch.tensor(rates)


schedule("step", 0.5, lambda o: lr_scheduler.StepLR(o, 7, 0.3))
schedule("exponential", 0.5, lambda o: lr_scheduler.ExponentialLR(o, 0.93))
schedule("cosine", 0.5, lambda o: lr_scheduler.CosineAnnealingLR(o, 39, 0.01))
schedule("linear", 0.5, lambda o: lr_scheduler.LinearLR(o, 0.2, 0.9, 15))
schedule("linear_default", 0.5, lambda o: lr_scheduler.LinearLR(o))
schedule("one_cycle", 0.5, lambda o: lr_scheduler.OneCycleLR(o, 0.5, total_steps=30), 30)
schedule("one_cycle_linear", 0.5, lambda o: lr_scheduler.OneCycleLR(o, 0.8, total_steps=33, pct_start=0.4, anneal_strategy="linear", div_factor=10, final_div_factor=100), 33)
schedule("polynomial", 0.5, lambda o: lr_scheduler.PolynomialLR(o, 20, 2.0))

metrics = [3, 2.5, 2.4, 2.45, 2.44, 2.43, 2.42, 2.41, 2.2, 2.3, 2.3, 2.3, math.nan, 2.3, 2.3, 2.1, 2.0999, 2.0998, 2.0997, 2.5, 2.5, 2.5] + [2.0] * 18
tensors["plateau/metrics"] = torch.tensor(metrics, dtype=torch.float64)
for name, options in {"default": dict(patience=2, factor=0.5),
                      "max": dict(mode="max", patience=1, factor=0.3, cooldown=2, threshold=0.1, threshold_mode="abs", min_lr=0.01)}.items():
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = lr_scheduler.ReduceLROnPlateau(opt, **options)
    rates = []
    for metric in metrics:
        scheduler.step(metric)
        rates.append(opt.param_groups[0]["lr"])
    tensors[f"plateau/{name}"] = torch.tensor(rates)

# --- GradScaler: the scale after each of 12 steps, some of which overflow
p = torch.ones(2, requires_grad=True)
opt = torch.optim.SGD([p], lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_factor=4.0, backoff_factor=0.25, growth_interval=3)
scales, values = [], []
for i in range(12):
    opt.zero_grad()
    scaler.scale((p * (torch.inf if i in (4, 5, 9) else 1.0 + i)).sum()).backward()
    scaler.step(opt)
    scaler.update()
    scales.append(scaler.get_scale())
    values.append(p.detach().clone())
tensors["scaler/scales"], tensors["scaler/values"] = torch.tensor(scales), torch.stack(values)

# --- Mixed precision: gradients of f32 weights under autocast in bf16
x32, y32 = wave(16, 8, rate=2.3).float(), wave(16, 4, rate=0.37).float()
w1, w2 = wave(12, 8, rate=1.9).float().requires_grad_(), wave(4, 12, rate=0.77).float().requires_grad_()
with torch.autocast("cpu", torch.bfloat16):
    out = F.linear(F.relu(F.linear(x32, w1)), w2)
l32 = F.mse_loss(out.float(), y32)
l32.backward()
for key, value in {"x": x32, "y": y32, "w1": w1, "w2": w2, "out": out.float(), "loss": l32, "g1": w1.grad, "g2": w2.grad}.items():
    tensors[f"amp/{key}"] = value.detach().clone()

# --- Loss curves in f32: 100 steps from the same weights on the same batches
def curve(name, model, forward, optimizer):
    torch.manual_seed(sum(map(ord, name)))
    model = model.float()
    for key, value in model.state_dict().items():
        tensors[f"curve/{name}/state/{key}"] = value.clone()
    opt, losses = optimizer(model.parameters()), []
    scheduler = lr_scheduler.CosineAnnealingLR(opt, 100)
    for step in range(100):
        opt.zero_grad()
        l = forward(model, step)
        l.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        scheduler.step()
        losses.append(l.item())
    tensors[f"curve/{name}/losses"] = torch.tensor(losses)


def images(model, step):
    x = torch.stack([wave(64, rate=0.2 + 0.1 * c, shift=0.01 * step) for c in range(8)]).reshape(8, 1, 8, 8).float()
    return F.cross_entropy(model(x), torch.arange(8) % 4, label_smoothing=0.1)


class Text(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(20, 16)
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, 0.0, "gelu", batch_first=True, norm_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, torch.nn.LayerNorm(16), enable_nested_tensor=False)
        self.head = torch.nn.Linear(16, 20)

    def forward(self, x):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=torch.float32)
        return self.head(self.encoder(self.table(x), mask, is_causal=True))


def text(model, step):
    x = (torch.arange(4 * 9).reshape(4, 9) * 3 + step * 5) ** 2 % 20
    return F.cross_entropy(model(x[:, :-1]).transpose(1, 2), x[:, 1:])


torch.manual_seed(3)
cnn = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(),
                          torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 4))
curve("cnn", cnn, images, lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, weight_decay=1e-4))
curve("text", Text(), text, lambda p: torch.optim.AdamW(p, 3e-3))

path = pathlib.Path(__file__).parent.parent / "tests/unit/training/data/pytorch.safetensors"
path.parent.mkdir(exist_ok=True)
save_file({k: v.contiguous() for k, v in tensors.items()}, path, {"made_by": f"tools/pytorch_training.py with PyTorch {torch.__version__}"})
print(len(tensors), "tensors,", path.stat().st_size, "bytes")
