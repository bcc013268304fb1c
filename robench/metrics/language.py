"""Perplexity and loss of language models: sums of losses over sums of tokens, with intervals over whole texts.

Perplexity is exp(summed negative log-likelihood / number of tokens), over all texts together, of models of a closed
vocabulary of words. Models that score texts piece by piece have the likelihood of the whole text instead: over words in
``word_perplexity``, over bytes in ``byte_perplexity`` and ``bits_per_byte``, as in lm-evaluation-harness. Words of one
text are not independent, so that a resample draws texts. Below 30 of them the bootstrap covers far less than its 95 %,
and there is no interval; above, ``language.INTERVAL`` states its simulated coverage.
"""

from __future__ import annotations

from functools import partial
from math import fsum, log
from typing import TYPE_CHECKING

from robench.core.errors import InapplicableError, IncompleteError
from robench.core.report import Estimate
from robench.metrics.accuracy import only_condition
from robench.metrics.contributions import Contributions, Sample
from robench.metrics.intervals import NUM_RESAMPLES, percentile_interval, resampled_sums
from robench.metrics.metric import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from robench.core.columns import Outcomes
    from robench.metrics.metric import Readings

    # Losses in nats and numbers of tokens (N,) of the texts.
    Sums = tuple[NDArray[np.float64], NDArray[np.float64]]

# The coverage is simulated by tests/slow/test_language_coverage.py.
INTERVAL = (
    f"percentile bootstrap 95 %, {NUM_RESAMPLES} resamples of whole texts, which covers about 93 % with 30 texts and "
    "94 % with 60; none below 30"
)
FEWEST_TEXTS = 30
# Largest proportion of words that a tokenizer may lose: numbers of texts compare models of different tokenizers.
MOST_LOST = 0.001
_OF_BITS = 1 / log(2)
# Closed vocabularies have no such counts; numbers of texts need both.
_CLOSED = ("num_words",)
_LOST = ("num_words", "num_lost")
_OF_TEXT = (*_LOST, "num_bytes")
_KEPT = ("kept_loss_nats", "num_kept")
_SWAPPED = (*_KEPT, "unknown_loss_nats", "num_unknown")
_DAMAGE = (*_KEPT, *_LOST, "clean_kept_loss_nats")


def _metric(name: str, title: str, unit: str, *, reads: tuple[str, ...] = (), of_changes: bool = False) -> Metric:
    return Metric(
        name=name,
        title=title,
        unit=unit,
        task="language-modeling",
        interval=INTERVAL,
        scope="condition",
        reads=reads,
        implementation=f"robench.metrics.language:{name}",
        contributions=f"robench.metrics.language:{name}_contributions",
        of_changes=of_changes,
        lower_is_better=True,
    )


LANGUAGE_METRICS = (
    _metric("perplexity", "perplexity", "perplexity", reads=_CLOSED),
    _metric("token_loss", "loss (nats)", "nats", reads=_CLOSED),
    _metric("bits_per_token", "bits per token", "bits", reads=_CLOSED),
    _metric("word_perplexity", "word perplexity", "perplexity", reads=_OF_TEXT),
    _metric("byte_perplexity", "byte perplexity", "perplexity", reads=_OF_TEXT),
    _metric("bits_per_byte", "bits per byte", "bits", reads=_OF_TEXT),
    _metric("kept_perplexity", "perplexity of kept words", "perplexity", reads=(*_KEPT, *_CLOSED), of_changes=True),
    _metric(
        "swapped_perplexity",
        "perplexity of swapped words",
        "perplexity",
        reads=(*_SWAPPED, *_CLOSED),
        of_changes=True,
    ),
    _metric("kept_damage", "damage to kept words (%)", "%", reads=_DAMAGE, of_changes=True),
)


def _all(outcomes: Outcomes) -> Sums:
    _refuse_pieces(outcomes)
    return outcomes.column("loss_nats"), outcomes.column("num_tokens").astype(float)


def _of_text(name: str, outcomes: Outcomes) -> Sums:
    if not outcomes.known(name).all():
        raise InapplicableError(
            "the vocabulary of words of the model is closed, so that it gives no likelihood to the text itself; read"
            " perplexity"
        )
    _refuse_lost(outcomes)
    return outcomes.column("loss_nats"), outcomes.column(name).astype(float)


def _refuse_pieces(outcomes: Outcomes) -> None:
    if outcomes.known("num_words").any():
        raise InapplicableError(
            "the model scores pieces of words, so that its numbers are not comparable with those of a closed vocabulary"
            " of words; read word_perplexity or bits_per_byte"
        )


def _refuse_lost(outcomes: Outcomes) -> None:
    lost, words = int(outcomes.filled("num_lost", 0).sum()), int(outcomes.filled("num_words", 0).sum())
    if lost > MOST_LOST * words:
        raise InapplicableError(
            f"the model's tokenizer loses {lost} of {words} words ({lost / words:.1%}; at most {MOST_LOST:.1%} may be"
            " lost): it reads them as unknown pieces, which are easier than the words, or without some of their"
            " letters, so that the number is not comparable with those of other tokenizers"
        )


def _kept(outcomes: Outcomes) -> Sums:
    return outcomes.column("kept_loss_nats"), outcomes.column("num_kept").astype(float)


