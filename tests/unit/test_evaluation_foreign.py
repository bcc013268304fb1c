"""Foreign perturbations are held to what contract tests hold of robench's own: one message names what was broken."""

from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest
import torch
from plugin_examples import COMPUTED, Installer
from torch import nn

from robench.core.errors import BudgetExceededError, ContractError
from robench.core.protocols import Batch
from robench.declarations.preprocessing import ImagePreprocessing
from robench.domains.images import IMAGES
from robench.evaluation.foreign import title_of_foreign, watched
from robench.models.loaded import LoadedModel
from robench.perturbations.clean import Clean
from robench.perturbations.dispatch import perturb_each
from robench.perturbations.draws import ExampleDraws

PLAIN = ImagePreprocessing(mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
FADED = "return Perturbed(inputs=batch.inputs * (1 - declaration.severity / 10))"
BRIGHTENED = "return Reached(problem.region.project(problem.inputs + float(declaration.epsilon)))"
RETURNS = {"Fade": FADED, "Brighten": BRIGHTENED}
ASKS = {"Fade": "victim.outputs(batch.inputs)", "Brighten": "problem.predict(problem.inputs)"}


class Drawing(nn.Module):
    """A model that draws from torch's global generator."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.mean((2, 3)) + torch.rand(3)


def batch() -> Batch:
    inputs = torch.linspace(0.2, 0.8, 4 * 3 * 4 * 4).reshape(4, 3, 4, 4)
    return Batch(ids=tuple("abcd"), inputs=inputs, targets=torch.zeros(4, dtype=torch.int64))


def made(declaration: Any) -> list[torch.Tensor]:
    """What the harness accepts of a perturbation."""
    examples, victim = batch(), LoadedModel(Drawing(), PLAIN)
    draws = ExampleDraws(range(4))
    inputs = []
    title = title_of_foreign(declaration)

    def perturbed_by(seen: Any) -> Any:
        return perturb_each(declaration, examples, seen, draws, 4)

    for attack, perturbed in perturbed_by(victim) if title is None else watched(title, examples, victim, perturbed_by):
        IMAGES.rules.check_perturbed(perturbed.inputs, examples.inputs, attack, victim)
        inputs.append(perturbed.inputs)
    return inputs


def declared(install: Installer, name: str, before: str = "", after: str = "") -> Any:
    """One of the example's perturbations, whose code has other lines."""
    assert before in COMPUTED
    package = install(computed="import random, torch\n" + COMPUTED.replace(before, after))
    fields = {"Brighten": {"epsilon": Fraction(1, 10)}, "Fade": {"severity": 5}}[name]
    return getattr(import_module(f"{package}.declared"), name)(**fields)


def broken(install: Installer, name: str, before: str, after: str) -> str:
    with pytest.raises(ContractError) as caught:
        made(declared(install, name, before, after))
    assert "of their-plugins 1.0" in str(caught.value)
    return str(caught.value)


class TestWhatKeepsItsPromises:
    @pytest.mark.parametrize("name", ["Brighten", "Fade"])
    def test_passes_though_the_model_draws(self, install: Installer, name: str) -> None:
        asks, returns = ASKS[name], RETURNS[name]
        assert len(made(declared(install, name, f"    {returns}", f"    {asks}\n    {returns}"))) == 1

    def test_robenchs_own_are_not_watched(self) -> None:
        assert title_of_foreign(Clean()) is None
        assert torch.equal(made(Clean())[0], batch().inputs)

    def test_each_budget_of_a_sweep(self, install: Installer) -> None:
        from robench.perturbations.sweep import Sweep

        attack = type(declared(install, "Brighten"))
        sweep = Sweep(attacks=tuple(attack(epsilon=Fraction(each, 10)) for each in (1, 2)))
        assert len(made(sweep)) == 2
        assert title_of_foreign(sweep) == "perturbation 'their-brighten' of their-plugins 1.0"


class TestWhatBreaksThem:
    @pytest.mark.parametrize(
        ("inputs", "shown"),
        [
            ("batch.inputs[:2]", "returned inputs of shape (2, 3, 4, 4), wanted (4, 3, 4, 4)"),
            ("batch.inputs[:, :1]", "returned inputs of shape (4, 1, 4, 4)"),
            ("batch.inputs.double()", "returned inputs of dtype torch.float64, wanted torch.float32"),
            ("batch.inputs.to('meta')", "returned inputs of device meta, wanted cpu"),
            ("batch.inputs * float('nan')", "returned inputs from nan to nan, wanted [0, 1]"),
            ("batch.inputs + 1", "wanted [0, 1]"),
            ("batch.inputs.numpy()", "returned a ndarray, wanted a Perturbed whose inputs are a tensor"),
            ("batch.inputs, num_queries=torch.zeros(3)", "returned num_queries other than one an example"),
            ("batch.inputs, found=True", "returned found other than one an example"),
        ],
    )
    def test_a_corruption(self, install: Installer, inputs: str, shown: str) -> None:
        assert shown in broken(install, "Fade", FADED, f"return Perturbed(inputs={inputs})")

    @pytest.mark.parametrize(
        ("returned", "shown"),
        [
            ("problem.inputs[:2]", "returned (2, 3, 4, 4), wanted Reached with points of shape (4, 3, 4, 4)"),
            ("problem.inputs[:1, :1]", "returned (1, 1, 4, 4)"),
            ("problem.inputs.double() + 0.01", "returned inputs of dtype torch.float64"),
            ("problem.inputs * float('nan')", "returned inputs from nan to nan"),
        ],
    )
    def test_an_attack(self, install: Installer, returned: str, shown: str) -> None:
        assert shown in broken(install, "Brighten", BRIGHTENED, f"return Reached({returned})")

    def test_an_attack_beyond_its_budget(self, install: Installer) -> None:
        package = declared(install, "Brighten", BRIGHTENED, "return Reached(problem.inputs + 0.15)")
        with pytest.raises(BudgetExceededError, match=r"their-brighten' of their-plugins 1\.0 moved an input by 0\.15"):
            made(package)

    def test_an_attack_that_returns_something_else(self, install: Installer) -> None:
        message = broken(install, "Brighten", BRIGHTENED, "return problem.inputs")
        assert "returned Tensor, wanted Reached" in message

    @pytest.mark.parametrize("name", ["Fade", "Brighten"])
    @pytest.mark.parametrize(
        ("line", "library"),
        [
            ("torch.rand(1)", "torch"),
            ("np.random.rand()", "numpy"),
            ("random.random()", "random"),
            ("torch.seed()", "torch"),
        ],
    )
    def test_draws_from_a_global_generator(self, install: Installer, name: str, line: str, library: str) -> None:
        asks, returns = ASKS[name], RETURNS[name]
        for order in (f"{line}\n    {asks}", f"{asks}\n    {line}"):
            message = broken(install, name, f"    {returns}", f"    {order}\n    {returns}")
            assert f"drew from the global generator of {library}:" in message
            install.remove()

    @pytest.mark.parametrize("line", ["batch.inputs.mul_(0.5)", "batch.targets.add_(1)"])
    def test_changes_the_clean_examples(self, install: Installer, line: str) -> None:
        assert "changed the clean examples in place" in broken(install, "Fade", FADED, f"{line}\n    {FADED}")

    @pytest.mark.parametrize(
        ("line", "shown"),
        [
            ("raise KeyError('x')", "raised KeyError: 'x'"),
            ("raise SystemExit(3)", "raised SystemExit: 3"),
            ("return nothing", "raised NameError"),
        ],
    )
    def test_raises(self, install: Installer, line: str, shown: str) -> None:
        assert shown in broken(install, "Fade", FADED, line)


def test_code_without_a_distribution_is_named_by_its_module(install: Installer) -> None:
    package = install(entries={}, computed=COMPUTED.replace(FADED, "return None"))
    with pytest.raises(ContractError, match=r"'their-fade' of their_plugins\.declared returned a NoneType"):
        made(import_module(f"{package}.declared").Fade(severity=1))


class TestAttention:
    def layer(self, install: Installer, output: str) -> nn.Module:
        from robench.attention.build import build_attention
        from robench.attention.geometry import Geometry

        computed = COMPUTED + (
            "\n\nclass HalvedAttention(ProjectedAttention):\n    def forward(self, x, state=None):\n"
            f"        return {output}\n\n    def mix(self, heads, state): ...\n"
        )
        package = install(computed=computed)
        declaration = import_module(f"{package}.declared").Halved()
        return build_attention(declaration, Geometry(dim=8, num_heads=2, num_tokens=5, depth=1, layer=0))

    def test_of_the_right_shape_passes(self, install: Installer) -> None:
        assert self.layer(install, "x")(torch.zeros(2, 5, 8)).shape == (2, 5, 8)

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            ("x[:, :1]", r"returned \(2, 1, 8\) of torch.float32, wanted \(2, 5, 8\) of torch.float32"),
            ("x.double()", "returned .* of torch.float64"),
            ("(x, None)", "returned a tuple, wanted tokens"),
        ],
    )
    def test_of_another_is_refused(self, install: Installer, output: str, shown: str) -> None:
        with pytest.raises(ContractError, match=f"attention 'their-halved' of their-plugins 1.0 {shown}"):
            self.layer(install, output)(torch.zeros(2, 5, 8))

    def test_that_is_no_module_is_refused(self, install: Installer) -> None:
        with pytest.raises(ContractError, match=r"of their-plugins 1\.0 returned a str, wanted a torch\.nn\.Module"):
            self.layer_of(install, "HalvedAttention = lambda declaration, geometry: 'a layer'")

    def layer_of(self, install: Installer, line: str) -> nn.Module:
        from robench.attention.build import build_attention
        from robench.attention.geometry import Geometry

        package = install(computed=f"{COMPUTED}\n{line}\n")
        declaration = import_module(f"{package}.declared").Halved()
        return build_attention(declaration, Geometry(dim=8, num_heads=2, num_tokens=5, depth=1, layer=0))


class TestDataset:
    @pytest.mark.parametrize(
        ("before", "after", "shown"),
        [
            ('InMemoryImages("their-stripes"', 'InMemoryImages("stripes"', "calls itself 'stripes'"),
            ("return InMemoryImages", "raise SystemExit(3)\n    return", "cannot be opened: SystemExit: 3"),
            ("return InMemoryImages", "return nothing", "cannot be opened: NameError"),
        ],
    )
    def test_that_breaks_its_word_is_refused(self, install: Installer, before: str, after: str, shown: str) -> None:
        from robench.datasets import open_dataset

        install(computed=COMPUTED.replace(before, after))
        with pytest.raises(ContractError, match=r"dataset 'their-stripes' of their-plugins 1\.0") as caught:
            open_dataset("their-stripes", data_root=None, preprocessing=None)
        assert shown in str(caught.value)
