"""The published digits checkpoints are what the registry says, and PGD on them is as strong as torchattacks'."""

from fractions import Fraction

import pytest
import torch
import torchattacks

import robench
from robench.attacks.pgd import Pgd
from robench.core.protocols import Batch
from robench.core.seeds import Stream, example_seed, stream_seed
from robench.declare import read_registry, shipped_registry
from robench.models.loading import resolve
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws
from robench.training.images import Training

TRAINED_HERE = {
    name: entry for name, entry in read_registry(shipped_registry()).items() if isinstance(entry.training, Training)
}
# Those whose weights come with robench; the others are trained by a command in a minute.
CHECKPOINTS = {name: entry for name, entry in TRAINED_HERE.items() if entry.weights.sha256 is not None}
DIGITS = robench.load_dataset("digits")
EVERYTHING = DIGITS.batch(0, len(DIGITS))
# The attack is compared with another library's on those of make demo; the others differ in the model alone.
DEMO = ("digits-vit", "digits-symvit", "digits-rpc-symvit")
# As the harness seeds a prediction, see evaluation/evaluate.py.
PREDICTION_SEEDS = [
    stream_seed(example_seed(0, DIGITS.identity.fingerprint, "prediction", example_id), Stream(purpose="prediction"))
    for example_id in EVERYTHING.ids
]
SETTINGS = {"epsilon": Fraction(8, 255), "step_size": Fraction(2, 255), "num_steps": 20}


class AsModule(torch.nn.Module):
    """A victim as other libraries want it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.victim = robench.load_checkpoint(name)
        self.anchor = torch.nn.Parameter(torch.zeros(1))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.victim.outputs(pixels)


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


# One checkpoint of each kind of attention, and those of make demo; tests/slow/test_published_accuracies.py has all.
MEASURED = {*{entry.architecture.attention.kind: name for name, entry in CHECKPOINTS.items()}.values(), *DEMO}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.cls is TestPublishedCheckpoint:
        is_measured = metafunc.function.__name__ == "test_has_its_published_clean_accuracy"
        metafunc.parametrize("name", sorted(MEASURED if is_measured else CHECKPOINTS))


class TestPublishedCheckpoint:
    def test_is_small_and_has_its_digest(self, name: str) -> None:
        path, digest = resolve(CHECKPOINTS[name])
        assert digest == CHECKPOINTS[name].weights.sha256
        assert path.suffix == ".safetensors"
        assert path.stat().st_size < 1_000_000

    def test_has_its_published_clean_accuracy(self, name: str) -> None:
        with torch.no_grad():
            logits = robench.load_checkpoint(name).outputs(EVERYTHING.inputs, seeds=PREDICTION_SEEDS)
        accuracy = float((logits.argmax(1) == EVERYTHING.targets).double().mean())
        assert accuracy == pytest.approx(CHECKPOINTS[name].expected["top1_accuracy"], abs=5e-5)
        assert accuracy >= _least_accuracy(name)


# Trained once with seed 0, as all twins, and not replaced by a better seed: 89.8 %.
BELOW = {"digits-rkde-hampel-5iter-vit": 0.89}


def _least_accuracy(name: str) -> float:
    if CHECKPOINTS[name].training.adversarial_epsilon > 0:
        # Adversarial training costs clean accuracy.
        return 0.75
    return BELOW.get(name, 0.95 if name in DEMO else 0.93)


def test_entries_without_weights_say_which_command_makes_them() -> None:
    for name in TRAINED_HERE.keys() - CHECKPOINTS.keys():
        weights = TRAINED_HERE[name].weights
        assert f'"robench train {name}"' in weights.how_to_get
        assert not TRAINED_HERE[name].expected
        assert not (shipped_registry().parent / weights.uri).exists()


# Of the others, scripts/strength.py compares many attacks, and tests/slow/test_demo_report.py measures the demo.
@pytest.mark.parametrize("name", DEMO[-1:])
class TestAttacked:
    def test_without_random_start_pgd_agrees_with_torchattacks_example_by_example(self, name: str) -> None:
        module, batch = AsModule(name), DIGITS.batch(0, 200)
        theirs = torchattacks.PGD(module, eps=8 / 255, alpha=2 / 255, steps=20, random_start=False)
        verdicts = []
        for attacked in (theirs(batch.inputs, batch.targets), attacked_by_robench(module, batch, random_start=False)):
            with torch.no_grad():
                verdicts.append(module(attacked).argmax(1) == batch.targets)
        assert float((verdicts[0] == verdicts[1]).double().mean()) >= 0.98


def attacked_by_robench(module: AsModule, batch: Batch, *, random_start: bool = True) -> torch.Tensor:
    seeds = [example_seed(0, "any", "pgd", example_id) for example_id in batch.ids]
    declaration = Pgd(**SETTINGS, random_start=random_start, returns="last")
    return perturb(declaration, batch, module.victim, ExampleDraws(seeds)).inputs


def test_the_three_kinds_of_attention_are_published() -> None:
    kinds = {name: CHECKPOINTS[name].architecture.attention.kind for name in DEMO}  # type: ignore[attr-defined]
    assert kinds == {"digits-vit": "softmax", "digits-symvit": "symmetric", "digits-rpc-symvit": "rpc"}
