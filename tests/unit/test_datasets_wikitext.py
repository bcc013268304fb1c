"""Token files of WikiText's form: articles, context, what is scored, vocabulary, and what is refused.

Tokens are counted here by a loop over the lines of the file, as the papers' code does, and by nothing of robench's.
"""

import json
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Robench

from robench.attention import ATTENTIONS
from robench.core.errors import MissingDataError, UsageError
from robench.core.identity import key_of
from robench.datasets import DATASETS, open_dataset
from robench.datasets.order import hash_order
from robench.datasets.published_texts import WIKITEXT_2, WIKITEXT_2_RAW, WIKITEXT_103, WIKITEXT_103_RAW, TokenFiles
from robench.datasets.texts import UNKNOWN_BY_FREQUENCY, vocabulary_of
from robench.datasets.verification import verify
from robench.datasets.wikitext_impl import WikiText, article_id, title_of, vocabulary
from robench.domains.code_points import CONTEXT_END, decoded
from robench.models.language_impl import LanguageModel, windows_of
from robench.models.word_transformer import Language
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.word_swap import WordSwap
from robench.tasks.language_modeling_impl import NO_TOKEN, scored_tokens, tokens_of
from robench.testing.dataset import DATASET_CHECKS, Opened
from robench.testing.expectations import DECLARATION_CHECKS

# As the published files: an empty first line, empty lines around headings, more of them after sections without text, a
# blank at both ends of a line, and lines of other forms with the sign.
ARTICLES = (
    " = Du <unk> = \n \n Du <unk> ( Wade — Giles : Tu Fu ) was a poet . \n He wrote 8 @,@ 600 lines . \n \n"
    " = = Life = = \n \n \n = = = Early years = = = \n \n Most of what is known comes from his poems . \n \n \n \n",
    " = Lobster / \u202e\x1b[31m Hömarus = \n \n It = x is no title , as = is none . \n"
    " = Nor is this = \n Two lines . \n \n"
    " = = Description = = \n \n The lobster is large , the lobster is blue . \n \n",
    " = = = \n \n = Third = \n \n The end of the <unk> of the file . \n \n",
)
TEXT = " \n" + ARTICLES[0] + ARTICLES[1] + ARTICLES[2]


def file_tokens(text: str) -> list[str]:
    """Tokens of a file, counted as by Transformer-XL: each line's words, and an end."""
    tokens = []
    for line in text.removesuffix("\n").split("\n"):
        tokens += [*line.strip().split(), "<eos>"]
    return tokens


def shown(tokens: list[str]) -> list[str]:
    return ["<eos>" if token == "\n" else token for token in tokens]


def declared_for(text: str, **fields: Any) -> TokenFiles:
    count = len(file_tokens(text))
    size = len({*file_tokens(text)})
    return replace(WIKITEXT_2, num_tokens=(count,) * 3, vocabulary_size=size, **fields)


def write(root: Path, text: str | bytes, split: str = "test") -> Path:
    path = root / "wikitext-2" / f"wiki.{split}.tokens"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def opened(root: Path, text: str = TEXT, **fields: Any) -> WikiText:
    write(root, text)
    return WikiText(declared_for(text, **fields), root)


def by_place(dataset: WikiText) -> list[str]:
    """The texts in the order of the file."""
    return [dataset.text(dataset.ids.index(each)) for each in sorted(dataset.ids)]


class TestDeclarations:
    @pytest.mark.parametrize("check", DECLARATION_CHECKS, ids=lambda check: check.__name__)
    def test_they_keep_what_every_declaration_promises(self, check: Any) -> None:
        for declared in (WIKITEXT_103, WIKITEXT_2, WIKITEXT_103_RAW, WIKITEXT_2_RAW):
            check(declared)

    def test_a_negative_context_is_refused(self) -> None:
        with pytest.raises(ValueError, match="context_tokens must be at least 0, got -1"):
            replace(WIKITEXT_2, context_tokens=-1)


