"""Figures for papers: accuracy against budget, corruption profiles, training curves and training seeds as points.

A plot is values, made from a leaderboard or from training histories; matplotlib draws it and is imported by that alone.
"""

from robench.figures.analyses import analysis_plot
from robench.figures.plots import Plot, budget_plot, corruption_plot, seeds_plot, training_plot, with_panels
from robench.figures.render import SUFFIXES, TABLE_PICTURES, check_matplotlib, rendered

__all__ = [
    "SUFFIXES",
    "TABLE_PICTURES",
    "Plot",
    "analysis_plot",
    "budget_plot",
    "check_matplotlib",
    "corruption_plot",
    "rendered",
    "seeds_plot",
    "training_plot",
    "with_panels",
]
