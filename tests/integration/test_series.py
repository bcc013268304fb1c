"""A domain of robench's users, time series without limits, from an npz file through attacks to a report.

Everything that is specific to images (limits, grey levels, three channels) would show here.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

import robench
from examples import CHECKPOINT
from robench.attention import ATTENTIONS
from robench.core.errors import DeclarationError, UsageError
from robench.datasets import DATASETS
from robench.datasets.base import EmbeddedImages
from robench.datasets.in_memory import OrderedExamples
from robench.declarations.preprocessing import Normalisation
from robench.domains import DOMAINS, Domain
from robench.models import BACKBONES
from robench.models.loaded import LoadedModel
from robench.models.transformer import Transformer
from robench.models.transformer_impl import TransformerModel, encoder_block, mlp_of
from robench.training.base import EpochReport
from robench.training.embedded_impl import train
from robench.training.images import Training

SERIES = Domain(
    name="test-series",
    title="Series (T, C)",
    implementation="robench.domains.real_valued:RealValued",
    axes=("time", "channels"),
    is_real_valued=True,
    unit="millivolt",
)
SUITE = """
name: waves-adv
version: 1
seed: 0
batch_size: 8
dataset: waves
conditions:
  - {name: clean}
  - {name: pgd, perturbation: {kind: pgd, epsilon: 2, step_size: 1/2, num_steps: 8}}
  - {name: fgsm, perturbation: {kind: fgsm, epsilon: 3, norm: l2, space: normalised}}
  - {name: noise, perturbation: {kind: gaussian-noise, epsilon: 1}}
  - name: cw
    perturbation: {kind: cw, num_steps: 60, num_search_steps: 5, initial_c: 10.0, learning_rate: 1.0}
    distances: [2]
  - {name: fab, perturbation: {kind: fab, norm: l2, num_steps: 5}}
metrics: [top1_accuracy, median_distance, accuracy_at_distance]
"""


WAVES = EmbeddedImages(
    name="test-waves",
    title="Waves of two frequencies",
    task="classification",
    domain=SERIES.name,
    num_classes=2,
    num_examples=24,
    source="made here",
    licence="none",
    splits=("test", "train"),
    maker=f"{__name__}:Waves",
)


class Waves(OrderedExamples):
    """Examples of both classes, as of ``waves``."""

    domain = SERIES.name

    def __init__(self, split: str) -> None:
        values, targets = waves(seed=len(split))
        super().__init__("test-waves", split, [f"{split}/{number}" for number in range(24)], targets)
        self._values = values[self._order]

    def _inputs(self, start: int, stop: int) -> torch.Tensor:
        return torch.from_numpy(self._values[start:stop].copy())


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTransformer(Transformer):
    """Transformer over the values of a series, a token a time step.

    Attributes:
        length: number of tokens.
    """

    kind: ClassVar[str] = "test-series"
    implementation: ClassVar[str] = f"{__name__}:SeriesModel"

    length: int

    @property
    def reads_causally(self) -> bool:
        return False

    @property
    def num_tokens(self) -> int:
        return self.length

    @property
    def mlp_parameters(self) -> int:
        return 4 * self.dim * self.dim

    @property
    def embedding_parameters(self) -> int:
        return (2 + 3 * self.length) * self.dim


class SeriesModel(TransformerModel):
    def __init__(self, architecture: SeriesTransformer) -> None:
        super().__init__()
        dim = architecture.dim
        self.embedding = nn.Linear(2, dim)
        self.positions = nn.Parameter(0.1 * torch.randn(architecture.length, dim))
        self.blocks = nn.ModuleList(
            encoder_block(architecture, layer, lambda: mlp_of(dim, 2 * dim, nn.GELU()))
            for layer in range(architecture.depth)
        )
        self.head = nn.Linear(architecture.length * dim, 2)

    def first_tokens(self, inputs: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.embedding(inputs) + self.positions
        return embedded

    def position_vectors(self) -> torch.Tensor:
        return self.positions

    def read_out(self, x_BNC: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(x_BNC.flatten(1))
        return logits


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    families: Any = (DOMAINS, DATASETS, BACKBONES)
    for family, name, member in zip(
        families, (SERIES.name, WAVES.name, "test-series"), (SERIES, WAVES, SeriesTransformer), strict=True
    ):
        monkeypatch.setitem(family.builtin, name, member)


def waves(seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return series (24, 20, 2) of two classes, which differ in frequency, with values beyond [-1, 1]."""
    draw = np.random.default_rng(seed)
    targets = np.arange(24) % 2
    time = np.linspace(0, 2 * np.pi, 20)[:, None]
    values = 8 * np.sin((1 + 2 * targets[:, None, None]) * time) + 0.3 * draw.normal(size=(24, 20, 2))
    return values.astype(np.float32), targets


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    values, targets = waves(seed=0)
    np.savez(tmp_path / "waves.npz", inputs=values, targets=targets)
    (tmp_path / "registry.yaml").write_text("datasets:\n  waves: {kind: npz, path: waves.npz, domain: test-series}\n")
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path


