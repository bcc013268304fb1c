"""Character edits: random words get one random misspelling each, and everything else stays.

Words are those of word swap. Of the words of a line, or of a text, those that have an edit are equally likely, and so
is each of a word's different edits. Each line has draws of its own; the same words are drawn for every model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from robench.core.protocols import Perturbed
from robench.core.seeds import Stream
from robench.domains.code_points import decoded, encoded_batch
from robench.perturbations.typos import deletions, slips, swaps
from robench.perturbations.word_swap_impl import LINE_END, replaced, share_of, uniform, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from robench.core.protocols import Batch, Draws, Model
    from robench.perturbations.character_edits import CharacterEdits

EDITS: Mapping[str, Callable[[str], tuple[str, ...]]] = {"delete": deletions, "swap": swaps, "typo": slips}


def edited(declaration: CharacterEdits, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts with some words misspelt; the model plays no part."""
    del model
    texts = []
    units = [LINE_END.split(text) if declaration.per == "line" else [text] for text in decoded(batch.inputs)]
    places = range(max(map(len, units)))
    of_words = [draws.seeds(Stream(purpose="edited words", draw=place)) for place in places]
    of_edits = [draws.seeds(Stream(purpose="character edits", draw=place)) for place in places]
    for row, parts in enumerate(units):
        lines = [_edited(part, declaration, of_words[at][row], of_edits[at][row]) for at, part in enumerate(parts)]
        texts.append("".join(lines))
    return Perturbed(inputs=encoded_batch(texts).to(batch.inputs.device))


def _edited(text: str, declaration: CharacterEdits, seed_of_words: int, seed_of_edits: int) -> str:
    spans, edits = [], []
    for start, stop in words_of(text, without_stop_words=declaration.keeps_stop_words):
        if found := EDITS[declaration.edit](text[start:stop]):
            spans.append((start, stop))
            edits.append(found)
    wanted = declaration.rate * len(words_of(text, without_stop_words=False))
    drawn = uniform(seed_of_edits, len(spans))
    chosen = share_of(len(spans), wanted, seed_of_words)
    return replaced(text, {spans[at]: edits[at][int(drawn[at] * len(edits[at]))] for at in chosen})
