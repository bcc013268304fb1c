"""``robench rescore``: what is sound agrees, and whatever was tampered with is found, counted and named."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import SMALL_SUITE

import robench as package
from examples import outcome_columns
from robench.core.columns import Values
from robench.core.records import Record
from robench.core.shard import EXACT_DTYPE, DatasetIdentity, Measurement, Shard
from robench.core.suite import Condition
from robench.corruptions.corruption import Corruption
from robench.datasets.digits import DIGITS
from robench.declare import find_checkpoints
from robench.evaluation.evaluate import evaluate
from robench.evaluation.submission import agreement_of
from robench.perturbations.clean import Clean
from robench.store import AdversarialExamples, FolderStore
from robench.store.adversarial import ONE_BUDGET

MODEL = "digits-vit"
SUITE = (
    SMALL_SUITE.replace("NAME", "small")
    .replace("num_examples: 150", "num_examples: 100")
    .replace("{kind: fgsm, epsilon: 8/255}", "{kind: fgsm, epsilons: [2/255, 6/255]}")
    .replace(", robust_accuracy", "")
    .replace("metrics:", "  - {name: snow, num_examples: 100, perturbation: SNOW}\nmetrics:")
    .replace("SNOW", "{kind: corruption, type: snow, severity: 3, constants: cifar}")
)
CONDITIONS = ("clean", "fgsm 2/255", "fgsm 6/255", "pgd", "snow")


@pytest.fixture(scope="module")
def submitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a suite and sound results in both number formats."""
    folder: Path = tmp_path_factory.mktemp("submitted")
    (folder / "small.yaml").write_text(SUITE)
    for dtype in ("float32", "float16"):
        package.run(
            folder / "small.yaml",
            [MODEL],
            results=folder / dtype,
            audit=False,
            keep_adversarial=dtype,
            executor="serial",
        )
    return folder


@pytest.fixture
def rescore(robench: Any, submitted: Path, tmp_path: Path) -> Callable[..., tuple[int, dict[str, dict[str, Any]]]]:
    def run(*further: object, results: str = "r") -> tuple[int, dict[str, dict[str, Any]]]:
        suite = ("--suite", submitted / "small.yaml", "--model", MODEL, "--results", tmp_path / results)
        ended = robench("rescore", *suite, "--device", "cpu", "--json", *further)
        assert ended.code in (0, 1), ended.stderr
        return ended.code, {each["condition"]: each for each in json.loads(ended.stdout)}

    return run


@pytest.fixture
def results(submitted: Path, tmp_path: Path) -> FolderStore:
    """A copy of the exact results that a test may tamper with."""
    shutil.copytree(submitted / "float32", tmp_path / "r")
    return FolderStore(tmp_path / "r")


def record_of_shard(store: FolderStore, condition: str, start: int = 0) -> Record:
    (found,) = [each for each in store.records(lambda shard: shard.condition == condition) if each.shard.start == start]
    return found


def change_record(store: FolderStore, record: Record, **columns: Values | None) -> None:
    """Replace columns of a record; its seal is valid."""
    next((store.path / "records").rglob(f"{record.shard.key}.parquet")).unlink()
    store.put(replace(record, outcomes=record.outcomes.replaced(**columns)))


def change_examples(
    store: FolderStore, condition: str, change: Callable[[AdversarialExamples], AdversarialExamples], start: int = 0
) -> AdversarialExamples:
    """Replace adversarial examples of a shard; their seal is valid."""
    shard = record_of_shard(store, condition, start).shard
    examples = store.adversarial.get(shard.measurement_key, shard.key)
    assert examples is not None
    changed = change(examples)
    next((store.path / "adversarial").rglob(f"{shard.key}.safetensors")).unlink()
    store.adversarial.put(changed)
    return examples


def with_points(examples: AdversarialExamples, name: str, points: Any) -> AdversarialExamples:
    return replace(examples, points={**examples.points, name: points})


def counts(entry: dict[str, Any]) -> tuple[int, int, int, int, int]:
    ids = (len(entry["violations"]), len(entry["disagreements"]))
    return entry["num_examples"], entry["num_missing"], *ids, entry["num_ties"]


