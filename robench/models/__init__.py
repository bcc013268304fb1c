"""Models: ``x.py`` declares a backbone or a residual connection, ``x_impl.py`` builds it.

Declarations need no torch. Models are built by ``build.py``, loaded from verified weights by ``loading.py``, and
wrapped by ``loaded.py``.
"""

from __future__ import annotations

from robench.core.plugins import Plugins
from robench.models.base import ArchitectureBase
from robench.models.fan import Fan
from robench.models.language import Language
from robench.models.python_backbone import Python
from robench.models.residuals import Boost, FeatScale, PlainResidual, ResidualBase
from robench.models.text_classifier import TextClassifier
from robench.models.timm_backbone import Timm
from robench.models.vit import QuantizedVit, Vit

__all__ = ["BACKBONES", "RESIDUALS"]

_BACKBONES: dict[str, type[ArchitectureBase]] = {
    "vit": Vit,
    "fan": Fan,
    "quantized-vit": QuantizedVit,
    "language": Language,
    "text-classifier": TextClassifier,
    "timm": Timm,
    "python": Python,
}
_RESIDUALS: dict[str, type[ResidualBase]] = {"plain": PlainResidual, "boost": Boost, "featscale": FeatScale}
BACKBONES = Plugins("backbone", _BACKBONES, base=ArchitectureBase)
RESIDUALS = Plugins("residual", _RESIDUALS, base=ResidualBase)
