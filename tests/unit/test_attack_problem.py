"""What every attack meets: rows, passes, draws, counts and spaces."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
import torch

from robench.attacks.attack import problem_of
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.attacks.problem import Problem
from robench.core.errors import ContractError
from robench.core.protocols import Batch
from robench.core.seeds import Stream
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.tasks.classification_impl import cross_entropy_loss, dlr_loss, margin_loss

EPSILON = Fraction(8, 255)
FGSM = Fgsm(epsilon=EPSILON)
MEAN, STD = torch.tensor([0.4, 0.5]).view(2, 1, 1), torch.tensor([0.2, 0.25]).view(2, 1, 1)


class Noisy:
    """A linear victim whose logits move by noise that the seeds decide; it notes what it was shown."""

    device = torch.device("cpu")
    normalisation = MEAN, STD

    takes_seeds: bool

    def __init__(self, noise: float = 0.0) -> None:
        self.weight = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
        self.noise = noise
        self.takes_seeds = True
        self.seen: list[torch.Tensor] = []
        self.seeds: list[tuple[int, ...]] = []
        self.is_inference: list[bool] = []

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        assert seeds is not None
        assert len(seeds) == len(inputs)
        self.seen.append(inputs.detach().clone())
        self.seeds.append(tuple(seeds))
        self.is_inference.append(torch.is_inference_mode_enabled())
        drawn = [torch.randn(3, generator=torch.Generator().manual_seed(seed % 2**63)) for seed in seeds]
        return inputs.flatten(1) @ self.weight.T + self.noise * torch.stack(drawn)


class Deaf(Noisy):
    """A victim that reads no seed, though it is given one for each row."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        assert seeds is not None
        assert len(seeds) == len(inputs)
        self.seen.append(inputs)
        return inputs.flatten(1) @ self.weight.T


def batch_of(num_examples: int = 10) -> Batch:
    inputs = torch.rand(num_examples, 2, 2, 2, generator=torch.Generator().manual_seed(2))
    return Batch(ids=tuple(f"e{i}" for i in range(num_examples)), inputs=inputs, targets=torch.arange(num_examples) % 3)


