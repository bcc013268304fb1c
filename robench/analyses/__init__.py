"""Analyses of what attention does inside a model: ``x.py`` declares one without torch, ``x_impl.py`` computes it."""

from robench.analyses.base import AnalysisBase
from robench.core.plugins import Plugins

__all__ = ["ANALYSES"]

_BUILTIN: dict[str, str] = {
    "entropy": "robench.analyses.weights:Entropy",
    "softmax-lipschitz": "robench.analyses.softmax_bounds:SoftmaxLipschitz",
    "softmax-noise": "robench.analyses.softmax_bounds:SoftmaxNoise",
    "boost-bound": "robench.analyses.boost_bound:BoostBound",
    "smoothing-powers": "robench.analyses.smoothing_powers:SmoothingPowers",
    "density-contours": "robench.analyses.density_contours:DensityContours",
}
ANALYSES: Plugins[type[AnalysisBase]] = Plugins("analysis", _BUILTIN, base=AnalysisBase)
