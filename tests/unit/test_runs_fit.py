"""Before anything is measured: models that do not fit their data are refused, and hours are foretold."""

import itertools
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Robench
from scipy.stats import binom

from examples import CHECKPOINT, PROVENANCE, record_of
from robench.core.errors import ExampleError, UsageError
from robench.core.shard import DatasetIdentity
from robench.costs import DEFAULT_RULE
from robench.costs.counting import counts_of
from robench.datasets.base import stand_in
from robench.datasets.digits import DIGITS, DIGITS_A, DIGITS_R
from robench.declare import find_checkpoints, find_suites
from robench.evaluation.arithmetic import device_kind
from robench.evaluation.coupling import difference_of_calls
from robench.evaluation.model_checks import require_logits
from robench.runs import PreparedRun, RunRequest, choose_workers, prepare
from robench.runs.fit import NUM_EXAMPLES, check_fit, check_shapes
from robench.runs.outlook import NUMBERS_OF_WORKERS, outlook_of
from robench.scheduling.display import duration
from robench.scheduling.estimates import STARTUP_SECONDS, Estimate, Source, weighted_passes, work_of
from robench.store import MemoryStore
from robench.tasks.classification_impl import chance_of_at_most

SIZE = 40


class Numbered:
    """Images whose first pixel tells their class, some of which cannot be read."""

    identity = DatasetIdentity(name="digits", fingerprint="f", num_examples=SIZE)

    def __init__(self, unreadable: Sequence[int] = ()) -> None:
        self.unreadable = unreadable

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index in self.unreadable:
            raise ExampleError(f"no image {index}")
        return torch.full((3, 4, 4), (index % 10) / 10), index % 10


def answers(num_right: int, num_classes: int = 10) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a model that is right about the first so many of its images, by five logits."""

    def logits(inputs: torch.Tensor) -> torch.Tensor:
        classes = (inputs[:, 0, 0, 0] * 10).round().long()
        classes[num_right:] = (classes[num_right:] + 1) % 10
        return 5.0 * torch.nn.functional.one_hot(classes, num_classes).float()

    return logits


@pytest.fixture
def fit() -> Callable[..., None]:
    def check(
        model: Callable[[torch.Tensor], torch.Tensor], dataset: Any = None, declared: Any = DIGITS, **changes: Any
    ) -> None:
        class Victim:
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
                assert len(seeds) == len(inputs)
                return model(inputs)

        trained = replace(CHECKPOINT, trained_on="digits")
        victim: Any = Victim()
        opened: dict[Any, Any] = {declared: dataset or Numbered()}
        check_fit(replace(trained, **changes), opened, victim)

    return check


def centred(inputs: torch.Tensor) -> torch.Tensor:
    return answers(SIZE)(inputs) + inputs[:, :1, 0, 0] - inputs[:, 0, 0, 0].mean()


def raising(message: str, most: int = 0) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a model that takes at most so many rows."""

    def logits(inputs: torch.Tensor) -> torch.Tensor:
        if len(inputs) > most:
            raise ValueError(message)
        return answers(SIZE)(inputs)

    return logits


