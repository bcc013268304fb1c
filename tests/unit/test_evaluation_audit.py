"""The audit: planted maskings are each flagged, and an honest model is not."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import robench
from robench.core.flags import Flag
from robench.core.protocols import Batch, Dataset
from robench.datasets.series_in_memory import dataset_of_series
from robench.domains.series import SERIES
from robench.domains.series_impl import PADDING, lengths
from robench.evaluation import audit as audits
from robench.evaluation import model_checks
from robench.evaluation.actions import AUDIT_PASSES
from robench.evaluation.audit import audit

EPSILON = Fraction(8, 255)
DIGITS = robench.load_dataset("digits")


class Small:
    """Two layers over the digits' 8x8 pixels, trained on the first 400 images; passes take a millisecond."""

    device = torch.device("cpu")
    normalisation = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)

    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor] = lambda logits: logits) -> None:
        self.model, self.change = trained(), change

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        return self.change(self.model(inputs))


@cache
def trained() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(192, 64), nn.GELU(), nn.Linear(64, 10))
        batch, optimizer = DIGITS.batch(0, 400), torch.optim.AdamW(model.parameters(), lr=0.01)
        for _ in range(60):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(batch.inputs), batch.targets).backward()
            optimizer.step()
    return model.eval().requires_grad_(False)


class Quantised(Small):
    """Pixels are rounded to eight levels, through which no gradient comes."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        return super().outputs((inputs * 7).round() / 7, seeds)


class Detached(Small):
    """Logits without a graph."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        return super().outputs(inputs.detach(), seeds)


class Centred(Small):
    """Statistics of the batch take part in each row."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        return super().outputs(inputs - 0.3 * inputs.mean(0, keepdim=True), seeds)


class Noisy(Small):
    """Noise at test time, another for each pass."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        assert seeds is not None
        noise = [torch.randn(3, 32, 32, generator=torch.Generator().manual_seed(seed % 2**63)) for seed in seeds]
        return super().outputs(inputs + 0.4 * torch.stack(noise), seeds)


class Wavering(Small):
    """Logits of images other than the digits are multiplied by 1 - amount or 1 + amount; the sum of pixels decides."""

    def __init__(self, amount: float) -> None:
        super().__init__()
        self.amount = amount

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        is_odd = (inputs.sum(dim=(1, 2, 3), dtype=torch.float64) * 1e6).floor() % 2
        clean = (inputs * 1024 % 1 == 0).all(dim=(1, 2, 3))
        factor = torch.where(clean, 1.0, 1 + self.amount * (2 * is_odd - 1))
        return super().outputs(inputs, seeds) * factor.to(inputs.dtype)[:, None]


class Steep(Small):
    """Near each image, the logit of its class is one, and linear with a large gradient of random signs."""

    batch = DIGITS.batch(0, 20)
    weights = torch.randn(3 * 32 * 32, generator=torch.Generator().manual_seed(1)).sign()

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        clean = self.batch.inputs.flatten(1)
        nearest = torch.cdist(inputs.detach().flatten(1), clean).argmin(1)
        steep = 1 + (inputs.flatten(1) - clean[nearest]) @ self.weights
        return torch.zeros(len(inputs), 10).scatter(1, self.batch.targets[nearest][:, None], steep[:, None])


def audited(victim: Any, num_examples: int, dataset: Dataset = DIGITS) -> list[Flag]:
    return audit(victim, dataset.batch(0, num_examples), dataset.identity, EPSILON)


