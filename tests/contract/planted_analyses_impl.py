"""What ``planted_analyses`` declares, with one mistake each."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from robench.analyses.base import Curve, Pass
from robench.analyses.by_layer import by_layer, needed


def honest(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    return {"largest": by_layer(seen, lambda layer: needed(layer.weights_BHNM).amax(dim=(-2, -1)))}


def changed(seen: Pass, change: Any) -> Mapping[str, Tensor]:
    return {"largest": change(honest(None, seen)["largest"])}


def leaves_one_out(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    return {}


def forgets_heads(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    return changed(seen, lambda numbers: numbers.mean(dim=-1))


def counts_in_integers(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    return changed(seen, lambda numbers: numbers.long())


def divides_by_zero(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    return changed(seen, lambda numbers: numbers / (numbers - numbers))


def mixes_examples(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    return changed(seen, lambda numbers: numbers - numbers.mean(dim=0))


def writes_into_weights(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    found = honest(declaration, seen)
    for layer in seen.layers:
        needed(layer.weights_BHNM).mul_(2)
    return found


def draws_numbers(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    return changed(seen, lambda numbers: numbers + torch.rand(()))


def reads_values(declaration: Any, seen: Pass) -> Mapping[str, Tensor]:
    values = by_layer(seen, lambda layer: needed(layer.values_BHMD).mean(dim=(-2, -1)))
    return changed(seen, lambda numbers: numbers + values)


def parabola(declaration: Any) -> Mapping[str, Curve]:
    x = torch.linspace(0, 1, 5)
    return {"square": Curve(values=x.square(), x=x)}


def without_places(declaration: Any) -> Mapping[str, Curve]:
    return {"square": Curve(values=torch.linspace(0, 1, 5))}
