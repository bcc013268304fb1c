"""Growth of an attention layer's costs with the number of its tokens, kept beside other costs."""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from robench.attention import ATTENTIONS
from robench.core.checkpoint import Checkpoint
from robench.core.containment import Contained
from robench.core.errors import DeclarationError, UnknownNameError
from robench.core.identity import to_plain
from robench.costs import RULES, TOKENS, Limits, Protocol, fitted_exponent, larger_half
from robench.costs.counting import counts_of, subject_of
from robench.costs.measuring import measured
from robench.declarations.base import FieldsError
from robench.models.single_layer import SingleLayer
from robench.runs.costs import keep, machine_of
from robench.runs.devices import devices_of

# Default of numbers that have none, such as features: the smallest usual one.
NUMBER = 64
# Passes beside those of the protocol: one for the memory, and two that are counted.
_OTHER_PASSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GrowthRequest:
    """Sizes and limits of a measurement of growth.

    Attributes:
        tokens: numbers of tokens, ascending.
        protocol: protocol of seconds and memory; None for counts alone.
        results: folder that measurements are kept in.
    """

    tokens: tuple[int, ...] = TOKENS
    protocol: Protocol | None
    protocol_name: str = ""
    device: str = "auto"
    limits: Limits
    results: Path


def attention_named(name: str, checkpoints: Mapping[str, Checkpoint]) -> Any:
    """Return the declaration of a mechanism by its kind, or that of a model of the registry.

    Fields without a default are ``NUMBER``.

    Raises:
        RobenchError: the name is unknown, the model has no attention of robench's, or a field does not take ``NUMBER``.
    """
    if name in ATTENTIONS:
        declared: Any = ATTENTIONS[name]
        needed = [each.name for each in fields(declared) if each.default is each.default_factory is MISSING]
        try:
            return declared(**dict.fromkeys(needed, NUMBER))
        except FieldsError as error:
            raise DeclarationError(
                f"attention {name!r} has fields without defaults that do not take {NUMBER} ({error}): name a model"
                " of the registry with it"
            ) from error
    if name not in checkpoints:
        raise UnknownNameError("attention or model", name, [*ATTENTIONS, *checkpoints])
    architecture = checkpoints[name].architecture
    if (attention := getattr(architecture, "attention", None)) is None:
        raise DeclarationError(f"{name} has a backbone {architecture.kind!r} without attention of robench's")
    return attention


def growth_document(name: str, attention: Any, request: GrowthRequest) -> dict[str, Any]:
    """Return the costs of a layer by its number of tokens; measurements are written to ``results/costs``.

    A size that is predicted to exceed a limit is left out, with the reason, and so are all larger ones.

    Raises:
        RobenchError: the layer fails, or the file cannot be written.
    """
    device = torch.device(devices_of(request.device)[0])
    sizes: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    seconds: dict[int, float] = {}
    peak_bytes: dict[int, float] = {}
    for tokens in request.tokens:
        problem = request.limits.problem(tokens, seconds, peak_bytes)
        try:
            if problem is None:
                sizes.append(_size(name, attention, tokens, request, device))
        except FieldsError as error:
            problem = str(error)
        if problem is not None:
            left_out.append({"tokens": tokens, "reason": problem})
        elif request.protocol is not None:
            found = sizes[-1]["inference"]
            passes = request.protocol.warm_ups + request.protocol.repeats + _OTHER_PASSES
            seconds[tokens] = found["seconds"]["median"] * request.protocol.batch_size * passes
            peak_bytes[tokens] = found["peak_bytes"]
    document: dict[str, Any] = {"attention": name, "sizes": sizes, "left_out": left_out, "exponents": _exponents(sizes)}
    if request.protocol is None:
        return document
    conditions = {
        "declaration": to_plain(attention),
        "tokens": list(request.tokens),
        "protocol": {"name": request.protocol_name, **asdict(request.protocol)},
        "limits": asdict(request.limits),
        **machine_of(device),
    }
    document |= conditions | {"at": datetime.now(UTC).isoformat(timespec="seconds")}
    keep(request.results, ["growth", name, conditions], document)
    return document


def _size(name: str, attention: Any, tokens: int, request: GrowthRequest, device: torch.device) -> dict[str, Any]:
    """Return the costs at one number of tokens.

    Raises:
        FieldsError: the mechanism cannot have so few tokens.
    """
    layer = SingleLayer(attention=attention, num_tokens=tokens)
    title = f"{name} of {tokens} tokens"
    counts = counts_of(title, layer, None)
    found: dict[str, Any] = {
        "tokens": tokens,
        "parameters": counts.parameters,
        "multiply_adds": {rule: counts.multiply_adds(rule) for rule in RULES},
    }
    if request.protocol is not None:
        with Contained(keeps_environment=True):
            subject = subject_of(title, layer, None, device)
        values = measured([subject], request.protocol)[0]
        found |= {kind: asdict(each) for kind, each in values.items()}
    return found


def _exponents(sizes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fitted exponents by kind of cost, those of multiply-adds by rule, and the fitted sizes."""
    if not sizes:
        return {}
    found: dict[str, Any] = {
        "tokens": list(larger_half([each["tokens"] for each in sizes])),
        "multiply_adds": {
            rule: fitted_exponent({each["tokens"]: each["multiply_adds"][rule] for each in sizes}) for rule in RULES
        },
    }
    if "inference" in sizes[0]:
        of_passes = {each["tokens"]: each["inference"] for each in sizes}
        found["seconds"] = fitted_exponent({tokens: each["seconds"]["median"] for tokens, each in of_passes.items()})
        found["peak_bytes"] = fitted_exponent({tokens: each["peak_bytes"] for tokens, each in of_passes.items()})
    return found
