"""Hours of trainings and measurements against values by hand, and reports/published/operations.json against entries."""

import json
from dataclasses import replace
from math import inf, nan

import pytest
from click.testing import CliRunner
from conftest import ROOT
from papers_examples import registry, shipped_tables, suite
from presence import present

from robench.attention.softmax import Softmax
from robench.cli.table_command import command
from robench.core.errors import UsageError
from robench.core.suite import Condition
from robench.papers.forecast import (
    Forecast,
    Hours,
    Operations,
    has_shipped_operations,
    operations_key,
    shipped_operations,
)

ENTRIES = registry()
SHIPPED = json.loads((ROOT / "reports" / "published" / "operations.json").read_text())["models"]
FLOPS = 1e13
GIGA = 10**9
# A pass takes 2 x 10^9 / 10^13 s, and 4 x 10^9 / 10^13 s in training.
PLAIN = Operations(inference=GIGA, training=2 * GIGA, with_softmax=GIGA)


def forecast(operations: Operations | None = PLAIN) -> Forecast:
    return Forecast(flops_per_second=FLOPS, operations=lambda checkpoint: operations)


def condition(suite_name: str, name: str, **changes: object) -> Condition:
    found = next(each for each in suite(suite_name).conditions if each.name == name)
    return replace(found, **changes)  # type: ignore[arg-type]  # its fields


def seconds(hours: Hours | None) -> tuple[float, float]:
    return present(hours).low * 3600, present(hours).high * 3600


def once(value: float) -> tuple[object, object]:
    return pytest.approx(value), pytest.approx(value)


@pytest.mark.parametrize(
    ("name", "num_passes"),
    [
        # 300 epochs of 1,281,167 images, a forward pass and two more for the backward pass.
        ("deit-tiny-baseline-twicing", 300 * 1_281_167 * 3),
        # The cosine and the cool-down: 300 + 10 epochs.
        ("fan-tiny", 310 * 1_281_167 * 3),
        # 500,000 steps of 96 windows, however many epochs that are.
        ("wikitext-softmax-small", 500_000 * 96 * 3),
        # 8 epochs of 67,349 phrases, each filled up to the 512 words of the model.
        ("sst2-switch-medium", 8 * 67_349 * 3),
        # 12 epochs of 50,000 images, each forward and backward for an attack's step and for the weights.
        ("cifar10-adversarial-vit", 12 * 50_000 * 6),
        # 3 epochs of 1,694,467 words in windows of 64.
        ("sotu-lm", 3 * 1_694_467 / 64 * 3),
    ],
)
def test_a_training_is_the_passes_of_its_recipe(name: str, num_passes: float) -> None:
    assert seconds(forecast().training(ENTRIES[name])) == once(num_passes * 4e-4)


def test_a_teacher_passes_each_image_once_forward() -> None:
    taught = forecast(replace(PLAIN, teacher=5 * GIGA))
    found = seconds(taught.training(ENTRIES["deit-tiny-distilled-robust-kde"]))
    assert found == once(300 * 1_281_167 * (3 * 4e-4 + 1e-3))


@pytest.mark.parametrize(
    ("suite", "name", "model", "limit", "num_passes"),
    [
        ("imagenet-adv", "clean", "symvit", None, 50_000),
        # 20 steps, and the prediction of their result.
        ("imagenet-adv", "pgd-4", "symvit", None, 50_000 * (21 + 1.3 * 20)),
        ("imagenet-adv", "pgd-4", "symvit", 100, 100 * 47),
        ("imagenet-adv", "clean", "symvit", 60_000, 50_000),
        ("imagenet-square", "clean", "symvit", None, 1000),
        ("imagenet-square", "clean", "symvit", 200, 200),
        ("imagenet-square", "clean", "symvit", 2000, 1000),
        # A window for each of the test split's words; swapped words are compared with the clean ones.
        ("wikitext-103-swap", "clean", "wikitext-softmax-small", None, 245_569),
        ("wikitext-103-swap", "swap-4", "wikitext-softmax-small", None, 2 * 245_569),
        ("sst2-splits", "dev", "sst2-switch-medium", None, 872),
    ],
)
def test_a_measurement_is_the_passes_of_its_conditions(
    suite: str, name: str, model: str, limit: int | None, num_passes: float
) -> None:
    found = forecast().measuring(ENTRIES[model], [condition(suite, name)], limit)
    assert seconds(found) == once(num_passes * 2e-4)


def test_a_longer_stride_has_fewer_windows() -> None:
    entry = ENTRIES["wikitext-softmax-small"]
    entry = replace(entry, architecture=replace(entry.architecture, stride=64))  # type: ignore[type-var]  # a dataclass
    found = forecast().measuring(entry, [condition("wikitext-103-swap", "clean")])
    assert seconds(found) == once(245_569 / 64 * 2e-4)


