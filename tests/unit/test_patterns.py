"""Patterns in --model, folded lists, summaries of models, and completion in shells."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT, Robench

from robench.cli.list_command import _folded
from robench.cli.names import expanded, model_of_registry, only_conditions
from robench.core.errors import UnknownNameError, UsageError
from robench.declare import find_suites, read_registries

KNOWN = ("digits-vit", "digits-vit@1", "digits-symvit", "deit-tiny", "sotu-lm")


class TestExpansion:
    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            (("digits-*",), ["digits-vit", "digits-symvit"]),
            (("*tiny", "digits-*", "digits-vit"), ["deit-tiny", "digits-vit", "digits-symvit"]),
            (("digits-symvit", "digits-*"), ["digits-symvit", "digits-vit"]),
            (("digits-vit@*",), ["digits-vit@1"]),
            (("d[ei]*-???", "sotu-lm"), ["digits-vit", "sotu-lm"]),
            (("unknown", "unknown"), ["unknown"]),
            ((), []),
        ],
    )
    def test_patterns_and_names_mix_in_order_each_once(self, given: tuple[str, ...], wanted: list[str]) -> None:
        assert expanded(given, lambda: KNOWN) == wanted

    def test_without_a_pattern_nothing_is_looked_up(self) -> None:
        def fail() -> list[str]:
            raise AssertionError

        assert expanded(["a", "b", "a"], fail) == ["a", "b"]

    def test_a_name_with_such_characters_is_itself(self) -> None:
        assert expanded(["a[1]"], lambda: ["a[1]", "a1"]) == ["a[1]"]

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            (["!pgd*", "!fgsm"], ["clean", "noise"]),
            (["fgsm", "pgd*", "!pgd-4"], ["fgsm", "pgd", "pgd-10"]),
            (["!pgd-*", "p*"], ["pgd"]),
        ],
    )
    def test_conditions_are_left_out_by_names_and_patterns(self, given: list[str], wanted: list[str]) -> None:
        (found,) = only_conditions(find_suites(["digits-adv"]), given)
        assert [each.name for each in found.conditions] == wanted

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("!pgd-5", "unknown condition 'pgd-5'. Did you mean 'pgd-4'"),
            ("!snow*", r"unknown condition 'snow\*'"),
            ("!*", r"suite 'digits-adv' has none of the conditions !\*"),
        ],
    )
    def test_what_cannot_be_left_out_is_an_error(self, given: str, message: str) -> None:
        with pytest.raises((UnknownNameError, UsageError), match=message):
            only_conditions(find_suites(["digits-adv"]), [given])

    @pytest.mark.parametrize(
        ("pattern", "suggested"), [("dgits-*", "'digits-*'"), ("digit_*", "'digit*'"), ("sotu-l?m", "'sotu-?m'")]
    )
    def test_what_matches_nothing_is_an_error_with_a_suggestion(self, pattern: str, suggested: str) -> None:
        with pytest.raises(UnknownNameError, match="unknown model") as error:
            expanded(["sotu-lm", pattern], lambda: KNOWN)
        assert f"Did you mean {suggested}?" in str(error.value)

    def test_a_command_of_one_model_refuses_several(self) -> None:
        assert model_of_registry("digits-quant*", ()) == "digits-quantized-vit"
        with pytest.raises(UsageError, match=r"'sotu-\*' matches \d+ models \(.*\), but this command takes one"):
            model_of_registry("sotu-*", ())


class TestCommands:
    """Each command that takes models refuses a pattern that matches nothing."""

    @pytest.mark.parametrize(
        "arguments",
        [
            ("run", "--suite", "digits-adv"),
            ("audit",),
            ("leaderboard", "--suite", "digits-adv"),
            *(
                pytest.param(each, marks=pytest.mark.slow)
                for each in (
                    ("transfer", "--suite", "digits-adv", "--condition", "pgd"),
                    ("rescore", "--suite", "digits-adv"),
                    ("export", "--suite", "digits-adv", "--output", "x"),
                    ("export", "images", "--suite", "digits-adv", "--condition", "pgd", "--output", "x"),
                    ("baseline", "write", "x.parquet", "--suite", "digits-adv"),
                    ("figure", "seeds", "--suite", "digits-adv", "--output", "x.svg"),
                    ("figure", "training", "--output", "x.svg"),
                    ("import", "x", "--vocabulary", "x", "--output", "y"),
                )
            ),
        ],
        ids=str,
    )
    def test_none(
        self, robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        ended = robench(*arguments, "--model", "dgits-*")
        assert (ended.code, ended.stdout) == (2, "")
        assert "'dgits-*'" in ended.stderr
        assert "unknown model" in ended.stderr

    def test_train_takes_patterns_as_names(self, robench: Robench) -> None:
        assert "unknown model 'dgits-*'. Did you mean 'digits-*'?" in robench("train", "dgits-*").stderr

    def test_a_run_and_its_readers(self, robench: Robench, small_suite: Callable[..., Path], tmp_path: Path) -> None:
        suite, results = small_suite(), tmp_path / "r"
        of_both = ("--suite", suite, "--model", "digits-symvit", "--model", "digits-sy*vit", "--model", "digits-v?t")
        planned = json.loads(robench("run", *of_both, "--results", results, "--dry-run", "--json").stdout)
        models = list(dict.fromkeys(title.split(" / ")[0] for title in planned["titles"]))
        assert models == ["digits-symvit", "digits-vit"]
        one = ("--suite", suite, "--model", "digits-v?t", "--results", results, "--limit", 50)
        assert robench("run", *one, "--executor", "serial", "--json").code == 0
        for options in ((), ("--all-seeds",)):
            (row,) = json.loads(robench("report", *one, "--json", *options).stdout)["rows"]
            assert row["model"] == "digits-vit"
        assert robench("baseline", "write", tmp_path / "b.parquet", *one).code == 0
        against = ("check", "--baseline", tmp_path / "b.parquet", "--suite", suite, "--results", results)
        checked = robench(*against, "--model", "d*")
        assert checked.code == 0, checked.stderr


class TestLists:
    def test_large_families_are_one_row_each_with_their_number(self, robench: Robench) -> None:
        names = [entry["name"] for entry in json.loads(robench("list", "datasets", "--json").stdout)]
        # ADE20K's 15 types, two of them with moved masks too.
        families = {"imagenet-c": 95, "cifar-10-c": 95, "cifar-100-c": 95, "ade20k-c": 85}
        folded = [name for name in names if name.partition("/")[0] in families]
        assert len(folded) == sum(families.values())
        lines = robench("list", "datasets").stdout.splitlines()[1:]
        for family, count in families.items():
            (line,) = [line for line in lines if line.startswith(f"{family}/")]
            assert line.split()[:2] == [f"{family}/*/*", f"{count},"]
        assert len(lines) == len(names) - len(folded) + len(families)
        shown = [line.split()[0] for line in robench("list", "datasets", "--all").stdout.splitlines()[1:]]
        assert shown == names

    def test_a_pattern_has_what_all_names_share(self) -> None:
        rows = [("a", "x"), *((f"b/fog/{number}", "y") for number in range(5)), ("c/1", "z"), ("a/2", "z")]
        assert [name for name, _ in _folded(rows)] == ["a", "b/fog/*", "c/1", "a/2"]

    def test_models_of_digits_are_told_apart(self, robench: Robench) -> None:
        entries = json.loads(robench("list", "models", "--json").stdout)
        summaries = {
            entry["name"]: entry["summary"].replace(entry["name"].partition("@")[0], "")
            for entry in entries
            if entry["name"].startswith("digits-")
        }
        assert len(summaries) > 100
        assert len(set(summaries.values())) == len(summaries)
        assert (
            "attention rpc (num_iterations 5, formula released); seed 2"
            in summaries["digits-rpc-released-5iter-symvit@2"]
        )
        assert "adversarial training within 8/255" in summaries["digits-adversarial-vit"]
        assert "attention softmax" in summaries["digits-vit"]


class TestCompletion:
    def asked(self, line: str) -> dict[str, str]:
        """Return the variables by which a shell asks for the completions of the last word of a line."""
        words = shlex.split(line + (" ''" if line.endswith(" ") else ""))
        return {"_ROBENCH_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}

    @pytest.fixture
    def completed(self, robench: Robench, monkeypatch: pytest.MonkeyPatch) -> Callable[..., set[str]]:
        """Return a function from a line, and variables, to what is completed."""

        def of(line: str, **variables: str) -> set[str]:
            for name, value in {**self.asked(line), **variables}.items():
                monkeypatch.setenv(name, value)
            ended = robench()
            assert ended.stderr == ""
            return {each for each in ended.stdout.splitlines() if each}

        return of

    @pytest.mark.parametrize(
        ("line", "wanted"),
        [
            ("robench tr", {"plain,transfer", "plain,train"}),
            ("robench list att", {"plain,attacks", "plain,attentions"}),
            ("robench run --suite digits-au", {"plain,digits-autoattack"}),
            ("robench run --suite ./x", {"file,./x"}),
            ("robench run --model digits-vit", {"plain,digits-vit"}),
            ("robench run --model digits-vit@", {f"plain,digits-vit@{seed}" for seed in range(1, 5)}),
            ("robench report --dataset sst2/t", {"plain,sst2/train", "plain,sst2/test"}),
            ("robench transfer --suite digits-adv --condition pgd-", {"plain,pgd-4", "plain,pgd-10"}),
            ("robench rescore --suite digits-adv --condition fg", {"plain,fgsm"}),
            ("robench transfer --suite absent --condition fg", set()),
            ("robench show apg", {"plain,apgd"}),
        ],
    )
    def test_names_are_completed(self, completed: Callable[..., set[str]], line: str, wanted: set[str]) -> None:
        assert completed(line) == wanted

    def test_entries_are_completed_but_broken_ones(self, completed: Callable[..., set[str]], tmp_path: Path) -> None:
        (tmp_path / "mine.yaml").write_text("checkpoints: {my-model: {}, my-other: {seeds: [{seed: 3}]}}")
        (tmp_path / "broken.yaml").write_text("checkpoints: [")
        line = f"robench run --registry {tmp_path}/broken.yaml --registry {tmp_path}/mine.yaml --model my-"
        assert completed(line) == {"plain,my-model", "plain,my-other"}
        assert completed(f"{line}other@") == {"plain,my-other@3"}

    def test_every_entry_of_the_registry_is_offered(self, completed: Callable[..., set[str]]) -> None:
        names = {name for name in read_registries() if "@" not in name}
        assert completed("robench run --model ") == {f"plain,{name}" for name in names}

    def test_no_heavy_module_is_imported(self) -> None:
        asked = {"_ROBENCH_COMPLETE": "bash_complete", "COMP_WORDS": "robench run --model digits-", "COMP_CWORD": "3"}
        command = [sys.executable, "-X", "importtime", "-m", "robench"]
        ended = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **asked, "PYTHONPATH": str(ROOT)}, check=True
        )
        assert "plain,digits-vit" in ended.stdout
        imported = {line.rpartition("|")[2].strip() for line in ended.stderr.splitlines()}
        assert {"robench.cli.names", "yaml"} <= imported
        assert not {"torch", "numpy", "pyarrow", "pandas", "rich"} & imported

    @pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
    def test_each_shell_gets_a_script(self, completed: Callable[..., set[str]], shell: str) -> None:
        script = "\n".join(completed("", _ROBENCH_COMPLETE=f"{shell}_source"))
        assert f"_ROBENCH_COMPLETE={shell}_complete" in script

    @pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
    def test_bash_understands_it(self, tmp_path: Path) -> None:
        program = tmp_path / "robench"
        program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m robench "$@"\n')
        program.chmod(0o755)
        lines = (
            'eval "$(_ROBENCH_COMPLETE=bash_source robench)"',
            "COMP_WORDS=(robench run --suite digits-ad) COMP_CWORD=3",
            "_robench_completion robench digits-ad --suite",
            'printf "%s\\n" "${COMPREPLY[@]}"',
        )
        ended = subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
            check=True,
        )
        assert "digits-adv" in ended.stdout.split(), ended
