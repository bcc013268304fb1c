"""Costs of registry entries: counts, and on a device seconds and memory, which are kept beside the records."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from robench.attention import ATTENTIONS
from robench.core.checkpoint import Checkpoint
from robench.core.containment import Contained
from robench.core.errors import DeclarationError, RobenchError, UnknownNameError
from robench.core.files import write_whole, writing
from robench.core.identity import key_of, to_plain
from robench.costs import RULES, Counts, Protocol
from robench.costs.counting import counts_of, subject_of
from robench.costs.measuring import measured
from robench.costs.stored import FOLDER
from robench.declarations.base import FieldsError
from robench.evaluation.arithmetic import device_kind, library_versions
from robench.models.base import ArchitectureBase
from robench.runs.devices import devices_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRequest:
    """Costs that are asked for.

    Attributes:
        rules: names of the rules by which multiply-adds are counted.
        protocol: protocol of seconds and memory; None for counts alone.
        protocol_name: its name in results.
        ratio_to: a model of the registry, or the kind of a mechanism that takes the place of each model's own; None for
            no ratio.
        input_shape: shape of an input in place of the declared one.
        results: folder that measurements are kept in.
    """

    rules: Sequence[str] = tuple(RULES)
    protocol: Protocol | None = None
    protocol_name: str = ""
    device: str = "auto"
    ratio_to: str | None = None
    input_shape: tuple[int, ...] | None = None
    results: Path


def cost_document(
    checkpoint: Checkpoint, checkpoints: Mapping[str, Checkpoint], request: CostRequest
) -> dict[str, Any]:
    """Return the costs of a model as plain values; measurements are written to ``results/costs``.

    ``checkpoints`` are those of all registries. Weights are random, and need not be there.

    Raises:
        RobenchError: the model cannot be built, fails, or does not fit into memory; the other model or the device is
            unknown; the file cannot be written.
    """
    counts, in_training = (
        counts_of(
            checkpoint.name,
            checkpoint.architecture,
            checkpoint.preprocessing,
            request.input_shape,
            is_training=is_training,
        )
        for is_training in (False, True)
    )
    found: dict[str, Any] = {
        "model": checkpoint.name,
        "parameters": counts.parameters,
        "multiply_adds": {rule: counts.multiply_adds(rule) for rule in request.rules},
        "training_multiply_adds": {rule: in_training.multiply_adds(rule) for rule in request.rules},
    }
    if request.protocol is None:
        return found
    device = torch.device(devices_of(request.device)[0])
    compared = [checkpoint]
    if request.ratio_to is not None:
        compared.append(_other(checkpoint, request.ratio_to, checkpoints))
    with Contained(keeps_environment=True):
        subjects = [
            subject_of(each.name, each.architecture, each.preprocessing, device, request.input_shape)
            for each in compared
        ]
    conditions = {
        "protocol": {"name": request.protocol_name, **asdict(request.protocol)},
        "ratio_to": request.ratio_to,
        "input_shape": list(subjects[0].shape),
        **machine_of(device),
    }
    values = measured(subjects, request.protocol)[0]
    found |= conditions | {"at": datetime.now(UTC).isoformat(timespec="seconds")}
    found |= {kind: asdict(each) for kind, each in values.items()}
    plain = [to_plain(each) for each in (checkpoint.architecture, checkpoint.preprocessing)]
    keep(request.results, [checkpoint.name, *plain, conditions], found)
    return found


def machine_of(device: torch.device) -> dict[str, Any]:
    """Return kind of device, number of threads and versions of libraries, as costs keep them."""
    return {"device": device_kind(device), "threads": torch.get_num_threads(), "versions": library_versions()}


def keep(results: Path, identity: list[Any], document: Mapping[str, Any]) -> None:
    """Write measured costs into a results folder, in place of those of the same identity."""
    path = results / FOLDER / f"{key_of(identity)}.json"
    with writing(path):
        write_whole(path, f"{json.dumps(document, indent=1)}\n".encode())


def counts_of_models(checkpoints: Mapping[str, Checkpoint]) -> tuple[dict[str, Counts], dict[str, str]]:
    """Return the counts of models in inference by name, and the reason for each that cannot be counted."""
    counts: dict[str, Counts] = {}
    reasons: dict[str, str] = {}
    for name, checkpoint in checkpoints.items():
        try:
            counts[name] = counts_of(name, checkpoint.architecture, checkpoint.preprocessing)
        except RobenchError as error:
            reasons[name] = str(error)
    return counts, reasons


def _other(checkpoint: Checkpoint, name: str, checkpoints: Mapping[str, Checkpoint]) -> Checkpoint:
    """Return the model that a model is compared with: an entry, or the same model with another mechanism."""
    if name in checkpoints:
        return checkpoints[name]
    if name not in ATTENTIONS:
        raise UnknownNameError("model or attention", name, [*checkpoints, *ATTENTIONS])
    return with_attention(checkpoint, name)


def with_attention(checkpoint: Checkpoint, name: str) -> Checkpoint:
    """Return the same model with another mechanism, of a kind in ``ATTENTIONS``, with the defaults of its fields.

    Raises:
        DeclarationError: the model's attention cannot be replaced, or a field of the mechanism has no default.
    """
    architecture = checkpoint.architecture
    if not isinstance(architecture, ArchitectureBase) or not hasattr(architecture, "attention"):
        raise DeclarationError(
            f"{checkpoint.name} has a backbone {architecture.kind!r}, whose attention {name!r} cannot replace: name a"
            " model of the registry by --ratio-to"
        )
    try:
        attention = ATTENTIONS[name]()
    except TypeError as error:
        raise DeclarationError(
            f"attention {name!r} has fields without defaults ({error}): name a model with it by --ratio-to"
        ) from error
    try:
        replaced = replace(architecture, attention=attention)  # type: ignore[type-var]  # all declarations are dataclasses
    except FieldsError as error:
        raise DeclarationError(
            f"{checkpoint.name} cannot have attention {name!r} ({error}): name a model with it by --ratio-to"
        ) from error
    return replace(checkpoint, name=f"{checkpoint.name} with {name}", architecture=replaced)
