"""Synonyms of English words by WordNet (Fellbaum 1998), read from its files ``index.*`` and ``data.*``.

A synonym of a word shares a synset with it. Nothing tags parts of speech or chooses senses: a word counts as every
noun, verb, adjective and adverb that WordNet lists. Synonyms of its most frequent senses come first (of equal ranks
those of the noun, then the verb, the adjective and the adverb), in the order of the synset. Words are lemmas: an
inflected form, such as ``films``, has no synonyms unless WordNet lists it. Synonyms of several words are left out.

The SHA-256 of all synonyms distinguishes releases: files that differ in glosses or offsets have the same synonyms. The
format is that of the manual pages wndb(5WN) and wninput(5WN).
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from robench.core.errors import MissingDataError

FOLDER_VARIABLE = "ROBENCH_WORDNET"
# Where Debian's package wordnet-base has them.
FOLDER = Path("/usr/share/wordnet")
# SHA-256 of the synonyms of each release.
RELEASES: dict[str, str] = {"wordnet-3.0": "314d7972b29fbaa1e39b11b6f2cf33132a3f58decd30219cac91fcf3f2b799f9"}
_PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
_ONE_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
# Syntactic marker of an adjective: before a noun, in a predicate, or after a noun.
_MARKER = re.compile(r"\((?:a|p|ip)\)$")


def synonyms_of(word: str, release: str) -> tuple[str, ...]:
    """Return the synonyms of a word, those of its most frequent senses first, with its capitals.

    Raises:
        MissingDataError: the files are not there, or not those of the release.
    """
    found = synonyms(release).get(word.lower(), ())
    if word[:1].isupper():
        is_all = len(word) > 1 and word.isupper()
        found = tuple(dict.fromkeys(each.upper() if is_all else each[0].upper() + each[1:] for each in found))
    return found


def synonyms(release: str) -> Mapping[str, tuple[str, ...]]:
    """Return the synonyms of each lower-case word that has some; read once in a process.

    Raises:
        MissingDataError: the files are not there, or not those of the release.
    """
    return _checked(release, RELEASES[release], Path(os.environ.get(FOLDER_VARIABLE) or FOLDER).absolute())


def digest_of(table: Mapping[str, tuple[str, ...]]) -> str:
    """Return the SHA-256 of synonyms, the words in their order."""
    lines = (f"{word} {' '.join(table[word])}\n" for word in sorted(table))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@cache
def _checked(release: str, wanted: str, folder: Path) -> Mapping[str, tuple[str, ...]]:
    try:
        table = read(folder)
    except OSError as error:
        raise MissingDataError(
            f"{release} is not in {folder}, where {error.filename} cannot be read: install Debian's wordnet-base "
            f"(apt-get install wordnet-base), or set {FOLDER_VARIABLE} to a folder with its index.* and data.* files"
        ) from error
    except (ValueError, LookupError) as error:
        raise MissingDataError(f"the files of {folder} are not in WordNet's format: {error!r:.100}") from error
    if (found := digest_of(table)) != wanted:
        raise MissingDataError(
            f"the synonyms in {folder} have SHA-256 {found}, wanted {wanted} of {release}: take the files of that "
            "release, such as those of Debian's wordnet-base 1:3.0"
        )
    return table


def read(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the synonyms of each lower-case word that has some, from WordNet's files in a folder.

    Raises:
        OSError: a file cannot be read; ValueError, LookupError: it is in another format.
    """
    # Synonyms of each word by the rank of the sense and its part of speech.
    senses: dict[str, list[tuple[int, int, tuple[str, ...]]]] = {}
    for place, part in enumerate(_PARTS_OF_SPEECH):
        synsets = {fields[0]: _words(fields) for fields in _lines(folder / f"data.{part}")}
        for fields in _lines(folder / f"index.{part}"):
            offsets = fields[-int(fields[2]) :]
            senses.setdefault(fields[0], []).extend(
                (rank, place, synsets[offset]) for rank, offset in enumerate(offsets)
            )
    table = {}
    for word, ranked in senses.items():
        others = dict.fromkeys(each for _, _, words in sorted(ranked) for each in words if each.lower() != word)
        if others:
            table[word] = tuple(others)
    return table


def _lines(path: Path) -> Iterator[list[str]]:
    """Yield the fields of each line but the licence, which begins with blanks."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.startswith(" "):
                yield line.split()


def _words(fields: list[str]) -> tuple[str, ...]:
    """Return the single words of a synset: its number of words is hexadecimal, and each has an identifier after it."""
    words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
    return tuple(word for each in words if _ONE_WORD.fullmatch(word := _MARKER.sub("", each)))
