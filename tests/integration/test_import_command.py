"""``robench import``: an authors' file becomes weights that robench runs, and a hostile one an error of one line."""

import builtins
import hashlib
import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import authors_language_models as authors
import pytest
import torch
from authors_language_models import CONTEXT, VOCABULARY, made, save_whole
from conftest import Ended, Robench
from safetensors.torch import load_file
from torch import nn

from robench.datasets import DATASETS
from robench.datasets.published_texts import WIKITEXT_2
from robench.declare import find_checkpoints
from robench.domains.code_points import encoded_batch
from robench.models.loading import load_model
from robench.tasks.language_modeling_impl import NO_TOKEN

# From the most frequent on; the end of a line comes first in a vocabulary, and the signs and word of the title last.
WORDS = ["of", "the", "<unk>", "lobster", *(f"word{number}" for number in range(23))]
ORDER = ["\n", *WORDS, "=", "Title"]
LINES = [" ".join(WORDS)] * 3 + [" ".join(WORDS[:number]) for number in range(1, len(WORDS))]
TEXT = "".join([" \n = Title = \n \n", *(f" {line} \n" for line in LINES), " \n"])
ENTRY = """\
checkpoints:
  authors-lm:
    task: language-modeling
    architecture:
      {{backbone: language, vocabulary_size: 30, cutoffs: [8, 15, 22], depth: 2, dim: 8, num_heads: 2, feedforward: 12,
       context: 6, norm: post, activation: relu, positions: backward{more}}}
    weights: {{uri: weights.safetensors, sha256: null}}
    preprocessing: {{kind: none, inputs: texts}}
    trained_on: wikitext-2
"""


class Folder:
    """A folder with a registry, texts, and a file of an author, and the command on it."""

    def __init__(self, path: Path, robench: Robench) -> None:
        self.path, self.robench = path, robench
        self.file, self.output = path / "model.pt", path / "weights.safetensors"
        self.registry, self.texts = path / "registry.yaml", path / "texts of mine"
        self.registry.write_text(ENTRY.format(more=""))
        self.texts.mkdir()
        (self.texts / "wiki.train.tokens").write_text(TEXT)

    def run(self, *others: object, model: str = "authors-lm") -> Ended:
        options = ("--model", model, "--registry", self.registry, "--vocabulary", self.texts, "--output", self.output)
        return self.robench("import", self.file, *options, *others)

    def refused(self, code: int = 4, model: str = "authors-lm") -> str:
        """Run the command, which must end with one line, and leave the output and everything else as they were."""
        before = {each: each.read_bytes() for each in self.path.rglob("*") if each.is_file()}
        ended = self.run(model=model)
        assert ended.stdout == ""
        (line,) = ended.stderr.splitlines()
        assert line.startswith("Error: ")
        assert ended.code == code, line
        assert {each: each.read_bytes() for each in self.path.rglob("*") if each.is_file()} == before
        return line


@pytest.fixture
def folder(tmp_path: Path, robench: Robench, monkeypatch: pytest.MonkeyPatch) -> Folder:
    num_tokens = sum(len(line.split()) + 1 for line in TEXT.split("\n")[:-1])
    declared = replace(WIKITEXT_2, num_tokens=(num_tokens,) * 3, vocabulary_size=VOCABULARY)
    monkeypatch.setitem(DATASETS.builtin, "wikitext-2", declared)  # type: ignore[arg-type]  # a dict
    return Folder(tmp_path, robench)


class TestConversion:
    @torch.no_grad()
    def test_robench_has_the_losses_of_the_authors(self, folder: Folder) -> None:
        model = made()
        save_whole(model, folder.file)
        assert folder.run().code == 0
        (checkpoint,) = find_checkpoints(["authors-lm"], [folder.registry])
        text = "of lobster word3 the = Title word22 elsewhere word9 lobster\nword1 of of word20\n"
        (losses,) = load_model(checkpoint).outputs(encoded_batch([text]))
        tokens = [[*line.split(), "\n"] for line in text.split("\n")[:-1]]
        words = ["\n", *(word if word in ORDER else "<unk>" for line in tokens for word in line)]
        wanted = model.sliding_losses(torch.tensor([ORDER.index(word) for word in words]))
        assert len(wanted) > 2 * CONTEXT
        torch.testing.assert_close(losses[losses != NO_TOKEN], wanted.float(), rtol=1e-4, atol=1e-4)

    def test_the_line_has_the_digest_of_the_file(self, folder: Folder) -> None:
        save_whole(made(), folder.file)
        ended = folder.run()
        digest = hashlib.sha256(folder.output.read_bytes()).hexdigest()
        (line,) = ended.stdout.splitlines()
        assert line.startswith("authors-lm: 29 tensors, ")
        assert line.endswith(f"sha256 {digest}, {folder.output}")
        first, *others = ended.stderr.splitlines()
        assert first.startswith("Classes in the file (none was run): mem_transformer.AdaptiveEmbedding, ")
        assert others == ["Left out: pos_emb.inv_freq, as positions are computed"]

    def test_json_says_the_same(self, folder: Folder) -> None:
        save_whole(made(), folder.file)
        ended = folder.run("--json")
        found = json.loads(ended.stdout)
        assert ended.stderr == ""
        tensors = load_file(folder.output)
        assert found.pop("classes")[-1] == "mem_transformer.ProjectedAdaptiveLogSoftmax"
        assert found == {
            "model": "authors-lm",
            "file": str(folder.file),
            "weights": str(folder.output),
            "sha256": hashlib.sha256(folder.output.read_bytes()).hexdigest(),
            "num_tensors": len(tensors),
            "num_numbers": sum(each.numel() for each in tensors.values()),
            "left_out": {"pos_emb.inv_freq": "positions are computed"},
        }

    def test_what_lies_beside_the_tensors_does_not_matter(self, folder: Folder) -> None:
        model = made()
        save_whole(model, folder.file)
        folder.run()
        wanted = folder.output.read_bytes()
        model.options = {"a": Trap(print, "x"), "b": [pickle.Unpickler, torch.float32, torch.device("cpu"), {1, 2}]}  # type: ignore[assignment]
        save_whole(model, folder.file)
        assert folder.run().code == 0
        assert folder.output.read_bytes() == wanted


