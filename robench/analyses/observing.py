"""Forward passes seen from inside: hooks on attention layers and blocks, for the time of one pass."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from robench.analyses.base import AnalysisBase, Part, Pass
from robench.attention.geometry import TokenLayout
from robench.attention.seen import Seen, ShowsInside, seen_of, valid_length
from robench.core.declared import Architecture
from robench.core.errors import DeclarationError
from robench.models.shown import attentions_of
from robench.models.transformer_impl import TransformerModel
from robench.models.vit import ImageTransformer

_FIELDS = {"queries": "queries_BHND", "keys": "keys_BHMD", "values": "values_BHMD", "weights": "weights_BHNM"}


def layout_of(architecture: Architecture, module: nn.Module | None = None) -> TokenLayout:
    """Return the meaning of a model's tokens; only those of image transformers have places.

    Of a module in memory, timm's names ``patch_embed.grid_size`` and ``num_prefix_tokens`` tell them.
    """
    if isinstance(architecture, ImageTransformer):
        return architecture.layout
    grid = getattr(getattr(module, "patch_embed", None), "grid_size", None)
    if not isinstance(grid, tuple):
        return TokenLayout()
    return TokenLayout(num_special=getattr(module, "num_prefix_tokens", 0), grid=(int(grid[0]), int(grid[1])))


def observe(module: nn.Module, run: Callable[[], object], layout: TokenLayout, num_rows: int | None = None) -> Pass:
    """Return the tensors of the attention layers and blocks of a module, while ``run`` passes a batch through it.

    Nothing else of the module changes, and its outputs are those without hooks. Seen are the first ``num_rows`` rows of
    the first pass, None for all: a language model reads a long text as rows of windows, in several passes. Tokens that
    the model takes for padding are left out; these rows then have one length.
    """
    layers: list[Seen] = []
    tokens: list[Tensor] = []
    # The model itself, or the encoder within a segmenter.
    transformer = next((part for part in module.modules() if isinstance(part, TransformerModel)), None)
    attentions = attentions_of(module)
    blocks = [] if transformer is None else list(transformer.blocks)

    def look(attention: nn.Module, given: tuple[Any, ...]) -> None:
        assert isinstance(attention, ShowsInside)
        if len(layers) < len(attentions):
            layers.append(seen_of(attention, given, num_rows))

    def enter(block: nn.Module, given: tuple[Any, ...]) -> None:
        if not tokens:
            tokens.append(given[0][:num_rows, : valid_length(given[-1], num_rows)].clone())

    def leave(block: nn.Module, given: tuple[Any, ...], output: Tensor) -> None:
        if len(tokens) <= len(blocks):
            tokens.append(output[:num_rows, : valid_length(given[-1], num_rows)].clone())

    with torch.no_grad(), ExitStack() as hooks:
        for attention in attentions:
            hooks.callback(attention.register_forward_pre_hook(look).remove)
        for place, block in enumerate(blocks):
            if place == 0:
                hooks.callback(block.register_forward_pre_hook(enter).remove)
            hooks.callback(block.register_forward_hook(leave).remove)
        run()
    return Pass(layers=tuple(layers), tokens_BNC=tuple(tokens), layout=layout)


def check_shown(analysis: AnalysisBase, seen: Pass, model: str) -> None:
    """Refuse a pass that lacks what an analysis needs.

    Raises:
        DeclarationError: it does; the message names the layers, and the analyses that are possible.
    """
    if not seen.layers and not seen.tokens_BNC:
        raise DeclarationError(
            f"nothing can be seen of {model}: no part of it has a method 'seen', as robench's own attention mechanisms"
            " have. Name a model of a robench backbone, or give its attention that method (docs/analysis.md)"
        )
    lacking = {part: _layers_without(part, seen) for part in analysis.needs}
    problems = [
        f"{part} in layer{'s' * (len(layers) > 1)} {', '.join(map(str, layers))}"
        for part, layers in lacking.items()
        if layers
    ]
    if analysis.needs_grid and seen.layout.grid is None:
        problems.append("patches of images: its tokens are others")
    if problems:
        raise DeclarationError(
            f"analysis {analysis.kind} of {model} needs {'; '.join(problems)}, which cannot be seen there. Possible"
            f" are: {', '.join(possible_analyses(seen)) or 'none'}"
        )


def possible_analyses(seen: Pass) -> Sequence[str]:
    """Return the kinds of analyses that a pass shows enough for."""
    from robench.analyses import ANALYSES

    return [
        kind
        for kind, declared in ANALYSES.items()
        if declared.subject != "formula"
        and not any(_layers_without(part, seen) for part in declared.needs)
        and not (declared.needs_grid and seen.layout.grid is None)
    ]


def _layers_without(part: Part, seen: Pass) -> list[int]:
    if part == "tokens":
        return [] if seen.tokens_BNC else [0]
    if not seen.layers:
        return [0]
    name = _FIELDS.get(part, "heads_BHND")
    return [place for place, layer in enumerate(seen.layers) if getattr(layer, name) is None]
