"""The networks of include/luminal/models in PyTorch, with the names of the published ones: torchvision's ResNet,
MobileNetV3 and ViT, milesial's U-Net, nanoGPT's GPT, Hugging Face's Llama, the word language model of PyTorch's
examples."""

import torch
import torch.nn.functional as F
from modules import CausalSelfAttention, Mlp
from torch import nn


def conv(into, out, kernel, stride=1):
    return nn.Conv2d(into, out, kernel, stride, kernel // 2, bias=False)


class ResNetBlock(nn.Module):
    def __init__(self, into, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width
        self.conv1 = conv(into, width, 1) if bottleneck else conv(into, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride if bottleneck else 1)
        self.bn2 = nn.BatchNorm2d(width)
        if bottleneck:
            self.conv3, self.bn3 = conv(width, out, 1), nn.BatchNorm2d(out)
        self.bottleneck = bottleneck
        plain = into == out and stride == 1
        self.downsample = None if plain else nn.Sequential(conv(into, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        if self.bottleneck:
            y = self.bn3(self.conv3(F.relu(y)))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class ResNet(nn.Module):
    """He et al. 2016."""

    def __init__(self, blocks, bottleneck, classes, into, width):
        super().__init__()
        self.conv1, self.bn1 = conv(into, width, 7, 2), nn.BatchNorm2d(width)
        at = width
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(ResNetBlock(at, width << stage, 2 if i == 0 and stage > 0 else 1, bottleneck))
                at = (width << stage) * (4 if bottleneck else 1)
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.fc = nn.Linear(at, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def hard_sigmoid(x):
    return (x + 3).clamp(0, 6) / 6  # PyTorch's own rounds a sixth to f32, in f64 too


class HardSwish(nn.Module):
    def forward(self, x):
        return x * hard_sigmoid(x)


def conv_norm(into, out, kernel=1, stride=1, groups=1, activation=None):
    layers = [nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False),
              nn.BatchNorm2d(out, eps=0.001, momentum=0.01)]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class Squeeze(nn.Module):
    def __init__(self, channels, inside):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, inside, 1), nn.Conv2d(inside, channels, 1)

    def forward(self, x):
        return x * hard_sigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1)))))


class InvertedResidual(nn.Module):
    def __init__(self, into, kernel, expanded, out, squeeze, hard_swish, stride):
        super().__init__()
        activation = HardSwish if hard_swish else nn.ReLU
        layers = [] if into == expanded else [conv_norm(into, expanded, activation=activation)]
        layers.append(conv_norm(expanded, expanded, kernel, stride, expanded, activation))
        if squeeze:
            layers.append(Squeeze(expanded, squeeze))
        self.block = nn.Sequential(*layers, conv_norm(expanded, out))
        self.residual = stride == 1 and into == out

    def forward(self, x):
        return x + self.block(x) if self.residual else self.block(x)


class MobileNetV3(nn.Module):
    """Howard et al. 2019; stages are (kernel, expanded, out, channels inside the squeeze or 0, hard_swish, stride)."""

    def __init__(self, stages, last, classes, into, stem):
        super().__init__()
        layers, at = [conv_norm(into, stem, 3, 2, activation=HardSwish)], stem
        for stage in stages:
            layers.append(InvertedResidual(at, *stage))
            at = stage[2]
        self.features = nn.Sequential(*layers, conv_norm(at, 6 * at, activation=HardSwish))
        self.classifier = nn.Sequential(nn.Linear(6 * at, last), HardSwish(), nn.Dropout(0.0),
                                        nn.Linear(last, classes))

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class DoubleConv(nn.Module):
    def __init__(self, into, middle, out):
        super().__init__()
        self.double_conv = nn.Sequential(conv(into, middle, 3), nn.BatchNorm2d(middle), nn.ReLU(),
                                         conv(middle, out, 3), nn.BatchNorm2d(out), nn.ReLU())

    def forward(self, x):
        return self.double_conv(x)


class Down(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(into, out, out))

    def forward(self, x):
        return self.maxpool_conv(x)


