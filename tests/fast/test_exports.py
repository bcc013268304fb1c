"""``robench export``: cells are the report's, outcomes the store's, gaps stay, bytes repeat, and CSV is inert."""

import csv
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from math import inf, isnan
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
import yaml
from click.testing import CliRunner
from conftest import ROOT
from leaderboard_examples import ADV, FINE, MASKED, NUM_EXAMPLES, SHIFT, adv_suite, fill, shift_suite
from presence import present

from examples import record_of
from robench.cli import export_command
from robench.core.columns import fields_of
from robench.core.errors import StoreUnwritableError, UsageError
from robench.core.outcomes import Outcome
from robench.core.report import Cell, Estimate, Report, Row
from robench.exports import FORMATS, export
from robench.exports.tables import CELLS, LABEL, cells_of, measured_by, schema_for
from robench.reports import over_seeds, report_of_store
from robench.store import FolderStore
from robench.tasks import TASKS
from robench.tasks.classification import CLASSIFICATION, ClassificationOutcome

PAGE = (ROOT / "docs" / "export.md").read_text()
MODELS = ("digits-vit", "digits-vit@1", "digits-symvit")
NUMBERS = ("value", "low", "high", "num_examples", "missing")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two suites: one model lacks half of every second condition, one has two seeds, one flags."""
    folder: Path = tmp_path_factory.mktemp("filled")
    store = FolderStore(folder)
    skills = {"digits-vit": 0.5, "digits-vit@1": 0.4, "digits-symvit": 0.6}
    fill(store, adv_suite(), skills, half=("digits-symvit",), flags={"digits-vit": (MASKED, FINE)})
    fill(store, shift_suite(), {"digits-vit": 0.5})
    return folder


# The registry takes longer to read than all else together.
registries = cache(export_command.read_registries)


def exported(results: Path, folder: Path, *further: object, output: str = "tables") -> Path:
    """Export both suites of a store into a folder beside them, as the command does."""
    for name, suite in (("adv", ADV), ("shift", SHIFT)):
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(suite))
    suites = ("--suite", folder / "adv.yaml", "--suite", folder / "shift.yaml")
    given = (*suites, "--results", results, "--output", folder / output, *further)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(export_command, "read_registries", registries)
        done = CliRunner().invoke(export_command.command, [str(each) for each in given], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert (done.return_value, done.stdout) == (0, "")
    return folder / output


@pytest.fixture
def run(filled: Path, tmp_path: Path) -> Callable[..., Path]:
    return partial(exported, filled, tmp_path)


@pytest.fixture(scope="module")
def plain(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables without further options."""
    return exported(filled, tmp_path_factory.mktemp("plain"))


