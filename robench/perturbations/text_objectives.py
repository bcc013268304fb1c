"""Objectives of searches for words: the score of a text for a classifier, and of a line for a language model.

All candidates of an example are shown under its own seed, in passes without other examples, so that no other example of
a batch affects its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, fsum
from typing import TYPE_CHECKING, NamedTuple

import torch

from robench.core.errors import ContractError
from robench.core.protocols import Perturbed
from robench.domains.code_points import CONTEXT_END, decoded, encoded_batch
from robench.perturbations.greedy_search import Scored
from robench.tasks import task_of
from robench.tasks.language_modeling_impl import NO_TOKEN, scored_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from robench.core.protocols import Batch, Draws, Model
    from robench.tasks.base import TaskRules

    # Text, target, reader and draws of one example.
    Attack = Callable[[str, Tensor, "Reader", Draws], "Reached"]

TEXTS_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Reader:
    """Model that candidates of one example are shown to.

    Attributes:
        seed: the example's seed for predictions; ``device``: where its inputs are.
        rules: rules of the task.
    """

    model: Model
    seed: int
    device: torch.device
    rules: TaskRules

    def rows(self, texts: Sequence[str]) -> Iterator[Tensor]:
        """Yield the outputs (1, ...) of each text.

        Raises:
            ContractError: outputs are not finite, or not one for each text.
        """
        for at in range(0, len(texts), TEXTS_AT_ONCE):
            shown = texts[at : at + TEXTS_AT_ONCE]
            with torch.no_grad():
                outputs = self.model.outputs(encoded_batch(shown).to(self.device), (self.seed,) * len(shown))
            if len(outputs) != len(shown) or not bool(torch.isfinite(outputs).all()):
                raise ContractError(
                    f"the model returned shape {tuple(outputs.shape)}, or values that are not finite, for {len(shown)} "
                    "texts of a search for words, wanted finite outputs for each"
                )
            yield from outputs.split(1)


class Reached(NamedTuple):
    """Text that an attack reached, and how many texts and gradients it took from the model."""

    text: str
    num_queries: int
    num_gradients: int = 0


def each_text(attack: Attack, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that an attack reaches one by one, and the number of texts that each showed to the model."""
    texts, seeds = decoded(batch.inputs), draws.prediction_seeds
    reached: dict[tuple[str, str, int], Reached] = {}
    found = []
    for row, (example_id, text) in enumerate(zip(batch.ids, texts, strict=True)):
        # The last batch repeats its last example.
        key = example_id, text, seeds[row]
        if key not in reached:
            reader = Reader(model, seeds[row], batch.inputs.device, task_of(batch).rules)
            reached[key] = attack(text, batch.targets[row], reader, draws.take([row]))
        found.append(reached[key])
    return Perturbed(
        inputs=encoded_batch([each.text for each in found]).to(batch.inputs.device),
        num_queries=torch.tensor([each.num_queries for each in found]),
        num_gradients=torch.tensor([each.num_gradients for each in found]),
    )


@dataclass(frozen=True, slots=True)
class OfClass:
    """Objective against a classifier: one minus the probability of the label; success is another class."""

    reader: Reader
    label: Tensor

    def __call__(self, texts: Sequence[str]) -> list[Scored]:
        """Return the score of each text."""
        found = []
        for row in self.reader.rows(texts):
            score = _others_share(row[0].double().tolist(), int(self.label))
            found.append(Scored(score, bool(self.reader.rules.is_fooled(row, self.label))))
        return found


@dataclass(frozen=True, slots=True)
class OfLine:
    """Objective against a language model: the mean loss of the words of a line that are as in the clean one.

    The end of the line counts as a kept word.

    Attributes:
        before: text before the line, the context of its words; ``line``: the clean line.
    """

    reader: Reader
    before: str
    line: str

    def __call__(self, texts: Sequence[str]) -> list[Scored]:
        """Return the score of each line in place of the clean one.

        Raises:
            ContractError: the model returned other numbers of losses than a line has words.
        """
        clean = scored_tokens(_ended(self.line))
        found = []
        whole = [f"{self.before}{CONTEXT_END}{_ended(text)}" for text in texts]
        for text, row in zip(texts, self.reader.rows(whole), strict=True):
            tokens = scored_tokens(_ended(text))
            losses = row[row != NO_TOKEN].double().tolist()
            if len(losses) != len(tokens):
                raise ContractError(
                    f"the model returned {len(losses)} losses for a line of {len(tokens)} words and ends"
                )
            # Where a whole word was left out to rank it, the others are the clean line's.
            pairs = zip(tokens, clean if len(clean) == len(tokens) else tokens, strict=True)
            kept = [loss for loss, (token, wanted) in zip(losses, pairs, strict=True) if token == wanted]
            found.append(Scored(fsum(kept) / len(kept), is_success=False))
        return found


def _others_share(logits: Sequence[float], label: int) -> float:
    """Return the softmax's sum over all classes but one, exact for the most confident models too."""
    largest = max(logits)
    weights = [exp(logit - largest) for logit in logits]
    return fsum(weights[:label] + weights[label + 1 :]) / fsum(weights)


def _ended(line: str) -> str:
    return line if line.endswith("\n") else line + "\n"
