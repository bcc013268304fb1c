"""Results folders as ``report``, ``status`` and their hints describe them; nothing is measured here."""

import hashlib
import json
import shlex
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import Robench

from examples import CHECKPOINT, MEASUREMENT, PROVENANCE, failure_of, outcomes_of, record_of
from robench.cli.main import cli
from robench.core.records import Record
from robench.core.shard import DatasetIdentity, Shard
from robench.core.suite import Suite
from robench.declare import find_suite
from robench.reports import report_of_store
from robench.store import FolderStore
from robench.store.upkeep import move_aside


def fill(
    results: Path, suite: Suite, model: str, num_examples: int = 50, *, limit: int | None = None, fails: str = ""
) -> None:
    """Store the first examples of each condition of a suite, of one that fails a failure."""
    store = FolderStore(results)
    for condition in suite.conditions:
        dataset = DatasetIdentity(name=condition.dataset.name, fingerprint="f", num_examples=600)
        measurement = replace(
            MEASUREMENT,
            checkpoint=replace(CHECKPOINT, name=model),
            condition=condition,
            weights_digest=hashlib.sha256(model.encode()).hexdigest(),
            dataset=dataset,
            batch_size=suite.batch_size,
            seed=suite.seed,
        )
        header = Shard(measurement=measurement, start=0, stop=num_examples).header
        kept = record_of(header, outcomes_of(header, linf=0.0), replace(PROVENANCE, limit=limit))
        store.put(failure_of(header, "no luck") if condition.name == fails else kept)


