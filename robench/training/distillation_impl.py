"""Hard distillation: a model with a distillation token learns the labels and a teacher's predictions.

Source: Touvron et al. 2021, arXiv:2012.12877, section 4: with the logits Z of the class token, Z' of the distillation
token and Z_t of the teacher, and the cross-entropy L of a softmax,

    (L(Z, y) + L(Z', argmax Z_t)) / 2

The targets y of the class token are smoothed and mixed as without a teacher, and the teacher's predictions are not
smoothed. The teacher sees the images as the model does, augmented, mixed and normalised, and is in evaluation mode.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from robench.core.checkpoint import Checkpoint
from robench.core.errors import DeclarationError
from robench.core.shard import EXACT_DTYPE
from robench.models.build import build
from robench.models.loading import Named, load_strictly, resolve_file
from robench.models.state_files import load_state
from robench.training.base import TrainingPrecision
from robench.training.deit import Teacher
from robench.training.optimization import in_precision


class LoadedTeacher:
    """Teacher of a checkpoint's training, with the SHA-256 of its weights.

    Raises:
        WeightsError: its weights are missing, unsafe, or another file than declared, or do not fit the architecture.
    """

    def __init__(self, declared: Teacher, checkpoint: Checkpoint, device: torch.device) -> None:
        named = Named(checkpoint.name, field="training.teacher.weights", noun="weights of the teacher")
        path, self.digest = resolve_file(declared.weights, checkpoint.folder, named)
        model = build(declared.architecture)
        load_strictly(model, load_state(path, declared.weights), f"{path} (teacher of {checkpoint.name})")
        self._model = model.eval().requires_grad_(False).to(device)

    def check_fit(self, images: Tensor, num_classes: int) -> None:
        """Refuse a teacher that cannot take ``images`` (B, 3, H, W), or that has other classes."""
        try:
            with torch.no_grad():
                shape = tuple(self._model(images).shape)
        # Broad because any error of a model on images of another size means that it does not fit.
        except Exception as error:
            raise DeclarationError(f"the teacher cannot take images of {images.shape[-1]} pixels: {error}") from error
        if shape != (len(images), num_classes):
            raise DeclarationError(
                f"the teacher gives {shape} for {len(images)} images, but the dataset has {num_classes} classes; take"
                " one of the same dataset"
            )

    def targets(
        self, images: Tensor, targets: Tensor, micro_batch_size: int, precision: TrainingPrecision = EXACT_DTYPE
    ) -> Tensor:
        """Return the targets (B, 2, classes) of class and distillation token; ``targets`` are the former's."""
        with torch.no_grad(), in_precision(images.device, precision):
            predicted = torch.cat([self._model(part).argmax(dim=1) for part in images.split(micro_batch_size)])
        return torch.stack([targets, one_hot(predicted, targets.shape[1]).to(targets.dtype)], dim=1)


class TwoHeaded:
    """Outputs of a model with a distillation token in training: the logits of both heads, (B, 2, classes)."""

    def __init__(self, model: nn.Module, name: str) -> None:
        begin = getattr(model, "set_distilled_training", None)
        if begin is None:
            raise DeclarationError(
                f"model {name!r} has no distillation token, which learns from the teacher: set distilled: true in its"
                " architecture, or leave distillation out of its training"
            )
        begin(True)
        self._model = model

    # Any: a list ``losses_B``.
    def __call__(self, images: Tensor, **options: Any) -> Tensor:
        """Return the logits of images (B, 3, H, W)."""
        return torch.stack(self._model(images, **options), dim=1)
