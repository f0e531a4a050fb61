"""What compare.py's expressions call: whole training runs, schedules, and tests of random numbers."""

import math
import warnings

import torch
from torch.optim import lr_scheduler as S

STEPS = 100


def counted(dims, scale, shift):
    values = [scale * math.sin(1.7 * (i + 1)) + shift for i in range(math.prod(dims))]
    return torch.tensor(values, dtype=torch.float64).reshape(dims)


def optimized(make):
    """The small network of tests/validate/cases/training.cpp, trained by PyTorch."""
    x, y = counted((8, 4), 1, 0), counted((8, 2), 0.5, 0.2)
    weights = [counted((4, 6), 0.5, 0), counted((6,), 0.1, 0), counted((6, 2), 0.5, 0.1)]
    for weight in weights:
        weight.requires_grad_()
    optimizer = make(weights)
    results, losses = {}, []
    for step in range(1, STEPS + 1):
        loss = torch.nn.functional.mse_loss(torch.tanh(x @ weights[0] + weights[1]) @ weights[2], y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step in (1, 10, STEPS):
            results.update({f"{step}/{i}": weight.detach().clone() for i, weight in enumerate(weights)})
    results["losses"] = torch.tensor(losses, dtype=torch.float64)
    return results


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2 with bias correction; PyTorch itself has none."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                state["t"] += 1
                b1, b2 = group["betas"]
                state["m"].mul_(b1).add_(p.grad, alpha=1 - b1)
                state["v"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                m, v = state["m"] / (1 - b1 ** state["t"]), state["v"] / (1 - b2 ** state["t"])
                update = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
                size, step = p.norm(), update.norm()
                trust = size / step if size > 0 and step > 0 else 1.0
                p.sub_(update * (group["lr"] * trust))


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023, algorithm 2."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["m"] = torch.zeros_like(p)
                b1, b2 = group["betas"]
                update = torch.sign(b1 * state["m"] + (1 - b1) * p.grad)
                p.sub_(group["lr"] * (update + group["weight_decay"] * p))
                state["m"].mul_(b2).add_(p.grad, alpha=1 - b2)


def clip_norm(gradients, most, kind):
    parameters = [torch.zeros_like(g).requires_grad_() for g in gradients]
    for p, g in zip(parameters, gradients):
        p.grad = g.clone()
    norm = torch.nn.utils.clip_grad_norm_(parameters, most, norm_type=kind)
    return (*(p.grad for p in parameters), norm)


def rates(make):
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    values = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the optimizer takes no steps here
        schedule = make(optimizer)
        for _ in range(STEPS):
            values.append(optimizer.param_groups[0]["lr"])
            if len(values) < STEPS:
                schedule.step()
    return {"rates": torch.tensor(values, dtype=torch.float64)}


def warmup_cosine(optimizer, warmup, steps):
    def share(step):
        if step < warmup:
            return (step + 1) / warmup
        return (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2

    return S.LambdaLR(optimizer, share)


def plateau():
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = S.ReduceLROnPlateau(optimizer, factor=0.5, patience=3, cooldown=2)
    values = []
    for step in range(STEPS):
        schedule.step(1 / (1 + step // 12) + 0.01 * math.sin(step))
        values.append(optimizer.param_groups[0]["lr"])
    return {"rates": torch.tensor(values, dtype=torch.float64)}


# --- Random numbers. Chance exceeds these bounds about once in a million tests.

SIGMAS = 4.9
KOLMOGOROV = 2.7  # of sqrt(n) * D, from its limit distribution 2 exp(-2 d^2)


def distance(sample, cdf):
    """Kolmogorov and Smirnov's, as a share of what is allowed."""
    n = sample.numel()
    wanted = cdf(sample.double().sort().values)
    place = torch.arange(n, dtype=torch.float64) / n
    worst = torch.maximum((wanted - place).abs().max(), (wanted - place - 1 / n).abs().max())
    return float(worst) * math.sqrt(n) / KOLMOGOROV


def moment(sample, mean, variance):
    n = sample.numel()
    error = abs(float(sample.double().mean()) - mean) / math.sqrt(variance / n)
    return error / SIGMAS


def correlation(a, b):
    a, b = a.double() - a.double().mean(), b.double() - b.double().mean()
    return abs(float((a * b).mean() / (a.std() * b.std()))) * math.sqrt(a.numel()) / SIGMAS


def independent(t):
    """Streams, runs and neighbours have nothing to do with each other."""
    first = t["first"]
    pairs = [(first, t["second"]), (first, t["next run"]), (first[1:], first[:-1]), (first[2:], first[:-2])]
    return max(correlation(a, b) for a, b in pairs)


def uniform(t, low, high):
    sample = torch.cat([t["first"], t["second"], t["next run"]])
    if sample.min() < low or sample.max() > high:
        return math.inf
    variance = (high - low) ** 2 / 12
    mean = (low + high) / 2
    spread = moment((sample.double() - mean) ** 2, variance, (high - low) ** 4 / 180)
    return max(distance(sample, lambda x: (x - low) / (high - low)), moment(sample, mean, variance), spread,
               independent(t))


def normal(t, mean, deviation):
    sample = (torch.cat([t["first"], t["second"], t["next run"]]).double() - mean) / deviation
    return max(distance(sample, torch.special.ndtr), moment(sample, 0, 1), moment(sample**2, 1, 2),
               moment(sample**4, 3, 96), independent(t))


def two_samples(a, b):
    """Kolmogorov and Smirnov's distance of two samples, as a share of what is allowed."""
    a, b = a.double().flatten().sort().values, b.double().flatten().sort().values
    both = torch.cat([a, b])
    shares = [torch.searchsorted(sample, both, right=True) / sample.numel() for sample in (a, b)]
    effective = a.numel() * b.numel() / both.numel()
    return float((shares[0] - shares[1]).abs().max()) * math.sqrt(effective) / KOLMOGOROV


def filled(t, fill):
    """Two drawings of a weight against two of PyTorch's."""
    first, second = t["first"], t["second"]
    wanted = [fill(torch.empty(first.shape, dtype=torch.float64)) for _ in range(2)]
    return max(two_samples(torch.stack([first, second]), torch.stack(wanted)),
               correlation(first.flatten(), second.flatten()))


def initial_weights(t, make):
    """A new module's weights against those of PyTorch's: the same constants, or one distribution."""
    state = make().state_dict()
    if state.keys() != t.keys():
        return math.inf
    worst = 0.0
    for name, wanted in state.items():
        if wanted.shape != t[name].shape:
            return math.inf
        constant = wanted.numel() == 1 or bool((wanted == wanted.flatten()[0]).all())
        error = (0.0 if torch.equal(t[name].to(wanted.dtype), wanted) else math.inf) if constant else two_samples(
            t[name], wanted)
        worst = max(worst, error)
    return worst


def dropout(t, p):
    sample = torch.cat([t["first"], t["second"], t["next run"]]).double()
    kept = sample != 0
    if not torch.allclose(sample[kept], torch.full((1,), 1 / (1 - p), dtype=torch.float64), rtol=1e-6):
        return math.inf
    return max(moment(kept.double(), 1 - p, p * (1 - p)), independent(t))
