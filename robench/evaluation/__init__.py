"""Measure one shard: the only place where victim, data and perturbation meet."""

from robench.evaluation.evaluate import evaluate
from robench.evaluation.evaluator import Evaluator

__all__ = ["Evaluator", "evaluate"]
