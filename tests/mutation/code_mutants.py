"""Do the tests of ``make test`` catch changes of the code? Draws seeded mutants and runs the tests that execute them.

``python tests/mutation/code_mutants.py --state results/mutants`` draws the same number of mutants from each folder,
runs for each the tests that execute the changed function, the cheapest first, until one fails, and prints how many
were killed by folder. A mutant survives if ``--seconds`` of tests pass. Results are kept in the state folder, and the
same command goes on from there.

``--tests REVISION`` runs the tests of another commit on the same mutants. ``--like OTHER`` draws the mutants of another
state folder again, for a commit whose code has changed, with ``--survivors`` those that nothing killed there; a change
whose function is gone is left out, and counted.

The first start runs the whole suite once in one process, to see which test executes which function.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from mutation_sites import OPERATORS, Mutant, compiles, mutants_of

ROOT = Path(__file__).parents[2]
FOLDERS = ("attacks", "attention", "comparison", "metrics", "papers", "store")
# They fail on any change to the code, whatever it computes.
LEFT_OUT = ("tests/unit/test_planted_bugs.py",)
LONGEST = 1800.0
# What fewer tests execute may be kept by the first for the others of its file.
FEW_TESTS = 5


@dataclass(frozen=True)
class Tests:
    """The tests of ``make test``: seconds of each, those that execute each function, and modules that files import."""

    seconds: dict[str, float]
    functions: dict[str, list[str]]
    modules: dict[str, frozenset[str]]

    def of(self, mutant: Mutant) -> list[str]:
        """Return the tests that execute the function, or of files that import the module of what no function holds."""
        executing = self.functions.get(f"{mutant.file}:{mutant.first_line}", [])
        files = {file_of(name) for name in executing} if len(executing) < FEW_TESTS else set()
        if not mutant.first_line:
            module = mutant.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            files |= {file for file, modules in self.modules.items() if module in modules}
        found = {*executing, *(name for name in self.seconds if file_of(name) in files)}
        return sorted(found, key=lambda name: self.seconds[name])


def file_of(test: str) -> str:
    """Return the file of a test, of which pytest has the name."""
    return test.partition("::")[0]


def draw(number: int, seed: int, folders: tuple[str, ...], root: Path = ROOT) -> list[Mutant]:
    """Return mutants, as many from each folder and, within a folder, from each operator as there are."""
    drawn: list[Mutant] = []
    for place, folder in enumerate(folders):
        files = sorted((root / "robench" / folder).rglob("*.py"))
        assert files, f"robench/{folder} has no modules"
        every = [each for file in files for each in mutants_of(file.relative_to(root).as_posix(), file.read_text())]
        chance = random.Random(f"{seed}/{folder}")
        chance.shuffle(every)
        queues = [[each for each in every if each.operator == operator] for operator in OPERATORS]
        wanted, found = number // len(folders) + (place < number % len(folders)), 0
        while found < wanted and any(queues):
            for queue in queues:
                mutant = queue.pop() if queue and found < wanted else None
                if mutant and compiles(mutant.applied((root / mutant.file).read_text())):
                    drawn.append(mutant)
                    found += 1
    return drawn


def draw_like(other: Path, folders: tuple[str, ...], *, survivors: bool = False, root: Path = ROOT) -> list[Mutant]:
    """Return the mutants of another state folder that this code still has, in the same file or in one other."""
    results = [json.loads(line) for line in (other / "results.jsonl").read_text().splitlines()]
    names = [each["name"] for each in results if not (survivors and each["killer"])]
    files = [file for folder in folders for file in sorted((root / "robench" / folder).rglob("*.py"))]
    every = [each for file in files for each in mutants_of(file.relative_to(root).as_posix(), file.read_text())]
    found = {each.name: each for each in every}
    moved = Counter(each.name.partition("::")[2] for each in every)
    found |= {name: each for each in every if moved[name := each.name.partition("::")[2]] == 1}
    known = [found.get(name) or found.get(name.partition("::")[2]) for name in names]
    sys.stdout.write(f"{known.count(None)} of {len(names)} mutants are gone\n")
    return [each for each in known if each]


def check_out(folder: Path, revision: str) -> None:
    """Make a folder with the tracked files of this working tree, and the tests of a revision if one is given."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.rstrip("\0").split("\0"):
        if (ROOT / name).exists() and not (revision and name.startswith("tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    if revision:
        archive = subprocess.run(
            ["git", "archive", revision, "tests", "pyproject.toml"], cwd=ROOT, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
        # The plug-ins are these ones.
        (folder / "tests" / "mutation").mkdir(exist_ok=True)
        for name in ("executed_functions.py", "forked_mutants.py"):
            shutil.copy(Path(__file__).with_name(name), folder / "tests" / "mutation")


def run_tests(folder: Path, options: list[str], seconds: float | None = None, **variables: str) -> tuple[int, str]:
    """Return how pytest ended in a copy of the project, and what it printed; -1 if it took too long."""
    environment = (
        os.environ | {"PYTHONPATH": f"{folder}:{folder / 'tests/mutation'}", "OMP_NUM_THREADS": "1"} | variables
    )
    plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "executed_functions"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options]
    # Folders below /tmp are those of all sessions at once, each of which removes older ones.
    command.append(f"--basetemp={folder / '.basetemp'}")
    with subprocess.Popen(
        command, cwd=folder, env=environment, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running:  # fmt: skip
        try:
            printed, _ = running.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, 9)
            return -1, ""
    return running.returncode, printed


def imported(path: Path) -> frozenset[str]:
    """Return the modules of robench that a test file imports itself, by whatever form of import."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(name for name in found if name.startswith("robench."))


def read_map(state: Path, folder: Path) -> Tests:
    """Return the tests that pass; the whole suite runs once if no map is kept."""
    path = state / "map.json"
    if not path.exists():
        sys.stdout.write("Running the whole suite once, to see what each test executes\n")
        sys.stdout.flush()
        code, printed = run_tests(folder, [], EXECUTED_FUNCTIONS=str(path.resolve()))
        assert path.exists(), f"pytest ended with {code}:\n{printed[-4000:]}"
        sys.stdout.write(printed[-3000:])
        failed = set(re.findall(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", printed, re.MULTILINE))
        path.write_text(json.dumps(json.loads(path.read_text()) | {"failed": sorted(failed)}))
    found = json.loads(path.read_text())
    names = [name for name, _ in found["tests"]]
    left_out = {name for name in names if file_of(name) in LEFT_OUT} | set(found["failed"])
    functions = {
        function: [names[number] for number in numbers if names[number] not in left_out]
        for function, numbers in found["functions"].items()
    }
    files = sorted({file_of(name) for name in names if file_of(name).startswith("tests/")})
    seconds = {name: each for name, each in found["tests"] if name not in left_out}
    return Tests(seconds, functions, {file: imported(folder / file) for file in files})


def chosen(mutant: Mutant, tests: Tests, most: float) -> tuple[list[str], int]:
    """Return the tests to run for a mutant, those of cheap files first, and how many it concerns."""
    concerned = tests.of(mutant)
    spent = accumulate(tests.seconds[name] for name in concerned)
    run = [name for name, seconds in zip(concerned, spent, strict=True) if seconds <= most]
    costs: Counter[str] = Counter()
    for name in run:
        costs[file_of(name)] += tests.seconds[name]  # type: ignore[assignment]  # counts of seconds
    return sorted(run, key=lambda name: (costs[file_of(name)], file_of(name))), len(concerned)


def outcome(mutant: Mutant, tests: Tests, folder: Path, most: float = float("inf")) -> dict[str, Any]:
    """Plant a mutant in a copy of the project, and return what kills it within so many seconds of tests."""
    run, num_concerned = chosen(mutant, tests, most)
    began, path = time.monotonic(), folder / mutant.file
    source = path.read_text()
    path.write_text(mutant.applied(source))
    try:
        files = list(dict.fromkeys(file_of(name) for name in run))
        # Any test that imports the module fails, whatever it imports it by.
        killer = "" if mutant.first_line or imports(mutant.file, folder) else "import"
        killer = killer or (killer_in(folder, files, run, sum(tests.seconds[name] for name in run)) if run else "")
    finally:
        path.write_text(source)
    seconds = round(time.monotonic() - began, 1)
    return {"name": mutant.name, "line": mutant.line, "tests": num_concerned, "killer": killer, "seconds": seconds}


def imports(file: str, folder: Path) -> bool:
    """Return whether a module of a copy of the project can be imported."""
    module = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    command = [sys.executable, "-c", f"import {module}"]
    environment = os.environ | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0


def killer_in(folder: Path, files: list[str], names: list[str], seconds: float) -> str:
    """Run tests until one fails, and return its name, or how else pytest ended; empty if all pass."""
    (folder / ".chosen").write_text("\n".join(names))
    # A tenth of the time would do on an idle machine.
    longest = min(LONGEST, 300 + 10 * seconds)
    code, printed = run_tests(folder, ["-x", *files], longest, CHOSEN_TESTS=str(folder / ".chosen"))
    if code in (0, 5):
        return ""
    named = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", printed, re.MULTILINE)
    return named[1] if named else "time limit" if code == -1 else f"pytest ended with {code}"


def table(results: list[dict[str, Any]]) -> str:
    """Return killed mutants by folder, and the places of those that survived."""
    folders = [result["name"].split("/")[1] for result in results]
    number, killed = Counter(folders), Counter(f for f, each in zip(folders, results, strict=True) if each["killer"])
    lines = [f"{'folder':12} mutants killed"]
    lines += [f"{folder:12} {number[folder]:7} {killed[folder]:6}" for folder in sorted(number)]
    lines += [f"{'all':12} {len(results):7} {killed.total():6}"]
    survivors = [f"survived: {each['name']} (line {each['line']})" for each in results if not each["killer"]]
    return "\n".join([*lines, *survivors]) + "\n"


def measure(mutants: list[Mutant], state: Path, revision: str, jobs: int, most: float) -> list[dict[str, Any]]:
    """Return what kills each mutant; what the state folder has is not measured again."""
    path = state / "results.jsonl"
    known = {each["name"]: each for each in read_lines(path)}
    with tempfile.TemporaryDirectory() as temporary:
        folders = [Path(temporary, str(number)) for number in range(jobs)]
        for folder in folders:
            check_out(folder, revision)
        tests = read_map(state, folders[0])
        left = [each for each in mutants if each.name not in known]
        with ThreadPoolExecutor(jobs) as pool:
            forked = [
                pool.submit(measure_forked, left[number::jobs], tests, folder, state / f"forked-{number}.jsonl", most)
                for number, folder in enumerate(folders)
            ]
            found = {each["name"]: each for several in forked for each in several.result()}
        for mutant in left:
            result = found.get(mutant.name) or outcome(mutant, tests, folders[0], most)
            known[mutant.name] = result
            with path.open("a") as file:
                file.write(json.dumps(result) + "\n")
    return [known[each.name] for each in mutants]


def measure_forked(mutants: list[Mutant], tests: Tests, folder: Path, path: Path, most: float) -> list[dict[str, Any]]:
    """Return what kills mutants of functions, in forks of one process that has collected all tests."""
    measured = {each["name"] for each in read_lines(path)}
    lines, tasks = {}, []
    for mutant in mutants:
        run, num_concerned = chosen(mutant, tests, most)
        lines[mutant.name] = {"line": mutant.line, "tests": num_concerned}
        if mutant.name not in measured:
            changed = mutant.applied((folder / mutant.file).read_text())
            seconds = sum(tests.seconds[name] for name in run)
            task = {"name": mutant.name, "file": mutant.file, "changed": changed, "tests": run, "seconds": seconds}
            tasks.append(task)
    (folder / ".mutants").write_text(json.dumps(tasks))
    variables = {"MUTANTS": str(folder / ".mutants"), "OUTCOMES": str(path.resolve())}
    code, printed = run_tests(folder, ["-p", "forked_mutants"], None, **variables) if tasks else (0, "")
    assert code in (0, 1, 5), f"pytest ended with {code}:\n{printed[-4000:]}"
    # The file may have others, of a start with another number of jobs.
    found = [each for each in read_lines(path) if each["name"] in lines and each["killer"] is not None]
    return [each | lines[each["name"]] for each in found]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the values of a file of JSON lines; none if it does not exist."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main(arguments: list[str]) -> int:
    """Draw mutants, measure and print them."""
    parser = argparse.ArgumentParser(description="Seeded mutants of robench, and the tests that kill them.")
    parser.add_argument("--state", type=Path, required=True, help="folder of the map and the results")
    parser.add_argument("--number", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folders", nargs="+", default=FOLDERS)
    parser.add_argument("--tests", default="", metavar="REVISION", help="run the tests of this commit")
    parser.add_argument("--like", type=Path, metavar="STATE", help="draw the mutants of this state folder")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time, each in a copy of the project")
    parser.add_argument("--survivors", action="store_true", help="of --like, only what survived")
    parser.add_argument("--seconds", type=float, default=120, help="of tests for each mutant, by their cost alone")
    asked = parser.parse_args(arguments)
    asked.state.mkdir(parents=True, exist_ok=True)
    folders = tuple(asked.folders)
    if asked.like:
        mutants = draw_like(asked.like, folders, survivors=asked.survivors)
    else:
        mutants = draw(asked.number, asked.seed, folders)
    sys.stdout.write(table(measure(mutants, asked.state, asked.tests, asked.jobs, asked.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