SOUND = (100, 0, 0, 0, 0)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float16"])
def test_sound_results_agree_in_either_format(
    rescore: Callable[..., Any], submitted: Path, tmp_path: Path, dtype: str
) -> None:
    shutil.copytree(submitted / dtype, tmp_path / "r")
    before = {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()}
    code, found = rescore()
    assert code == 0
    assert tuple(found) == CONDITIONS
    assert {name: counts(each) for name, each in found.items()} == dict.fromkeys(CONDITIONS, SOUND)
    assert {name: each["kept_as"] for name, each in found.items()} == {
        "clean": None,
        "fgsm 2/255": dtype,
        "fgsm 6/255": dtype,
        "pgd": dtype,
        # Made again, since it depends on no model.
        "snow": None,
    }
    assert all(each["agrees"] and not each["notes"] for each in found.values())
    accuracies = [found[name]["rescored"] for name in CONDITIONS]
    assert accuracies == [found[name]["submitted"] for name in CONDITIONS]
    assert accuracies[0] > accuracies[1] > accuracies[2]
    outcomes = [each.outcomes for each in FolderStore(tmp_path / "r").records(lambda each: each.condition == "pgd")]
    assert found["pgd"]["rescored"] == sum(each.column("correct_top1").sum() for each in outcomes) / 100
    # Nothing is written to a submission.
    assert {path: path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file()} == before


def test_the_table_is_for_readers(robench: Any, submitted: Path) -> None:
    suite = ("--suite", submitted / "small.yaml", "--model", MODEL, "--results", submitted / "float32")
    ended = robench("rescore", *suite, "--condition", "pgd", "--device", "cpu")
    assert ended.code == 0
    header, row = ended.stdout.splitlines()
    assert header.split()[:3] == ["suite", "model", "condition"]
    assert row.split()[:8] == ["small", MODEL, "pgd", "100", "0", "0", "0", "0"]
    assert f"{MODEL} / pgd: 100 examples scored again" in ended.stderr


def test_examples_beyond_the_budget_are_found(rescore: Callable[..., Any], results: FolderStore) -> None:
    def further(examples: AdversarialExamples) -> AdversarialExamples:
        points = examples.points[ONE_BUDGET].copy()
        # Two grey levels further than 8/255, inwards of [0, 1].
        clean = package.load_dataset("digits").batch(0, 50).inputs.numpy()
        points[3] = np.where(clean[3] < 0.5, clean[3] + 10 / 255, clean[3] - 10 / 255)
        points[7, 0, 0, 0] = 1.5
        points[9, 0, 0, 0] = np.nan
        return with_points(examples, ONE_BUDGET, points)

    ids = change_examples(results, "pgd", further).ids
    code, found = rescore()
    assert code == 1
    assert found["pgd"]["violations"] == [ids[3], ids[7], ids[9]]
    assert counts(found["pgd"]) == (100, 0, 3, 0, 0)
    assert not found["pgd"]["agrees"]
    # Both numbers are of the others.
    assert found["pgd"]["submitted"] == found["pgd"]["rescored"]
    assert counts(found["clean"]) == SOUND


@pytest.mark.slow
def test_a_sweep_is_checked_at_each_budget(rescore: Callable[..., Any], results: FolderStore) -> None:
    def larger(examples: AdversarialExamples) -> AdversarialExamples:
        return with_points(examples, "2/255", examples.points["2/85"])

    ids = change_examples(results, "fgsm", larger, start=50).ids
    code, found = rescore("--condition", "fgsm")
    assert code == 1
    assert tuple(found) == ("fgsm 2/255", "fgsm 6/255")
    assert found["fgsm 2/255"]["violations"] == list(ids)
    assert counts(found["fgsm 6/255"]) == SOUND
    assert counts(found["fgsm 2/255"]) == (100, 0, 50, 0, 0)


@pytest.mark.slow
def test_swapped_examples_are_found(rescore: Callable[..., Any], results: FolderStore) -> None:
    def swapped(examples: AdversarialExamples) -> AdversarialExamples:
        order = [1, 0, *range(2, 50)]
        return with_points(examples, ONE_BUDGET, examples.points[ONE_BUDGET][order])

    ids = change_examples(results, "pgd", swapped).ids
    code, found = rescore("--condition", "pgd")
    assert (code, found["pgd"]["violations"]) == (1, list(ids[:2]))


def test_clean_images_in_place_of_adversarial_ones_disagree(rescore: Callable[..., Any], results: FolderStore) -> None:
    def clean(examples: AdversarialExamples) -> AdversarialExamples:
        return with_points(examples, ONE_BUDGET, package.load_dataset("digits").batch(0, 50).inputs.numpy())

    change_examples(results, "pgd", clean)
    code, found = rescore("--condition", "pgd")
    assert code == 1
    assert found["pgd"]["violations"] == []
    # Distances tell even where the prediction is the same.
    assert len(found["pgd"]["disagreements"]) == 50
    assert found["pgd"]["rescored"] > found["pgd"]["submitted"]


@pytest.mark.parametrize("kind", ["examples", "record"])
def test_a_flipped_bit_is_a_gap(rescore: Callable[..., Any], results: FolderStore, kind: str) -> None:
    shard = record_of_shard(results, "pgd").shard
    suffix = {"examples": "adversarial/*/*.safetensors", "record": "records/*/*.parquet"}[kind]
    (path,) = [each for each in results.path.glob(suffix) if each.stem == shard.key]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    code, found = rescore("--condition", "pgd")
    assert code == 1
    assert counts(found["pgd"]) == (50, 50, 0, 0, 0)
    assert list((results.path / "damaged").iterdir())
    if kind == "examples":
        assert "examples 0-49: no adversarial examples are kept, or their file is damaged" in found["pgd"]["notes"]


