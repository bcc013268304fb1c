"""Training beside a plain loop of PyTorch, in alternating rounds: same model, augmentation, optimiser and schedule."""

from __future__ import annotations

import time
from statistics import median

import torch
from torch.nn.functional import cross_entropy, pad

from robench.core.protocols import Batch
from robench.declare import find_checkpoints
from robench.models.build import build
from robench.training.base import Host
from robench.training.one_cycle_impl import ImagesInMemory, Learner
from robench.training.optimization import fraction_of_peak, reproducible

NUM_IMAGES = 1280
ROUNDS = 7
MOST = 1.05


class Images:
    """Random images of 8 bits in the place of CIFAR-10."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randint(0, 256, (NUM_IMAGES, 3, 32, 32), generator=generator, dtype=torch.uint8)
        self.targets = torch.randint(0, 10, (NUM_IMAGES,), generator=generator)

    def __len__(self) -> int:
        return NUM_IMAGES

    def batch(self, start: int, stop: int) -> Batch:
        inputs = self.images[start:stop].to(torch.float32).div(255)
        return Batch(ids=tuple(map(str, range(start, stop))), inputs=inputs, targets=self.targets[start:stop])


def plain_epoch(model, optimizer, images: Images, mean, std, rate: float) -> None:
    """Train for one epoch as a script would."""
    order = torch.randperm(NUM_IMAGES)
    for step, rows in enumerate(order.split(128)):
        for group in optimizer.param_groups:
            group["lr"] = rate * fraction_of_peak(step / 10, 0.15)
        batch = pad(images.images[rows], [4] * 4)
        top, left = torch.randint(0, 9, (2, len(rows)))
        lines, columns = top[:, None] + torch.arange(32), left[:, None] + torch.arange(32)
        columns = torch.where(torch.rand(len(rows), 1) < 0.5, columns.flip(1), columns)
        index = torch.arange(len(rows))[:, None, None]
        batch = batch.permute(0, 2, 3, 1)[index, lines[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
        # In the memory format that images have when they are measured.
        batch = (batch.contiguous().to(torch.float32).div(255) - mean) / std
        loss = cross_entropy(model(batch), images.targets[rows], label_smoothing=0.1)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def test_training_takes_at_most_1_05_of_a_plain_loop() -> None:
    (checkpoint,) = find_checkpoints(["cifar10-vit"])
    images = Images()
    with reproducible(0):
        models = [build(checkpoint.architecture).train() for _ in range(2)]
        kept = ImagesInMemory(images, torch.device("cpu"))
        learner = Learner(models[0], checkpoint.training, checkpoint.preprocessing, kept, Host(data_root=None))
        optimizer = torch.optim.AdamW(models[1].parameters(), lr=1e-3, weight_decay=0.05)
        preprocessing = checkpoint.preprocessing
        mean, std = (torch.tensor(each).reshape(3, 1, 1) for each in (preprocessing.mean, preprocessing.std))
        ratios, seconds = [], []
        for number in range(ROUNDS):
            started = time.perf_counter()
            learner.epoch(number)
            between = time.perf_counter()
            plain_epoch(models[1], optimizer, images, mean, std, 1e-3)
            ratios.append((between - started) / (time.perf_counter() - between))
            seconds.append(between - started)
    # The first round warms up.
    ratio = median(ratios[1:])
    print(f"\ntraining over a plain loop: {ratio:.3f}, {NUM_IMAGES / median(seconds[1:]):.0f} images/s on one thread")
    assert ratio <= MOST
