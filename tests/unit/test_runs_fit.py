"""Models that do not fit their data, or are not what their entry says, are refused before anything is measured."""

import itertools
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from scipy.stats import binom

from examples import CHECKPOINT
from robench.core.errors import ExampleError, UsageError
from robench.core.shard import DatasetIdentity
from robench.datasets.base import stand_in
from robench.datasets.digits import DIGITS, DIGITS_A, DIGITS_R
from robench.declare import find_suites
from robench.evaluation.coupling import difference_of_calls
from robench.evaluation.model_checks import require_logits
from robench.runs.fit import NUM_EXAMPLES, check_fit, check_shapes
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
    def check(model: Callable[[torch.Tensor], torch.Tensor], dataset: Any = None, **changes: Any) -> None:
        class Victim:
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
                assert len(seeds) == len(inputs)
                return model(inputs)

        trained = replace(CHECKPOINT, trained_on="digits")
        victim: Any = Victim()
        check_fit(replace(trained, **changes), {DIGITS: dataset or Numbered()}, victim)

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


class TestClassesThatOnlyFilesTell:
    """Of datasets whose declaration does not say how many classes there are."""

    @pytest.fixture
    def fit_open(self) -> Callable[..., None]:
        class Victim:
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int]) -> torch.Tensor:
                return answers(31)(inputs)

        def check(dataset: Any) -> None:
            victim: Any = Victim()
            check_fit(CHECKPOINT, {stand_in("classification"): dataset}, victim)

        return check

    def test_the_opened_dataset_tells_them(self, fit_open: Callable[..., None]) -> None:
        dataset: Any = Numbered()
        dataset.num_classes = 10
        fit_open(dataset)
        dataset.num_classes = 12
        with pytest.raises(UsageError, match=r"gives 10 classes, but dataset 'any' has 12; .* \(num_classes in the"):
            fit_open(dataset)

    def test_where_it_does_not_either_nothing_is_said_of_them(self, fit_open: Callable[..., None]) -> None:
        fit_open(Numbered())
