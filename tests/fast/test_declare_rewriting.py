"""Digests and scores written back into a registry: those scalars change, and not one byte else."""

import os
from pathlib import Path

import pytest
from presence import present

from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.declare import add_seed, read_registry, set_weights

DIGEST = "0f" * 32
BODY = """\
    architecture: {backbone: timm, name: deit}   # not ours
    weights:
      uri: a.safetensors
      sha256: OLD   # of the file beside
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}


    expected: {top5_accuracy: 0.9,   top1_accuracy: 0.50 }  # sha256: OLD
"""
TEXT = f"# Our registry: sha256: OLD\ncheckpoints:\n  first:\n{BODY}\n  second:   # é, two bytes\n{BODY}# The end"


def write(folder: Path, old: str = "null", text: str = TEXT) -> Path:
    path = folder / "registry.yaml"
    path.write_bytes(text.replace("sha256: OLD   #", f"sha256: {old}   #").encode())
    return path


@pytest.mark.parametrize("old", ["null", "~", "", "deadbeef", "'deadbeef'", '"deadbeef"', '"12345678"'])
@pytest.mark.parametrize("name", ["first", "second"])
def test_only_the_digest_of_one_entry_changes(tmp_path: Path, name: str, old: str) -> None:
    path = write(tmp_path, old)
    before = path.read_text()
    set_weights(path, name, DIGEST, {})
    begin = before.index(f"  {name}:")
    line = f"sha256: {old}   #" if old else "sha256:    #"
    assert path.read_text() == before[:begin] + before[begin:].replace(line, after(old), 1)
    assert read_registry(path)[name].weights.sha256 == DIGEST
    other = "second" if name == "first" else "first"
    assert read_registry(path)[other].weights.sha256 != DIGEST


def after(old: str) -> str:
    # An empty value stands right behind its colon, before the spaces.
    return f"sha256: {DIGEST}   #" if old else f"sha256: {DIGEST}    #"


def test_the_score_changes_with_it(tmp_path: Path) -> None:
    path = write(tmp_path)
    before = path.read_text()
    set_weights(path, "second", DIGEST, {"top1_accuracy": 0.9733})
    begin = before.index("  second:")
    changed = before[begin:].replace("sha256: null   #", f"sha256: {DIGEST}   #").replace("0.50 }", "0.9733 }")
    assert path.read_text() == before[:begin] + changed
    assert read_registry(path)["second"].expected == {"top5_accuracy": 0.9, "top1_accuracy": 0.9733}


def test_what_robench_trains_is_no_longer_by_others(tmp_path: Path) -> None:
    declared = "sha256: OLD   # of the file beside\n      by: authors\n      source: their page\n"
    path = write(tmp_path, text=TEXT.replace("sha256: OLD   # of the file beside\n", declared))
    set_weights(path, "first", DIGEST, {})
    found = read_registry(path)
    assert (found["first"].weights.by, found["first"].weights.source) == ("robench", "robench train first")
    assert (found["second"].weights.by, found["second"].weights.source) == ("authors", "their page")


@pytest.mark.parametrize("share", [0.0, 1.0, 1, 1e-05, 1 / 3])
def test_scores_read_back_exactly(tmp_path: Path, share: float) -> None:
    path = write(tmp_path)
    set_weights(path, "first", DIGEST, {"top1_accuracy": share, "top5_accuracy": share})
    assert read_registry(path)["first"].expected == {"top5_accuracy": share, "top1_accuracy": share}


def test_a_score_that_the_entry_does_not_state_is_not_added(tmp_path: Path) -> None:
    path = write(tmp_path)
    set_weights(path, "first", DIGEST, {"robust_accuracy": 0.5})
    assert "robust_accuracy" not in path.read_text()
    assert read_registry(path)["first"].weights.sha256 == DIGEST


def test_the_score_of_an_entry_that_states_none_is_a_new_line(tmp_path: Path) -> None:
    stated = "\n\n\n    expected: {top5_accuracy: 0.9,   top1_accuracy: 0.50 }  # sha256: OLD\n"
    path = write(tmp_path, text=TEXT.replace(stated, "  # the last\n", 1))
    before = path.read_text()
    set_weights(path, "first", DIGEST, {"top1_accuracy": 0.75})
    changed = before.replace("sha256: null   #", f"sha256: {DIGEST}   #", 1)
    assert path.read_text() == changed.replace("# the last", "# the last\n    expected: {top1_accuracy: 0.75}", 1)
    assert read_registry(path)["first"].expected == {"top1_accuracy": 0.75}


def test_an_entry_in_braces_gets_no_new_line(tmp_path: Path) -> None:
    entry = "  third: {like: first, weights: {uri: b.safetensors, sha256: null}}\n"
    path = write(tmp_path, text=TEXT.replace("# The end", entry))
    set_weights(path, "third", DIGEST, {"top1_accuracy": 0.75})
    assert path.read_text().endswith(entry.replace("null", DIGEST))


