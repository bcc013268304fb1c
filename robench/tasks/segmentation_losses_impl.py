"""Masks read in strips, and the losses of their pixels that attacks on segmentation maximise.

Where a mask has another size than the inputs, such as the original size of an image that was resized for the network,
logits are resized to it, bilinearly. Neither the resized logits of a whole mask nor their softmax is ever in memory:
masks are read in strips of rows, and gradients go through one strip at a time.

A loss is one value per image, from logits (B, K, h, w) and targets (B, H, W): a sum over the pixels that are not
ignored, divided by their number, where the papers divide by that of all pixels. With c the cross-entropy of a pixel, p
the softmax of its logits and y its target, ``ce`` is the mean of c; the others are:

- ``segpgd``: (1 - l) c where the prediction is right at this step and l c where it is wrong, with l = (t - 1) / (2 T)
  at step t of T. Gu et al. 2022, "SegPGD", ECCV, arXiv:2207.12391, section 3.
- ``cospgd``: c times the cosine of p and the one-hot target, p_y / |p|. Agnihotri et al. 2024, "CosPGD", ICML,
  arXiv:2302.02213. The weight has no gradient, as in the authors' code (``cospgd_scale``), which takes the softmax for
  p; the code of Croce et al. takes the sigmoid of the logits.
- ``masked-ce``, ``balanced-ce`` and ``js``: c where the prediction is right, else 0 (L_MCE); the same with a weight per
  class (L_MCE-Bal); the Jensen-Shannon divergence of p and the one-hot target (L_JS). Croce, Singh & Hein 2024,
  "Towards reliable evaluation and fast training of robust semantic segmentation models", ECCV, arXiv:2306.12941
  version 2, and the code of that version (nmndeep/Robust-Segmentation, ``semseg/attacker.py``). Version 1 has other
  losses, with that of SegPGD as its balanced one.

``balanced-ce`` differs: that code has a table of weights for each of two datasets, inversely proportional to the pixels
of a class in all masks. Here the pixels of the image's own mask are counted, so that each of its classes has the same
weight, on any data, and an image's result depends on no other image.

Of the divergence only p_y is needed: ln 2 + (p_y ln p_y - (1 + p_y) ln(1 + p_y)) / 2, at most ln 2 a pixel.
"""

from collections.abc import Callable, Iterator, Mapping
from math import log

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from robench.devices import is_asynchronous
from robench.tasks.base import Loss, resolved, scheduled
from robench.tasks.segmentation import IGNORED

# Logits of a strip: 64 MB of float32.
MOST_VALUES = 1 << 24
# Function of the logits (B, K, rows, W) and the targets (B, rows, W) of a strip.
OfStrip = Callable[[Tensor, Tensor], Tensor]


