"""Shipped entries: what released commands train, whose language models were fine-tuned, and today's counts."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest
import torch
from conftest import ROOT

import robench
from robench.attention.fourier_mom import FourierMom
from robench.attention.mom import Mom
from robench.attention.rkde import Rkde
from robench.attention.rvt import Rvt
from robench.attention.softmax import Softmax
from robench.attention.spkde import Spkde
from robench.core.declared import Declaration
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.declare import read_registry, shipped_registry
from robench.models.loading import Named, resolve, resolve_file
from robench.models.state_files import load_state
from robench.models.vit import Vit
from robench.models.word_transformer import Experts, WordTransformer
from robench.training.texts import TextTraining

ENTRIES = read_registry(shipped_registry())
# Options of aaronhan223/robust_transformer, imagenet/main.py, commit a5dcdea, and their defaults.
DEFAULTS: Mapping[str, str] = {
    "huber_a": "0.2",
    "loss_type": "huber",
    "num_iter_kirwls": "1",
    "outlier_fraction": "0.1",
    "num_blocks": "5",
}


def rkde(options: Mapping[str, str]) -> Rkde:
    loss = {"huber": Rkde(), "hampel": Rkde(loss="hampel")}[options["loss_type"]]
    num_iterations = int(options["num_iter_kirwls"])
    return replace(loss, threshold=float(options["huber_a"]), num_iterations=num_iterations, formula="released")


def spkde(options: Mapping[str, str]) -> Spkde:
    return Spkde(beta=1 / (1 - float(options["outlier_fraction"])), formula="released")


def mom(options: Mapping[str, str]) -> Mom:
    fraction = 1 - float(options["outlier_fraction"])
    return Mom(num_blocks=int(options["num_blocks"]), block_fraction=fraction, formula="released")


def fourier_mom(options: Mapping[str, str]) -> FourierMom:
    base = mom(options)
    return FourierMom(num_blocks=base.num_blocks, block_fraction=base.block_fraction, formula="released", power=4)


# What imagenet/models.py, commit d0eb5eb, makes of a --model and the options.
MODELS: Mapping[str, Callable[[Mapping[str, str]], Declaration]] = {
    "deit_tiny_patch16_224": lambda options: Softmax(),
    "deit_tiny_distilled_patch16_224": lambda options: Softmax(),
    "deit_robust_tiny_patch16_224": rkde,
    "deit_robust_small_patch16_224": rkde,
    "deit_rvt_tiny_patch16_224": lambda options: Rvt(formula="released"),
    "deit_spkde_tiny_patch16_224": spkde,
    "deit_mom_tiny_patch16_224": mom,
    "deit_mom_fourier_tiny_patch16_224": fourier_mom,
}


def options_of(name: str) -> dict[str, str]:
    """Return the options that the command of an entry gives, by name."""
    text = " ".join(ENTRIES[name].weights.how_to_get.split())
    return dict(re.findall(r"--(\w+) ([\w.]+?)(?=[\s),]|\.?$)", text))


def attention_of(name: str) -> Declaration:
    architecture = ENTRIES[name].architecture
    assert isinstance(architecture, Vit)
    return architecture.attention


TRAINED = sorted(
    name for name in ENTRIES if "robust_transformer" in ENTRIES[name].weights.how_to_get and options_of(name)
)


def agree(one: Declaration, other: Declaration) -> bool:
    """Tell whether two declarations have the same fields, numbers up to 1e-9."""
    if type(one) is not type(other):
        return False
    fields = [(getattr(one, field), getattr(other, field)) for field in one.__dataclass_fields__]
    return all(a == pytest.approx(b, rel=1e-9) if isinstance(a, float) else a == b for a, b in fields)


def test_all_entries_whose_command_is_that_of_robust_kde_are_checked() -> None:
    assert {"rvt-vit-tiny", "spkde-vit-tiny", "mom-vit-tiny", "fourierformer-mom-vit-tiny"} <= set(TRAINED)
    assert {"rkde-huber-vit-tiny", "rkde-hampel-vit-tiny", "vit-tiny-baseline-robust-kde"} <= set(TRAINED)


@pytest.mark.parametrize("name", TRAINED)
def test_a_command_trains_what_its_entry_builds(name: str) -> None:
    options = options_of(name)
    assert set(options) <= {"model", *DEFAULTS}
    trained = MODELS[options["model"]](DEFAULTS | options)
    assert agree(trained, attention_of(name)), f"the command trains {trained}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("spkde-vit-tiny", {"outlier_fraction"}),
        ("mom-vit-tiny", {"outlier_fraction", "num_blocks"}),
        ("fourierformer-mom-vit-tiny", {"outlier_fraction", "num_blocks"}),
    ],
)
def test_a_command_leaves_no_setting_of_its_entry_to_a_default(name: str, said: set[str]) -> None:
    assert said <= set(options_of(name))


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


SHIPPED = json.loads((ROOT / "reports" / "published" / "counts.json").read_text())


@pytest.fixture(scope="module")
def script() -> Any:
    spec = spec_from_file_location("counts", ROOT / "scripts" / "counts.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_shipped_counts_are_of_the_models_whose_counts_papers_print(script: Any) -> None:
    assert list(SHIPPED) == script.models(), "run `make generated`"


# One of each kind of attention; counts of the others are of larger models or of more layers.
SMALLEST = ("symvit", "bilateral-deit-tiny", "boost-deit-tiny")


@pytest.mark.parametrize(
    "name", [name if name in SMALLEST else pytest.param(name, marks=pytest.mark.slow) for name in sorted(SHIPPED)]
)
def test_the_shipped_counts_are_what_the_script_counts(script: Any, name: str) -> None:
    assert SHIPPED[name] == script.counted(name), "run `make generated`"
