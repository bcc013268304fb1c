"""Figures for papers: accuracy against budget, corruption profiles, training curves and training seeds as points.

A plot is values, made from a leaderboard or from training histories; matplotlib draws it and is imported by that alone.
"""

from robench.figures.of_board import budget_plot, corruption_plot, seeds_plot
from robench.figures.of_training import training_plot
from robench.figures.panels import Plot, with_panels
from robench.figures.render import SUFFIXES, check_matplotlib, rendered
from robench.figures.table import TABLE_PICTURES

__all__ = [
    "SUFFIXES",
    "TABLE_PICTURES",
    "Plot",
    "budget_plot",
    "check_matplotlib",
    "corruption_plot",
    "rendered",
    "seeds_plot",
    "training_plot",
    "with_panels",
]