def test_measured_ratios_are_the_other_bound_of_each_kind_of_pass() -> None:
    measured = Operations(
        inference=10 * GIGA, training=20 * GIGA, with_softmax=8 * GIGA, inference_ratio=1.5, training_ratio=1.0
    )
    # Forward 10 or 8 x 1.5 GMac, backward to the inputs 1.3 times 10 or 8 GMac.
    found = seconds(forecast(measured).measuring(ENTRIES["symvit"], [condition("imagenet-adv", "pgd-4")]))
    low, high = 21 * 10 + 26 * 8, 21 * 12 + 26 * 10
    assert found == (pytest.approx(50_000 * low * 2e-4), pytest.approx(50_000 * high * 2e-4))
    found = seconds(forecast(measured).training(ENTRIES["symvit"]))
    assert found == (pytest.approx(300 * 1_281_167 * 3 * 8 * 2e-4), pytest.approx(300 * 1_281_167 * 3 * 20 * 2e-4))


def test_what_is_unknown_makes_all_of_it_unknown() -> None:
    search = condition("sotu-eras-search", "search-unk")
    known = condition("sotu-eras-search", "clean")
    entry = ENTRIES["wikitext-softmax-small"]
    pages = condition("wikitext-103-swap", "clean")
    assert forecast().measuring(ENTRIES["symvit"], [known]) is not None
    assert forecast().measuring(ENTRIES["symvit"], [known, search]) is None
    # Only the files tell how many words the first articles have.
    assert forecast().measuring(entry, [pages], limit=5) is None
    assert forecast().measuring(ENTRIES["symvit"], [pages]) is None
    assert forecast(None).measuring(entry, [pages]) is None
    assert forecast(None).training(entry) is None
    assert forecast().training(replace(entry, training=None)) is None


@pytest.mark.parametrize(
    ("hours", "text"),
    [
        (Hours(0.0, 0.9 / 60), "under a minute"),
        (Hours(1 / 60, 1 / 60), "1 min"),
        (Hours(0.2, 0.25), "12-15 min"),
        (Hours(0.5, 2.04), "0.5-2 h"),
        (Hours(209.6, 344), "210-340 h"),
        (Hours(211, 214), "210 h"),
        (Hours(1234, 1234), "1,200 h"),
        (Hours(1, 2) + Hours(0.5, 1.5), "1.5-3.5 h"),
        (Hours(1, 2).times(3), "3-6 h"),
    ],
)
def test_hours_have_two_digits(hours: Hours, text: str) -> None:
    assert str(hours) == text


@pytest.mark.parametrize("speed", [0.0, -3.0, inf, -inf, nan])
def test_a_speed_that_is_none_is_refused_in_one_sentence(speed: float) -> None:
    wanted = f"--device-speed must be a number of TFLOPS above 0, got {speed:g}"
    done = CliRunner().invoke(command, ["rpc:1", f"--device-speed={speed}"], standalone_mode=False)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == wanted


def named() -> set[str]:
    """Return the models that cells name, and those whose weights their trainings start from."""
    models = {cell.model for table in shipped_tables().values() for cell in table.cells if cell.model is not None}
    initial = [getattr(ENTRIES[name].training, "initial_weights", None) for name in models]
    uris = {each.uri for each in initial if each is not None}
    return models | {name for name, each in ENTRIES.items() if each.weights.uri in uris}


def test_every_model_of_the_tables_has_its_operations() -> None:
    assert set(SHIPPED) == named(), "run scripts/operations.py"
    assert all(has_shipped_operations(ENTRIES[name]) for name in SHIPPED)
    uncounted = {name for name in SHIPPED if shipped_operations(ENTRIES[name]) is None}
    assert uncounted == {"wikitext-spkde-small", "wikitext-spkde-medium"}


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_shipped_operations_are_of_the_entry_as_it_is(name: str) -> None:
    kept, entry = SHIPPED[name], ENTRIES[name]
    assert kept["key"] == operations_key(entry), "run scripts/operations.py"
    if isinstance(getattr(entry.architecture, "attention", None), Softmax):
        assert kept["inference"] == kept["with_softmax"]
        # It is the same model.
        assert kept.get("times", {"inference": 1.0, "training": 1.0}) == {"inference": 1.0, "training": 1.0}


def test_another_architecture_is_not_one_of_the_tables() -> None:
    entry = ENTRIES["symvit"]
    assert not has_shipped_operations(replace(entry, architecture=replace(entry.architecture, depth=3)))  # type: ignore[type-var]  # a dataclass