class TestReport:
    def test_a_limited_run_is_named_with_the_command_that_shows_it(
        self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        suite, results = small_suite(), tmp_path / "r"
        fill(results, find_suite(suite), "one", limit=50)
        fill(results, find_suite(suite), "other", limit=50)
        fill(results, find_suite(suite), "third", num_examples=100, limit=100)
        ended = robench("report", "--suite", suite, "--results", results)
        assert (ended.code, ended.stdout) == (1, "")
        first, second = ended.stderr.splitlines()
        command = "robench report --suite small.yaml --results r --limit 50"
        assert first == f"one, other were measured with --limit 50; add it: {command}"
        assert second.startswith("third was measured with --limit 100; add it: ")
        shown = robench(*shlex.split(command)[1:])
        assert (shown.code, shown.stderr) == (0, "")
        assert "one" in shown.stdout
        assert "other" in shown.stdout

    @pytest.mark.parametrize(
        ("command", "code"),
        [
            (("compare", "one", "other"), 0),
            (("leaderboard", "--format", "json"), 1),
            (("export", "tables", "--output", "tables"), 0),
            (("card", "one"), 2),
            (("figure", "budget", "--output", "figure.svg"), 1),
            (("baseline", "write", "baseline.parquet", "--model", "one"), 1),
        ],
    )
    def test_every_command_that_reads_results_proposes_the_limit(
        self,
        robench: Robench,
        small_suite: Callable[..., Path],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        command: tuple[str, ...],
        code: int,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        suite, results = small_suite(), tmp_path / "r"
        fill(results, find_suite(suite), "one", limit=50)
        fill(results, find_suite(suite), "other", limit=50)
        ended = robench(*command, "--suite", suite, "--results", results)
        assert (ended.code, "--limit 50" in ended.stdout + ended.stderr) == (code, True)

    def test_it_is_named_beside_the_rows_of_others(
        self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
    ) -> None:
        suite, results = small_suite(), tmp_path / "r"
        fill(results, find_suite(suite), "whole", num_examples=150)
        fill(results, find_suite(suite), "limited", limit=50)
        ended = robench("report", "--suite", suite, "--results", results)
        assert (ended.code, "limited" in ended.stdout) == (0, False)
        assert "limited was measured with --limit 50; add it" in ended.stderr

    def test_what_was_moved_aside_is_named_beside_gaps_and_where_nothing_is_left(
        self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
    ) -> None:
        suite, results = small_suite(), tmp_path / "r"
        fill(results, find_suite(suite), "one", num_examples=150)
        first, *others = [each.shard.measurement_key for each in FolderStore(results).manifests()]
        options = ("--suite", suite, "--results", results)
        moved = "'robench store gc --apply' has moved {} measurement{}" + f" of small to {results / 'unused'}"
        assert robench("report", *options).stderr == ""
        move_aside(FolderStore(results), [first])
        assert moved.format(1, "") in robench("report", *options).stderr
        assert robench("report", "--suite", "pgd-standard", "--dataset", "digits", *options[2:]).stderr.count("gc") == 0
        move_aside(FolderStore(results), others)
        for command in ("report", "leaderboard", "status"):
            ended = robench(command, *options)
            assert "No results" in ended.stderr
            assert moved.format(3, "s") in ended.stderr

    def test_results_that_are_moved_and_measured_again_as_they_are_read_are_read_again(
        self, small_suite: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        suite, aside, folder = find_suite(small_suite()), tmp_path / "aside", tmp_path / "r" / "records"
        fill(tmp_path / "r", suite, "one", num_examples=150)
        moved, read, keys = min(folder.iterdir()), FolderStore.records_of, FolderStore.keys

        def overtaken(store: FolderStore, keys: Collection[str]) -> Iterator[Record]:
            moved.rename(aside)
            monkeypatch.setattr(FolderStore, "records_of", read)
            return read(store, keys)

        def measured_again(store: FolderStore) -> set[str]:
            found = keys(store)
            if aside.exists():
                aside.rename(moved)
            return found

        monkeypatch.setattr(FolderStore, "records_of", overtaken)
        monkeypatch.setattr(FolderStore, "keys", measured_again)
        assert report_of_store(replace(suite, audit=False), FolderStore(tmp_path / "r"), limit=150).is_complete

    @pytest.mark.parametrize("is_there", [False, True])
    @pytest.mark.parametrize("options", [(), ("--model", "digits-vit"), ("--format", "csv"), ("--limit", 5)])
    def test_an_empty_folder_is_one_sentence_and_no_table(
        self, robench: Robench, tmp_path: Path, is_there: bool, options: tuple[object, ...]
    ) -> None:
        if is_there:
            (tmp_path / "r").mkdir()
        ended = robench("report", "--suite", "digits-adv", "--suite", "digits-c", "--results", tmp_path / "r", *options)
        assert (ended.code, ended.stdout) == (1, "")
        (line,) = ended.stderr.splitlines()
        assert line.startswith(f"No results in {tmp_path}/r: measure them with 'robench run --suite digits-adv ")

    def test_json_is_a_document_without_rows(self, robench: Robench, tmp_path: Path) -> None:
        ended = robench("report", "--suite", "digits-adv", "--results", tmp_path / "r", "--json")
        assert (ended.code, json.loads(ended.stdout)["rows"]) == (1, [])

    def test_a_suite_without_results_beside_one_with_some(
        self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
    ) -> None:
        suite, results = small_suite(), tmp_path / "r"
        fill(results, find_suite(suite), "one")
        ended = robench("report", "--suite", suite, "--suite", "imagenet-adv", "--results", results)
        assert ended.code == 1
        assert "one" in ended.stdout
        assert "imagenet" not in ended.stdout
        assert "robench run --suite imagenet-adv --results" in ended.stderr


class TestHints:
    def hint(self, robench: Robench, *arguments: object) -> list[str]:
        """Return the words of the command that a report without results suggests."""
        said = robench(*arguments).stderr
        return shlex.split(said.partition("measure them with '")[2].strip().removesuffix("'."))

    def test_options_are_repeated_and_their_command_is_understood(
        self, robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "mine.yaml").write_text("datasets:\n  photos: {kind: image-folder, path: photos, image_size: 32}\n")
        given = ("--suite", "smoke", "--dataset", "photos", "--all-examples", "--registry", "mine.yaml", "--seed", 3)
        words = self.hint(robench, "report", *given, "--all-seeds", "--results", "r")
        options = [*map(str, given), "--all-seeds"]
        assert words == ["robench", "run", *options, "--results", "r", "--model", "NAME"]
        assert CliRunner().invoke(cli, [*words[1:], "--help"]).exit_code == 0

    @pytest.mark.parametrize(
        ("given", "repeated"),
        [
            ("here.yaml", "here.yaml"),
            ("./here", "./here"),
            ("{folder}/work/here", "./here"),
            ("../small suite.yaml", "../small suite.yaml"),
            ("{folder}/small.yaml", "{folder}/small.yaml"),
        ],
    )
    def test_a_suite_that_is_a_file_stays_one(
        self,
        robench: Robench,
        small_suite: Callable[..., Path],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        given: str,
        repeated: str,
    ) -> None:
        for name in ("small suite.yaml", "work/here", "work/here.yaml"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(small_suite().read_text())
        monkeypatch.chdir(tmp_path / "work")
        wanted = repeated.format(folder=tmp_path)
        words = self.hint(robench, "report", "--suite", given.format(folder=tmp_path))
        assert words == ["robench", "run", "--suite", wanted, "--model", "NAME"]

    @pytest.mark.parametrize("command", ["leaderboard", "export"])
    def test_other_commands_give_the_same_hint(
        self, robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
    ) -> None:
        monkeypatch.chdir(tmp_path)
        words = self.hint(robench, command, "--suite", "smoke", "--dataset", "digits", "--output", tmp_path / "x")
        assert words == ["robench", "run", "--suite", "smoke", "--dataset", "digits", "--model", "NAME"]


class TestStatus:
    def test_there_is_a_row_per_suite_and_model_with_results(self, robench: Robench, tmp_path: Path) -> None:
        results = tmp_path / "r"
        fill(results, find_suite("digits-adv"), "one", num_examples=100, fails="pgd")
        fill(results, find_suite("digits-adv"), "two", num_examples=500)
        ended = robench("status", "--results", results, "--json")
        rows = {(row["suite"], row["model"]): row for row in json.loads(ended.stdout)}
        # The clean examples that other suites share are no results of theirs.
        assert list(rows) == [("digits-adv", "one"), ("digits-adv", "two")]
        one, two = rows.values()
        assert (one["conditions"], one["complete"], one["kept"], one["missing"]) == (6, 0, 500, 3100)
        assert (one["failed_shards"], one["seconds"]) == (1, 2.5)
        assert (two["complete"], two["missing"], two["failed_shards"]) == (0, 600, 0)
        table = robench("status", "--results", results)
        assert len(table.stdout.splitlines()) == 3
        assert "'robench status --results" in table.stderr

    def test_all_lists_every_suite(self, robench: Robench, tmp_path: Path) -> None:
        fill(tmp_path / "r", find_suite("digits-adv"), "one", num_examples=100)
        rows = json.loads(robench("status", "--results", tmp_path / "r", "--all", "--json").stdout)
        named = {row["suite"]: row for row in rows}
        assert {"digits-adv", "digits-c", "imagenet-adv", "sotu-swap"} <= named.keys()
        assert (named["imagenet-adv"]["model"], named["imagenet-adv"]["kept"]) == ("", 0)
        assert (named["digits-c"]["model"], named["digits-c"]["kept"]) == ("one", 100)

    def test_a_suite_that_is_named_is_shown_by_condition(self, robench: Robench, tmp_path: Path) -> None:
        fill(tmp_path / "r", find_suite("digits-adv"), "one", num_examples=100, fails="pgd")
        rows = json.loads(robench("status", "--suite", "digits-adv", "--results", tmp_path / "r", "--json").stdout)
        kept = {row["condition"]: (row["kept"], row["missing"], row["failed_shards"]) for row in rows}
        assert kept["clean"] == (100, 500, 0)
        assert kept["pgd"] == (0, 600, 1)

    def test_suites_that_name_no_dataset_are_found_by_what_was_measured(self, robench: Robench, tmp_path: Path) -> None:
        fill(tmp_path / "r", find_suite("smoke", dataset="digits"), "one", num_examples=32)
        (row,) = json.loads(robench("status", "--results", tmp_path / "r", "--json").stdout)
        assert (row["suite"], row["dataset"], row["complete"], row["missing"]) == ("smoke", "digits", 4, 0)

    def test_results_of_no_shipped_suite_are_not_passed_over(
        self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
    ) -> None:
        suite = small_suite(**{"batch_size: 50": "batch_size: 49"})
        fill(tmp_path / "r", find_suite(suite), "mine", num_examples=49)
        ended = robench("status", "--results", tmp_path / "r")
        assert (ended.code, ended.stdout) == (0, "")
        assert "3 measurements of mine are of no suite above" in ended.stderr
        assert "--suite FILE" in ended.stderr

    def test_the_advice_about_an_empty_folder_runs_as_printed(self, robench: Robench, tmp_path: Path) -> None:
        ended = robench("status", "--results", tmp_path / "absent")
        printed = ended.stderr.split("'")[1]
        planned = robench(*shlex.split(printed)[1:], "--dry-run", "--limit", 1)
        assert (planned.code, "to do" in planned.stdout) == (0, True)

    @pytest.mark.parametrize("options", [(), ("--all",), ("--suite", "digits-adv"), ("--failures",)])
    def test_an_empty_folder_is_one_sentence(self, robench: Robench, tmp_path: Path, options: tuple[str, ...]) -> None:
        ended = robench("status", "--results", tmp_path / "absent", *options)
        assert (ended.code, ended.stdout, len(ended.stderr.splitlines())) == (1, "", 1)
        assert f"No results in {tmp_path}/absent" in ended.stderr
