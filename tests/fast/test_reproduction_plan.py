"""Plans of reproductions: which trainings are missing, and which weights count."""

from dataclasses import replace
from pathlib import Path

import pytest
from papers_examples import load_published, registry, suite

from robench.core.checkpoint import Checkpoint
from robench.core.errors import UsageError, WeightsError
from robench.declare import read_registry
from robench.papers.selection import chosen_cells
from robench.reproduction.plan import Plan, plan_of
from robench.reproduction.wanted import Number, wanted_conditions, wanted_numbers
from robench.reproduction.weights import Reproduced


@pytest.fixture
def entries(tmp_path: Path) -> dict[str, Checkpoint]:
    """The shipped entries, as in a clone without any weights."""
    return {name: replace(each, folder=tmp_path / "clone") for name, each in registry().items()}


def with_file(checkpoint: Checkpoint, **weights: str) -> Checkpoint:
    found = replace(checkpoint, weights=replace(checkpoint.weights, **weights))
    path = found.folder / found.weights.uri
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"weights")
    return found


def planned(
    entries: dict[str, Checkpoint], folder: Path, model: str, num_seeds: int | None = 3, of: str = "imagenet-shift"
) -> Plan:
    suites = {of: suite(of)}
    (name,) = {each.name for each in suites[of].conditions} & {"clean", "dev"}
    return plan_of({model: {of: {name}}}, suites, entries, Reproduced(folder), num_seeds=num_seeds)


def names(plan: Plan) -> tuple[list[str], list[str]]:
    return [each.checkpoint.name for each in plan.trainings], [each.checkpoint.name for each in plan.measurements]


