"""Python interface of robench: the functions of ``import robench``."""

from __future__ import annotations

from robench.api.measuring import build_model, load_checkpoint, load_dataset, load_suite, run, transfer
from robench.api.reading import build_leaderboard, check, compare, paper_table, write_baseline
from robench.declarations.preprocessing import ImagePreprocessing

__all__ = [
    "ImagePreprocessing",
    "build_leaderboard",
    "build_model",
    "check",
    "compare",
    "load_checkpoint",
    "load_dataset",
    "load_suite",
    "paper_table",
    "run",
    "transfer",
    "write_baseline",
]
