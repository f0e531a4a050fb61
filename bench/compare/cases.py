"""What is compared: each case as a formula of ours and as a peer's code, with the work it takes.

A case is {suite, case, what, mode, flops, bytes}: `what` is what `luminal bench` takes; flops and bytes are what has to
be done whatever the system (bytes: each operand once), for the limit.
"""

import math

F32 = 4


def gemm(m, n, k):
    return dict(suite="gemm", case=f"{m}x{n}x{k}", what=f"a:f32[{m},{k}] @ b:f32[{k},{n}]", flops=2 * m * n * k,
                bytes=F32 * (m * k + k * n + m * n), args=(m, n, k))


def batched(batch, m, n, k):
    size = ",".join(map(str, batch))
    count = math.prod(batch)
    return dict(suite="batched", case=f"{'x'.join(map(str, batch))} of {m}x{n}x{k}",
                what=f"a:f32[{size},{m},{k}] @ b:f32[{size},{k},{n}]", flops=2 * count * m * n * k,
                bytes=F32 * count * (m * k + k * n + m * n), args=(batch, m, n, k))


def attention(heads, length, size, how):
    qkv = ", ".join(f"{x}:f32[{heads},{length},{size}]" for x in "qkv")
    return dict(suite="attention", case=f"{heads} heads, {length}x{size}, {how}", what=f"attention({qkv})",
                flops=heads * length * length * (4 * size + 20), bytes=F32 * heads * length * size * 4,
                args=(heads, length, size, how))


def conv(batch, channels, side, out, kernel=3):
    what = f"conv2d(x:f32[{batch},{channels},{side},{side}], w:f32[{out},{channels},{kernel},{kernel}], padding={kernel // 2})"
    return dict(suite="conv", case=f"{batch}x{channels}x{side}x{side} to {out}, {kernel}x{kernel}", what=what,
                flops=2 * batch * side * side * out * channels * kernel * kernel,
                bytes=F32 * (batch * side * side * (channels + out) + out * channels * kernel * kernel),
                args=(batch, channels, side, out, kernel))


def rows(name, what, n, m, reads, flops_per_element):
    return dict(suite="rows", case=f"{name} {n}x{m}", what=what, flops=flops_per_element * n * m,
                bytes=F32 * n * m * (reads + 1), args=(name, n, m))


N = 2048
CASES = [
    gemm(64, 64, 64), gemm(256, 256, 256), gemm(512, 512, 512), gemm(1024, 1024, 1024), gemm(2048, 2048, 2048),
    gemm(64, 128, 1568), gemm(8, 4096, 4096), gemm(1, 4096, 4096),
    batched((8,), 512, 512, 64), batched((2, 12), 128, 128, 64),
    # PyTorch's fused kernel, and the formula as its eager mode runs it.
    *(attention(12, length, 64, how) for length in (128, 512) for how in ("fused", "formula")),
    conv(64, 1, 28, 16), conv(64, 16, 14, 32), conv(1, 64, 56, 64), conv(1, 128, 28, 128),
    rows("relu(a*b+c)*d", f"(a:f32[{N},{N}] * b:f32[{N},{N}] + c:f32[{N},{N}]).relu() * d:f32[{N},{N}]", N, N, 4, 4),
    rows("gelu+residual", f"x:f32[{N},{N}].gelu() + r:f32[{N},{N}]", N, N, 2, 20),
    rows("softmax", f"x:f32[{N},{N}].softmax(-1)", N, N, 1, 20),
    rows("layer_norm", f"x:f32[{N},{N}].layer_norm(-1)", N, N, 1, 8),
    rows("sum axis 0", f"x:f32[{N},{N}].sum(0)", N, N, 0, 1),
    rows("sum axis 1", f"x:f32[{N},{N}].sum(1)", N, N, 0, 1),
    rows("transpose", f"x:f32[{N},{N}].t().exp()", N, N, 1, 12),
    dict(suite="train", case="mnist step, batch 64", what="mnist-step",
         flops=3 * 64 * 2 * (28 * 28 * 16 * 9 + 14 * 14 * 32 * 16 * 9 + 1568 * 128 + 1280), bytes=0, args=()),
]
