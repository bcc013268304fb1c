"""Rules of texts: batches of code points, and the number of words that a perturbation changed."""

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from robench.core.declared import PerturbationDeclaration
from robench.core.errors import ContractError
from robench.core.protocols import Model
from robench.core.providers import title_of
from robench.domains.code_points import CONTEXT_END, PADDING, UNKNOWN, decoded, encoded, lines_of, padded
from robench.domains.sequences import Symbols, check_padding

_LARGEST = 0x10FFFF
# Words of an excerpt: whole texts can be long books.
_EXCERPT = re.compile(r"(?:\s*\S+){0,100}")
_SURROGATES = range(0xD800, 0xE000)


class TextRules(Symbols):
    """Rules of texts; see ``domains.base``."""

    name, remedy, dtype = "texts", "take an attack that changes words", torch.int32

    def collate(self, inputs: Sequence[Tensor]) -> Tensor:
        """Return texts (T,) as one batch (B, T), padded on the right."""
        return padded(inputs)

    def excerpt(self, inputs: Tensor) -> Tensor:
        """Return the first 100 words, without context."""
        (text,) = decoded(inputs[None])
        scored = text.rpartition(CONTEXT_END)[2]
        found = _EXCERPT.match(scored)
        return inputs[:0] if found is None else encoded(found[0])

    def valid(self, inputs: Tensor) -> None:
        """Return None: models read texts without their padding."""

    def check_clean(self, inputs: Tensor, dataset: str) -> None:
        """Refuse all but batches of texts (B, T): other numbers than code points, or padding within a text."""
        _check_points(inputs, f"dataset {dataset!r} gave inputs")

    def check_perturbed(
        self, perturbed: Tensor, clean: Tensor, declaration: PerturbationDeclaration, model: Model
    ) -> Mapping[str, Tensor]:
        """Return the number of words that differ (B,), as ``num_changed``."""
        title = title_of("perturbation", declaration, declaration.kind)
        _check_points(perturbed, f"{title} returned inputs")
        if len(perturbed) != len(clean):
            raise ContractError(f"{title} returned {len(perturbed)} texts, wanted {len(clean)}")
        if torch.equal(perturbed, clean):
            return {"num_changed": torch.zeros(len(clean), dtype=torch.int64)}
        pairs = zip(decoded(perturbed), decoded(clean), strict=True)
        return {"num_changed": torch.tensor([num_changed(*pair) for pair in pairs])}


def num_changed(perturbed: str, clean: str) -> int:
    """Return the number of words that differ, place by place in each line; further words and lines count too.

    Replacements of unknown words of the clean text do not count.

    >>> num_changed("We AAA People of", "We the People")
    2
    >>> num_changed("We <AAA> BBB", "We <unk> People")
    1
    """
    lines = [lines_of(text.replace(CONTEXT_END, "")) for text in (perturbed, clean)]
    count = sum(len(line) for each in lines for line in each[min(map(len, lines)) :])
    for one, other in zip(*lines, strict=False):
        count += abs(len(one) - len(other)) + sum(a != b != UNKNOWN for a, b in zip(one, other, strict=False))
    return count


def _check_points(inputs: Tensor, subject: str) -> None:
    if inputs.ndim != 2 or inputs.dtype != torch.int32:
        raise ContractError(
            f"{subject} {tuple(inputs.shape)} of {inputs.dtype}, wanted texts (B, T) as int32 code points"
        )
    is_padding = inputs == PADDING
    check_padding(is_padding, f"{subject} with", "a text")
    is_surrogate = (inputs >= _SURROGATES.start) & (inputs < _SURROGATES.stop)
    if bool(((inputs < 0) & ~is_padding | (inputs > _LARGEST) | is_surrogate).any()):
        raise ContractError(f"{subject} with numbers outside Unicode's code points")
