#!/usr/bin/env python3
"""Writes tests/unit/nn/data/pytorch.safetensors: what PyTorch's modules compute in f64, forward and backward.

Run it in an environment with torch, numpy and safetensors when a module is added: python3 tools/pytorch_modules.py
For each case the file holds <case>/state/<name> (the weights), /in/<i>, /out/<i>, /grad/<name> and /grad/in/<i>
(gradients of the sum of all outputs, each times cos(0.7 i + 0.3)), and /after/<name> (buffers after the call).
"""
import pathlib

import torch
from safetensors.torch import save_file
from torch import nn

torch.set_default_dtype(torch.float64)
tensors = {}


def case(name, module, *inputs, call=None, train=True, grads=True):
    torch.manual_seed(sum(map(ord, name)))
    with torch.no_grad():
        for p in module.parameters():  # away from zeros and ones, so that every weight matters
            p.copy_(torch.randn(p.shape) * 0.4 + (0.8 if p.dim() == 1 and "orm" in type(module).__name__ else 0))
        for key, b in module.named_buffers():
            if b.is_floating_point():
                b.copy_(torch.rand(b.shape) + 0.5)
    module.train(train)
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    for key, value in module.state_dict().items():
        tensors[f"{name}/state/{key}"] = value.clone()
    outputs = call(module, *inputs) if call else module(*inputs)
    outputs = [y for y in (outputs if isinstance(outputs, (tuple, list)) else (outputs,))]
    flat = []
    for y in outputs:
        flat += list(y) if isinstance(y, (tuple, list)) else [y]
    loss = sum((y * torch.cos(torch.arange(y.numel(), dtype=torch.float64).reshape(y.shape) * 0.7 + 0.3)).sum() for y in flat)
    for i, x in enumerate(inputs):
        tensors[f"{name}/in/{i}"] = x.detach().clone()
    for i, y in enumerate(flat):
        tensors[f"{name}/out/{i}"] = y.detach().clone().contiguous()
    if grads:
        loss.backward()
        for key, p in module.named_parameters():
            tensors[f"{name}/grad/{key}"] = p.grad.clone().contiguous()
        for i, x in enumerate(inputs):
            if x.requires_grad:
                tensors[f"{name}/grad/in/{i}"] = (x.grad if x.grad is not None else torch.zeros_like(x)).clone()
    for key, value in module.named_buffers():
        tensors[f"{name}/after/{key}"] = value.clone()


def rand(*dims):
    torch.manual_seed(hash(dims) % 1000)
    return torch.randn(*dims)


class Rotary(nn.Module):
    """Rotary embedding as published with Llama (halves) and GPT-J (neighbours)."""

    def __init__(self, base, interleaved, first):
        super().__init__()
        self.base, self.interleaved, self.first = base, interleaved, first

    def forward(self, x):
        size, length = x.shape[-1], x.shape[-2]
        speed = 1.0 / self.base ** (torch.arange(0, size, 2) / size)
        angle = torch.outer(torch.arange(length) + self.first, speed)
        pairs = x.unflatten(-1, (-1, 2)) if self.interleaved else x.unflatten(-1, (2, -1)).transpose(-1, -2)
        turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angle), angle))
        return turned.flatten(-2) if self.interleaved else turned.transpose(-1, -2).flatten(-2)


