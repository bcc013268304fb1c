"""Models of transformers through whole runs: by registry and in memory, with the numbers of texts of any vocabulary."""

import csv
from dataclasses import replace
from math import exp, log
from pathlib import Path
from typing import Any

import hub_models
import pytest
import torch
from hub_models import TEXTS

import robench
from robench.comparison import RENDERERS
from robench.core.errors import UsageError
from robench.domains.code_points import encoded_batch
from robench.models.hub import Transformers
from robench.models.hub_impl import adapted
from robench.store import FolderStore
from robench.tasks.language_modeling_impl import NO_TOKEN

REGISTRY = """
datasets:
  prose: {kind: csv, path: texts.csv, text_column: text, task: language-modeling}
checkpoints:
  subword:
    task: language-modeling
    architecture: {kind: transformers, task: causal-lm}
    weights: {uri: gpt2, sha256: null}
    preprocessing: {kind: none, inputs: texts}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, *TEXTS)
    hub_models.save(tmp_path / "gpt2", hub_models.gpt2())
    (tmp_path / "registry.yaml").write_text(REGISTRY)
    return tmp_path


def write(folder: Path, *texts: str) -> None:
    with (folder / "texts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text",), *((text,) for text in texts)])


def measured(folder: Path, models: Any, results: str, **options: Any) -> dict[str, dict[str, Any]]:
    registry = folder / "registry.yaml"
    suite = robench.load_suite("texts-swap", dataset="prose", registry=registry).only(["clean", "swap-10"])
    report = robench.run(suite, models, registry=registry, results=folder / results, **options)
    return {
        row.model: {key: cell.estimate and cell.estimate.value for key, cell in row.cells.items()}
        | {"notes": row.notes}
        for row in report.rows
    }


@pytest.mark.slow
def test_numbers_of_texts_are_by_words_and_bytes_and_not_beside_those_of_a_closed_vocabulary(folder: Path) -> None:
    found = measured(folder, ["subword", "sotu-lm"], "results")
    outputs = adapted(hub_models.gpt2(), hub_models.tokenizer(), Transformers(task="causal-lm"))(encoded_batch(TEXTS))
    loss = float(torch.where(outputs == NO_TOKEN, 0.0, outputs).double().sum())
    words, num_bytes = sum(len(text.split()) for text in TEXTS), sum(len(text.encode()) for text in TEXTS)
    own, closed = found["subword"], found["sotu-lm"]
    assert own["clean/word_perplexity"] == pytest.approx(exp(loss / words), rel=1e-5)
    assert own["clean/bits_per_byte"] == pytest.approx(loss / num_bytes / log(2), rel=1e-5)
    assert own["clean/perplexity"] is closed["clean/word_perplexity"] is closed["clean/bits_per_byte"] is None
    assert own["swap-10/kept_damage"] is not None is not closed["swap-10/kept_damage"]
    assert closed["clean/perplexity"] > 1
    (note,) = (each for each in own["notes"] if "pieces" in each)
    assert note.startswith("clean perplexity, swap-10 perplexity: the model scores pieces of words")
    stored = {"registry": folder / "registry.yaml", "results": folder / "results"}
    suite = robench.load_suite("texts-swap", dataset="prose", registry=stored["registry"]).only(["clean", "swap-10"])
    board = robench.build_leaderboard(suite, ["subword", "sotu-lm"], **stored)
    assert [row.entry.attention for row in board.rows if row.entry] == ["of the backbone", "softmax"]
    # Numbers that one of two cannot have are no gaps, and are not tested.
    compared = robench.compare("subword", "sotu-lm", suite, **stored)
    assert "missing" not in RENDERERS["text"](compared)
    assert {row.column.metric for row in compared.rows if row.p_value is not None} == {"kept_damage"}


def test_a_tokenizer_that_loses_words_is_named_and_kept_out_of_comparisons(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub_models.tokenizer_of("".join(TEXTS).lower(), lowers=True).save_pretrained(folder / "gpt2")
    (row,) = measured(folder, ["subword"], "results").values()
    words = "\n".join(TEXTS).split()
    num_lost = sum(word != word.lower() for word in words)
    assert num_lost == 12
    assert (
        f"loses {num_lost} of {len(words)} words ({100 * num_lost / len(words):.2g} %) in 4 of 4 texts" in caplog.text
    )
    for key in ("clean/word_perplexity", "clean/bits_per_byte", "swap-10/kept_damage"):
        assert row[key] is None
    notes = "\n".join(row["notes"])
    assert f"clean: 4 of 4 texts have {num_lost} words that the model's tokenizer reads as unknown" in notes
    assert f"tokenizer loses {num_lost} of {len(words)} words (" in notes


@pytest.mark.parametrize(
    ("signs", "unknown", "message"),
    [("e", None, r"makes no piece of text 2 of 'prose', 'xyz'"), ("#", "<unk>", r"loses all \d+ words")],
)
def test_a_tokenizer_of_another_alphabet_is_refused_before_anything_is_measured(
    folder: Path, signs: str, unknown: str | None, message: str
) -> None:
    write(folder, "One", "two e", "xyz")
    hub_models.tokenizer_of(signs, unknown=unknown).save_pretrained(folder / "gpt2")
    with pytest.raises(UsageError, match=message):
        measured(folder, ["subword"], "results")
    assert not [*folder.glob("results/records/*/*")]


@pytest.mark.slow
def test_a_text_at_the_limit_is_cut_and_costs_no_other(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The third text is at the limit, and beyond it after a swap; the last one is always beyond."""
    tokenizer, registry = hub_models.tokenizer(), folder / "registry.yaml"
    texts = ["One", "We the People", "people " * 4 + "order", "United States " * 9]
    limit = len(tokenizer(texts[2])["input_ids"])
    with (folder / "texts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((text, row % 2) for row, text in enumerate(texts))])
    registry.write_text("datasets: {reviews: {kind: csv, path: texts.csv, text_column: text, label_column: label}}")
    models = {
        name: (hub_models.bert(2), tokenizer, {"context": most}) for name, most in (("cut", limit), ("whole", 99))
    }
    suite = robench.load_suite("texts-adv", dataset="reviews", registry=registry).only(["clean", "swap-30"])
    report = robench.run(suite, models, registry=registry, results=folder / "results", key={"cut": "a", "whole": "b"})
    found = {
        (record.shard.checkpoint, record.shard.condition): record.outcomes
        for record in FolderStore(folder / "results").records(lambda shard: True)
    }
    num_cut = {name: found["cut", name].filled("num_cut", 0) for name in ("clean", "swap-30")}
    assert sorted(num_cut["clean"]) == [0, 0, 0, len(tokenizer(texts[3])["input_ids"]) - limit]
    assert (num_cut["swap-30"] > 0).sum() == 2
    for condition in ("clean", "swap-30"):
        cut, whole = found["cut", condition], found["whole", condition]
        assert whole.values("num_cut") is None
        is_whole = num_cut[condition] == 0
        assert cut.column("loss_nats")[is_whole].tolist() == whole.column("loss_nats")[is_whole].tolist()
    assert "model 'cut': 1 of 4 texts of 'reviews' have more tokens than it reads" in caplog.text
    assert [row.model for row in report.rows if any("clean: 1 of 4 texts have" in each for each in row.notes)] == [
        "cut"
    ]
    searches = robench.load_suite("texts-search", dataset="reviews", registry=registry).only(
        ["clean", "typos-delete-200", "typos-random-200"]
    )
    whole = {"whole": models["whole"]}
    (row,) = robench.run(searches, whole, registry=registry, results=folder / "results", key="b").rows
    clean, *searched = [cell.estimate.value for cell in row.cells.values() if cell.estimate is not None]
    assert len(searched) == 2
    assert max(searched) <= clean


@pytest.mark.slow
def test_a_rehearsal_is_of_the_size_that_the_folder_states_without_its_weights(folder: Path) -> None:
    whole = measured(folder, ["subword"], "results", random_weights=True)
    (folder / "gpt2" / "model.safetensors").unlink()
    assert measured(folder, ["subword"], "other", random_weights=True) == whole
    (row,) = whole.values()
    assert [*whole] == ["subword+random-weights"]
    assert row["clean/word_perplexity"] > 1


def test_a_model_in_memory_and_any_batch_size_have_the_outcomes_of_the_registrys(folder: Path) -> None:
    registry = folder / "registry.yaml"
    named = measured(folder, ["subword"], "results")["subword"]
    given = hub_models.gpt2(), hub_models.tokenizer(), {"context": hub_models.CONTEXT}
    assert measured(folder, {"mine": given}, "other", key="tiny")["mine"] == named
    suite = robench.load_suite("texts-swap", dataset="prose", registry=registry).only(["clean"])
    for size in (3, 4):
        sized = replace(suite, batch_size=size)
        (row,) = robench.run(sized, ["subword"], registry=registry, results=folder / "sized").rows
        assert row.cells["clean/word_perplexity"].estimate.value == named["clean/word_perplexity"]
