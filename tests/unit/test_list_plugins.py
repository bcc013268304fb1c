"""``list``, ``show`` and ``doctor`` name plug-ins of others, and say which are broken; help imports none of them."""

import json
import sys
from typing import Any

import pytest
from conftest import Robench
from plugin_examples import DECLARED, ENTRIES, UNREADABLE_FIELDS, Installer

from robench.cli import list_command
from robench.corruptions import COMMON_CORRUPTIONS, EXTRA_CORRUPTIONS, TYPES

LISTS = {
    "attacks": "their-brighten",
    "corruptions": "their-fade",
    "attentions": "their-halved",
    "datasets": "their-stripes",
    "metrics": "their_error",
}


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
