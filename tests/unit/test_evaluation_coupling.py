"""Rows that influence each other are found, however weakly and in whatever way; rows that do not are left alone."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import robench
from robench.core.flags import COUPLED_ROWS
from robench.core.protocols import Model
from robench.evaluation.coupling import (
    GRADIENTS_LIMIT,
    LOGITS_LIMIT,
    Coupling,
    Difference,
    _moved,
    coupling_observed,
    measure_coupling,
)
from robench.metrics.audits import flag_of

NUM_ROWS = 8
SEEDS = [100 + row for row in range(NUM_ROWS)]
NORM = nn.BatchNorm2d(3).eval().requires_grad_(False)
WEIGHT = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))


def images(num_rows: int = NUM_ROWS) -> Tensor:
    """Rows whose first pixel goes from 0 to 1, all others at random."""
    inputs = torch.rand(num_rows, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    inputs[:, 0, 0, 0] = torch.linspace(0, 1, num_rows)
    return inputs


def linear(inputs: Tensor) -> Tensor:
    return inputs.flatten(1) @ WEIGHT


class Calls:
    """A victim that computes what a function does, and notes the rows and seeds of each pass."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        self.function = function
        self.shown: list[Tensor] = []
        self.seeds: list[tuple[int, ...]] = []

    def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
        assert seeds is not None
        self.shown.append(inputs.detach().clone())
        self.seeds.append(tuple(seeds))
        return self.function(inputs)


def measured(function: Any, inputs: Tensor | None = None, num_copied: int | None = None) -> Coupling:
    inputs = images() if inputs is None else inputs
    victim: Model = Calls(function)  # type: ignore[assignment]  # all that is asked of a victim here
    coupling = measure_coupling(victim, inputs, SEEDS[: len(inputs)], num_copied)
    assert coupling is not None
    return coupling


def company(inputs: Tensor) -> Tensor:
    """What the largest first pixel of the batch is: 1 in the batch, 0 among copies of the first row."""
    return inputs[:, 0, 0, 0].max()


