"""Tidy tables of kept results for other programs: cells, outcomes of examples, and a manifest beside them."""

from robench.exports.export import export, outcomes_table
from robench.exports.tables import FORMATS

__all__ = ["FORMATS", "export", "outcomes_table"]
