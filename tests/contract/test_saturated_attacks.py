"""Models whose logits are so far apart that float32 rounds the cross-entropy to 0 hide nothing from attacks on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
import torch
from attack_examples import CurvedVictim, LinearVictim, SmoothVictim, anywhere, attacked, margins, predicted_by
from test_perturbations_contract import EXAMPLES
from torch.nn.functional import cross_entropy, softplus

import robench
from robench.attacks.apgd import Apgd
from robench.attacks.base import Attack
from robench.attacks.fgsm import Fgsm
from robench.attacks.pgd import Pgd
from robench.core.protocols import Batch
from robench.tasks.base import resolved
from robench.tasks.classification_impl import LOSSES, margin_loss
from robench.testing.models import DrawingModel, drawing_batch

EPSILON = Fraction(8, 255)
ON_CROSS_ENTROPY = {
    **{name: each for name, each in EXAMPLES.items() if isinstance(each, Attack) and each.loss == "ce"},
    "apgd-l2": Apgd(norm="l2", epsilon=Fraction(1, 2), num_steps=12),
    "apgd-l1": Apgd(norm="l1", epsilon=Fraction(2), num_steps=12),
    "pgd-l1": Pgd(norm="l1", epsilon=Fraction(2), step_size=Fraction(1, 2), num_steps=8),
    "pgd-momentum": Pgd(epsilon=EPSILON, step_size=Fraction(2, 255), num_steps=8, momentum=0.75),
    "autoattack": EXAMPLES["autoattack"],
}


@resolved
def former(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy as it is, whose gradient underflows."""
    return cross_entropy(logits, labels, reduction="none")


class Scaled:
    """Model with the logits of another times a factor."""

    def __init__(self, model: Any, factor: float) -> None:
        self.model, self.factor = model, factor
        self.device, self.normalisation = model.device, model.normalisation

    def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
        logits: torch.Tensor = self.factor * self.model.outputs(inputs, seeds)
        return logits

    def with_gradients(self, mode: str) -> Scaled:
        return self


def num_right(model: Any, batch: Batch, declaration: Attack) -> int:
    return int((margins(attacked(declaration, batch, model).inputs, batch, model) < 0).sum())