class TestRaw:
    """Texts before rare words became ``<unk>``, whose numbers of tokens nobody publishes."""

    def write(self, root: Path) -> None:
        path = root / WIKITEXT_2_RAW.folder / "wiki.test.raw"
        path.parent.mkdir()
        path.write_text(TEXT.replace("<unk>", "Fu"))

    def test_articles_are_those_of_the_file_and_their_tokens_are_counted(self, tmp_path: Path) -> None:
        self.write(tmp_path)
        dataset = open_dataset(WIKITEXT_2_RAW, data_root=tmp_path, preprocessing=None)
        assert isinstance(dataset, WikiText)
        assert dataset.ids[0].startswith("wikitext-2-raw/test/")
        texts = [each.rpartition(CONTEXT_END)[2] for each in by_place(dataset)]
        assert " \n" + "".join(texts) == TEXT.replace("<unk>", "Fu")
        *_, found = verify(WIKITEXT_2_RAW.name, tmp_path)
        assert (found.num_texts, found.num_tokens) == (len(texts), len(file_tokens(TEXT)))

    def test_it_has_no_vocabulary(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="'wikitext-2-raw' is raw text without a closed vocabulary"):
            vocabulary(WIKITEXT_2_RAW, tmp_path)


class TestArticles:
    def test_an_article_begins_at_a_title_between_empty_lines(self, tmp_path: Path) -> None:
        found = by_place(opened(tmp_path, context_tokens=0))
        third = ARTICLES[2].index(" = Third")
        # A line of signs alone is none; it belongs to the article before.
        articles = (ARTICLES[0], ARTICLES[1] + ARTICLES[2][:third], ARTICLES[2][third:])
        assert found == [CONTEXT_END + each for each in articles]

    def test_ids_are_stable_unique_inert_and_in_the_order_of_their_hash(self, tmp_path: Path) -> None:
        ids = opened(tmp_path).ids
        names = ("00000-Du-unk", "00001-Lobster-31m-H-marus", "00002-Third")
        assert sorted(ids) == [f"wikitext-2/test/{name}" for name in names]
        assert list(ids) == hash_order(ids)

    @pytest.mark.parametrize(
        ("title", "wanted"),
        [("", "s/00003"), ("東京", "s/00003"), ("../..", "s/00003"), ("a" * 90, f"s/00003-{'a' * 40}")],
    )
    def test_a_title_without_letters_of_ascii_leaves_the_number(self, title: str, wanted: str) -> None:
        assert article_id("s", 3, title) == wanted

    def test_titles_have_one_sign_at_each_side(self) -> None:
        assert (title_of(" = A B = "), title_of("= E = m c = ")) == ("A B", "E = m c")
        others = (" = = A = = ", " = = A = ", " = A = = ", " = = ", " = = = ", "=A=", " A = ", " = A", "")
        assert [line for line in others if title_of(line) is not None] == []

    def test_a_title_beside_text_is_none(self, tmp_path: Path) -> None:
        text = " \n = A = \n \n word \n = B = \n \n = C = \n word \n \n = D = \n"
        assert len(opened(tmp_path, text + " \n end \n")) == 2
        assert [each.split("-")[-1] for each in sorted(opened(tmp_path, text + " \n end \n").ids)] == ["A", "D"]

    def test_what_precedes_the_first_title_belongs_to_its_article(self, tmp_path: Path) -> None:
        text = " \n \n preface \n \n = A = \n \n word \n \n = B = \n \n word \n"
        found = by_place(opened(tmp_path, text, context_tokens=0))
        assert [each.count("=") for each in found] == [2, 2]
        assert found[0].startswith(f"{CONTEXT_END} \n preface")
        # A file without titles is one article.
        assert opened(tmp_path, " \n one \n two \n").ids == ("wikitext-2/test/00000",)


