"""The page of examples: what is marked, what counts as fooled, and foreign texts as texts."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import numpy as np
import pytest
from presence import present
from test_pictures import example, shot

from robench.core.errors import UsageError
from robench.exports.pictures import Pictured, Shot
from robench.exports.view import is_fooled, render_view


def text(inputs: object, *, is_right: bool | None = True) -> Shot:
    return Shot(name="swap", inputs=inputs, prediction="1", confidence=0.5, is_right=is_right, linf=None)  # type: ignore[arg-type]


def of(domain: str, clean: object, *perturbed: object) -> Pictured:
    return Pictured(
        domain=domain, example_id="a", target="1", clean=text(clean), shots=tuple(text(each) for each in perturbed)
    )


def shown(page: str) -> list[str]:
    """The texts of a page with their marks, the clean one first."""
    return [unescape(each) for each in re.findall(r'<p class="text"[^>]*>(.*?)</p>', page, re.DOTALL)]


def facts(page: str) -> Any:
    found = present(re.search(r'id="data">(.*?)</script>', page))
    return json.loads(found[1])


@pytest.mark.parametrize(
    ("clean", "perturbed", "marked"),
    [
        ("so it goes on", "so it AAA on", "so it <mark>AAA </mark>on"),
        ("so it goes on", "so it on", "so it <del>goes </del>on"),
        ("so it goes", "so it AAA goes", "so it <mark>AAA </mark>goes"),
        ("so\nit", "so\nat", "so\n<mark>at</mark>"),
        ("so", "so", "so"),
        ("so", "", "<del>so</del>"),
    ],
)
def test_changed_words_are_marked_and_lost_ones_struck_out(clean: str, perturbed: str, marked: str) -> None:
    assert shown(render_view("t", {"m": [of("texts", clean, perturbed)]})) == [clean, marked]


def test_changed_tokens_are_marked_and_both_sequences_of_a_pair_shown() -> None:
    pairs = np.array([[1, 2], [3, 0]])
    page = render_view("t", {"m": [of("tokens", pairs, np.array([[1, 5], [3, 0]]))]})
    assert shown(page) == ["1 2 3 0 ", "1 <mark>5 </mark>3 0 "]


def test_long_texts_are_cut_and_the_rest_is_counted() -> None:
    words = [f"w{number}" for number in range(1000)]
    clean, changed = shown(render_view("t", {"m": [of("texts", " ".join(words), " ".join(["x", *words[1:]]))]}))
    assert clean.endswith("w599  … (400 more words)")
    assert changed.startswith("<mark>x </mark>w1 ")
    assert changed.endswith("w599  … (400 more words)")


def test_channels_of_series_are_lines_above_those_of_the_clean_one() -> None:
    clean = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    page = render_view("t", {"m": [of("series", clean, clean * [1.0, 2.0])]})
    lines = re.findall(r'<polyline class="(\w+)" points="([^"]*)"', page)
    assert [kind for kind, _ in lines] == ["before"] * 2 + ["now"] * 2 + ["before"] * 2 + ["now"] * 2
    # From 0 at the bottom (110) to the largest value, 2, at the top, and 220 wide.
    assert [points for _, points in lines[4:]] == [
        "0.0,110.0 110.0,110.0 220.0,110.0",
        "0.0,55.0 110.0,55.0 220.0,55.0",
        "0.0,110.0 110.0,110.0 220.0,110.0",
        "0.0,0.0 110.0,0.0 220.0,0.0",
    ]


@pytest.mark.parametrize(
    ("clean", "after", "fooled"),
    [(True, False, True), (True, True, False), (False, False, False), (None, None, None), (True, None, None)],
)
def test_fooled_is_what_was_right_and_is_wrong(clean: bool | None, after: bool | None, fooled: bool | None) -> None:
    made = replace(example(), clean=shot("clean", 0.5, is_right=clean))
    assert is_fooled(made, shot("pgd", 0.5, is_right=after)) is fooled


def test_filters_read_a_fact_for_each_model_under_each_condition() -> None:
    strong = replace(example(), shots=tuple(replace(each, is_right=True) for each in example().shots))
    found = facts(render_view("t", {"weak": [example()], "strong": [strong]}))
    assert found["attempts"] == ["weak: pgd@4/255", "weak: fog", "strong: pgd@4/255", "strong: fog"]
    assert [each["fooled"] for each in found["examples"]] == [[True, False, False, False]]


def test_foreign_names_and_texts_are_text() -> None:
    bad = "<img src=x onerror=alert(1)>\u202e'\"</script>"
    made = Pictured(domain="texts", example_id=bad, target=bad, clean=text(bad), shots=(text(f"{bad} {bad}"),))
    page = render_view(bad, {bad: [replace(made, shots=(replace(made.shots[0], name=bad, prediction=bad),))]})
    assert "<img src=x" not in page
    assert "\u202e" not in page
    assert page.count("</script>") == 2
    assert facts(page)["examples"][0]["words"].startswith("<img")


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({}, "there are no examples"),
        ({"a": []}, "there are no examples"),
        ({"a": [example("1")], "b": [example("2")]}, "different examples"),
        ({"a": [example("1")], "b": [example("1"), example("2")]}, "different examples"),
        ({"a": [example("1")], "b": [replace(example("1"), shots=example("1").shots[:1])]}, "different examples"),
    ],
)
def test_what_shares_no_page_is_refused(models: dict[str, Sequence[Pictured]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        render_view("t", models)
