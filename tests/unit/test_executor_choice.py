"""Fields of an executor on the command line: ``--executor-option`` and ``--ray-address``."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from annotated_types import Ge, Le
from conftest import Robench
from plugin_examples import Installer

from robench.cli.options import chosen_executor
from robench.core.errors import PluginError, UnknownNameError, UsageError
from robench.declare import assigned
from robench.executors import Processes, Ray
from robench.executors.base import ExecutorBase
from robench.runs.devices import executor_asked


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything(ExecutorBase):
    kind: ClassVar[str] = "everything"
    implementation: ClassVar[str] = "nowhere:nothing"
    queue: str
    account: str | None = None
    count: Annotated[int, Ge(1), Le(9)] = 1
    share: Annotated[float, Ge(0), Le(1)] = 0.5
    exclusive: bool = False
    mode: Literal["fast", "slow"] = "fast"


def test_a_kind_alone_stays_a_name() -> None:
    assert chosen_executor("auto", ()) == "auto"
    assert chosen_executor("nonsense", (), ray_address=None) == "nonsense"


def test_values_are_read_by_the_types_of_their_fields() -> None:
    given = ["queue=7", "account=null", "count=3", "share=0.25", "exclusive=true", "mode=slow"]
    wanted = Everything(queue="7", account="null", count=3, share=0.25, exclusive=True, mode="slow")
    assert assigned(Everything, given, "--x", "executor") == wanted
    assert assigned(Everything, ["queue=a=b"], "--x", "executor") == Everything(queue="a=b")


UNREADABLE = """
from dataclasses import dataclass
from typing import ClassVar

from robench.executors import ExecutorBase


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting(ExecutorBase):
    kind: ClassVar[str] = "their-counting"
    implementation: ClassVar[str] = "nowhere:nothing"
    count: complex = 1j
"""


@pytest.mark.parametrize("assignments", [(), ("count=3",)])
def test_a_foreign_executor_of_unreadable_fields_is_refused(install: Installer, assignments: tuple[str, ...]) -> None:
    install(entries={"executor:their-counting": "Counting"}, declared=UNREADABLE)
    with pytest.raises(PluginError, match=r"their-counting' of their-plugins 1\.0 cannot be used: .* no reader"):
        executor_asked(chosen_executor("their-counting", assignments))


def test_the_address_is_a_field_like_all_others() -> None:
    wanted = Ray(address="ray://head:10001", gpus_per_worker=0.5)
    given = ["gpus_per_worker=0.5"]
    assert chosen_executor("ray", given, ray_address="ray://head:10001") == wanted
    assert chosen_executor("ray", [*given, "address=ray://head:10001"]) == wanted


@pytest.mark.parametrize(
    ("assignments", "found"),
    [
        (["queue"], "--x 'queue' must be NAME=VALUE; executor everything: it has queue, account, count, share"),
        (["quue=a"], "--x: executor everything has no field 'quue'; it has queue, account, count, share, exclusive"),
        (["queue=a", "queue=b"], "--x gives queue twice"),
        ([], "--x: executor everything: queue missing"),
        (["queue=a", "count=0"], "--x: executor everything: count must be at least 1, got 0"),
        (["queue=a", "count=1.0"], "--x: executor everything: count must be a whole number, got 1.0"),
        (["queue=a", "share=half"], "--x: executor everything: share must be a number, got 'half'"),
        (["queue=a", "exclusive=yes"], "--x: executor everything: exclusive must be true or false, got 'yes'"),
        (["queue=a", "mode=fst"], "--x: executor everything: mode unknown value 'fst'. Did you mean 'fast'?"),
        (["queue=a", "count=010"], "--x count must be a plain number or word, got '010'"),
    ],
)
def test_a_wrong_assignment_is_named(assignments: list[str], found: str) -> None:
    with pytest.raises(UsageError) as caught:
        assigned(Everything, assignments, "--x", "executor")
    assert found in str(caught.value)


def test_all_wrong_values_are_named_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        assigned(Ray, ["gpus_per_worker=0", "cpus_per_worker=x"], "--executor-option", "executor")
    assert len(caught.value.lines) == 2


@pytest.mark.parametrize(
    ("kind", "assignments", "address", "found"),
    [
        (
            "auto",
            [],
            "auto",
            "--ray-address is an option of --executor ray, but --executor is auto; add --executor ray",
        ),
        ("serial", [], "auto", "--ray-address is an option of --executor ray, but --executor is serial"),
        ("auto", ["a=1"], None, "--executor-option sets fields of an executor, but --executor is auto"),
        ("serial", ["a=1"], None, "executor serial has no field 'a'; it has none"),
        ("ray", ["address=a"], "b", "--executor-option gives address twice"),
        ("ray", ["gpus_per_worker=1.5"], None, "gpus_per_worker must be at most 1 or a whole number, got 1.5"),
        ("ray", ["address="], None, "address must be auto, host:port or ray://host:port, got an empty text"),
    ],
)
def test_fields_need_their_executor(kind: str, assignments: list[str], address: str | None, found: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen_executor(kind, assignments, ray_address=address)
    assert found in str(caught.value)


def test_an_unknown_executor_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown executor 'rya'. Did you mean 'ray'"):
        chosen_executor("rya", ["address=auto"])


def test_an_address_of_another_executor_ends_a_run_first(robench: Robench, small_suite: Callable[..., Path]) -> None:
    suite = small_suite()
    for command in (["run", "--dry-run"], ["transfer", "--condition", "pgd"]):
        ended = robench(*command, "--suite", suite, "--model", "digits-vit", "--ray-address", "auto")
        assert (ended.code, ended.stdout) == (2, "")
        assert "add --executor ray, or leave it out" in ended.stderr


def test_the_plan_of_a_run_elsewhere_needs_no_workers(robench: Robench, small_suite: Callable[..., Path]) -> None:
    options = ["--suite", small_suite(), "--model", "digits-vit", "--executor", "ray", "--dry-run"]
    ended = robench("run", *options)
    assert ended.code == 0
    assert "backward passes of examples, by executor ray" in ended.stdout
    assert '"workers": 0' in robench("run", *options, "--json").stdout


def test_executors_are_listed_and_shown_with_their_fields(robench: Robench) -> None:
    listed = robench("list", "executors").stdout
    assert all(kind in listed for kind in (Processes.kind, Ray.kind, "serial"))
    shown = robench("show", "ray").stdout
    assert "is_one_of: executors" in shown
    assert "gpus_per_worker" in shown


@pytest.mark.parametrize("command", ["run", "transfer"])
def test_help_imports_no_executor(command: str) -> None:
    code = (
        f"import sys; sys.argv = ['robench', {command!r}, '--help']\n"
        "from robench.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n    print([name for name in sys.modules if name.partition('.')[0] == 'ray'"
        " or name.startswith('robench.executors')])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "--ray-address" in ended.stdout
    assert ended.stdout.splitlines()[-1] == "[]"


def test_whole_numbers_are_seconds_too() -> None:
    chosen: Any = chosen_executor("ray", ["start_timeout=5"])
    assert chosen.start_timeout == 5.0
    assert chosen.is_elsewhere