class TestScoredTokens:
    @pytest.mark.parametrize("context_tokens", [0, 1, 5, 384])
    def test_together_they_are_the_tokens_of_the_file_but_the_first(self, tmp_path: Path, context_tokens: int) -> None:
        texts = by_place(opened(tmp_path, context_tokens=context_tokens))
        assert shown([token for text in texts for token in scored_tokens(text)]) == file_tokens(TEXT)[1:]

    def test_a_last_line_without_an_end_has_one_nevertheless(self, tmp_path: Path) -> None:
        for text in (TEXT.removesuffix("\n"), TEXT + " last"):
            texts = by_place(opened(tmp_path, text))
            assert shown([token for each in texts for token in scored_tokens(each)]) == file_tokens(text)[1:]

    @pytest.mark.parametrize("num_tokens", [1, 2, 5, 13, 39])
    def test_the_context_is_what_comes_before(self, tmp_path: Path, num_tokens: int) -> None:
        done: list[str] = []
        for text in by_place(opened(tmp_path, context_tokens=num_tokens)):
            context, _, scored = text.partition(CONTEXT_END)
            assert shown(tokens_of(context)) == done[-num_tokens:]
            done += file_tokens(scored)

    @pytest.mark.parametrize("length", [4, 7])
    def test_windows_are_those_of_the_whole_file(self, tmp_path: Path, length: int) -> None:
        """With stride 1, each token is predicted from what the papers' windows over the file have before it."""
        tokens = file_tokens(TEXT)
        wanted = [tuple(tokens[max(0, place - length) : place]) for place in range(1, len(tokens))]
        found = []
        for text in by_place(opened(tmp_path, context_tokens=length)):
            scored = len(scored_tokens(text))
            # As models read it: after an end of line.
            ids = ["<eos>", *shown(tokens_of(text.replace(CONTEXT_END, "")))]
            for start, first, last in windows_of(len(ids) - 1, scored, length, 1):
                found += [tuple(ids[start : start + place + 1]) for place in range(first, last)]
        assert found == wanted

    def test_losses_are_those_of_a_window_that_slides_over_the_whole_file(self, tmp_path: Path) -> None:
        dataset = opened(tmp_path, context_tokens=8)
        words = vocabulary_of(dataset.articles())
        architecture = Language(
            **{"vocabulary_size": len(words), "dim": 16, "depth": 2, "num_heads": 2, "feedforward": 16},
            **{"context": 8, "stride": 1, "attention": ATTENTIONS["softmax"]()},
        )
        model = LanguageModel(architecture).eval()
        model.set_vocabulary(words)
        ids = torch.tensor([0 if each == "<eos>" else words.index(each) for each in file_tokens(TEXT)])
        batch = dataset.batch(0, 3)
        with torch.no_grad():
            losses = dict(zip(batch.ids, model(batch.inputs), strict=True))
            wanted = model.losses(ids, len(ids) - 1, None)
        found = torch.cat([losses[each][losses[each] != NO_TOKEN] for each in sorted(losses)])
        torch.testing.assert_close(found, wanted)

    def test_words_are_swapped_within_the_lines(self, tmp_path: Path) -> None:
        dataset = opened(tmp_path)
        batch = dataset.batch(0, 3)
        swap: Any = WordSwap(rate=Fraction(1, 2))
        swapped = decoded(swap.implemented()(swap, batch, None, ExampleDraws(range(3))).inputs)
        for before, after in zip(decoded(batch.inputs), swapped, strict=True):
            counts = [[len(line.split()) for line in text.split("\n")] for text in (before, after)]
            assert counts[0] == counts[1]
            assert "AAA" in after
            assert after.count(CONTEXT_END) == 1


