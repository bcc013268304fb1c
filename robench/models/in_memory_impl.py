"""Modules passed by the caller: identified, copied, and wrapped as models.

Only the copy is moved, frozen and called, so that the caller's module stays as it was.
"""

import copy
import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from robench.core.checkpoint import Checkpoint
from robench.core.containment import Contained
from robench.core.errors import UsageError, described
from robench.declarations.preprocessing import ImagePreprocessing
from robench.domains.texts import TEXTS
from robench.models.build import guard_batch_norms, without_fused_attention
from robench.models.estimators_impl import TextFunction
from robench.models.hub_impl import with_tokenizer
from robench.models.loaded import LoadedModel
from robench.models.module_digest import UndigestibleError, digest_of_module
from robench.models.smoothed import as_declared
from robench.tasks import TASKS

# timm's release is in the provenance of each record, and its models state the training data of their weights.
_TIMM = "timm"


def as_module(
    model: object, domain: str | None, task: str, parsed: Callable[[Mapping[str, object], str], Any]
) -> object:
    """Return a function of texts, or a model of transformers with its tokenizer, as a module; others as they are.

    ``domain`` and ``task`` are those of what the model is measured on; ``parsed`` makes an architecture of a mapping.
    """
    model = with_tokenizer(model, domain, task, parsed)
    if domain == TEXTS.name and callable(model) and not isinstance(model, nn.Module | type):
        return TextFunction(model)
    return model


def identity_of(name: str, module: nn.Module, key: str | None = None) -> str:
    """Return the identity of a module in keys: 64 hexadecimal digits, a digest of its state and source or of ``key``.

    Raises:
        UsageError: there is no key, and something that may decide what the module computes cannot be digested.
    """
    if key is not None:
        return hashlib.sha256(f"in-memory model with the key {key}".encode()).hexdigest()
    try:
        with Contained():
            return digest_of_module(module)
    # Broad because objects of any class are inspected.
    except Exception as error:
        with Contained():
            reason = str(error) if isinstance(error, UndigestibleError) else described(error)
        raise UsageError(
            f"model {name!r} cannot be identified by its state and source: {reason}. Give it a key of your own, "
            f"key={{{name!r}: '...'}}, and another one whenever the model computes something else"
        ) from error


def preprocessing_of(name: str, module: nn.Module) -> ImagePreprocessing:
    """Return the default preprocessing of a module: timm's own normalisation for its models, none for all others."""
    if type(module).__module__.partition(".")[0] == _TIMM and getattr(module, "pretrained_cfg", None):
        # Here because timm is heavy.
        from timm.data.config import resolve_model_data_config

        stated: dict[str, tuple[float, ...]] = resolve_model_data_config(module)  # type: ignore[no-untyped-call]
        mean, std = stated["mean"], stated["std"]
        if len(mean) != len(std):
            raise UsageError(
                f"model {name!r} of timm states the mean {mean} and the standard deviation {std}, expected as many "
                "channels of both: give (module, preprocessing) with mean and std"
            )
        return ImagePreprocessing(mean=tuple(mean), std=tuple(std))
    return ImagePreprocessing(mean=(), std=())


def model_of(checkpoint: Checkpoint, module: nn.Module, device: torch.device | str = "cpu") -> LoadedModel:
    """Return a copy of a module as a frozen model of its task on a device; the module itself is unchanged.

    Raises:
        UsageError: it cannot be copied.
        ContractError: its own code tried to end the process.
    """
    with Contained(keeps_environment=True):
        copied = _copied(checkpoint.name, module)
        guard_batch_norms(copied)
        without_fused_attention(copied)
        return as_declared(LoadedModel(copied, checkpoint.preprocessing, device, TASKS[checkpoint.task]), checkpoint)


def _copied(name: str, module: nn.Module) -> nn.Module:
    advice = (
        "robench measures a copy, so that your module stays unchanged; make copy.deepcopy(module) work, or declare the "
        "model in a registry file"
    )
    try:
        copied = copy.deepcopy(module)
    # Broad because a module may contain anything, and define its own copying.
    except Exception as error:
        with Contained():  # even the text of an error may be code
            reason = described(error)
        raise UsageError(f"model {name!r} cannot be copied ({reason}): {advice}") from error
    if not isinstance(copied, type(module)) or _held_by(copied) & _held_by(module):
        raise UsageError(f"model {name!r} cannot be copied (its copy shares modules or tensors with it): {advice}")
    for tensor in (*copied.parameters(), *copied.buffers()):
        # The order of values in memory is not part of a digest.
        tensor.data = tensor.data.contiguous()
    return copied


def _held_by(module: nn.Module) -> set[int]:
    return {id(each) for part in (module.modules(), module.parameters(), module.buffers()) for each in part}
