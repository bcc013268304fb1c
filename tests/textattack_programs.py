"""Small programs in TextAttack's place, which speak as its process does, for tests of the adapter."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from word_search_models import BagOfWords, labels_of

from robench.core.protocols import Batch, Perturbed
from robench.domains.code_points import encoded_batch
from robench.perturbations import textattack_impl
from robench.perturbations.dispatch import perturb
from robench.perturbations.draws import ExampleDraws

# Says that it is ready, asks for three texts of which one is the task's, and returns the task and the answer.
ASKING = """
import json, os, sys
say = lambda value: print(json.dumps(value), flush=True)
say({"ready": True})
for line in sys.stdin:
    task = json.loads(line)
    say({"ask": [task["text"], "a", "b c"]})
    logits = json.loads(sys.stdin.readline())["logits"]
    variables = {name: os.environ.get(name) for name in ("HOME", "NLTK_DATA", "TA_CACHE_DIR", "PYTHONHASHSEED")}
    say({"text": json.dumps({"task": task, "logits": logits, "variables": variables})})
"""
RETURNING = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    task = json.loads(line)
    print(json.dumps({"text": task["text"].upper() + str(task["seed"])}), flush=True)
"""
FAILING = """
import json, sys
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    print(json.dumps({"error": "ValueError: no words"}), flush=True)
"""
DYING = (
    "import sys; print('{}', flush=True); sys.stdin.readline(); sys.stderr.write('first\\nlast line\\n'); sys.exit(3)"
)
UNIMPORTABLE = "import sys; sys.stderr.write('ModuleNotFoundError: flair\\n'); sys.exit(1)"


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Function that puts a program in the place of the library's."""
    path = tmp_path / "program.py"
    monkeypatch.setattr(textattack_impl, "_SERVER", path)
    monkeypatch.setattr(textattack_impl, "python_of", lambda backend: Path(sys.executable))
    textattack_impl.textattack_process.cache_clear()
    yield path.write_text
    if textattack_impl.textattack_process.cache_info().currsize:
        textattack_impl.textattack_process().close()
    textattack_impl.textattack_process.cache_clear()


def batch_of(texts: list[str], labels: list[int]) -> Batch:
    return Batch(
        ids=tuple(map(str, range(len(texts)))), inputs=encoded_batch(texts), targets=torch.tensor(labels),
        task="classification", domain="texts",
    )  # fmt: skip


def run(declaration: Any, texts: list[str], model: Any = None, seeds: range | None = None) -> Perturbed:
    draws = ExampleDraws(seeds or range(len(texts)))
    return perturb(declaration, batch_of(texts, labels_of(texts)), model or BagOfWords(), draws)
