"""Registration of a registry's checkpoints as timm models, for training and validation by timm's own scripts.

Each is registered as ``robench_`` and its name with underscores (``name@1``, its training with seed 1, as
``robench_name_seed1``), with initial weights only, since robench itself verifies weights.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, replace

from timm.models._pretrained import PretrainedCfg
from timm.models._registry import get_pretrained_cfg, register_model
from torch import nn

from robench.core.checkpoint import Checkpoint
from robench.core.declared import Architecture
from robench.core.errors import DeclarationError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.build import build
from robench.models.foreign import Timm
from robench.models.vit import ImageTransformer

PREFIX = "robench_"
# timm's names for the fields of a backbone declared field by field.
FIELDS: Mapping[str, str] = {"num_classes": "num_classes", "in_chans": "num_channels", "img_size": "image_size"}
# timm reads the configuration of this module's entry points here.
default_cfgs: dict[str, dict[str, object]] = {}


def timm_name(name: str) -> str:
    """Return the name of a checkpoint in timm.

    >>> timm_name("rpc-symvit")
    'robench_rpc_symvit'
    >>> timm_name("digits-vit@1")
    'robench_digits_vit_seed1'
    """
    return PREFIX + re.sub(r"\W", "_", name.replace("@", "_seed"))


def register_in_timm(checkpoints: Iterable[Checkpoint]) -> tuple[str, ...]:
    """Register checkpoints for ``timm.create_model`` in this process; return their names there.

    Raises:
        DeclarationError: two checkpoints would have the same name.
    """
    by_name: dict[str, Checkpoint] = {}
    for checkpoint in checkpoints:
        name = timm_name(checkpoint.name)
        if name in by_name:
            raise DeclarationError(
                f"checkpoints {by_name[name].name!r} and {checkpoint.name!r} would both be {name} in timm; rename one"
            )
        by_name[name] = checkpoint
    for name, checkpoint in by_name.items():
        default_cfgs[name] = _settings(checkpoint)
        register_model(_entry_point(name, checkpoint))
    return tuple(by_name)


def _entry_point(name: str, checkpoint: Checkpoint) -> Callable[..., nn.Module]:
    def entry_point(
        pretrained: bool = False,
        pretrained_cfg: object = None,
        pretrained_cfg_overlay: Mapping[str, object] | None = None,
        cache_dir: object = None,
        drop_path_rate: float = 0.0,
        drop_rate: float = 0.0,
        **arguments: object,
    ) -> nn.Module:
        del pretrained_cfg, cache_dir  # They contain the source of pretrained weights.
        if pretrained:
            raise DeclarationError(
                f"timm model {name} has no pretrained weights: those of checkpoint {checkpoint.name!r} are for robench"
                " to check and load (robench.load_checkpoint). Leave pretrained out"
            )
        if drop_rate:
            raise DeclarationError(f"timm model {name} has no dropout, got drop_rate {drop_rate}; leave it at 0")
        adapted = replace(checkpoint, architecture=_adapted(checkpoint.architecture, arguments, name))
        model = build(adapted.architecture, drop_path_rate)
        settings = PretrainedCfg(**{**_settings(adapted), **(pretrained_cfg_overlay or {})})  # type: ignore[arg-type]  # timm's own
        model.pretrained_cfg = model.default_cfg = asdict(settings)  # type: ignore[assignment]  # plain attributes
        if not hasattr(model, "num_classes"):
            model.num_classes = settings.num_classes  # type: ignore[assignment]  # likewise
        return model

    entry_point.__name__ = entry_point.__qualname__ = name
    entry_point.__doc__ = f"Checkpoint {checkpoint.name} of the registry, with initial weights."
    return entry_point


def _adapted(architecture: Architecture, arguments: Mapping[str, object], name: str) -> Architecture:
    if isinstance(architecture, Timm):
        return replace(architecture, arguments={**architecture.arguments, **arguments})  # type: ignore[dict-item]  # timm's
    known = FIELDS if isinstance(architecture, ImageTransformer) else {}
    if unknown := sorted(set(arguments) - set(known)):
        takes = ", ".join((*known, "drop_path_rate"))
        raise DeclarationError(
            f"timm model {name} does not take {', '.join(unknown)}: backbone {architecture.kind!r} takes {takes}, and"
            " all else is declared in its registry entry"
        )
    try:
        return replace(architecture, **{known[argument]: _side(value) for argument, value in arguments.items()})  # type: ignore[type-var]  # a dataclass
    except ValueError as error:
        raise DeclarationError(f"timm model {name} cannot be built with {dict(arguments)}: {error}") from error


def _side(value: object) -> object:
    if isinstance(value, (tuple, list)) and len(set(value)) == 1:
        return value[0]
    return value


def _settings(checkpoint: Checkpoint) -> dict[str, object]:
    """Return the settings read by timm's ``resolve_data_config`` and ``resolve_model_input_args``."""
    settings = _sizes(checkpoint.architecture)
    preprocessing = checkpoint.preprocessing
    if isinstance(preprocessing, ImagePreprocessing):
        crop, resize = preprocessing.crop, preprocessing.resize
        settings |= {"mean": preprocessing.mean, "std": preprocessing.std, "interpolation": preprocessing.interpolation}
        settings["crop_pct"] = crop / resize if crop and resize else 1.0
        if crop:
            settings.setdefault("input_size", (3, crop, crop))
    return settings


def _sizes(architecture: Architecture) -> dict[str, object]:
    if isinstance(architecture, ImageTransformer):
        return {
            "num_classes": architecture.num_classes,
            "input_size": (architecture.num_channels, architecture.image_size, architecture.image_size),
            "fixed_input_size": True,
            "classifier": "head",
        }
    if not isinstance(architecture, Timm) or not (own := get_pretrained_cfg(architecture.name)):
        return {}
    side, channels = architecture.arguments.get("img_size"), architecture.arguments.get("in_chans", 3)
    num_classes = architecture.arguments.get("num_classes", own.num_classes)
    sizes: dict[str, object] = {"num_classes": num_classes, "fixed_input_size": own.fixed_input_size}
    if side:
        sizes["input_size"] = (channels, side, side)
    return {**sizes, "classifier": own.classifier}