def without_attacks(victim: Any, num_examples: int = 24, dataset: Dataset = DIGITS) -> dict[str, Flag]:
    """Return all checks but those that compare long attacks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(audits, "comparisons", lambda probe, num_classes, compares: [])
        return {flag.name: flag for flag in audited(victim, num_examples, dataset)}


class TestPlanted:
    def test_rounded_pixels_are_flagged_for_their_gradients(self) -> None:
        found = {name: flag for name, flag in without_attacks(Quantised()).items() if flag.is_raised}
        assert {"zero gradients", "unavailable gradients"} <= found.keys()
        assert "BPDA" in found["unavailable gradients"].advice
        assert "saturated" not in found["unavailable gradients"].finding

    @pytest.mark.parametrize(
        ("change", "finding"),
        [
            (lambda logits: logits.softmax(1), "the outputs are probabilities"),
            (lambda logits: (3 * logits).sigmoid(), "the model gives outputs that all lie in [0, 1]"),
        ],
    )
    def test_probabilities_are_flagged(self, change: Callable[[torch.Tensor], torch.Tensor], finding: str) -> None:
        flag = without_attacks(Small(change))["probabilities for logits"]
        assert flag.is_raised
        assert flag.finding == finding
        assert "logits" in flag.advice

    def test_a_detached_graph_is_flagged_and_its_error_told(self) -> None:
        found = {flag.name: flag for flag in audited(Detached(), 24) if flag.is_raised}
        assert {"zero gradients", "unavailable gradients"} <= found.keys()
        assert "fails: the model has no gradients by its inputs" in found["unavailable gradients"].finding

    def test_noise_at_test_time_is_flagged(self) -> None:
        flags = without_attacks(Noisy())
        assert flags["random victim"].is_raised
        assert flags["unstable predictions"].is_raised
        # The seeds of noise travel with their rows.
        assert not flags["coupled rows"].is_raised

    def test_rows_that_influence_each_other_are_flagged_with_value_limit_and_advice(self) -> None:
        flag = without_attacks(Centred())["coupled rows"]
        assert flag.is_raised
        assert flag.value is not None
        assert flag.limit is not None
        assert flag.value > 10 * flag.limit
        assert "of their range" in flag.finding
        assert "`coupled: true`" in flag.advice

    def test_a_single_example_has_no_company(self) -> None:
        flags = without_attacks(Small(), 1)
        assert (flags["coupled rows"].value, flags["coupled rows"].is_raised) == (None, False)

    def test_it_takes_at_most_32_rows_however_many_are_audited(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = []
        monkeypatch.setattr(model_checks, "measure_coupling", lambda victim, inputs, seeds: rows.append(len(inputs)))
        monkeypatch.setattr(audits, "indicators", lambda probe: [])
        without_attacks(Small(), 10)
        without_attacks(Small(), 60)
        assert rows[0] <= 10
        assert rows[1] == model_checks.COUPLING_ROWS

    def test_saturation_is_told_from_missing_gradients_and_the_remedy_is_another_loss(self) -> None:
        flags = {flag.name: flag for flag in audited(Small(lambda logits: 300 * logits), 24)}
        flag = flags["unavailable gradients"]
        assert flag.is_raised
        assert flag.finding.startswith("0% of the examples have no gradient at all")
        assert "saturated" in flag.finding
        assert "BPDA" not in flag.advice
        assert "margin or DLR loss" in flag.advice
        assert not flags["zero gradients"].is_raised
        # Attacks are made all the same, and fail nowhere.
        assert not flags["random search beats gradients"].is_raised
        assert not flags["unconstrained attack failure"].is_raised

    def test_of_both_each_has_its_proportion_and_its_remedy(self) -> None:
        def half_detached(logits: torch.Tensor) -> torch.Tensor:
            is_even = logits.detach().argmax(1, keepdim=True) % 2 == 0
            return 300 * torch.where(is_even, logits.detach(), logits)

        flag = without_attacks(Small(half_detached))["unavailable gradients"]
        assert flag.is_raised
        missing, saturated = (int(part.split("%")[0]) for part in flag.finding.split("; "))
        assert min(missing, saturated) > 20
        assert flag.value == pytest.approx((missing + saturated) / 100, abs=0.01)
        assert "BPDA" in flag.advice
        assert "margin or DLR loss" in flag.advice


class TestUnstablePredictions:
    def test_an_example_at_the_boundary_hardly_counts(self) -> None:
        """Subtract from one example's margin what leaves it almost nothing: its relative change has no bound."""
        batch = DIGITS.batch(0, 20)
        logits = trained()(batch.inputs).detach()
        right = int((logits.argmax(1) == batch.targets).nonzero()[0])
        target = int(batch.targets[right])
        others = logits[right].clone()
        others[target] = -torch.inf
        lead = float(logits[right, target] - others.max())

        def at_the_boundary(logits: torch.Tensor) -> torch.Tensor:
            moved = logits.clone()
            near = (logits[:, target] - others_of(logits, target) - lead).abs() < 0.5
            moved[near, target] -= lead - 1e-4
            return moved

        def others_of(logits: torch.Tensor, label: int) -> torch.Tensor:
            rest = logits.clone()
            rest[:, label] = -torch.inf
            return rest.amax(1)

        plain, moved = (
            without_attacks(victim, 20)["unstable predictions"].value for victim in (Small(), Small(at_the_boundary))
        )
        assert plain is not None
        # A mean of relative changes would rise by at least 1/20.
        assert moved == pytest.approx(plain, abs=0.01)

    def test_a_steep_model_is_not_unstable(self) -> None:
        """Its margins change by 40 % under the same noise, of which gradients explain all."""
        flags = without_attacks(Steep(), 20)
        assert flags["unstable predictions"].value == pytest.approx(0, abs=0.001)

    def test_margins_that_all_change_by_a_fifth_are_flagged(self) -> None:
        flag = without_attacks(Wavering(0.2), 12)["unstable predictions"]
        assert flag.is_raised
        assert flag.value == pytest.approx(0.2, rel=0.1)
        assert not without_attacks(Wavering(0.05), 12)["unstable predictions"].is_raised


