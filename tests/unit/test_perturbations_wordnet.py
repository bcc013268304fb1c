"""WordNet's files: their format, the order of synonyms, and lists that are absent or of another release."""

from fractions import Fraction
from pathlib import Path

import pytest
from word_search_models import give_wordnet, write_wordnet

from robench.core.errors import MissingDataError
from robench.perturbations import wordnet
from robench.perturbations.gradient_word_swap import GradientWordSwap
from robench.perturbations.greedy_search import wording_of
from robench.perturbations.greedy_word_swap import GreedyWordSwap

SEARCH = GreedyWordSwap(
    ranking="delete", num_queries=9, substitutions="wordnet-3.0", keeps_stop_words=False, most_changed=Fraction(1, 2)
)
DATA = {
    "noun": "00000020 03 n 02 flat 0 apartment 0 001 @ 1 n 0000 | a gloss; flat\n"
    "00000050 03 n 03 flat 0 flat_tyre 0 Puncture 1 000 | gloss\n",
    "adj": "00000020 00 s 0b flat(a) 0 level(p) 0 b 0 c 0 d 0 e 0 f 0 g 0 even-handed 0 A.D. 0 level 1 000 | x\n",
}
INDEX = {
    "noun": "flat n 2 1 @ 2 1 00000020 00000050  \napartment n 1 0 1 0 00000020\n",
    "adj": "flat a 1 2 ! & 1 0 00000020\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_wordnet(tmp_path, {})
    for part, lines in DATA.items():
        (tmp_path / f"data.{part}").write_text(f"  1 A licence.\n{lines}")
        (tmp_path / f"index.{part}").write_text(f"  1 A licence.\n{INDEX[part]}")
    return tmp_path


def test_first_senses_come_first_and_words_alone_are_read(folder: Path) -> None:
    assert wordnet.read(folder) == {
        # First senses of the noun and the adjective; eleven words are 0b. Then the noun's second sense.
        "flat": ("apartment", "level", "b", "c", "d", "e", "f", "g", "even-handed", "Puncture"),
        "apartment": ("flat",),
    }


def test_synonyms_have_the_capitals_of_the_word_and_stop_words_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    give_wordnet(monkeypatch, tmp_path, {"us": ("America",), "it": ("information",), "film": ("movie", "Movie", "pic")})
    words = "film Film FILM films us It it"
    assert dict(zip(wording_of(words, SEARCH).words, wording_of(words, SEARCH).substitutes, strict=True)) == {
        "film": ("movie", "Movie", "pic"), "Film": ("Movie", "Pic"), "FILM": ("MOVIE", "PIC"), "us": ("America",),
    }  # fmt: skip
    assert wording_of(words, SEARCH).most_changed == 3


def test_lists_that_are_absent_or_others_are_refused_before_a_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wordnet.FOLDER_VARIABLE, str(folder))
    wanted, found = wordnet.RELEASES["wordnet-3.0"], wordnet.digest_of(wordnet.read(folder))
    with pytest.raises(MissingDataError, match=rf"in {folder} have SHA-256 {found}, wanted {wanted} of wordnet-3.0"):
        SEARCH.check_model(None, None)
    (folder / "data.adj").write_text("00000020 00 s\n")
    with pytest.raises(MissingDataError, match=rf"{folder} are not in WordNet's format"):
        SEARCH.check_model(None, None)
    (folder / "data.adj").unlink()
    with pytest.raises(MissingDataError, match=rf"{folder}/data.adj cannot be read: install Debian's wordnet-base"):
        SEARCH.check_model(None, None)
    GreedyWordSwap(ranking="delete", num_queries=9).check_model(None, None)


def test_proposed_words_take_no_number_of_substitutes() -> None:
    problems = GradientWordSwap(num_queries=9, proposed="words").contradictions()
    assert problems == []
    with pytest.raises(ValueError, match="num_proposed must be left out with proposed words, got 9"):
        GradientWordSwap(num_queries=9, proposed="words", num_proposed=9)


@pytest.mark.skipif(not (wordnet.FOLDER / "data.noun").is_file(), reason="Debian's wordnet-base is not installed")
def test_debian_has_wordnet_3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(wordnet.FOLDER_VARIABLE, raising=False)
    assert wordnet.synonyms_of("Movie", "wordnet-3.0") == ("Film", "Picture", "Pic", "Flick")
