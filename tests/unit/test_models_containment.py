"""What a model's code does to its process is undone, and no error of its ends the run."""

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from robench.core.containment import Contained, attributed_to
from robench.core.errors import ContractError, UsageError
from robench.declarations.preprocessing import ImagePreprocessing
from robench.models.loaded import LoadedModel

PLAIN = ImagePreprocessing(mean=(0.0,), std=(1.0,))


class OwnError(BaseException):
    pass


@pytest.mark.parametrize(
    "error",
    [
        SystemExit(0),
        SystemExit("x"),
        GeneratorExit(),
        KeyboardInterrupt(),
        BaseExceptionGroup("g", [SystemExit()]),
        OwnError(),
    ],
    ids=repr,
)
def test_errors_that_would_end_the_process_become_errors_of_the_model(error: BaseException) -> None:
    with pytest.raises(ContractError, match=f"{type(error).__name__}.*which ends a process") as caught, Contained():
        raise error
    assert caught.value.__cause__ is error


def test_settings_of_code_that_imports_torch_first_are_undone() -> None:
    """A plug-in may be declared before anything of robench's needs torch."""
    probe = (
        "import sys\nfrom robench.core.containment import Contained\nassert 'torch' not in sys.modules\n"
        "with Contained():\n    import torch\n    torch.set_default_dtype(torch.float64)\n"
        "    torch.set_grad_enabled(False)\n"
        "print(torch.get_default_dtype(), torch.is_grad_enabled())"
    )
    ended = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["torch.float32", "True"]


def test_other_errors_stay_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), Contained():
        1 / 0  # noqa: B018


def test_ctrl_c_of_the_user_stays_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), Contained(), Contained():
        signal.raise_signal(signal.SIGINT)


def test_a_handler_that_was_there_hears_signals_and_is_back_afterwards() -> None:
    heard: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    mine = lambda number, frame: heard.append(number)  # noqa: E731
    signal.signal(signal.SIGTERM, mine)
    try:
        with Contained():
            os.kill(os.getpid(), signal.SIGTERM)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        assert (heard, signal.getsignal(signal.SIGTERM)) == ([signal.SIGTERM], mine)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_in_another_thread_an_interrupt_can_only_be_the_models() -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            with Contained():
                raise KeyboardInterrupt
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert isinstance(caught[0], ContractError)


def state() -> dict[str, Any]:
    return {
        "folder": Path.cwd(),
        "environment": dict(os.environ),
        "trace": sys.gettrace(),
        "limit": sys.getrecursionlimit(),
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),  # type: ignore[union-attr, index, unused-ignore]
        "torch": torch.get_rng_state().tolist(),
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.get_deterministic_debug_mode(),
        "device": torch.get_default_device(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "cudnn": torch.backends.cudnn.deterministic,
        "stdout": sys.stdout,
    }


CHANGES: dict[str, Callable[[], object]] = {
    "folder": lambda: os.chdir("/"),
    "environment": os.environ.clear,
    "limit": lambda: sys.setrecursionlimit(5000),
    "python": random.random,
    "numpy": np.random.rand,
    "torch": lambda: torch.rand(1),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "gradients": lambda: torch.set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "device": lambda: torch.set_default_device("meta"),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "cudnn": lambda: setattr(torch.backends.cudnn, "deterministic", True),
    "stdout": lambda: setattr(sys, "stdout", None),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("fails", [False, True])
def test_what_code_changes_is_undone(name: str, fails: bool) -> None:
    before = state()
    try:
        with Contained():
            inside = state()
            CHANGES[name]()
            assert state()[name] != inside[name]
            if fails:
                sys.exit(0)
    except ContractError:
        assert fails
    assert state() == before


def test_tracing_is_undone() -> None:
    before = sys.gettrace()
    with Contained():
        sys.settrace(lambda *_: None)
    found = sys.gettrace()
    sys.settrace(before)
    assert found is before


def test_variables_that_a_module_sets_on_import_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OF_A_MODEL", raising=False)
    with Contained(keeps_environment=True):
        os.environ["OF_A_MODEL"] = "1"
    assert os.environ["OF_A_MODEL"] == "1"
    with Contained():
        os.environ["OF_A_MODEL"] = "2"
    assert os.environ["OF_A_MODEL"] == "1"


def test_generators_of_the_process_begin_at_the_same_state() -> None:
    drawn = []
    for _ in range(2):
        random.random()
        np.random.rand()
        torch.rand(1)
        with Contained():
            drawn.append((random.random(), float(np.random.rand()), float(torch.rand(()))))
    assert drawn[0] == drawn[1]


def test_a_copy_that_a_model_forked_does_not_go_on(tmp_path: Path) -> None:
    with Contained():
        child = os.fork()
    (tmp_path / str(os.getpid())).touch()
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 70
    assert [path.name for path in tmp_path.iterdir()] == [str(os.getpid())]


def test_blamed_begins_the_message_and_leaves_robenchs_own_errors() -> None:
    with pytest.raises(ContractError, match=r"^model m: KeyError: 'x'$"), attributed_to("model m"):
        raise KeyError("x")
    with pytest.raises(UsageError, match=r"^mine$"), attributed_to("model m"):
        raise UsageError("mine")


class Changing(nn.Module):
    """A model that changes torch's settings, and its input, in each pass."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = x.flatten(1) * 2
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        torch.set_num_threads(torch.get_num_threads() + 1)
        x.mul_(0)
        return logits


def test_a_pass_changes_no_setting_and_no_input_of_the_caller() -> None:
    before = state()
    victim = LoadedModel(Changing(), PLAIN)
    inputs = torch.rand(2, 1, 2, 2)
    kept = inputs.clone()
    for _ in range(2):
        assert torch.equal(victim.outputs(inputs), kept.flatten(1) * 2)
    assert torch.equal(inputs, kept)
    assert {**state(), "torch": 0} == {**before, "torch": 0}