class TestTamperedRecords:
    """Results that say something else than the adversarial examples do."""

    def test_better_predictions_are_found(self, rescore: Callable[..., Any], results: FolderStore) -> None:
        record = record_of_shard(results, "pgd")
        outcomes = record.outcomes
        fooled = np.flatnonzero(~outcomes.column("correct_top1"))
        targets, predictions = outcomes.column("target"), outcomes.column("prediction").copy()
        predictions[fooled[0]] = targets[fooled[0]]
        change_record(
            results,
            record,
            prediction=Values(predictions),
            correct_top1=Values(predictions == targets),
            confidence=None,
            loss_nats=None,
        )
        code, found = rescore("--condition", "pgd")
        assert code == 1
        assert found["pgd"]["disagreements"] == [outcomes.ids[fooled[0]]]
        assert found["pgd"]["submitted"] == pytest.approx(found["pgd"]["rescored"] + 0.01)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("condition", "column", "change", "left_out"),
        [
            ("clean", "confidence", -0.01, "loss_nats"),
            ("clean", "loss_nats", 0.01, "confidence"),
            ("pgd", "linf", -1e-5, "l1"),
            ("pgd", "l2", -0.001, "l1"),
        ],
    )
    def test_other_numbers_are_found(
        self,
        rescore: Callable[..., Any],
        results: FolderStore,
        condition: str,
        column: str,
        change: float,
        left_out: str,
    ) -> None:
        record = record_of_shard(results, condition)
        values = record.outcomes.column(column).copy()
        values[5] += change
        # Beside it an edit of this one number would be a contradiction.
        change_record(results, record, **{column: Values(values), left_out: None})
        code, found = rescore("--condition", condition)
        assert (code, found[condition]["disagreements"]) == (1, [record.outcomes.ids[5]])

    @pytest.mark.slow
    def test_a_record_that_contradicts_itself_is_set_aside_and_missing(
        self, rescore: Callable[..., Any], results: FolderStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        record = record_of_shard(results, "clean")
        targets = record.outcomes.column("target").copy()
        targets[5] += 1
        change_record(results, record, target=Values(targets))
        code, found = rescore("--condition", "clean")
        assert (code, counts(found["clean"])) == (1, (50, 50, 0, 0, 0))
        assert f"its correct_top1 of example {str(record.outcomes.ids[5])!r} is true" in caplog.text
        assert (results.path / "damaged" / f"{record.shard.key}.parquet-1").exists()

    def test_rounding_is_no_disagreement(self, rescore: Callable[..., Any], results: FolderStore) -> None:
        record = record_of_shard(results, "clean")
        confidence = Values(record.outcomes.column("confidence") + 1e-5)
        # Columns that an archive leaves out, and passes, which are not repeated.
        change_record(results, record, confidence=confidence, loss_nats=None, num_queries=Values(np.arange(50)))
        code, found = rescore("--condition", "clean")
        assert (code, counts(found["clean"])) == (0, SOUND)

    @pytest.mark.slow
    def test_outcomes_of_other_examples_cannot_be_scored(
        self, rescore: Callable[..., Any], results: FolderStore
    ) -> None:
        record = record_of_shard(results, "clean")
        rows = [replace(row, example_id=f"other-{row.example_id}") for row in record.outcomes]
        change_record(results, record, example_id=outcome_columns(rows).values("example_id"))
        code, found = rescore("--condition", "clean")
        assert (code, counts(found["clean"])) == (1, (50, 50, 0, 0, 0))
        assert "examples 0-49: the record's outcomes are of other examples" in found["clean"]["notes"][0]


def without_ids(examples: AdversarialExamples) -> AdversarialExamples:
    return replace(examples, ids=tuple(f"other-{each}" for each in examples.ids))


def smaller(examples: AdversarialExamples) -> AdversarialExamples:
    return with_points(examples, ONE_BUDGET, examples.points[ONE_BUDGET][:, :1])


def doubled(examples: AdversarialExamples) -> AdversarialExamples:
    return with_points(examples, ONE_BUDGET, examples.points[ONE_BUDGET].astype(np.float64))


def renamed(examples: AdversarialExamples) -> AdversarialExamples:
    return replace(examples, points={"1/255": examples.points[ONE_BUDGET]})


def other_found(examples: AdversarialExamples) -> AdversarialExamples:
    return replace(examples, found={ONE_BUDGET: np.ones(3, np.bool_)})


def other_data(examples: AdversarialExamples) -> AdversarialExamples:
    identity = DatasetIdentity(name="digits", fingerprint="f", num_examples=600)
    return replace(examples, shard=replace(examples.shard, dataset=identity))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (other_data, "of other data or ids"),
        (smaller, "are float32 (50, 1, 32, 32), wanted float32 (50, 3, 32, 32)"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                (without_ids, "of other data or ids"),
                (doubled, "are float64 (50, 3, 32, 32), wanted float32"),
                (renamed, "are at 1/255, wanted inputs"),
            )
        ),
        (other_found, "found:inputs is bool (3,), wanted bool (50,)"),
    ],
)
def test_files_of_another_form_are_a_gap_with_the_reason(
    rescore: Callable[..., Any], results: FolderStore, change: Any, message: str
) -> None:
    change_examples(results, "pgd", change)
    code, found = rescore("--condition", "pgd")
    assert (code, counts(found["pgd"])) == (1, (50, 50, 0, 0, 0))
    assert message in found["pgd"]["notes"][0]