def strips(outputs: Tensor, targets: Tensor) -> Iterator[tuple[slice, Callable[[], Tensor]]]:
    """Yield rows of the targets (B, H, W), and a function that returns the logits (B, K, rows, W) resized to them.

    Logits are resized bilinearly, without aligned corners, as by ``torch.nn.functional.interpolate``; those of the
    targets' size stay as they are.
    """
    height, width = targets.shape[-2:]
    num_rows = max(1, MOST_VALUES // max(1, outputs.shape[0] * outputs.shape[1] * width))
    down, across = (
        _weights(one, other, outputs) for one, other in zip(outputs.shape[-2:], (height, width), strict=True)
    )

    def resized(rows: slice) -> Tensor:
        logits = outputs[:, :, rows] if down is None else torch.einsum("rh,bkhw->bkrw", down[rows], outputs)
        return logits if across is None else logits @ across.T

    for start in range(0, height, num_rows):
        rows = slice(start, min(start + num_rows, height))
        yield rows, lambda rows=rows: resized(rows)  # type: ignore[misc]  # bound early


def _weights(size: int, wanted: int, like: Tensor) -> Tensor | None:
    """Return the weights (wanted, size) of a linear interpolation between pixel centres; None if nothing changes."""
    if size == wanted:
        return None
    places = ((torch.arange(wanted, dtype=torch.float64) + 0.5) * (size / wanted) - 0.5).clamp(0, size - 1)
    lower = places.floor().long()
    part = places - lower
    weights = torch.zeros(wanted, size, dtype=torch.float64)
    weights.scatter_(1, lower[:, None], (1 - part)[:, None])
    weights.scatter_add_(1, (lower + 1).clamp(max=size - 1)[:, None], part[:, None])
    return weights.to(like)


def summed(outputs: Tensor, targets: Tensor, of_strip: OfStrip) -> Tensor:
    """Return the sum over strips of ``of_strip``, (B, ...), differentiable in the outputs."""
    total: Tensor | None = None
    for rows, resized in strips(outputs, targets):
        is_whole = rows == slice(0, targets.shape[-2])

        def of_rows(rows: slice = rows, resized: Callable[[], Tensor] = resized) -> Tensor:
            return of_strip(resized(), targets[..., rows, :])

        # The graph of one strip at a time is in memory.
        keeps = is_whole or not outputs.requires_grad
        part = of_rows() if keeps else checkpoint(of_rows, use_reentrant=False)
        total = part if total is None else total + part
    assert total is not None  # a mask has a row
    return total


def num_counted(targets: Tensor) -> Tensor:
    """Return the number of pixels (B,) that are not ignored, at least 1, so that means over none are 0."""
    return (targets != IGNORED).flatten(1).sum(1).clamp(min=1)


def mean_over_pixels(of_pixels: OfStrip) -> Loss:
    """Return the loss (B,) that is the mean over pixels that are not ignored of ``of_pixels`` (B, rows, W)."""

    @resolved
    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        return summed(outputs, targets, lambda *strip: of_pixels(*strip).flatten(1).sum(1)) / num_counted(targets)

    return loss


def predicted(logits: Tensor) -> Tensor:
    """Return the class of each pixel (B, H, W): the lowest of those with the highest of the logits (B, K, H, W)."""
    return (logits == logits.amax(1, keepdim=True)).int().argmax(1)


def _of_pixels(logits: Tensor, classes: Tensor) -> Tensor:
    """Return the cross-entropy of each pixel (B, rows, W), 0 where it is ignored.

    Where it rounds to 0, its continuation along a tangent, as of classifiers (``cross_entropy_loss``): it is below 0 by
    less than rounding errors of other pixels, and its gradient does not vanish.
    """
    losses: Tensor = cross_entropy(logits, classes, ignore_index=IGNORED, reduction="none")
    is_lost = (losses <= 0) & (classes != IGNORED)
    if logits.shape[1] < 2 or not (is_asynchronous(losses) or bool(is_lost.any())):
        return losses
    places = classes.clamp(min=0)[:, None]
    leads = logits.scatter(1, places, -torch.inf).logsumexp(1) - logits.gather(1, places)[:, 0]
    resolution = torch.finfo(losses.dtype).eps / 2
    continued: Tensor = torch.where(is_lost, resolution * (1 + leads - log(resolution)), losses)
    return continued


@resolved
@scheduled
def segpgd(outputs: Tensor, targets: Tensor, progress: Tensor) -> Tensor:
    """Return the mean cross-entropy (B,) with weights that shift from right to wrong pixels.

    ``progress`` (B,) is (t - 1) / T.
    """
    of_wrong = (progress / 2)[:, None, None]

    def of_strip(logits: Tensor, classes: Tensor) -> Tensor:
        weights = torch.where(predicted(logits) == classes, 1 - of_wrong, of_wrong)
        return (weights * _of_pixels(logits, classes)).flatten(1).sum(1)

    return summed(outputs, targets, of_strip) / num_counted(targets)


@mean_over_pixels
def cospgd(logits: Tensor, classes: Tensor) -> Tensor:
    """Return the cross-entropy of each pixel, times the cosine of its probabilities and its target."""
    losses = _of_pixels(logits, classes)
    lengths: Tensor = logits.detach().softmax(1).norm(dim=1)
    cosines = torch.exp(-losses.detach()) / lengths
    return cosines * losses


@mean_over_pixels
def masked_cross_entropy(logits: Tensor, classes: Tensor) -> Tensor:
    """Return the cross-entropy of each pixel, 0 where it is wrong already."""
    return (predicted(logits) == classes) * _of_pixels(logits, classes)


@resolved
def balanced_cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean over the classes of a mask of their pixels' mean masked cross-entropy, (B,)."""
    num_classes = outputs.shape[1]
    places = torch.where(targets == IGNORED, num_classes, targets).flatten(1)
    counts = places.new_zeros(len(places), num_classes + 1).scatter_add_(1, places, torch.ones_like(places))
    weights = 1 / counts.clamp(min=1).to(outputs.dtype)

    def of_strip(logits: Tensor, classes: Tensor) -> Tensor:
        is_right = predicted(logits) == classes
        # Ignored pixels are never right.
        of_class = weights.gather(1, classes.clamp(min=0).flatten(1)).view(classes.shape)
        return (of_class * is_right * _of_pixels(logits, classes)).flatten(1).sum(1)

    return summed(outputs, targets, of_strip) / (counts[:, :-1] > 0).sum(1).clamp(min=1)


@mean_over_pixels
def jensen_shannon(logits: Tensor, classes: Tensor) -> Tensor:
    """Return the Jensen-Shannon divergence of each pixel's probabilities and its target, in nats."""
    losses = _of_pixels(logits, classes)
    right = torch.exp(-losses)
    divergences = log(2) - (right * losses + (1 + right) * torch.log1p(right)) / 2
    return torch.where(classes == IGNORED, 0, divergences)


pixel_cross_entropy = mean_over_pixels(_of_pixels)

LOSSES: Mapping[str, Loss] = {
    "ce": pixel_cross_entropy,
    "segpgd": segpgd,
    "cospgd": cospgd,
    "masked-ce": masked_cross_entropy,
    "balanced-ce": balanced_cross_entropy,
    "js": jensen_shannon,
}
