"""Declaration of language modeling: the probability of every word of a text after those before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from robench.core.outcomes import Outcome
from robench.tasks.base import Broken, Task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from robench.core.columns import Outcomes
    from robench.tasks.base import Scoring


@dataclass(frozen=True, slots=True, kw_only=True)
class LanguageOutcome(Outcome):
    """Outcome of a language model on one text.

    Attributes:
        loss_nats: negative log-likelihood of the scored tokens, summed, in nats.
        num_tokens: number of scored tokens: words, and an end at each line.
        kept_loss_nats: the same of the tokens that are as in the clean text; ``num_kept``: their number. None if a line
            has not as many words as in the clean text, so that tokens cannot be compared.
        clean_kept_loss_nats: loss of the kept tokens where the model reads the clean text; None likewise, and in
            records from before it existed.
        num_words, num_bytes: number of words, without line ends, and of UTF-8 bytes of the scored text; None for models
            of a closed vocabulary of words, whose likelihoods are not those of the text.
        unknown_loss_nats: loss of the tokens that replace an unknown word, ``<unk>``, of the clean text, which are
            neither kept nor swapped; ``num_unknown``: their number. None if there are none.
    """

    loss_nats: float
    num_tokens: int
    kept_loss_nats: float | None = None
    num_kept: int | None = None
    clean_kept_loss_nats: float | None = None
    unknown_loss_nats: float | None = None
    num_unknown: int | None = None
    num_words: int | None = None
    num_bytes: int | None = None


LANGUAGE_MODELING = Task(
    name="language-modeling",
    title="The probability of each word of a text after the words before it",
    outcome=LanguageOutcome,
    implementation="robench.tasks.language_modeling_impl:RULES",
    metric="perplexity",
    compares_clean=True,
    targets_are_inputs=True,
    contradiction="robench.tasks.language_modeling_impl:contradiction",
    check="robench.tasks.language_checks_impl:check_language_model",
    consistency="robench.tasks.language_modeling:inconsistencies",
    # Kept words are known where each line has as many words as in the clean text.
    facts={"num_tokens": "num_kept"},
    hub_types={"texts": "text-generation"},
)

# Losses of tokens are added in float64, in any order.
_ROUNDING = 1e-9


def inconsistencies(outcomes: Outcomes, scoring: Scoring | None) -> Iterator[Broken]:
    """Yield contradictions in the outcomes of a language model; see ``tasks.base.Consistency``."""
    import numpy as np

    del scoring  # Neither data nor perturbation are known to the columns.
    loss, count = outcomes.column("loss_nats"), outcomes.column("num_tokens")
    most = np.abs(loss) * (1 + _ROUNDING) + _ROUNDING
    for name in ("loss_nats", "kept_loss_nats", "clean_kept_loss_nats", "unknown_loss_nats"):
        of_part = outcomes.filled(name, 0.0)
        yield Broken(name, ~(np.isfinite(of_part) & (of_part >= 0)), "must be finite and at least 0")
    yield Broken("num_tokens", count < 1, "is below 1")
    num_kept, num_unknown = outcomes.filled("num_kept", 0), outcomes.filled("num_unknown", 1)
    yield Broken("num_kept", num_kept < 0, "is below 0")
    yield Broken("num_unknown", num_unknown < 1, "is below 1")
    num_unknown = outcomes.filled("num_unknown", 0)
    yield Broken("num_kept", num_kept > count - num_unknown, "is more than its num_tokens without num_unknown")
    kept, unknown = outcomes.filled("kept_loss_nats", 0.0), outcomes.filled("unknown_loss_nats", 0.0)
    yield Broken("kept_loss_nats", kept + unknown > most, "is more than its loss_nats without unknown_loss_nats")
    in_pieces, words = outcomes.known("num_words"), outcomes.filled("num_words", 0)
    yield Broken("num_words", in_pieces != outcomes.known("num_bytes"), "and its num_bytes are not known together")
    yield Broken("num_words", in_pieces & (words >= count), "is not below its num_tokens, which count ends of lines")
    yield Broken("num_bytes", in_pieces & (outcomes.filled("num_bytes", 0) < words), "is below its num_words")
    known = outcomes.known("num_kept")
    for name, other in (("kept_loss_nats", "num_kept"), ("unknown_loss_nats", "num_unknown")):
        yield Broken(other, outcomes.known(name) != outcomes.known(other), f"and its {name} are not known together")
    for name in ("kept_loss_nats", "clean_kept_loss_nats"):
        rows = known & (num_kept == 0) & (outcomes.filled(name, 0.0) > 0)
        yield Broken(name, rows, "is above 0, and its num_kept is 0")
    is_whole = known & (num_kept == count)
    yield Broken(
        "kept_loss_nats", is_whole & (kept < loss - most * _ROUNDING), "differs from its loss_nats, of the same tokens"
    )
    is_same = known & (outcomes.filled("num_changed", 1) == 0) & (num_kept + num_unknown != count)
    yield Broken("num_kept", is_same, "differs from its num_tokens, and no word was changed")
