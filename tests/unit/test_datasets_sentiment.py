"""SST-2, SST-5 and IMDb: what is read of files of their form, and in which order.

What is wanted is written by hand in ``sentiment_files``, or made here by loops of another kind than robench's.
"""

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from conftest import Robench
from hypothesis import given
from hypothesis import strategies as st
from sentiment_files import (
    ARCHIVES,
    REVIEWS,
    SENTENCES,
    SMALL,
    TREES,
    all_files,
    small_imdb,
    small_sst2,
    small_sst2_test,
    small_sst5,
    table,
    write_all,
)

from robench.core.errors import MissingDataError, UsageError
from robench.core.files import read_regular
from robench.core.identity import key_of
from robench.datasets import DATASETS, open_dataset, text_files
from robench.datasets.preparing import unpack
from robench.datasets.published import PUBLISHED_SETS
from robench.datasets.published_texts import LabelledFiles
from robench.datasets.sentiment_impl import MOST_LEVELS, parsed, review_text, unescaped
from robench.datasets.texts import LabelledTexts
from robench.datasets.verification import verify
from robench.declare import find_suite
from robench.domains.code_points import decoded
from robench.testing.dataset import DATASET_CHECKS, Opened
from robench.testing.expectations import DECLARATION_CHECKS

NAMES = ["sst2", "sst2/train", "sst2/test", "sst5", "sst5/dev", "sst5/train", "imdb", "imdb/train"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_all(tmp_path)


def opened(declared: LabelledFiles, root: Path, split: str | None = None) -> LabelledTexts:
    dataset = open_dataset(declared, data_root=root, preprocessing=None, split=split)
    assert isinstance(dataset, LabelledTexts)
    return dataset


def by_id(dataset: LabelledTexts) -> dict[str, tuple[str, int]]:
    return {each: (text, label) for each, text, label in zip(dataset.ids, dataset.texts, dataset.labels, strict=True)}


class TestDeclarations:
    @pytest.mark.parametrize("name", NAMES)
    def test_they_keep_what_every_declaration_promises(self, name: str) -> None:
        for check in DECLARATION_CHECKS:
            check(DATASETS[name])
        assert (DATASETS[name].domain, DATASETS[name].task) == ("texts", "classification")

    def test_other_splits_are_refused(self, root: Path) -> None:
        with pytest.raises(UsageError, match="no split 'train' here, only 'test'"):
            opened(small_sst2_test(), root, "train")
        with pytest.raises(UsageError, match=r"'imdb' has no split 'unsup' here, only 'train' and 'test'$"):
            opened(small_imdb(), root, "unsup")


class TestSentences:
    def test_rows_are_read_without_blanks_at_their_ends_and_without_quoting(self, root: Path) -> None:
        found = by_id(opened(small_sst2(), root))
        wanted = [(sentence.strip(), label) for sentence, label in SENTENCES]
        assert found == {f"SST-2/dev/{place:05d}": each for place, each in enumerate(wanted)}
        assert found["SST-2/dev/00002"][0].startswith('a " what if ? " ( maybe ) about clichés\u00a0of')

    def test_the_training_split_has_ids_of_its_own_that_are_the_same_by_either_name(self, root: Path) -> None:
        (root / "SST-2" / "train.tsv").write_bytes(table((*SENTENCES[:3], ("dull", 0))))
        train = opened(small_sst2(), root, "train")
        named = opened(small_sst2(name="sst2/train", evaluation_split="train"), root)
        assert by_id(train) == by_id(named)
        assert by_id(train)["SST-2/train/00003"] == ("dull", 0)
        assert train.ids == named.ids
        assert (train.identity.name, named.identity.name) == ("sst2", "sst2/train")


class TestTrees:
    def test_sentences_are_the_leaves_and_classes_those_of_the_roots(self, root: Path) -> None:
        assert by_id(opened(small_sst5(), root)) == {
            f"trees/test/{place:05d}": (sentence, label) for place, (_, label, sentence) in enumerate(TREES)
        }

    def test_the_binary_test_split_has_no_neutral_sentences_and_lower_case(self, root: Path) -> None:
        assert by_id(opened(small_sst2_test(), root)) == {
            "trees/test/00000": ("it 's lovely .", 1),
            "trees/test/00001": ("( it 's ) bad", 0),
            "trees/test/00003": ("wow no it is not", 0),
            "trees/test/00004": ("wow", 1),
        }

    @pytest.mark.parametrize("split", ["train", "dev"])
    def test_other_splits_are_read_from_their_files(self, root: Path, split: str) -> None:
        (root / "trees" / f"{split}.txt").write_text("(1 Dull)\n(3 (2 So) (3 good))\n")
        declared = small_sst5(name=f"sst5/{split}", evaluation_split=split, sizes=(2, 2, 6), num_examples=2)
        wanted = {f"trees/{split}/00000": ("Dull", 1), f"trees/{split}/00001": ("So good", 3)}
        assert by_id(opened(declared, root)) == by_id(opened(small_sst5(sizes=(2, 2, 6)), root, split)) == wanted

    def test_escapes_of_the_penn_treebank_are_undone(self) -> None:
        words = {"-LRB-": "(", "-RRB-": ")", "1\\/2": "1/2", "\\*\\*\\*\\*": "****"}
        words |= {word: word for word in ("``", "a\\b", "x-LRB-")}
        assert {word: unescaped(word) for word in words} == words

    @given(
        st.recursive(
            st.tuples(st.integers(0, 4), st.text("ab\u00e9-\u00a0.\\", min_size=1).filter(str.strip)),
            lambda nodes: st.tuples(st.integers(0, 4), st.lists(nodes, min_size=1, max_size=3)),
            max_leaves=12,
        )
    )
    def test_what_a_recursive_writer_writes_is_read(self, tree: Any) -> None:
        def written(node: Any) -> str:
            label, below = node
            return f"({label} {below if isinstance(below, str) else ' '.join(map(written, below))})"

        def leaves(node: Any) -> list[str]:
            return [node[1]] if isinstance(node[1], str) else [word for each in node[1] for word in leaves(each)]

        assert parsed(written(tree)) == (tree[0], leaves(tree))

    @given(st.text("(), 0123a\u00a0", max_size=30))
    def test_any_line_is_a_tree_or_none(self, line: str) -> None:
        if (found := parsed(line)) is not None:
            label, words = found
            assert line.count("(") == line.count(")") >= len(words) > 0
            assert line.startswith(f"({label} ")

    def test_levels_are_bounded_and_no_recursion_is_needed(self) -> None:
        def tower(levels: int) -> str:
            return "(2 " * levels + "(3 up)" + ")" * levels

        assert parsed(tower(MOST_LEVELS - 1)) == (2, ["up"])
        assert parsed(tower(MOST_LEVELS + 1)) is parsed(tower(100_000)) is None


class TestReviews:
    @pytest.mark.parametrize("split", ["train", "test"])
    def test_words_stand_apart_and_breaks_end_lines(self, root: Path, split: str) -> None:
        assert by_id(opened(small_imdb(), root, split)) == {
            f"aclImdb/{split}/{name.removesuffix('.txt')}": (text, int(name.startswith("pos")))
            for name, (_, text) in REVIEWS.items()
        }

    @pytest.mark.parametrize("content", ["", "<br />", " <br /><br /> \n", "\x85"])
    def test_breaks_alone_are_no_text(self, content: str) -> None:
        assert review_text(content) == ""

    def test_other_entries_of_the_folders_are_not_read(self, root: Path) -> None:
        for name in (".DS_Store", "urls_pos.txt", "3_8.txt.orig", "x_8.txt", "\u0663_8.txt"):
            (root / "aclImdb" / "test" / "pos" / name).write_bytes(b"\xff")
        (root / "aclImdb" / "train" / "unsup").mkdir()
        assert len(opened(small_imdb(), root)) == len(REVIEWS)

    def test_each_file_is_opened_once(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Path] = []

        def watched(path: Path, max_bytes: int) -> bytes:
            seen.append(path)
            return read_regular(path, max_bytes)

        monkeypatch.setattr(text_files, "read_regular", watched)
        dataset = opened(small_imdb(), root)
        dataset.batch(0, len(dataset))
        assert sorted(seen) == sorted(root / "aclImdb" / "test" / name for name in REVIEWS)


class TestDatasets:
    @pytest.mark.parametrize("check", DATASET_CHECKS, ids=lambda check: check.__name__)
    @pytest.mark.parametrize("name", SMALL)
    def test_they_keep_what_every_dataset_promises(self, root: Path, name: str, check: Any) -> None:
        declared = SMALL[name]()
        check(Opened(declared, lambda: opened(declared, root)))

    @pytest.mark.parametrize("name", SMALL)
    def test_batches_are_texts_and_classes(self, root: Path, name: str) -> None:
        dataset = opened(SMALL[name](), root)
        batch = dataset.batch(1, 4)
        assert decoded(batch.inputs) == list(dataset.texts[1:4])
        assert batch.targets.tolist() == list(dataset.labels[1:4])
        assert batch.ids == dataset.ids[1:4]

    @pytest.mark.parametrize(
        ("name", "path", "old", "new"),
        [
            ("sst2", "SST-2/dev.tsv", "bleak", "black"),
            ("sst2", "SST-2/dev.tsv", "bons\t1", "bons\t0"),
            ("sst5", "trees/test.txt", "lovely", "lively"),
            ("sst5", "trees/test.txt", "(4 Wow)", "(3 Wow)"),
            ("sst2/test", "trees/test.txt", "(4 Wow)", "(1 Wow)"),
            ("imdb", "aclImdb/test/neg/0_3.txt", "man", "men"),
        ],
    )
    def test_a_changed_text_or_class_changes_the_key(
        self, root: Path, name: str, path: str, old: str, new: str
    ) -> None:
        declared = SMALL[name]()
        before = opened(declared, root).identity
        content = (root / path).read_text()
        assert old in content
        (root / path).write_text(content.replace(old, new))
        after = opened(declared, root).identity
        assert after.num_examples == before.num_examples
        assert key_of(after) != key_of(before)

    def test_what_no_number_depends_on_is_in_no_fingerprint(self, root: Path) -> None:
        before = opened(small_imdb(), root).identity
        path = root / "aclImdb" / "test" / "pos" / "0_7.txt"
        path.write_text("If  you like it ,see\nit.\n")
        assert opened(small_imdb(), root).identity == before


class TestSuites:
    @pytest.mark.parametrize("name", ["sst2", "sst5", "imdb"])
    def test_word_swap_is_that_of_the_embedded_classifiers(self, name: str) -> None:
        own, other = find_suite(f"{name}-swap"), find_suite("sotu-eras-swap")
        assert [(each.name, each.perturbation) for each in own.conditions] == [
            (each.name, each.perturbation) for each in other.conditions
        ]
        assert {each.dataset.name for each in own.conditions} == {name}

    @pytest.mark.parametrize(
        ("name", "wanted"), [("sst2", "dev train test"), ("sst5", "test dev train"), ("imdb", "test train")]
    )
    def test_each_split_has_its_condition(self, name: str, wanted: str) -> None:
        suite = find_suite(f"{name}-splits")
        first, *others = wanted.split()
        datasets = {first: name} | {split: f"{name}/{split}" for split in others}
        assert {each.name: each.dataset.name for each in suite.conditions} == datasets
        assert all(each.dataset.evaluation_split == each.name for each in suite.conditions)
        assert [column.key for column in suite.columns] == [f"{each}/top1_accuracy" for each in wanted.split()]


def archive_of(name: str, folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / ARCHIVES[name]
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in files.items():
                archive.writestr(member, content)
        return path
    with tarfile.open(path, "w:gz") as archive:
        for member, content in files.items():
            info = tarfile.TarInfo(member)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def files_of(name: str) -> dict[str, bytes]:
    return {path: each for path, each in all_files().items() if path.startswith(f"{PUBLISHED_SETS[name].folder}/")}


class TestArchives:
    @pytest.mark.parametrize("name", ARCHIVES)
    def test_an_unpacked_archive_is_a_dataset(self, tmp_path: Path, name: str) -> None:
        declared, published = SMALL[name](), PUBLISHED_SETS[name]
        assert published.archives == (declared.archive,)
        files = files_of(name)
        unpacked = unpack(archive_of(name, tmp_path, files), published, tmp_path / "data")
        assert unpacked.num_written == len(files)
        assert by_id(opened(declared, tmp_path / "data"))

    @pytest.mark.parametrize("name", ARCHIVES)
    def test_the_archive_of_another_dataset_is_refused(self, tmp_path: Path, name: str) -> None:
        other = next(each for each in ARCHIVES if each != name)
        archive = archive_of(other, tmp_path, files_of(other))
        message = f"holds nothing of dataset '{name}': .*Its archives: {ARCHIVES[name]}"
        with pytest.raises(MissingDataError, match=message):
            unpack(archive, PUBLISHED_SETS[name], tmp_path / "data")
        assert not (tmp_path / "data").exists()

    def test_from_the_archive_to_verified_splits_by_commands(
        self, tmp_path: Path, robench: Robench, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(DATASETS.builtin, "imdb", small_imdb())
        archive = archive_of("imdb", tmp_path, files_of("imdb"))
        ended = robench("data", "prepare", "imdb", "--archive", archive, "--data-root", tmp_path)
        assert ended.code == 0
        assert ended.stdout == f"{tmp_path / 'aclImdb'}: {2 * len(REVIEWS)} files written, 0 existed already.\n"
        ended = robench("data", "verify", "imdb", "--data-root", tmp_path)
        assert ended.code == 0
        for line, split in zip(ended.stdout.splitlines(), ("train", "test"), strict=True):
            assert line == f"whole  imdb, {split} split: {len(REVIEWS)} texts; every text was read"


class TestVerification:
    @pytest.mark.parametrize("name", SMALL)
    def test_each_split_has_its_result(self, root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        declared = SMALL[name]()
        monkeypatch.setitem(DATASETS.builtin, name, declared)
        found = list(verify(name, root))
        assert [each.split for each in found] == list(declared.splits)
        assert all(each.is_whole and each.is_decoded and each.num_tokens is None for each in found)
        assert [each.num_texts for each in found] == [declared.num_examples_of(each) for each in declared.splits]
        assert {each.folder for each in found} == {root / str(declared.folder)}

    def test_what_is_absent_and_what_is_wrong_are_told_apart(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(DATASETS.builtin, "sst5", small_sst5())
        (root / "trees" / "train.txt").unlink()
        (root / "trees" / "dev.txt").write_text("(1 Dull)\n")
        train, dev, test = verify("sst5", root)
        assert train.is_absent
        assert [each.kind for each in dev.findings] == ["wrong-file"]
        assert not dev.is_absent
        assert test.is_whole

    def test_the_command_ends_with_4(self, root: Path, robench: Robench) -> None:
        ended = robench("data", "verify", "sst2", "--data-root", root)
        assert ended.code == 4
        assert ended.stdout.splitlines()[0] == "WRONG  sst2, train split: 0 texts; it cannot be used"
        assert "has 4 sentences, wanted 67,349 as published of the train split of sst2" in ended.stdout
        found = json.loads(robench("data", "verify", "sst2", "--data-root", root, "--json").stdout)
        rows = [(each["split"], each["num_texts"], each["is_whole"]) for each in found]
        assert rows == [("train", 0, False), ("dev", 0, False)]
