"""Protocols by which times and memory are measured."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """Protocol of measurement.

    Attributes:
        batch_size: number of examples in a pass.
        warm_ups: number of passes before the timed ones.
        repeats: number of timed passes, each between two synchronisations of the device.
        trains: whether steps of training are timed too.
    """

    batch_size: int
    warm_ups: int
    repeats: int
    trains: bool = True


# ``growth`` is of single layers.
# ``twicing``: Abdullaev & Nguyen 2025, arXiv:2503.00687, table 5, and the authors' time.py.
PROTOCOLS: Mapping[str, Protocol] = {
    "brief": Protocol(batch_size=8, warm_ups=3, repeats=10),
    "twicing": Protocol(batch_size=1, warm_ups=1000, repeats=1000, trains=False),
    "growth": Protocol(batch_size=1, warm_ups=1, repeats=5, trains=False),
}