class Trap:
    """An object whose reading runs a function."""

    def __init__(self, function: Callable[..., object], *arguments: object, state: object = None) -> None:
        self.reduced = (function, arguments, state)

    def __reduce__(self) -> Any:
        return self.reduced


class Trapped(nn.ReLU):
    __module__ = "mem_transformer"

    def __setstate__(self, state: dict[str, Any]) -> None:
        with open(state["marker"], "w"):  # noqa: PTH123
            super().__setstate__(state)


def traps(marker: Path) -> dict[str, Callable[[], object]]:
    """Contents that make a file when they are read by pickle."""
    command = f"touch '{marker}'"
    model = made()

    def with_attribute(value: object) -> nn.Module:
        model.extra = value  # type: ignore[assignment]
        return model

    def with_state() -> nn.Module:
        trapped = Trapped()
        trapped.marker = str(marker)  # type: ignore[assignment]
        model.add_module("extra", trapped)
        return model

    def among(parts: dict[str, Any]) -> nn.Module:
        parts["extra"] = Trap(os.system, command)
        return model

    return {
        "system": lambda: Trap(os.system, command),
        "eval": lambda: Trap(builtins.eval, f"__import__('os').system({command!r})"),
        "in a list": lambda: [Trap(os.system, command)],
        "in an attribute": lambda: with_attribute([{"a": Trap(os.system, command)}]),
        "as an attribute's state": lambda: with_attribute(Trap(list, state={"a": Trap(os.system, command)})),
        "in a hook": lambda: with_attribute({1: Trap(exec, f"import os; os.system({command!r})")}),
        "as a parameter": lambda: among(model._parameters),
        "as a module": lambda: among(model._modules),
        "in a state": with_state,
    }


