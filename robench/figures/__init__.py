"""Figures for papers: accuracy against budget, corruption profiles, calibration, training curves, seeds, and cost.

A plot is values, made from a leaderboard or from training histories; matplotlib draws it and is imported by that alone.
"""

from robench.figures.analyses import analysis_plot
from robench.figures.costs import CostAxis, cost_plot, seconds_axis
from robench.figures.episodes import episode_plot
from robench.figures.gains import gains_plot
from robench.figures.optimality import optimality_plot
from robench.figures.plots import (
    Plot,
    budget_plot,
    corruption_plot,
    queries_plot,
    seeds_plot,
    training_plot,
    with_panels,
)
from robench.figures.reliability import reliability_plot
from robench.figures.render import COLUMN, PAGE, SUFFIXES, check_matplotlib, rendered
from robench.figures.transfer import transfer_plot

__all__ = [
    "COLUMN",
    "PAGE",
    "SUFFIXES",
    "CostAxis",
    "Plot",
    "analysis_plot",
    "budget_plot",
    "check_matplotlib",
    "corruption_plot",
    "cost_plot",
    "episode_plot",
    "gains_plot",
    "optimality_plot",
    "queries_plot",
    "reliability_plot",
    "rendered",
    "seconds_axis",
    "seeds_plot",
    "training_plot",
    "transfer_plot",
    "with_panels",
]
