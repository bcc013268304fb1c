"""Models of transformers: likelihoods by words, classifiers, exchanged attention, and folders that are refused."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hub_models
import pytest
import torch
from attention_settings import one_per_kind
from hub_models import CONTEXT, TEXTS
from test_attention_contract import DECLARATIONS

from examples import CHECKPOINT
from robench.attention import ATTENTIONS
from robench.attention.base import AttentionBase
from robench.core.checkpoint import Checkpoint, Weights
from robench.core.errors import DeclarationError, UsageError, WeightsError
from robench.declarations.preprocessing import ImagePreprocessing, NoPreprocessing
from robench.declare import parse_architecture
from robench.domains.code_points import encoded_batch
from robench.models.hub import Transformers
from robench.models.hub_impl import adapted, tokens_of_pieces, with_tokenizer
from robench.models.loading import load_model, resolve
from robench.tasks.language_modeling_impl import NO_TOKEN, scored_tokens

CAUSAL = Transformers(task="causal-lm")
CLASSIFIER = Transformers(task="text-classification")
MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": hub_models.gpt2, "llama": hub_models.llama, "bert": hub_models.bert, "vit": hub_models.vit,
}  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {name: hub_models.save(tmp_path_factory.mktemp(name), make()) for name, make in MODELS.items()}


def checkpoint(folder: Path, task: str = "causal-lm", **fields: Any) -> Checkpoint:
    of_images = task.startswith("image")
    return replace(
        CHECKPOINT,
        architecture=parse_architecture({"kind": "transformers", "task": task, **fields}),
        weights=Weights(uri=str(folder), sha256=None),
        preprocessing=ImagePreprocessing(mean=(), std=()) if of_images else NoPreprocessing(inputs="texts"),
        task="language-modeling" if task == "causal-lm" else "classification",
        folder=folder.parent,
        trained_on=None,
    )


def rolling_likelihood(model: Any, ids: list[int]) -> list[float]:
    """Return the losses of pieces, one window after another as lm-evaluation-harness defines them, in float64.

    The first window has the token of the beginning and CONTEXT - 1 more inputs; each further one predicts up to CONTEXT
    pieces, with the tokens before them that fill it.
    """
    model = model.double()
    whole, losses, done = [0, *ids], list[float](), 0
    while done < len(ids):
        count = min(len(ids) - done, CONTEXT)
        stop = done + count
        inputs = whole[max(0, stop - CONTEXT) : stop]
        with torch.no_grad():
            logits = model(torch.tensor([inputs])).logits[0].log_softmax(-1)
        losses += [-float(logits[len(inputs) - count + at, ids[done + at]]) for at in range(count)]
        done = stop
    return losses


@pytest.mark.parametrize("make", [hub_models.gpt2, hub_models.llama])
@pytest.mark.parametrize("text", TEXTS)
def test_losses_are_rolling_likelihoods_summed_over_words(make: Callable[[], Any], text: str) -> None:
    tokenizer = hub_models.tokenizer()
    found = tokenizer(text, return_offsets_mapping=True)
    wanted = rolling_likelihood(make(), found["input_ids"])
    row = adapted(make(), tokenizer, CAUSAL)(encoded_batch([text]))[0]
    words = scored_tokens(text)
    losses = row[row != NO_TOKEN].tolist()
    assert len(losses) == len(words)
    assert sum(losses) == pytest.approx(sum(wanted), rel=1e-5)
    # A word has the pieces that begin with its characters, or with the blanks before it.
    at = 0
    for word, loss in zip(words[:-1], losses[:-1], strict=False):
        end = text.index(word, at) + len(word)
        offsets = zip(found["offset_mapping"], wanted, strict=True)
        pieces = [piece for (start, _), piece in offsets if at <= start < end]
        assert loss == pytest.approx(sum(pieces), rel=1e-4, abs=1e-6), word
        at = end


def test_context_is_read_and_not_scored() -> None:
    before, after = TEXTS[0][:35], TEXTS[0][35:]
    model = adapted(hub_models.gpt2(), hub_models.tokenizer(), CAUSAL)
    whole, part = (model(encoded_batch([text]))[0] for text in (TEXTS[0], f"{before}\x1e{after}"))
    scored = part[part != NO_TOKEN]
    assert len(scored) == len(scored_tokens(f"{before}\x1e{after}"))
    torch.testing.assert_close(scored, whole[whole != NO_TOKEN][-len(scored) :])


def test_no_text_depends_on_others_or_on_padding() -> None:
    for make, architecture in ((hub_models.gpt2, CAUSAL), (hub_models.bert, CLASSIFIER)):
        tokenizer = hub_models.tokenizer()
        alone = [adapted(make(), tokenizer, architecture)(encoded_batch([text]))[0] for text in TEXTS[:3]]
        tokenizer.padding_side = "left"
        for row, one in zip(adapted(make(), tokenizer, architecture)(encoded_batch(TEXTS[:3])), alone, strict=True):
            torch.testing.assert_close(row[: len(one)], one, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("text", "pieces", "places"),
    [
        ("a\n\nb", ["a", "\n\n", "b"], [0, 1, 3]),
        ("a  b \n", ["a", " ", " b", " ", "\n"], [0, 1, 1, 2, 2]),
        ("a\n  ", ["a", "\n", "  "], [0, 1, 1]),
        ("ab c", ["a", "b c"], [0, 0]),
        ("a.\n", ["a", ".\n"], [0, 0]),
    ],
)
def test_pieces_belong_to_the_word_of_their_first_character(text: str, pieces: list[str], places: list[int]) -> None:
    ends = [sum(map(len, pieces[: at + 1])) for at in range(len(pieces))]
    spans = [(end - len(piece), end) for end, piece in zip(ends, pieces, strict=True)]
    assert tokens_of_pieces(text, spans) == (places, len(scored_tokens(text)))


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "vit"])
def test_softmax_in_place_of_the_models_own_changes_nothing_and_others_do(folders: dict[str, Path], name: str) -> None:
    task = {"bert": "text-classification", "vit": "image-classification"}.get(name, "causal-lm")
    inputs = torch.rand(2, 3, 8, 8) if name == "vit" else encoded_batch(TEXTS[:3])
    own = load_model(checkpoint(folders[name], task)).outputs(inputs)
    for kernel in ({"kernel": "sdpa"}, {"attention": {"kind": "softmax"}}):
        again = load_model(checkpoint(folders[name], task, **kernel)).outputs(inputs)
        torch.testing.assert_close(again, own, rtol=1e-5, atol=1e-5)
    for kind in ("rpc", "twicing", "rkde", "neutreno"):
        other = load_model(checkpoint(folders[name], task, attention={"kind": kind})).outputs(inputs)
        assert other.isfinite().all()
        assert float((other - own).abs().max()) > 1e-4, kind


def test_each_mechanism_of_the_registry_runs_in_a_pretrained_model_or_says_why_not(folders: dict[str, Path]) -> None:
    refused = {}
    for declared in one_per_kind([each for each in DECLARATIONS if isinstance(each, AttentionBase)]):
        architecture = replace(CLASSIFIER, attention=declared)
        try:
            module = adapted(hub_models.bert(), hub_models.tokenizer(), architecture)
            assert module(encoded_batch(TEXTS[:1])).isfinite().all(), declared.kind
        except DeclarationError as error:
            refused[declared.kind] = str(error)
    assert {"rpc", "twicing", "rkde", "scaled", "mom", "spkde"}.isdisjoint(refused)
    assert "has parameters of its own" in refused["primal"]
    assert all("cannot be exchanged" in message for message in refused.values())


def test_a_layer_with_a_window_or_another_scale_is_refused() -> None:
    for change, message in (({"sliding_window": 4}, "within a sliding window"), ({}, "scales scores by 1")):
        model = hub_models.llama()
        vars(model.config).update(change)
        model.model.layers[1].self_attn.scaling = 1.0
        with pytest.raises(DeclarationError, match=message):
            adapted(model, hub_models.tokenizer(), replace(CAUSAL, attention=ATTENTIONS["softmax"]()))


def test_classifiers_read_the_first_tokens_of_a_long_text_and_count_the_others() -> None:
    tokenizer = hub_models.tokenizer()
    ids = tokenizer(TEXTS[0])["input_ids"]
    whole = adapted(hub_models.bert(), tokenizer, CLASSIFIER)
    cut = adapted(hub_models.bert(), tokenizer, replace(CLASSIFIER, context=16))
    found = cut(encoded_batch([TEXTS[0], TEXTS[2]]))
    wanted = whole(encoded_batch([tokenizer.decode(ids[:16])])), whole(encoded_batch([TEXTS[2]]))
    torch.testing.assert_close(found, torch.cat(wanted))
    reading = cut.text_reading(encoded_batch([TEXTS[0], TEXTS[2]]))
    assert reading["num_cut"].tolist() == [len(ids) - 16, 0]
    assert reading["num_lost"].tolist() == [0, 0]


TEXT = "We the <unk> café People"
WEIGHTS = "model.safetensors"


@pytest.mark.parametrize(
    ("tokenizer", "lost"),
    [
        (hub_models.tokenizer_of("We thPopl"), ["<unk>", "café"]),
        (hub_models.tokenizer_of("We thPopl", unknown="<unk>"), ["café"]),
        (hub_models.tokenizer_of("we the <unk> café people", lowers=True), ["We", "People"]),
        (hub_models.tokenizer_of(TEXT), []),
        (hub_models.tokenizer(), []),
    ],
    ids=["letters", "unknown", "case", "whole", "bytes"],
)
def test_words_that_a_tokenizer_loses_are_counted(tokenizer: Any, lost: list[str]) -> None:
    """Of words that each tokenizer tells in part, or under another spelling; ``<unk>`` of the text is no loss."""
    model = adapted(hub_models.gpt2(), tokenizer, CAUSAL)
    for start in ("", "zzz qqq\x1e"):
        (found,) = model.text_reading(encoded_batch([start + TEXT]))["num_lost"].tolist()
        assert found == len(lost)
    classifier = adapted(hub_models.bert(), tokenizer, CLASSIFIER)
    (found,) = classifier.text_reading(encoded_batch([TEXT]))["num_lost"].tolist()
    assert found == len([word for word in lost if word not in {"We", "People"}])


class TestFolders:
    def test_the_digest_is_of_the_files_that_are_read(self, folders: dict[str, Path], tmp_path: Path) -> None:
        copied = shutil.copytree(folders["gpt2"], tmp_path / "copy")
        before = resolve(checkpoint(copied))[1]
        (copied / "README.md").write_text("notes")
        assert resolve(checkpoint(copied))[1] == before == resolve(checkpoint(folders["gpt2"]))[1]
        (copied / "tokenizer.json").write_text((copied / "tokenizer.json").read_text() + "\n")
        assert before != resolve(checkpoint(copied))[1] != resolve(checkpoint(copied).rehearsed())[1]
        wanted = replace(checkpoint(copied), weights=Weights(uri="copy", sha256="0" * 64))
        with pytest.raises(WeightsError, match=r"have SHA-256 [0-9a-f]{64}, the registry wants 0000"):
            resolve(wanted)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda folder: (folder / "config.json").unlink(), r"has no config\.json"),
            (lambda folder: (folder / "config.json").write_text("{"), r"config\.json is not JSON"),
            (lambda folder: (folder / "config.json").write_text("[]"), r"config\.json is a list, wanted an object"),
            (lambda folder: _stating(folder, auto_map={"AutoModel": "x.Y"}), r"needs code of its own \(config"),
            (lambda folder: _stating(folder, model_type="nothing"), "transformers cannot load"),
            (lambda folder: (folder / WEIGHTS).rename(folder / "pytorch_model.bin"), r"has pytorch_model\.bin, which"),
            (lambda folder: (folder / WEIGHTS).unlink(), "has no weights"),
            (lambda folder: (folder / f"{WEIGHTS}.index.json").write_text("{}"), r"has both model\.safetensors and"),
            (lambda folder: (folder / "model.safetensors").write_bytes(b"x"), "transformers cannot load"),
            (lambda folder: (folder / "tokenizer.json").unlink(), r"has no tokenizer: expected tokenizer\.json"),
        ],
    )
    def test_a_folder_that_cannot_be_used_is_refused(
        self, folders: dict[str, Path], tmp_path: Path, change: Callable[[Path], object], message: str
    ) -> None:
        copied = shutil.copytree(folders["gpt2"], tmp_path / "copy")
        change(copied)
        with pytest.raises(WeightsError, match=message):
            load_model(checkpoint(copied))

    def test_weights_of_another_task_or_tokenizer(self, folders: dict[str, Path], tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match=r"lack \d+ tensors of a text-classification model"):
            load_model(checkpoint(folders["gpt2"], "text-classification"))
        model = hub_models.gpt2()
        model.resize_token_embeddings(50)
        with pytest.raises(WeightsError, match=r"has \d+ pieces, and the model embeds 50: take the"):
            load_model(checkpoint(hub_models.save(tmp_path / "small", model)))

    def test_an_absent_folder_and_addresses_without_revision(self, tmp_path: Path) -> None:
        with pytest.raises(WeightsError, match="none does not exist; put the files of save_pretrained there"):
            resolve(checkpoint(tmp_path / "none"))
        for uri in ("hf-hub:owner/name", "hf-hub:owner@main", "hf-hub:a/b/c@main"):
            with pytest.raises(DeclarationError, match="must be hf-hub:owner/name@revision"):
                resolve(replace(checkpoint(tmp_path), weights=Weights(uri=uri, sha256=None)))

    @pytest.mark.parametrize("name", ["gpt2", "bert", "vit"])
    def test_a_rehearsal_needs_no_weights_and_reads_none(
        self, folders: dict[str, Path], tmp_path: Path, name: str
    ) -> None:
        task = {"bert": "text-classification", "vit": "image-classification"}.get(name, "causal-lm")
        copied = shutil.copytree(folders[name], tmp_path / "copy")
        with_weights = resolve(checkpoint(copied, task).rehearsed())
        (copied / "model.safetensors").unlink()
        rehearsed = checkpoint(copied, task).rehearsed()
        assert resolve(rehearsed) == with_weights
        inputs = torch.rand(2, 3, 8, 8) if name == "vit" else encoded_batch(TEXTS[:2])
        # Weights are the library's own initial ones of seed 0, as those of the fixture.
        own = load_model(checkpoint(folders[name], task)).outputs(inputs)
        torch.testing.assert_close(load_model(rehearsed).outputs(inputs), own, rtol=1e-6, atol=1e-6)
        _stating(copied, initializer_range=0.5)
        assert resolve(rehearsed)[1] != with_weights[1]
        assert float((load_model(rehearsed).outputs(inputs) - own).abs().max()) > 1e-3
        other = replace(rehearsed, architecture=replace(rehearsed.architecture, attention=ATTENTIONS["rpc"]()))
        assert load_model(other).outputs(inputs).isfinite().all()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task": "text-classification", "stride": 2}, "stride: must be left out"),
        ({"task": "causal-lm", "truncates": True}, "truncates: must be left out"),
        ({"task": "image-classification", "context": 8}, "context: must be left out"),
        ({"task": "causal-lm", "context": 8, "stride": 9}, "stride: must be at most the context 8, got 9"),
        ({"task": "translation"}, "task: unknown value 'translation'"),
    ],
)
def test_fields_of_another_task_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        parse_architecture({"kind": "transformers", **fields})


def test_pairs_of_a_model_and_its_tokenizer_are_modules_of_the_suites_task() -> None:
    pair = hub_models.bert(), hub_models.tokenizer()
    assert type(in_memory(pair)).__name__ == "PiecesClassifier"
    assert in_memory((pair[0], {"mean": []})) == (pair[0], {"mean": []})
    with pytest.raises(UsageError, match="reads texts, and the suite is of images"):
        in_memory(pair, domain="images")


@pytest.mark.parametrize("make", [hub_models.gpt2, hub_models.bert])
def test_a_tokenizer_of_special_pieces_alone_is_refused(make: Callable[[], Any]) -> None:
    """The one that transformers makes for a folder of GPT-2 without tokenizer files."""
    task = "language-modeling" if make is hub_models.gpt2 else "classification"
    with pytest.raises(WeightsError, match="has no pieces but its special ones"):
        in_memory((make(), hub_models.tokenizer_of("")), task=task)


def test_settings_beside_a_model_and_its_tokenizer_are_fields_of_the_declaration() -> None:
    model, tokenizer = hub_models.bert(), hub_models.tokenizer()
    cut = in_memory((model, tokenizer, {"truncates": True, "context": 5}))
    whole = in_memory((model, tokenizer))
    first = tokenizer.decode(tokenizer(TEXTS[0])["input_ids"][:5])
    torch.testing.assert_close(cut(encoded_batch([TEXTS[0]])), whole(encoded_batch([first])))
    causal = in_memory((hub_models.gpt2(), tokenizer, {"context": 8, "stride": 2}), task="language-modeling")
    assert (causal.context, causal.stride) == (8, 2)
    for settings, kind, message in (
        ({"stride": 2}, DeclarationError, r"tokenizer, settings\)[^$]*stride: must be left out"),
        ({"attention": {"kind": "rpc"}}, UsageError, "with context, stride, truncates, got .'attention'.: leave it"),
        (5, UsageError, "must be a mapping with .* got int"),
    ):
        with pytest.raises(kind, match=message):
            in_memory((model, tokenizer, settings))


def test_a_classifier_reads_no_more_than_its_tokenizer_states() -> None:
    tokenizer = hub_models.tokenizer()
    tokenizer.model_max_length = 6
    num_tokens = len(tokenizer(TEXTS[0], verbose=False)["input_ids"])
    for settings, num_cut in ({}, num_tokens - 6), ({"context": 128}, 0):
        model = in_memory((hub_models.bert(), tokenizer, settings))
        assert model.text_reading(encoded_batch([TEXTS[0]]))["num_cut"].tolist() == [num_cut]


def in_memory(model: object, *, domain: str = "texts", task: str = "classification") -> Any:
    return with_tokenizer(model, domain, task, parse_architecture)


def _stating(folder: Path, **fields: object) -> None:
    stated = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(stated | fields))