class TestHostileFiles:
    @pytest.mark.parametrize("name", traps(None))  # type: ignore[arg-type]  # names alone
    def test_nothing_of_a_file_is_run(self, folder: Folder, tmp_path: Path, name: str) -> None:
        marker = tmp_path / "texts of mine" / "marker"
        content = traps(marker)[name]()
        if isinstance(content, nn.Module):
            save_whole(content, folder.file)
        else:
            torch.save(content, folder.file)
        ended = folder.run()
        assert not marker.exists()
        # An attribute that no tensor needs is passed over, unless it is of a module that torch blocks.
        is_passed_over = name in ("in a hook", "in a state")
        assert ended.code == (0 if is_passed_over else 4), ended.stderr
        assert len(ended.stderr.splitlines()) == (2 if is_passed_over else 1)
        assert folder.output.exists() == is_passed_over
        # The trap is a trap.
        assert is_sprung(folder.file, marker)

    @pytest.mark.parametrize(
        ("content", "found"),
        [
            (b"cposix\nsystem\n(X\x04\x00\x00\x00truetR.", "contains posix.system beside its tensors, which is code"),
            (b"cbuiltins\neval\n.", "its content is of type type and no whole module"),
            (b")" + b"2\x86" * 500 + b".", "is a truncated or damaged torch.save file"),
            (b")" + b"q\x00h\x00\x86" * 500 + b".", "its content is of type tuple and no whole module"),
            (b"]r\xff\xff\xff\xff.", "its content is of type list and no whole module"),
            (b"N" * (17 << 20), "a pickle of more than 16,777,216 bytes"),
            (b"]q\x00", "is a truncated or damaged torch.save file"),
            (b"\x82\x01.", "Unsupported operand 130"),
            (b"X\x06\x00\x00\x00moduleQ.", "persistent_load id must be tuple or int"),
        ],
        ids=lambda value: str(value)[:30],
    )
    def test_a_hostile_pickle_is_one_line(self, folder: Folder, content: bytes, found: str) -> None:
        with zipfile.ZipFile(folder.file, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02" + content)
            archive.writestr("archive/version", b"3\n")
        line = folder.refused()
        assert found in line

    def test_compressed_entries_are_refused_before_they_are_unpacked(self, folder: Folder) -> None:
        whole = save_whole(made(), folder.path / "whole.pt")
        with zipfile.ZipFile(whole) as old, zipfile.ZipFile(folder.file, "w", zipfile.ZIP_DEFLATED) as new:
            for entry in old.infolist():
                new.writestr(entry.filename, old.read(entry))
        assert "compressed" in folder.refused()

    def test_a_flipped_bit_is_one_line(self, folder: Folder) -> None:
        content = bytearray(save_whole(model := made(), folder.file).read_bytes())
        content[content.index(model.pos_emb.inv_freq.numpy().tobytes())] ^= 1
        folder.file.write_bytes(content)
        assert "the checksum of " in folder.refused()


def is_sprung(path: Path, marker: Path) -> bool:
    """Return whether pickle itself, which knows the classes, runs what is in a file."""
    with zipfile.ZipFile(path) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("data.pkl")]
        content = archive.read(name)

    class Believing(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module == "mem_transformer":
                return Trapped if name == "Trapped" else getattr(authors, name)
            return super().find_class(module, name)

        def persistent_load(self, pid: Any) -> Any:
            return torch.storage.TypedStorage(pid[4], dtype=pid[1].dtype)

    try:
        Believing(io.BytesIO(content)).load()
    except Exception:  # after the trap nothing matters
        return marker.exists()
    return marker.exists()


class TestOtherProblems:
    @pytest.fixture(autouse=True)
    def _saved(self, folder: Folder) -> None:
        save_whole(made(), folder.file)
        folder.output.write_bytes(b"old")

    def test_parameters_of_the_entry_that_no_author_has(self, folder: Folder) -> None:
        folder.registry.write_text(ENTRY.format(more=", residual: {kind: boost}"))
        assert "does not fit the architecture: 2 missing: blocks.0.t, blocks.1.t" in folder.refused()

    def test_another_size(self, folder: Folder) -> None:
        folder.registry.write_text(ENTRY.format(more="").replace("feedforward: 12", "feedforward: 13"))
        line = folder.refused()
        assert "layers.0.pos_ff.CoreNet.0.weight (12, 8), wanted (13, 8)" in line

    def test_a_vocabulary_of_another_size_than_the_model_s(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = TEXT.replace("Title", "of")
        (folder.texts / "wiki.train.tokens").write_text(text)
        declared = replace(DATASETS["wikitext-2"], vocabulary_size=VOCABULARY - 1)  # type: ignore[type-var]
        monkeypatch.setitem(DATASETS.builtin, "wikitext-2", declared)  # type: ignore[arg-type]  # a dict
        line = folder.refused()
        assert "the training texts of wikitext-2 have 29 different words, ends of lines included, but" in line
        assert "authors-lm has vocabulary_size 30" in line

    def test_texts_that_are_not_the_published_ones(self, folder: Folder) -> None:
        (folder.texts / "wiki.train.tokens").write_text(TEXT + " more \n")
        assert "tokens, ends of lines included, wanted" in folder.refused()

    def test_a_folder_without_texts(self, folder: Folder) -> None:
        (folder.texts / "wiki.train.tokens").unlink()
        line = folder.refused()
        assert f"{folder.texts / 'wiki.train.tokens'} is not a file; wanted is the folder with the token files" in line
        assert "unpack wikitext-2-v1.zip, and name the folder by --vocabulary" in line

    def test_an_entry_of_other_texts(self, folder: Folder) -> None:
        line = folder.refused(code=2, model="sotu-lm")
        assert "model 'sotu-lm' has trained_on: sotu; the vocabulary is made of token files" in line
        assert "wanted one of wikitext-103, wikitext-2" in line

    def test_an_entry_of_another_backbone(self, folder: Folder) -> None:
        line = folder.refused(code=2, model="digits-vit")
        assert "model 'digits-vit' has backbone vit; language models alone are imported" in line

    def test_the_file_is_not_its_own_output(self, folder: Folder) -> None:
        folder.output.unlink()
        folder.output.symlink_to(folder.file)
        assert "--output is the file to be converted" in folder.refused(code=2)

    def test_an_output_that_cannot_be_written(self, folder: Folder) -> None:
        folder.output.unlink()
        folder.output.mkdir()
        assert f"{folder.output} cannot be written" in folder.refused(code=2)

    @pytest.mark.parametrize("option", ["--model", "--vocabulary", "--output"])
    def test_options_that_are_needed(self, robench: Robench, option: str) -> None:
        given = {"--model": "m", "--vocabulary": "v", "--output": "o"}
        ended = robench("import", "x.pt", *(each for pair in given.items() if pair[0] != option for each in pair))
        assert ended.code == 2
        assert f"Missing option '{option}'" in ended.stderr
