"""``robench transfer``: the matrix, what it rests on, what it measures again, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Ended, Robench

import robench as package
from robench.evaluation import keeping
from robench.reports import RENDERERS
from robench.store import FolderStore
from robench.store.adversarial import ONE_BUDGET

MODELS = ("digits-vit", "digits-rpc-symvit")
TARGET = "digits-symvit"
SERIAL = ("--executor", "serial")
SHORT = {"num_examples: 150": "num_examples: 100"}


def options(names: tuple[str, ...], option: str = "--model") -> list[str]:
    return [each for name in names for each in (option, name)]


def cells(stdout: str) -> dict[str, dict[str, Any]]:
    return {row["model"]: row["cells"] for row in json.loads(stdout)["rows"]}


def times(results: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in results.rglob("*") if path.is_file()}


@pytest.fixture
def transfer(robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> Callable[..., Ended]:
    suite = small_suite(**SHORT)

    def run(*further: object, condition: str = "pgd", models: tuple[str, ...] = MODELS, results: str = "r") -> Ended:
        asked = ("transfer", "--suite", suite, "--condition", condition, *options(models))
        return robench(*asked, "--results", tmp_path / results, *further)

    return run


def test_a_row_is_a_target_a_column_a_source_and_the_diagonal_the_attack_itself(
    robench: Robench, small_suite: Callable[..., Path], transfer: Callable[..., Ended], tmp_path: Path
) -> None:
    ended = transfer("--json", *SERIAL, *options((*MODELS, TARGET), "--target"))
    assert ended.code == 0
    matrix = cells(ended.stdout)
    assert list(matrix) == [*MODELS, TARGET]
    assert all(
        list(row) == ["clean/top1_accuracy", *(f"from/{m}/top1_accuracy" for m in MODELS)] for row in matrix.values()
    )
    run = ("run", "--suite", small_suite(**SHORT), *options(MODELS), *SERIAL, "--no-audit", "--json")
    measured = cells(robench(*run, "--results", tmp_path / "apart").stdout)
    for model in MODELS:
        assert matrix[model]["clean/top1_accuracy"] == measured[model]["clean/top1_accuracy"]
        assert matrix[model][f"from/{model}/top1_accuracy"] == measured[model]["pgd/top1_accuracy"]
    attacked = matrix[MODELS[0]][f"from/{MODELS[0]}/top1_accuracy"]["value"]
    assert attacked < matrix[TARGET][f"from/{MODELS[0]}/top1_accuracy"]["value"]


def test_off_the_diagonal_is_what_the_target_makes_of_the_kept_images(
    transfer: Callable[..., Ended], tmp_path: Path
) -> None:
    matrix = cells(transfer("--json", *SERIAL, "--target", TARGET, models=MODELS[:1]).stdout)
    folder, right = FolderStore(tmp_path / "r").adversarial, 0
    dataset, victim = package.load_dataset("digits"), package.load_checkpoint(TARGET)
    assert len(folder.keys()) == 2
    for path in (tmp_path / "r" / "adversarial").rglob("*.safetensors"):
        examples = folder.get(path.parent.name, path.stem)
        assert examples is not None
        targets = dataset.batch(examples.shard.start, examples.shard.stop).targets
        points = torch.tensor(examples.points[ONE_BUDGET])
        right += int((victim.outputs(points, [0] * len(points)).argmax(1) == targets).sum())
    cell = matrix[TARGET][f"from/{MODELS[0]}/top1_accuracy"]
    assert (cell["value"], cell["num_examples"], cell["missing"]) == (right / 100, 100, 0)
    assert cell["low"] < cell["value"] < cell["high"]


@pytest.mark.slow
def test_the_same_command_again_measures_nothing_in_whatever_format(
    transfer: Callable[..., Ended], tmp_path: Path
) -> None:
    first = transfer(*SERIAL)
    before = times(tmp_path / "r")
    assert transfer(*SERIAL).stdout == first.stdout
    for name in ("md", "html"):
        ended = transfer(*SERIAL, "--format", name)
        assert ended.code == 0
        assert all(part in ended.stdout for part in (*MODELS, "transfer of pgd", "clean"))
    assert times(tmp_path / "r") == before


@pytest.mark.slow
def test_a_limit_asks_for_the_first_examples_alone(transfer: Callable[..., Ended]) -> None:
    ended = transfer("--json", *SERIAL, "--limit", 30)
    assert ended.code == 0
    assert {cell["num_examples"] for row in cells(ended.stdout).values() for cell in row.values()} == {30}
    assert all(row["limit"] == 30 for row in json.loads(ended.stdout)["rows"])


def test_an_attack_of_ones_own_on_the_clean_examples_is_drawn_as_a_matrix(robench: Robench, tmp_path: Path) -> None:
    asked = ("transfer", "--suite", "digits-transfer", "--limit", "4", *options(MODELS), *SERIAL, "--json")
    attack = "kind: transfer-pgd, epsilon: 8/255, relative_step: 1/2, num_steps: 2, backward: pna, patch_out: 12"
    figure = tmp_path / "m.svg"
    ended = robench(*asked, "--attack", attack, "--figure", figure, "--results", tmp_path / "r")
    assert ended.code == 0
    assert "own transfer-pgd" in json.loads(ended.stdout)["suite"]
    assert {cell["num_examples"] for row in cells(ended.stdout).values() for cell in row.values()} == {4}
    assert figure.read_text().startswith("<?xml")
    both = robench(*asked, "--attack", attack, "--condition", "pna")
    assert both.code == 2
    assert "give either --condition" in both.stderr
    wrong = robench(*asked, "--attack", attack, "--figure", tmp_path / "m.gif")
    assert "end the file's name in .svg" in wrong.stderr
    unfit = robench(*asked, "--attack", "kind: square-series, epsilon: 0.1, num_queries: 3, p_init: 0.5")
    assert "the attack does not fit suite 'digits-transfer'" in unfit.stderr


@pytest.mark.slow
def test_without_a_clean_condition_there_is_no_clean_column(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    suite = small_suite(
        **{
            "  - {name: clean, num_examples: 150}\n": "",
            "num_examples: 150": "num_examples: 50",
            ", robust_accuracy": "",
        }
    )
    asked = ("transfer", "--suite", suite, "--condition", "fgsm", *options(MODELS), *SERIAL, "--json")
    ended = robench(*asked, "--results", tmp_path / "r")
    assert ended.code == 0
    assert all(len(row) == 2 for row in cells(ended.stdout).values())


class TestSweep:
    @pytest.fixture
    def sweep(self, small_suite: Callable[..., Path]) -> Path:
        swept = {"{kind: fgsm, epsilon: 8/255}": "{kind: fgsm, epsilons: [2/255, 6/255, 12/255]}"}
        return small_suite(**swept, **{"num_examples: 150": "num_examples: 50", ", robust_accuracy": ""})

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("condition", "title", "column"),
        [
            pytest.param("fgsm", "fgsm 12/255", "fgsm@12/255", marks=pytest.mark.slow),
            ("fgsm@6/255", "fgsm 6/255", "fgsm@6/255"),
        ],
    )
    def test_means_its_largest_budget_or_the_one_that_is_named(
        self, robench: Robench, sweep: Path, tmp_path: Path, condition: str, title: str, column: str
    ) -> None:
        asked = ("--suite", sweep, *options(MODELS), *SERIAL, "--json", "--results", tmp_path / "r")
        ended = robench("transfer", "--condition", condition, *asked)
        assert ended.code == 0
        assert title in json.loads(ended.stdout)["suite"]
        measured = cells(robench("run", *asked, "--no-audit").stdout)
        for model in MODELS:
            diagonal = cells(ended.stdout)[model][f"from/{model}/top1_accuracy"]
            assert diagonal == measured[model][f"{column}/top1_accuracy"]


class TestMissing:
    @pytest.mark.slow
    def test_where_an_attack_fails_the_rest_is_shown_and_the_gap_told(
        self, transfer: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attack, first = keeping.perturb_each, package.load_dataset("digits").batch(0, 1).ids[0]  # type: ignore[attr-defined]

        def failing(declaration: Any, batch: Any, *others: Any) -> Any:
            if declaration.kind == "pgd" and batch.ids[0] == first:
                raise ArithmeticError("no luck")
            return attack(declaration, batch, *others)

        monkeypatch.setattr(keeping, "perturb_each", failing)
        ended = transfer(*SERIAL)
        assert ended.code == 1
        assert "no luck" in ended.stderr
        assert ended.stdout.count("50 of 100 missing") == 4
        # One of each source; what they lack for scoring is no failure of its own.
        assert "2 shards failed; the same command tries them again" in ended.stderr
        monkeypatch.undo()
        assert transfer(*SERIAL).code == 0


OTHER = """\
checkpoints:
  cropped:
    architecture: ARCHITECTURE
    weights: {uri: URI, sha256: null}
    preprocessing: {kind: image, mean: [0.305, 0.305, 0.305], std: [0.35, 0.35, 0.35], crop: 32}
  shifted:
    architecture: ARCHITECTURE
    weights: {uri: URI, sha256: null}
    preprocessing: {kind: image, mean: [0.3, 0.3, 0.3], std: [0.36, 0.36, 0.36]}
