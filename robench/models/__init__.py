"""Models: ``x.py`` declares a backbone or a residual connection, ``x_impl.py`` builds it.

Declarations need no torch. Models are built by ``build.py``, loaded from verified weights by ``loading.py``, and
wrapped by ``loaded.py``. Errors are the same throughout: WeightsError for files of weights, DeclarationError for
architectures that cannot be built, ContractError for models that break the rules of their task.
"""

from robench.core.plugins import Plugins
from robench.models.base import ArchitectureBase
from robench.models.transformer import Boost, FeatScale, PlainResidual, ResidualBase

__all__ = ["BACKBONES", "RESIDUALS"]

_BACKBONES: dict[str, str] = {
    "vit": "robench.models.vit:Vit",
    "fan": "robench.models.vit:Fan",
    "quantized-vit": "robench.models.vit:QuantizedVit",
    "segmenter": "robench.models.segmenter:Segmenter",
    "timm-segmenter": "robench.models.segmenter:TimmSegmenter",
    "language": "robench.models.word_transformer:Language",
    "text-classifier": "robench.models.word_transformer:TextClassifier",
    "series": "robench.models.series:Series",
    "token-classifier": "robench.models.tokens:Tokens",
    "decision-transformer": "robench.models.decision:DecisionTransformer",
    "behaviour-cloning": "robench.models.decision:BehaviourCloning",
    "transformers": "robench.models.hub:Transformers",
    "timm": "robench.models.foreign:Timm",
    "python": "robench.models.foreign:Python",
}
_RESIDUALS: dict[str, type[ResidualBase]] = {"plain": PlainResidual, "boost": Boost, "featscale": FeatScale}
BACKBONES: Plugins[type[ArchitectureBase]] = Plugins("backbone", _BACKBONES, base=ArchitectureBase)
RESIDUALS = Plugins("residual", _RESIDUALS, base=ResidualBase)
