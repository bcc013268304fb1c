"""Two sets of results on the same examples: models compared, and results checked against a baseline.

A layer above reports, whose coverage of conditions and columns it reads; nothing here needs a model or torch.
"""

from robench.comparison.baseline import baseline_of
from robench.comparison.check import Check, CheckedCell, check_results
from robench.comparison.compare import ComparedColumn, Comparison, compare_models
from robench.comparison.documents import RENDERERS
from robench.comparison.many_to_one import ManyToOne, compare_with_control
from robench.comparison.many_to_one_documents import RENDERERS as CONTROL_RENDERERS
from robench.comparison.strength import Strengths, strengths_of, with_comparable
from robench.comparison.strength_documents import STRENGTH_RENDERERS

__all__ = [
    "CONTROL_RENDERERS",
    "RENDERERS",
    "STRENGTH_RENDERERS",
    "Check",
    "CheckedCell",
    "ComparedColumn",
    "Comparison",
    "ManyToOne",
    "Strengths",
    "baseline_of",
    "check_results",
    "compare_models",
    "compare_with_control",
    "strengths_of",
    "with_comparable",
]
