"""Models chosen by a Python program: names of registries, and modules in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from robench.core.checkpoint import ALPHA, DRAWS, SELECTION, Checkpoint, Smoothing
from robench.core.declared import Preprocessing
from robench.core.errors import UsageError
from robench.core.suite import Suite
from robench.declarations.preprocessing import ImagePreprocessing, NoPreprocessing, PreprocessingBase
from robench.declare import find_checkpoints, parse_architecture, parse_preprocessing
from robench.declare.fields import name_problem
from robench.declare.smoothing import parse_smoothing
from robench.models.in_memory import in_memory_checkpoint
from robench.models.in_memory_impl import as_module, identity_of, preprocessing_of
from robench.tasks import DEFAULT_TASK

# Any: beside a module a preprocessing, the fields of one, or a tokenizer, whose library is optional.
InMemoryModel = (
    nn.Module | Callable[[list[str]], Any] | tuple[nn.Module, Any] | tuple[nn.Module, Any, Mapping[str, object]]
)
Models = str | Mapping[str, "InMemoryModel | Smoothed"] | Sequence["str | Mapping[str, InMemoryModel | Smoothed]"]
Keys = str | Mapping[str, str]

_EXPECTED = "expected a name of the registry, a mapping from names to modules, or a list of these"


class Smoothed:
    """Classifier in memory under Gaussian noise, in place of the classifier itself (Cohen et al. 2019).

    Args:
        model: what is measured without it: a module, or a tuple of it and its preprocessing.
        sigma: standard deviation of the noise in units of the inputs, such as ``"1/4"``.
        selection: number of draws that choose the class.
        draws: number of further draws that bound its probability.
        alpha: probability with which a certificate may be wrong.

    Raises:
        DeclarationError: a value is out of range.
    """

    def __init__(
        self,
        model: InMemoryModel,
        *,
        sigma: str | float,
        selection: int = SELECTION,
        draws: int = DRAWS,
        alpha: str | float = str(ALPHA),
    ) -> None:
        self.model = model
        fields = {"sigma": sigma, "selection": selection, "draws": draws, "alpha": alpha}
        self.smoothing: Smoothing = parse_smoothing(fields, "robench.Smoothed")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenModels:
    """Checkpoints in the order of their choice, and the modules of those in memory, by name."""

    checkpoints: tuple[Checkpoint, ...]
    modules: Mapping[str, nn.Module]


def choose_models(
    models: Models,
    registries: Sequence[Path] = (),
    key: Keys | None = None,
    suite: Suite | None = None,
    *,
    all_seeds: bool = False,
    keeps: bool = True,
) -> ChosenModels:
    """Return the checkpoints for names and modules.

    ``models`` is a name, a mapping from names to ``module`` or ``(module, preprocessing)``, or either of them
    ``Smoothed``, or a sequence of both.
    Modules are for the task and the inputs of ``suite``, None for classifiers of images. ``key`` identifies the only
    module, or modules by name, in place of a digest of state and source. Where a run ``keeps`` nothing, names do.

    Raises:
        UsageError: something else was given, a name refers to two models, or a module cannot be identified.
        DeclarationError: a preprocessing is invalid.
        UnknownNameError: no registry declares a name.
    """
    names: dict[str, None] = {}
    given: dict[str, object] = {}
    for each in listed(models):
        if isinstance(each, str):
            names[each] = None
            continue
        for name, model in each.items():
            if wrong := name_problem(name) if isinstance(name, str) else f"must be text, got {type(name).__name__}":
                raise UsageError(f"the name of a model in memory {wrong}")
            if name in given and given[name] is not model:
                raise UsageError(f"two modules are given under the name {name!r}; give them different names")
            given[name] = model
    if both := names.keys() & given.keys():
        raise UsageError(f"model {min(both)!r} is given both by name and in memory; give the module another name")
    keys = _keys(key, list(given))
    task, domain = (DEFAULT_TASK, None) if suite is None else (suite.task, suite.conditions[0].dataset.domain)
    smoothings = {name: model.smoothing for name, model in given.items() if isinstance(model, Smoothed)}
    given = {name: model.model if isinstance(model, Smoothed) else model for name, model in given.items()}
    parts = {name: module_and_preprocessing(name, model, domain, task) for name, model in given.items()}
    # The shipped registry takes a second to read.
    found = find_checkpoints(list(names), registries, all_seeds=all_seeds) if names or registries else []
    known = {each.name: each for each in found}
    trainings = {name: [name, *(each.name for each in found if each.seed_of == name)] for name in names}
    for name, (module, preprocessing) in parts.items():
        identity = identity_of(name, module, keys.get(name) or (None if keeps else name))
        known[name] = in_memory_checkpoint(name, identity, preprocessing, Path.cwd(), task, smoothings.get(name))
    return ChosenModels(
        checkpoints=tuple(known[each] for name in names_of(models) for each in trainings.get(name, [name])),
        modules={name: module for name, (module, _) in parts.items()},
    )


def names_of(models: Models) -> list[str]:
    """Return the names of models in the given order, each once."""
    return list(dict.fromkeys(name for each in listed(models) for name in ([each] if isinstance(each, str) else each)))


def listed(models: Models) -> list[str | Mapping[str, InMemoryModel | Smoothed]]:
    """Return names and mappings one by one. Raises UsageError: ``models`` is, or contains, something else."""
    listed = [models] if isinstance(models, (str, Mapping)) else models
    if isinstance(listed, nn.Module):
        raise UsageError(f"models is a {type(models).__name__} without a name: give it one, {{'my-model': module}}")
    if not isinstance(listed, Sequence) or isinstance(listed, bytes):
        raise UsageError(f"models is of type {type(models).__name__}, {_EXPECTED}")
    for place, each in enumerate(listed):
        if not isinstance(each, (str, Mapping)):
            raise UsageError(f"models[{place}] is of type {type(each).__name__}, {_EXPECTED}")
    return list(listed)


def _keys(key: object, names: Sequence[str]) -> dict[str, str]:
    if key is None:
        return {}
    if isinstance(key, str) and len(names) != 1:
        found = f"there are {len(names)} of them" if names else "no models in memory were given"
        raise UsageError(f"key is one text for one model in memory, but {found}; give a mapping by name")
    by_name = {names[0]: key} if isinstance(key, str) else key
    if not isinstance(by_name, Mapping):
        raise UsageError(f"key is of type {type(key).__name__}, expected a text, or a mapping from names to texts")
    for name, text in by_name.items():
        if name not in names:
            raise UsageError(
                f"key names {name!r}, which is not a model in memory; there are: {', '.join(names) or 'none'}"
            )
        if not isinstance(text, str) or not text:
            raise UsageError(f"the key of model {name!r} must be a text that is not empty, got {text!r:.100}")
    return dict(by_name)


def module_and_preprocessing(
    name: str, model: object, domain: str | None, task: str = DEFAULT_TASK
) -> tuple[nn.Module, Preprocessing]:
    """Return the module and the preprocessing of a model in memory.

    ``domain`` is that of its inputs, None for images.

    Raises:
        UsageError: it is neither a module nor a tuple of a module and a preprocessing.
        DeclarationError: the preprocessing is invalid.
    """
    model = as_module(model, domain, task, parse_architecture)
    module, preprocessing = model if isinstance(model, tuple) and len(model) == 2 else (model, None)
    if isinstance(module, type) and issubclass(module, nn.Module):
        raise UsageError(f"model {name!r} is the class {module.__name__}, expected an instance of it: call it")
    if not isinstance(module, nn.Module):
        raise UsageError(
            f"model {name!r} is of type {type(model).__name__}, expected a torch.nn.Module or (module, preprocessing)"
        )
    if preprocessing is None:
        of_images = preprocessing_of(name, module)
        return module, of_images if domain in (None, of_images.domain) else NoPreprocessing(inputs=str(domain))
    if isinstance(preprocessing, PreprocessingBase):
        return module, preprocessing
    if isinstance(preprocessing, Mapping):
        fields = {"kind": ImagePreprocessing.kind, **preprocessing}
        return module, parse_preprocessing(fields, f"preprocessing of model {name!r}")
    raise UsageError(
        f"the preprocessing of model {name!r} is of type {type(preprocessing).__name__}, expected a "
        "robench.ImagePreprocessing or a mapping with its fields (mean, std, resize, crop, interpolation)"
    )
