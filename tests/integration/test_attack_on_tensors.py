"""``robench.attack``: the same bits as a run of a suite, and what it refuses."""

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import robench
from robench.attacks.autoattack import AutoAttack
from robench.core.columns import Outcomes
from robench.core.errors import ContractError, DeclarationError, UsageError
from robench.declarations.preprocessing import NoPreprocessing
from robench.declare import find_checkpoints
from robench.store import FolderStore
from robench.store.adversarial import ONE_BUDGET, decode_examples

# Fields as in a suite, and as in Python.
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "fgsm": ("epsilon: 8/255", {"epsilon": 8 / 255}),
    "pgd": ("epsilon: 8/255, relative_step: 1/4, num_steps: 5", {"epsilon": 8 / 255, "num_steps": 5}),
    "apgd": ("epsilon: 16/255, num_steps: 8", {"epsilon": Fraction(16, 255), "num_steps": 8}),
    "square": ("epsilon: 0.1, num_queries: 30, p_init: 0.8", {"epsilon": 0.1, "num_queries": 30, "p_init": 0.8}),
    "fab": ("num_steps: 4", {"num_steps": 4}),
}
NUM_EXAMPLES = 10
FGSM = {"kind": "fgsm", "epsilon": 1 / 255}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the results of a run of all attacks in batches of four, with seed 3."""
    folder: Path = tmp_path_factory.mktemp("run")
    conditions = [
        f"  - {{name: {kind}, perturbation: {{kind: {kind}, {text}}}}}" for kind, (text, _) in ATTACKS.items()
    ]
    head = ["name: five", "version: 1", "seed: 3", "dataset: digits", "batch_size: 4", "conditions:"]
    (folder / "suite.yaml").write_text("\n".join([*head, *conditions, "metrics: [top1_accuracy]"]) + "\n")
    robench.run(
        folder / "suite.yaml",
        "digits-vit",
        results=folder / "results",
        limit=NUM_EXAMPLES,
        audit=False,
        keep_adversarial="float32",
        executor="serial",
    )
    return folder / "results"


@pytest.mark.parametrize("kind", ATTACKS)
def test_the_batch_is_that_of_a_run_to_the_bit(results: Path, kind: str) -> None:
    everything = [decode_examples(path.read_bytes()) for path in (results / "adversarial").rglob("*.safetensors")]
    kept = sorted((each for each in everything if each.shard.condition == kind), key=lambda each: each.shard.start)
    # A run measures whole batches; the third is padded here.
    points = np.concatenate([each.points[ONE_BUDGET] for each in kept])[:NUM_EXAMPLES]
    records = sorted(
        FolderStore(results).records(lambda header: header.condition == kind), key=lambda each: each.shard.start
    )
    outcomes = Outcomes.joined([each.outcomes for each in records]).take(slice(NUM_EXAMPLES))
    dataset = robench.load_dataset("digits")
    batch = dataset.batch(0, NUM_EXAMPLES)
    attack = robench.attack(kind, **ATTACKS[kind][1])
    (entry,) = find_checkpoints(["digits-vit"])
    loaded: Any = robench.load_checkpoint("digits-vit")
    for model in (loaded, (loaded.module, entry.preprocessing)):
        made = attack(model, batch.inputs, batch.targets, ids=batch.ids, seed=3, batch_size=4, dataset=dataset)
        assert made.inputs.numpy().tobytes() == points.tobytes()
        assert made.success is not None
        assert (~made.success).tolist() == outcomes.column("correct_top1").tolist()
        assert made.linf.tolist() == outcomes.column("linf").tolist()
        assert made.num_queries is not None
        assert made.num_queries.tolist() == outcomes.column("num_queries").tolist()


class Bright(torch.nn.Module):
    """Two classes by the mean of all pixels, with a dropout that would change training."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = torch.nn.Dropout(0.5)
        self.weight = torch.nn.Parameter(torch.tensor([-10.0, 10.0]))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.dropout((images.mean((1, 2, 3)) - 0.5)[:, None] * self.weight)