class Scaled(torch.autograd.Function):
    """The input as it is, with a gradient that the batch scales."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, factor: Tensor) -> Tensor:
        ctx.save_for_backward(factor)
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, *slopes: Any) -> Any:
        (factor,) = ctx.saved_tensors
        return slopes[0] * factor, None


APART: dict[str, tuple[Callable[[Tensor], Tensor], float]] = {
    "linear": (linear, 0.01),
    "batch norm on running statistics": (lambda inputs: linear(NORM(inputs)), 1),
    "confident, whose gradient is of rounding errors": (lambda inputs: 40 * linear(inputs), 1),
    "infinite logits that stay": (lambda inputs: torch.where(linear(inputs) > 0, torch.inf, linear(inputs)), 1),
    "nan everywhere": (lambda inputs: linear(inputs) * torch.nan, 0),
    "constant": (lambda inputs: 0 * linear(inputs), 0),
}


class TestRowsThatAreApart:
    @pytest.mark.parametrize("name", APART)
    def test_they_are_not_coupled(self, name: str) -> None:
        function, most = APART[name]
        assert measured(function).excess <= most

    @pytest.mark.parametrize(
        "name",
        [
            "digits-vit",
            *(
                pytest.param(each, marks=pytest.mark.slow)
                for each in (
                    "digits-mom-vit",
                    "digits-fourier-mom-vit",
                    "digits-spkde-released-vit",
                    "digits-nystrom-vit",
                )
            ),
        ],
    )
    def test_published_checkpoints_are_not_coupled(self, name: str) -> None:
        batch = robench.load_dataset("digits").batch(0, NUM_ROWS)
        found = measure_coupling(robench.load_checkpoint(name), batch.inputs, SEEDS)
        assert found is not None
        assert found.among_others.gradients is not None
        assert found.excess < 0.1

    def test_numbers_that_are_drawn_by_an_examples_seed_travel_with_it(self) -> None:
        class Drawing(Calls):
            def outputs(self, inputs: Tensor, seeds: Sequence[int] | None = None) -> Tensor:
                assert seeds is not None
                drawn = [torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
                return super().outputs(inputs + torch.stack(drawn), seeds)

        victim: Model = Drawing(linear)  # type: ignore[assignment]
        found = measure_coupling(victim, images(), SEEDS)
        assert found is not None
        assert found.excess < 0.01

    def test_a_model_that_draws_from_a_global_generator_is_random_and_not_coupled(self) -> None:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            found = measured(lambda inputs: linear(inputs + torch.randn_like(inputs)))
        assert found.repeated.logits > LOGITS_LIMIT
        assert not found.is_coupled


class TestPlantedCoupling:
    def test_batch_norm_on_batch_statistics(self) -> None:
        found = measured(lambda inputs: linear(nn.functional.batch_norm(inputs, None, None, training=True)))
        assert found.is_coupled
        assert found.among_others.logits > 100 * LOGITS_LIMIT
        assert found.among_others.gradients is not None
        assert found.among_others.gradients > 100 * GRADIENTS_LIMIT

    def test_batch_norm_is_found_beside_a_little_noise_from_a_global_generator(self) -> None:
        def noisy(inputs: Tensor) -> Tensor:
            noise = 1e-3 * torch.randn_like(inputs)
            return linear(nn.functional.batch_norm(inputs, None, None, training=True) + noise)

        with torch.random.fork_rng():
            torch.manual_seed(0)
            found = measured(noisy)
        assert found.repeated.logits > LOGITS_LIMIT
        assert found.is_coupled

    @pytest.mark.parametrize(("amount", "is_coupled"), [(1.01 * LOGITS_LIMIT, True), (0.99 * LOGITS_LIMIT, False)])
    def test_logits_count_from_a_ten_thousandth_of_their_range(self, amount: float, is_coupled: bool) -> None:
        # All logits of a row move alike, which no cross-entropy notices; without company they go from 0 to 2.
        found = measured(
            lambda inputs: torch.tensor([0.0, 1.0, 2.0]).double().expand(len(inputs), 3) + 2 * amount * company(inputs),
            images().double(),
        )
        assert found.among_others.logits == pytest.approx(amount, rel=1e-3)
        assert found.among_others.gradients == pytest.approx(0, abs=1e-6)
        assert found.is_coupled == is_coupled

    @pytest.mark.parametrize(
        ("amount", "is_coupled"), [(1.01 * GRADIENTS_LIMIT, True), (0.99 * GRADIENTS_LIMIT, False)]
    )
    def test_gradients_alone_count_from_a_thousandth(self, amount: float, is_coupled: bool) -> None:
        found = measured(lambda inputs: linear(Scaled.apply(inputs, 1 + amount * company(inputs.detach()))))
        assert found.among_others.logits < 0.01 * LOGITS_LIMIT
        assert found.among_others.gradients == pytest.approx(amount, rel=2e-3)
        assert found.is_coupled == is_coupled

    @pytest.mark.parametrize("receiver", range(NUM_ROWS - 1))
    def test_one_row_that_another_influences_by_its_content(self, receiver: int) -> None:
        """The row of the largest first pixel moves a single other one, wherever the two are."""

        def influenced(inputs: Tensor) -> Tensor:
            pixels = inputs[:, 0, 0, 0]
            is_receiver = (pixels - receiver / (NUM_ROWS - 1)).abs() < 1e-6
            return linear(inputs) + 0.1 * (is_receiver & (pixels.max() == 1)).float()[:, None]

        assert measured(influenced).is_coupled

    @pytest.mark.parametrize(("giver", "receiver"), [(0, 1), (2, 3), (7, 0), (3, 4)])
    def test_one_place_that_another_influences(self, giver: int, receiver: int) -> None:
        def influenced(inputs: Tensor) -> Tensor:
            logits = linear(inputs)
            moved = torch.zeros_like(logits)
            moved[receiver, 0] = 0.1 * logits[giver, 0]
            return logits + moved

        assert measured(influenced, num_copied=0).is_coupled
        assert measured(influenced, num_copied=4).is_coupled

    @pytest.mark.parametrize("neighbours", [lambda rows: rows.roll(1, 0), lambda rows: rows.flip(0)])
    def test_neighbours_and_opposite_rows_are_parted_by_the_permutation(self, neighbours: Any) -> None:
        assert measured(lambda inputs: linear(inputs) + 0.1 * neighbours(linear(inputs)), num_copied=0).is_coupled

    def test_the_mean_of_the_batch_shows_among_a_single_rows_copies_alone(self) -> None:
        def centred(inputs: Tensor) -> Tensor:
            return linear(inputs - inputs.mean(0, keepdim=True))

        assert not measured(centred, num_copied=0).is_coupled
        assert measured(centred, num_copied=1).is_coupled

    def test_a_weak_influence_on_a_confident_model(self) -> None:
        assert measured(lambda inputs: 40 * linear(inputs - 1e-3 * inputs.mean(0, keepdim=True))).is_coupled


class TestModelsThatChange:
    @pytest.mark.parametrize("after", [3, 5, 11])
    def test_one_that_changes_after_some_calls_is_not_called_coupled(self, after: int) -> None:
        calls = iter(range(100))
        found = measured(lambda inputs: linear(inputs) * (1 if next(calls) < after else 1.5))
        assert (found.is_coupled, found.changes) == (False, True)
        assert "changes with its calls or with time" in found.finding
        assert not flag_of(coupling_observed(found)).is_raised

    def test_one_that_is_random_does_not_change(self) -> None:
        generator = torch.Generator().manual_seed(0)
        found = measured(lambda inputs: linear(inputs) + 0.01 * torch.randn(5, generator=generator))
        assert not found.changes


class TestPasses:
    @pytest.mark.parametrize(("num_copied", "num_passes"), [(0, 4), (4, 8), (None, 4 + NUM_ROWS)])
    def test_each_has_as_many_rows_and_every_row_keeps_its_seed(self, num_copied: int | None, num_passes: int) -> None:
        victim, inputs = Calls(linear), images()
        measure_coupling(victim, inputs, SEEDS, num_copied)  # type: ignore[arg-type]
        assert [len(each) for each in victim.shown] == [NUM_ROWS] * num_passes
        row_of_seed = {seed: row for row, seed in enumerate(SEEDS)}
        for shown, seeds in zip(victim.shown, victim.seeds, strict=True):
            assert torch.equal(shown, inputs[[row_of_seed[seed] for seed in seeds]])
        assert victim.seeds[:2] == [tuple(SEEDS)] * 2
        assert sorted(victim.seeds[2]) == SEEDS
        assert victim.seeds[3:-1] == [(seed,) * NUM_ROWS for seed in SEEDS[:num_copied]]
        assert torch.equal(victim.shown[-1], inputs)

    @pytest.mark.parametrize("num_rows", [2, 3, 4, 5, 8, 32])
    def test_no_row_stays_in_its_place(self, num_rows: int) -> None:
        order = _moved(num_rows)
        assert sorted(order.tolist()) == list(range(num_rows))
        assert not (order == torch.arange(num_rows)).any()

    def test_it_gives_the_same_again_and_leaves_inputs_and_generators_alone(self) -> None:
        inputs, before = images(), torch.random.get_rng_state()
        assert measured(torch.cos, inputs.flatten(1)) == measured(torch.cos, inputs.flatten(1))
        assert torch.equal(inputs, images())
        assert not inputs.requires_grad
        assert torch.equal(torch.random.get_rng_state(), before)

    def test_gradients_are_compared_where_the_caller_wants_none(self) -> None:
        with torch.no_grad():
            assert measured(linear).among_others.gradients is not None

    def test_a_single_row_has_no_company(self) -> None:
        victim: Model = Calls(linear)  # type: ignore[assignment]
        assert measure_coupling(victim, images(1), SEEDS[:1]) is None
        flag = flag_of(coupling_observed(None))
        assert (flag.name, flag.value, flag.limit, flag.is_raised) == (COUPLED_ROWS, None, None, False)
        assert "single example" in flag.finding


def refuse(*arguments: object) -> Tensor:
    raise ValueError("no backward pass")


class Stubborn(torch.autograd.Function):
    """A function whose backward pass raises something that is no RuntimeError."""

    forward = staticmethod(lambda ctx, inputs: inputs.clone())
    backward = staticmethod(refuse)


class TestWithoutGradients:
    @pytest.mark.parametrize(
        "function",
        [
            lambda inputs: inputs.detach(),
            lambda inputs: torch.from_numpy(inputs.numpy()),
            Stubborn.apply,
            lambda inputs: torch.zeros_like(inputs, requires_grad=True),
        ],
        ids=["detached", "by numpy", "raises", "of another graph"],
    )
    def test_logits_are_compared_alone(self, function: Any) -> None:
        def normed(inputs: Tensor) -> Tensor:
            return function(inputs) - function(inputs).mean(0, keepdim=True) + inputs.detach().mean()

        apart = measured(lambda inputs: linear(function(inputs)))
        assert apart.among_others.gradients is None
        assert not apart.is_coupled
        assert "has no gradients" in apart.finding
        assert measured(lambda inputs: linear(normed(inputs))).is_coupled

    def test_what_a_model_raises_in_every_pass_is_raised(self) -> None:
        with pytest.raises(ValueError, match="no backward pass"):
            measured(refuse)


class TestNumbersThatAreNone:
    def test_a_row_that_is_nan_in_all_company_is_not_coupled(self) -> None:
        inputs = images()
        inputs[3] = torch.nan
        assert measured(linear, inputs).excess < 0.01

    @pytest.mark.parametrize("bad", [torch.nan, torch.inf])
    def test_one_row_that_spoils_the_others_is_coupled_by_a_finite_value(self, bad: float) -> None:
        inputs = images()
        inputs[3] = bad
        found = measured(lambda inputs: linear(inputs) + 0 * inputs.sum(), inputs)
        assert found.is_coupled
        assert math.isfinite(found.excess)
        assert found.among_others.logits == 1

    def test_gradients_that_are_nan_in_some_company_are_coupled(self) -> None:
        def spoilt(inputs: Tensor) -> Tensor:
            factor = torch.where(company(inputs.detach()) == 1, torch.nan, 1.0)
            return linear(Scaled.apply(inputs, factor))

        found = measured(spoilt)
        # Products of matrices of other sizes round differently on some CPUs.
        assert found.among_others.logits == pytest.approx(0, abs=1e-6)
        assert found.among_others.gradients == 1


class TestFlag:
    def test_it_has_the_excess_the_figures_and_what_to_do(self) -> None:
        flag = flag_of(
            coupling_observed(Coupling(num_rows=32, among_others=Difference(0.03, 0.4), repeated=Difference(0.0, 0.0)))
        )
        assert (flag.name, flag.limit, flag.is_raised) == (COUPLED_ROWS, 1.0, True)
        assert flag.value == pytest.approx(400)
        for figure in ("3.00%", "0.01%", "40.0%", "0.1%", "batches of 32"):
            assert figure in flag.finding
        assert "evaluation-mode statistics" in flag.advice
        assert "`coupled: true`" in flag.advice

    @pytest.mark.parametrize(
        ("logits", "gradients", "repeated", "excess"),
        [
            (2e-4, None, Difference(0.0, None), 2.0),
            (0.0, 2e-3, Difference(0.0, 0.0), 2.0),
            (2e-2, 0.0, Difference(1e-2, 0.0), 0.5),
            (0.0, 0.2, Difference(0.0, 0.1), 0.5),
            (2e-4, 2e-3, Difference(1e-5, 1e-4), 2.0),
        ],
    )
    def test_random_models_must_differ_by_several_times_what_they_differ_by_anyway(
        self, logits: float, gradients: float | None, repeated: Difference, excess: float
    ) -> None:
        found = Coupling(num_rows=8, among_others=Difference(logits, gradients), repeated=repeated)
        assert found.excess == pytest.approx(excess)
