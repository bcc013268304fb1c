"""Suggestions for unknown names: the known name that was most probably meant."""

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher

# Below it names have too little in common (difflib's own).
LEAST_LIKENESS = 0.6
# A name that contains the words of the unknown one; the rest tells shorter names from longer ones.
_CONTAINED = 0.7
# Names with the same characters in another order.
_TRANSPOSED = 0.9
# Added to names that are expected at this place.
_EXPECTED = 0.15
# Of more names that contain the same words none was probably meant.
_MOST_CONTAINING = 3
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def closest(name: str, known: Iterable[str], expected: Collection[str] = ()) -> str | None:
    """Return the known name most like an unknown one, or None if none is like it.

    Names are alike by their characters, or because the words of one are words of the other, whole, abbreviated or by
    their initials. Among equally likely names the first one is returned. ``expected`` are those of the known names that
    are missing where the unknown one was found.

    >>> closest("steps", ["step_size", "num_steps"], expected=["num_steps"])
    'num_steps'
    >>> closest("lr", ["loss", "learning_rate"]), closest("x", ["loss"])
    ('learning_rate', None)
    """
    listed = list(known)
    containing = [each for each in listed if _is_in(name, each)]
    if len(containing) > _MOST_CONTAINING:
        containing = [each for each in containing if each in expected]
    best, best_score = None, 0.0
    for each in listed:
        score = likeness(name, each)
        if each in containing:
            score = max(score, _CONTAINED + (1 - _CONTAINED) * len(name) / max(len(each), len(name)))
        if score >= LEAST_LIKENESS:
            score += _EXPECTED * (each in expected)
        if score >= LEAST_LIKENESS and score > best_score:
            best, best_score = each, score
    return best


def likeness(name: str, other: str) -> float:
    """Return the proportion of characters that two names share in the same order, in [0, 1], ignoring case.

    It is at least 0.9 where all of them are the same in another order.

    >>> likeness("pdg", "pgd"), likeness("pdg", "pdpgd")
    (0.9, 0.75)
    """
    # Bounded, since names may be of any length; half a name is likeness enough.
    if not LEAST_LIKENESS <= len(name) / max(len(other), 1) * 2 <= 4 / LEAST_LIKENESS:
        return 0.0
    name, other = name.lower()[:200], other.lower()[:200]
    ratio = SequenceMatcher(None, name, other, autojunk=False).ratio()
    return max(ratio, _TRANSPOSED) if sorted(name) == sorted(other) else ratio


def nearest(name: str, known: Iterable[str], count: int) -> list[str]:
    """Return the known names most like an unknown one, those with its words first; of training seeds their entry.

    >>> nearest("vit", ["digits-vit", "cifar10-vit", "cifar10-vit@1", "rpc", "pit"], 3)
    ['digits-vit', 'cifar10-vit', 'pit']
    """

    def distance(other: str) -> float:
        return -SequenceMatcher(None, name.lower()[:200], other.lower()[:200], autojunk=False).ratio()

    names = {*known}
    entries = sorted(each for each in names if each.partition("@")[0] not in names - {each})
    return sorted(entries, key=lambda each: (not _is_in(name, each), distance(each)))[:count]


def _is_in(name: str, known: str) -> bool:
    """Return whether the words of ``name`` are words of ``known``, their beginnings, or its initials."""
    wanted, words = _words(name), _words(known)
    if not wanted:
        return False
    initials = "".join(word[0] for word in words)
    if len(words) > 1 and "".join(wanted) == initials:
        return True
    if sum(map(len, wanted)) < 3:
        return False
    # Each wanted word begins another of the words, in their order; a plural equals its singular.
    rest = iter(words)
    beginnings = [(each, each.removesuffix("s") if len(each) > 3 else each) for each in wanted]
    return all(any(word.startswith(either) for word in rest) for either in beginnings)


def _words(name: str) -> list[str]:
    return [word for word in _SEPARATORS.split(name.lower()) if word]
