"""Papers' printed tables beside measured numbers: verdicts, comparison of protocols, costs and renderers.

All of it works on declarations and reports, without models or torch.
"""

from robench.papers.archive import archived, files_of, manifest_of
from robench.papers.reading import (
    Measured,
    existing_tables,
    find_published,
    measured_of_tables,
    tables_of,
    twin_tables_of,
)
from robench.papers.render import FORMATS, TWIN_FORMATS
from robench.papers.table import PaperTable, num_measured
from robench.papers.twins import TwinTable

__all__ = [
    "FORMATS",
    "TWIN_FORMATS",
    "Measured",
    "PaperTable",
    "TwinTable",
    "archived",
    "existing_tables",
    "files_of",
    "find_published",
    "manifest_of",
    "measured_of_tables",
    "num_measured",
    "tables_of",
    "twin_tables_of",
]
