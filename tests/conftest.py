"""What tests of the whole program share."""

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import hypothesis
import pytest
from plugin_examples import Installer

ROOT = Path(__file__).parents[1]

# Further threads of torch would wait for one another on a busy machine, which costs CPU; set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Modules and collected tests stay for the whole session: looking through them often is a tenth of the CPU.
gc.set_threshold(50_000, 20, 20)

# No test asserts how long anything takes: machines are shared.
hypothesis.settings.register_profile("robench", deadline=None, max_examples=40)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=200)
hypothesis.settings.load_profile("robench")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what was printed or logged and is no text (half a surrogate pair): parallel workers cannot send it."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report


# Seconds of CPU that a test of ``make test`` should take at most, with the fixtures that it is the first to ask for.
LONGEST = 10.0
# Above this it fails: several times what the same test takes on the slowest machine.
MOST = 60.0


def cpu_seconds() -> float:
    """Return the seconds of CPU of this process and of all processes that it has waited for."""
    return sum(os.times()[:4])


def note_cost(item: pytest.Item, seconds: float) -> None:
    """Note too much CPU of a test of ``make test`` in its report, which workers send to the process that prints."""
    if "slow" in item.path.parts or item.get_closest_marker("slow"):
        return
    if seconds > MOST:
        pytest.fail(f"took {seconds:.1f} s of CPU; a test of `make test` may take {MOST:g} anywhere", pytrace=False)
    if seconds > LONGEST:
        item.user_properties.append(("cpu_seconds", seconds))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the tests that took too much CPU; up to MOST they fail nowhere, since machines differ by a factor of two."""
    costs: dict[str, float] = {}
    for report in (each for state in ("passed", "failed", "error") for each in terminalreporter.getreports(state)):
        if report.when in ("setup", "call"):
            seconds = [number for name, number in report.user_properties if name == "cpu_seconds"]
            costs[report.nodeid] = max(costs.get(report.nodeid, 0.0), *seconds, 0.0)
    above = sorted(((seconds, name) for name, seconds in costs.items() if seconds), reverse=True)
    if above:
        terminalreporter.section(f"more than {LONGEST:g} s of CPU: {len(above)} of the tests")
        terminalreporter.line(
            "Measure less, share what is measured in a fixture of the session, or move them to tests/slow."
        )
    for seconds, name in above:
        terminalreporter.line(f"{seconds:6.1f} s  {name}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    began = cpu_seconds()
    yield
    note_cost(item, cpu_seconds() - began)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    began = cpu_seconds()
    has_torch = "torch" in sys.modules
    yield
    note_cost(item, cpu_seconds() - began)
    if "fast" in item.path.parts and not has_torch and "torch" in sys.modules:
        pytest.fail("loads torch; tests/fast is for tests that need none: move it to tests/unit", pytrace=False)


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


class Robench(Protocol):
    def __call__(self, *arguments: object) -> Ended: ...


@pytest.fixture
def robench(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Robench:
    """Run the command line in this process, which saves the seconds that importing torch takes."""

    def run(*arguments: object) -> Ended:
        from robench.cli.main import main

        monkeypatch.setattr(sys, "argv", ["robench", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        captured = capfd.readouterr()
        assert "Traceback" not in captured.out + captured.err
        return Ended(int(end.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """Tests send Ctrl-C, which a shell has everything ignore that it starts in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("ROBENCH_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installer]:
    """Install distributions of other people for one test."""
    folder = tmp_path / "site"
    folder.mkdir()
    installer = Installer(folder, monkeypatch)
    yield installer
    installer.forget()


@pytest.fixture
def small_suite(tmp_path: Path) -> Callable[..., Path]:
    """Write a suite of a few batches and steps, varied by replacing text in it."""

    def write(name: str = "small", **replaced: str) -> Path:
        text = SMALL_SUITE.replace("NAME", name)
        for old, new in replaced.items():
            text = text.replace(old, new)
        path = tmp_path / f"{name}.yaml"
        path.write_text(text)
        return path

    return write


@dataclass(frozen=True)
class MeasuredStore:
    """Suite, models and the results folder that has all their outcomes and adversarial examples (float32).

    No test may change the folder: one that would takes a copy.
    """

    suite: Path
    results: Path
    models: tuple[str, ...] = ("digits-vit", "digits-symvit")

    def copied(self, folder: Path) -> Path:
        """Copy the results to a new folder, which a test may change, and return it."""
        return Path(shutil.copytree(self.results, folder))

    def files(self) -> dict[str, tuple[int, int]]:
        """Return size and time of each file, by which a test that changes the folder is noticed."""
        files = (path for path in self.results.rglob("*") if path.is_file())
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="session")
def measured_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredStore]:
    """The small suite, measured once for all tests that only read results: 150 digits, clean, FGSM and PGD."""
    import robench

    folder: Path = tmp_path_factory.mktemp("measured")
    made = MeasuredStore(suite=folder / "small.yaml", results=folder / "results")
    made.suite.write_text(SMALL_SUITE.replace("NAME", "small"))
    robench.run(
        made.suite,
        list(made.models),
        results=made.results,
        executor="serial",
        device="cpu",
        audit=False,
        keep_adversarial="float32",
    )
    before = made.files()
    yield made
    changed = sorted(dict(before.items() ^ made.files().items()))
    assert not changed, f"a test changed the results that all tests share; it must take a copy: {changed}"


SMALL_SUITE = """\
name: NAME
version: 1
seed: 0
dataset: digits
batch_size: 50
conditions:
  - {name: clean, num_examples: 150}
  - {name: fgsm, num_examples: 150, perturbation: {kind: fgsm, epsilon: 8/255}}
  - {name: pgd, num_examples: 150, perturbation: {kind: pgd, epsilon: 8/255, step_size: 2/255, num_steps: 4}}
metrics: [top1_accuracy, top5_accuracy, robust_accuracy]
audit: false
"""
