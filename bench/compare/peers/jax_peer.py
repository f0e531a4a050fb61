"""JAX: jax_peer.py THREADS."""
import math
import os
import sys

os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={'true' if int(sys.argv[1]) > 1 else 'false'}"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from worker import serve  # noqa: E402

RANDOM = np.random.default_rng(0)


def randn(*dims):
    return jnp.asarray(RANDOM.standard_normal(dims, dtype=np.float32))


def jitted(function, *arguments):
    made = jax.jit(function)
    return lambda: jax.block_until_ready(made(*arguments))


def gemm(m, n, k, transposed):
    a = randn(k, m) if "a" in transposed else randn(m, k)
    b = randn(n, k) if "b" in transposed else randn(k, n)
    return jitted(lambda a, b: (a.T if "a" in transposed else a) @ (b.T if "b" in transposed else b), a, b)


def batched(batch, m, n, k):
    return jitted(jnp.matmul, randn(*batch, m, k), randn(*batch, k, n))


def heads(batch, length, count, width):
    q, k = (randn(batch, length, count, width) for _ in range(2))
    return jitted(lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), q, k)


def formula(q, k, v, causal=False):
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores, -1), v)


def attention(count, length, width, how, causal, grad=False):
    q, k, v = (randn(count, length, width) for _ in range(3))
    if not grad:
        return jitted(lambda q, k, v: formula(q, k, v, causal), q, k, v)
    return jitted(lambda q, k, v, d: jax.vjp(lambda *x: formula(*x, causal), q, k, v)[1](d), q, k, v,
                  randn(count, length, width))


def decode(length, queries, keys, width):
    return jitted(formula, randn(keys, queries // keys, width), randn(keys, length, width), randn(keys, length, width))


def conv(batch, channels, side, out, kernel, stride, groups, grad):
    p = kernel // 2
    forward = lambda x, w: jax.lax.conv_general_dilated(  # noqa: E731
        x, w, (stride, stride), [(p, p)] * 2, feature_group_count=groups, dimension_numbers=("NCHW", "OIHW", "NCHW"))
    x, w = randn(batch, channels, side, side), randn(out, channels // groups, kernel, kernel)
    if not grad:
        return jitted(forward, x, w)
    upstream = randn(*jax.eval_shape(forward, x, w).shape)
    if grad == "x":
        return jitted(lambda x, w, d: jax.vjp(lambda x: forward(x, w), x)[1](d), x, w, upstream)
    return jitted(lambda x, w, d: jax.vjp(lambda w: forward(x, w), w)[1](d), x, w, upstream)


def rows(name, n, m):
    if name in ("gather", "scatter-add"):
        index = jnp.asarray(RANDOM.integers(0, 32000, n), jnp.int32)
        if name == "gather":
            return jitted(lambda t, i: t[i], randn(32000, m), index)
        return jitted(lambda d, i: jnp.zeros((32000, m)).at[i].add(d), randn(n, m), index)
    if name == "max pool 3/2":
        return jitted(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2),
                                                      ((0, 0), (0, 0), (1, 1), (1, 1))), randn(16, 64, 112, 112))
    if name == "sum middle axis":
        return jitted(lambda x: x.sum(1), randn(64, n // 64, m))
    weight, bias = randn(m), randn(m)

    def layer_norm(a):
        mean = a.mean(-1, keepdims=True)
        centred = a - mean
        return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5) * weight + bias
    functions = {
        "relu(a*b+c)*d": (lambda a, b, c, d: jax.nn.relu(a * b + c) * d, 4),
        "gelu+residual": (lambda a, b: jax.nn.gelu(a, approximate=False) + b, 2),
        "softmax": (lambda a: jax.nn.softmax(a, -1), 1),
        "layer_norm": (layer_norm, 1),
        "rms_norm": (lambda a: a * jax.lax.rsqrt((a * a).mean(-1, keepdims=True) + 1e-6) * weight, 1),
        "sum axis 0": (lambda a: a.sum(0), 1),
        "sum axis 1": (lambda a: a.sum(1), 1),
        "transpose": (lambda a: jnp.exp(a.T), 1),
        "cumsum": (lambda a: jnp.cumsum(a, 1), 1),
        "sort": (lambda a: jnp.sort(a, 1), 1),
        "top-k 50": (lambda a: jax.lax.top_k(a, 50)[0], 1),
    }
    function, count = functions[name]
    return jitted(function, *(randn(n, m) for _ in range(count)))


def mlp_step():
    sizes = (784, 512, 512, 10)
    state = [[randn(i, o) / math.sqrt(i), jnp.zeros(o)] for i, o in zip(sizes, sizes[1:])]
    x, y = randn(128, 784), jnp.asarray(RANDOM.integers(0, 10, 128))

    def loss(weights, x, y):
        for i, (w, b) in enumerate(weights):
            x = x @ w + b if i == 0 else jax.nn.relu(x) @ w + b
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1))

    def step(weights, x, y):
        gradients = jax.grad(loss)(weights, x, y)
        return jax.tree.map(lambda w, g: w - 0.01 * g, weights, gradients)
    made, held = jax.jit(step, donate_argnums=0), [state]

    def run():
        held[0] = jax.block_until_ready(made(held[0], x, y))
    return run


OPERATIONS = dict(gemm=gemm, batched=batched, heads=heads, decode=decode, conv=conv, rows=rows)


def build(case):
    if case["op"] == "attention":
        return attention(*case["args"], grad=case["suite"] == "attention-grad")
    if case["op"] == "mlp-step":
        return mlp_step()
    return OPERATIONS[case["op"]](*case["args"]) if case["op"] in OPERATIONS else None


serve(build)
