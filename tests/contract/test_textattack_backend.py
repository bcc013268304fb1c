"""TextAttack's adapter with a small program in the library's place: tasks, questions, counts, and what can fail.

The library itself is compared with robench's search in tests/slow/test_textattack.py.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import ROOT, Robench
from presence import present
from textattack_programs import ASKING, DYING, FAILING, RETURNING, UNIMPORTABLE, program, run
from word_search_models import TABLE, BagOfWords, labels_of, sentences

from robench.attacks.backends import installed
from robench.attacks.backends.installed import check_installed, release_of
from robench.core.errors import ContractError, UsageError
from robench.core.seeds import Stream
from robench.datasets import DATASETS
from robench.domains.code_points import decoded, encoded_batch
from robench.perturbations import textattack_impl
from robench.perturbations.draws import ExampleDraws
from robench.perturbations.greedy_word_swap import GreedyWordSwap
from robench.perturbations.textattack import TextAttackRecipe
from robench.perturbations.word_swap_impl import STOP_WORDS

__all__ = ["program"]

GREEDY = GreedyWordSwap(ranking="delete", num_queries=90, substitutions="table", table=TABLE, backend="textattack")
RECIPE = TextAttackRecipe(recipe="pruthi", num_queries=50)


class TestTasks:
    """What the library is asked for, and what it may ask."""

    def returned(self, program: Callable[[str], None], declaration: Any, text: str) -> dict[str, Any]:
        program(ASKING)
        found = run(declaration, [text])
        assert (present(found.num_queries).tolist(), present(found.num_gradients).tolist()) == ([3], [0])
        (answer,) = decoded(found.inputs)
        value: dict[str, Any] = json.loads(answer)
        return value

    def test_a_greedy_word_swap_has_all_of_its_fields(self, program: Callable[[str], None]) -> None:
        declared = replace(GREEDY, unknown="???", most_changed=Fraction(1, 4), keeps_stop_words=False)
        text = sentences(1)[0]
        task = self.returned(program, declared, text)["task"]
        (seed,) = ExampleDraws([0]).seeds(Stream(purpose="library"))
        substitutes = {word: list(TABLE[word]) for word in text.split() if word in TABLE}
        assert substitutes
        assert task == {
            "recipe": "greedy-word-swap", "num_queries": 90, "ranking": "delete", "unknown": "???",
            "most_changed": 0.25, "keeps_stop_words": False, "substitutes": substitutes,
            "text": text, "label": labels_of([text])[0], "seed": seed,
        }  # fmt: skip

    def test_questions_are_answered_by_the_models_logits(self, program: Callable[[str], None]) -> None:
        model, text = BagOfWords(), sentences(1)[0]
        logits = self.returned(program, RECIPE, text)["logits"]
        wanted = model.outputs(encoded_batch([text, "a", "b c"]), (0, 0, 0)).double().tolist()
        assert logits == wanted

    def test_the_process_has_a_home_of_its_own_and_robenchs_stop_words(self, program: Callable[[str], None]) -> None:
        variables = self.returned(program, RECIPE, "some words")["variables"]
        home = Path(variables["HOME"])
        assert home != Path.home()
        stop_words = Path(variables["NLTK_DATA"]) / "corpora" / "stopwords" / "english"
        assert set(stop_words.read_text().split("\n")) == STOP_WORDS
        assert (Path(variables["TA_CACHE_DIR"]) / "post_install_check_3").exists()
        assert variables["PYTHONHASHSEED"] == "0"
        textattack_impl.textattack_process().close()
        assert not home.exists()


@pytest.mark.parametrize("declaration", [GREEDY, RECIPE], ids=["greedy", "recipe"])
class TestExamples:
    """Each example has its own seed, and depends on no other one."""

    def test_an_example_alone_has_the_same_text(self, program: Callable[[str], None], declaration: Any) -> None:
        program(RETURNING)
        texts = sentences(4)
        whole = decoded(run(declaration, texts).inputs)
        alone = decoded(run(declaration, [texts[2]], seeds=range(2, 3)).inputs)
        assert alone == [whole[2]]

    def test_one_process_serves_all(self, program: Callable[[str], None], declaration: Any) -> None:
        program(RETURNING)
        run(declaration, sentences(2))
        first = textattack_impl.textattack_process()
        run(declaration, sentences(3))
        assert textattack_impl.textattack_process() is first


class TestFailures:
    """Errors of the library and its process, each in one sentence."""

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (FAILING, "TextAttack failed: ValueError: no words"),
            (DYING, "the process of TextAttack ended: last line"),
            (UNIMPORTABLE, "the process of TextAttack ended: ModuleNotFoundError: flair"),
            ("", "the process of TextAttack ended: no message"),
        ],
    )
    def test_they_are_contract_errors(self, program: Callable[[str], None], text: str, message: str) -> None:
        program(text)
        with pytest.raises(ContractError) as caught:
            run(RECIPE, ["some words"])
        assert str(caught.value) == message

    def test_a_model_that_fails_in_between_spoils_no_later_text(self, program: Callable[[str], None]) -> None:
        class Failing(BagOfWords):
            def outputs(self, inputs: torch.Tensor, seeds: Any = None) -> torch.Tensor:
                raise ValueError("not today")

        program(ASKING)
        with pytest.raises(ValueError, match="not today"):
            run(RECIPE, ["some words"], Failing())
        (answer,) = decoded(run(RECIPE, ["other words"]).inputs)
        assert json.loads(answer)["task"]["text"] == "other words"

    def test_after_a_death_another_process_starts(self, program: Callable[[str], None]) -> None:
        program(DYING)
        with pytest.raises(ContractError, match="last line"):
            run(RECIPE, ["some words"])
        program(RETURNING)
        (answer,) = decoded(run(RECIPE, ["some words"]).inputs)
        assert answer.startswith("SOME WORDS")

    def test_a_closed_process_ends_and_leaves_no_folder(self, program: Callable[[str], None], tmp_path: Path) -> None:
        program(RETURNING)
        run(RECIPE, ["some words"])
        process = textattack_impl.textattack_process()
        process.close()
        assert process._process.returncode is not None

    def test_outputs_that_are_not_finite_are_refused(self, program: Callable[[str], None]) -> None:
        class Broken(BagOfWords):
            def outputs(self, inputs: torch.Tensor, seeds: Any) -> torch.Tensor:
                return super().outputs(inputs, seeds) * float("nan")

        program(ASKING)
        with pytest.raises(ContractError, match="values that are not finite"):
            run(RECIPE, ["some words"], Broken())


class TestDeclarations:
    """What they serve."""

    def test_language_models_are_for_robenchs_own_search(self) -> None:
        wanted = "must serve classification with backend textattack, got dataset sotu"
        assert GREEDY.problems_on(DATASETS["sotu"]) == [("", wanted)]
        assert replace(GREEDY, backend="robench").problems_on(DATASETS["sotu"]) == []
        assert "must serve classification" in RECIPE.problems_on(DATASETS["sotu"])[0][1]

    @pytest.mark.parametrize("declaration", [GREEDY, RECIPE])
    def test_texts_alone_are_served(self, declaration: Any) -> None:
        assert declaration.problems_on(DATASETS["sotu-eras"]) == []
        assert "must serve texts, got dataset digits" in declaration.problems_on(DATASETS["digits"])[0][1]
        assert declaration.backend == "textattack"


class TestEnvironment:
    """The environment of its own: where it is, when it is complete, and how it is installed."""

    @pytest.fixture(autouse=True)
    def folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        monkeypatch.setenv("ROBENCH_BACKENDS", str(tmp_path))
        return tmp_path

    def make(self, content: str | None = None) -> None:
        folder = installed.environment_of("textattack")
        folder.mkdir(parents=True)
        (folder / "robench-ready").write_text(installed._wanted("textattack") if content is None else content)

    def test_a_missing_one_names_the_command(self) -> None:
        with pytest.raises(UsageError, match=r"robench backends install textattack$"):
            check_installed("textattack")

    @pytest.mark.parametrize("content", ["", "another lock\n"])
    def test_one_of_another_lock_or_interrupted_does_not_count(self, content: str) -> None:
        self.make(content)
        assert not installed.is_ready("textattack")

    def test_a_complete_one_is_found_and_its_release_recorded(self) -> None:
        self.make()
        assert installed.is_ready("textattack")
        assert release_of("textattack") == {"textattack": "0.3.11"}
        assert installed.python_of("textattack").is_relative_to(installed.environment_of("textattack"))
        assert installed.install("textattack") == installed.environment_of("textattack")

    def test_the_lock_pins_the_release_and_no_torch(self) -> None:
        lock = Path(installed.__file__).with_name("textattack.lock").read_text()
        names = [line.partition("==")[0] for line in lock.splitlines() if "==" in line and not line.startswith("#")]
        assert "textattack==0.3.11 " in lock
        assert "torch" not in names
        assert lock.count("--hash=sha256:") >= len(names) > 80

    @pytest.mark.slow
    def test_installing_makes_an_environment_that_sees_robenchs_packages(self, monkeypatch: pytest.MonkeyPatch) -> None:
        commands: list[list[str]] = []
        real = installed._run

        def watched(command: list[str]) -> None:
            commands.append(command)
            if "venv" in command:
                real([*command, "--without-pip"])

        monkeypatch.setattr(installed, "_run", watched)
        folder = installed.install("textattack")
        assert "--require-hashes" in commands[1]
        assert installed.is_ready("textattack")
        real([str(installed.python_of("textattack")), "-c", "import torch"])
        assert folder == installed.environment_of("textattack")

    def test_a_failure_has_the_end_of_pips_message(self, monkeypatch: pytest.MonkeyPatch, robench: Robench) -> None:
        failing = [sys.executable, "-c", "import sys; sys.exit('one\\ntwo\\nERROR: no network')"]
        real = installed._run
        monkeypatch.setattr(installed, "_run", lambda command: real(failing))
        ended = robench("backends", "install", "textattack")
        assert ended.code == 2
        assert "ERROR: no network" in ended.stderr
        assert not installed.is_ready("textattack")

    def test_a_folder_that_cannot_be_written_is_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "file").write_text("")
        monkeypatch.setenv("ROBENCH_BACKENDS", str(folder / "file" / "below"))
        with pytest.raises(UsageError, match=r"cannot write .*file.*: Not a directory"):
            installed.install("textattack")


class TestCommand:
    """``robench backends``."""

    def test_the_list_has_every_library(
        self, robench: Robench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("ROBENCH_BACKENDS", str(tmp_path))
        found = {each["name"]: each for each in json.loads(robench("backends", "list", "--json").stdout)}
        assert found["textattack"]["version"] is None
        assert found["textattack"]["install"] == "robench backends install textattack"
        assert found["foolbox"]["version"] == "3.3.4"
        lines = robench("backends", "list").stdout.splitlines()
        assert len(lines) == len(found) + 1
        assert "not installed" in lines[-1]

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("textatack", "unknown backend 'textatack'. Did you mean 'textattack'?"),
            ("foolbox", f"backend foolbox is installed beside robench: pip install --editable '{ROOT}[foolbox]'"),
        ],
    )
    def test_others_are_not_installed(self, robench: Robench, name: str, message: str) -> None:
        ended = robench("backends", "install", name)
        assert ended.code == 2
        assert message in ended.stderr
