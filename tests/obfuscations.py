"""Obfuscations planted in front of, in, or behind a model, each with what it hides from an attack."""

import io
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import interpolate, pad

import robench
from robench.core.protocols import Batch, Dataset
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.declarations.preprocessing import ImagePreprocessing
from robench.evaluation.probe import Probe, clean_correct
from robench.models.in_memory import in_memory_checkpoint
from robench.models.in_memory_impl import model_of
from robench.models.loaded import LoadedModel
from robench.perturbations.draws import ExampleDraws

LEVELS = 8
JPEG_QUALITY = 75
WAVE, FREQUENCY = 0.05, 500.0
SIDES = (26, 28, 30, 32)


class Obfuscated(nn.Module):
    """Model with ``before`` in front of its inputs and ``after`` behind its logits; both take the clean inputs too."""

    def __init__(
        self,
        model: nn.Module,
        before: Callable[[Tensor], Tensor] = lambda images: images,
        after: Callable[[Tensor, Tensor], Tensor] = lambda logits, images: logits,
    ) -> None:
        super().__init__()
        self.model, self.before, self.after = model, before, after

    def forward(self, images: Tensor) -> Tensor:
        return self.after(self.model(self.before(images)), images)


def rounded(images: Tensor) -> Tensor:
    """Round to few levels: the gradient is zero everywhere."""
    return torch.round(images * LEVELS) / LEVELS


def compressed(images: Tensor) -> Tensor:
    """Write and read JPEG files: there is no graph to the inputs."""
    made = []
    for image in images.detach().clamp(0, 1).mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy():
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=JPEG_QUALITY)
        made.append(np.asarray(Image.open(file), dtype=np.float32) / 255)
    return torch.from_numpy(np.stack(made)).permute(0, 3, 1, 2).to(images)


def shattered(images: Tensor) -> Tensor:
    """Add a fast wave of each value: outputs hardly change, and gradients are those of the wave."""
    return images + WAVE * torch.sin(FREQUENCY * images)


def resized(images: Tensor) -> Tensor:
    """Scale to a random size and pad at random: each pass has another gradient."""
    side = SIDES[int(torch.randint(len(SIDES), ()))]
    left, top = (int(torch.randint(images.shape[-1] - side + 1, ())) for _ in range(2))
    small = interpolate(images, size=(side, side), mode="bilinear", align_corners=False)
    return pad(small, (left, images.shape[-1] - side - left, top, images.shape[-2] - side - top))


def heated(logits: Tensor, images: Tensor) -> Tensor:
    """Multiply the logits by 1,000: the cross-entropy is saturated."""
    return 1000 * logits


def roughness(images: Tensor) -> Tensor:
    """Return the mean absolute second difference (B,) of images, which perturbations raise."""
    return (images.diff(n=2, dim=-1).abs().mean((1, 2, 3)) + images.diff(n=2, dim=-2).abs().mean((1, 2, 3))) / 2


def smoothed(images: Tensor) -> Tensor:
    """Return the medians of 3 x 3 neighbourhoods."""
    windows = pad(images, (1, 1, 1, 1), mode="reflect").unfold(2, 3, 1).unfold(3, 3, 1)
    return windows.flatten(-2).median(-1).values


class Detecting(nn.Module):
    """Detector of images that are rougher than the roughest clean one, whose class becomes that of smoothed images."""

    def __init__(self, model: nn.Module, clean: Tensor) -> None:
        super().__init__()
        self.model, self.limit = model, float(roughness(clean).max())

    def forward(self, images: Tensor) -> Tensor:
        is_rough = (roughness(images) > self.limit)[:, None]
        return torch.where(is_rough, self.model(smoothed(images)).detach(), self.model(images))


def planted(model: nn.Module, clean: Tensor) -> Mapping[str, nn.Module]:
    """Return each obfuscation of a model by its name; ``clean`` (B, C, H, W) are images that a detector lets pass."""
    return {
        "rounding of inputs": Obfuscated(model, rounded),
        "JPEG inside": Obfuscated(model, compressed),
        "shattered gradients": Obfuscated(model, shattered),
        "random resizing": Obfuscated(model, resized),
        "temperature 1e3": Obfuscated(model, after=heated),
        "detector that flips the class": Detecting(model, clean),
    }


class OfPixels(nn.Module):
    """The published model of digits with its normalisation inside, so that obfuscations see pixels."""

    def __init__(self) -> None:
        super().__init__()
        loaded = robench.load_checkpoint("digits-vit")
        assert isinstance(loaded, LoadedModel)
        self.inner, (self.mean, self.std) = loaded.module, loaded.normalisation

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.inner((images - self.mean) / self.std)
        return logits


def probe_of(module: nn.Module, batch: Batch, dataset: Dataset, epsilon: Fraction) -> Probe:
    """Return the probe of an audit of a module that takes pixels."""
    preprocessing = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    checkpoint = in_memory_checkpoint("planted", "0" * 64, preprocessing, Path.cwd(), "classification")
    model = model_of(checkpoint, module.eval(), torch.device("cpu"))
    seeds = [example_seed(0, dataset.identity.fingerprint, "audit", each) for each in batch.ids]
    of_prediction = [stream_seed(seed, Stream(purpose="prediction")) for seed in seeds]
    draws = ExampleDraws(seeds, model.device, of_prediction)
    return clean_correct(model, batch, draws, epsilon, 100)