EXPECTED = {"expected": {"top1_accuracy": 0.98}}
FITTING: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Sequence[int], dict[str, Any]]] = {
    "as good as expected": (answers(31), (), EXPECTED),
    "better than expected": (answers(32), (), {"expected": {"top1_accuracy": 0.1}}),
    "nothing is expected": (answers(0), (), {"expected": {}}),
    "expected of other data": (answers(0), (), {**EXPECTED, "trained_on": "other"}),
    "not finite: left to its shards": (lambda inputs: torch.full((len(inputs), 10), torch.nan), (), EXPECTED),
    "unreadable examples are passed over": (answers(30), [0, 3], EXPECTED),
    "no readable example: left to its shards": (answers(0), range(SIZE), EXPECTED),
    "coupled rows are permitted": (centred, (), {"coupled": True}),
    "one readable row": (centred, range(1, SIZE), {}),
    "no readable row": (centred, range(SIZE), {}),
}
LIMITED = (
    r"model 'm' couples the rows .* up to [0-9.]+% of their range \(limit 0.01%\).*evaluation-mode.*`coupled: true`"
)
REFUSED: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], Sequence[int], dict[str, Any], str]] = {
    "far worse": (
        answers(12), (), EXPECTED,
        r"right about 12 of the first 32 examples of 'digits'.*expects 98.0%.*order of its classes",
    ),
    "another number of classes": (answers(32, 11), (), {}, "gives 11 classes, but dataset 'digits' has 10"),
    "other inputs": (raising("224"), (), {}, r"take the examples \(3, 4, 4\) of dataset 'digits': ValueError: 224"),
    "coupled rows": (centred, (), {"trained_on": "digits"}, LIMITED),
    "coupled rows of other data": (centred, (), {"trained_on": None}, LIMITED),
    "two readable rows": (centred, range(2, SIZE), {}, "batches of 8"),
    "a batch of eight": (raising("no memory", 4), (), {}, "take a batch of 8 examples: ValueError: no memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", FITTING)
def test_a_model_fits(fit: Callable[..., None], name: str) -> None:
    model, unreadable, changes = FITTING[name]
    fit(model, Numbered(unreadable), **changes)


@pytest.mark.parametrize("name", REFUSED)
def test_a_model_is_refused_with_what_was_found_and_what_to_do(fit: Callable[..., None], name: str) -> None:
    model, unreadable, changes, message = REFUSED[name]
    with pytest.raises(UsageError, match=message):
        fit(model, Numbered(unreadable), **changes)


def test_chance_is_the_binomial_distributions() -> None:
    for num_right in range(33):
        assert chance_of_at_most(num_right, 32, 0.72) == pytest.approx(binom.cdf(num_right, 32, 0.72))


def test_an_honest_model_is_refused_less_than_once_in_a_million() -> None:
    # The largest number of right answers that is refused, of a model that is right about 72 %.
    refused = max(k for k in range(NUM_EXAMPLES) if chance_of_at_most(k, NUM_EXAMPLES, 0.72) < 1e-6)
    assert binom.cdf(refused, NUM_EXAMPLES, 0.72) < 1e-6
    assert refused >= NUM_EXAMPLES // 10


# Values of the logits of four rows of two classes, or of others; what the message says they are.
@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ([[0.2, 0.8], [1.0, 0.0]], "probabilities"),
        ([[0.2, 0.8], [0.5, 0.6]], ""),  # four values may lie there by chance
        ([[0.2, 0.8]] * 3 + [[0.5, 0.6]], "outputs that all lie in [0, 1]"),
        ([[0.2, 0.8]] * 3 + [[0.5, 1.1]], ""),
        ([[0.2, 0.8]] * 3 + [[0.5, -0.1]], ""),
        ([[0.1, 0.3]] * 4, ""),  # such as cosines, and logits of random weights
        ([[0.0, 0.0]] * 4, ""),
        ([[0.2, 0.8]] * 3 + [[0.5, float("nan")]], ""),
    ],
)
def test_probabilities_and_sigmoids_are_no_logits(scores: list[list[float]], found: str) -> None:
    given = [torch.tensor(scores)]
    # Pixels of one image instead of rows, and rows of several datasets.
    for outputs in (given, [given[0].T[None, :, None]], list(given[0].split(1))):
        if not found:
            require_logits(outputs, "mine")
            continue
        with pytest.raises(UsageError, match=re.escape(f"model 'mine' gives {found}, wanted logits")) as caught:
            require_logits(outputs, "mine")
        assert ("subtract 1" in str(caught.value)) == (found != "probabilities")


