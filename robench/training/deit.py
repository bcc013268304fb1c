"""Declaration of the training of models by DeiT's recipe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt

from robench.datasets import DATASETS
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import Count, NotNegative, Share, TrainingBase


@dataclass(frozen=True, slots=True, kw_only=True)
class DeitTraining(TrainingBase):
    """The recipe of DeiT, for a dataset in a folder of images. Touvron et al. 2021, arXiv:2012.12877, table 9.

    The defaults are table 9's (DeiT-B) and, where it is silent, those of facebookresearch/deit, main.py.

    Attributes:
        num_epochs: length of the cosine; ``cooldown_epochs`` more follow at ``min_learning_rate``.
        batch_size: examples of one step, an even number, since two are mixed.
        learning_rate: peak for a batch of ``learning_rate_batch_size``; the peak in use is proportional to
            ``batch_size``.
        warmup_learning_rate, min_learning_rate: where the warm-up begins, and where the cosine ends; not multiplied.
        weight_decay: not of biases, norms, other vectors, positions and tokens.
        warmup_epochs: epochs over which the learning rate rises; it changes between epochs alone.
        label_smoothing: share of the target spread over all classes.
        drop_path_rate: probability of dropping a branch (stochastic depth): the last block's in ``vit``, with a linear
            rise from 0 in the first; every block's in ``fan``.
        mixup, cutmix: parameters of the beta distributions; a group is mixed in one of the two ways; 0 for never.
        mixing_group_size: examples that are mixed with each other, in one way and proportion; an even number. It is the
            batch of one GPU in the authors' code.
        auto_augment: timm's name of the policy.
        interpolation: of the random crop; ``preprocessing``: that of the entry's preprocessing; ``random``: bilinear or
            bicubic, drawn for each image.
        random_erasing: probability with which a rectangle of an image becomes noise.
        num_repeats: how often an image is met, each time augmented anew; an epoch has as many as there are images, so
            that it meets one in ``num_repeats`` of them.
        ema_decay: of the moving average of the weights that is kept beside them, null for none.
        published: the weights themselves, as the authors do, or their moving average.
        clip_grad: largest norm of a step's gradient, null for any.
        auxiliary_weight: times what layers ask of training beside the cross-entropy, averaged over them.
    """

    kind: ClassVar[str] = "deit"
    implementation: ClassVar[str] = "robench.training.deit_impl:train_deit"

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)] = 0
    num_epochs: Count = 300
    cooldown_epochs: Annotated[int, Ge(0), Le(LARGEST)] = 0
    batch_size: Annotated[int, Ge(2), Le(LARGEST)] = 1024
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)] = 5e-4
    learning_rate_batch_size: Count = 512
    warmup_learning_rate: NotNegative = 1e-6
    min_learning_rate: NotNegative = 1e-5
    weight_decay: NotNegative = 0.05
    warmup_epochs: Annotated[int, Ge(0), Le(LARGEST)] = 5
    label_smoothing: Share = 0.1
    drop_path_rate: Annotated[float, Ge(0), Lt(1)] = 0.1
    mixup: NotNegative = 0.8
    cutmix: NotNegative = 1.0
    mixing_group_size: Annotated[int, Ge(2), Le(LARGEST)] = 256
    auto_augment: str = "rand-m9-mstd0.5-inc1"
    interpolation: Literal["preprocessing", "bilinear", "bicubic", "random"] = "preprocessing"
    random_erasing: Share = 0.25
    num_repeats: Count = 3
    ema_decay: Annotated[float | None, Gt(0), Lt(1)] = 0.99996
    published: Literal["weights", "average"] = "weights"
    clip_grad: Annotated[float | None, Gt(0), Le(LARGEST)] = None
    auxiliary_weight: NotNegative = 0.0

    @property
    def total_epochs(self) -> int:
        """Epochs of the cosine and of the cool-down together."""
        return self.num_epochs + self.cooldown_epochs

    def shortened(self, num_epochs: int) -> Self:
        """Return the training with so many epochs in all, and no cool-down after them."""
        return replace(self, num_epochs=num_epochs, cooldown_epochs=0)

    def contradictions(self) -> list[FieldProblem]:
        """Mixing pairs the examples of a group, an average needs a decay, and images come from a folder."""
        problems = [
            (name, f"must be even, since two examples are mixed, got {size}")
            for name, size in (("batch_size", self.batch_size), ("mixing_group_size", self.mixing_group_size))
            if size % 2
        ]
        if self.published == "average" and self.ema_decay is None:
            problems.append(("published", "must be weights where ema_decay is null, got average"))
        declared = DATASETS.get(self.dataset)
        if declared is not None and declared.folder is None:
            problems.append(("dataset", f"must lie in a folder of images, such as imagenet-1k, got {self.dataset}"))
        elif declared is not None and not declared.has_training_images:
            problems.append(("dataset", f"must have images to learn from, as imagenet-1k has, got {self.dataset}"))
        return problems