def test_a_module_in_training_is_attacked_in_evaluation_mode_and_stays_as_it_is() -> None:
    images, labels = torch.full((3, 3, 4, 4), 0.51), torch.tensor([1, 1, 0])
    model = Bright()
    made = robench.attack("pgd", epsilon=4 / 255, num_steps=8)(model, images, labels)
    assert made.success is not None
    assert made.success.tolist() == [True, True, True]
    assert made.right.tolist() == [0, 0, 0]
    # The third is wrong already, and moves further up.
    assert torch.allclose(made.inputs[:2], images[:2] - 4 / 255)
    assert torch.allclose(made.inputs[2], images[2] + 4 / 255)
    assert made.linf.tolist() == pytest.approx([4 / 255] * 3)
    assert model.training
    assert model.weight.requires_grad
    assert model.weight.grad is None


def test_masks_are_attacked_pixel_by_pixel_and_ignored_pixels_count_nowhere() -> None:
    model = torch.nn.Conv2d(3, 4, 3, padding=1).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    model.weight.copy_(torch.randn(4, 3, 3, 3, generator=generator))
    images = 0.2 + 0.6 * torch.rand(3, 3, 6, 8, generator=generator)
    masks = model(images).argmax(1)
    masks[:, :, :3] = -1
    made = robench.attack("pgd", loss="cospgd", epsilon=8 / 255, num_steps=8)(model, images, masks)
    counts = masks != -1
    right = ((model(made.inputs).argmax(1) == masks) & counts).sum((1, 2)) / counts.sum((1, 2))
    assert made.right.tolist() == pytest.approx(right.tolist())
    assert made.right.max() < 1
    assert made.success is None
    with pytest.raises(UsageError, match="labels must be from -1 to 3, as the model has 4 classes, got -2"):
        robench.attack("fgsm", epsilon=8 / 255)(model, images, masks - 1)


class Rounding(Bright):
    """The same of images that are rounded to eight levels, if they are dark."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        is_dark = (images.mean((1, 2, 3)) < 0.5)[:, None, None, None]
        return super().forward(torch.where(is_dark, (images * 7).round() / 7, images))


@pytest.mark.parametrize(
    ("kind", "zeros"),
    [("fgsm", [True, False, True]), ("pgd", [True, False, True]), ("fab", [True, False, True]), ("square", None)],
)
def test_examples_whose_gradients_are_all_zero_are_named(kind: str, zeros: list[bool] | None) -> None:
    levels = torch.tensor([1 / 7, 0.6, 2 / 7])
    images, labels = levels[:, None, None, None].expand(3, 3, 4, 4), torch.tensor([0, 1, 0])
    attack = robench.attack(kind, **ATTACKS[kind][1])
    # Passes of two rows, the second of which is padded.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = attack(Rounding(), images, labels, batch_size=2)
        honest = attack(Bright(), images, labels, batch_size=2)
    assert (None if made.zero_gradients is None else made.zero_gradients.tolist()) == zeros
    assert honest.zero_gradients is None or not honest.zero_gradients.any()
    texts = [str(each.message) for each in caught]
    assert texts == [] if zeros is None else "all gradients of 2 of 3 examples (67%) were zero" in texts[0]
    assert {each.filename for each in caught} <= {__file__}


class Turning(Bright):
    """Every so many calls with the classes exchanged."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period, self.number = period, 0

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.number += 1
        logits = super().forward(images)
        return logits.flip(1) if self.number % self.period == 0 else logits


