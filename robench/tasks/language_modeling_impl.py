"""Rules of language modeling: outputs are negative log-likelihoods (B, T), targets are the clean texts' code points.

A row of outputs has a number for each scored token of its text, in order: each word, then the end of each line; and
then ``NO_TOKEN``. Tokens before ``CONTEXT_END`` are not scored.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robench.core.columns import Values
from robench.core.errors import ContractError
from robench.domains.code_points import CONTEXT_END, UNKNOWN, decoded, lines_of
from robench.tasks.base import Loss, Scoring

NO_TOKEN = -1.0
# The word that no text has: words are separated by white space.
END_OF_LINE = "\n"
# First words of texts have little context, and are harder than the average; untrained weights are worse by more.
MOST_EXCESS_NATS = 1.5


class LanguageRules:
    """Rules of language modeling; see ``tasks.base.TaskRules``."""

    losses: Mapping[str, Loss] = {}

    @staticmethod
    def objective(outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean negative log-likelihood of each text's tokens (B,)."""
        is_token = outputs != NO_TOKEN
        total: Tensor = torch.where(is_token, outputs, 0.0).sum(1)
        return total / is_token.sum(1)

    def outputs_of(self, output: object, num_rows: int) -> Tensor:
        """Return the negative log-likelihoods (B, T) that a module returned.

        Raises:
            ContractError: it returned something else.
        """
        if not isinstance(output, torch.Tensor) or output.ndim != 2 or len(output) != num_rows:
            found = str(tuple(output.shape)) if isinstance(output, torch.Tensor) else type(output).__name__
        elif output.is_floating_point():
            return output
        else:
            found = str(output.dtype)
        raise ContractError(
            f"the model returned {found} for {num_rows} texts, wanted the floating-point negative log-likelihoods of "
            "each text's tokens (B, T)"
        )

    def check_outputs(self, outputs: Tensor, num_rows: int, model: str) -> None:
        """Refuse numbers other than negative log-likelihoods.

        Raises:
            ContractError: one is NaN, infinite or negative; a text has no token; or there is not a row for each text.
        """
        if outputs.ndim != 2 or len(outputs) != num_rows:
            raise ContractError(f"model {model!r} returned shape {tuple(outputs.shape)}, wanted ({num_rows}, tokens)")
        is_token = outputs != NO_TOKEN
        wrong = {
            "NaN or infinite": ~outputs.isfinite(),
            "negative, which no negative log-likelihood is": outputs.isfinite() & (outputs < 0) & is_token,
        }
        for what, places in wrong.items():
            if rows := int(places.any(1).sum()):
                raise ContractError(
                    f"losses of {rows} of {num_rows} texts by model {model!r} are {what}; after a text's last loss, "
                    f"pad with {NO_TOKEN:g} (NO_TOKEN)"
                )
        if not bool(is_token.any(1).all()):
            raise ContractError(f"a text has no word to predict, so that model {model!r} has no loss on it")

    def columns(self, outputs: Sequence[Tensor], targets: Tensor, scoring: Scoring) -> Mapping[str, Values]:
        """Return the losses and numbers of tokens, (B,) each, of the first prediction."""
        check_lengths(outputs[0], decoded(targets if scoring.inputs is None else scoring.inputs))
        losses = _array(outputs[0])
        is_token = losses != NO_TOKEN
        columns = {"loss_nats": Values(np.where(is_token, losses, 0.0).sum(1)), "num_tokens": Values(is_token.sum(1))}
        if scoring.scores_pieces:
            texts = [
                each.rpartition(CONTEXT_END)[2]
                for each in decoded(targets if scoring.inputs is None else scoring.inputs)
            ]
            columns["num_words"] = Values(np.array([len(each.split()) for each in texts], np.int64))
            columns["num_bytes"] = Values(np.array([len(each.encode()) for each in texts], np.int64))
        if scoring.inputs is None or (scoring.inputs.shape == targets.shape and torch.equal(scoring.inputs, targets)):
            kept = dict.fromkeys(("kept_loss_nats", "clean_kept_loss_nats"), columns["loss_nats"])
            nothing = np.zeros(len(losses)), np.zeros(len(losses), np.int64)
            return columns | kept | {"num_kept": columns["num_tokens"]} | _of_unknown(*nothing)
        clean_losses = None if scoring.clean_outputs is None else _array(scoring.clean_outputs)
        return {**columns, **_kept(losses, clean_losses, decoded(scoring.inputs), decoded(targets))}

    def check_fit(self, outputs: Tensor, num_classes: int | None, model: str, dataset: str, inputs: Tensor) -> None:
        """Accept every model: its vocabulary is its own."""

    def labels_of(self, outputs: Tensor) -> Any:
        """Refuse: a language model predicts no label. Raises ContractError: always."""
        raise ContractError("language models predict no labels; take the labels of the data")

    def is_fooled(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return (B,) false: a likelihood is neither right nor wrong."""
        return torch.zeros(len(outputs), dtype=torch.bool, device=outputs.device)


RULES = LanguageRules()


def contradiction(outputs: Tensor, targets: Sequence[Tensor], expected: float, dataset: str) -> str:
    """Return whether the loss is far above the expected perplexity's; see ``tasks.base``."""
    del targets  # Outputs are losses already.
    is_token = outputs != NO_TOKEN
    loss = float(outputs[is_token].double().mean())
    if loss <= log(expected) + MOST_EXCESS_NATS:
        return ""
    return (
        f"has a loss of {loss:.2f} nats a token at the beginning of the first {len(outputs)} texts of {dataset!r}, "
        f"where its registry entry expects a perplexity of {expected:g}, which is a loss of {log(expected):.2f}: check "
        "its weights and its vocabulary"
    )


def check_lengths(outputs: Tensor, texts: Sequence[str]) -> None:
    """Refuse outputs (B, T) without exactly one loss for each scored token of a text, followed by ``NO_TOKEN``.

    Raises:
        ContractError: the message says how many there are, and what follows them.
    """
    is_token = (outputs != NO_TOKEN).cpu()
    for row, text in zip(is_token, texts, strict=True):
        wanted, found = len(scored_tokens(text)), int(row.sum())
        if found != wanted:
            raise ContractError(
                f"a text of {wanted} tokens (words, and an end of each line) and {len(text)} characters has {found} "
                f"losses; return one for each token in order, and {NO_TOKEN:g} (NO_TOKEN) after the last"
            )
        if not bool(row[:wanted].all()):
            raise ContractError(
                f"the losses of a text of {wanted} tokens do not begin its row; pad with {NO_TOKEN:g} (NO_TOKEN) on "
                "the right"
            )


def scored_tokens(text: str) -> list[str]:
    r"""Return the tokens of a text that are scored: each word, and ``END_OF_LINE`` after each line.

    >>> scored_tokens("We the\x1e People\nof")
    ['People', '\n', 'of', '\n']
    """
    return tokens_of(text.rpartition(CONTEXT_END)[2])


def tokens_of(text: str) -> list[str]:
    """Return the words of a text, with ``END_OF_LINE`` after each line."""
    return [token for line in lines_of(text) for token in (*line, END_OF_LINE)]


def _array(outputs: Tensor) -> NDArray[np.float64]:
    losses: NDArray[np.float64] = outputs.double().cpu().numpy()
    return losses


def _kept(
    losses: NDArray[np.float64],
    clean_losses: NDArray[np.float64] | None,
    perturbed: Sequence[str],
    clean: Sequence[str],
) -> Mapping[str, Values]:
    """Return the columns of the tokens that are as in the clean text, and of replacements of its unknown words.

    They are missing where a line has another number of words. Losses are (B, T), of perturbed and of clean texts;
    without the latter their column is missing.
    """
    num_rows = len(losses)
    kept, clean_kept, unknown = np.zeros((3, num_rows))
    num_kept, num_unknown = np.zeros((2, num_rows), np.int64)
    absent = np.zeros(num_rows, np.bool_)
    for row, pair in enumerate(zip(perturbed, clean, strict=True)):
        one, other = ([len(line) for line in lines_of(text)] for text in pair)
        if one != other:
            absent[row] = True
            continue
        tokens = [*zip(*map(scored_tokens, pair), strict=True)]
        is_kept = np.array([a == b for a, b in tokens], np.bool_)
        is_unknown = np.array([a != b == UNKNOWN for a, b in tokens], np.bool_)
        of_text = losses[row, : len(tokens)]
        kept[row], num_kept[row] = of_text[is_kept].sum(), is_kept.sum()
        unknown[row], num_unknown[row] = of_text[is_unknown].sum(), is_unknown.sum()
        if clean_losses is not None:
            clean_kept[row] = clean_losses[row, : len(tokens)][is_kept].sum()
    columns = {"kept_loss_nats": Values(kept, absent), "num_kept": Values(num_kept, absent)}
    if clean_losses is not None:
        columns["clean_kept_loss_nats"] = Values(clean_kept, absent)
    return columns | _of_unknown(unknown, num_unknown)


def _of_unknown(losses: NDArray[np.float64], counts: NDArray[np.int64]) -> dict[str, Values]:
    return {"unknown_loss_nats": Values(losses, counts == 0), "num_unknown": Values(counts, counts == 0)}