class TestDataset:
    @pytest.mark.parametrize("check", DATASET_CHECKS, ids=lambda check: check.__name__)
    def test_it_keeps_what_every_dataset_promises(self, tmp_path: Path, check: Callable[[Opened], None]) -> None:
        check(Opened(declared_for(TEXT), lambda: opened(tmp_path)))

    def test_a_batch_has_the_items_padded(self, tmp_path: Path) -> None:
        dataset = opened(tmp_path)
        batch = dataset.batch(1, 3)
        assert batch.ids == dataset.ids[1:3]
        assert decoded(batch.inputs) == [decoded(dataset[index][0][None])[0] for index in (1, 2)]
        assert torch.equal(batch.inputs, batch.targets)
        assert decoded(dataset[-1][0][None]) == [dataset.text(2)]

    @pytest.mark.parametrize(
        "changed", [TEXT.replace("poet", "port"), TEXT.replace("Third", "Thirg"), TEXT.replace(" \n \n \n", "\n \n \n")]
    )
    def test_a_changed_byte_changes_the_fingerprint(self, tmp_path: Path, changed: str) -> None:
        before, after = opened(tmp_path).identity, opened(tmp_path, changed).identity
        assert len({before.fingerprint, after.fingerprint}) == 2
        assert key_of(before) != key_of(after)

    def test_the_context_and_the_split_are_part_of_the_fingerprint(self, tmp_path: Path) -> None:
        write(tmp_path, TEXT, "valid")
        found = {opened(tmp_path, context_tokens=n).identity.fingerprint for n in (255, 256)}
        found.add(WikiText(declared_for(TEXT), tmp_path, "valid").identity.fingerprint)
        found.add(opened(tmp_path).identity.fingerprint)
        assert len(found) == 4

    def test_the_validation_split_is_a_dataset_of_its_own(self, tmp_path: Path) -> None:
        other = TEXT.replace("Third", "Other")
        write(tmp_path, TEXT)
        write(tmp_path, other, "valid")
        declared = declared_for(other, name="wikitext-2/valid", evaluation_split="valid")
        dataset = open_dataset(declared, data_root=tmp_path, preprocessing=None)
        assert dataset.identity.name == "wikitext-2/valid"
        # An example's id is the same by either name.
        assert list(dataset.ids) == list(WikiText(declared_for(other), tmp_path, "valid").ids)
        assert all(each.startswith(f"{declared.folder}/valid/") for each in dataset.ids)
        assert "Other" in "".join(decoded(dataset.batch(0, 3).inputs))

    def test_articles_come_in_the_order_of_the_file_and_without_context(self, tmp_path: Path) -> None:
        assert "".join(opened(tmp_path).articles()) == TEXT.removeprefix(" \n")

    @pytest.mark.slow
    def test_memory_is_the_file_and_an_index(self, tmp_path: Path) -> None:
        article = " = Title = \n \n" + " the 東京 words of a paragraph . \n" * 300 + " \n"
        text = " \n" + article * 400
        path = write(tmp_path, text)
        size = path.stat().st_size
        assert size > 4_000_000
        declared = declared_for(text)
        del text
        tracemalloc.start()
        try:
            dataset = WikiText(declared, tmp_path)
            held, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert len(dataset) == 400
        assert held < size * 1.1 + 500_000
        # Of one article at a time, all words are there.
        assert peak < size * 1.1 + 2_500_000


class TestVocabulary:
    def test_the_end_comes_first_and_then_words_by_frequency_and_occurrence(self, tmp_path: Path) -> None:
        write(tmp_path, TEXT, "train")
        tokens = [token for token in file_tokens(TEXT) if token != "<eos>"]
        distinct = list(dict.fromkeys(tokens))
        wanted = ["\n", *sorted(distinct, key=lambda word: (-tokens.count(word), distinct.index(word)))]
        found = vocabulary(declared_for(TEXT), tmp_path)
        assert found == wanted
        assert found[1] == "="
        assert found.index("<unk>") == wanted.index("<unk>") > 1

    def test_another_number_of_words_is_refused(self, tmp_path: Path) -> None:
        write(tmp_path, TEXT, "train")
        declared = replace(declared_for(TEXT), vocabulary_size=267_735)
        found = rf"train\.tokens has {len(set(file_tokens(TEXT)))} different"
        with pytest.raises(MissingDataError, match=rf"{found} .*wanted 267,735.*wikitext-2-v1\.zip"):
            vocabulary(declared, tmp_path)

    def test_two_orders_of_one_function(self) -> None:
        texts = ["b a <unk> a\n", "<unk> c <unk>\n"]
        assert vocabulary_of(texts, 4, 1) == ["\n", "<unk>", "a", "b"]
        assert vocabulary_of(texts, 4, 2) == ["\n", "<unk>", "a"]
        assert vocabulary_of(iter(texts), first=UNKNOWN_BY_FREQUENCY) == ["\n", "<unk>", "a", "b", "c"]
        assert vocabulary_of(["a a <unk>"], first=UNKNOWN_BY_FREQUENCY) == ["\n", "a", "<unk>"]


NUM_TOKENS = len(file_tokens(TEXT))
LATIN_1 = TEXT.encode().replace("ö".encode(), b"\xf6")
CUT = TEXT.encode().partition("—".encode())[0] + b"\xe2"
WITH_NUL = TEXT.replace("poet", "po\0et").encode()
WITH_SEPARATOR = TEXT.replace("= Third", "\x1e Third").encode()