def weighed(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    return weights * margin_loss(logits, labels)


def each_of(met: Problem, points: torch.Tensor, losses: Any) -> list[Any]:
    return list(met.differentiate_each(points, losses))


def problem(victim: Noisy, declaration: Any = FGSM, num_examples: int = 10, batch_size: int = 10) -> Problem:
    batch = batch_of(num_examples)
    met = problem_of(declaration, batch, victim, ExampleDraws(range(num_examples)), batch_size)
    return met.at(search=0, step=0)


class TestPasses:
    def test_more_rows_than_a_batch_are_shown_in_pieces(self) -> None:
        victim = Noisy()
        met = problem(victim, num_examples=25, batch_size=10)
        passed = met.evaluate(met.inputs, cross_entropy_loss)
        assert [len(seen) for seen in victim.seen] == [10, 10, 8]
        assert [len(seeds) for seeds in victim.seeds] == [10, 10, 8]
        torch.testing.assert_close(passed.outputs, met.inputs.flatten(1) @ victim.weight.T)

    def test_padding_leaves_results_and_counts_alone(self) -> None:
        victim = Noisy(noise=0.3)
        whole = problem(victim)
        few = whole.take(torch.tensor([7, 2]))
        passed = few.differentiate(few.inputs, margin_loss)
        assert len(victim.seen[-1]) == 4
        assert victim.seeds[-1][1:] == victim.seeds[-1][1:2] * 3
        again = problem(Noisy(noise=0.3))
        wanted = again.differentiate(again.inputs, margin_loss)
        torch.testing.assert_close(passed.gradient(), wanted.gradient()[[7, 2]])
        torch.testing.assert_close(passed.outputs, wanted.outputs[[7, 2]])
        assert whole.ledger.num_gradients.tolist() == [0, 0, 1, 0, 0, 0, 0, 1, 0, 0]

    @pytest.mark.parametrize("batch_size", [3, 4, 7, 25])
    def test_gradients_are_those_of_all_rows_at_once_whatever_a_pass_holds(self, batch_size: int) -> None:
        met, whole = (problem(Noisy(noise=0.3), num_examples=25, batch_size=size) for size in (batch_size, 25))
        weights = torch.linspace(-1, 2, 25)
        found = met.differentiate(met.inputs, weighed, beside=[weights])
        wanted = whole.differentiate(whole.inputs, weighed, beside=[weights])
        torch.testing.assert_close(found.gradient(), wanted.gradient())
        for name in ("outputs", "values"):
            torch.testing.assert_close(getattr(found, name), getattr(wanted, name))

    def test_a_row_has_what_stands_beside_it(self) -> None:
        met, weights = problem(Noisy(), batch_size=4), torch.linspace(-1, 2, 10)
        plain = met.differentiate(met.inputs, margin_loss)
        for passed in (
            met.differentiate(met.inputs, weighed, beside=[weights]),
            met.evaluate(met.inputs, weighed, beside=[weights]),
        ):
            torch.testing.assert_close(passed.values, weights * plain.values)
        gradient = met.differentiate(met.inputs, weighed, beside=[weights]).gradient()
        torch.testing.assert_close(gradient, weights.view(-1, 1, 1, 1) * plain.gradient())

    def test_the_gradient_of_a_batch_is_taken_before_the_next_batch_is_shown(self) -> None:
        met, events = problem(victim := Noisy(), num_examples=30, batch_size=10), []

        def noting(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            events.append(len(victim.seen))
            return margin_loss(logits, labels)

        met.differentiate(met.inputs, noting)
        assert events == [1, 2, 3]

    def test_what_a_pass_gives_can_be_used_in_a_later_gradient(self) -> None:
        met = problem(Noisy())
        values = met.evaluate(met.inputs, cross_entropy_loss).values
        weight = torch.ones(10, requires_grad=True)
        (values * weight).sum().backward()
        assert torch.equal(weight.grad if weight.grad is not None else weight, values)


class TestDraws:
    def test_every_pass_has_draws_of_its_own_and_none_has_the_predictions(self) -> None:
        victim = Noisy(noise=0.1)
        pgd = Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=3, num_draws=4)
        draws = ExampleDraws(range(10))
        perturb(pgd, batch_of(), victim, draws)
        seeds = [seed for of_pass in victim.seeds for seed in of_pass]
        assert len(victim.seeds) == 3 * 4 + 1
        assert len(set(seeds)) == len(seeds)
        assert not set(seeds) & set(draws.prediction_seeds)

    def test_a_pass_without_an_address_is_refused_whatever_the_victim_draws(self) -> None:
        for victim in (Noisy(), Deaf()):
            met = problem_of(FGSM, batch_of(), victim, ExampleDraws(range(10)), 10)
            for part in (met, met.within("member 0")):
                passes: list[tuple[Callable[..., Any], Any, Any]] = [
                    (part.evaluate, met.inputs, (margin_loss,)),
                    (part.differentiate, met.inputs, (margin_loss,)),
                    (partial(each_of, part), met.inputs, ([margin_loss],)),
                    (part.sample, met.inputs[:, None], (margin_loss, [0])),
                ]
                for make, points, others in passes:
                    with pytest.raises(ContractError, match=r"without an address .*take problem.at\(search=..., step="):
                        make(points, *others)
            met.predict(met.inputs)

    def test_addresses_that_differ_in_anything_have_other_draws(self) -> None:
        victim = Noisy()
        whole = problem_of(FGSM, batch_of(), victim, ExampleDraws(range(10)), 10)
        parts = (whole, whole.within("a"), whole.within("b"), whole.within("a").within("b"))
        for part in parts:
            for search, step in ((0, 0), (0, 1), (1, 0)):
                part.at(search=search, step=step).evaluate(whole.inputs, margin_loss)
        # The same address again goes on with the passes made there.
        whole.at(search=0, step=0).evaluate(whole.inputs, margin_loss)
        seeds = [seed for of_pass in victim.seeds for seed in of_pass]
        assert len(set(seeds)) == len(seeds) == (4 * 3 + 1) * 10

    def test_each_row_counts_its_own_passes(self) -> None:
        """The passes of some rows alone, made between two of all, move no other row's draws."""
        victim, other = Noisy(), Noisy()
        met, undisturbed = problem(victim), problem(other)
        some = torch.tensor([2, 7])
        met.evaluate(met.inputs, margin_loss)
        met.take(some).evaluate(met.inputs[some], margin_loss)
        met.evaluate(met.inputs, margin_loss)
        for _ in range(3):
            undisturbed.evaluate(met.inputs, margin_loss)
        first, of_some, second = victim.seeds
        assert first == other.seeds[0]
        assert of_some[:2] == tuple(other.seeds[1][row] for row in (2, 7))
        assert second == tuple(other.seeds[2 if row in (2, 7) else 1][row] for row in range(10))

    def test_points_of_a_sample_with_the_same_number_share_their_draws_and_no_others_do(self) -> None:
        victim = Noisy()
        met = problem(victim, num_examples=2, batch_size=12)
        points = met.inputs[:, None].repeat(1, 4, 1, 1, 1)
        for _ in range(2):
            met.sample(points, margin_loss, [0, 1, 0, 1])
        first, second = (of_pass[:8] for of_pass in victim.seeds)
        for seeds in (first, second):
            assert (seeds[0], seeds[1], seeds[4], seeds[5]) == (seeds[2], seeds[3], seeds[6], seeds[7])
        assert len({*first, *second}) == 8
        assert not {*first, *second} & {*met.draws.prediction_seeds}

    def test_labels_of_several_axes_stay_with_their_rows_in_a_sample(self) -> None:
        def sums(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            assert labels.shape == (len(outputs), 2, 2)
            return labels.flatten(1).sum(1).float()

        met = problem(Noisy(), num_examples=3, batch_size=12)
        labels = torch.arange(12).view(3, 2, 2)
        points = met.inputs[:, None].repeat(1, 4, 1, 1, 1)
        found = replace(met, labels=labels).sample(points, sums, range(4))
        assert found.tolist() == [[6.0] * 4, [22.0] * 4, [38.0] * 4]

    def test_gradients_of_several_draws_are_averaged_and_counted(self) -> None:
        met = problem(Noisy(noise=1.0))
        singles = [met.differentiate(met.inputs, cross_entropy_loss) for _ in range(5)]
        again = problem(Noisy(noise=1.0))
        mean = again.differentiate(again.inputs, cross_entropy_loss, num_draws=5)
        torch.testing.assert_close(mean.gradient(), torch.stack([each.gradient() for each in singles]).mean(0))
        torch.testing.assert_close(mean.values, torch.stack([each.values for each in singles]).mean(0))
        assert again.ledger.num_gradients.tolist() == [5] * 10
        assert again.ledger.num_queries.tolist() == [5] * 10

    def test_the_worst_of_several_draws_is_each_rows_own(self) -> None:
        met, again = (problem(Noisy(noise=1.0)) for _ in range(2))
        singles = [met.differentiate(met.inputs, cross_entropy_loss) for _ in range(5)]
        worst = replace(again, over_draws="worst").differentiate(again.inputs, cross_entropy_loss, num_draws=5)
        chosen = [min(range(5), key=lambda draw, row=row: float(singles[draw].values[row])) for row in range(10)]
        assert len(set(chosen)) > 2
        for row, draw in enumerate(chosen):
            assert torch.equal(worst.values[row], singles[draw].values[row])
            assert torch.equal(worst.outputs[row], singles[draw].outputs[row])
            assert torch.equal(worst.gradient()[row], singles[draw].gradient()[row])
        assert again.ledger.num_gradients.tolist() == [5] * 10
        third = replace(problem(Noisy(noise=1.0)), over_draws="worst")
        seen = third.evaluate(third.inputs, cross_entropy_loss, num_draws=5)
        assert torch.equal(seen.values, worst.values)
        assert torch.equal(seen.outputs, worst.outputs)
        assert not seen.values.is_inference()

    def test_the_probability_over_several_draws_has_the_gradient_of_its_logarithm(self) -> None:
        met, again = (problem(Noisy(noise=1.0)) for _ in range(2))
        singles = [met.differentiate(met.inputs, cross_entropy_loss) for _ in range(5)]
        found = replace(again, over_draws="probability").differentiate(again.inputs, cross_entropy_loss, num_draws=5)
        probabilities = torch.stack([(-each.values).exp() for each in singles])
        torch.testing.assert_close(found.values, -probabilities.mean(0).log())
        # d(-log mean p) is the mean of p times d(-log p), over the mean of p.
        weighted = sum(p[:, None] * each.gradient().flatten(1) for p, each in zip(probabilities, singles, strict=True))
        torch.testing.assert_close(found.gradient().flatten(1), weighted / probabilities.sum(0)[:, None])
        torch.testing.assert_close(found.outputs, torch.stack([each.outputs for each in singles]).mean(0))
        third = replace(problem(Noisy(noise=1.0)), over_draws="probability")
        torch.testing.assert_close(third.evaluate(third.inputs, cross_entropy_loss, num_draws=5).values, found.values)

    def test_seeds_that_a_victim_does_not_read_are_never_made(self) -> None:
        made: list[Stream] = []

        class Counting(ExampleDraws):
            def seeds(self, stream: Stream) -> tuple[int, ...]:
                made.append(stream)
                return super().seeds(stream)

        for victim, num_made in ((Deaf(), 0), (Noisy(), 3)):
            met = problem_of(FGSM, batch_of(), victim, Counting(range(10)), 4).at(search=0, step=0)
            met.evaluate(met.inputs, margin_loss)
            met.differentiate(met.inputs, margin_loss)
            met.predict(met.inputs)
            assert len(made) == num_made

    @pytest.mark.parametrize("takes_seeds", [True, False])
    @pytest.mark.parametrize("reads", [True, False])
    def test_a_pass_is_final_if_the_victim_draws_from_seeds_and_read_none(self, takes_seeds: bool, reads: bool) -> None:
        class Reading(Noisy):
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                # Of the last row alone: one is enough.
                assert seeds is not None
                noise = seeds[len(inputs) - 1] % 7 if reads else 0
                return inputs.flatten(1) @ self.weight.T + noise

        victim = Reading()
        victim.takes_seeds = takes_seeds
        met = problem(victim, batch_size=4)
        for ask in (met.evaluate, met.differentiate):
            assert ask(met.inputs, margin_loss).is_final == (takes_seeds and not reads)
            assert not ask(met.inputs, margin_loss, num_draws=2).is_final

    def test_an_unknown_victim_may_draw_whatever_it_reads(self) -> None:
        victim = Deaf()
        del victim.takes_seeds
        met = problem(victim)
        assert not met.evaluate(met.inputs, margin_loss).is_final


class TestSeveralLosses:
    LOSSES = (cross_entropy_loss, margin_loss, dlr_loss)

    @pytest.mark.parametrize("batch_size", [4, 10])
    def test_each_has_the_gradient_that_it_has_alone(self, batch_size: int) -> None:
        met, again = (problem(Noisy(noise=1.0), batch_size=batch_size) for _ in range(2))
        for found, loss in zip(met.differentiate_each(met.inputs, self.LOSSES), self.LOSSES, strict=True):
            wanted = again.differentiate(again.inputs, loss)
            torch.testing.assert_close(found.gradient(), wanted.gradient(), rtol=0, atol=0)
            for name in ("outputs", "values"):
                torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=0, atol=0)
        assert torch.equal(met.ledger.num_gradients, again.ledger.num_gradients)

    def test_one_that_draws_nothing_is_asked_once_for_all(self) -> None:
        met = problem(victim := Deaf())
        passes = list(met.differentiate_each(met.inputs, self.LOSSES))
        assert len(victim.seen) == 1
        assert met.ledger.num_queries.tolist() == [1] * 10
        assert met.ledger.num_gradients.tolist() == [3] * 10
        for passed, loss in zip(passes, self.LOSSES, strict=True):
            wanted = met.differentiate(met.inputs, loss)
            torch.testing.assert_close(passed.gradient(), wanted.gradient(), rtol=0, atol=0)


class TestSpaces:
    def test_in_normalised_space_a_step_is_a_deviation_in_pixels(self) -> None:
        batch = batch_of()
        inside = Batch(ids=batch.ids, inputs=0.3 + 0.4 * batch.inputs, targets=batch.targets)
        fgsm = Fgsm(epsilon=Fraction(1, 10), space="normalised")
        change = perturb(fgsm, inside, Noisy(), ExampleDraws(range(10))).inputs - inside.inputs
        torch.testing.assert_close(change.abs(), (STD / 10).expand_as(change), rtol=1e-5, atol=0)

    @pytest.mark.parametrize("space", ["input", "normalised"])
    def test_the_box_is_that_of_pixels_unless_there_is_none(self, space: Any) -> None:
        batch = batch_of()
        extreme = Batch(ids=batch.ids, inputs=batch.inputs.round(), targets=batch.targets)
        boxed, free = (
            perturb(replace(FGSM, space=space, clip=clip), extreme, Noisy(), ExampleDraws(range(10))).inputs
            for clip in ("box", "none")
        )
        assert float(boxed.min()) >= 0
        assert float(boxed.max()) <= 1
        assert float(free.min()) < 0 or float(free.max()) > 1

    @pytest.mark.parametrize("space", ["input", "normalised"])
    def test_what_is_not_moved_is_returned_bit_by_bit(self, space: Any) -> None:
        batch = batch_of()
        same = perturb(Fgsm(epsilon=Fraction(0), space=space), batch, Noisy(), ExampleDraws(range(10))).inputs
        assert torch.equal(same, batch.inputs)

    def test_predicted_labels_are_those_of_the_clean_prediction(self) -> None:
        victim = Noisy()
        met = problem(victim, Fgsm(epsilon=EPSILON, labels="predicted"))
        assert torch.equal(met.labels, (batch_of().inputs.flatten(1) @ victim.weight.T).argmax(1))
        assert not torch.equal(met.labels, batch_of().targets)
