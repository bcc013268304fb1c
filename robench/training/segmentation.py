"""Declaration of the training of segmentation models."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Gt, Le, Lt

from robench.core.checkpoint import Weights
from robench.datasets import DATASETS
from robench.declarations.base import LARGEST, SEEDS, FieldProblem
from robench.training.base import Count, NotNegative, Proportion, TrainingBase

Scale = Annotated[float, Gt(0), Le(16)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentationTraining(TrainingBase):
    """Training of segmentation models on images with masks, resumed after any epoch.

    The defaults are those of Segmenter's code for ADE20K (Strudel et al. 2021, arXiv:2105.05633), whose augmentation is
    mmsegmentation's.

    Attributes:
        batch_size: number of images per step; the last step of an epoch has the rest.
        optimizer: SGD with momentum 0.9, or AdamW.
        learning_rate: peak learning rate; ``last_rate``: rate to which it falls with the power 0.9 of the part of the
            steps that is left; ``weight_decay``: weight decay of parameters with two or more axes.
        warmup: proportion of all steps over which the rate rises linearly to its peak.
        crop_size: side of the random square that is learned of an image; smaller images are padded.
        scales: smallest and largest factor by which an image is resized first.
        largest_class: proportion of the pixels of a crop above which another one is drawn, up to ten times; 1 for any.
        flip: whether half of the images are mirrored, left to right.
        distortion: whether brightness, contrast, saturation and hue are changed at random.
        drop_path: probability with which a branch of the encoder is left out for an example.
        initial_weights: weights of a classifier, with which the encoder starts; null for a random start.
        evaluate_every: number of epochs from one scoring of the evaluation split to the next; the last is scored too.
        auxiliary_weight: weight of the layers' mean auxiliary loss beside the cross-entropy.
        saved_as: type of the numbers in the file of weights.
    """

    kind: ClassVar[str] = "segmentation-training"
    implementation: ClassVar[str] = "robench.training.segmentation_impl:train"
    keeps_epochs: ClassVar[bool] = True
    takes_precision: ClassVar[bool] = True

    dataset: str
    seed: Annotated[int, Ge(0), Lt(SEEDS)]
    num_epochs: Count = 64
    batch_size: Count = 8
    optimizer: Literal["sgd", "adamw"] = "sgd"
    learning_rate: Annotated[float, Gt(0), Le(LARGEST)] = 0.001
    last_rate: NotNegative = 1e-5
    warmup: Annotated[float, Ge(0), Lt(1)] = 0.0
    weight_decay: NotNegative = 0.0
    crop_size: Count = 512
    scales: tuple[Scale, Scale] = (0.5, 2.0)
    largest_class: Proportion = 0.75
    flip: bool = True
    distortion: bool = True
    drop_path: Annotated[float, Ge(0), Lt(1)] = 0.1
    initial_weights: Weights | None = None
    evaluate_every: Count = 1
    auxiliary_weight: NotNegative = 0.0
    saved_as: Literal["float32", "float16"] = "float32"

    @property
    def is_embedded(self) -> bool:
        """Return whether the data come with a library, as all do that are not below a data root."""
        dataset = DATASETS.get(self.dataset)
        return dataset is not None and dataset.folder is None

    def contradictions(self) -> list[FieldProblem]:
        """Refuse scales in the wrong order, and a last rate above the peak."""
        problems: list[FieldProblem] = []
        if self.scales[0] > self.scales[1]:
            problems.append(("scales", f"must be a smaller and a larger factor, got {list(self.scales)}"))
        if self.last_rate > self.learning_rate:
            problems.append(
                ("last_rate", f"must be at most learning_rate {self.learning_rate:g}, got {self.last_rate:g}")
            )
        return problems
