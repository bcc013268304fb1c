"""Perplexity and loss of language models by hand, and their intervals over whole texts."""

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from presence import present

from examples import readings
from robench.core.errors import ContractError, IncompleteError
from robench.core.report import Estimate
from robench.metrics import METRICS
from robench.tasks.language_modeling import LanguageOutcome


def texts(*numbers: tuple[float, int, float | None, int | None]) -> list[LanguageOutcome]:
    return [
        LanguageOutcome(
            example_id=f"a/{place}", loss_nats=a, num_tokens=b, kept_loss_nats=c, num_kept=d,
            clean_kept_loss_nats=None if c is None else 0.75 * c,
        )
        for place, (a, b, c, d) in enumerate(numbers)
    ]  # fmt: skip


def measured(name: str, *numbers: tuple[float, int, float | None, int | None]) -> Estimate:
    return METRICS[name].compute(readings(texts(*numbers)))


TWO = ((30.0, 10, 16.0, 8), (25.0, 5, 8.0, 4))


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("perplexity", exp(55 / 15), "perplexity"),
        ("token_loss", 55 / 15, "nats"),
        ("bits_per_token", 55 / 15 / log(2), "bits"),
        ("kept_perplexity", exp(24 / 12), "perplexity"),
        ("swapped_perplexity", exp(31 / 3), "perplexity"),
        ("kept_damage", 100 * (exp((24 - 18) / 12) - 1), "%"),
    ],
)
def test_losses_and_tokens_of_all_texts_are_summed_first(name: str, value: float, unit: str) -> None:
    found = measured(name, *TWO)
    assert found.value == pytest.approx(value, rel=1e-14)
    assert (found.unit, found.num_examples) == (unit, 2)
    assert METRICS[name].unit == unit


@pytest.mark.parametrize(
    "name", ["perplexity", "kept_perplexity", "swapped_perplexity", "token_loss", "bits_per_token", "kept_damage"]
)
def test_there_is_no_interval_below_30_texts(name: str) -> None:
    numbers = [(30.0 + place % 7, 10, 16.0 + place % 5, 8) for place in range(30)]
    assert measured(name, *numbers[:29]).low is None
    found = measured(name, *numbers)
    assert present(found.low) < found.value < present(found.high)


def test_the_interval_resamples_whole_texts() -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(1000, 30_000, 200)
    losses = lengths * generator.normal(4.5, 0.3, 200)
    found = measured("perplexity", *[(float(a), int(b), None, None) for a, b in zip(losses, lengths, strict=True)])
    drawn = generator.integers(0, 200, (4000, 200))
    wanted = np.percentile(np.exp(losses[drawn].sum(1) / lengths[drawn].sum(1)), [2.5, 97.5])
    assert (found.low, found.high) == pytest.approx(tuple(wanted), rel=0.01)
    # Were words drawn one by one, 3 million of them would leave almost no width.
    assert present(found.high) - present(found.low) > 3


def test_swapped_words_of_clean_texts_have_no_perplexity() -> None:
    with pytest.raises(IncompleteError, match="no token is counted, so that there is no mean over them"):
        measured("swapped_perplexity", (30.0, 10, 30.0, 10), (25.0, 5, 25.0, 5))


def test_texts_whose_words_cannot_be_compared_have_no_kept_perplexity() -> None:
    with pytest.raises(ContractError, match="kept_loss_nats"):
        measured("kept_perplexity", (30.0, 10, None, None), (25.0, 5, 8.0, 4))
    assert measured("perplexity", (30.0, 10, None, None), (25.0, 5, 8.0, 4)).value == pytest.approx(exp(55 / 15))


def test_replacements_of_unknown_words_are_left_out_of_swapped_words() -> None:
    first, second = texts(*TWO)
    outcomes = [replace(first, unknown_loss_nats=9.0, num_unknown=1), second]
    assert METRICS["swapped_perplexity"].compute(readings(outcomes)).value == pytest.approx(exp(22 / 2))
    assert METRICS["perplexity"].compute(readings(outcomes)).value == pytest.approx(exp(55 / 15))


def test_there_is_no_damage_without_the_losses_of_the_clean_text() -> None:
    first, second = texts(*TWO)
    for others in ([], [second]):
        outcomes = readings([replace(first, clean_kept_loss_nats=None), *others])
        for read in (METRICS["kept_damage"].compute, METRICS["kept_damage"].contributed):
            with pytest.raises(
                IncompleteError, match=r"1 of \d texts have no clean_kept_loss_nats.*measure them again"
            ):
                read(outcomes)


def test_texts_weigh_by_their_kept_words_in_the_damage() -> None:
    """The interval resamples texts: their gaps and numbers of words, together."""
    generator = np.random.default_rng(0)
    numbers = [(0.0, 1, 4.0 * n, n) for n in generator.integers(100, 9000, 60).tolist()]
    gaps = generator.normal(0.05, 0.02, 60)
    outcomes = [
        replace(each, clean_kept_loss_nats=(4 - gap) * n)
        for each, gap, (*_, n) in zip(texts(*numbers), gaps, numbers, strict=True)
    ]
    found = METRICS["kept_damage"].compute(readings(outcomes))
    counts = np.array([n for *_, n in numbers])
    drawn = generator.integers(0, 60, (4000, 60))
    damages = 100 * np.expm1((gaps * counts)[drawn].sum(1) / counts[drawn].sum(1))
    assert found.value == pytest.approx(100 * np.expm1((gaps * counts).sum() / counts.sum()))
    assert (found.low, found.high) == pytest.approx(tuple(np.percentile(damages, [2.5, 97.5])), rel=0.02)


@pytest.mark.parametrize(
    ("name", "value"), [("perplexity", exp(55 / 15)), ("kept_damage", 100 * (exp((24 - 18) / 12) - 1))]
)
def test_they_are_paired_by_text_in_comparisons(name: str, value: float) -> None:
    contributions = present(METRICS[name].contributed(readings(texts(*TWO))))
    samples = [sample.values[None, :] for sample in contributions.samples]
    assert contributions.statistic(samples)[0] == pytest.approx(value)
