"""Declaration of a dataset: heights of a hill over points of the plane."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from robench.datasets.base import DatasetBase

from robench_example_plugin.plane import PLANE
from robench_example_plugin.regression import REGRESSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Landscape(DatasetBase):
    """Points of the plane and their heights."""

    implementation: ClassVar[str] = "robench_example_plugin.hill_impl:open_landscape"


HILL = Landscape(
    name="hill",
    title="Heights of a hill over points of the plane",
    domain=PLANE.name,
    task=REGRESSION.name,
    num_examples=200,
    source="made by the example",
    licence="Apache-2.0",
)
