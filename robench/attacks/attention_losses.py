"""Losses on what attention layers show (``core.protocols.ShownLayer``), and the tokens of a patch.

Each loss takes outputs and labels like all losses, then the tokens of the patch, (B, N) booleans, or the clean weights,
and ``layers``; it returns (B,). Gradients flow through all that is shown.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from robench.attacks.local import INSTEAD, AttentionTerm, LocalAscent
from robench.attacks.problem import Problem
from robench.core.errors import ContractError
from robench.core.protocols import ShownLayer
from robench.core.seeds import LazySeeds
from robench.tasks.base import Loss, reads_layers

Layers = Sequence[ShownLayer]
# Published place of layer 4 among 12.
PLACE_LAYER = (4, 12)


def received(layers: Layers, is_patch: Tensor) -> list[Tensor]:
    """Return the attention that the tokens of the patch receive in each layer, (B,), summed over heads and queries.

    Source: Fu et al. 2022, arXiv:2203.08392, equation 5.
    """
    return [(layer.weights_BHNM * is_patch[:, None, None, :]).sum((1, 2, 3)) for layer in layers]


def products(layers: Layers, is_patch: Tensor) -> Tensor:
    """Return the smooth maximum over layers and heads of mean products of the queries with the keys of the patch, (B,).

    With the queries q_i and keys k_j of a head, divided by the mean lengths of all N of them,

        L = log sum_layers sum_heads exp(1 / N sum_i q_i . k_j / sqrt(D))

    and a sum over the tokens j of the patch too, where the source has a single one. The products are those of the
    projections, for mechanisms with other kernels too. Source: Lovisotto et al. 2022, arXiv:2203.13639, section 4.
    """
    by_layer = []
    for layer in layers:
        mean_query = _over_mean_length(layer.queries_BHND).mean(-2, keepdim=True)
        of_keys = (mean_query * _over_mean_length(layer.keys_BHMD)).sum(-1) / mean_query.shape[-1] ** 0.5
        by_layer.append(of_keys.masked_fill(~is_patch[:, None, :], -torch.inf).logsumexp(-1))
    largest: Tensor = torch.cat(by_layer, 1).logsumexp(1)
    return largest


def _over_mean_length(vectors: Tensor) -> Tensor:
    mean: Tensor = vectors.norm(dim=-1).mean(-1)[..., None, None]
    return vectors / mean.clamp(min=torch.finfo(vectors.dtype).tiny)


def distances(layers: Layers, clean: Sequence[Tensor]) -> Tensor:
    """Return the squared distance (B,) of all weights from those of the clean input, (B, H, N, N) for each layer."""
    changes = [
        (layer.weights_BHNM - before).square().sum((1, 2, 3)) for layer, before in zip(layers, clean, strict=True)
    ]
    return torch.stack(changes).sum(0)


def with_attention(term: AttentionTerm, loss: Loss) -> Loss:
    """Return a loss plus the declared loss on attention; after the labels it takes what ``beside_of`` returns."""

    @reads_layers
    def total(outputs: Tensor, labels: Tensor, *beside: Tensor, layers: Layers) -> Tensor:
        if term.loss == "distance":
            of_attention = distances(layers, beside)
        elif term.loss == "received":
            of_attention = torch.stack(received(layers, *beside)).sum(0)
        else:
            of_attention = products(layers, *beside)
        return loss(outputs, labels) + term.weight * of_attention

    return total


def beside_of(term: AttentionTerm, problem: Problem) -> tuple[Tensor, ...]:
    """Return the arguments of a loss on attention, from passes at the clean inputs: tokens of the patch, or weights."""
    if term.of_patch:
        return (patch_tokens(problem),)
    return problem.within("attention").at(search=0, step=0).look(problem.inputs, _all_weights)


def _all_weights(layers: Layers) -> tuple[Tensor, ...]:
    return tuple(layer.weights_BHNM for layer in layers)


def patch_tokens(problem: Problem) -> Tensor:
    """Return a mask (B, N) of the first layer's tokens that a problem's patch can change.

    Raises:
        ContractError: no token depends on the patch of some input.
    """
    is_patch = tokens_changed(problem.within("patch tokens").at(search=0, step=0), problem.region.free)
    if not bool(is_patch.any(1).all()):
        raise ContractError(f"no token of the first attention layer depends on a patch; {INSTEAD}")
    return is_patch


def tokens_changed(problem: Problem, pixels: Tensor | None) -> Tensor:
    """Return a mask (B, N) of the first layer's tokens that some pixels (B, C, H, W) can change; None for all pixels.

    These tokens differ when each value goes to the limit that is farther away: they are the receptive field of the
    embedding, whose convolutions may overlap.
    """
    lower, upper = ((limit - problem.shift) / problem.scale for limit in problem.limits)
    far = torch.where(2 * problem.inputs < lower + upper, upper, lower)
    moved = far if pixels is None else torch.where(pixels, far, problem.inputs)
    (clean,), (changed,) = (problem.look(points, first_tokens) for points in (problem.inputs, moved))
    return (clean != changed).any(-1)


def first_tokens(layers: Layers) -> tuple[Tensor]:
    """Return the tokens (B, N, C) that enter the first layer."""
    return (layers[0].tokens_BNC,)


def mean_received(place: int | None) -> Callable[[Layers], tuple[Tensor]]:
    """Return a function of layers to the attention that each token receives in layer ``place``, (B, N).

    It is the mean over heads and queries; None for the layer after a third of the depth. Source: Fu et al. 2022,
    arXiv:2203.08392, section 3.3.
    """

    def read(layers: Layers) -> tuple[Tensor]:
        chosen = PLACE_LAYER[0] * len(layers) // PLACE_LAYER[1] if place is None else place
        return (layers[chosen].weights_BHNM.mean((1, 2)),)

    return read


def check_layers(declaration: LocalAscent, model: Any, inputs: Tensor) -> None:
    """Refuse a model that does not show what an attack reads, on some inputs (B, ...); raises ContractError."""
    show = getattr(model, "outputs_and_layers", None)
    if show is None:
        raise ContractError(f"{declaration.kind} reads attention, and the model shows none; {INSTEAD}")
    try:
        with torch.no_grad():
            _, layers = show(inputs, LazySeeds(lambda: range(len(inputs)), len(inputs)))
            last = declaration.place_layer or 0
            if last >= len(layers):
                raise ContractError(f"place_layer must be below the {len(layers)} attention layers, got {last}")
            if len({layer.tokens_BNC.shape[1] for layer in layers}) > 1:
                raise ContractError("its attention layers have different numbers of tokens")
            _check_read(declaration, layers)
    except ContractError as error:
        raise ContractError(f"{declaration.kind} reads attention: {error}; {INSTEAD}") from error


def _check_read(declaration: LocalAscent, layers: Layers) -> None:
    """Read from layers all that an attack reads, which raises ContractError for what is missing."""
    term, read = declaration.attention_term, mean_received(declaration.place_layer)
    num_tokens = layers[0].tokens_BNC.shape[:2]
    if declaration.patches is not None and declaration.place == "attention":
        read(layers)
    if term is not None and term.loss == "products":
        products(layers, torch.ones(num_tokens, dtype=torch.bool, device=layers[0].tokens_BNC.device))
    elif term is not None:
        _all_weights(layers)
