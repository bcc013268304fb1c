"""Models in memory through whole runs: to a table, found again by their keys, refused with a reason."""

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from conftest import ROOT
from safetensors.torch import load_file
from tiny_models import Noisy, Tiny, write_registry
from torch import nn

import robench
from robench.core.errors import RobenchError, UsageError
from robench.core.report import Report
from robench.scheduling import Progress
from robench.store import FolderStore

FEW = {"num_examples: 150": "num_examples: 10", "batch_size: 50": "batch_size: 10"}
NUM_SHARDS = 3


@pytest.fixture
def suite(small_suite: Callable[..., Path]) -> Path:
    """Three conditions of ten examples, a shard each, without an audit."""
    return small_suite(**FEW)


def tiny(seed: int = 0, kind: type[nn.Module] = Tiny) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return kind()


def accuracy(report: Report, model: str, column: str = "clean/top1_accuracy") -> float:
    (row,) = [row for row in report.rows if row.model == model]
    estimate = row.cells[column].estimate
    assert estimate is not None
    return estimate.value


class Counted:
    """How many shards a run measured."""

    def __init__(self) -> None:
        self.num_done = 0

    def __call__(self, progress: Progress) -> None:
        self.num_done = progress.num_done


def num_measured(suite: Path, models: Any, results: Path, **options: Any) -> int:
    count = Counted()
    robench.run(suite, models, results=results, on_progress=count, device="cpu", **options)
    return count.num_done


@pytest.mark.slow
def test_parts_of_a_run_are_measured_apart_and_the_rest_is_taken_over(suite: Path, tmp_path: Path) -> None:
    results, model = tmp_path / "results", {"mine": tiny()}
    assert num_measured(suite, model, results, part=(1, 3)) == 1
    assert num_measured(suite, model, results, part=(1, 3)) == 0
    assert num_measured(suite, model, results, part=(3, 3), take_over=True) == 2
    report = robench.run(suite, model, results=results, device="cpu")
    whole = robench.run(suite, model, results=tmp_path / "whole", device="cpu")
    assert [row.cells for row in report.rows] == [row.cells for row in whole.rows]
    with pytest.raises(UsageError, match="must be 1/3 to 3/3, got 4/3"):
        robench.run(suite, model, results=results, part=(4, 3))


def test_a_module_has_the_numbers_of_the_same_model_in_a_registry(suite: Path, tmp_path: Path) -> None:
    registry = write_registry(tmp_path)
    module = Tiny()
    module.load_state_dict(load_file(tmp_path / "tiny.safetensors"))
    module.train()
    report = robench.run(suite, ["honest", {"mine": module}], registry=registry, results=tmp_path / "r", device="cpu")
    assert [row.model for row in report.rows] == ["honest", "mine"]
    assert report.rows[0].cells == report.rows[1].cells
    assert accuracy(report, "mine") > 0.7
    assert module.training
    assert all(parameter.requires_grad and parameter.grad is None for parameter in module.parameters())


def test_the_same_module_is_measured_once_and_another_one_anew(suite: Path, tmp_path: Path) -> None:
    module, results = tiny(), tmp_path / "r"
    assert num_measured(suite, {"mine": module}, results) == NUM_SHARDS
    assert num_measured(suite, {"mine": module.eval()}, results) == 0
    assert num_measured(suite, {"renamed": copy.deepcopy(module)}, results) == 0
    with torch.no_grad():
        next(module.parameters())[0, 0] += 1e-7
    assert num_measured(suite, {"mine": module}, results) == NUM_SHARDS
    assert num_measured(suite, {"mine": (module, {"mean": [0.1] * 3, "std": [1] * 3})}, results) == NUM_SHARDS


def test_a_row_has_the_numbers_of_its_own_weights_under_one_name(suite: Path, tmp_path: Path) -> None:
    reports = [robench.run(suite, {"mine": tiny(seed)}, results=tmp_path / "r", device="cpu") for seed in (0, 1, 0)]
    assert reports[0].rows[0].cells == reports[2].rows[0].cells != reports[1].rows[0].cells
    assert all(report.is_complete for report in reports)