def test_seeds_without_weights_are_trained_and_all_are_measured(entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    assert names(planned(entries, tmp_path, "symvit", 2)) == (
        ["reproduced-symvit", "reproduced-symvit-seed1"],
        ["reproduced-symvit", "reproduced-symvit-seed1"],
    )
    entries["symvit"] = with_file(entries["symvit"])
    assert names(planned(entries, tmp_path, "symvit", 2)) == (
        ["reproduced-symvit-seed1"],
        ["symvit", "reproduced-symvit-seed1"],
    )
    (training,) = planned(entries, tmp_path, "symvit", 2).trainings
    assert training.checkpoint.training == entries["symvit"].training.seeded(1)  # type: ignore[union-attr]
    # Of a model with five registered seeds all of them, unless fewer are asked for.
    assert len(planned(entries, tmp_path, "digits-symvit", None, "digits-shift").trainings) == 5
    assert len(planned(entries, tmp_path, "digits-symvit", 2, "digits-shift").trainings) == 2
    known = [each.known_sha256 for each in planned(entries, tmp_path, "digits-symvit", None, "digits-shift").trainings]
    assert known == [each.weights.sha256 for each in entries.values() if each.entry == "digits-symvit"]


def test_the_authors_weights_count_alone(entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    theirs = with_file(entries["symvit"], by="authors", uri="theirs.pth")
    entries["theirs"] = replace(theirs, name="theirs", belongs_to="symvit")
    entries["mine"] = replace(with_file(entries["symvit"], uri="mine.pth"), name="mine", belongs_to="symvit")
    assert names(planned(entries, tmp_path, "symvit")) == ([], ["theirs"])
    # A file that only the registry names is none.
    (tmp_path / "clone" / "theirs.pth").unlink()
    assert names(planned(entries, tmp_path, "symvit", 1)) == ([], ["mine"])


def test_a_model_without_recipe_and_weights_is_named(entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    entries["symvit"] = replace(entries["symvit"], training=None)
    plan = planned(entries, tmp_path, "symvit")
    assert names(plan) == ([], [])
    with pytest.raises(UsageError, match="symvit has no recipe and no weights"):
        plan.check()
    entries["symvit"] = with_file(entries["symvit"])
    assert names(planned(entries, tmp_path, "symvit")) == ([], ["symvit"])


def test_what_a_training_starts_from_is_trained_first_and_in_the_same_part(
    entries: dict[str, Checkpoint], tmp_path: Path
) -> None:
    plan = planned(entries, tmp_path, "sst2-smoe-medium", 2, "sst2-splits")
    first, *others = plan.trainings
    assert (first.checkpoint.name, first.goes_first) == ("reproduced-wikitext-smoe-medium", True)
    reproduced = Reproduced(tmp_path)
    for each in others:
        initial = each.checkpoint.training.initial_weights  # type: ignore[union-attr]
        assert each.checkpoint.folder / initial.uri == reproduced.path(first.checkpoint)
    parts = [names(plan.part(number, 2))[0] for number in (1, 2)]
    assert sorted(map(len, parts)) == [0, 3]
    with_file(entries["wikitext-smoe-medium"])
    there = planned(entries, tmp_path, "sst2-smoe-medium", 2, "sst2-splits").trainings
    assert [each.goes_first for each in there] == [False, False]
    uri = there[0].checkpoint.training.initial_weights.uri  # type: ignore[union-attr]
    assert uri == str(tmp_path / "clone" / entries["wikitext-smoe-medium"].weights.uri)


def test_parts_have_each_training_once(entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    plan = planned(entries, tmp_path, "symvit", 7)
    parts = [names(plan.part(number, 3))[0] for number in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(names(plan)[0])
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_declared_weights_are_found_again_with_their_seed(entries: dict[str, Checkpoint], tmp_path: Path) -> None:
    reproduced = Reproduced(tmp_path)
    for seed, content in ((2, b"two"), (0, b"zero")):
        reproduced.keep(reproduced.trained(entries["symvit"], seed), content, f"{seed}" * 64, b"{}")
    found = read_registry(reproduced.registry)
    assert {name: (each.entry, each.training.seed) for name, each in found.items() if each.training} == {
        "reproduced-symvit": ("symvit", 0),
        "reproduced-symvit-seed2": ("symvit", 2),
    }
    assert names(planned(entries | found, tmp_path, "symvit", 3))[0] == ["reproduced-symvit-seed1"]
    # What another process has added meanwhile is declared too.
    reproduced.registry.unlink()
    reproduced.refresh()
    assert read_registry(reproduced.registry).keys() == found.keys()
    with pytest.raises(WeightsError, match="is not overwritten"):
        reproduced.keep(reproduced.trained(entries["symvit"], 2), b"other", "3" * 64, b"{}")
    assert reproduced.path(found["reproduced-symvit-seed2"]).read_bytes() == b"two"
    # As after an interruption between an entry and its weights: they are made again, and their place is free.
    reproduced.path(found["reproduced-symvit-seed2"]).unlink()
    (_, again) = planned(entries | found, tmp_path, "symvit", 3).trainings
    assert again.checkpoint.name == "reproduced-symvit-seed2"
    reproduced.check_free(again.checkpoint)
    reproduced.path(reproduced.trained(entries["symvit"], 1)).write_bytes(b"somebody's")
    with pytest.raises(WeightsError, match="is in the place of the weights of 'reproduced-symvit-seed1'"):
        reproduced.check_free(reproduced.trained(entries["symvit"], 1))


def test_numbers_need_the_conditions_of_their_columns_and_no_others() -> None:
    suites = {"imagenet-shift": suite("imagenet-shift")}
    numbers = [
        Number(model="a", suite="imagenet-shift", column="o/aupr"),
        Number(model="b", suite="imagenet-shift", column="r/top1_accuracy"),
    ]
    assert wanted_conditions(numbers, suites) == {
        "a": {"imagenet-shift": {"o", "o-classes"}},
        "b": {"imagenet-shift": {"r"}},
    }


def test_both_readings_of_a_number_are_wanted_and_costs_are_not() -> None:
    table = load_published("rpc", 2)
    (cell, *_) = [each for each in table.cells if len(each.readings) == 2]
    assert {each.column for each in wanted_numbers([cell])} == {
        f"{each.condition}/{cell.metric}" for each in cell.readings
    }
    costs = [each for each in load_published("twicing", 5).cells if each.cost is not None]
    with pytest.raises(UsageError, match="none of the"):
        wanted_numbers(costs)


def test_rows_match_by_label_with_brackets_or_model() -> None:
    tables = [load_published("twicing", 5), load_published("rpc", 1)]
    assert {each.row for each in chosen_cells(tables, rows=["DeiT-Twicing [10-12]"])} == {"DeiT-Twicing [10-12]"}
    assert {each.model for each in chosen_cells(tables, rows=["rpc-symvit"])} == {"rpc-symvit"}
    assert {each.column for each in chosen_cells(tables, columns=["in-r*"])} == {"IN-R top-1"}
    with pytest.raises(UsageError, match="'IN-Q' matches nothing"):
        chosen_cells(tables, columns=["IN-R*", "IN-Q"])
    with pytest.raises(UsageError, match="no number has both"):
        chosen_cells(tables, rows=["DeiT-Twicing"], columns=["IN-R*"])
