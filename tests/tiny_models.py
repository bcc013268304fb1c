"""Tiny classifiers of the digits, which take milliseconds a pass; robench imports them as a user's own code."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from user_data import scans

import robench

REGISTRY = """\
checkpoints:
  honest:
    architecture: {backbone: python, target: 'tiny_models:Tiny'}
    weights: {uri: tiny.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.0, 0.0, 0.0], std: [1.0, 1.0, 1.0]}
  noisy:
    architecture: {backbone: python, target: 'tiny_models:Noisy'}
    weights: {uri: tiny.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.0, 0.0, 0.0], std: [1.0, 1.0, 1.0]}
"""


class Tiny(nn.Module):
    """Two layers over 8x8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(192, 64), nn.GELU(), nn.Linear(64, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layers(images)
        return logits


class Few(nn.Module):
    """One layer over images of 16 pixels, of any number of classes."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(768, num_classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(images.flatten(1))
        return logits


class Noisy(Tiny):
    """Its logits have noise that the seeds of the examples decide."""

    takes_seeds = True

    def forward(self, images: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        given = range(len(images)) if seeds is None else seeds
        noise = [torch.randn(10, generator=torch.Generator().manual_seed(seed % 2**63)) for seed in given]
        return super().forward(images) + 0.5 * torch.stack(noise)


def write_few(folder: Path, weight: torch.Tensor) -> tuple[str, ...]:
    """Write images of 16 pixels of K classes, and ``Few`` with a weight (K, 768) and the first class ahead if all tie.

    Return the options of a run on them; the number of classes is in the file alone.
    """
    images, labels = scans(24, side=16)
    np.savez(folder / "data.npz", inputs=images[labels < len(weight)], targets=labels[labels < len(weight)])
    bias = 0.01 * (torch.arange(len(weight)) == 0)
    save_file({"layer.weight": weight, "layer.bias": bias}, folder / "few.safetensors")
    (folder / "few.yaml").write_text(
        "datasets:\n  mine: {kind: npz, path: data.npz}\n"
        "checkpoints:\n  few:\n"
        "    architecture: {backbone: python, target: 'tiny_models:Few',"
        f" arguments: {{num_classes: {len(weight)}}}}}\n"
        "    weights: {uri: few.safetensors, sha256: null}\n"
        "    preprocessing: {kind: image, mean: [0.0, 0.0, 0.0], std: [1.0, 1.0, 1.0]}\n"
    )
    return "--registry", str(folder / "few.yaml"), "--dataset", "mine", "--model", "few"


def write_registry(folder: Path) -> Path:
    """Train both on 400 images, and return a registry file that names them ``honest`` and ``noisy``."""
    batch = robench.load_dataset("digits").batch(0, 400)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Tiny()
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(60):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch.inputs), batch.targets).backward()
            optimizer.step()
    save_file(model.state_dict(), folder / "tiny.safetensors")
    registry = folder / "registry.yaml"
    registry.write_text(REGISTRY)
    return registry