class TestBitsOfOtherModels:
    @pytest.mark.parametrize("name", ON_CROSS_ENTROPY)
    @pytest.mark.parametrize("model", [LinearVictim(), SmoothVictim(), CurvedVictim(), DrawingModel()], ids=type)
    def test_are_those_of_the_plain_cross_entropy(self, name: str, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        batch = drawing_batch(6) if isinstance(model, DrawingModel) else anywhere(6)
        made = attacked(ON_CROSS_ENTROPY[name], batch, model).inputs
        monkeypatch.setitem(LOSSES, "ce", former)  # type: ignore[misc]  # a mapping that nothing else writes to
        assert torch.equal(made, attacked(ON_CROSS_ENTROPY[name], batch, model).inputs)

    @pytest.mark.parametrize("checkpoint", ["digits-vit", pytest.param("digits-fan", marks=pytest.mark.slow)])
    def test_of_the_registry_are_too(self, checkpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
        model, batch = robench.load_checkpoint(checkpoint), robench.load_dataset("digits").batch(0, 4)
        declared = [ON_CROSS_ENTROPY[name] for name in ("fgsm", "pgd-l2", "apgd")]
        made = [attacked(each, batch, model).inputs for each in declared]
        monkeypatch.setitem(LOSSES, "ce", former)  # type: ignore[misc]  # a mapping that nothing else writes to
        for points, each in zip(made, declared, strict=True):
            assert torch.equal(points, attacked(each, batch, model).inputs)

    def test_do_not_depend_on_saturated_examples_beside_them(self) -> None:
        class Mixed(LinearVictim):
            """Every second example of a batch of six is saturated."""

            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                factors = torch.tensor([1.0, 1e3]).repeat(4)[: len(inputs), None]
                return factors * super().outputs(inputs)

        batch, pgd = predicted_by(LinearVictim(), anywhere(8)), ON_CROSS_ENTROPY["pgd"]
        mixed, alone = (attacked(pgd, batch, model).inputs for model in (Mixed(), LinearVictim()))
        assert torch.equal(mixed[::2], alone[::2])


class TestSaturated:
    @pytest.mark.parametrize("name", ["fgsm", "fgsm-l2", "pgd", "pgd-l2", "sparse-l1"])
    @pytest.mark.parametrize("factor", [64.0, 512.0, 4096.0])
    def test_of_two_classes_points_do_not_depend_on_the_scale_of_logits(self, name: str, factor: float) -> None:
        model = LinearVictim(num_classes=2)
        batch, declared = predicted_by(model, anywhere(12)), ON_CROSS_ENTROPY[name]
        wanted, found = (attacked(declared, batch, each).inputs for each in (model, Scaled(model, factor)))
        # Of leads between 8 and 17 float32 rounds the label's part of the gradient.
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)

    @pytest.mark.parametrize("name", ON_CROSS_ENTROPY)
    def test_attacks_on_the_cross_entropy_reach_about_what_those_on_the_margin_do(self, name: str) -> None:
        plain, declared = LinearVictim(), ON_CROSS_ENTROPY[name]
        batch = predicted_by(plain, anywhere(40, 0.3, 0.7))
        if not hasattr(declared, "members"):
            on_margin = replace(declared, **{"loss": "margin"})
            assert num_right(Scaled(plain, 200), batch, declared) <= num_right(plain, batch, on_margin) + 1
        assert num_right(Scaled(plain, 200), batch, declared) < 0.9 * len(batch.ids)

    def test_digits_of_a_scaled_head_are_found_as_with_the_margin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        batch = robench.load_dataset("digits").batch(0, 16)
        model = Scaled(robench.load_checkpoint("digits-vit"), 64)
        pgd = Pgd(epsilon=EPSILON, relative_step=Fraction(1, 4), num_steps=8)
        found, on_margin = (num_right(model, batch, each) for each in (pgd, replace(pgd, loss="margin")))
        monkeypatch.setitem(LOSSES, "ce", former)  # type: ignore[misc]  # a mapping that nothing else writes to
        assert num_right(model, batch, pgd) >= 14
        assert on_margin <= 10
        assert abs(found - on_margin) <= 1

    @pytest.mark.parametrize("name", ["fgsm", "pgd", "pgd-l2"])
    def test_of_coupled_models_are_no_harder_to_find(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        class Coupled(Scaled):
            """Each row's logits lose a part of the batch's mean, so that gradients reach every row."""

            def outputs(self, inputs: torch.Tensor, seeds: Sequence[int] | None = None) -> torch.Tensor:
                logits = super().outputs(inputs)
                return logits - 0.3 * logits.mean(0)

        declared, plain = ON_CROSS_ENTROPY[name], LinearVictim()
        batch, model = predicted_by(plain, anywhere(40, 0.3, 0.7)), Coupled(plain, 200.0)
        found = num_right(model, batch, declared)
        # Gradients of other rows hide those of a saturated one here, for any attack on the sum of losses.
        assert num_right(model, batch, replace(declared, **{"loss": "margin"})) <= found < len(batch.ids)
        monkeypatch.setitem(LOSSES, "ce", former)  # type: ignore[misc]  # a mapping that nothing else writes to
        assert found <= num_right(model, batch, declared)

    @pytest.mark.parametrize("factor", [20.0, 60.0])
    def test_any_other_loss_is_scaled_too(self, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
        def of_a_plug_in(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return softplus(margin_loss(logits, labels))

        model = LinearVictim(num_classes=2)
        batch, fgsm = predicted_by(model, anywhere(12)), Fgsm(epsilon=EPSILON)
        wanted = attacked(fgsm, batch, model).inputs
        monkeypatch.setitem(LOSSES, "ce", of_a_plug_in)  # type: ignore[misc]  # a mapping that nothing else writes to
        assert torch.equal(attacked(fgsm, batch, Scaled(model, factor)).inputs, wanted)