def test_a_key_stands_for_the_module(suite: Path, tmp_path: Path) -> None:
    hooked = tiny()
    hooked.register_forward_hook(lambda module, inputs, output: 2 * output)
    with pytest.raises(UsageError, match=r"model 'mine' cannot be identified .* has a hook"):
        robench.run(suite, {"mine": hooked}, results=tmp_path / "r")
    assert num_measured(suite, {"mine": hooked}, tmp_path / "r", key="doubled, 1") == NUM_SHARDS
    assert num_measured(suite, {"mine": tiny(1)}, tmp_path / "r", key={"mine": "doubled, 1"}) == 0
    assert num_measured(suite, {"mine": hooked}, tmp_path / "r", key="doubled, 2") == NUM_SHARDS


@pytest.mark.slow
def test_a_model_of_timm_is_one_line(suite: Path, tmp_path: Path) -> None:
    net = timm.create_model("resnet10t", num_classes=10)
    report = robench.run(suite, {"net": net}, results=tmp_path / "r", limit=10, device="cpu")
    assert report.is_complete
    (record, *_) = FolderStore(tmp_path / "r").records(lambda shard: shard.checkpoint == "net")
    assert record.provenance.versions["timm"] == timm.__version__
    assert net.training


@pytest.mark.slow
def test_a_model_in_memory_is_audited_like_all(small_suite: Callable[..., Path], tmp_path: Path) -> None:
    path = small_suite(**FEW, **{"audit: false": "audit: true"})
    report = robench.run(path, {"mine": tiny(), "noisy": tiny(kind=Noisy)}, results=tmp_path / "r", device="cpu")
    mine, noisy = report.rows
    assert "random victim" in {flag.name for flag in noisy.raised} - {flag.name for flag in mine.raised}


