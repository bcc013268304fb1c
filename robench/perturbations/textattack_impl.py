"""Adapter of TextAttack 0.3.11: recipes, augmenters, and its greedy word swap with robench's substitutes.

The library sees one text at a time, with its generators seeded by the example, and asks this process for logits; every
text that the model is shown is counted. A search that fails returns the text with the best score that it reached.
``greedy_search`` lists the differences from robench's greedy word swap.

The library runs in a process and an environment of its own. One process serves all texts of a worker. It is started at
the first text, and ends with the worker: when its standard input is closed.
"""

import atexit
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from robench.attacks.backends.installed import python_of
from robench.core.errors import ContractError
from robench.core.protocols import Batch, Draws, Model, Perturbed
from robench.core.seeds import Stream
from robench.domains.code_points import decoded, encoded_batch
from robench.perturbations.greedy_search import Reached, Reader, each_text, substitutes_of
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.textattack import TextAttackAugmenter, TextAttackRecipe
from robench.perturbations.word_swap_impl import STOP_WORDS

# Texts to the model's logits for each.
Ask = Callable[[Sequence[str]], Sequence[Sequence[float]]]


def by_recipe(declaration: TextAttackRecipe, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that a recipe reaches.

    Raises:
        UsageError: the library's environment is not installed.
        ContractError: the library failed, or the model's outputs are not finite.
    """
    task = {"recipe": declaration.recipe, "num_queries": declaration.num_queries}

    def attack(text: str, label: Tensor, reader: Reader[str], draws: Draws) -> Reached[str]:
        return _run(task, text, label, reader, draws)

    return each_text(attack, batch, model, draws)


def by_augmenter(declaration: TextAttackAugmenter, batch: Batch, model: Model, draws: Draws) -> Perturbed:
    """Return the texts that an augmenter makes; the model plays no part.

    Raises:
        UsageError: the library's environment is not installed.
        ContractError: the library failed.
    """
    del model
    task = {"augmenter": declaration.augmenter, "rate": float(declaration.rate)}
    process, seeds = textattack_process(), draws.seeds(Stream(purpose="library"))
    made = [
        process.attacked({**task, "text": text, "seed": seed}, lambda texts: [])
        for text, seed in zip(decoded(batch.inputs), seeds, strict=True)
    ]
    return Perturbed(inputs=encoded_batch(made).to(batch.inputs.device))


def greedy_by_library(
    declaration: GreedyWordSwap, text: str, label: Tensor, reader: Reader[str], draws: Draws
) -> Reached[str]:
    """Return the text that the library's greedy word swap reaches, and the number of texts that the model was shown."""
    task = {
        "recipe": declaration.kind,
        "num_queries": declaration.num_queries,
        "ranking": declaration.ranking,
        "unknown": declaration.unknown,
        "most_changed": float(declaration.most_changed),
        "keeps_stop_words": declaration.keeps_stop_words,
        "substitutes": substitutes_of(text, declaration),
    }
    return _run(task, text, label, reader, draws)


# Any: values of JSON.
def _run(task: dict[str, Any], text: str, label: Tensor, reader: Reader[str], draws: Draws) -> Reached[str]:
    num_queries = 0

    def ask(texts: Sequence[str]) -> list[list[float]]:
        nonlocal num_queries
        num_queries += len(texts)
        return [row[0].double().tolist() for row in reader.rows(texts)]

    (seed,) = draws.seeds(Stream(purpose="library"))
    reached = textattack_process().attacked({**task, "text": text, "label": int(label), "seed": seed}, ask)
    return Reached(reached, num_queries)


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
