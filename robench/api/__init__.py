"""Python interface of robench: the functions of ``import robench``."""

from robench.api.analysing import analyse
from robench.api.attacking import attack
from robench.api.measuring import build_model, load_checkpoint, load_dataset, load_suite, run, transfer
from robench.api.reading import (
    build_leaderboard,
    build_report,
    check,
    compare,
    compare_with_control,
    outcomes,
    paper_table,
    twin_table,
    write_baseline,
)
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.estimators_impl import wrap
from robench.runs.chosen_models import Smoothed

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