@pytest.mark.parametrize("digest", ["12345678", "1234e567", "01234567", "9" * 64])
def test_a_digest_that_looks_like_a_number_is_quoted(tmp_path: Path, digest: str) -> None:
    path = write(tmp_path)
    set_weights(path, "first", digest, {})
    assert f'sha256: "{digest}"' in path.read_text()
    assert read_registry(path)["first"].weights.sha256 == digest


def test_doing_it_twice_changes_nothing_more(tmp_path: Path) -> None:
    path = write(tmp_path)
    set_weights(path, "first", DIGEST, {"top1_accuracy": 0.9})
    once = path.read_bytes()
    set_weights(path, "first", DIGEST, {"top1_accuracy": 0.9})
    assert path.read_bytes() == once


def test_windows_line_ends_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    path = write(tmp_path, text="\ufeff" + TEXT.replace("\n", "\r\n"))
    before = path.read_bytes()
    set_weights(path, "second", DIGEST, {})
    head, tail = before[: before.index(b"  second:")], before[before.index(b"  second:") :]
    assert path.read_bytes() == head + tail.replace(b"sha256: null   #", f"sha256: {DIGEST}   #".encode())


BLOCK = TEXT.replace("sha256: OLD   # of the file beside", "sha256: >-\n        deadbeef", 1)


@pytest.mark.parametrize(
    ("text", "name", "digest", "share", "error", "message"),
    [
        *(
            (TEXT, "first", digest, share, DeclarationError, "with the new values: 1 problem")
            for digest, share in (("short", 0.5), ("A" * 64, 0.5), (DIGEST, 97.0), (DIGEST, float("nan")))
        ),
        (BLOCK, "first", DIGEST, 0.5, DeclarationError, "registry.yaml"),
        (TEXT.replace("timm", "tim"), "first", DIGEST, 0.5, DeclarationError, "2 problems"),
        (TEXT, "frist", DIGEST, 0.5, UnknownNameError, r"^unknown checkpoint 'frist'. Did you mean 'first'\?"),
    ],
)
def test_what_would_spoil_the_file_leaves_it_as_it_is(
    tmp_path: Path, text: str, name: str, digest: str, share: float, error: type[Exception], message: str
) -> None:
    path = write(tmp_path, text=text)
    before = path.read_bytes()
    with pytest.raises(error, match=message) as caught:
        set_weights(path, name, digest, {"top1_accuracy": share})
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_a_missing_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        set_weights(tmp_path / "absent.yaml", "first", DIGEST, {})


def test_a_write_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    before = path.read_bytes()

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        set_weights(path, "first", DIGEST, {})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


class TestPlace:
    """Weights that are made anew may lie elsewhere, and in robench's own layout."""

    def test_the_uri_changes_where_one_is_given(self, tmp_path: Path) -> None:
        path = write(tmp_path)
        before = path.read_text()
        set_weights(path, "second", DIGEST, {}, uri="weights/b.safetensors")
        begin = before.index("  second:")
        changed = before[begin:].replace("sha256: null   #", f"sha256: {DIGEST}   #")
        changed = changed.replace("uri: a.safetensors", "uri: weights/b.safetensors")
        assert path.read_text() == before[:begin] + changed

    @pytest.mark.parametrize("uri", ["with space.safetensors", "12345", "é.safetensors", 'a"b', "#a", "a: b", "no"])
    def test_a_uri_is_quoted_where_yaml_would_read_something_else(self, tmp_path: Path, uri: str) -> None:
        path = write(tmp_path)
        set_weights(path, "first", DIGEST, {}, uri=uri)
        assert read_registry(path)["first"].weights.uri == uri

    def test_a_layout_becomes_plain_and_none_is_added(self, tmp_path: Path) -> None:
        path = write(tmp_path, text=TEXT.replace("uri: a.safetensors", "uri: a.pth\n      layout: deit  # theirs", 1))
        set_weights(path, "second", DIGEST, {})
        assert "layout: deit  # theirs" in path.read_text()
        set_weights(path, "first", DIGEST, {})
        assert "layout: plain  # theirs" in path.read_text()
        assert path.read_text().count("layout") == 1


SEEDED = """\
# Kept.
checkpoints:
  first:
    architecture: {backbone: timm, name: deit}
    weights:
      uri: a.safetensors
      sha256: null
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}
    training: {dataset: digits, seed: 4, num_epochs: 1, batch_size: 2, learning_rate: 0.1}
    expected: {top1_accuracy: 0.5,
               top5_accuracy: 0.9}  # flow, two lines

  second:
    architecture: {backbone: timm, name: deit}
    weights: {uri: b.safetensors, sha256: null}
    preprocessing: {kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}"""


