"""Checks of a user's language model before it is measured: short texts show whether its numbers are losses of words.

A wrong number is as plausible as a right one, so these checks are of what every language model fulfils:

- a text has one loss for each word and each end of a line;
- a word changes the loss in its own place, and none before it;
- the probabilities exp(-loss) of all words in one place sum to 1. Losses in bits, unnormalised scores, and models that
  read the word whose loss they give have other sums. Without a list of its words (``words``) a model is open: its
  probabilities of 1,000 different words sum to at most 1.
"""

from collections.abc import Sequence
from math import log

import torch
from torch import Tensor

from robench.core.errors import ContractError
from robench.core.protocols import Model
from robench.domains.code_points import CONTEXT_END, decoded, encoded_batch
from robench.tasks.language_modeling_impl import END_OF_LINE, RULES, check_lengths, tokens_of

# Lengths of the lines of texts, in words, and places in a line at which words are replaced.
LINES = ((3,), (12,), (2, 5), (24,), (7,))
PLACES = (0, 3, 11)
NUM_CANDIDATES = 1000
# Of a model that scores pieces of words, whose likelihoods robench itself sums.
NUM_OF_PIECES = 32
NUM_ROWS = 32
# In nats, and of a sum of probabilities.
TOLERANCE = 1e-3
# Losses that differ by less are those of one word, such as the unknown one.
SAME = 1e-4


def check_language_model(model: Model, examples: Sequence[Tensor]) -> None:
    """Refuse a model whose outputs are not the losses of a text's words; see the module.

    Examples are texts (T,), whose first words are taken.

    Raises:
        ContractError: the message says what was found and what to return.
    """
    texts = [decoded(each[None])[0] for each in examples]
    found = [token for text in texts for token in tokens_of(text.rpartition(CONTEXT_END)[2]) if token != END_OF_LINE]
    if not found:
        return
    most = max(sum(lines) for lines in LINES)
    # Those of short texts are repeated.
    words = [found[place % len(found)] for place in range(most)]
    texts = [_text(words, lines) for lines in LINES]
    noise = float((_losses(model, texts) - _losses(model, texts)).abs().max())
    # Not of every model: those of robench have no such list.
    known: Sequence[str] = getattr(model, "words", ())
    candidates = [*dict.fromkeys([*known, END_OF_LINE] if known else found)]
    most_candidates = NUM_OF_PIECES if getattr(model, "scores_pieces", False) else NUM_CANDIDATES
    for place in PLACES:
        _check_place(model, words[:place], candidates if known else candidates[:most_candidates], bool(known), noise)


def _text(words: Sequence[str], lines: Sequence[int]) -> str:
    parts, rest = [], list(words)
    for length in lines:
        parts.append(" ".join(rest[:length]))
        del rest[:length]
    # A candidate that is the end of a line comes in the place of the line's last word.
    return "".join(part.rstrip() + END_OF_LINE for part in parts)


def _losses(model: Model, texts: Sequence[str]) -> Tensor:
    """Return the checked losses (B, T) of texts, all under the same seed."""
    inputs = encoded_batch(texts).to(model.device)
    with torch.no_grad():
        losses = model.outputs(inputs, [0] * len(texts))
    check_lengths(losses, texts)
    RULES.check_outputs(losses, len(texts), "")
    return losses.double().cpu()


def _check_place(model: Model, before: Sequence[str], candidates: Sequence[str], is_closed: bool, noise: float) -> None:
    """Replace the last word of a text by each candidate, and refuse losses that no probabilities have."""
    texts = [_text([*before, word], [len(before) + 1]) for word in candidates]
    place, limit = len(before), TOLERANCE + 4 * noise
    starts = range(0, len(texts), NUM_ROWS)
    passes = [_losses(model, texts[at : at + NUM_ROWS])[:, : place + 1] for at in starts]
    losses = torch.cat(passes)
    earlier, here = losses[:, :place], losses[:, place]
    where = f"after {' '.join(before)!r:.60}" if before else "at the beginning of a text"
    if place and (moved := float((earlier - earlier[0]).abs().max())) > limit:
        raise ContractError(
            f"replacing a word changes the losses of words before it by up to {moved:.2g} nats: the model looks ahead; "
            "the loss of a word may depend on that word and those before it alone"
        )
    total = float((-here).exp().sum())
    if float(here.max() - here.min()) <= limit and total > 1 + TOLERANCE:
        raise ContractError(
            f"the number in a word's place is {float(here[0]):.3g} for each of {len(here)} words {where}: it is not "
            "that word's loss; losses may be shifted by one, or summed"
        )
    if not is_closed:
        # Words that the model does not know have the probability of one word.
        total = float((-(here / SAME).round().unique() * SAME).exp().sum())
    if total > 1 + TOLERANCE or (is_closed and total < 1 - TOLERANCE):
        in_bits = float((-here * log(2)).exp().sum())
        hint = "; they are losses in bits, multiply them by log(2)" if abs(in_bits - 1) <= TOLERANCE else ""
        wanted = "1" if is_closed else "at most 1"
        raise ContractError(
            f"the probabilities exp(-loss) of {len(here)} words {where} sum to {total:.4g}, wanted {wanted}{hint}: "
            "return -log_softmax in nats, and predict a word from those before it without reading it"
        )
