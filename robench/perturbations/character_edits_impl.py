"""Character edits: random words get one random misspelling each, and everything else stays.

Words are those of word swap. Of the words of a line, or of a text, words with an edit are equally likely, and so
is each of a word's different edits. Each line has draws of its own; the same words are drawn for every model.

The edits are those of Pruthi et al. 2019, arXiv:1905.11268: two neighbours swapped, a letter left out, a letter added,
a letter replaced by a neighbour on the keyboard; the first and the last character stay, and words of fewer than four
characters have none. DeepWordBug (Gao et al. 2018, arXiv:1801.04354) has the same four kinds and edits any letter, with
random letters in place of neighbours: searches have those of any letter as ``typos-any-letter``.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache, partial

from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.perturbations.character_edits import CharacterEdits
from robench.perturbations.word_swap_impl import chosen_words, edited_in_units, replaced, uniform, words_of

SHORTEST = 4
# Rows of the US keyboard, each with the place of its first key, in widths of a key.
_ROWS = (("qwertyuiop", 0.0), ("asdfghjkl", 0.25), ("zxcvbnm", 0.75))


def _neighbours() -> Mapping[str, str]:
    """Return the letters beside each letter, row by row and from the left."""
    keys = {
        letter: (row, first + at) for row, (letters, first) in enumerate(_ROWS) for at, letter in enumerate(letters)
    }
    return {
        letter: "".join(
            other
            for other, (other_row, other_at) in keys.items()
            if other != letter and abs(other_row - row) <= 1 and abs(other_at - at) <= 1
        )
        for letter, (row, at) in keys.items()
    }


KEYBOARD = _neighbours()


def neighbours_of(letter: str) -> str:
    """Return the letters beside a letter on the keyboard, in its case; none for anything but the 26 letters.

    >>> neighbours_of("s"), neighbours_of("Q"), neighbours_of("é")
    ('weadzx', 'WA', '')
    """
    found = KEYBOARD.get(letter.lower(), "")
    return found.upper() if letter.isupper() else found


def swaps(word: str) -> tuple[str, ...]:
    """Return the word with two neighbouring inner letters swapped, from the left.

    >>> swaps("union")
    ('uinon', 'unoin')
    """
    places = [place for place in _inner(word) if place + 1 in _inner(word)]
    return _others(word, [f"{word[:at]}{word[at + 1]}{word[at]}{word[at + 2 :]}" for at in places])


def deletions(word: str) -> tuple[str, ...]:
    """Return the word without one of its inner letters, from the left.

    >>> deletions("union")
    ('uion', 'unon', 'unin')
    """
    return _others(word, [word[:at] + word[at + 1 :] for at in _inner(word)])


def slips(word: str) -> tuple[str, ...]:
    """Return the word with one of its inner letters replaced by a neighbour on the keyboard, from the left.

    >>> slips("same")
    ('sqme', 'swme', 'ssme', 'szme', 'saje', 'sake', 'sane')
    """
    return _others(
        word, [f"{word[:at]}{near}{word[at + 1 :]}" for at in _inner(word) for near in neighbours_of(word[at])]
    )


@lru_cache(maxsize=1 << 16)
def typos(word: str, *, any_letter: bool = False) -> tuple[str, ...]:
    """Return all misspellings of a word, in a fixed order whose beginnings have all kinds and places.

    First those of each inner letter, from the left: it changes places with the next, is left out, is replaced by its
    first neighbour on the keyboard, and is followed by that; then each letter's second neighbour likewise, and so on.
    ``any_letter`` has those of all letters, of words of two characters or more.

    >>> typos("same")[:8]
    ('smae', 'sme', 'sqme', 'saqme', 'sae', 'saje', 'samje', 'swme')
    >>> typos("bad", any_letter=True)[:4]
    ('abd', 'ad', 'gad', 'bgad')
    """
    letters = [at for at, each in enumerate(word) if each.isalpha() and len(word) > 1] if any_letter else _inner(word)
    found = []
    for turn in range(max((len(neighbours_of(word[at])) for at in letters), default=0) or bool(letters)):
        for at in letters:
            before, letter, after = word[:at], word[at], word[at + 1 :]
            if turn == 0 and at + 1 in letters:
                found.append(before + after[0] + letter + after[1:])
            if turn == 0:
                found.append(before + after)
            for near in neighbours_of(letter)[turn : turn + 1]:
                found += [before + near + after, before + letter + near + after]
    return _others(word, found)


def _inner(word: str) -> list[int]:
    if len(word) < SHORTEST:
        return []
    return [at for at in range(1, len(word) - 1) if word[at].isalpha()]


def _others(word: str, edited: list[str]) -> tuple[str, ...]:
    """Return the edited words without those equal to the word and without repetition."""
    return tuple(each for each in dict.fromkeys(edited) if each != word)


EDITS: Mapping[str, Callable[[str], tuple[str, ...]]] = {"delete": deletions, "swap": swaps, "typo": slips}


def edited(declaration: CharacterEdits, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts with some words misspelt; the model plays no part."""
    del model
    purposes = ["edited words", "character edits"]
    return edited_in_units(batch, draws, declaration.per, purposes, partial(_edited, declaration))


def _edited(declaration: CharacterEdits, text: str, seed_of_words: int, seed_of_edits: int) -> str:
    spans, edits = [], []
    for start, stop in words_of(text, without_stop_words=declaration.keeps_stop_words):
        if found := EDITS[declaration.edit](text[start:stop]):
            spans.append((start, stop))
            edits.append(found)
    wanted = declaration.rate * len(words_of(text, without_stop_words=False))
    drawn = uniform(seed_of_edits, len(spans))
    chosen = chosen_words(len(spans), wanted, seed_of_words)
    return replaced(text, {spans[at]: edits[at][int(drawn[at] * len(edits[at]))] for at in chosen})
