"""Declaration of the training of models by DeiT's recipe."""

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt

from robench.core.checkpoint import Weights
from robench.datasets import DATASETS
from robench.datasets.cifar import TRAIN_SPLIT
from robench.declarations.base import LARGEST, SEEDS, DeclarationBase, FieldProblem
from robench.domains.images import IMAGES
from robench.models.base import ArchitectureBase
from robench.training.base import Count, NotNegative, Proportion, TrainingBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Teacher(DeclarationBase):
    """Model whose predictions another learns; it has the same dataset, and the same preprocessing.

    Attributes:
        architecture: backbone that the weights fit.
        weights: location, checksum and layout of its weights.
    """

    kind: ClassVar[str] = "teacher"
    implementation: ClassVar[str] = "robench.training.distillation_impl:LoadedTeacher"

    architecture: ArchitectureBase
    weights: Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class DeitTraining(TrainingBase):
    """Recipe of DeiT, for images in a folder or in memory. Touvron et al. 2021, arXiv:2012.12877, table 9.

    The defaults are those of table 9 (DeiT-B) and otherwise those of facebookresearch/deit, main.py. Images in memory,
    such as cifar-10's, are padded by 4 pixels and cropped to their size, as in datasets.py there for sides up to 32,
    in place of a crop of random size.

    Attributes:
        num_epochs: length of the cosine schedule.
        cooldown_epochs: number of epochs that follow it at ``min_learning_rate``.
        batch_size: number of examples per step, an even number, since two are mixed.
        learning_rate: peak for a batch of ``learning_rate_batch_size``; the peak in use is proportional to
            ``batch_size``.
        learning_rate_batch_size: batch size that ``learning_rate`` refers to.
        warmup_learning_rate, min_learning_rate: start of the warm-up, and end of the cosine schedule; not scaled.
        weight_decay: weight decay; not applied to biases, norms, other vectors, positions and tokens.
        warmup_epochs: number of epochs over which the learning rate increases; it changes only between epochs.
        label_smoothing: fraction of the target spread over all classes.
        drop_path_rate: probability of dropping a branch (stochastic depth): the last block's in ``vit``, with a linear
            rise from 0 in the first; every block's in ``fan``.
        mixup, cutmix: parameters of the beta distributions; each group uses one of the two; 0 for never.
        mixing_group_size: number of examples mixed with each other, with one method and proportion; an even number. In
            the authors' code it is the batch of one GPU.
        auto_augment: name of the policy in timm.
        interpolation: filter of the random crop; ``preprocessing``: that of the entry's preprocessing; ``random``:
            bilinear or bicubic, drawn for each image.
        random_erasing: probability of replacing a rectangle of an image by noise.
        num_repeats: number of repetitions of an image, each augmented separately; an epoch has as many examples as
            there are images, so it contains one in ``num_repeats`` of the images.
        ema_decay: decay of the moving average of the weights, null for none.
        published: the published state: the weights themselves, as in the authors' code, or their moving average.
        clip_grad: maximum norm of a step's gradient, null for none.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
        distillation: ``hard``: the distillation token learns the class that the teacher predicts, with the weight of
            the labels, as in section 4 (``distillation_impl.py``); ``none``: there is no teacher.
        teacher: model that predicts them; null for none.
    """

    kind: ClassVar[str] = "deit"
    implementation: ClassVar[str] = "robench.training.deit_impl:train_deit"
    keeps_epochs: ClassVar[bool] = True
    takes_precision: ClassVar[bool] = True

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
    label_smoothing: Proportion = 0.1
    drop_path_rate: Annotated[float, Ge(0), Lt(1)] = 0.1
    mixup: NotNegative = 0.8
    cutmix: NotNegative = 1.0
    mixing_group_size: Annotated[int, Ge(2), Le(LARGEST)] = 256
    auto_augment: str = "rand-m9-mstd0.5-inc1"
    interpolation: Literal["preprocessing", "bilinear", "bicubic", "random"] = "preprocessing"
    random_erasing: Proportion = 0.25
    num_repeats: Count = 3
    ema_decay: Annotated[float | None, Gt(0), Lt(1)] = 0.99996
    published: Literal["weights", "average"] = "weights"
    clip_grad: Annotated[float | None, Gt(0), Le(LARGEST)] = None
    auxiliary_weight: NotNegative = 0.0
    distillation: Literal["none", "hard"] = "none"
    teacher: Teacher | None = None

    @property
    def total_epochs(self) -> int:
        """Return the number of epochs of the cosine schedule and the cool-down together."""
        return self.num_epochs + self.cooldown_epochs

    def shortened(self, num_epochs: int) -> Self:
        """Return the training with the given total number of epochs, without a cool-down."""
        return replace(self, num_epochs=num_epochs, cooldown_epochs=0)

    def contradictions(self) -> list[FieldProblem]:
        """Return problems between fields: of mixing, averages, distillation, and data that are in no folder."""
        problems = [
            (name, f"must be even, since two examples are mixed, got {size}")
            for name, size in (("batch_size", self.batch_size), ("mixing_group_size", self.mixing_group_size))
            if size % 2
        ]
        if self.published == "average" and self.ema_decay is None:
            problems.append(("published", "must be weights where ema_decay is null, got average"))
        if (self.distillation == "hard") != (self.teacher is not None):
            wrong = "must be left out with distillation none" if self.teacher else "missing, with distillation hard"
            problems.append(("teacher", wrong))
        declared = DATASETS.get(self.dataset)
        if declared is not None and not (declared.has_training_images or self.is_in_memory):
            wanted = "must have images to learn from, in a folder as imagenet-1k or in memory as cifar-10"
            problems.append(("dataset", f"{wanted}, got {self.dataset}"))
        return problems

    @property
    def is_in_memory(self) -> bool:
        """Return whether the images to learn from are in memory, all of one size."""
        declared = DATASETS[self.dataset]
        is_of_images = declared.domain == IMAGES.name and declared.task == "classification"
        return is_of_images and TRAIN_SPLIT in declared.splits and declared.image_size is not None

    def side_of(self, crop: int | None) -> int | None:
        """Return the side of the images that the model learns from, in pixels; ``crop`` is the preprocessing's."""
        return DATASETS[self.dataset].image_size if self.is_in_memory else crop
