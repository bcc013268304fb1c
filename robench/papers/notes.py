"""Notes below a table, grouped by their text and by what they are about."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from robench.core.inert import clipped

# Label of the row, name of the column.
Place = tuple[str, str]


def whereabouts(places: Collection[Place], every: Sequence[Place]) -> str:
    """Return the names of the rows or columns that some of a table's places are; empty if they are all of them."""
    found = [place for place in every if place in places]
    if len(found) == len(every):
        return ""
    rows, columns = (list(dict.fromkeys(each)) for each in zip(*found, strict=True))
    if sum(column in columns for _, column in every) == len(found):
        return _joined(columns)
    by_columns: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        by_columns.setdefault(tuple(column for label, column in found if label == row), []).append(row)
    parts = []
    for of_rows, labels in by_columns.items():
        is_whole = all([column for label, column in every if label == row] == list(of_rows) for row in labels)
        parts.append(_joined(labels) if is_whole else f"{_joined(labels)} in {_joined(of_rows)}")
    return "; ".join(parts)


def grouped(reasons: Iterable[tuple[Place, str]], every: Sequence[Place]) -> list[str]:
    """Return a note for each text, with the places that it is about unless these are all.

    Texts about a single row become one note for each row.
    """
    places: dict[str, list[Place]] = {}
    for place, text in reasons:
        places.setdefault(text, []).append(place)
    single: dict[str, list[str]] = {}
    for text, about in places.items():
        if len({row for row, _ in about}) == 1:
            single.setdefault(about[0][0], []).append(text)
    notes = []
    for text, about in places.items():
        others = single.get(about[0][0], []) if text in single.get(about[0][0], []) else []
        if len(others) < 2:
            where = whereabouts(about, every)
            notes.append(f"{where}: {text}" if where else text)
        elif text == others[0]:
            in_row = (f"{_joined([column for _, column in places[each]])}: {each}" for each in others)
            notes.append(f"{clipped(about[0][0])}: {'. '.join(in_row)}")
    return notes


def _joined(names: Sequence[str]) -> str:
    # A name may have a comma of its own.
    return ("; " if any("," in name for name in names) else ", ").join(map(clipped, names))


def generic(reasons: Mapping[Place, str], models: Mapping[Place, Sequence[str]]) -> dict[Place, str]:
    """Return reasons with ``MODEL`` in place of the model's name, where they are then the same for several models.

    ``models`` are the names of a place's model and, of claims, of its baseline, which becomes ``BASELINE``.
    """
    replaced = {}
    for place, text in reasons.items():
        for name, stand_in in zip(models.get(place, ()), ("MODEL", "BASELINE"), strict=False):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", stand_in, text)
        replaced[place] = text
    originals: dict[str, set[str]] = {}
    for place, text in replaced.items():
        originals.setdefault(text, set()).add(reasons[place])
    return {place: text if len(originals[text]) > 1 else reasons[place] for place, text in replaced.items()}