class Drawing(Bright):
    """Noise of torch's own generator."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return super().forward(images + 0.1 * torch.randn_like(images))


@pytest.mark.parametrize("kind", ["fgsm", "square"])
@pytest.mark.parametrize(
    ("model", "is_named"), [(Turning(2), True), (Turning(3), True), (Turning(5), True), (Drawing(), False)]
)
def test_models_with_memory_are_named(kind: str, model: torch.nn.Module, is_named: bool) -> None:
    images, labels = torch.full((3, 3, 4, 4), 0.51), torch.tensor([1, 1, 0])
    state = torch.get_rng_state()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        robench.attack(kind, **ATTACKS[kind][1])(model, images, labels)
    assert [str(each.message).partition(", by up to")[0] for each in caught] == [
        "after the attack the same inputs got another answer than before"
    ] * is_named
    assert torch.equal(torch.get_rng_state(), state) or isinstance(model, Drawing)


class Fixed(Bright):
    """Answers that depend on no input, though on a tensor with gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = torch.tensor([0.0, 2.0], requires_grad=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (2 * self.answer).expand(len(images), 2)


@pytest.mark.parametrize("kind", ["fgsm", "pgd", "apgd", "fab"])
def test_models_that_ignore_their_inputs_have_no_gradients(kind: str) -> None:
    with pytest.raises(ContractError, match="the model has no gradients by its inputs; take corruptions, or attacks"):
        robench.attack(kind, **ATTACKS[kind][1])(Fixed(), torch.full((2, 3, 4, 4), 0.51), torch.tensor([1, 1]))


class WithPrior(torch.nn.Module):
    """Logits of a linear layer, from which the log of a prior in float64 is subtracted."""

    def __init__(self, layer: torch.nn.Module, num_classes: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer, self.dtype = layer, dtype
        self.prior = torch.from_numpy(np.log(np.arange(1, num_classes + 1) / num_classes))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        logits = self.layer(inputs)
        return (logits - self.prior.view(-1, *(1 for _ in logits.shape[2:]))).to(self.dtype)


PER_IMAGE = {
    **{kind: fields for kind, (_, fields) in ATTACKS.items()},
    "spsa": {"epsilon": 0.1, "num_steps": 3, "learning_rate": 0.05, "delta": 0.01, "num_samples": 8},
    "sparse-l1": {"epsilon": 1.0, "num_steps": 3, "step_size": 1.0, "sparsity": 0.1},
    "cw": {"num_steps": 3, "num_search_steps": 2, "initial_c": 1.0, "learning_rate": 0.05},
}
PER_PIXEL = {"pgd": {"epsilon": 0.1, "num_steps": 3}, "sea": {"epsilon": 0.1, "num_steps": 10}}
OF_SERIES = {
    "apgd": {"epsilon": 0.1, "num_steps": 3},
    "square-series": {"epsilon": 0.1, "num_queries": 20, "p_init": 0.8},
}


@pytest.mark.parametrize(
    ("what", "kind", "fields"),
    [
        *(("images", kind, fields) for kind, fields in PER_IMAGE.items()),
        *(("masks", kind, fields) for kind, fields in PER_PIXEL.items()),
        *(("series", kind, fields) for kind, fields in OF_SERIES.items()),
    ],
)
def test_logits_of_float64_are_attacked_as_the_same_in_float32(what: str, kind: str, fields: dict[str, Any]) -> None:
    generator = torch.Generator().manual_seed(0)
    layer: torch.nn.Module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 5))
    inputs = torch.rand(3, *((16, 3) if what == "series" else (3, 4, 4)), generator=generator)
    if what == "masks":
        layer = torch.nn.Conv2d(3, 5, 1)
    for each in layer.parameters():
        each.data = torch.randn(each.shape, generator=generator)
    labels = layer(inputs).argmax(1)
    made = []
    for dtype in (torch.float64, torch.float32):
        model: Any = WithPrior(layer, 5, dtype)
        if what == "series":
            model = model, NoPreprocessing(inputs="series")
        made.append(robench.attack(kind, **fields)(model, inputs, labels))
    assert made[0].inputs.dtype == torch.float32
    assert torch.equal(made[0].inputs, made[1].inputs)
    assert torch.equal(made[0].right, made[1].right)
    assert made[0].right.mean() < 1