class TestGaps:
    def test_results_without_adversarial_examples_are_missing(
        self, rescore: Callable[..., Any], results: FolderStore
    ) -> None:
        shutil.rmtree(results.path / "adversarial")
        code, found = rescore("--condition", "pgd", "--condition", "clean", "--condition", "snow")
        assert code == 1
        assert counts(found["snow"]) == SOUND
        assert (counts(found["pgd"]), found["pgd"]["submitted"]) == ((0, 100, 0, 0, 0), None)
        assert len(found["pgd"]["notes"]) == 2
        assert counts(found["clean"]) == SOUND

    def test_no_results_are_missing(self, rescore: Callable[..., Any]) -> None:
        code, found = rescore("--condition", "pgd", results="none")
        assert (code, counts(found["pgd"])) == (1, (0, 100, 0, 0, 0))
        assert found["pgd"]["notes"] == ["no results of this model, with these weights, data and settings"]

    @pytest.mark.slow
    def test_a_limit_wants_the_first_examples_alone(self, rescore: Callable[..., Any], results: FolderStore) -> None:
        record = record_of_shard(results, "pgd", start=50)
        next((results.path / "records").rglob(f"{record.shard.key}.parquet")).unlink()
        code, found = rescore("--limit", 40)
        assert (code, {counts(each) for each in found.values()}) == (0, {(40, 0, 0, 0, 0)})
        code, found = rescore("--condition", "pgd")
        assert (code, counts(found["pgd"])) == (1, (50, 50, 0, 0, 0))

    def test_an_unknown_condition_is_refused(self, robench: Any, submitted: Path) -> None:
        suite = ("--suite", submitted / "small.yaml", "--model", MODEL, "--results", submitted / "float32")
        ended = robench("rescore", *suite, "--condition", "pdg")
        assert ended.code == 2
        assert "unknown condition 'pdg'. Did you mean 'pgd'?" in ended.stderr


class Leaning:
    """Model of two classes, the second ahead by ``lead``."""

    device = torch.device("cpu")
    normalisation = torch.zeros(3, 1, 1), torch.ones(3, 1, 1)

    def __init__(self, lead: float) -> None:
        self.lead = lead

    def outputs(self, inputs: torch.Tensor, seeds: Any = None) -> torch.Tensor:
        outputs = torch.zeros(len(inputs), 10)
        outputs[:, 1] += 5
        outputs[:, 2] += 5 + self.lead
        return outputs


@pytest.mark.parametrize(
    ("lead", "num_ties", "num_differ"), [(1e-5, 10, 0), (4e-4, 10, 0), (1e-3, 0, 10), (-1e-5, 0, 0)]
)
@pytest.mark.parametrize(
    "perturbation", [Clean(), Corruption(type="snow", severity=3, constants="cifar")], ids=["clean", "snow"]
)
def test_outputs_on_the_boundary_are_a_tie(perturbation: Any, lead: float, num_ties: int, num_differ: int) -> None:
    dataset = package.load_dataset("digits")
    (checkpoint,) = find_checkpoints([MODEL])
    measurement = Measurement(
        checkpoint=checkpoint,
        condition=Condition(name="c", dataset=DIGITS, perturbation=perturbation),
        weights_digest="0" * 64,
        dataset=dataset.identity,
        seed=0,
        batch_size=4,
        adversarial_dtype=EXACT_DTYPE,
    )
    shard = Shard(measurement=measurement, start=0, stop=10)
    one: Any = Leaning(-1e-6)
    other: Any = Leaning(lead)
    agreement = agreement_of(shard, evaluate(shard, one, dataset), None, other, dataset)
    assert (int(agreement.is_tied.sum()), int(agreement.differs.sum())) == (num_ties, num_differ)
    assert not agreement.violates.any()