def _closed_kept(outcomes: Outcomes) -> Sums:
    _refuse_pieces(outcomes)
    return _kept(outcomes)


def _swapped(outcomes: Outcomes) -> Sums:
    (loss, count), (kept_loss, kept_count) = _all(outcomes), _kept(outcomes)
    unknown_loss, unknown_count = (outcomes.filled(name, 0.0) for name in ("unknown_loss_nats", "num_unknown"))
    return loss - kept_loss - unknown_loss, count - kept_count - unknown_count


def _risen(outcomes: Outcomes) -> Sums:
    """Return by how much the losses of kept words are above those of the same words in the clean text."""
    if not (known := outcomes.known("clean_kept_loss_nats")).all():
        raise IncompleteError(
            f"{int((~known).sum())} of {len(known)} texts have no clean_kept_loss_nats: a line has another number of "
            "words than in the clean text, or they were measured before robench recorded it; then measure them again "
            "with another folder of results (--results)"
        )
    _refuse_lost(outcomes)
    loss, count = _kept(outcomes)
    return loss - outcomes.column("clean_kept_loss_nats"), count


def _exp(means: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return np.exp(means)


def _same(means: NDArray[np.float64]) -> NDArray[np.float64]:
    return means


def _bits(means: NDArray[np.float64]) -> NDArray[np.float64]:
    return means * _OF_BITS


def _per_cent_more(means: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    return 100 * np.expm1(means)


def _estimate(
    readings: Readings,
    sums_of: Callable[[Outcomes], Sums],
    of_mean: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    unit: str = "perplexity",
) -> Estimate:
    """Return a function of the mean loss of a token.

    Raises:
        IncompleteError: there are no outcomes, or no tokens.
        ContractError: there is not exactly one condition, or its outcomes are not a language model's.
    """
    import numpy as np

    outcomes = only_condition(readings)
    losses, counts = sums_of(outcomes)
    if not counts.sum():
        raise IncompleteError("no token is counted, so that there is no mean over them")
    # The exact sum does not depend on the order of the texts.
    value = float(of_mean(np.array(fsum(losses) / fsum(counts))))
    low, high = None, None
    if len(outcomes) >= FEWEST_TEXTS:
        drawn_counts = resampled_sums(outcomes.ids, counts)
        # A resample without any swapped word has no mean.
        drawn = resampled_sums(outcomes.ids, losses)[drawn_counts > 0] / drawn_counts[drawn_counts > 0]
        low, high = percentile_interval(of_mean(drawn))
    return Estimate(value=value, low=low, high=high, num_examples=len(outcomes), unit=unit)


def _contributions(
    readings: Readings,
    sums_of: Callable[[Outcomes], Sums],
    of_mean: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> Contributions:
    import numpy as np

    outcomes = only_condition(readings)
    losses, counts = sums_of(outcomes)

    def statistic(samples: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
        drawn_losses, drawn_counts = samples
        with np.errstate(invalid="ignore", divide="ignore"):
            return of_mean(drawn_losses.sum(-1) / drawn_counts.sum(-1))

    # Both have the same ids and the same draws: a text's loss and number of tokens stay together.
    return Contributions((Sample(outcomes.ids, losses), Sample(outcomes.ids, counts)), statistic)


# Each number, and the losses and counts of texts that it depends on; kept words are as in the clean text.
perplexity = partial(_estimate, sums_of=_all, of_mean=_exp)
token_loss = partial(_estimate, sums_of=_all, of_mean=_same, unit="nats")
bits_per_token = partial(_estimate, sums_of=_all, of_mean=_bits, unit="bits")
word_perplexity = partial(_estimate, sums_of=partial(_of_text, "num_words"), of_mean=_exp)
byte_perplexity = partial(_estimate, sums_of=partial(_of_text, "num_bytes"), of_mean=_exp)
bits_per_byte = partial(_estimate, sums_of=partial(_of_text, "num_bytes"), of_mean=_bits, unit="bits")
kept_perplexity = partial(_estimate, sums_of=_closed_kept, of_mean=_exp)
swapped_perplexity = partial(_estimate, sums_of=_swapped, of_mean=_exp)
kept_damage = partial(_estimate, sums_of=_risen, of_mean=_per_cent_more, unit="%")
perplexity_contributions = partial(_contributions, sums_of=_all, of_mean=_exp)
token_loss_contributions = partial(_contributions, sums_of=_all, of_mean=_same)
bits_per_token_contributions = partial(_contributions, sums_of=_all, of_mean=_bits)
word_perplexity_contributions = partial(_contributions, sums_of=partial(_of_text, "num_words"), of_mean=_exp)
byte_perplexity_contributions = partial(_contributions, sums_of=partial(_of_text, "num_bytes"), of_mean=_exp)
bits_per_byte_contributions = partial(_contributions, sums_of=partial(_of_text, "num_bytes"), of_mean=_bits)
kept_perplexity_contributions = partial(_contributions, sums_of=_closed_kept, of_mean=_exp)
swapped_perplexity_contributions = partial(_contributions, sums_of=_swapped, of_mean=_exp)
kept_damage_contributions = partial(_contributions, sums_of=_risen, of_mean=_per_cent_more)
