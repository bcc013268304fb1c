"""Smoothed models: certificates beside exact distances, beside the published algorithm, and what is refused."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import Robench
from killed_runs import sorted_outcomes
from scipy.stats import beta, binom, norm

import robench as package
from robench.cli.list_command import summary_of
from robench.core.checkpoint import Smoothing
from robench.core.errors import ContractError, DeclarationError
from robench.core.seeds import Stream
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare import read_registry, shipped_folder, shipped_registry
from robench.draws import ExampleDraws
from robench.evaluation.certify import certified_columns
from robench.metrics.certified_radii import certified_radius, contradicted, least_probability
from robench.models.loaded import LoadedModel
from robench.models.smoothed import SmoothedModel

SIDE = 4
STD = (0.25, 0.5, 0.125)
SMOOTHING = Smoothing(sigma=Fraction(1, 4), selection=5, draws=40, alpha=Fraction(1, 1000))


class Linear(torch.nn.Module):
    """Two or three classes whose boundaries are planes."""

    def __init__(self, num_classes: int = 2) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.weight = torch.nn.Parameter(torch.randn(num_classes, 3 * SIDE**2, generator=generator))

    def forward(self, normalised: torch.Tensor) -> torch.Tensor:
        return normalised.flatten(1) @ self.weight.T


def smoothed(module: torch.nn.Module, **fields: Any) -> SmoothedModel:
    from dataclasses import replace

    loaded = LoadedModel(module, ImagePreprocessing(mean=(0.5, 0.5, 0.5), std=STD))
    return SmoothedModel(loaded, replace(SMOOTHING, **fields))


def images(count: int) -> torch.Tensor:
    return torch.rand(count, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))


def found(model: SmoothedModel, inputs: torch.Tensor, first: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    seeds = [range(first, first + len(inputs))]
    columns = certified_columns(model, inputs, torch.zeros(len(inputs), dtype=torch.int64), seeds)
    return {name: each.array for name, each in columns.items()}


def test_no_certificate_of_a_linear_model_reaches_its_boundary() -> None:
    module, inputs = Linear(), images(1000)
    columns = found(smoothed(module), inputs)
    std = torch.tensor(STD).repeat_interleave(SIDE**2)
    # In pixels the boundary is the plane of the two logits' difference.
    normal = (module.weight[0] - module.weight[1]) / std
    logits = module((inputs - 0.5) / torch.tensor(STD).reshape(3, 1, 1))
    distance = ((logits[:, 0] - logits[:, 1]).abs() / normal.norm()).detach().numpy()
    certified = ~columns["abstained"]
    # Each is wrong with a probability of at most 1/1000; more than three of 1,000 are in 2 % of cases.
    assert (columns["certified_radius"][certified] > distance[certified]).sum() <= 3
    assert certified.mean() > 0.4
    assert (columns["prediction"][certified] == logits.argmax(1).numpy()[certified]).all()
    most = columns["votes"] == 40
    assert columns["certified_radius"][most] == pytest.approx(0.25 * norm.ppf(0.001 ** (1 / 40)), abs=1e-12)


def test_it_is_the_published_algorithm_on_the_same_votes() -> None:
    """Follow CERTIFY of Cohen et al. 2019, figure 2, draw by draw."""
    module, inputs = Linear(3), images(10)
    columns = found(smoothed(module), inputs)
    mean, std = torch.full((3, 1, 1), 0.5), torch.tensor(STD).reshape(3, 1, 1)

    def sample_under_noise(row: int, purpose: str, count: int) -> list[int]:
        counts = [0, 0, 0]
        for draw in range(count):
            noise = ExampleDraws([row]).normal(Stream(purpose=f"smoothing {purpose}", draw=draw), (3, SIDE, SIDE))[0]
            counts[int(module(((inputs[row] + 0.25 * noise - mean) / std)[None]).argmax())] += 1
        return counts

    for row in range(len(inputs)):
        guess = int(np.argmax(sample_under_noise(row, "selection", 5)))
        count = sample_under_noise(row, "estimation", 40)[guess]
        least = beta.ppf(0.001, count, 40 - count + 1) if count else 0.0
        assert (columns["prediction"][row], columns["votes"][row]) == (guess, count)
        assert columns["abstained"][row] == (least <= 0.5)
        if least > 0.5:
            assert columns["certified_radius"][row] == pytest.approx(0.25 * norm.ppf(least), abs=1e-12)


def test_the_bound_of_a_probability_is_that_of_clopper_and_pearson_and_covers_it() -> None:
    for num_draws in (1, 7, 100, 1000):
        votes = np.arange(num_draws + 1)
        least = least_probability(votes, num_draws, 0.001)
        assert least[1:] == pytest.approx(beta.ppf(0.001, votes[1:], num_draws - votes[1:] + 1), abs=1e-12)
        assert least[0] == 0
        for probability in np.linspace(0.01, 0.99, 50):
            chances = binom.pmf(votes, num_draws, probability)
            assert chances[least > probability].sum() <= 0.001 + 1e-12
    assert certified_radius([0.2, 0.5, 0.9], 0.5) == pytest.approx([0, 0, 0.5 * norm.ppf(0.9)], abs=1e-12)


def test_votes_do_not_depend_on_the_batch_and_noise_is_not_clipped() -> None:
    module, inputs = Linear(3), images(6)
    model = smoothed(module)
    whole, alone = found(model, inputs), found(model, inputs[4:], first=4)
    assert all((whole[name][4:] == alone[name]).all() for name in ("votes", "prediction", "certified_radius"))
    seen: list[torch.Tensor] = []
    module.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    model.outputs(torch.zeros(1, 3, SIDE, SIDE), [0])
    assert float((0.5 + seen[0] * torch.tensor(STD).reshape(3, 1, 1)).min()) < -0.1
    assert not torch.equal(model.outputs(inputs, range(6)), model.outputs(inputs, range(6, 12)))
    assert torch.equal(model.outputs(inputs, range(6)), model.outputs(inputs, range(6)))
    assert isinstance(model.with_gradients("mechanism"), SmoothedModel)


class Drawing(Linear):
    """It reads its seeds."""

    takes_seeds = True

    def forward(self, normalised: torch.Tensor, seeds: Any = None) -> torch.Tensor:
        moved: torch.Tensor = super().forward(normalised) + sum(seeds) * 1e-20
        return moved


class Dropping(Linear):
    """It draws from torch's own generator."""

    def forward(self, normalised: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.nn.functional.dropout(normalised, 0.5))