def rows_of(folder: Path, table: str) -> list[dict[str, Any]]:
    """Rows of a table in either format, CSV as texts."""
    if (path := folder / f"{table}.parquet").exists():
        return list(pq.read_table(io.BytesIO(path.read_bytes())).to_pylist())
    with (folder / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def as_csv(value: object) -> str:
    """Spell a value as CSV has it."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


class TestCells:
    def test_numbers_are_those_of_the_report_in_json(self, plain: Path, filled: Path) -> None:
        from robench.reports import RENDERERS

        cells = {(row["suite"], row["model"], row["column"]): row for row in rows_of(plain, "cells")}
        wanted = {}
        for suite in (adv_suite(), shift_suite()):
            document = json.loads(RENDERERS["json"](report_of_store(suite, FolderStore(filled))))
            for row in document["rows"]:
                wanted |= {(suite.name, row["model"], key): cell for key, cell in row["cells"].items()}
        # Clean examples are common to the suites, so that every model has a row in both.
        assert len(wanted) == 3 * (len(adv_suite().columns) + len(shift_suite().columns))
        assert cells.keys() == wanted.keys()
        for key, cell in wanted.items():
            assert {name: cells[key][name] for name in NUMBERS} == {name: cell[name] for name in NUMBERS}, key

    def test_a_half_done_store_shows_the_gap(self, plain: Path) -> None:
        of_model = [row for row in rows_of(plain, "cells") if (row["suite"], row["model"]) == ("adv", "digits-symvit")]
        rows = {row["column"]: row for row in of_model}
        gap = rows["fgsm/top1_accuracy"]
        assert (gap["value"], gap["low"], gap["high"], gap["interval"]) == (None,) * 4
        assert (gap["num_examples"], gap["missing"]) == (60, 60)
        whole = rows["clean/top1_accuracy"]
        assert whole["missing"] == 0
        assert 0 < whole["low"] < whole["value"] < whole["high"] < 1

    def test_what_stands_beside_the_numbers(self, plain: Path, filled: Path) -> None:
        rows = rows_of(plain, "cells")
        first = {row["model"]: row for row in rows if row["column"] == "pgd/top1_accuracy"}
        assert list(first) == sorted(MODELS)
        row = first["digits-vit@1"]
        measured = [row[name] for name in ("suite", "suite_version", "suite_seed", "batch_size", "limit")]
        assert measured == ["adv", 1, 0, 20, None]
        assert (row["entry"], row["training_seed"], row["num_seeds"]) == ("digits-vit", 1, 1)
        assert (row["metric"], row["unit"], row["conditions"]) == ("top1_accuracy", "share", "pgd")
        assert row["interval"] == "Wilson 95 %"
        flags = {row["model"]: (row["num_flags"], row["flags"]) for row in rows if row["suite"] == "adv"}
        report = report_of_store(adv_suite(), FolderStore(filled))
        raised = {each.model: [flag.name for flag in each.raised] for each in report.rows if each.flags is not None}
        checked = {model: (len(names), ", ".join(names)) for model, names in raised.items()}
        assert flags == {"digits-symvit": (None, None)} | checked
        assert "zero gradients" in flags["digits-vit"][1]
        assert not any(row["is_coupled"] for row in rows)
        robust = next(row for row in rows if row["column"] == "linf-8/255/robust_accuracy")
        assert robust["conditions"] == "clean+fgsm+pgd"

    def test_a_limit_gives_the_first_examples(self, run: Callable[..., Path]) -> None:
        folder = run("--limit", 60)
        assert {row["limit"] for row in rows_of(folder, "cells")} == {60}
        assert all(row["missing"] == 0 for row in rows_of(folder, "cells") if row["suite"] == "adv")
        ids = [row["example_id"] for row in rows_of(folder, "outcomes") if row["condition"] == "pgd"]
        assert sorted(set(ids)) == [f"digits-{index:05d}" for index in range(60)]
        assert len(ids) == 3 * 60

    def test_means_over_seeds_are_rows_of_their_own(self, run: Callable[..., Path], filled: Path) -> None:
        rows = rows_of(run("--all-seeds"), "cells")
        means = [row for row in rows if row["statistic"] == "mean over seeds"]
        singles = [row for row in rows if row["statistic"] == "checkpoint"]
        wanted = over_seeds(report_of_store(adv_suite(), FolderStore(filled))).rows[1]
        assert wanted.seeds == ("digits-vit", "digits-vit@1")
        assert {row["model"] for row in means} == {"digits-vit"}
        of_adv = [row for row in means if row["suite"] == "adv"]
        assert len(of_adv) == len(adv_suite().columns)
        for row in of_adv:
            estimate = present(wanted.cells[row["column"]].estimate)
            assert (row["value"], row["low"], row["high"]) == (estimate.value, estimate.low, estimate.high)
            assert (row["training_seed"], row["num_seeds"]) == (None, 2)
            assert row["interval"].startswith("Student's t")
            place = ("adv", "digits-vit", row["column"])
            of_seeds = [each["value"] for each in singles if (each["suite"], each["entry"], each["column"]) == place]
            assert tuple(of_seeds) == estimate.of_seeds
        seeds = {(row["model"], row["training_seed"]) for row in singles}
        assert seeds == {("digits-symvit", 0), ("digits-vit", 0), ("digits-vit@1", 1)}
        assert [row for row in rows_of(run(output="plain"), "cells") if row["num_seeds"] != 1] == []

    def test_infinite_numbers_and_undefined_intervals_stay(self) -> None:
        suite = adv_suite()
        column = suite.columns[0]
        estimate = Estimate(value=inf, low=None, high=None, num_examples=5)
        row = Row(model="m", cells={column.key: Cell(estimate=estimate, num_examples=5, missing=0)}, batch_size=20)
        report = Report(suite="adv", version=1, seed=3, columns=(column,), rows=(row,), provenance={})
        (cell,) = cells_of(suite, report, {}, all_seeds=True).to_pylist()
        assert (cell["value"], cell["low"], cell["interval"], cell["suite_seed"]) == (inf, None, None, 3)
        assert (cell["is_coupled"], cell["num_flags"], cell["flags"]) == (True, None, None)


class TestOutcomes:
    def test_rows_are_those_of_the_store(self, plain: Path, filled: Path) -> None:
        kept = {}
        for record in FolderStore(filled).records(lambda shard: not shard.condition.startswith("audit")):
            for outcome in record.outcomes:
                place = (record.shard.checkpoint, record.shard.condition, outcome.example_id, outcome.epsilon)
                kept[place] = outcome
        fields = list(fields_of(ClassificationOutcome))
        rows = rows_of(plain, "outcomes")
        found = {
            (row["model"], row["condition"], row["example_id"], row["epsilon"]): row
            for row in rows
            if row["suite"] == "adv" or row["condition"] != "clean"
        }
        assert found.keys() == kept.keys()
        for place, outcome in kept.items():
            assert {name: found[place][name] for name in fields} == {name: getattr(outcome, name) for name in fields}
        # Clean examples of one model are kept once, and are rows of both suites.
        assert len(rows) == len(found) + 3 * NUM_EXAMPLES

    def test_a_gap_is_no_row(self, plain: Path) -> None:
        rows = [row for row in rows_of(plain, "outcomes") if (row["suite"], row["model"]) == ("adv", "digits-symvit")]
        counts = {name: sum(row["condition"] == name for row in rows) for name in ("clean", "fgsm", "pgd")}
        assert counts == {"clean": NUM_EXAMPLES, "fgsm": NUM_EXAMPLES / 2, "pgd": NUM_EXAMPLES}

    def test_budgets_are_as_declared(self, plain: Path) -> None:
        rows = rows_of(plain, "outcomes")
        budgets = {(row["condition"], row["budget"], row["epsilon"]) for row in rows}
        assert {("clean", None, None), ("fgsm", "8/255", None), ("pgd-half", "4/255", None)} <= budgets
        sweep = sorted((each[1], each[2]) for each in budgets if each[0] == "sweep")
        assert sweep == [("0", "0"), ("2/255", "2/255"), ("4/255", "4/255"), ("8/255", "8/255")]

    def test_a_reduced_budget_has_the_spelling_of_its_suite(self, tmp_path: Path) -> None:
        changed = json.loads(json.dumps(SHIFT).replace('"4/255"', '"6/255"'))
        suite = shift_suite(conditions=changed["conditions"])
        store = FolderStore(tmp_path / "r")
        fill(store, suite, {"m": 0.5})
        export([suite], store, tmp_path / "t", format_name="parquet")
        pairs = {(row["budget"], row["epsilon"]) for row in rows_of(tmp_path / "t", "outcomes") if row["epsilon"]}
        assert ("6/255", "2/85") in pairs

    def test_types_are_those_of_records_and_texts_are_no_categories(self, plain: Path) -> None:
        schema = pq.read_schema(plain / "outcomes.parquet")
        kinds = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}
        kinds[tuple] = pa.list_(pa.field("element", pa.int64(), nullable=False))
        for name, field in fields_of(ClassificationOutcome).items():
            assert schema.field(name).type == kinds[field.type]
        assert schema.field("model").type == pa.string()

    def test_outcomes_of_one_measurement_are_in_memory_at_a_time(
        self, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = []
        records_of = FolderStore.records_of

        def noted(store: FolderStore, keys: Any) -> Any:
            asked.append(list(keys))
            return records_of(store, keys)

        report = report_of_store(adv_suite(), FolderStore(filled), models=MODELS)
        monkeypatch.setattr(FolderStore, "records_of", noted)
        measured = measured_by(adv_suite(), FolderStore(filled), report, limit=None)
        assert all(len(keys) == 1 for keys in asked)
        assert all(len(record.outcomes) == 0 for each in measured for record in each.coverage.records)
        # The audit of one model.
        assert len(measured) == 3 * 4 + 1
        assert [each.condition.name for each in measured if each.is_audit] == ["audit-digits"]

    def test_limited_runs_alone_are_left_out_as_in_reports(self, tmp_path: Path) -> None:
        store = FolderStore(tmp_path / "r")
        fill(store, adv_suite(), {"m": 0.5}, limit=60)
        exported = export([adv_suite()], store, tmp_path / "t", format_name="csv")
        assert list(exported.files.values()) == [0, 0]
        assert exported.num_missing == 0
        exported = export([adv_suite()], store, tmp_path / "t", format_name="csv", limit=60)
        assert list(exported.files.values()) == [len(adv_suite().columns), 4 * 60]

    def test_overlapping_shards_give_each_example_once(self, tmp_path: Path) -> None:
        store = FolderStore(tmp_path / "r")
        fill(store, adv_suite(), {"m": 0.5})
        fill(store, adv_suite(batches_per_shard=1), {"m": 0.5})
        export([adv_suite()], store, tmp_path / "t", format_name="parquet")
        rows = rows_of(tmp_path / "t", "outcomes")
        assert len(rows) == 4 * NUM_EXAMPLES
        assert len({(row["condition"], row["example_id"]) for row in rows}) == 4 * NUM_EXAMPLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Regressed(Outcome):
    """Outcome with a column that classification lacks."""

    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous(Outcome):
    """Outcome whose target is another type than a class."""

    target: float


class TestTasks:
    """Suites of several tasks in one table."""

    @staticmethod
    def task(monkeypatch: pytest.MonkeyPatch, outcome: type[Outcome]) -> Any:
        other = replace(CLASSIFICATION, name="other", outcome=outcome)
        monkeypatch.setitem(TASKS.builtin, "other", other)
        return replace(adv_suite(), name="other", task="other")

    def test_have_the_columns_of_both(self, monkeypatch: pytest.MonkeyPatch) -> None:
        suite = self.task(monkeypatch, Regressed)
        names = schema_for([adv_suite(), suite]).names
        assert names[-1] == "error"
        assert len(names) == len(set(names)) == len(schema_for([adv_suite()]).names) + 1

    def test_with_another_type_of_one_column_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        suite = self.task(monkeypatch, Continuous)
        with pytest.raises(UsageError, match="have a column 'target' of double, and those of another suite of int64"):
            schema_for([adv_suite(), suite])


class TestFiles:
    @pytest.mark.parametrize("format_name", FORMATS)
    def test_the_same_results_give_the_same_bytes(self, filled: Path, tmp_path: Path, format_name: str) -> None:
        results = tmp_path / "results"
        shutil.copytree(filled, results)
        run, given = partial(exported, results, tmp_path), ("--format", format_name, "--all-seeds")
        one, two = run(*given, output="one"), run(*given, output="two")
        names = {path.name for path in one.iterdir()}
        assert names == {f"cells.{format_name}", f"outcomes.{format_name}", "manifest.json"}
        assert all((one / name).read_bytes() == (two / name).read_bytes() for name in names)
        before = (one / f"outcomes.{format_name}").read_bytes()
        record = next(FolderStore(results).records(lambda shard: shard.condition == "pgd"))
        path = next(results.rglob(f"{record.shard.key}.parquet"))
        path.unlink()
        assert (run(*given, output="one") / f"outcomes.{format_name}").read_bytes() != before

    def test_both_formats_have_the_same_values(self, plain: Path, run: Callable[..., Path]) -> None:
        folder = run("--format", "csv")
        for table in ("cells", "outcomes"):
            typed, texts = rows_of(plain, table), rows_of(folder, table)
            assert len(typed) == len(texts) > 0
            assert [{name: as_csv(value) for name, value in row.items()} for row in typed] == texts

    def test_the_manifest_says_what_the_tables_are_of(self, run: Callable[..., Path], filled: Path) -> None:
        folder = run("--model", "digits-vit", "--model", "digits-symvit")
        manifest = json.loads((folder / "manifest.json").read_text())
        for name, entry in manifest["files"].items():
            assert entry["sha256"] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
            assert entry["rows"] == pq.read_metadata(folder / name).num_rows
        assert manifest["options"]["models"] == ["digits-vit", "digits-symvit"]
        assert [(each["name"], each["version"]) for each in manifest["suites"]] == [("adv", 1), ("shift", 2)]
        kept = {each.shard.measurement_key: each for each in FolderStore(filled).manifests()}
        for each in manifest["measurements"]:
            shard = kept[each["key"]].shard
            assert (each["weights"], each["fingerprint"]) == (shard.weights_digest, shard.dataset.fingerprint)
            assert (each["devices"], each["versions"]) == (["cpu"], {"numpy": "2.3", "torch": "2.15"})
            assert (each["seed"], each["training_seed"]) == (0, 0)
        adv = [each for each in manifest["measurements"] if each["suite"] == "adv"]
        names = ("clean", "fgsm", "pgd", "pgd-half", "audit-digits")
        assert [(each["model"], each["condition"]) for each in adv][:5] == [("digits-vit", name) for name in names]
        gap = next(each for each in adv if (each["model"], each["condition"]) == ("digits-symvit", "fgsm"))
        assert (gap["num_examples"], gap["missing"]) == (60, 60)
        assert not re.search(r"20\d\d-\d\d|/tmp|finished", (folder / "manifest.json").read_text())

    def test_formulas_are_inert_and_numbers_stay_numbers(self, tmp_path: Path) -> None:
        store, suite, hostile = FolderStore(tmp_path / "r"), adv_suite(), "=cmd|'/c calc'!A1\x1b[31m"
        fill(store, suite, {hostile: 0.5})
        ids = ("+1", "@x", "\t=2", "-3", "plain")
        for record in list(store.records(lambda shard: True)):
            linf = 1e-300 if record.shard.condition == "pgd" else 0.0
            changed = [
                replace(outcome, example_id=f"{ids[index % 5]}{index}", linf=linf)
                for index, outcome in enumerate(record.outcomes, record.shard.start)
            ]
            next((tmp_path / "r").rglob(f"{record.shard.key}.parquet")).unlink()
            store.put(record_of(record.shard, changed))
        export([suite], store, tmp_path / "c", format_name="csv")
        rows = rows_of(tmp_path / "c", "outcomes")
        attacked = [row for row in rows if row["condition"] == "pgd"]
        assert {row["model"] for row in rows} == {"'=cmd|'/c calc'!A1\\x1b[31m"}
        assert {row["example_id"].rstrip("0123456789") for row in attacked} <= {"'+", "'@x", "\\t=", "'-", "plain"}
        assert {row["linf"] for row in attacked} == {"1e-300"}
        text = (tmp_path / "c" / "outcomes.csv").read_text()
        assert text.replace("\n", "").isprintable()
        export([suite], store, tmp_path / "p", format_name="parquet")
        assert {row["model"] for row in rows_of(tmp_path / "p", "cells")} == {hostile}

    @pytest.mark.parametrize("format_name", FORMATS)
    def test_names_that_are_no_text_are_written(self, run: Callable[..., Path], format_name: str) -> None:
        folder = run("--format", format_name, "--model", "half a pair \ud83d", output="x\udc9b")
        assert {row["model"] for row in rows_of(folder, "cells")} == {"half a pair \\ud83d"}
        missing = {int(row["missing"]) for row in rows_of(folder, "cells") if row["suite"] == "shift"}
        assert missing <= {600, 120}

    def test_two_suites_of_one_name_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="two suites are named 'adv'; export them into folders of their own"):
            export([adv_suite(), adv_suite(seed=1)], FolderStore(tmp_path), tmp_path / "t", format_name="csv")
        assert not (tmp_path / "t").exists()

    def test_a_folder_that_cannot_be_written_is_named(self, run: Callable[..., Path], tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnwritableError, match=r"file/t cannot be written: Not a directory; choose"):
            run(output="file/t")

    def test_a_failure_leaves_what_was_there(
        self, run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        folder = run()
        before = {path.name: path.read_bytes() for path in folder.iterdir()}

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setitem(FORMATS, "parquet", full)  # type: ignore[arg-type]
        with pytest.raises(StoreUnwritableError, match="No space left on device"):
            run()
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == before

    def test_no_results_give_empty_tables_with_columns(self, run: Callable[..., Path], tmp_path: Path) -> None:
        folder = run("--results", tmp_path / "none")
        assert pq.read_table(folder / "cells.parquet").num_rows == 0
        assert pq.read_schema(folder / "outcomes.parquet").names == schema_for([adv_suite()]).names


class TestPage:
    """docs/export.md has the columns that there are."""

    def test_columns_stand_there_in_their_order_with_their_types(self) -> None:
        listed = re.findall(r"^\| ([\w, ]+) \| ([a-z ]+) \| .+ \|$", PAGE.split("## outcomes")[0], re.MULTILINE)
        columns = [(name, kind) for names, kind in listed[1:] for name in names.split(", ")]
        kinds = {LABEL: "text", pa.string(): "text", pa.int64(): "int", pa.float64(): "float", pa.bool_(): "bool"}
        assert [(name, kind.removesuffix(" or null")) for name, kind in columns] == [
            (field.name, kinds[field.type]) for field in CELLS
        ]

    def test_columns_that_are_not_marked_are_never_null(self, run: Callable[..., Path]) -> None:
        rows = rows_of(run("--all-seeds"), "cells")
        listed = re.findall(r"^\| ([\w, ]+) \| (text|int|float|bool) \|", PAGE.split("## outcomes")[0], re.MULTILINE)
        never = [name for names, _ in listed for name in names.split(", ")]
        assert len(never) > 10
        assert [row for row in rows if any(row[name] is None for name in never)] == []
        assert not any(isinstance(value, float) and isnan(value) for row in rows for value in row.values())

    def test_outcomes_have_the_columns_of_records_after_their_own(self) -> None:
        names = schema_for([adv_suite()]).names
        page = PAGE.split("## outcomes")[1].split("## Images")[0]
        own = re.findall(r"^\| ([\w, ]+) \| ", page, re.MULTILINE)[1:]
        assert [name for each in own for name in each.split(", ")] == names[:9]
        assert names[9:] == list(fields_of(ClassificationOutcome))

    def test_the_example_runs(
        self, run: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(run().parent)
        (source,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        exec(source, {})
        assert "digits-symvit" in capsys.readouterr().out
