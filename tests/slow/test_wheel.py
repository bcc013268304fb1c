"""An installed wheel finds its registry, weights and suites from any folder."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from environments import built_wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(built_wheel(folder)) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_is_small_and_other_weights_are_found_in_a_folder(installed: Path, tmp_path: Path) -> None:
    (wheel,) = installed.parent.glob("robench-*.whl")
    assert wheel.stat().st_size < 20_000_000
    asked = ("run", "--suite", "smoke", "--dataset", "digits", "--model", "digits-twicing-vit", "--smoke", "--json")
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "robench", *asked]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert ended.returncode == 4
    assert "or into a folder given by --checkpoints" in ended.stderr
    report = json.loads(run(installed, tmp_path, *asked, "--checkpoints", str(ROOT / "checkpoints")))
    assert report["rows"][0]["cells"]["clean/top1_accuracy"]["missing"] == 0


def run(installed: Path, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-m", "robench", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder, env=environment)
    return ended.stdout


def test_suites_and_models_are_listed_from_any_folder(installed: Path, tmp_path: Path) -> None:
    suites = json.loads(run(installed, tmp_path, "list", "suites", "--json"))
    assert all(entry["file"].startswith(str(installed)) for entry in suites)
    assert {entry["name"] for entry in suites} >= {"digits-adv", "imagenet-adv"}


def test_a_published_checkpoint_is_measured_from_any_folder(installed: Path, tmp_path: Path) -> None:
    asked = ("run", "--suite", "smoke", "--dataset", "digits", "--model", "digits-vit", "--limit", "1", "--no-audit")
    report = json.loads(run(installed, tmp_path, *asked, "--executor", "serial", "--json"))
    assert report["rows"][0]["cells"]["clean/top1_accuracy"]["missing"] == 0
    assert (tmp_path / "results" / "records").is_dir()


def test_weights_that_only_a_clone_has_are_missing_and_no_fault(installed: Path, tmp_path: Path) -> None:
    checks = json.loads(run(installed, tmp_path, "doctor", "--json"))
    assert {each["name"] for each in checks if each["state"] == "broken"} == set()
    (missing,) = [each for each in checks if each["name"].startswith("weights of ")]
    assert missing["message"].startswith("digits-vit@1, ")


def test_printed_tables_are_found_from_any_folder(installed: Path, tmp_path: Path) -> None:
    code = (
        "from robench.declare import load_published, published_tables\n"
        "print(*published_tables()['rpc', 1].parts[-3:], load_published('rpc', 1).title)"
    )
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert ended.stdout.startswith("reports published rpc-1.yaml Symmetric ViT-tiny")
    shipped = {path.name for path in (installed / "robench" / "shipped" / "reports" / "published").iterdir()}
    assert shipped == {path.name for path in (ROOT / "reports" / "published").iterdir()}


def test_the_wheel_holds_no_tests_and_no_results(installed: Path) -> None:
    top = {path.name for path in installed.iterdir()}
    assert {name for name in top if not name.endswith(".dist-info")} == {"robench"}


def test_the_wheel_holds_the_templates_of_plug_ins(installed: Path) -> None:
    templates = [path.relative_to(ROOT) for path in (ROOT / "robench" / "cli" / "templates").rglob("*.jinja")]
    assert templates
    assert all((installed / path).exists() for path in templates)


def test_the_wheel_is_typed_and_licensed(installed: Path) -> None:
    assert (installed / "robench" / "py.typed").is_file()
    (metadata,) = installed.glob("robench-*.dist-info")
    (licence,) = metadata.rglob("LICENSE")
    assert licence.read_text() == (ROOT / "LICENSE").read_text()
