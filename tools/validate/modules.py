"""Modules that PyTorch lacks, by their published formulas; weights are named as Luminal names them."""

import torch
import torch.nn.functional as F
from torch import nn


class Plain(nn.Module):
    """Weights of the given shapes and a formula over the inputs and them."""

    def __init__(self, formula, **shapes):
        super().__init__()
        self.formula = formula
        for name, shape in shapes.items():
            self.register_parameter(name, nn.Parameter(torch.zeros(shape)))

    def forward(self, *inputs):
        return self.formula(*inputs, **dict(self.named_parameters()))


class Mlp(nn.Module):
    """Shazeer 2020, SwiGLU."""

    def __init__(self, size, hidden, bias=False):
        super().__init__()
        self.gate_proj = nn.Linear(size, hidden, bias=bias)
        self.up_proj = nn.Linear(size, hidden, bias=bias)
        self.down_proj = nn.Linear(hidden, size, bias=bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class RotaryEmbedding(nn.Module):
    """Su et al. 2021, section 3.2.2: pairs are complex numbers, turned by position * base^(-2 i / size)."""

    def __init__(self, size, base=10000.0, interleaved=False):
        super().__init__()
        self.size, self.base, self.interleaved = size, base, interleaved

    def forward(self, x, first=0):
        half = self.size // 2
        positions = torch.arange(first, first + x.shape[-2], dtype=torch.float64)
        angles = positions[:, None] * self.base ** (-2 * torch.arange(half, dtype=torch.float64) / self.size)
        pairs = x.unflatten(-1, (half, 2)) if self.interleaved else torch.stack(x.chunk(2, -1), -1)
        turned = torch.view_as_complex(pairs.double().contiguous()) * torch.polar(torch.ones_like(angles), angles)
        parts = torch.view_as_real(turned).to(x.dtype)
        return (parts if self.interleaved else parts.transpose(-1, -2)).flatten(-2)


class CausalSelfAttention(nn.Module):
    """Attention of a decoder as in Llama; the scores are PyTorch's own scaled_dot_product_attention."""

    def __init__(self, embed, heads, kv_heads=None, head_size=None, rope_base=10000.0, rope_interleaved=False,
                 bias=False):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads or heads, head_size or embed // heads
        self.q_proj = nn.Linear(embed, self.heads * self.size, bias=bias)
        self.k_proj = nn.Linear(embed, self.kv_heads * self.size, bias=bias)
        self.v_proj = nn.Linear(embed, self.kv_heads * self.size, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.size, embed, bias=bias)
        self.rope = RotaryEmbedding(self.size, rope_base, rope_interleaved) if rope_base else nn.Identity()

    def split(self, x, count):
        return x.unflatten(-1, (count, self.size)).transpose(1, 2)

    def rows(self, x):
        """What a cache holds of x."""
        return self.rope(self.split(self.k_proj(x), self.kv_heads)), self.split(self.v_proj(x), self.kv_heads)

    def forward(self, x):
        query = self.rope(self.split(self.q_proj(x), self.heads))
        seen = F.scaled_dot_product_attention(query, *self.rows(x), is_causal=True, enable_gqa=True)
        return self.o_proj(seen.transpose(1, 2).flatten(2))


class GroupedMultiheadAttention(nn.Module):
    """nn.MultiheadAttention, batch first, with fewer heads of keys and values (Ainslie et al. 2023)."""

    def __init__(self, embed, heads, kv_heads, kdim, vdim):
        super().__init__()
        self.heads, self.size = heads, embed // heads
        self.widths = [embed, self.size * kv_heads, self.size * kv_heads]
        self.q_proj_weight = nn.Parameter(torch.zeros(embed, embed))
        self.k_proj_weight = nn.Parameter(torch.zeros(self.widths[1], kdim))
        self.v_proj_weight = nn.Parameter(torch.zeros(self.widths[2], vdim))
        self.in_proj_bias = nn.Parameter(torch.zeros(sum(self.widths)))
        self.out_proj = nn.Linear(embed, embed)

    def forward(self, query, key, value):
        weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        parts = [F.linear(x, weight, bias).unflatten(-1, (-1, self.size)).transpose(1, 2)
                 for x, weight, bias in zip([query, key, value], weights, self.in_proj_bias.split(self.widths))]
        seen = F.scaled_dot_product_attention(*parts, enable_gqa=True)
        return self.out_proj(seen.transpose(1, 2).flatten(2))


def decoded(module, state, x, counts, capacity=8):
    """What runs of so many tokens give, from the whole sequence at once, and the cache after them."""
    module = module.double()
    module.load_state_dict({name: tensor.double() for name, tensor in state.items()})
    with torch.no_grad():
        results = {str(i): part for i, part in enumerate(module(x).split(counts, 1))}
        for name, rows in zip(["keys", "values"], module.rows(x)):
            results[name] = F.pad(rows, (0, 0, 0, capacity - rows.shape[2]))
    return results