@pytest.mark.parametrize("squash", [partial(torch.softmax, dim=1), torch.sigmoid, lambda logits: logits.sigmoid() ** 2])
def test_they_are_refused(fit: Callable[..., None], squash: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(UsageError, match="wanted logits"):
        fit(lambda inputs: squash(answers(32)(inputs)))
    # A constant beside logits changes nothing.
    fit(lambda inputs: squash(answers(32)(inputs)) - 1)


def test_other_channels_are_refused_with_options_that_leave_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (suite,) = find_suites(["digits-c"])
    check_shapes(suite.conditions, {DIGITS: Numbered()})
    monkeypatch.setattr(Numbered, "__getitem__", lambda *_: (torch.zeros(4, 8, 8), 0))
    kept = [each for each in suite.conditions if each.name != "snow-2"]
    with pytest.raises(UsageError, match=r"condition 'snow-1' on .*'digits': .* got \(4, 8, 8\); leave") as error:
        check_shapes(kept, {DIGITS: Numbered()})
    left_out = "'!snow-*' '!frost-*' '!jpeg_compression-*' '!spatter-*' '!saturate-*'"
    assert str(error.value).endswith(f"with --condition {left_out.replace(' ', ' --condition ')}")


def test_the_model_is_shown_four_examples_of_data_that_it_was_not_trained_for() -> None:
    shown = []

    class Victim:
        def outputs(self, inputs: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
            shown.append(len(inputs))
            return answers(32)(inputs)

    victim: Any = Victim()
    checkpoint = replace(CHECKPOINT, trained_on="digits", expected={"top1_accuracy": 0.98})
    check_fit(checkpoint, {DIGITS: Numbered(), DIGITS_R: Numbered(), DIGITS_A: Numbered(unreadable=[0])}, victim)
    assert shown == [32, 4, 4, *[2] * 8, *[8] * 8]


@pytest.mark.parametrize(
    ("is_other", "is_refused"),
    [
        *((lambda number, period=period: number % period == 1, True) for period in (2, 3, 4, 5)),
        (lambda number: number % 3 > 0, True),
        (lambda number: torch.is_grad_enabled(), True),
        (lambda number: number > 6, True),
        (lambda number: float(torch.rand(())) < 0.5, False),  # its choice begins anew
        (lambda number: random.random() < 0.5, False),
        (lambda number: 1 / (1 + number), False),  # no two answers are equal: left to the comparison of rows
        (lambda number: False, False),
    ],
)
@pytest.mark.parametrize("changes", [{}, {"coupled": True}])
def test_models_that_answer_in_turn_are_refused(
    fit: Callable[..., None], is_other: Callable[[int], float], is_refused: bool, changes: dict[str, Any]
) -> None:
    numbers = itertools.count()

    def turning(inputs: torch.Tensor) -> torch.Tensor:
        return answers(32)(inputs) + float(is_other(next(numbers))) * torch.eye(10)[0]

    dataset = Numbered()
    found: Any = type("Victim", (), {"outputs": lambda self, inputs, seeds: turning(inputs)})()
    message = "is not the same function at every call: of 8 successive answers .* by up to 16.67% of the range"
    if is_refused:
        with pytest.raises(UsageError, match=message):
            fit(turning, **changes)
    else:
        value = difference_of_calls(found, torch.stack([dataset[0][0], dataset[1][0]]), range(2))
        assert value == 0


def test_of_classes_that_no_declaration_tells_the_opened_dataset_does_or_nobody(fit: Callable[..., None]) -> None:
    dataset, declared = Numbered(), stand_in("classification")
    fit(answers(31), dataset, declared, trained_on=None)
    dataset.num_classes = 10  # type: ignore[attr-defined]
    fit(answers(31), dataset, declared, trained_on=None)
    dataset.num_classes = 12  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"gives 10 classes, but dataset 'any' has 12; .* \(num_classes in the"):
        fit(answers(31), dataset, declared, trained_on=None)


SECONDS = 0.02
CPU = device_kind(torch.device("cpu"))


@pytest.fixture(scope="module")
def prepared() -> PreparedRun:
    suites = find_suites(("digits-adv", "digits-sweep"), (), None)
    checkpoints = tuple(find_checkpoints(["digits-vit", "digits-symvit"], []))
    found = prepare(RunRequest(suites=suites, checkpoints=checkpoints, device="cpu", audit=False))
    return replace(found, seconds_per_example=dict.fromkeys(found.seconds_per_example, SECONDS))


def store_with(prepared: PreparedRun, condition: str, seconds: float, device: str = CPU) -> MemoryStore:
    """Return a store with the first shard of a condition of digits-vit."""
    shards = [each for each in prepared.shards if each.measurement.condition.name == condition]
    first = next(each for each in shards if each.measurement.checkpoint.name == "digits-vit")
    store = MemoryStore()
    store.put(record_of(first.header, provenance=replace(PROVENANCE, device=device, seconds=seconds)))
    return store


def test_a_total_counts_what_suites_share_once(prepared: PreparedRun) -> None:
    outlook = outlook_of(prepared, MemoryStore())
    shared = {"digits-adv": 0.0, "digits-sweep": 0.0}
    for each in outlook.conditions:
        assert each.num_examples == 1200
        assert each.sources == (Source.TIMED,)
        assert each.seconds is not None
        shared[each.suite] += each.seconds if each.condition == "clean" else 0.0
    passes = weighted_passes(prepared.shards[0].measurement.condition)
    assert passes is not None
    assert shared == {name: pytest.approx(1200 * SECONDS * passes) for name in shared}
    total = sum(each.seconds or 0.0 for each in outlook.conditions)
    assert outlook.work.seconds == pytest.approx(total - shared["digits-adv"])
    assert outlook.work.sources == {Source.TIMED: len({each.key for each in prepared.shards})}


def test_measured_seconds_come_before_timed_passes(prepared: PreparedRun) -> None:
    store = store_with(prepared, "pgd", 500.0)
    outlook = outlook_of(prepared, store)
    rows = {(each.suite, each.condition): each for each in outlook.conditions}
    pgd = rows["digits-adv", "pgd"]
    # Of digits-vit 500 examples at the measured 5 s, and 600 of the other model by its timed passes.
    condition = next(each.measurement.condition for each in prepared.shards if each.measurement.condition.name == "pgd")
    passes = weighted_passes(condition)
    assert passes is not None
    assert pgd.seconds == pytest.approx(500 * 5.0 + 600 * SECONDS * passes)
    assert pgd.sources == (Source.MEASURED, Source.TIMED)
    assert rows["digits-adv", "fgsm"].sources == (Source.SCALED, Source.TIMED)
    # The queue puts shards in order by the same numbers.
    cost = prepared.estimates(store).cost()
    measured = next(each for each in prepared.todo(store) if each.measurement.condition is condition)
    assert cost(measured) == pytest.approx(100 * 5.0)


def test_results_of_another_kind_of_device_do_not_count(prepared: PreparedRun) -> None:
    outlook = outlook_of(prepared, store_with(prepared, "pgd", 500.0, "NVIDIA H200"))
    assert {source for each in outlook.conditions for source in each.sources} == {Source.TIMED}


def test_more_workers_end_sooner_down_to_the_longest_shard(prepared: PreparedRun) -> None:
    outlook = outlook_of(prepared, MemoryStore())
    assert set(outlook.seconds_on) >= set(NUMBERS_OF_WORKERS)
    ends = [outlook.seconds_on[count] - STARTUP_SECONDS for count in NUMBERS_OF_WORKERS]
    assert outlook.work.seconds is not None
    longest = max(map(prepared.estimates(MemoryStore()).cost(), outlook.todo))
    assert ends[0] == pytest.approx(outlook.work.seconds)
    for count, end in zip(NUMBERS_OF_WORKERS, ends, strict=True):
        assert end == pytest.approx(max(longest, outlook.work.seconds / count))
    expected = outlook.seconds_on[outlook.num_workers] if outlook.num_workers else ends[0]
    assert outlook.seconds == pytest.approx(expected)


def test_at_a_stated_speed_the_seconds_of_a_pass_are_those_of_its_operations(prepared: PreparedRun) -> None:
    untimed = replace(prepared, seconds_per_example={})
    unknown = outlook_of(untimed, MemoryStore())
    assert (unknown.work.seconds, unknown.seconds, unknown.seconds_on) == (None, None, {})
    assert {each.seconds for each in unknown.conditions} == {None}
    outlook = outlook_of(prepared, MemoryStore(), flops_per_second=1e9)
    assert outlook.work.sources.keys() == {Source.COUNTED}
    clean = next(each for each in outlook.conditions if each.condition == "clean")
    counts = [counts_of(each.name, each.architecture, each.preprocessing) for each in prepared.request.checkpoints]
    # A forward pass of both models is 1 of 3 parts of a pair; a pair is 2.3 forward passes of two operations a term.
    flops = sum(2.3 * 2 * each.multiply_adds(DEFAULT_RULE) for each in counts)
    assert clean.seconds == pytest.approx(600 * flops / 3 / 1e9)


def test_passes_timed_on_a_cpu_serve_a_gpu_of_no_speed(prepared: PreparedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreparedRun, "device_kind", "NVIDIA H200")
    measurement = prepared.shards[-1].measurement
    passes = weighted_passes(measurement.condition)
    assert passes is not None
    alone = prepared.estimates(MemoryStore()).of_measurement(measurement)
    assert alone == Estimate(pytest.approx(SECONDS * passes), Source.TIMED_ON_CPU)
    counted = {measurement.checkpoint.name: Estimate(1e-4, Source.COUNTED)}
    both = prepared.estimates(MemoryStore(), counted).of_measurement(measurement)
    assert both == Estimate(pytest.approx(1e-4 * passes), Source.COUNTED)


def test_a_dry_run_prints_hours(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
    asked = ("run", "--suite", small_suite(), "--model", "digits-vit", "--results", tmp_path / "r", "--device", "cpu")
    plan = json.loads(robench(*asked, "--dry-run", "--json").stdout)
    assert plan["device"] == CPU
    assert list(plan["seconds_until_end_on_workers"])[:2] == ["1", "2"]
    assert {each["suite"] for each in plan["conditions"]} == {"small"}
    assert sum(each["seconds"] for each in plan["conditions"]) == pytest.approx(plan["seconds"])
    assert sum(plan["shards_by_source"].values()) == plan["todo"] == 9
    shown = robench(*asked, "--dry-run").stdout
    assert "of CPU time, from a few timed passes (9 shards)" in shown
    assert "until the end" in shown
    assert " on 64" in shown
    stated = robench(*asked, "--dry-run", "--device-speed", 0.001).stdout
    assert "of CPU time, from counted operations at the stated speed (9 shards)" in stated
    refused = robench(*asked, "--device-speed", 1)
    assert (refused.code, refused.stderr) == (2, "Error: --device-speed is for the hours of --dry-run; add it\n")
    assert robench(*asked).code == 0
    done = robench(*asked, "--dry-run")
    assert done.stdout == "9 shards, 9 kept, 0 to do (0 examples)\n"


@pytest.mark.parametrize(
    ("seconds", "asked", "in_process"),
    [
        (1e-6, {}, True),
        (100.0, {}, False),
        (None, {}, False),
        (1e-6, {"workers": 2}, False),
        (1e-6, {"executor": "processes"}, False),
        (1e-6, {"shard_timeout": 60.0}, False),
        (100.0, {"executor": "serial"}, True),
    ],
)
def test_workers_start_where_they_help_or_are_asked_for(
    prepared: PreparedRun,
    seconds: float | None,
    asked: dict[str, Any],
    in_process: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("robench.runs.devices.os.sched_getaffinity", lambda _: {0, 1})
    request = replace(prepared.request, **asked)
    workers = choose_workers("cpu", request.workers, request.executor, request.shard_timeout)
    timed = {} if seconds is None else dict.fromkeys(prepared.seconds_per_example, seconds)
    run = replace(prepared, request=request, asked=workers, seconds_per_example=timed)
    assert run.workers(work_of(run.shards, run.estimates(MemoryStore()))).in_process is in_process


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.01, "1 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (5999, "100 min"),
        (6000, "1.7 h"),
        (359_999, "100.0 h"),
        (3.6e7, "10,000 h"),
    ],
)
def test_durations_have_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text