class CausalAttention(nn.Module):
    def __init__(self, size, heads, kv_heads, bias=False):
        super().__init__()
        head = size // heads
        self.heads, self.kv_heads = heads, kv_heads
        self.q_proj, self.k_proj = nn.Linear(size, size, bias), nn.Linear(size, kv_heads * head, bias)
        self.v_proj, self.o_proj = nn.Linear(size, kv_heads * head, bias), nn.Linear(size, size, bias)

    def forward(self, x):
        split = lambda y, h: y.unflatten(-1, (h, -1)).transpose(1, 2)
        turn = Rotary(10000.0, False, 0)
        q, k = turn(split(self.q_proj(x), self.heads)), turn(split(self.k_proj(x), self.kv_heads))
        y = nn.functional.scaled_dot_product_attention(q, k, split(self.v_proj(x), self.kv_heads), is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, size, hidden):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(size, hidden, False), nn.Linear(size, hidden, False)
        self.down_proj = nn.Linear(hidden, size, False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


def layers():
    case("linear", nn.Linear(3, 4), rand(2, 5, 3))
    case("linear_no_bias", nn.Linear(3, 4, bias=False), rand(2, 3))
    case("embedding", nn.Embedding(5, 3), torch.tensor([[0, 4, 2], [2, 2, 1]]))
    case("embedding_padding", nn.Embedding(5, 3, padding_idx=2), torch.tensor([[0, 4, 2], [2, 2, 1]]))
    case("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), rand(2, 4, 7))
    case("conv2d", nn.Conv2d(4, 6, (2, 3), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=2), rand(2, 4, 5, 6))
    case("conv3d", nn.Conv3d(2, 3, 2, stride=(1, 2, 1), padding=1), rand(1, 2, 3, 4, 3))
    case("conv_transpose1d", nn.ConvTranspose1d(2, 3, 3, stride=2, padding=1, output_padding=1), rand(2, 2, 4))
    case("conv_transpose2d", nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), rand(1, 4, 3, 4))
    case("max_pool1d", nn.MaxPool1d(3, stride=2, padding=1), rand(2, 2, 7))
    case("max_pool2d", nn.MaxPool2d(2), rand(1, 2, 5, 4))
    case("avg_pool2d", nn.AvgPool2d(3, stride=2, padding=1), rand(1, 2, 5, 6))
    case("avg_pool3d", nn.AvgPool3d(2), rand(1, 2, 4, 2, 4))
    case("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 3)), rand(1, 2, 5, 7))
    for train in (True, False):
        case(f"prelu_{train}", nn.PReLU(3), rand(2, 3, 4), train=train)
    for name, module in {"gelu": nn.GELU(), "gelu_tanh": nn.GELU("tanh"), "silu": nn.SiLU(), "elu": nn.ELU(0.7),
                         "leaky_relu": nn.LeakyReLU(), "softplus": nn.Softplus(), "mish": nn.Mish(), "tanh": nn.Tanh(),
                         "sigmoid": nn.Sigmoid(), "hardswish": nn.Hardswish(), "softmax": nn.Softmax(-1),
                         "log_softmax": nn.LogSoftmax(1), "glu": nn.GLU()}.items():
        case(name, module, rand(3, 4) * 2)


def norms():
    case("layer_norm", nn.LayerNorm(4), rand(2, 3, 4))
    case("layer_norm_2", nn.LayerNorm((3, 4), eps=1e-3), rand(2, 3, 4))
    case("layer_norm_plain", nn.LayerNorm(4, elementwise_affine=False), rand(2, 4))
    case("rms_norm", nn.RMSNorm(4), rand(2, 3, 4))
    case("rms_norm_eps", nn.RMSNorm((3, 4), eps=1e-2), rand(2, 3, 4))
    case("group_norm", nn.GroupNorm(2, 6), rand(2, 6, 3, 2))
    case("group_norm_flat", nn.GroupNorm(3, 6), rand(4, 6))
    for train in (True, False):
        case(f"batch_norm1d_{train}", nn.BatchNorm1d(3), rand(5, 3), train=train)
        case(f"batch_norm2d_{train}", nn.BatchNorm2d(3, eps=1e-3, momentum=0.3), rand(2, 3, 4, 2), train=train)
        case(f"batch_norm_mean_{train}", nn.BatchNorm1d(3, momentum=None), rand(4, 3, 2), train=train)
        case(f"batch_norm_plain_{train}", nn.BatchNorm2d(2, affine=False, track_running_stats=False), rand(3, 2, 2, 2), train=train)
    case("batch_norm_twice", nn.BatchNorm1d(2), rand(3, 2), rand(4, 2), call=lambda m, a, b: (m(a), m(b)))


def recurrent():
    for kind in ("RNN", "LSTM", "GRU"):
        cls = getattr(nn, kind)
        case(f"{kind}_plain", cls(3, 4), rand(5, 2, 3))
        case(f"{kind}_deep", cls(3, 4, num_layers=2, bidirectional=True, batch_first=True), rand(2, 4, 3))
        case(f"{kind}_no_bias", cls(3, 4, bias=False), rand(3, 3))
        states = [rand(2, 2, 4)] + ([rand(2, 2, 4) * 0.5] if kind == "LSTM" else [])
        call = (lambda m, x, h, c: m(x, (h, c))) if kind == "LSTM" else None
        case(f"{kind}_state", cls(3, 4, num_layers=2), rand(3, 2, 3), *states, call=call)
    case("RNN_relu", nn.RNN(3, 4, nonlinearity="relu"), rand(3, 2, 3))


def attention():
    self_attention = lambda m, x: m(x, x, x, need_weights=True)
    case("mha", nn.MultiheadAttention(8, 2), rand(3, 2, 8), call=self_attention)
    case("mha_unbatched", nn.MultiheadAttention(8, 4, bias=False), rand(3, 8), call=self_attention)
    case("mha_cross", nn.MultiheadAttention(8, 2, kdim=5, vdim=6, batch_first=True), rand(2, 3, 8), rand(2, 4, 5), rand(2, 4, 6))
    causal = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    padding = torch.tensor([[False, False, False, True], [False, True, False, False]])
    case("mha_masks", nn.MultiheadAttention(8, 2, batch_first=True), rand(2, 4, 8),
         call=lambda m, x: m(x, x, x, key_padding_mask=padding, attn_mask=causal))
    bias = rand(4, 3, 4)
    case("mha_added", nn.MultiheadAttention(8, 2, batch_first=True), rand(2, 3, 8), rand(2, 4, 8), bias,
         call=lambda m, q, k, b: m(q, k, k, attn_mask=b))
    case("rope", Rotary(10000.0, False, 0), rand(2, 3, 4, 6))
    case("rope_interleaved", Rotary(500.0, True, 7), rand(2, 4, 6))
    case("causal", CausalAttention(8, 4, 4, bias=True), rand(2, 5, 8))
    case("causal_gqa", CausalAttention(8, 4, 2), rand(2, 5, 8))


def transformers():
    kwargs = dict(d_model=6, nhead=2, dim_feedforward=10, dropout=0.0)
    for name, extra in {"": {}, "_norm_first": dict(norm_first=True, activation="gelu", batch_first=True)}.items():
        case(f"encoder_block{name}", nn.TransformerEncoderLayer(**kwargs, **extra), rand(3, 2, 6))
        case(f"decoder_block{name}", nn.TransformerDecoderLayer(**kwargs, **extra), rand(3, 2, 6),
             rand(3, 2, 6) if extra else rand(4, 2, 6))
    layer = nn.TransformerEncoderLayer(**kwargs, batch_first=True)
    padding = torch.tensor([[False, False, True], [False, False, False]])
    case("encoder", nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(6)), rand(2, 3, 6),
         call=lambda m, x: m(x, src_key_padding_mask=padding))
    mask = nn.Transformer.generate_square_subsequent_mask(3)
    case("transformer", nn.Transformer(6, 2, 1, 2, 10, 0.0), rand(4, 2, 6), rand(3, 2, 6),
         call=lambda m, s, t: m(s, t, tgt_mask=mask, tgt_is_causal=True))
    case("transformer_eval", nn.Transformer(6, 2, 1, 1, 10, 0.5), rand(4, 2, 6), rand(3, 2, 6), train=False)
    case("mlp", Mlp(4, 6), rand(2, 3, 4))


layers()
norms()
recurrent()
attention()
transformers()
path = pathlib.Path(__file__).parent.parent / "tests/unit/nn/data/pytorch.safetensors"
path.parent.mkdir(exist_ok=True)
save_file(tensors, path, {"made_by": f"tools/pytorch_modules.py with PyTorch {torch.__version__}"})
print(len({k.split("/")[0] for k in tensors}), "cases,", path.stat().st_size, "bytes")
