"""The examples of `luminal bench` as PyTorch modules, with what they are given."""
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "validate"))
import networks  # noqa: E402


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.l1, self.l2 = nn.Linear(1568, 128), nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.c1(x)), 2)
        x = F.max_pool2d(torch.relu(self.c2(x)), 2).flatten(1)
        return self.l2(torch.relu(self.l1(x)))


class Encoder(nn.Module):
    """The model of `luminal bench encoder`."""

    def __init__(self):
        super().__init__()
        self.words, self.positions, self.norm = nn.Embedding(30522, 384), nn.Embedding(128, 384), nn.LayerNorm(384)
        layer = nn.TransformerEncoderLayer(384, 12, 1536, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 6)

    def forward(self, tokens):
        return self.encoder(self.norm(self.words(tokens) + self.positions.weight))


MOBILENET = [(3, 16, 16, 0, False, 1), (3, 64, 24, 0, False, 2), (3, 72, 24, 0, False, 1), (5, 72, 40, 24, False, 2),
             (5, 120, 40, 32, False, 1), (5, 120, 40, 32, False, 1), (3, 240, 80, 0, True, 2), (3, 200, 80, 0, True, 1),
             (3, 184, 80, 0, True, 1), (3, 184, 80, 0, True, 1), (3, 480, 112, 120, True, 1), (3, 672, 112, 168, True, 1),
             (5, 672, 160, 168, True, 2), (5, 960, 160, 240, True, 1), (5, 960, 160, 240, True, 1)]


def images(batch, side=224):
    return torch.randn(batch, 3, side, side)


def resnet50():
    return networks.ResNet([3, 4, 6, 3], True, 1000, 3, 64)


def mobilenet():
    return networks.MobileNetV3(MOBILENET, 1280, 1000, 3, 16)


def evaluation(name, batch):
    """The network in evaluation mode, and its input."""
    made = {
        "encoder": lambda: (Encoder(), torch.randint(0, 30522, (batch, 128))),
        "vit-b16": lambda: (networks.Vit(224, 16, 3, 1000, 12, 12, 768, 3072), images(batch)),
        "unet": lambda: (networks.UNet(3, 2, 64), images(batch, 256)),
        "resnet50": lambda: (resnet50(), images(batch)),
        "mobilenet": lambda: (mobilenet(), images(batch)),
    }
    network, x = made[name]()
    return network.eval(), x


def training(name, batch):
    """The network, its input and the classes that it is to find."""
    classes = lambda n, *dims: torch.randint(0, n, dims)  # noqa: E731
    if name == "gpt-step":
        tokens = classes(65, 4, 257)
        return networks.Gpt(65, 256, 6, 6, 384, False), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    if name == "lstm-step":
        tokens = classes(256, 129, 16)
        return networks.LstmText(256, 512, 512, 2), tokens[:-1], tokens[1:]
    if name == "mlp-step":
        layers = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        return layers, torch.randn(128, 784), classes(10, 128)
    if name == "mnist-step":
        return Digits(), torch.randn(64, 1, 28, 28), classes(10, 64)
    network = {"resnet50-step": resnet50, "mobilenet-step": mobilenet}[name]()
    return network, images(batch), classes(1000, batch)