# By name: the bytes of the file, and what its message says.
DAMAGED: dict[str, tuple[bytes, str]] = {
    "empty": (b"", r"tokens is empty: it has 0 bytes and no word\. Unpack wikitext-2-v1\.zip again"),
    "blank": (b" \n \n", r"tokens is empty: it has 4 bytes and no word"),
    "Windows line ends": (
        TEXT.replace("\n", "\r\n").encode(),
        r"has Windows line ends \(CR LF\), wanted LF alone\. Unpack .* without conversion of text",
    ),
    "one Windows line end": (TEXT.replace("a poet . \n", "a poet . \r\n").encode(), "wanted LF alone"),
    "not UTF-8": (LATIN_1, rf"is not UTF-8 at byte {LATIN_1.index(0xF6):,}\. Unpack"),
    "cut within a sign": (CUT, rf"is not UTF-8 at byte {len(CUT) - 1:,}\."),
    "NUL": (WITH_NUL, r"has the control character NUL, wanted text\. Unpack"),
    "end of context": (WITH_SEPARATOR, r"has the control character U\+001E, wanted text\. Unpack"),
    "a part of the file": (
        (" \n" + ARTICLES[0]).encode(),
        rf"has {len(file_tokens(ARTICLES[0])) + 1} tokens, ends of lines included, wanted {NUM_TOKENS} as published of "
        r"the test split of wikitext-2\. Unpack",
    ),
    "a line more": ((TEXT + " \n").encode(), rf"has {NUM_TOKENS + 1} tokens, ends of lines .*, wanted {NUM_TOKENS} as"),
}


class TestRefusals:
    @pytest.mark.parametrize("name", DAMAGED)
    def test_a_damaged_file_has_its_message(self, tmp_path: Path, name: str) -> None:
        content, message = DAMAGED[name]
        path = write(tmp_path, content)
        with pytest.raises(MissingDataError, match=message) as caught:
            WikiText(declared_for(TEXT), tmp_path)
        (line,) = caught.value.lines
        assert str(path) in line
        assert "\n" not in line
        assert line.count(". ") <= 2  # the advice, and signs of the path

    def test_published_sizes_are_wanted_of_the_published_datasets(self, tmp_path: Path) -> None:
        write(tmp_path, TEXT)
        with pytest.raises(MissingDataError, match=f"has {NUM_TOKENS} tokens, ends of lines included, wanted 245,569"):
            open_dataset("wikitext-2", data_root=tmp_path, preprocessing=None)

    def test_without_a_folder_the_archive_is_named(self) -> None:
        with pytest.raises(MissingDataError) as caught:
            open_dataset("wikitext-103", data_root=None, preprocessing=None)
        assert str(caught.value) == (
            "dataset 'wikitext-103' needs a folder. Wanted: DIR/wikitext-103/wiki.test.tokens, from the archive "
            "wikitext-103-v1.zip. Give DIR by --data-root DIR or the variable ROBENCH_DATA"
        )


class TestVerification:
    def test_each_split_has_its_result(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DATASETS.builtin, "wikitext-2", declared_for(TEXT))  # type: ignore[arg-type]  # a dict
        write(tmp_path, TEXT, "train")
        write(tmp_path, b"", "valid")
        train, valid, test = verify("wikitext-2", tmp_path)
        assert train.is_whole
        assert (train.split, train.num_texts, train.num_tokens) == ("train", 3, NUM_TOKENS)
        assert [finding.kind for each in (valid, test) for finding in each.findings] == ["wrong-file", "absent"]
        assert not valid.is_absent
        assert test.is_absent
        assert train.folder == tmp_path / "wikitext-2"

    def test_the_command_says_so_and_ends_with_4(self, tmp_path: Path, robench: Robench) -> None:
        write(tmp_path, TEXT)
        ended = robench("data", "verify", "wikitext-2", "--data-root", tmp_path)
        assert ended.code == 4
        lines = ended.stdout.splitlines()
        assert lines[:2] == ["absent wikitext-2, train split", "absent wikitext-2, valid split"]
        assert lines[2] == "WRONG  wikitext-2, test split: 0 texts of 0 tokens; it cannot be used"
        assert f"has {NUM_TOKENS} tokens" in lines[3]
        found = json.loads(robench("data", "verify", "wikitext-2", "--data-root", tmp_path, "--json").stdout)
        rows = [(each["split"], each["num_texts"], each["is_whole"]) for each in found]
        assert rows == [(split, 0, False) for split in ("train", "valid", "test")]
