"""Names on the command line: patterns, folded lists, completion, plug-ins of others, and fields of executors."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from annotated_types import Ge, Le
from conftest import ROOT, Robench
from plugin_examples import DECLARED, ENTRIES, UNREADABLE_FIELDS, Installer

from robench.cli import list_command
from robench.cli.list_command import _folded
from robench.cli.names import expanded, model_of_registry, only_conditions
from robench.cli.options import chosen_executor
from robench.core.errors import PluginError, UnknownNameError, UsageError
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, TYPES
from robench.declare import assigned, find_suites, read_registries
from robench.executors import Processes, Ray
from robench.executors.base import ExecutorBase
from robench.runs.devices import executor_asked

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
    def test_no_match(
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


LISTS = {
    "attacks": "their-brighten", "corruptions": "their-fade", "attentions": "their-halved", "datasets": "their-stripes",
    "metrics": "their_error",
}  # fmt: skip


def listed(robench: Robench, kind: str) -> list[dict[str, Any]]:
    ended = robench("list", kind, "--json")
    assert ended.code == 0
    entries: list[dict[str, Any]] = json.loads(ended.stdout)
    return entries


@pytest.mark.parametrize(("kind", "name"), LISTS.items())
def test_a_list_names_the_distribution(install: Installer, robench: Robench, kind: str, name: str) -> None:
    install()
    (found,) = [entry for entry in listed(robench, kind) if entry["name"] == name]
    assert (found["distribution"], found["distribution_version"]) == ("their-plugins", "1.0")
    assert "broken" not in found
    assert "[their-plugins 1.0]" in robench("list", kind).stdout


@pytest.mark.parametrize("kind", [*LISTS, "backbones", "residuals", "trainings", "domains", "tasks"])
def test_without_others_a_list_has_robenchs_own(robench: Robench, kind: str) -> None:
    entries = listed(robench, kind)
    assert entries
    assert not [entry for entry in entries if str(entry.get("distribution", "")).startswith("their")]


def test_those_of_imagenet_c_are_marked(install: Installer, robench: Robench, monkeypatch: pytest.MonkeyPatch) -> None:
    install()
    # As a further type of robench's own is added.
    monkeypatch.setattr(list_command, "TYPES", {**TYPES, "vignette": "robench.corruptions.vignette_impl:vignette"})
    found = {entry["name"]: entry["summary"] for entry in listed(robench, "corruptions")}
    published = {name for name, summary in found.items() if summary.startswith("One of ImageNet-C's corruptions, ")}
    assert published == {*COMMON_CORRUPTIONS, *EXTRA_CORRUPTIONS}
    assert found["vignette"].startswith("None of ImageNet-C's corruptions, generated on the fly")
    assert found["their-fade"].startswith("None of ImageNet-C's corruptions: ")
    assert found["their-fade"].endswith("[their-plugins 1.0]")


def test_what_is_broken_is_marked_and_hides_nothing(install: Installer, robench: Robench) -> None:
    install(entries={"attack:bad": "Nothing", "attack:pgd": "Brighten", "atack:x": "X", **ENTRIES})
    entries = {entry["name"]: entry for entry in listed(robench, "attacks")}
    assert "there is no 'Nothing'" in entries["bad"]["broken"]
    assert "robench already has one of this name" in entries["pgd"]["broken"]
    assert "must be named family:kind" in entries["atack:x"]["broken"]
    assert "their-brighten" in entries
    ended = robench("list", "attacks")
    assert ended.code == 0
    assert "broken: attack 'bad' of their-plugins 1.0 cannot be used" in ended.stdout.replace("\n", " ")


@pytest.mark.parametrize(("field", "wrong"), UNREADABLE_FIELDS.items())
def test_what_has_unreadable_fields_is_broken(install: Installer, robench: Robench, field: str, wrong: str) -> None:
    install(declared=DECLARED.replace("num_steps: Annotated[int, Ge(1), Le(10)] = 1", field))
    (found,) = [entry for entry in listed(robench, "attacks") if entry["name"] == "their-brighten"]
    assert wrong in found["broken"]
    assert "their_plugins.declared:Brighten has " in found["broken"]


def test_show_tells_of_one_or_what_is_wrong_with_it(install: Installer, robench: Robench) -> None:
    install(entries={"attack:bad": "Nothing", **ENTRIES})
    shown = robench("show", "their-brighten")
    assert shown.code == 0
    assert "distribution: their-plugins" in shown.stdout
    assert "num_steps" in shown.stdout
    shown = robench("show", "bad")
    assert shown.code == 0
    assert "cannot be used" in shown.stdout


def test_an_import_that_prints_and_leaves_says_nothing_on_stdout(install: Installer, robench: Robench) -> None:
    install(entries={"attack:bad": "Nothing"}, declared="print('noise')\nraise SystemExit(0)\n")
    (found,) = [entry for entry in listed(robench, "attacks") if entry["name"] == "bad"]
    assert "raised SystemExit: 0" in found["broken"]


@pytest.mark.parametrize("arguments", [["--help"], ["list", "suites"], ["validate", "suites/digits-adv.yaml"]])
def test_what_names_no_plug_in_imports_none(install: Installer, robench: Robench, arguments: list[str]) -> None:
    package = install()
    assert robench(*arguments).code == 0
    assert not [name for name in sys.modules if name.startswith(package)]


def test_a_broken_plug_in_is_a_wrong_request_if_named(install: Installer, robench: Robench, small_suite: Any) -> None:
    install(entries={"attack:bad": "Nothing"})
    path = small_suite(fgsm="bad")
    for command in (["validate", path], ["run", "--suite", path, "--model", "digits-vit", "--dry-run"]):
        ended = robench(*command)
        assert ended.code == 2
        assert "attack 'bad' of their-plugins 1.0 cannot be used" in ended.stderr + ended.stdout
    assert robench("validate", small_suite("other")).code == 0


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
        ("auto", [], "auto", "--ray-address is an option of --executor ray, but --executor is auto; add --executor"),
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
