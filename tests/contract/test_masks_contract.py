"""Masks of keys: every mechanism that takes padding out of its keys gives what it gives for the valid tokens alone."""

from dataclasses import fields, replace
from typing import cast

import pytest
import torch
from attention_references import REFERENCES
from attention_settings import one_per_form
from torch import Tensor

from robench.analyses.observing import observe
from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.attention.geometry import TokenLayout
from robench.attention.nystrom import Nystrom
from robench.models import RESIDUALS
from robench.models.build import build
from robench.models.series import Series
from robench.models.series_impl import SeriesModel

SMALL = Series(num_steps=9, num_channels=3, num_classes=4, dim=8, num_heads=2, feedforward=10, depth=3, padding="keys")
LENGTHS = (9, 4, 6, 4)
DECLARED = [each for kind in ATTENTIONS for each in one_per_form(REFERENCES[kind].declarations)]
REFUSED = {"scaled", "rvt"}


def is_by_place(declared: AttentionBase) -> bool:
    """Return whether outputs depend on the number of places, though not on what padding contains: see their pages."""
    return declared.kind == "linformer" or (isinstance(declared, Nystrom) and declared.formula == "released")


def model_of(architecture: Series) -> SeriesModel:
    torch.manual_seed(0)
    return cast("SeriesModel", build(architecture).double().eval())


def padded_series(content: float) -> tuple[Tensor, Tensor]:
    """Return series (B, N, channels) with this content in the place of padding, and their mask (B, N)."""
    series = torch.randn(len(LENGTHS), 9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(9)[None] < torch.tensor(LENGTHS)[:, None]
    return torch.where(mask[..., None], series, content), mask


def title(declared: AttentionBase) -> str:
    return f"{declared.kind}-{DECLARED.index(declared)}"


@pytest.mark.parametrize("declared", DECLARED, ids=title)
def test_outputs_at_valid_tokens_are_those_of_the_valid_tokens_alone(declared: AttentionBase) -> None:
    if declared.mask_problem:
        assert declared.kind in REFUSED
        with pytest.raises(ValueError, match="padding must not be keys with attention"):
            replace(SMALL, attention=declared)
        return
    model, seeds = model_of(replace(SMALL, attention=declared)), (1, 2, 3, 4)
    with torch.no_grad():
        (series, mask), (other, _) = padded_series(3.0), padded_series(-7.0)
        tokens_BNC = model.tokens(series, seeds, None, mask)
        torch.testing.assert_close(
            model(other, seeds, None, mask), model(series, seeds, None, mask), rtol=0, atol=1e-10
        )
        for row, length in enumerate(LENGTHS):
            if not is_by_place(declared):
                alone_1NC = model.tokens(series[row : row + 1, :length], seeds[row : row + 1])
                torch.testing.assert_close(tokens_BNC[row, :length], alone_1NC[0], rtol=0, atol=1e-10)
    if declared.kind != "primal":  # its data-independent form mixes no tokens
        assert not torch.allclose(model.tokens(series, seeds)[1, :4], tokens_BNC[1, :4], atol=1e-6)


@pytest.mark.parametrize(
    "declared", [each for each in DECLARED if not each.mask_problem and not is_by_place(each)], ids=title
)
def test_analyses_see_the_valid_tokens_alone(declared: AttentionBase) -> None:
    model, (series, mask) = model_of(replace(SMALL, attention=declared)), padded_series(3.0)
    row, seeds = slice(1, 2), (2,)
    padded = observe(model, lambda: model.tokens(series[row], seeds, None, mask[row]), TokenLayout())
    alone = observe(model, lambda: model.tokens(series[row, :4], seeds), TokenLayout())
    for found, expected in zip(padded.tokens_BNC, alone.tokens_BNC, strict=True):
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    assert len(padded.layers) == SMALL.depth
    for seen, wanted in zip(padded.layers, alone.layers, strict=True):
        for field in fields(wanted):
            torch.testing.assert_close(getattr(seen, field.name), getattr(wanted, field.name), rtol=0, atol=1e-10)


class MeanOfTokens(torch.nn.Module):
    """Attention of somebody else, which knows nothing of padding."""

    def forward(self, x_BNC: Tensor, state: object) -> Tensor:
        return x_BNC.mean(1, keepdim=True).expand_as(x_BNC)


def test_attention_that_knows_nothing_of_padding_gets_each_length_on_its_own() -> None:
    model, (series, mask) = model_of(SMALL), padded_series(3.0)
    model.blocks[1].attn = MeanOfTokens()
    with torch.no_grad():
        tokens_BNC = model.tokens(series, None, None, mask)
        for row, length in enumerate(LENGTHS):
            alone_1NC = model.tokens(series[row : row + 1, :length])
            torch.testing.assert_close(tokens_BNC[row, :length], alone_1NC[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", list(RESIDUALS))
def test_residual_connections_do_not_see_padding(kind: str) -> None:
    model = model_of(replace(SMALL, residual=RESIDUALS[kind]()))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith((".t", ".lamb1", ".lamb2")):
                parameter.fill_(0.3)
        series, mask = padded_series(3.0)
        tokens_BNC = model.tokens(series, None, None, mask)
        alone_1NC = model.tokens(series[1:2, :4])
    torch.testing.assert_close(tokens_BNC[1, :4], alone_1NC[0], rtol=0, atol=1e-10)


def test_losses_of_layers_are_those_of_the_valid_tokens_alone_in_the_order_of_the_batch() -> None:
    model = model_of(replace(SMALL, attention=REFERENCES["primal"].declarations[0]))
    series, mask = padded_series(3.0)
    together: list[Tensor] = []
    model(series, losses_B=together, mask_BN=mask)
    assert [each.shape for each in together] == [(4,)] * SMALL.depth
    for row, length in enumerate(LENGTHS):
        alone: list[Tensor] = []
        model.tokens(series[row : row + 1, :length], None, alone)
        torch.testing.assert_close(torch.stack(together)[:, row], torch.cat(alone), rtol=0, atol=1e-10)


def test_logits_ignore_tokens_of_padding_with_padding_seen_by_attention_too() -> None:
    series, mask = padded_series(3.0)
    model = model_of(replace(SMALL, padding="output"))
    with torch.no_grad():
        seen = model.tokens(series, None, None, mask)
        torch.testing.assert_close(seen, model.tokens(series), rtol=0, atol=0)
        last = torch.nn.functional.gelu(model.norm(seen)) * mask[..., None]
        torch.testing.assert_close(model(series, None, None, mask), model.head(last.flatten(1)), rtol=0, atol=1e-12)
