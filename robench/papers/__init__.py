"""Papers' printed tables beside measured numbers: verdicts, comparison of protocols, costs and renderers.

All of it works on declarations and reports, without models or torch.
"""

from __future__ import annotations

from robench.papers.archive import archived
from robench.papers.collection import files_of, manifest_of
from robench.papers.render import FORMATS
from robench.papers.sources import authors_models, measured_models, models_by_suite, reports_for
from robench.papers.table import Basis, PaperTable, num_measured, table_of

__all__ = [
    "FORMATS",
    "Basis",
    "PaperTable",
    "archived",
    "authors_models",
    "files_of",
    "manifest_of",
    "measured_models",
    "models_by_suite",
    "num_measured",
    "reports_for",
    "table_of",
]
