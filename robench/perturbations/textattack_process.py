"""Process that runs TextAttack in its own environment, and answers to its questions by a model.

One process serves all texts of a worker. It is started at the first text, and ends with the worker: when its standard
input is closed.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from robench.attacks.backends.apart import python_of
from robench.core.errors import ContractError
from robench.perturbations.stop_words import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    # Texts to the model's logits for each.
    Ask = Callable[[Sequence[str]], Sequence[Sequence[float]]]

BACKEND = "textattack"
_SERVER = Path(__file__).with_name("textattack_server.py")


class TextAttackProcess:
    """Process of the library; see the module.

    Raises:
        UsageError: the environment is not installed.
        ContractError: the library cannot be imported there.
    """

    def __init__(self) -> None:
        python = python_of(BACKEND)
        self._folder = tempfile.TemporaryDirectory(prefix="robench-textattack-")
        folder = Path(self._folder.name)
        self._messages = (folder / "messages.txt").open("w+")
        reading, writing = os.pipe()
        self._answers = os.fdopen(reading, encoding="utf-8")
        self._process = subprocess.Popen(
            [python, "-sP", str(_SERVER)],
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=self._messages,
            text=True,
            encoding="utf-8",
            env=_environment(folder),
        )
        os.close(writing)
        assert self._process.stdin is not None  # it is a pipe
        self._questions = self._process.stdin
        atexit.register(self.close)
        self._read()

    def attacked(self, task: Mapping[str, Any], ask: Ask) -> str:
        """Return the text that a task reaches; ``ask`` answers its questions. Any: values of JSON.

        Raises:
            ContractError: the library failed.
        """
        try:
            answer = self._asked(task)
            while "ask" in answer:
                answer = self._asked({"logits": ask(answer["ask"])})
        except BaseException:
            # It waits for an answer, or is gone: the next text starts another process.
            textattack_process.cache_clear()
            self.close()
            raise
        if "error" in answer:
            raise ContractError(f"TextAttack failed: {answer['error']}")
        return str(answer["text"])

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        self._messages.close()
        with suppress(OSError):
            # What it did not read cannot be flushed.
            self._questions.close()
        self._folder.cleanup()

    def _asked(self, value: Mapping[str, Any]) -> dict[str, Any]:
        # If it is gone, its last message is read.
        with suppress(OSError):
            self._questions.write(json.dumps(value) + "\n")
            self._questions.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            self._messages.seek(0)
            last = self._messages.read().strip().splitlines()[-1:] or ["no message"]
            raise ContractError(f"the process of TextAttack ended: {last[0]:.300}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@cache
def textattack_process() -> TextAttackProcess:
    """Return the one process of this worker, started at the first call."""
    return TextAttackProcess()


def _environment(folder: Path) -> dict[str, str]:
    """Return variables for a process that downloads nothing and finds the stop words where NLTK has them."""
    stop_words = folder / "nltk" / "corpora" / "stopwords" / "english"
    stop_words.parent.mkdir(parents=True)
    stop_words.write_text("\n".join(sorted(STOP_WORDS)))
    # With this file the library tries no download when it is imported.
    (folder / "cache").mkdir()
    (folder / "cache" / "post_install_check_3").touch()
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "SYSTEMROOT", "TMPDIR")}
    return kept | {
        "HOME": str(folder),
        "NLTK_DATA": str(folder / "nltk"),
        "TA_CACHE_DIR": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        # The library iterates over sets.
        "PYTHONHASHSEED": "0",
    }
