"""Analyses of what attention does inside a model: ``x.py`` declares one without torch, ``x_impl.py`` computes it."""

from robench.analyses.base import AnalysisBase
from robench.core.plugins import Plugins

__all__ = ["ANALYSES"]

_BUILTIN: dict[str, str] = {
    "entropy": "robench.analyses.weights:Entropy",
}
ANALYSES: Plugins[type[AnalysisBase]] = Plugins("analysis", _BUILTIN, base=AnalysisBase)
