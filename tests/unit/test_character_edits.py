"""Character edits: which words are misspelt, how, and how many, by brute force and by counting."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file

from robench.core.protocols import Batch
from robench.datasets import DATASETS
from robench.datasets.sotu_impl import by_address
from robench.domains.code_points import decoded, encoded_batch
from robench.domains.texts_impl import num_changed
from robench.models.word_transformer_impl import word_hash
from robench.perturbations.character_edits import CharacterEdits
from robench.perturbations.character_edits_impl import deletions, neighbours_of, slips, swaps, typos
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

LINE = "The Congress of the U.S. has , since 1789 , re-elected them before Book and 'don't' xxxx\n"
# Those with an edit, stop words in lower case not among them: of "1789" no letter, of "xxxx" no swap.
EDITED = {
    "delete": ["Congress", "since", "re-elected", "Book", "xxxx"],
    "swap": ["Congress", "since", "re-elected", "xxxx"],
    "typo": ["Congress", "since", "re-elected", "Book", "xxxx"],
}
HALF = CharacterEdits(edit="delete", rate=Fraction(1, 2))
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# By hand, from a keyboard.
BESIDE = {"g": "tyfhvb", "a": "qwsz", "p": "ol", "m": "jkn", "q": "wa", "L": "OPK"}


def edited(declaration: CharacterEdits, texts: list[str], seeds: list[int] | None = None) -> list[str]:
    points = encoded_batch(texts)
    batch = Batch(ids=tuple(map(str, range(len(texts)))), inputs=points, targets=points)
    no_model: Any = None
    draws = ExampleDraws(list(range(len(texts))) if seeds is None else seeds)
    return decoded(perturb(declaration, batch, no_model, draws).inputs)


def brute_force(word: str, edit: str, *, any_letter: bool = False) -> set[str]:
    """Every string of letters that is one edit of the inner letters, or of any letter, away."""
    inner = [at for at in range(1, len(word) - 1) if word[at].isalpha()] if len(word) >= 4 else []
    if any_letter:
        inner = [at for at in range(len(word)) if word[at].isalpha()] if len(word) >= 2 else []
    found = set()
    for at in inner:
        if edit == "delete":
            found.add("".join(letter for place, letter in enumerate(word) if place != at))
        if edit == "swap" and at + 1 in inner:
            letters = list(word)
            letters[at], letters[at + 1] = letters[at + 1], letters[at]
            found.add("".join(letters))
        for letter in LETTERS + LETTERS.upper():
            if letter in neighbours_of(word[at]) and edit == "typo":
                found.add(word[:at] + letter + word[at + 1 :])
            if letter in neighbours_of(word[at]) and edit == "add":
                found.add(word[: at + 1] + letter + word[at + 1 :])
    return found - {word}


@pytest.mark.parametrize(
    "word", ["union", "Book", "the", "a", "re-elected", "don't", "naïve", "1789", "", "xxxx", "LAWS"]
)
def test_misspellings_are_all_edits_of_inner_letters_or_of_any(word: str) -> None:
    by_kind = {"delete": deletions(word), "swap": swaps(word), "typo": slips(word)}
    for kind, found in by_kind.items():
        assert set(found) == brute_force(word, kind)
        assert len(set(found)) == len(found)
    assert set(typos(word)) == set.union(*(brute_force(word, kind) for kind in (*by_kind, "add")))
    assert len(set(typos(word))) == len(typos(word))
    assert all(each[:1] == word[:1] and each[-1:] == word[-1:] and each != word for each in typos(word))
    kinds, found = (*by_kind, "add"), typos(word, any_letter=True)
    assert set(found) == set.union(*(brute_force(word, kind, any_letter=True) for kind in kinds))
    assert len(set(found)) == len(found)


def test_neighbours_are_those_of_a_keyboard() -> None:
    assert {letter: neighbours_of(letter) for letter in BESIDE} == BESIDE
    assert all(letter in neighbours_of(other) for letter in LETTERS for other in neighbours_of(letter))
    assert [neighbours_of(each) for each in "é1-"] == ["", "", ""]


def test_the_first_misspellings_have_every_kind_and_place() -> None:
    assert typos("laws") == (
        *("lwas", "lws", "lqws", "laqws", "las", "laqs", "lawqs"),
        *("lwws", "lawws", "laes", "lawes", "lsws", "lasws", "laas", "lawas", "lzws", "lazws", "lass", "lawss"),
    )
    first = set(typos("senate")[:20])
    for kind in ("delete", "swap", "typo", "add"):
        assert first & brute_force("senate", kind)


@pytest.mark.parametrize("edit", EDITED)
def test_a_rate_of_one_edits_each_word_that_can_be_and_nothing_else(edit: Any) -> None:
    declaration = CharacterEdits(edit=edit, rate=Fraction(1))
    (found,) = edited(declaration, [LINE * 3])
    lines = found.splitlines()
    assert len(set(lines)) > 1
    for line in lines:
        changed = [(word, clean) for word, clean in zip(line.split(), LINE.split(), strict=True) if word != clean]
        assert [clean for _, clean in changed] == [word for word in EDITED[edit] if word in [b for _, b in changed]]
        wanted = [word for word in EDITED[edit] if brute_force(word, edit)]
        assert [clean for _, clean in changed] == wanted
        assert all(word in brute_force(clean, edit) for word, clean in changed)
    assert num_changed(found, LINE * 3) == 3 * len([word for word in EDITED[edit] if brute_force(word, edit)])
    # What lies between words stays.
    assert found.count(",") == 6
    assert found.count("'don't'") == 3


def test_stop_words_are_edited_if_they_may_be() -> None:
    (found,) = edited(replace(HALF, rate=Fraction(1), keeps_stop_words=False), ["them before LAWS\n"])
    assert all(a != b for a, b in zip(found.split(), ["them", "before", "LAWS"], strict=True))


@pytest.mark.parametrize("rate", [Fraction("0.1"), Fraction("0.15"), Fraction(0)])
def test_the_share_of_words_is_unbiased(rate: Fraction) -> None:
    found = edited(replace(HALF, rate=rate), [LINE] * 2000)
    numbers = np.array([num_changed(text, LINE) for text in found])
    num_words = 16
    assert set(numbers.tolist()) <= {int(rate * num_words), int(rate * num_words) + 1}
    assert abs(numbers.mean() - float(rate) * num_words) <= 4 * numbers.std() / 2000**0.5


def test_words_and_edits_are_equally_likely() -> None:
    found = edited(replace(HALF, rate=Fraction(1, 3)), ["union union union\n"] * 3000)
    wanted = deletions("union")
    words = [text.split() for text in found]
    assert all(sum(word != "union" for word in each) == 1 for each in words)
    counts = np.array([[sum(each[at] == edit for each in words) for edit in wanted] for at in range(3)])
    assert counts.sum() == 3000
    assert np.abs(counts / 3000 - 1 / 9).max() < 4 * (1 / 9 * 8 / 9 / 3000) ** 0.5


def test_lines_have_draws_of_their_own_and_do_not_see_later_ones() -> None:
    (short,) = edited(HALF, [LINE * 2], [7])
    (longer,) = edited(HALF, [LINE * 40], [7])
    assert longer.startswith(short)
    assert len(set(longer.splitlines())) > 10
    (whole,) = edited(replace(HALF, per="text", rate=Fraction(1, 16)), [LINE * 40], [7])
    assert num_changed(whole, LINE * 40) == 40


def test_every_edit_is_of_the_same_words() -> None:
    """Where all words have all edits, so that models under different edits can be compared."""
    text = "federal union senate\n" * 20
    places = []
    for edit in ("delete", "swap", "typo"):
        given: Any = edit
        (found,) = edited(replace(HALF, edit=given, rate=Fraction(1, 3)), [text], [3])
        places.append([a != b for a, b in zip(found.split(), text.split(), strict=True)])
    assert places[0] == places[1] == places[2]
    assert sum(places[0]) == 20


def test_it_serves_texts_alone() -> None:
    assert HALF.problems_on(DATASETS["sotu"]) == []
    assert HALF.problems_on(DATASETS["digits"]) == [("", "must serve texts, got dataset digits of images")]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One kind of edit; ``tests/slow`` has the others."""
    if "page_edit" in metafunc.fixturenames:
        metafunc.parametrize("page_edit", ["delete"])


def test_shares_of_unknown_words_are_those_of_the_page(page_edit: Any) -> None:
    root = Path(__file__).parents[2]
    known = set(load_file(root / "checkpoints" / "sotu-lm.safetensors")["vocabulary"].tolist())
    texts = [text for _, text in by_address("test")]
    found = edited(CharacterEdits(edit=page_edit, rate=Fraction("0.04")), texts)
    pairs = [pair for one, two in zip(found, texts, strict=True) for pair in zip(one.split(), two.split(), strict=True)]
    changed = [(word, clean) for word, clean in pairs if word != clean]
    after, before = (sum(word_hash(pair[at]) not in known for pair in changed) / len(changed) for at in (0, 1))
    row = f"| `{page_edit}` | {after:.1%} | {before:.1%} |".replace("%", " %")
    assert row in (root / "docs" / "language.md").read_text()


def test_a_rate_above_one_is_refused() -> None:
    with pytest.raises(ValueError, match="rate must be at most 1, got 3/2"):
        replace(HALF, rate=Fraction(3, 2))
