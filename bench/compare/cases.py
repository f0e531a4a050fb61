"""What is compared: each case as a formula of ours and as a peer's operation, with the work it takes.

A case is {suite, case, what, flops, bytes, op, args}, and where they matter {grad, classes}: `what` (with `grad`, the
inputs whose gradients are the result, and `classes`, the bound of integer inputs) is what `luminal bench` takes;
`op` names the operation in the peers' files, `args` are its arguments. flops and bytes are what has to be done whatever
the system does (bytes: each operand once), for the limit.
"""

import math

F32 = 4


def size(*dims):
    return ",".join(map(str, dims))


def gemm(m, n, k, transposed="", suite="gemm"):
    """transposed: "a", "b", "ab": which operand lies the other way round in memory."""
    a = f"a:f32[{size(k, m)}].t()" if "a" in transposed else f"a:f32[{size(m, k)}]"
    b = f"b:f32[{size(n, k)}].t()" if "b" in transposed else f"b:f32[{size(k, n)}]"
    name = f"{m}x{n}x{k}" + (f", {transposed} transposed" if transposed else "")
    return dict(suite=suite, case=name, what=f"{a} @ {b}", flops=2 * m * n * k,
                bytes=F32 * (m * k + k * n + m * n), op="gemm", args=(m, n, k, transposed))


def batched(batch, m, n, k):
    count = math.prod(batch)
    return dict(suite="small", case=f"{'x'.join(map(str, batch))} of {m}x{n}x{k}",
                what=f"a:f32[{size(*batch, m, k)}] @ b:f32[{size(*batch, k, n)}]", flops=2 * count * m * n * k,
                bytes=F32 * count * (m * k + k * n + m * n), op="batched", args=(batch, m, n, k))


def heads(batch, length, count, width):
    """Scores of heads that stand after the sequence."""
    qk = ", ".join(f"{x}:f32[{size(batch, length, count, width)}]" for x in "qk")
    return dict(suite="small", case=f"heads {batch}x{length}x{count}x{width}",
                what=f'einsum("bqhd,bkhd->bhqk", {qk})', flops=2 * batch * count * length * length * width,
                bytes=F32 * batch * count * length * (2 * width + length), op="heads",
                args=(batch, length, count, width))


def attention(count, length, width, how="fused", causal=False, suite="attention"):
    qkv = ", ".join(f"{x}:f32[{size(count, length, width)}]" for x in "qkv")
    pairs = length * (length + 1) // 2 if causal else length * length
    case = f"{count} heads, {length}x{width}"
    case += (", causal" if causal else "") + (", formula" if how != "fused" else "")
    made = dict(suite=suite, case=case, what=f"attention({qkv}{', causal=1' if causal else ''})", op="attention",
                args=(count, length, width, how, causal), flops=count * pairs * 4 * width,
                bytes=F32 * count * length * width * 4)
    if suite == "attention-grad":  # scores again, and four products of their size
        made |= dict(grad=["q", "k", "v"], flops=count * pairs * 10 * width, bytes=F32 * count * length * width * 8)
    return made


def decode(length, queries, keys, width):
    group = queries // keys
    return dict(suite="attention", case=f"1 query of {queries} heads, {length} keys of {keys}",
                what=f"attention(q:f32[{size(keys, group, width)}], k:f32[{size(keys, length, width)}], "
                     f"v:f32[{size(keys, length, width)}])",
                flops=4 * queries * length * width, bytes=F32 * 2 * keys * length * width, op="decode",
                args=(length, queries, keys, width))


