"""TextAttack in a process of its own: tasks and answers as lines of JSON (see ``textattack_impl``).

This file runs in the environment of ``robench backends install textattack`` and imports nothing of robench. A task is
one text and how to attack it. While it runs, ``{"ask": [texts]}`` is answered by ``{"logits": [[...], ...]}``; it ends
with ``{"text": ...}``, or with ``{"error": ...}``.
"""

import json
import os
import random
import sys
import threading
from queue import SimpleQueue
from typing import IO, Any

# Any: untyped objects of the library, and tasks as JSON.
Task = dict[str, Any]
_LINES: SimpleQueue[str] = SimpleQueue()


def main() -> None:
    """Serve tasks until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # Libraries print to standard output.
    os.dup2(2, 1)
    import textattack  # noqa: F401  # imported before the first task, which it would delay

    threading.Thread(target=_read, daemon=True).start()
    _say(answers, {"ready": True})
    while True:
        task = json.loads(_LINES.get())
        try:
            _say(answers, {"text": _attacked(task, answers)})
        # Broad because it is the library's code.
        except Exception as error:
            _say(answers, {"error": f"{type(error).__name__}: {error}"})


def _read() -> None:
    for line in sys.stdin:
        _LINES.put(line)
    os._exit(0)


def _attacked(task: Task, answers: IO[str]) -> str:
    import numpy as np
    import torch

    random.seed(task["seed"])
    np.random.seed(task["seed"] % 2**32)
    torch.manual_seed(task["seed"])
    if "augmenter" in task:
        return _augmented(task)
    attack = _RECIPES[task["recipe"]](task, _wrapper(answers))
    attack.goal_function.query_budget = task["num_queries"]
    result = attack.attack(task["text"], task["label"])
    return str(result.perturbed_result.attacked_text.text)


def _wrapper(answers: IO[str]) -> Any:
    from textattack.models.wrappers import ModelWrapper

    class Asked(ModelWrapper):  # type: ignore[misc]  # the library is untyped
        """Model whose outputs robench computes."""

        model = None

        def __call__(self, text_input_list: list[str], **kwargs: Any) -> list[list[float]]:
            _say(answers, {"ask": list(text_input_list)})
            logits: list[list[float]] = json.loads(_LINES.get())["logits"]
            return logits

    return Asked()


def _greedy(task: Task, model: Any) -> Any:
    from textattack import Attack
    from textattack.constraints.pre_transformation import MaxModificationRate, RepeatModification, StopwordModification
    from textattack.goal_functions import UntargetedClassification
    from textattack.search_methods import GreedyWordSwapWIR
    from textattack.transformations import WordSwap

    class Listed(WordSwap):  # type: ignore[misc]  # the library is untyped
        """Substitutes that robench gives."""

        def _get_replacement_words(self, word: str) -> list[str]:
            return list(task["substitutes"].get(word, ()))

    constraints = [RepeatModification()]
    if task["keeps_stop_words"]:
        constraints.append(StopwordModification())
    if task["most_changed"] < 1:
        constraints.append(MaxModificationRate(max_rate=task["most_changed"]))
    search = GreedyWordSwapWIR(wir_method=task["ranking"], unk_token=task["unknown"])
    return Attack(UntargetedClassification(model), constraints, Listed(), search)


def _published(name: str) -> Any:
    def build(task: Task, model: Any) -> Any:
        from textattack import attack_recipes

        return getattr(attack_recipes, name).build(model)

    return build


def _augmented(task: Task) -> str:
    from textattack import augmentation

    made = getattr(augmentation, _AUGMENTERS[task["augmenter"]])(pct_words_to_swap=task["rate"])
    # A text without a word that may change has none.
    found = made.augment(task["text"])
    return str(found[0]) if found else str(task["text"])


def _say(answers: IO[str], value: Task) -> None:
    answers.write(json.dumps(value) + "\n")
    answers.flush()


_AUGMENTERS = {"char-swap": "CharSwapAugmenter", "deletion": "DeletionAugmenter"}
_RECIPES: dict[str, Any] = {
    "greedy-word-swap": _greedy,
    "deepwordbug": _published("DeepWordBugGao2018"),
    "pruthi": _published("Pruthi2019"),
    "input-reduction": _published("InputReductionFeng2018"),
}


if __name__ == "__main__":
    main()
