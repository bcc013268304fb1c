"""Measure your own segmentation network on your own masks: ``python examples/own_masks.py IMAGES MASKS``.

IMAGES has RGB images of one size, MASKS a PNG of class numbers for each, of the same name. The first half of them
trains a small network in the place of yours; robench corrupts and attacks it on the other half.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import robench


class Network(nn.Module):
    """Two convolutions at half the resolution. Images are RGB in [0, 1], outputs logits of the images' size."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(16, num_classes, 3, padding=1),
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (B, classes, H, W)."""
        return nn.functional.interpolate(self.layers(images), size=images.shape[-2:], mode="bilinear")


def main(images: Path, masks: Path) -> None:
    """Train on the first half of the images, and print what corruptions and attacks leave on the second."""
    pairs = [(np.array(Image.open(each)), np.array(Image.open(masks / each.name))) for each in sorted(images.iterdir())]
    pixels = torch.stack([torch.from_numpy(image).permute(2, 0, 1) / 255 for image, _ in pairs])
    targets = torch.stack([torch.from_numpy(mask).long() for _, mask in pairs])
    half, num_classes = len(pairs) // 2, int(targets.max()) + 1

    torch.manual_seed(0)
    network = Network(num_classes)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(pixels[:half]), targets[:half]).backward()
        optimizer.step()

    np.savez("own.npz", inputs=np.stack([image for image, _ in pairs[half:]]), targets=targets[half:].numpy())
    entry = f"datasets: {{own: {{kind: npz, path: own.npz, task: segmentation, num_classes: {num_classes}}}}}"
    Path("own.yaml").write_text(entry)
    for suite in ("masks-adv", "masks-c"):
        report = robench.run(suite, {"mine": network}, dataset="own", registry="own.yaml", results="results")
        print(report.to_frame().T.round(3).to_string())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