def conv(batch, channels, side, out, kernel=3, stride=1, groups=1, grad=""):
    """grad: "x" or "w": that gradient instead of the forward pass."""
    after = (side + 2 * (kernel // 2) - kernel) // stride + 1
    options = f"padding={kernel // 2}" + (f", stride={stride}" if stride > 1 else "") + \
        (f", groups={groups}" if groups > 1 else "")
    kind = "depthwise" if groups == channels > 1 else f"to {out}"
    made = dict(suite=f"conv-grad-{grad}" if grad else "conv",
                case=f"{batch}x{channels}x{side}x{side} {kind}, {kernel}x{kernel}" + (f"/{stride}" if stride > 1 else ""),
                what=f"conv2d(x:f32[{size(batch, channels, side, side)}], "
                     f"w:f32[{size(out, channels // groups, kernel, kernel)}], {options})",
                flops=2 * batch * after * after * out * channels // groups * kernel * kernel,
                bytes=F32 * (batch * (side * side * channels + after * after * out)
                             + out * channels // groups * kernel * kernel),
                op="conv", args=(batch, channels, side, out, kernel, stride, groups, grad))
    return made | (dict(grad=[grad]) if grad else {})


def rows(name, what, n, m, arrays, flops_per_element, **more):
    """arrays: how many of n x m are read and written."""
    return dict(suite="memory", case=f"{name} {n}x{m}", what=what, flops=flops_per_element * n * m,
                bytes=F32 * n * m * arrays, op="rows", args=(name, n, m)) | more


def model(name, case, flops, suite="model", **dims):
    return dict(suite=suite, case=case, what=name, dims=dims, flops=flops, bytes=0, op=name, args=tuple(dims.values()))


# Distinct layers (channels, side, out, kernel, stride, groups): ResNet-50, MobileNetV3-Large, YOLOv8n.
RESNET50 = [(3, 224, 64, 7, 2, 1), (64, 56, 64, 1, 1, 1), (64, 56, 64, 3, 1, 1), (64, 56, 256, 1, 1, 1),
            (256, 56, 64, 1, 1, 1), (256, 56, 128, 1, 1, 1), (128, 56, 128, 3, 2, 1), (128, 28, 512, 1, 1, 1),
            (256, 56, 512, 1, 2, 1), (512, 28, 128, 1, 1, 1), (128, 28, 128, 3, 1, 1), (512, 28, 256, 1, 1, 1),
            (256, 28, 256, 3, 2, 1), (256, 14, 1024, 1, 1, 1), (512, 28, 1024, 1, 2, 1), (1024, 14, 256, 1, 1, 1),
            (256, 14, 256, 3, 1, 1), (1024, 14, 512, 1, 1, 1), (512, 14, 512, 3, 2, 1), (512, 7, 2048, 1, 1, 1),
            (1024, 14, 2048, 1, 2, 1), (2048, 7, 512, 1, 1, 1), (512, 7, 512, 3, 1, 1)]
MOBILENET = [(3, 224, 16, 3, 2, 1), (16, 112, 16, 3, 1, 16), (16, 112, 16, 1, 1, 1), (16, 112, 64, 1, 1, 1),
             (64, 112, 64, 3, 2, 64), (64, 56, 24, 1, 1, 1), (24, 56, 72, 1, 1, 1), (72, 56, 72, 3, 1, 72),
             (72, 56, 24, 1, 1, 1), (72, 56, 72, 5, 2, 72), (72, 28, 40, 1, 1, 1), (40, 28, 120, 1, 1, 1),
             (120, 28, 120, 5, 1, 120), (120, 28, 40, 1, 1, 1), (40, 28, 240, 1, 1, 1), (240, 28, 240, 3, 2, 240),
             (240, 14, 80, 1, 1, 1), (80, 14, 200, 1, 1, 1), (200, 14, 200, 3, 1, 200), (200, 14, 80, 1, 1, 1),
             (80, 14, 480, 1, 1, 1), (480, 14, 480, 3, 1, 480), (480, 14, 112, 1, 1, 1), (112, 14, 672, 1, 1, 1),
             (672, 14, 672, 5, 2, 672), (672, 7, 160, 1, 1, 1), (160, 7, 960, 1, 1, 1), (960, 7, 960, 5, 1, 960),
             (960, 7, 160, 1, 1, 1)]
YOLO = [(3, 640, 16, 3, 2, 1), (16, 320, 32, 3, 2, 1), (32, 160, 32, 1, 1, 1), (16, 160, 16, 3, 1, 1),
        (32, 160, 64, 3, 2, 1), (64, 80, 64, 1, 1, 1), (32, 80, 32, 3, 1, 1), (64, 80, 128, 3, 2, 1),
        (128, 40, 128, 1, 1, 1), (64, 40, 64, 3, 1, 1), (128, 40, 256, 3, 2, 1), (256, 20, 256, 1, 1, 1),
        (128, 20, 128, 3, 1, 1), (64, 80, 80, 3, 1, 1), (80, 80, 80, 1, 1, 1)]


def layers(batch):
    return [conv(batch, c, side, out, kernel, stride, groups)
            for c, side, out, kernel, stride, groups in dict.fromkeys(RESNET50 + MOBILENET + YOLO)]


def gradients(batch):
    # The image itself needs no gradient.
    return [conv(batch, c, side, out, kernel, stride, groups, grad)
            for c, side, out, kernel, stride, groups in dict.fromkeys(RESNET50 + MOBILENET + YOLO)
            for grad in ("x", "w") if c > 3 or grad == "w"]


def gpt_flops(batch, length, layers_, width, vocabulary):
    return 3 * batch * length * 2 * (layers_ * 12 * width * width + width * vocabulary + layers_ * length * width)


N = 4096
GELU, EXP = 20, 12  # operations of ours for one element
CASES = [
    *(gemm(n, n, n) for n in (512, 1024, 2048, 4096)), *(gemm(1000, 1000, 1000, t) for t in ("", "a", "b")),
    *(gemm(n, n, n, suite="small") for n in (16, 32, 64, 96, 128, 200, 256)),
    *(gemm(m, 11008, 4096, t, "small") for m in (2, 4, 8, 16, 32, 64, 128) for t in ("", "b")),
    gemm(64, 128, 1568, suite="small"), gemm(8, 4096, 4096, suite="small"), gemm(1, 4096, 4096, suite="small"),
    gemm(1, 4096, 4096, "b", "small"), gemm(32000, 1, 2048, suite="small"), gemm(101, 47, 333, suite="small"),
    batched((64,), 64, 64, 64), batched((16,), 128, 128, 128), batched((8,), 512, 512, 64),
    batched((2, 12), 128, 128, 64), heads(2, 256, 6, 64),
    *(attention(8, s, 64, "fused", causal) for s in (512, 1024, 2048, 4096, 8192) for causal in (False, True)),
    *(attention(8, 2048, width) for width in (32, 80, 96, 128)), attention(12, 512, 64, "formula"),
    decode(4096, 32, 8, 64),
    *(attention(8, s, 64, "fused", causal, "attention-grad") for s in (1024, 2048) for causal in (False, True)),
    rows("relu(a*b+c)*d", f"(a:f32[{N},{N}] * b:f32[{N},{N}] + c:f32[{N},{N}]).relu() * d:f32[{N},{N}]", N, N, 5, 4),
    rows("gelu+residual", f"x:f32[{N},{N}].gelu() + r:f32[{N},{N}]", N, N, 3, GELU),
    rows("softmax", f"x:f32[{N},{N}].softmax(-1)", N, N, 2, GELU),
    rows("layer_norm", f"x:f32[{N},{N}].layer_norm(-1) * w:f32[{N}] + b:f32[{N}]", N, N, 2, 10),
    rows("rms_norm", f"x:f32[{N},{N}].rms_norm(-1) * w:f32[{N}]", N, N, 2, 5),
    rows("sum axis 0", f"x:f32[{N},{N}].sum(0)", N, N, 1, 1),
    rows("sum axis 1", f"x:f32[{N},{N}].sum(1)", N, N, 1, 1),
    rows("sum middle axis", f"x:f32[64,64,{N}].sum(1)", N, N, 1, 1),
    rows("transpose", f"x:f32[{N},{N}].t().exp()", N, N, 2, EXP),
    rows("cumsum", f"x:f32[{N},{N}].cumsum(1)", N, N, 2, 1),
    rows("gather", f"gather(t:f32[32000,2048], i:i32[{N}])", N, 2048, 2, 0, classes=32000),
    rows("scatter-add", f"gather(t:f32[32000,2048], i:i32[{N}])", N, 2048, 1 + 32000 / N, 1, classes=32000,
         grad=["t"]),
    rows("sort", f"x:f32[{N // 4},{N}].sort(1)", N // 4, N, 2, 72),
    rows("top-k 50", f"x:f32[{N},{N}].topk(50, axis=1)", N, N, 1, 6),
    rows("max pool 3/2", "max_pool2d(x:f32[16,64,112,112], kernel=3, stride=2, padding=1)", 16 * 64, 112 * 112, 1.25, 9 / 4),
    *layers(1), *layers(8), *gradients(8),
    model("mnist-step", "digit network's step, batch 64",
          3 * 64 * 2 * (28 * 28 * 16 * 9 + 14 * 14 * 32 * 16 * 9 + 1568 * 128 + 1280)),
    model("mlp-step", "MLP's step, batch 128", 128 * 2 * (2 * 784 * 512 + 3 * 512 * 512 + 3 * 5120)),
    model("gpt-step", "GPT's step, 6 x 384, batch 4", gpt_flops(4, 256, 6, 384, 65)),
    *(model("encoder", f"encoder, 6 x 384, batch {b}", 2 * b * 128 * 6 * (12 * 384 * 384 + 2 * 128 * 384), batch=b)
      for b in (1, 8)),
    *(model("resnet50", f"ResNet-50, batch {b}", 2 * b * 4.089e9, batch=b) for b in (1, 8)),
    *(model("mobilenet", f"MobileNetV3-Large, batch {b}", 2 * b * 0.217e9, batch=b) for b in (1, 8)),
    *(model("vit-b16", f"ViT-B/16, batch {b}", 2 * b * 17.56e9, batch=b) for b in (1, 8)),
    *(model("unet", f"U-Net, batch {b}", 2 * b * 40.1e9, batch=b) for b in (1, 8)),
    *(model("resnet50-step", f"ResNet-50's step, batch {b}", 6 * b * 4.089e9, batch=b) for b in (1, 8)),
    *(model("mobilenet-step", f"MobileNetV3-Large's step, batch {b}", 6 * b * 0.217e9, batch=b) for b in (1, 8)),
    model("lstm-step", "LSTM's step, 2 x 512, 128 steps", 6 * 16 * 128 * (2 * 8 * 512 * 512 + 512 * 256)),
]
