"""Two sets of results on the same examples: models compared, and results checked against a baseline.

A layer above reports, whose coverage of conditions and columns it reads; nothing here needs a model or torch.
"""

from robench.comparison.baseline import baseline_of
from robench.comparison.check import Check, CheckedCell, check_results
from robench.comparison.compare import ComparedColumn, Comparison, compare_models
from robench.comparison.documents import RENDERERS

__all__ = [
    "RENDERERS",
    "Check",
    "CheckedCell",
    "ComparedColumn",
    "Comparison",
    "baseline_of",
    "check_results",
    "compare_models",
]
