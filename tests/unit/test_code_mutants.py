"""Seeded mutants of code: what they change, which are drawn, and what kills them."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import code_mutants
import pytest
from code_mutants import FOLDERS, ROOT, draw, draw_like, imported, table
from mutation_sites import OPERATORS, Mutant, mutants_of

if TYPE_CHECKING:
    from pathlib import Path


def after(source: str) -> set[str]:
    return {mutant.applied(source) for mutant in mutants_of("x.py", source)}


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        ("y = a < b", "y = (a <= b)"),
        ("y = a == b", "y = (a != b)"),
        ("y = a in b", "y = (a not in b)"),
        ("y = 'é', b is a", "y = 'é', (b is not a)"),
        ("y = 2 * (a + b)", "y = 2 * ((a - b))"),
        ("y = a / b", "y = (a * b)"),
        ("y = x[1]", "y = x[2]"),
        ("y = 0.5", "y = 1.0"),
        ("y = f(True)", "y = f(False)"),
        ("y = f(a, b, c=1)", "y = (f(b, a, c=1))"),
        ("def f(x):\n    g(x)", "def f(x):\n    pass"),
        ("for x in y:\n    x += 2", "for x in y:\n    x -= 2"),
        ("if x:\n    raise E", "if x:\n    pass"),
        ("if x:\n    y = z", "if (not x):\n    y = z"),
        ("while not x:\n    g()", "while (x):\n    g()"),
        ("y = [a for a in b if c(a)]", "y = [a for a in b if (not c(a))]"),
        ("y = a and b", "y = (a or b)"),
        ("x.y = z", "pass"),
    ],
)
def test_each_operator_changes_one_place(source: str, changed: str) -> None:
    assert changed in after(source)


def test_what_computes_nothing_is_left_alone() -> None:
    sources = ['"""1 < 2"""', "from a import b", "def f(x: Literal[1, 2]) -> Literal[3]: ...", "y = f(*a, b)", "y = a"]
    sources += ["if TYPE_CHECKING:\n    x = 1 < 2", "y = f'{1 < 2}'", "y = f(a, a)"]
    assert [source for source in sources if after(source)] == []


def test_a_mutant_knows_its_function_and_equal_changes_are_counted() -> None:
    source = "class A:\n    @property\n    def f(self):\n        return x + 1, x + 1\n"
    found = [mutant for mutant in mutants_of("x.py", source) if mutant.operator == "arithmetic"]
    places = [(each.function, each.first_line, each.line, each.number) for each in found]
    assert places == [("A.f", 2, 4, 0), ("A.f", 2, 4, 1)]
    assert len({each.applied(source) for each in found}) == 2


def test_a_draw_is_the_same_each_time_and_balanced() -> None:
    folders = ("comparison", "papers")
    assert set(folders) < set(FOLDERS)
    drawn = draw(12, 0, folders)
    assert drawn == draw(12, 0, folders) != draw(12, 1, folders)
    per_place = [(each.file.split("/")[1], each.operator) for each in drawn]
    assert {per_place.count((folder, operator)) for folder in folders for operator in OPERATORS} == {1}
    for mutant in drawn:
        source = (ROOT / mutant.file).read_text()
        assert mutant.applied(source) != source


def test_mutants_of_another_state_are_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = draw(6, 3, ("metrics",))
    names = [*(each.name for each in drawn), "robench/metrics/gone.py::f::comparison::a < b -> (a <= b)::0"]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps({"name": name, "killer": ""}) + "\n" for name in names))
    assert draw_like(tmp_path, ("metrics",)) == drawn
    assert "1 of 7 mutants are gone" in capsys.readouterr().out


def test_modules_that_a_test_imports_are_known_in_every_form(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import robench.a\nfrom robench.b import c\ndef f():\n    from robench import d\n")
    assert imported(tmp_path / "t.py") == {"robench.a", "robench.b", "robench.b.c", "robench.d"}


def planted(folder: Path) -> tuple[Mutant, Mutant]:
    """Write a small project of which tests catch one of two mutants."""
    source = "def twice(x):\n    return x + x\n\n\ndef half(x):\n    return x / 2\n"
    (folder / "robench").mkdir()
    (folder / "robench" / "m.py").write_text(source)
    for name in ("__init__.py", "pytest_plugin.py"):
        (folder / "robench" / name).write_text("")
    (folder / "tests" / "mutation").mkdir(parents=True)
    for name in ("executed_functions.py", "forked_mutants.py"):
        shutil.copy(ROOT / "tests/mutation" / name, folder / "tests" / "mutation")
    test = "from robench.m import half, twice\n\ndef test_it():\n    assert twice(2) == 4\n    half(2)\n"
    (folder / "tests" / "test_m.py").write_text(test)
    caught, missed = [each for each in mutants_of("robench/m.py", source) if each.operator == "arithmetic"]
    return caught, missed


def known(tests: dict[str, list[str]], **modules: str) -> code_mutants.Tests:
    names = dict.fromkeys((name for several in tests.values() for name in several), 0.1)
    return code_mutants.Tests(names, tests, {"tests/test_m.py": frozenset(modules.values())})


def test_a_mutant_is_killed_by_a_test_that_fails_and_survives_one_that_passes(tmp_path: Path) -> None:
    mutants = planted(tmp_path)
    tests = known({f"robench/m.py:{each.first_line}": ["tests/test_m.py::test_it"] for each in mutants})
    found = [code_mutants.outcome(mutant, tests, tmp_path) for mutant in mutants]
    assert [each["killer"] for each in found] == ["tests/test_m.py::test_it", ""]
    assert code_mutants.outcome(mutants[0], tests, tmp_path, most=0.05)["killer"] == ""
    assert "x + x" in (tmp_path / "robench" / "m.py").read_text()
    shown = table([{**each, "name": f"robench/metrics/{each['name']}"} for each in found])
    assert shown.splitlines()[1].split() == ["metrics", "2", "1"]
    assert shown.splitlines()[-1].startswith("survived: robench/metrics/")


def test_mutants_of_functions_are_measured_in_forks_and_those_of_constants_are_left(tmp_path: Path) -> None:
    caught, missed = planted(tmp_path)
    path = tmp_path / "robench" / "m.py"
    path.write_text(path.read_text() + "LIMIT = 3\n")
    (constant,) = [each for each in mutants_of("robench/m.py", path.read_text()) if not each.first_line]
    tests = known({"robench/m.py:1": ["tests/test_m.py::test_it"], "robench/m.py:5": ["tests/test_m.py::test_it"]})
    kept = tmp_path / "forked.jsonl"
    found = code_mutants.measure_forked([caught, missed, constant], tests, tmp_path, kept, float("inf"))
    assert [each["killer"] for each in found] == ["tests/test_m.py::test_it", ""]
    assert path.read_text().endswith("LIMIT = 3\n")
    lines = code_mutants.read_lines(kept)
    assert [each["killer"] for each in lines] == ["tests/test_m.py::test_it", "", None]


def test_a_constant_with_which_no_module_can_be_imported_is_killed(tmp_path: Path) -> None:
    planted(tmp_path)
    source = "STEP = 1 / 2\nassert STEP < 1\n"
    (tmp_path / "robench" / "n.py").write_text(source)
    mutants = {each.after: each for each in mutants_of("robench/n.py", source)}
    fatal, harmless = mutants["(1 * 2)"], mutants["(STEP <= 1)"]
    assert [code_mutants.outcome(each, known({}), tmp_path)["killer"] for each in (fatal, harmless)] == ["import", ""]


def test_tests_concern_functions_that_they_execute_and_with_few_tests_those_of_their_files(tmp_path: Path) -> None:
    caught, missed = planted(tmp_path)
    many = [f"tests/test_m.py::test_{number}" for number in range(5)]
    tests = known({"robench/m.py:1": many, "robench/n.py:1": ["tests/test_m.py::other", "tests/test_n.py::other"]})
    assert (sorted(tests.of(caught)), tests.of(missed)) == (many, [])
    few = known({"robench/m.py:1": many[:1], "robench/n.py:1": ["tests/test_m.py::other", "tests/test_n.py::other"]})
    assert sorted(few.of(caught)) == ["tests/test_m.py::other", many[0]]


def test_tests_of_files_that_import_a_module_concern_what_no_function_holds() -> None:
    (mutant,) = mutants_of("robench/m.py", "LIMIT = 3")
    assert known({"robench/n.py:1": ["tests/test_m.py::t"]}, m="robench.m").of(mutant) == ["tests/test_m.py::t"]
    assert known({"robench/n.py:1": ["tests/test_m.py::t"]}, m="robench.n").of(mutant) == []


def test_what_survived_elsewhere_is_drawn_from_files_of_another_name(tmp_path: Path) -> None:
    drawn = draw(4, 3, ("metrics",))
    results = [{"name": each.name.replace("/metrics/", "/moved/"), "killer": "t" * n} for n, each in enumerate(drawn)]
    (tmp_path / "results.jsonl").write_text("".join(json.dumps(each) + "\n" for each in results))
    assert draw_like(tmp_path, ("metrics",), survivors=True) == drawn[:1]
