"""ListOps: values and distribution against an independent evaluator and generator, and prepared files."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from listops_reference import depth_of, drawn, value_of
from refusals import Refusal, check

from robench.core.errors import ContractError, MissingDataError, UsageError
from robench.datasets import DATASETS, open_dataset
from robench.datasets.listops_impl import generated
from robench.datasets.lra import LISTOPS, LISTOPS_SHORT, ListOps
from robench.datasets.preparing import prepare
from robench.domains.listops import parsed, text_of, tokens_of

# The first expressions of the dataset, in other splits.
FEW = replace(LISTOPS, sizes=(200, 50, 50), num_examples=50, num_training_examples=200, sha256s=())


def texts_of(declared: ListOps, split: str) -> list[tuple[str, int]]:
    rows = generated(declared)[split]
    parts = np.split(rows.flat.astype(np.int64) + 1, rows.ends[:-1])
    return [(text_of(part), int(value)) for part, value in zip(parts, rows.targets, strict=True)]


class TestGenerator:
    def test_values_are_those_of_an_independent_evaluator(self) -> None:
        found = [each for split in FEW.splits for each in texts_of(FEW, split)]
        assert [value for _, value in found] == [value_of(text) for text, _ in found]
        assert len({text for text, _ in found}) == 300

    def test_lengths_depths_and_arguments_are_within_the_bounds(self) -> None:
        lengths = [len(text.split()) for text, _ in texts_of(FEW, "train")]
        assert min(lengths) > 500
        assert max(lengths) < 2000
        assert 900 < np.mean(lengths) < 1150
        assert {depth_of(text) for text, _ in texts_of(FEW, "train")} == {10}

    @pytest.mark.slow
    def test_short_expressions_are_distributed_as_by_another_generator(self) -> None:
        random = Random(0)
        trees = [drawn(random, max_depth=4, max_args=10) for _ in range(20_000)]
        wanted = list({" ".join(tree) for tree in trees if 8 <= len(tree) <= 64})
        found = [text for text, _ in texts_of(LISTOPS_SHORT, "train")]
        assert len(set(found)) == 20_000
        assert {depth_of(text) for text in found} == {2, 3, 4}
        for measure in (lambda text: len(text.split()) // 4, depth_of, value_of):
            assert distance(found[: len(wanted)], wanted, measure) < 0.06
        words = [Counter(word for text in texts for word in text.split()) for texts in (found, wanted)]
        for word, count in words[0].items():
            assert count / words[0].total() == pytest.approx(words[1][word] / words[1].total(), rel=0.06)

    def test_answers_are_as_uneven_as_the_page_says(self) -> None:
        counts = np.bincount([value for _, value in texts_of(LISTOPS_SHORT, "train")]) / 20_000
        assert 0.14 < min(counts[[0, 9]]) <= max(counts[[0, 9]]) < 0.17
        assert 0.07 < min(counts[1:9]) <= max(counts[1:9]) < 0.1


def distance(found: list[str], wanted: list[str], measure: Any) -> float:
    """Largest difference of proportions (total variation) of a measure in two lists."""
    one, other = (Counter(map(measure, texts)) for texts in (found, wanted))
    return sum(abs(one[each] / len(found) - other[each] / len(wanted)) for each in one | other) / 2


def opened(root: Path | None, split: str = "test") -> Any:
    return open_dataset("listops", data_root=root, preprocessing=None, split=split)


def no_expression(text: str, message: str) -> Refusal:
    return Refusal(lambda _: parsed(tokens_of(text)), ContractError, message)


REFUSALS = (
    no_expression("", "0 tokens end within an expression"),
    no_expression("[MIN 1 2", "3 tokens end within an expression"),
    no_expression("1 2", "token 3 at place 1 is not part of an expression"),
    no_expression("[SM ]", "the bracket at place 1 closes no operation of ListOps with arguments"),
    no_expression("]", "the bracket at place 0 closes no operation"),
    Refusal(lambda _: opened(None), MissingDataError, "'robench data prepare listops'"),
    Refusal(opened, MissingDataError, r"dataset 'listops' not found\. Tried:"),
    Refusal(
        lambda root: prepare("listops", root, archive=root / "x.tar", on_progress=print),
        *(UsageError, "dataset 'listops' is generated, and has no archive"),
    ),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.message)
def test_what_is_no_expression_or_no_file_is_refused(refusal: Refusal, tmp_path: Path) -> None:
    check(refusal, tmp_path)


class TestLanguage:
    def test_gaps_have_the_value_of_the_operation_around_them(self) -> None:
        found = parsed(tokens_of("[MAX 2 [MED 1 4 8 2 ] [SM 7 6 ] ]"))
        assert found.value == value_of("[MAX 2 [MED 1 4 8 2 ] [SM 7 6 ] ]") == 3
        assert [value for _, value in found.operations] == [3, 3, 3]
        assert found.around == (0, 0, 1, 1, 1, 1, 1, 0, 2, 2, 2, 0)


class TestFiles:
    @pytest.fixture(autouse=True)
    def _few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DATASETS.builtin, "listops", FEW)  # type: ignore[arg-type]  # a dict

    def test_prepared_splits_are_the_generated_ones_and_are_kept(self, tmp_path: Path) -> None:
        done = prepare("listops", tmp_path, on_progress=print)
        assert (done.num_written, done.num_kept) == (9, 0)
        for split in FEW.splits:
            dataset = opened(tmp_path, split)
            texts = dict(zip(generated(FEW)[split].ids, texts_of(FEW, split), strict=True))
            assert sorted(texts) == sorted(dataset.ids)
            batch = dataset.batch(0, 20)
            assert batch.inputs.shape == (20, 2000)
            for row, example_id in enumerate(batch.ids):
                tokens = [token for token in batch.inputs[row].tolist() if token]
                assert (text_of(tokens), int(batch.targets[row])) == texts[example_id]
        assert prepare("listops", tmp_path, on_progress=print).num_kept == 9

    def test_damaged_files_are_refused_and_prepared_again(self, tmp_path: Path) -> None:
        prepare("listops", tmp_path, on_progress=print)
        path = tmp_path / "listops" / "test-tokens.npy"
        content = path.read_bytes()
        for damaged, message in {
            content[:-100]: "is damaged or no array",
            content[:-1] + b"\x20": r"has the token 33 in example 'listops/test/00049', wanted 1 to 15",
        }.items():
            path.write_bytes(damaged)
            with pytest.raises(MissingDataError, match=rf"test-tokens\.npy {message}.*prepare listops --data-root"):
                opened(tmp_path)
        assert prepare("listops", tmp_path, on_progress=print).num_written == 9
        assert path.read_bytes() == content

    def test_other_expressions_than_declared_are_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        other = replace(FEW, sha256s=("0" * 64,) * 3)
        prepare("listops", tmp_path, on_progress=print)
        monkeypatch.setitem(DATASETS.builtin, "listops", other)  # type: ignore[arg-type]  # a dict
        with pytest.raises(MissingDataError, match=r"has other sequences than the declared ones: .* wanted 0{64}"):
            opened(tmp_path)
        with pytest.raises(MissingDataError, match="generated split 'train' has the SHA-256"):
            prepare("listops", tmp_path, on_progress=print)
