"""Robustness benchmark suite for attention variants.

``import robench`` is light; each of its names imports what it needs when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from robench.api import (
        ImagePreprocessing,
        Smoothed,
        analyse,
        attack,
        build_leaderboard,
        build_model,
        build_report,
        check,
        compare,
        compare_with_control,
        load_checkpoint,
        load_dataset,
        load_suite,
        outcomes,
        paper_table,
        run,
        transfer,
        twin_table,
        wrap,
        write_baseline,
    )

__all__ = [
    "ImagePreprocessing",
    "Smoothed",
    "analyse",
    "attack",
    "build_leaderboard",
    "build_model",
    "build_report",
    "check",
    "compare",
    "compare_with_control",
    "load_checkpoint",
    "load_dataset",
    "load_suite",
    "outcomes",
    "paper_table",
    "run",
    "transfer",
    "twin_table",
    "wrap",
    "write_baseline",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return version("robench")
    if name in __all__:
        return getattr(import_module("robench.api"), name)
    raise AttributeError(f"module 'robench' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
