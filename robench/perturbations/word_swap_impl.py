"""Word swap as TextAttack means it: words are replaced in place, and everything else stays.

A word is a run of letters, digits and the signs ``' - _ * @``, without those signs at its ends, as in TextAttack 0.3.11
(``textattack.shared.utils.words_from_text``): ``U.S.`` has two words, ``<unk>`` one. TextAttack counts three further
signs that look like letters or digits, and segments Chinese, which is one word here. Each line has draws of its
own, so that the first lines of a text do not depend on the rest. The released code of RPC-Attention and Elliptical
attention swaps max(int(rate x words), 1) words of each line, headings and targets included (``count: exact``).

Stop words are the 179 of NLTK's English list (Bird, Klein & Loper 2009), which TextAttack leaves unchanged.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.seeds import Stream
from robench.domains.code_points import decoded, encoded_batch
from robench.perturbations.word_swap import WordSwap

STOP_WORDS = frozenset(
    """
    i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself yourselves he him his
    himself she she's her hers herself it it's its itself they them their theirs themselves what which who whom this
    that that'll these those am is are was were be been being have has had having do does did doing a an the and but
    if or because as until while of at by for with about against between into through during before after above
    below to from up down in out on off over under again further then once here there when where why how all any
    both each few more most other some such no nor not only own same so than too very s t can will just don don't
    should should've now d ll m o re ve y ain aren aren't couldn couldn't didn didn't doesn doesn't hadn hadn't hasn
    hasn't haven haven't isn isn't ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn shouldn't wasn
    wasn't weren weren't won won't wouldn wouldn't
    """.split()  # noqa: SIM905  # a list of 179 strings would be two pages
)


_RUN = re.compile(r"[\w'\-*@`\u00d7\u02d7]+")
_NOT_AT_ENDS = "'-_*@"
LINE_END = re.compile(r"(?<=\n)")


def swapped(declaration: WordSwap, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts with some words replaced; the model plays no part."""
    del model
    return edited_in_units(batch, draws, declaration.per, ["word swap"], partial(_swapped, declaration))


def edited_in_units(
    batch: Batch, draws: Draws, per: str, purposes: Sequence[str], edit: Callable[..., str]
) -> Perturbed:
    """Return the texts with each line, or with ``per`` text each text, edited with a seed of its own for each purpose.

    ``edit`` takes a line or text, and one seed a purpose.
    """
    units = [LINE_END.split(text) if per == "line" else [text] for text in decoded(batch.inputs)]
    # Draws of the same unit of all texts at once.
    seeds = [
        [draws.seeds(Stream(purpose=purpose, draw=place)) for purpose in purposes]
        for place in range(max(map(len, units)))
    ]
    texts = [
        "".join(edit(part, *(each[row] for each in seeds[place])) for place, part in enumerate(parts))
        for row, parts in enumerate(units)
    ]
    return Perturbed(inputs=encoded_batch(texts).to(batch.inputs.device))


def words_of(text: str, *, without_stop_words: bool) -> list[tuple[int, int]]:
    """Return the start and stop of each word that may be replaced.

    >>> [("the U.S. <unk> re-elected"[a:b]) for a, b in words_of("the U.S. <unk> re-elected", without_stop_words=True)]
    ['U', 'S', 'unk', 're-elected']
    """
    spans = []
    for match in _RUN.finditer(text):
        start = match.end() - len(match[0].lstrip(_NOT_AT_ENDS))
        stop = start + len(text[start : match.end()].rstrip(_NOT_AT_ENDS))
        if start < stop and not (without_stop_words and text[start:stop] in STOP_WORDS):
            spans.append((start, stop))
    return spans


def _swapped(declaration: WordSwap, text: str, seed: int) -> str:
    spans = words_of(text, without_stop_words=declaration.keeps_stop_words)
    if not spans:
        return text
    num_all = len(words_of(text, without_stop_words=False))
    chosen: Sequence[int]
    if declaration.count == "independent":
        chosen = np.flatnonzero(uniform(seed, len(spans)) < float(declaration.rate)).tolist()
    elif declaration.count == "share":
        chosen = chosen_words(len(spans), declaration.rate * num_all, seed)
    else:
        chosen = _drawn(len(spans), max(int(declaration.rate * num_all), 1), seed)
    return replaced(text, {spans[place]: declaration.replacement for place in chosen})


def replaced(text: str, words: Mapping[tuple[int, int], str]) -> str:
    """Return a text with other words in the place of some, given by their start and stop, ascending."""
    pieces, end = [], 0
    for (start, stop), word in words.items():
        pieces += [text[end:start], word]
        end = stop
    return "".join([*pieces, text[end:]])


def chosen_words(num_words: int, wanted: Fraction, seed: int) -> Sequence[int]:
    """Return the places of ``wanted`` random words, ascending; a fraction is rounded at random, unbiased."""
    whole = int(wanted)
    return _drawn(num_words, whole + int(uniform(seed, num_words + 1)[-1] < float(wanted - whole)), seed)


def _drawn(num_words: int, count: int, seed: int) -> Sequence[int]:
    order: list[int] = np.argsort(uniform(seed, num_words), kind="stable").tolist()
    return sorted(order[:count])


def uniform(seed: int, count: int) -> NDArray[np.float64]:
    """Return values in [0, 1), multiples of 2**-53; of raw words, which no release of numpy draws otherwise."""
    words = np.random.Philox(key=seed).random_raw(count)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