def model() -> tuple[nn.Module, Normalisation]:
    """Return a classifier that correlates both channels with the two waves."""
    time = torch.linspace(0, 2 * torch.pi, 20)
    net = nn.Sequential(nn.Flatten(), nn.Linear(40, 2, bias=False))
    waves = torch.stack([torch.sin(time), torch.sin(3 * time)])
    net[1].weight.data = waves[..., None].expand(-1, -1, 2).flatten(1).contiguous()
    return net, Normalisation(inputs=SERIES.name, mean=(0.5, -0.5), std=(5.0, 6.0))


def test_series_are_measured_as_images_are(folder: Path) -> None:
    report = robench.run(
        str(folder / "suite.yaml"), {"net": model()}, registry=folder / "registry.yaml", results=folder / "results"
    )
    (row,) = report.rows
    value = {key: cell.estimate.value for key, cell in row.cells.items() if cell.estimate is not None}
    assert value["clean/top1_accuracy"] == value["noise/top1_accuracy"] == 1
    # An attack that clipped to [0, 1], or whose budget was bounded by 1, would not reach this.
    assert value["pgd/top1_accuracy"] == 1
    assert 1 < value["cw/median_distance"] <= value["fab/median_distance"] * 1.5
    assert value["cw@l2 2/accuracy_at_distance"] == 1
    labels = [column.label for column in report.columns]
    assert "cw median distance (millivolts)" in labels


def test_what_is_of_images_is_refused_before_a_run(folder: Path) -> None:
    square = SUITE.replace("kind: gaussian-noise, epsilon: 1", "kind: square, epsilon: 1, num_queries: 3, p_init: 0.5")
    (folder / "suite.yaml").write_text(square)
    with pytest.raises(
        DeclarationError, match=r"must be no square on waves, whose inputs .* have the axes time, channels"
    ):
        robench.run(str(folder / "suite.yaml"), {"net": model()}, registry=folder / "registry.yaml")


def test_a_model_of_another_number_of_channels_is_refused_before_a_run(folder: Path) -> None:
    one = Normalisation(inputs=SERIES.name, mean=(0.0,), std=(1.0,))
    with pytest.raises(UsageError, match=r"inputs must be test-series \(batch, time, 1\), got \(4, 20, 2\)"):
        robench.run(str(folder / "suite.yaml"), {"net": (model()[0], one)}, registry=folder / "registry.yaml")


@pytest.mark.parametrize(
    "kind", ["softmax", *(pytest.param(each, marks=pytest.mark.slow) for each in ("rkde", "rpc", "twicing"))]
)
def test_models_of_series_are_trained_and_validated(kind: str) -> None:
    attention: Any = ATTENTIONS[kind]
    fields = {"num_iterations": 2} if kind == "rpc" else {}
    checkpoint = replace(
        CHECKPOINT,
        architecture=SeriesTransformer(length=20, depth=1, dim=8, num_heads=2, attention=attention(**fields)),
        preprocessing=Normalisation(inputs=SERIES.name, mean=(0.0, 0.0), std=(5.0, 5.0)),
        training=Training(
            dataset=WAVES.name,
            seed=0,
            num_epochs=20,
            batch_size=8,
            learning_rate=0.01,
            noise_scale=0.1,
            adversarial_epsilon=Fraction(2),
            adversarial_step_size=Fraction(1),
            adversarial_num_steps=1,
        ),
    )
    reports: list[EpochReport] = []
    train(checkpoint, on_epoch=reports.append)
    assert reports[-1].validation is not None
    assert reports[-1].validation.top1_accuracy == 1


@pytest.mark.parametrize("axes", [("time",), ()])
def test_one_mean_serves_inputs_without_channels_in_batches_of_any_size(
    monkeypatch: pytest.MonkeyPatch, axes: tuple[str, ...]
) -> None:
    plain: Any = DOMAINS.builtin
    monkeypatch.setitem(plain, "test-plain", replace(SERIES, name="test-plain", axes=axes))
    one = LoadedModel(nn.Linear(4, 2), Normalisation(inputs="test-plain", mean=(1.0,), std=(2.0,)))
    inputs = torch.arange(12.0).view(3, 4)
    assert torch.equal(one.outputs(inputs), nn.Linear.forward(one._module, (inputs - 1) / 2))
    with pytest.raises(DeclarationError, match="no axis of channels: give one mean and one std"):
        LoadedModel(nn.Linear(4, 2), Normalisation(inputs="test-plain", mean=(1.0, 1.0), std=(2.0, 2.0)))
