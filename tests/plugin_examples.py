"""Distributions of other people, as they are installed: metadata, entry points and modules in a folder on the path."""

import sys
from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree

import pytest

DECLARED = '''
"""One plug-in of each family that suites name."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar

from annotated_types import Ge, Le

from robench.attacks.base import BoundedAttack, Norm
from robench.attention.base import AttentionBase
from robench.datasets.base import EmbeddedImages
from robench.declarations.base import PerturbationBase
from robench.metrics import Metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Brighten(BoundedAttack):
    """Adds the budget to every value.

    Attributes:
        num_steps: how often.
    """

    kind: ClassVar[str] = "their-brighten"
    version: ClassVar[int] = 3
    implementation: ClassVar[str] = "PACKAGE.computed:brighten"
    norms: ClassVar[tuple[Norm, ...]] = ("linf",)

    num_steps: Annotated[int, Ge(1), Le(10)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fade(PerturbationBase):
    """Grey in place of contrast."""

    kind: ClassVar[str] = "their-fade"
    implementation: ClassVar[str] = "PACKAGE.computed:fade"

    severity: Annotated[int, Ge(1), Le(5)]

    @property
    def corruption(self) -> tuple[str, int]:
        """Type and severity."""
        return self.kind, self.severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Halved(AttentionBase):
    """Softmax attention of half the size."""

    kind: ClassVar[str] = "their-halved"
    implementation: ClassVar[str] = "PACKAGE.computed:HalvedAttention"


STRIPES = EmbeddedImages(
    name="their-stripes",
    title="Stripes",
    task="classification",
    num_classes=10,
    num_examples=20,
    source="made here",
    licence="none",
    image_size=32,
    maker="PACKAGE.computed:stripes",
)
ERROR = Metric(
    name="their_error",
    title="error",
    unit="share",
    task="classification",
    scope="condition",
    implementation="PACKAGE.computed:error",
)
'''
# Fields in place of num_steps of Brighten that no file can state, each with what is wrong.
UNREADABLE_FIELDS = {
    "steps: complex = 1j": "has fields that cannot be read: TypeError: no reader for the field steps",
    "steps: Unheard = 1": "has fields that cannot be read: NameError: name 'Unheard' is not defined",
    "num_steps: Annotated[int, Ge(1), Le(10)] = 11": "num_steps must be at most 10, got 11",
}
COMPUTED = """
import numpy as np

from robench.attacks.problem import Reached
from robench.attention.heads import attend
from robench.attention.projected import ProjectedAttention
from robench.core.protocols import Perturbed
from robench.core.report import Estimate
from robench.datasets.in_memory import InMemoryImages


def brighten(declaration, problem):
    return Reached(problem.region.project(problem.inputs + float(declaration.epsilon)))


def fade(declaration, batch, victim, draws):
    return Perturbed(inputs=batch.inputs * (1 - declaration.severity / 10))


class HalvedAttention(ProjectedAttention):
    def mix(self, heads, state):
        return attend(*heads) / 2


def stripes():
    targets = {f"stripes/{index}": index % 10 for index in range(20)}
    pixels = {name: np.full((1, 32, 32), target / 10, dtype=np.float32) for name, target in targets.items()}
    return InMemoryImages("their-stripes", targets, pixels)


def error(readings):
    wrong = ~readings.measured[0].column("correct_top1")
    return Estimate(value=float(wrong.mean()), low=None, high=None, num_examples=len(wrong))
"""
ENTRIES: Mapping[str, str] = {
    "attack:their-brighten": "Brighten",
    "corruption:their-fade": "Fade",
    "attention:their-halved": "Halved",
    "dataset:their-stripes": "STRIPES",
    "metric:their_error": "ERROR",
}


def write_package(folder: Path, name: str, declared: str = DECLARED, computed: str = COMPUTED) -> None:
    """Write a package with the modules ``declared`` and ``computed``."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "declared.py").write_text(declared.replace("PACKAGE", name))
    (package / "computed.py").write_text(computed.replace("PACKAGE", name))


def write_metadata(folder: Path, name: str, entries: Mapping[str, str], release: str = "1.0") -> None:
    """Write what an installed distribution says of itself."""
    info = folder / f"{name}-{release}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n")
    lines = [f"{entry} = {value}" for entry, value in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(["[robench.plugins]", *lines, ""]))


class Installer:
    """Installs distributions into a folder that is on the path for one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._number = 0
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        self._modules = set(sys.modules)
        self.refresh()

    def refresh(self) -> None:
        """Put another folder with what was installed on the path, since what a path has is read once."""
        self._number += 1
        link = self.folder.with_name(f"{self.folder.name}-{self._number}")
        link.symlink_to(self.folder, target_is_directory=True)
        others = [entry for entry in sys.path if not entry.startswith(str(self.folder))]
        self._monkeypatch.setattr(sys, "path", [str(link), *others])

    def __call__(self, name: str = "their-plugins", entries: Mapping[str, str] | None = None, **modules: str) -> str:
        """Install a distribution with a package of the same name, which is returned; by default one of all families."""
        package = name.replace("-", "_")
        values = ENTRIES if entries is None else entries
        named = {entry: value if ":" in value else f"{package}.declared:{value}" for entry, value in values.items()}
        write_metadata(self.folder, name, named)
        write_package(self.folder, package, **modules)
        self.refresh()
        return package

    def remove(self) -> None:
        """Uninstall everything."""
        self.forget()
        rmtree(self.folder)
        self.folder.mkdir()
        self.refresh()

    def forget(self) -> None:
        """Unload all modules of distributions that were installed here."""
        for name in set(sys.modules) - self._modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(self.folder)):
                del sys.modules[name]
