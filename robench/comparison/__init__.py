"""Two sets of results on the same examples: models compared, and results checked against a baseline.

A layer above reports, whose coverage of conditions and columns it reads; nothing here needs a model or torch.
"""

from robench.comparison.baseline import baseline_of
from robench.comparison.check import Check, CheckedCell, check_results
from robench.comparison.compare import ComparedColumn, Comparison, compare_models
from robench.comparison.documents import RENDERERS
from robench.comparison.strength import Strengths, strengths_of, with_comparable
from robench.comparison.strength_documents import STRENGTH_RENDERERS

__all__ = [
    "RENDERERS",
    "STRENGTH_RENDERERS",
    "Check",
    "CheckedCell",
    "ComparedColumn",
    "Comparison",
    "Strengths",
    "baseline_of",
    "check_results",
    "compare_models",
    "strengths_of",
    "with_comparable",
]
