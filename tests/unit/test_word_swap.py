"""Word swap: which words are replaced and how many, by hand, by counting and over many seeds."""

import json
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robench.core.protocols import Batch
from robench.datasets import DATASETS
from robench.domains.code_points import decoded, encoded_batch, lines_of
from robench.domains.texts_impl import num_changed
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.word_swap import WordSwap
from robench.perturbations.word_swap_impl import STOP_WORDS, words_of

LINE = "The Congress of the U.S. has , since 1789 , re-elected <unk> and *** didn't\n"
TEXT = LINE * 3 + "\n" + " = = Heading = = \n" + LINE
# Made by textattack itself, see "made" in the file.
RECORDED = Path(__file__).parent.parent / "golden" / "textattack-words.json"
HALF = WordSwap(rate=Fraction(1, 2))


def swapped(declaration: WordSwap, texts: list[str], seeds: list[int] | None = None) -> list[str]:
    points = encoded_batch(texts)
    batch = Batch(ids=tuple(map(str, range(len(texts)))), inputs=points, targets=points)
    draws = ExampleDraws(list(range(len(texts))) if seeds is None else seeds)
    return decoded(perturb(declaration, batch, None, draws).inputs)


def test_words_are_those_of_textattack() -> None:
    found = [LINE[start:stop] for start, stop in words_of(LINE, without_stop_words=False)]
    assert found == [
        "The", "Congress", "of", "the", "U", "S", "has", "since", "1789", "re-elected", "unk", "and", "didn't",
    ]  # fmt: skip
    kept = [LINE[start:stop] for start, stop in words_of(LINE, without_stop_words=True)]
    # Stop words in lower case alone.
    assert kept == ["The", "Congress", "U", "S", "since", "1789", "re-elected", "unk"]


def test_words_of_200_lines_equal_textattacks_records() -> None:
    recorded = json.loads(RECORDED.read_text())["lines"]
    assert len(recorded) == 200
    for line in recorded:
        spans = words_of(line["text"], without_stop_words=False)
        assert [line["text"][start:stop] for start, stop in spans] == line["words"], line["text"]


def test_numbers_of_swapped_words_of_200_lines_equal_textattacks() -> None:
    """Its Augmenter swaps max(int(pct * number of words), 1) words; lines without words stay."""
    recorded = json.loads(RECORDED.read_text())["lines"]
    declaration = WordSwap(rate=Fraction("0.10"), count="exact", keeps_stop_words=False, replacement="QQQ")
    found = swapped(declaration, [line["text"] for line in recorded])
    for line, text in zip(recorded, found, strict=True):
        wanted = max(int(0.10 * len(line["words"])), 1) if line["words"] else 0
        assert text.count("QQQ") == wanted, line["text"]


def test_there_are_179_stop_words() -> None:
    assert len(STOP_WORDS) == 179
    assert {"the", "didn't", "ma", "yourselves"} <= STOP_WORDS


@pytest.mark.parametrize(("per", "counts"), [("line", [6, 6, 6, 0, 1, 6]), ("text", None)])
def test_an_exact_count_is_rounded_down_and_at_least_one(per: str, counts: list[int] | None) -> None:
    (found,) = swapped(replace(HALF, count="exact", per=per), [TEXT])
    # 13 words a line, 6.5 of them; the heading has one word, and the empty line none.
    numbers = [line.count("AAA") for line in found.split("\n")[:-1]]
    assert numbers == counts if counts else sum(numbers) == (4 * 13 + 1) // 2


def test_everything_but_the_words_stays() -> None:
    (found,) = swapped(replace(HALF, replacement="Q"), [TEXT])
    # Only a chosen word differs: what is between words is the same, in the same order.
    pattern = re.compile(r"\w[\w'\-*@]*")
    assert pattern.split(found) == pattern.split(TEXT)
    assert found != TEXT
    for kept, word in zip(pattern.findall(found), pattern.findall(TEXT), strict=True):
        assert kept in (word, "Q")
        assert kept == word or word not in STOP_WORDS


@pytest.mark.parametrize("count", ["share", "independent"])
@pytest.mark.parametrize("rate", [Fraction("0.04"), Fraction("0.015"), Fraction("0.3")])
def test_the_share_of_words_is_unbiased_over_2000_seeds(count: str, rate: Fraction) -> None:
    num_words = 13
    (first, *_), seeds = [LINE], list(range(2000))
    found = swapped(replace(HALF, rate=rate, count=count, keeps_stop_words=False), [first] * 2000, seeds)
    numbers = np.array([text.count("AAA") for text in found])
    standard_error = numbers.std(ddof=1) / 2000**0.5
    assert abs(numbers.mean() - float(rate) * num_words) < 4 * standard_error
    if count == "share":
        assert set(numbers.tolist()) <= {int(rate * num_words), int(rate * num_words) + 1}


def test_every_word_is_equally_often_replaced() -> None:
    declaration = replace(HALF, rate=Fraction(3, 13), count="exact", keeps_stop_words=False)
    spans = words_of(LINE, without_stop_words=False)
    longer = [LINE[:start] + "AAA" + LINE[stop:] for start, stop in spans]
    assert len(set(longer)) == 13
    found = swapped(declaration, [LINE] * 4000, list(range(4000)))
    pattern = re.compile(r"\w[\w'\-*@]*")
    often = np.array([[word == "AAA" for word in pattern.findall(text)] for text in found]).mean(0)
    assert np.abs(often - 3 / 13).max() < 4 * (3 / 13 * 10 / 13 / 4000) ** 0.5


@given(st.integers(0, 2**64 - 1), st.integers(1, 4))
def test_a_line_does_not_depend_on_later_lines_or_other_texts(seed: int, num_lines: int) -> None:
    short = LINE * num_lines
    (alone,) = swapped(HALF, [short], [seed])
    longer, _ = swapped(HALF, [short + TEXT, TEXT], [seed, 5])
    assert longer.startswith(alone)


def test_lines_have_draws_of_their_own() -> None:
    (found,) = swapped(HALF, [LINE * 40])
    assert len(set(found.split("\n"))) > 20


@pytest.mark.parametrize("rate", [0, 1])
def test_none_or_all_words_are_replaced(rate: int) -> None:
    (found,) = swapped(replace(HALF, rate=Fraction(rate)), [TEXT])
    if rate == 0:
        assert found == TEXT
    else:
        words = [TEXT[a:b] for a, b in words_of(TEXT, without_stop_words=True)]
        assert found.count("AAA") == len(words)


def test_texts_keep_their_lines_and_words() -> None:
    (found,) = swapped(HALF, [TEXT])
    assert [len(line) for line in lines_of(found)] == [len(line) for line in lines_of(TEXT)]
    pairs = [pair for lines in zip(lines_of(found), lines_of(TEXT), strict=True) for pair in zip(*lines, strict=True)]
    assert ("<AAA>", "<unk>") in pairs
    assert num_changed(found, TEXT) == sum(a != b for a, b in pairs if b != "<unk>")


def test_it_serves_texts_alone() -> None:
    assert HALF.problems_on(DATASETS["sotu"]) == []
    assert HALF.problems_on(DATASETS["digits"]) == [("", "must serve texts, got dataset digits of images")]


def test_other_rates_are_refused() -> None:
    with pytest.raises(ValueError, match="rate must be at most 1, got 3/2"):
        WordSwap(rate=Fraction(3, 2))
    assert torch.equal(encoded_batch(swapped(HALF, ["", "\n"])), encoded_batch(["", "\n"]))
