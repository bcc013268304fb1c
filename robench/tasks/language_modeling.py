"""Declaration of language modeling: the probability of every word of a text after those before it."""

from dataclasses import dataclass

from robench.core.outcomes import Outcome
from robench.tasks.base import Task


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


LANGUAGE_MODELING = Task(
    name="language-modeling",
    title="The probability of each word of a text after the words before it",
    outcome=LanguageOutcome,
    implementation="robench.tasks.language_modeling_impl:RULES",
    metric="perplexity",
    compares_clean=True,
    contradiction="robench.tasks.language_modeling_impl:contradiction",
    check="robench.tasks.language_checks_impl:check_language_model",
)