@pytest.mark.parametrize(
    ("fields", "arguments", "error", "message"),
    [
        ({"kind": "pgd", "num_steps": 3}, {}, DeclarationError, "epsilon"),
        ({"kind": "no-attack"}, {}, DeclarationError, "no-attack"),
        ({"kind": "clean"}, {}, UsageError, "clean is not an attack"),
        ({"kind": "pgd", "epsilon": [1 / 255, 2 / 255], "num_steps": 3}, {}, DeclarationError, "epsilon"),
        (FGSM, {"labels": torch.zeros(2)}, UsageError, "labels must be a tensor of integer numbers"),
        (FGSM, {"labels": torch.zeros(3, dtype=torch.long)}, UsageError, r"got inputs \(2, 3, 4, 4\), labels \(3,\)"),
        (FGSM, {"ids": ("a", "a")}, UsageError, "ids must be distinct"),
        (
            FGSM,
            {"labels": torch.tensor([0, 2])},
            UsageError,
            "labels must be from 0 to 1, as the model has 2 classes, got 2",
        ),
        (FGSM, {"labels": torch.tensor([0, -1])}, UsageError, "got -1"),
        ({**FGSM, "epsilon": 8}, {}, UsageError, "epsilon must be at most 1"),
        ({"kind": "square-series", "epsilon": 0.1, "num_queries": 3, "p_init": 0.5}, {}, UsageError, "it needs time"),
        ({"kind": "apgd", "epsilon": 0.1, "num_steps": 3, "loss": "dlr"}, {}, UsageError, "dlr needs at least 3"),
        (FGSM, {"inputs": torch.full((2, 3, 4, 4), 2.0)}, ContractError, r"\[0, 1\]"),
        (
            {**FGSM, "kind": "pgd", "num_steps": 2, "patches": {"size": 5}},
            {},
            UsageError,
            "pgd: patches must be at most",
        ),
        ({"kind": "patch-fool", "num_steps": 2, "patches": {"size": 2}}, {}, ContractError, "take patches with place"),
        (FGSM, {"model": "digits-vit"}, UsageError, "expected a torch.nn.Module"),
        (
            FGSM,
            {"model": torch.nn.Sequential(Bright(), torch.nn.Softmax(1))},
            UsageError,
            "gives probabilities, wanted",
        ),
        (
            FGSM,
            {
                "model": torch.nn.Sequential(torch.nn.Conv2d(3, 4, 1), torch.nn.Sigmoid()),
                "labels": torch.zeros(2, 4, 4, dtype=torch.long),
            },
            UsageError,
            "model 'model' gives outputs that all lie in",
        ),
    ],
)
def test_what_does_not_fit_is_refused(
    fields: dict[str, Any], arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    given = {"model": Bright(), "inputs": torch.zeros(2, 3, 4, 4), "labels": torch.zeros(2, dtype=torch.long)}
    with pytest.raises(error, match=message):
        robench.attack(**fields)(**given | arguments)


FEW = {"kind": "pgd", "epsilon": 4 / 255, "num_steps": 2}


def test_members_of_an_ensemble_are_written_as_attacks_are() -> None:
    declared = robench.attack("autoattack", epsilon=4 / 255, variant="custom", members=[FEW]).declaration
    assert isinstance(declared, AutoAttack)
    (member,) = declared.members
    assert (member, declared.epsilon) == (robench.attack(**FEW).declaration, Fraction(4, 255))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"variant": "standard"},
            "variant must be few-classes or custom on tensors, which has 3 classes: its apgd with",
        ),
        (
            {"variant": "custom", "members": [FEW, {**FEW, "kind": "apgd", "loss": "dlr-targeted"}]},
            "members.1.loss must be ce or margin on tensors, which has 3 classes: dlr-targeted needs at least 4",
        ),
        (
            {"variant": "custom", "members": [FEW, {"kind": "fab", "num_steps": 2, "num_targets": 3}]},
            "members.1.num_targets must be at most 2 on tensors, which has 3 classes, got 3",
        ),
    ],
)
def test_what_three_classes_are_too_few_for_is_named_with_its_member(fields: dict[str, Any], message: str) -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
    with pytest.raises(UsageError, match=message):
        robench.attack("autoattack", epsilon=4 / 255, **fields)(module, torch.rand(2, 3, 4, 4), torch.tensor([0, 2]))