class Counted(Small):
    """Small, which counts the rows of its passes."""

    num_forward = num_backward = 0

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        self.num_forward += len(inputs)
        logits = super().outputs(inputs, seeds)
        if logits.requires_grad:
            logits.register_hook(self.counted)
        return logits

    def counted(self, gradient: torch.Tensor) -> None:
        self.num_backward += len(gradient)


class TestAudit:
    def test_an_honest_model_is_not_flagged_in_the_declared_passes(self) -> None:
        victim = Counted()
        torch.manual_seed(3)
        before = torch.random.get_rng_state()
        flags = audited(victim, 24)
        assert torch.equal(torch.random.get_rng_state(), before)
        assert flags == audited(Small(), 24)
        assert not any(flag.is_raised for flag in flags)
        assert len({flag.name for flag in flags}) == len(flags) == 15
        assert all(flag.source and flag.finding and flag.advice for flag in flags)
        forward, backward = AUDIT_PASSES
        assert 0.8 * forward <= victim.num_forward / 24 <= forward
        assert 0.8 * backward <= victim.num_backward / 24 <= backward

    def test_of_a_model_that_is_never_right_nothing_more_is_asked_than_why(self) -> None:
        (flag,) = audited(Small(lambda logits: -logits), 20)
        assert flag.is_raised
        assert flag.finding == "the model is right about none of 20 clean examples"
        assert "preprocessing" in flag.advice

    def test_examples_that_are_wrong_when_clean_are_left_out(self) -> None:
        class Relabelled:
            identity = DIGITS.identity

            def __len__(self) -> int:
                return 20

            def batch(self, start: int, stop: int) -> Batch:
                batch = DIGITS.batch(start, stop)
                targets = batch.targets.clone()
                targets[:10] = (targets[:10] + 1) % 10
                return Batch(ids=batch.ids, inputs=batch.inputs, targets=targets)

        relabelled: Dataset = Relabelled()  # type: ignore[assignment]  # all that an audit asks for
        found = without_attacks(Small(), 20, relabelled)
        assert found["unconstrained attack failure"].value == 0


def waves(seed: int, scale: float = 1.0, num_examples: int = 60) -> Any:
    """Return series (T, 2) of 6 to 20 steps and three frequencies."""
    draw, series = np.random.default_rng(seed), []
    for number in range(num_examples):
        times = np.arange(draw.integers(6, 21))[:, None] + draw.uniform(0, 6, size=(1, 2))
        series.append(scale * (1.4 * np.sin((0.5 + number % 3) * times) + 0.1 * draw.normal(size=times.shape)))
    return dataset_of_series("waves", series, [number % 3 for number in range(num_examples)], num_steps=24)


WAVES = waves(seed=0)


