"""Reproduction of papers' tables: which trainings and measurements the numbers of a table need, and their order.

This layer is above ``runs``, which measures, and ``papers``, which judges; neither knows the other.
"""

from robench.reproduction.plan import Measuring, Plan, Training

__all__ = ["Measuring", "Plan", "Training"]