class Coupled(Linear):
    """Each row depends on its neighbour."""

    def forward(self, normalised: torch.Tensor) -> torch.Tensor:
        return super().forward(normalised + normalised.roll(1, 0))


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Drawing, "random numbers of its own"),
        (Dropping, "random numbers of its own"),
        (Coupled, "other rows beside it"),
    ],
)
def test_votes_of_models_that_are_no_function_of_each_input_are_refused(module: type[Linear], reason: str) -> None:
    with pytest.raises(ContractError, match=f"cannot be smoothed, .*{reason}"):
        found(smoothed(module()), images(4))
    with pytest.raises(ContractError, match="one prediction of many draws, got num_predictions 2"):
        certified_columns(smoothed(Linear()), images(2), torch.zeros(2, dtype=torch.int64), [range(2), range(2)])


def test_certificates_that_other_inputs_contradict_raise_a_flag() -> None:
    radius, distance = np.full(100, 0.5), np.full(100, 0.4)
    differs = np.arange(100) < 3
    assert contradicted(radius, distance, differs, 0.001, "pgd").is_raised
    assert not contradicted(radius, distance, differs, 0.05, "pgd").is_raised
    assert not contradicted(radius, distance + 0.2, differs, 0.001, "pgd").is_raised
    flag = contradicted(radius, distance, np.arange(100) < 1, 0.001, "pgd")
    assert (flag.value, flag.is_raised) == (0.01, False)
    assert flag.finding == "pgd: 1 of 100 certified examples have another class within their radius"


def test_votes_take_one_pass_a_draw() -> None:
    module, passes = Linear(3), [0]
    module.register_forward_hook(lambda *_: passes.__setitem__(0, passes[0] + 1))
    smoothed(module).votes(images(6), range(6), "selection", 30)
    assert passes == [30]


REGISTRY = """
checkpoints:
  own:
    like: digits-vit
    weights: {uri: own.safetensors, sha256: null}
  noisy: {smoothed: {checkpoint: digits-vit, sigma: 1/4, draws: 30, selection: 10}, source: a test}
"""