class TestSeeds:
    def written(self, folder: Path) -> Path:
        path = folder / "registry.yaml"
        path.write_text(SEEDED)
        return path

    def test_seeds_are_added_below_the_entry_and_nothing_else_changes(self, tmp_path: Path) -> None:
        path = self.written(tmp_path)
        add_seed(path, "first", 0, "a-seed0.safetensors", DIGEST, {"top1_accuracy": 0.75})
        add_seed(path, "first", 7, "a-seed7.safetensors", "12345678", {})
        before, after = SEEDED.split("# flow, two lines\n")
        added = (
            "    seeds:\n"
            "      - {seed: 0, uri: a-seed0.safetensors, expected: {top1_accuracy: 0.75},\n"
            f"         sha256: {DIGEST}}}\n"
            "      - {seed: 7, uri: a-seed7.safetensors, expected: {},\n"
            '         sha256: "12345678"}\n'
        )
        assert path.read_text() == f"{before}# flow, two lines\n{added}{after}"
        found = read_registry(path)
        assert list(found) == ["first", "first@0", "first@7", "second"]
        assert found["first@0"].expected == {"top1_accuracy": 0.75}
        assert found["first@7"].weights.sha256 == "12345678"

    @pytest.mark.parametrize(
        ("by", "of_seed"),
        [("by: authors, source: there", "robench"), ("by: third-party", "robench"), ("by: user", "user")],
    )
    def test_a_seed_that_robench_trains_is_not_by_others(self, tmp_path: Path, by: str, of_seed: str) -> None:
        path = tmp_path / "registry.yaml"
        declared = by.replace(", ", "\n      ")
        path.write_text(SEEDED.replace("sha256: null\n", f"sha256: null\n      {declared}\n", 1))
        add_seed(path, "first", 1, "c.safetensors", DIGEST, {})
        found = read_registry(path)
        assert found["first"].weights.by == by.split(",")[0].removeprefix("by: ")
        assert found["first@1"].weights.by == of_seed

    def test_a_seed_has_all_but_weights_seed_and_scores_of_its_entry(self, tmp_path: Path) -> None:
        path = self.written(tmp_path)
        add_seed(path, "first", 1, "c.safetensors", DIGEST, {})
        own, other = (read_registry(path)[name] for name in ("first", "first@1"))
        assert other.architecture == own.architecture
        assert (own.seed_of, other.seed_of) == (None, "first")
        assert other.training == present(own.training).seeded(1)
        assert present(own.training).seed == 4

    def test_weights_of_a_seed_change_in_its_own_line(self, tmp_path: Path) -> None:
        path = self.written(tmp_path)
        for seed in (0, 1):
            add_seed(path, "first", seed, f"a-{seed}.safetensors", "12345678", {"top1_accuracy": 0.5})
        before = path.read_text()
        set_weights(path, "first@1", DIGEST, {"top1_accuracy": 0.25})
        begin = before.index("seed: 1")
        changed = before[begin:].replace('"12345678"', DIGEST).replace("accuracy: 0.5", "accuracy: 0.25")
        assert path.read_text() == before[:begin] + changed

    def test_an_entry_without_a_last_line_break_gets_its_seeds(self, tmp_path: Path) -> None:
        path = tmp_path / "registry.yaml"
        training = "    training: {dataset: digits, seed: 4, num_epochs: 1, batch_size: 2, learning_rate: 0.1}"
        path.write_text(f"{SEEDED}\n{training}")
        add_seed(path, "second", 0, "d.safetensors", DIGEST, {})
        assert path.read_text().startswith(f"{SEEDED}\n{training}\n    seeds:\n      - {{seed: 0,")

    @pytest.mark.parametrize(
        ("name", "seed", "error", "message"),
        [
            ("first", 4, DeclarationError, "seed 4 is that of training or of another item; each must be another one"),
            ("second", 0, DeclarationError, "seeds: need a training recipe"),
            ("first", -1, DeclarationError, "must be at least 0, got -1"),
            ("third", 0, UnknownNameError, "unknown checkpoint 'third'"),
        ],
    )
    def test_what_would_be_wrong_is_refused_and_the_file_stays(
        self, tmp_path: Path, name: str, seed: int, error: type[Exception], message: str
    ) -> None:
        path = self.written(tmp_path)
        with pytest.raises(error, match=message):
            add_seed(path, name, seed, "d.safetensors", DIGEST, {})
        assert path.read_text() == SEEDED

    def test_two_items_of_one_seed_are_refused_with_the_line(self, tmp_path: Path) -> None:
        path = self.written(tmp_path)
        add_seed(path, "first", 1, "c.safetensors", DIGEST, {})
        path.write_text(
            path.read_text().replace("    seeds:\n", "    seeds:\n      - {seed: 1, uri: d, sha256: null}\n")
        )
        with pytest.raises(DeclarationError, match=r"line 14: checkpoints\.first\.seeds\[1\]\.seed: seed 1 is that"):
            read_registry(path)