class SmallOfSeries:
    """Means over the own steps of what two layers see in a step and the one before, trained on other waves."""

    device = torch.device("cpu")
    normalisation = torch.zeros(2), torch.ones(2)

    def __init__(self) -> None:
        self.layers, self.shown = trained_on_waves(), set[float]()

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        is_padding = inputs == PADDING
        self.shown.add(float(inputs.detach()[~is_padding].abs().max()))
        assert torch.equal(is_padding.any(-1), is_padding.all(-1))
        return of_steps(*self.layers, inputs)


def of_steps(first: nn.Module, last: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    is_own = (inputs != PADDING)[..., :1]
    values = torch.where(is_own, inputs, 0.0)
    pairs = torch.cat([values[:, 1:], values[:, :-1]], dim=2)
    logits: torch.Tensor = last((first(pairs) * is_own[:, 1:]).sum(1) / is_own[:, 1:].sum(1))
    return logits


@cache
def trained_on_waves() -> tuple[nn.Module, nn.Module]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(4, 32), nn.GELU()), nn.Linear(32, 3)
        batch = waves(seed=1).batch(0, 60)
        optimizer = torch.optim.AdamW([weight for layer in layers for weight in layer.parameters()], lr=0.02)
        for _ in range(150):
            optimizer.zero_grad()
            nn.functional.cross_entropy(of_steps(*layers, batch.inputs), batch.targets).backward()
            optimizer.step()
    return layers[0].requires_grad_(False), layers[1].requires_grad_(False)


class RoundedSeries(SmallOfSeries):
    """Values are rounded to multiples of a deviation, through which no gradient comes."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        return super().outputs(torch.where(inputs == PADDING, inputs, inputs.round()), seeds)


class Misled(SmallOfSeries):
    """Gradients are there and point away from where the loss rises."""

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        logits = super().outputs(inputs, seeds)
        return 2 * logits.detach() - logits


class TestSeries:
    def raised(self, victim: Any, dataset: Any = WAVES) -> dict[str, Flag]:
        return {flag.name: flag for flag in self.audited(victim, dataset) if flag.is_raised}

    def audited(self, victim: Any, dataset: Any = WAVES) -> list[Flag]:
        epsilon = SERIES.audit_epsilon
        assert epsilon is not None
        return audit(victim, dataset.batch(0, 24), dataset.identity, epsilon)

    @pytest.mark.slow
    def test_an_honest_model_is_not_flagged_and_its_padding_never_moves(self) -> None:
        victim = SmallOfSeries()
        flags = {flag.name: flag for flag in self.audited(victim)}
        assert {name: flag for name, flag in flags.items() if flag.is_raised} == {}
        assert len(flags) == 15
        assert flags["random search beats gradients"].finding.startswith("Square of 500 queries")
        assert "than gradients explain within 0.05" in flags["unstable predictions"].finding
        # The largest step of all is from one end of the data to the other, as waves of 1.4 with noise need.
        half = float(SERIES.rules.half_range(WAVES.batch(0, 24).inputs))
        assert 1.4 < half < 2
        assert 2 * half < max(victim.shown) < 1.8 + 2 * half

    def test_rounded_values_are_flagged(self) -> None:
        found = self.raised(RoundedSeries())
        assert {"zero gradients", "unavailable gradients", "right at any distance"} <= found.keys()
        assert "at linf 1.6, where all inputs can be made equal" in found["right at any distance"].finding
        assert "without gradients (square-series), or" in found["zero gradients"].advice

    def test_gradients_that_mislead_are_flagged_by_what_needs_a_distance(self) -> None:
        found = self.raised(Misled())
        assert found.keys() == {"unconstrained attack failure", "right at any distance", "attacks chosen by the audit"}

    @pytest.mark.slow
    def test_data_in_another_unit_have_a_distance_of_their_own(self) -> None:
        """A model of values a thousand times as large would be right within any distance of a few deviations."""
        large = waves(seed=0, scale=1000.0)

        class OfLarge(SmallOfSeries):
            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                return super().outputs(torch.where(inputs == PADDING, inputs, inputs / 1000), seeds)

        assert "right at any distance" not in self.raised(OfLarge(), large)
        assert int(lengths(large.batch(0, 24).inputs).min()) < 24
