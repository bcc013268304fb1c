"""Published classifiers that were fine-tuned are of the language models that their entries name."""

from dataclasses import fields

import pytest
import torch

import robench
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.declare import read_registry, shipped_registry
from robench.models.loading import Named, resolve, resolve_file
from robench.models.state_files import load_state
from robench.models.word_transformer import Experts, WordTransformer
from robench.training.texts import TextTraining

ENTRIES = read_registry(shipped_registry())
FINETUNED = {
    name: entry
    for name, entry in ENTRIES.items()
    if isinstance(entry.training, TextTraining) and entry.training.initial_weights is not None
}
PUBLISHED = {name: entry for name, entry in FINETUNED.items() if entry.weights.sha256 is not None}
MIXED = {
    name: entry
    for name, entry in ENTRIES.items()
    if isinstance(entry.architecture, WordTransformer)
    and entry.architecture.experts is not None
    and entry.weights.sha256 is not None
}
MOST_BYTES = 4_000_000
# What need not be the language model's: the mechanism is put in for fine-tuning alone.
OWN = {"attention", "dropout", "context"}


def source_of(name: str) -> str:
    """The name of the language model whose weights an entry starts with."""
    training = FINETUNED[name].training
    assert isinstance(training, TextTraining)
    assert training.initial_weights is not None
    (found,) = (each for each, entry in ENTRIES.items() if entry.weights.uri == training.initial_weights.uri)
    return found


def test_there_are_language_models_and_classifiers_of_both_kinds_of_experts() -> None:
    kinds = {(entry.task, entry.architecture.experts.weights) for entry in MIXED.values()}
    assert {("language-modeling", "chosen"), ("classification", "chosen")} <= kinds
    assert len(PUBLISHED) >= 4


@pytest.mark.parametrize("name", FINETUNED)
def test_sizes_are_those_of_the_language_model(name: str) -> None:
    mine, theirs = FINETUNED[name].architecture, ENTRIES[source_of(name)].architecture
    shared = {field.name for field in fields(WordTransformer)} - OWN
    assert {each: getattr(mine, each) for each in shared} == {each: getattr(theirs, each) for each in shared}
    # The model of the NAACL tutorial has none.
    assert isinstance(mine.experts, Experts) != ("naacl" in name)
    assert mine.is_causal


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_initial_weights_are_the_published_ones(name: str) -> None:
    entry, source = FINETUNED[name], ENTRIES[source_of(name)]
    path, digest = resolve_file(entry.training.initial_weights, entry.folder, Named(name))
    assert (path, digest) == resolve(source)
    assert entry.training.initial_weights.sha256 == source.weights.sha256
    found, initial = load_state(resolve(entry)[0]), load_state(path)
    assert torch.equal(found["vocabulary"], initial["vocabulary"])
    # Fine-tuned, and not trained from scratch: words that no paragraph has are as they were.
    distances = (found["embedding.weight"].float() - initial["embedding.weight"].float()).abs().amax(dim=1)
    assert float(distances.min()) < 1e-3
    assert float(distances.max()) > 1e-2


@pytest.mark.parametrize("name", MIXED)
def test_weights_are_small_and_have_their_digest(name: str) -> None:
    path, digest = resolve(MIXED[name])
    assert digest == MIXED[name].weights.sha256
    assert path.stat().st_size < MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", [next(iter(PUBLISHED))])
def test_the_clean_accuracy_is_the_published_one(name: str) -> None:
    torch.set_num_threads(1)
    dataset = robench.load_dataset("sotu-eras")
    model = robench.load_checkpoint(name)
    right = 0
    for start in range(0, len(dataset), 100):
        batch = dataset.batch(start, min(start + 100, len(dataset)))
        seeds = [
            stream_seed(example_seed(0, dataset.identity.fingerprint, "prediction", each), Stream(purpose="prediction"))
            for each in batch.ids
        ]
        with torch.no_grad():
            right += int((model.outputs(batch.inputs, seeds=seeds).argmax(1) == batch.targets).sum())
    assert right / len(dataset) == pytest.approx(PUBLISHED[name].expected["top1_accuracy"], abs=5e-5)