class Up(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
        self.conv = DoubleConv(into, into // 2, out)

    def forward(self, x, skip):
        x = self.up(x)
        rows, columns = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
        x = F.pad(x, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])
        return self.conv(torch.cat([skip, x], 1))


class OutConv(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.conv = nn.Conv2d(into, out, 1)

    def forward(self, x):
        return self.conv(x)


class UNet(nn.Module):
    """Ronneberger et al. 2015, bilinear."""

    def __init__(self, into, classes, width):
        super().__init__()
        self.inc = DoubleConv(into, width, width)
        self.down1, self.down2 = Down(width, 2 * width), Down(2 * width, 4 * width)
        self.down3, self.down4 = Down(4 * width, 8 * width), Down(8 * width, 8 * width)
        self.up1, self.up2 = Up(16 * width, 4 * width), Up(8 * width, 2 * width)
        self.up3, self.up4 = Up(4 * width, width), Up(2 * width, width)
        self.outc = OutConv(width, classes)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x4 = self.down3(x3)
        x = self.up1(self.down4(x4), x4)
        return self.outc(self.up4(self.up3(self.up2(x, x3), x2), x1))


class VitBlock(nn.Module):
    def __init__(self, size, heads, hidden):
        super().__init__()
        self.ln_1 = nn.LayerNorm(size, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(size, heads, batch_first=True)
        self.ln_2 = nn.LayerNorm(size, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(size, hidden), nn.GELU(), nn.Dropout(0.0), nn.Linear(hidden, size),
                                 nn.Dropout(0.0))

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class VitEncoder(nn.Module):
    def __init__(self, positions, layers, size, heads, hidden):
        super().__init__()
        self.pos_embedding = nn.Parameter(torch.zeros(1, positions, size))
        self.layers = nn.Sequential()
        for i in range(layers):
            self.layers.add_module(f"encoder_layer_{i}", VitBlock(size, heads, hidden))
        self.ln = nn.LayerNorm(size, eps=1e-6)

    def forward(self, x):
        return self.ln(self.layers(x + self.pos_embedding))


class Vit(nn.Module):
    """Dosovitskiy et al. 2021."""

    def __init__(self, image, patch, into, classes, layers, heads, size, hidden):
        super().__init__()
        self.conv_proj = nn.Conv2d(into, size, patch, patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, size))
        self.encoder = VitEncoder((image // patch) ** 2 + 1, layers, size, heads, hidden)
        self.heads = nn.Sequential()
        self.heads.add_module("head", nn.Linear(size, classes))

    def forward(self, x):
        patches = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = self.encoder(torch.cat([self.class_token.expand(len(x), -1, -1), patches], 1))
        return self.heads(x[:, 0])


class GptAttention(nn.Module):
    def __init__(self, size, heads, bias):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(size, 3 * size, bias=bias), nn.Linear(size, size, bias=bias)

    def forward(self, x):
        parts = [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1)]
        return self.c_proj(F.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2).flatten(2))


class GptFeedForward(nn.Module):
    def __init__(self, size, bias, approximate):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(size, 4 * size, bias=bias), nn.Linear(4 * size, size, bias=bias)
        self.gelu = nn.GELU(approximate)

    def forward(self, x):
        return self.c_proj(self.gelu(self.c_fc(x)))


class GptBlock(nn.Module):
    def __init__(self, size, heads, bias, approximate):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(size, bias=bias), GptAttention(size, heads, bias)
        self.ln_2, self.mlp = nn.LayerNorm(size, bias=bias), GptFeedForward(size, bias, approximate)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """Radford et al. 2019."""

    def __init__(self, vocabulary, context, layers, heads, size, bias=True, approximate="none"):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocabulary, size), wpe=nn.Embedding(context, size),
            h=nn.ModuleList([GptBlock(size, heads, bias, approximate) for _ in range(layers)]),
            ln_f=nn.LayerNorm(size, bias=bias)))
        self.lm_head = nn.Linear(size, vocabulary, bias=False)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, tokens):
        x = self.transformer.wte(tokens) + self.transformer.wpe.weight[: tokens.shape[1]]
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


class LlamaLayer(nn.Module):
    def __init__(self, size, heads, kv_heads, hidden, rope_base):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(size, eps=1e-5)
        self.self_attn = CausalSelfAttention(size, heads, kv_heads, rope_base=rope_base)
        self.post_attention_layernorm = nn.RMSNorm(size, eps=1e-5)
        self.mlp = Mlp(size, hidden)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Touvron et al. 2023."""

    def __init__(self, vocabulary, layers, size, heads, kv_heads, hidden, rope_base=10000.0, tied=True):
        super().__init__()
        self.model = nn.ModuleDict(dict(
            embed_tokens=nn.Embedding(vocabulary, size),
            layers=nn.ModuleList([LlamaLayer(size, heads, kv_heads, hidden, rope_base) for _ in range(layers)]),
            norm=nn.RMSNorm(size, eps=1e-5)))
        self.lm_head = None if tied else nn.Linear(size, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x)
        x = self.model.norm(x)
        return self.lm_head(x) if self.lm_head else x @ self.model.embed_tokens.weight.t()


class LstmText(nn.Module):
    """Zaremba et al. 2014."""

    def __init__(self, vocabulary, embedding, hidden, layers, tied=False):
        super().__init__()
        self.encoder = nn.Embedding(vocabulary, embedding)
        self.rnn = nn.LSTM(embedding, hidden, layers)
        self.decoder = nn.Linear(hidden, vocabulary)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens):
        return self.decoder(self.rnn(self.encoder(tokens))[0])
