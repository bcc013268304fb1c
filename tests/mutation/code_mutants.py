"""Do the tests of ``make test`` catch changes of the code? Draws seeded mutants and runs the tests that execute them.

``python tests/mutation/code_mutants.py --state results/mutants`` draws the same number of mutants from each folder,
runs for each the test files that execute the changed function, the cheapest first, until a test fails, and prints how
many were killed by folder. Results are kept in the state folder, and the same command goes on from there.

``--tests REVISION`` runs the tests of another commit on the same mutants. ``--like OTHER`` draws the mutants of another
state folder again, for a commit whose code has changed; a change whose function is gone is left out, and counted.

The first start runs the whole suite once in one process, to see which test file executes which function.
"""

from __future__ import annotations

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
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mutation_sites import OPERATORS, Mutant, compiles, mutants_of

ROOT = Path(__file__).parents[2]
FOLDERS = ("attacks", "attention", "comparison", "metrics", "papers", "store")
# They fail on any change to the code, whatever it computes.
LEFT_OUT = ("tests/unit/test_planted_bugs.py",)
# Files are run in rounds, so that a mutant that a cheap test kills does not wait for all to be collected.
ROUND_SECONDS = (5.0, 30.0, float("inf"))
LONGEST = 1800.0


@dataclass(frozen=True)
class TestFile:
    """What is known of a test file of ``make test``."""

    name: str
    seconds: float
    functions: frozenset[str]
    modules: frozenset[str]

    def concerns(self, mutant: Mutant) -> bool:
        """Return whether its tests execute the function, or import the module of what no function holds."""
        module = mutant.file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        return module in self.modules or f"{mutant.file}:{mutant.first_line}" in self.functions


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


def draw_like(other: Path, folders: tuple[str, ...], root: Path = ROOT) -> list[Mutant]:
    """Return the mutants of another state folder that this code still has."""
    names = [json.loads(line)["name"] for line in (other / "results.jsonl").read_text().splitlines()]
    files = [file for folder in folders for file in sorted((root / "robench" / folder).rglob("*.py"))]
    every = [each for file in files for each in mutants_of(file.relative_to(root).as_posix(), file.read_text())]
    found = {each.name: each for each in every}
    sys.stdout.write(f"{sum(name not in found for name in names)} of {len(names)} mutants are gone\n")
    return [found[name] for name in names if name in found]


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
        # The plug-in that sees which functions are executed is this one.
        (folder / "tests" / "mutation").mkdir(exist_ok=True)
        shutil.copy(Path(__file__).with_name("executed_functions.py"), folder / "tests" / "mutation")


def run_tests(folder: Path, options: list[str], seconds: float | None = None, **variables: str) -> tuple[int, str]:
    """Return how pytest ended in a copy of the project, and what it printed; -1 if it took too long."""
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"} | variables
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *options]
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


def read_map(state: Path, folder: Path) -> list[TestFile]:
    """Return the test files that run, by their seconds; the whole suite runs once if no map is kept."""
    path = state / "map.json"
    if not path.exists():
        sys.stdout.write("Running the whole suite once, to see what each test file executes\n")
        sys.stdout.flush()
        variables = {"EXECUTED_FUNCTIONS": str(path.resolve()), "PYTHONPATH": f"{folder}:{folder / 'tests/mutation'}"}
        code, printed = run_tests(folder, ["-p", "executed_functions"], **variables)
        assert path.exists(), f"pytest ended with {code}:\n{printed[-4000:]}"
        sys.stdout.write(printed[-300:])
    found = [
        TestFile(name, each["seconds"], frozenset(each["functions"]), imported(folder / name))
        for name, each in json.loads(path.read_text()).items()
        if name.startswith("tests/") and name not in LEFT_OUT
    ]
    return sorted(found, key=lambda each: each.seconds)


def outcome(mutant: Mutant, files: list[TestFile], folder: Path) -> dict[str, Any]:
    """Plant a mutant in a copy of the project, and return what kills it."""
    concerned, began = [each for each in files if each.concerns(mutant)], time.monotonic()
    path = folder / mutant.file
    source = path.read_text()
    path.write_text(mutant.applied(source))
    killer = ""
    try:
        for least, most in zip((0.0, *ROUND_SECONDS), ROUND_SECONDS, strict=False):
            chosen = [each for each in concerned if least <= each.seconds < most]
            # A tenth of the time would do on an idle machine.
            longest = min(LONGEST, 120 + 10 * sum(each.seconds for each in chosen))
            code, printed = run_tests(folder, ["-x", *(each.name for each in chosen)], longest) if chosen else (0, "")
            if code not in (0, 5):
                named = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", printed, re.MULTILINE)
                killer = named[1] if named else "time limit" if code == -1 else f"pytest ended with {code}"
                break
    finally:
        path.write_text(source)
    seconds = round(time.monotonic() - began, 1)
    return {"name": mutant.name, "line": mutant.line, "files": len(concerned), "killer": killer, "seconds": seconds}


def table(results: list[dict[str, Any]]) -> str:
    """Return killed mutants by folder, and the places of those that survived."""
    folders = [result["name"].split("/")[1] for result in results]
    number, killed = Counter(folders), Counter(f for f, each in zip(folders, results, strict=True) if each["killer"])
    lines = [f"{'folder':12} mutants killed"]
    lines += [f"{folder:12} {number[folder]:7} {killed[folder]:6}" for folder in sorted(number)]
    lines += [f"{'all':12} {len(results):7} {killed.total():6}"]
    survivors = [f"survived: {each['name']} (line {each['line']})" for each in results if not each["killer"]]
    return "\n".join([*lines, *survivors]) + "\n"


def measure(mutants: list[Mutant], state: Path, revision: str, jobs: int) -> list[dict[str, Any]]:
    """Return what kills each mutant; what the state folder has is not measured again."""
    path = state / "results.jsonl"
    kept = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    known = {each["name"]: each for each in kept}
    with tempfile.TemporaryDirectory() as temporary:
        folders: SimpleQueue[Path] = SimpleQueue()
        for number in range(jobs):
            check_out(Path(temporary, str(number)), revision)
            folders.put(Path(temporary, str(number)))
        files = read_map(state, Path(temporary, "0"))

        def measured(mutant: Mutant) -> None:
            folder = folders.get()
            found = outcome(mutant, files, folder)
            folders.put(folder)
            known[mutant.name] = found
            with path.open("a") as file:
                file.write(json.dumps(found) + "\n")
            sys.stdout.write(f"{'killed  ' if found['killer'] else 'SURVIVED'} {mutant.name!r}\n")
            sys.stdout.flush()

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(measured, [each for each in mutants if each.name not in known]))
    return [known[each.name] for each in mutants]


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
    asked = parser.parse_args(arguments)
    asked.state.mkdir(parents=True, exist_ok=True)
    folders = tuple(asked.folders)
    mutants = draw_like(asked.like, folders) if asked.like else draw(asked.number, asked.seed, folders)
    sys.stdout.write(table(measure(mutants, asked.state, asked.tests, asked.jobs)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