"""


ARCHITECTURE = (
    "{backbone: vit, image_size: 32, patch_size: 8, num_classes: 10, depth: 4, dim: 64, num_heads: 4, mlp_ratio: 2}"
)


class TestRefused:
    @pytest.mark.parametrize(
        ("further", "parts"),
        [
            (("--condition", "pdg"), ("unknown condition of suite 'small' 'pdg'", "Did you mean 'pgd'?")),
            (("--condition", "pgd@8/255"), ("unknown condition", "pgd@8/255")),
            (("--condition", "pgd@x"), ("unknown condition", "Did you mean 'pgd'?")),
            (("--condition", "clean"), ("leaves images unchanged", "fgsm, pgd")),
            (("--model", "digits-vitt"), ("unknown model 'digits-vitt'",)),
            (("--target", "digits-vitt"), ("unknown model 'digits-vitt'",)),
            (("--limit", "0"), ("--limit",)),
            (("--device", "cuda:9"), ("no device 'cuda:9'",)),
            (("--format", "xml"), ("'xml' is not one of",)),
        ],
        ids=lambda value: " ".join(value)[:40],
    )
    def test_wrong_requests_end_with_2(
        self, transfer: Callable[..., Ended], tmp_path: Path, further: tuple[str, ...], parts: tuple[str, ...]
    ) -> None:
        ended = transfer(*further)
        assert (ended.code, ended.stdout) == (2, "")
        assert all(part in ended.stderr for part in parts)
        assert not (tmp_path / "r" / "records").exists() or list((tmp_path / "r" / "records").iterdir()) == []

    @pytest.fixture
    def registry(self, tmp_path: Path) -> Path:
        from robench.declare import shipped_folder

        path = tmp_path / "mine.yaml"
        weights = shipped_folder() / "checkpoints" / "digits-vit.safetensors"
        path.write_text(OTHER.replace("URI", str(weights)).replace("ARCHITECTURE", ARCHITECTURE))
        return path

    def test_a_model_that_sees_other_pixels(self, transfer: Callable[..., Ended], registry: Path) -> None:
        ended = transfer("--registry", registry, "--target", "cropped")
        assert (ended.code, ended.stdout) == (2, "")
        assert "'digits-vit' sees other pixels than 'cropped' (no resize, no crop" in ended.stderr
        assert "crop 32" in ended.stderr

    @pytest.mark.slow
    def test_but_not_one_that_only_normalises_them_otherwise(
        self, transfer: Callable[..., Ended], registry: Path
    ) -> None:
        targets = options(("digits-vit", "shifted"), "--target")
        ended = transfer("--registry", registry, *targets, *SERIAL, "--json", models=MODELS[:1])
        assert ended.code == 0
        values = [row["from/digits-vit/top1_accuracy"]["value"] for row in cells(ended.stdout).values()]
        # The same weights, which all but share their adversarial examples.
        assert abs(values[0] - values[1]) < 0.1
        assert max(values) < 0.8


@pytest.mark.slow
def test_python_programs_get_the_same_report(
    small_suite: Callable[..., Path], transfer: Callable[..., Ended], tmp_path: Path
) -> None:
    shown = transfer("--json", *SERIAL, "--target", MODELS[1], models=MODELS[:1])
    from robench.api import transfer as in_python

    heard: list[Any] = []
    report = in_python(
        small_suite(**SHORT), "pgd", MODELS[:1], MODELS[1:], results=tmp_path / "r", on_progress=heard.append
    )
    assert RENDERERS["json"](report) == shown.stdout
    assert len(heard) == 2