class Sized(nn.Module):
    """Gives what a function makes of so many images."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer
        self.weight = nn.Parameter(torch.ones(1))

    def forward(self, images: torch.Tensor) -> object:
        flat = images.flatten(1)[:, :10] * self.weight
        match self.answer:
            case "shape":
                return flat[:1]
            case "classes":
                return flat[:, :7]
            case "probabilities":
                return flat.softmax(1)
            case "tuple":
                return flat, flat
            case "nan":
                return flat * float("nan")
            case "coupled":
                return flat - flat.mean(0)
            case "counts":
                self.calls = getattr(self, "calls", 0) + 1
                return flat * (1 if self.calls < 6 else 2)
        raise ValueError("not today")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            "shape",
            r"model 'mine' cannot take the examples \(3, 32, 32\) of dataset 'digits': the model returned \(1, 10\)",
        ),
        ("classes", "model 'mine' gives 7 classes, but dataset 'digits' has 10"),
        ("probabilities", "model 'mine' gives probabilities, wanted logits"),
        ("tuple", r"model 'mine' cannot take .* the model returned a tuple, wanted logits"),
        ("coupled", "model 'mine' couples the rows of a batch"),
        ("counts", "model 'mine' is not the same function at every call"),
        ("raise", r"model 'mine' cannot take the examples \(3, 32, 32\) of dataset 'digits': ValueError: not today"),
    ],
)
def test_what_does_not_fit_is_refused_before_the_first_shard(
    suite: Path, tmp_path: Path, answer: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        robench.run(suite, {"mine": Sized(answer)}, results=tmp_path / "r", device="cpu")
    assert list(FolderStore(tmp_path / "r").manifests()) == []


def test_nan_costs_the_shards_and_says_so(suite: Path, tmp_path: Path) -> None:
    report = robench.run(suite, {"mine": Sized("nan")}, results=tmp_path / "r", device="cpu")
    assert not report.is_complete
    assert any("clean: 1 shard failed" in note for note in report.rows[0].notes)


@pytest.mark.parametrize("options", [{"workers": 2}, {"executor": "processes"}, {"shard_timeout": 60.0}])
def test_other_processes_are_refused_with_the_reason(suite: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="model 'mine' is in memory, where no other process can measure it"):
        robench.run(suite, {"mine": tiny()}, results=tmp_path / "r", **options)


@pytest.mark.parametrize("options", [{"workers": None}, {"workers": 1}, {"executor": "serial", "workers": None}])
def test_it_is_measured_in_this_process_on_any_machine(suite: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    assert num_measured(suite, {"mine": tiny()}, tmp_path / "r", limit=10, **options) == 3


@pytest.mark.slow
def test_examples_are_transferred_between_names_and_modules(suite: Path, tmp_path: Path) -> None:
    module = tiny()
    report = robench.transfer(
        suite, "pgd", [{"mine": module}], [{"mine": module}, "digits-vit"], results=tmp_path / "r", device="cpu"
    )
    assert [row.model for row in report.rows] == ["mine", "digits-vit"]
    assert report.is_complete
    one = robench.run(suite, {"mine": module}, results=tmp_path / "s", device="cpu", keep_adversarial="float32")
    assert accuracy(report, "mine", "from/mine/top1_accuracy") == accuracy(one, "mine", "pgd/top1_accuracy")
    with pytest.raises(RobenchError, match="two modules are given under the name 'mine'"):
        robench.transfer(suite, "pgd", {"mine": module}, {"mine": tiny()}, results=tmp_path / "r", device="cpu")


@pytest.mark.slow
def test_the_page_on_models_in_memory_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_suite: Callable[..., Path]
) -> None:
    monkeypatch.chdir(tmp_path)
    suite = small_suite(**FEW)
    page = (ROOT / "docs" / "in-memory.md").read_text()
    blocks = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "robench.wrap" not in each]
    assert len(blocks) == 2
    for block in blocks:
        names = {"robench": robench, "torch": torch, "net": tiny(), "other": tiny(1)}
        exec(block.replace('"digits-adv"', repr(str(suite))).replace("torch.jit.script(net)", "net"), names)
    assert len(list((tmp_path / "results" / "records").iterdir())) == 3 * 5


class Paragraphs(nn.Module):
    """Classifier of paragraphs by the mean embedding of their characters."""

    def __init__(self, reads_padding: bool = False) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(128, 8), nn.Linear(8, 6)
        self.reads_padding = reads_padding

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        weights = (points >= 0)[..., None] | self.reads_padding
        embedded = self.embedding(points.clamp(0, 127)) * weights
        return self.head(embedded.sum(1) / weights.sum(1))


@pytest.mark.slow
def test_a_classifier_of_texts_runs_and_one_that_reads_padding_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"results": tmp_path / "r", "limit": 4}
    report = robench.run("sotu-eras-swap", {"mine": Paragraphs()}, **options)
    assert 0 <= accuracy(report, "mine", "swap-30/top1_accuracy") <= 1
    with pytest.raises(UsageError, match="model 'mine' reads padding or other rows"):
        robench.run("sotu-eras-swap", {"mine": Paragraphs(reads_padding=True)}, **options)


@pytest.mark.slow
def test_a_language_model_has_the_perplexity_of_its_probabilities(tmp_path: Path) -> None:
    words = ["\n", "<unk>", "the", "of", "and"]
    code = (ROOT / "docs" / "language.md").read_text().partition("## Your own language model")[2]
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", code, re.DOTALL)[0], names)
    net = names["GruLanguageModel"](words, dim=4)
    nn.init.zeros_(net.output.weight)
    nn.init.zeros_(net.output.bias)
    report = robench.run("sotu-swap", {"mine": net}, results=tmp_path / "r", limit=1, key="uniform")
    assert accuracy(report, "mine", "clean/perplexity") == pytest.approx(len(words), rel=1e-6)