def test_an_entry_is_another_ones_model_under_noise(tmp_path: Path) -> None:
    (path := tmp_path / "registry.yaml").write_text(REGISTRY)
    entry, base = read_registry(path)["noisy"], read_registry(shipped_registry())["digits-vit"]
    assert entry.smoothing == Smoothing(sigma=Fraction(1, 4), selection=10, draws=30)
    assert (entry.architecture, entry.weights.sha256) == (base.architecture, base.weights.sha256)
    assert (shipped_folder() / base.weights.uri).samefile(entry.weights.uri)
    assert (entry.training, dict(entry.expected), entry.source) == (None, {}, "a test")
    assert entry.passes_per_prediction == 40
    assert "sigma 1/4, 10 and 30 draws, alpha 1/1000" in entry.caveat
    assert summary_of(entry).startswith("smoothed (sigma 1/4, 10 and 30 draws, alpha 1/1000); vit, attention softmax")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            "{smoothed: {checkpoint: digits-vitt, sigma: 1/4}}",
            "unknown entry 'digits-vitt'. Did you mean 'digits-vit'?",
        ),
        ("{smoothed: {checkpoint: digits-vit@9, sigma: 1/4}}", "has no training .* seeds are 1, 2"),
        ("{smoothed: {checkpoint: noisy, sigma: 1/4}}", "must not be smoothed itself, and 'noisy' is"),
        ("{smoothed: {checkpoint: digits-vit}}", "sigma: missing"),
        ("{smoothed: {checkpoint: digits-vit, sigma: 0}}", "sigma: must be .*above 0"),
        ("{smoothed: {checkpoint: digits-vit, sigma: 1, alpha: 1}}", "alpha: must be .*below 1"),
        ("{smoothed: digits-vit}", r"a mapping such as \{checkpoint: NAME, sigma: 1/4\}, got 'digits-vit'"),
        (
            "{smoothed: {checkpoint: digits-vit, sigma: 1}, coupled: true}",
            "without coupled: a smoothed model",
        ),
        ("{smoothed: {checkpoint: sst2-softmax, sigma: 1}}", "of real-valued inputs"),
    ],
)
def test_what_is_wrong_with_a_smoothed_entry_is_said_at_its_line(fields: str, problem: str, tmp_path: Path) -> None:
    (path := tmp_path / "registry.yaml").write_text(f"{REGISTRY}  wrong: {fields}\n")
    with pytest.raises(DeclarationError, match=problem) as error:
        read_registry(path)
    assert "checkpoints.wrong.smoothed" in str(error.value)


SUITE = """
name: certified
version: 1
seed: 0
dataset: digits
batch_size: 10
audit: false
conditions:
  - {name: clean, num_examples: 20, distances: [1/16, 1/8]}
  - name: pgd
    num_examples: 10
    perturbation:
      {kind: pgd, norm: l2, epsilon: 1/2, relative_step: 1/4, num_steps: 3, num_draws: 2, over_draws: probability}
metrics: [top1_accuracy, certified_accuracy]
"""


def test_a_run_certifies_and_attacks_with_the_same_bytes_wherever_it_runs(robench: Robench, tmp_path: Path) -> None:
    (suite := tmp_path / "suite.yaml").write_text(SUITE)
    (registry := tmp_path / "registry.yaml").write_text(REGISTRY)
    options = ("run", "--suite", suite, "--registry", registry, "--model", "noisy", "--model", "digits-vit")
    serial, workers = ((*options, "--results", tmp_path / name) for name in ("serial", "workers"))
    ended = robench(*serial, "--executor", "serial", "--json")
    assert robench(*workers, "--limit", 10, "--executor", "serial").code == 0
    assert robench(*workers, "--executor", "processes", "--workers", 1).code == 0
    assert sorted_outcomes(tmp_path / "workers") == sorted_outcomes(tmp_path / "serial")
    rows = {row["model"]: row for row in json.loads(ended.stdout)["rows"]}
    cells = {key: cell and cell["value"] for key, cell in rows["noisy"]["cells"].items()}
    near, far = (value for key, value in cells.items() if "certified" in key)
    top1, attacked = cells["clean/top1_accuracy"], cells["pgd/top1_accuracy"]
    assert top1 >= near >= far > 0.5
    assert attacked >= far
    assert [flag["name"] for flag in rows["noisy"]["flags"]] == ["contradicted certificates"]
    assert any("not of its checkpoint alone" in note for note in rows["noisy"]["notes"])
    assert not any(cell.get("value") for key, cell in rows["digits-vit"]["cells"].items() if "certified" in key)

    module = package.load_checkpoint("digits-vit").module
    model = package.Smoothed((module, {"mean": [0.5] * 3, "std": [0.5] * 3}), sigma="1/4", draws=30, selection=10)
    report = package.run(suite, {"mine": model}, limit=10, progress=False)
    assert any("smoothed (sigma 1/4, 10 and 30 draws" in note for note in report.rows[0].notes)
    with pytest.raises(DeclarationError, match=r"draws: must be .*at least 1"):
        package.Smoothed(module, sigma=0.25, draws=0)
