"""What comes along with robench, and how it is found."""

import subprocess
import sys
from pathlib import Path

import pytest

from robench.core.errors import DeclarationError, UnknownNameError, UsageError
from robench.declare import (
    find_checkpoints,
    find_suite,
    read_registries,
    read_registry,
    read_suite,
    shipped,
    shipped_folder,
    shipped_registry,
    shipped_suites,
    validate_file,
)

ENTRY = """\
checkpoints:
  {name}:
    architecture: {{backbone: timm, name: deit}}
    weights: {{uri: mine.pth, sha256: null}}
    preprocessing: {{kind: image, mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5]}}
"""
SUITE = """\
name: mine
version: 1
seed: 0
dataset: digits
batch_size: 10
conditions: [{name: clean}]
metrics: [top1_accuracy]
"""


def registry(folder: Path, name: str, file: str = "registry.yaml") -> Path:
    path = folder / file
    path.write_text(ENTRY.format(name=name))
    return path


@pytest.mark.parametrize("name", sorted(shipped_suites()))
def test_every_shipped_suite_is_valid_and_named_as_its_file(name: str) -> None:
    path = shipped_suites()[name]
    assert validate_file(path) == "suite"
    assert read_suite(path).name == name
    assert find_suite(name) == read_suite(path)


def test_the_shipped_registry_is_valid() -> None:
    assert validate_file(shipped_registry()) == "registry"
    assert {"digits-vit", "digits-symvit", "digits-rpc-symvit"} <= read_registry(shipped_registry()).keys()


def test_a_checkout_ships_the_files_at_its_root() -> None:
    assert shipped_registry() == shipped_folder() / "checkpoints.yaml"
    assert (shipped_folder() / "suites" / "digits-adv.yaml").is_file()


def test_a_wheel_ships_the_files_inside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "robench"
    (package / "shipped" / "suites").mkdir(parents=True)
    (package / "shipped" / "suites" / "mine.yaml").write_text(SUITE)
    monkeypatch.setattr(shipped, "__file__", str(package / "declare" / "shipped.py"))
    assert shipped_folder() == package / "shipped"
    assert shipped_suites() == {"mine": package / "shipped" / "suites" / "mine.yaml"}
    assert find_suite("mine").name == "mine"


def test_an_installation_without_its_files_says_which_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "robench" / "declare" / "shipped.py"))
    assert shipped_suites() == {}
    with pytest.raises(UnknownNameError, match="None are declared"):
        find_suite("digits-adv")
    with pytest.raises(UsageError, match=r"no such file: .*checkpoints\.yaml"):
        find_checkpoints(["digits-vit"])


def test_an_unknown_suite_has_did_you_mean() -> None:
    wanted = r"^unknown suite 'digit-adv'\. Did you mean 'digits-adv'\?.* Or give the path of a YAML file\.$"
    with pytest.raises(UnknownNameError, match=wanted):
        find_suite("digit-adv")


@pytest.mark.parametrize("form", ["{folder}/suite.yaml", "suite.yaml", "./suite.yaml", "{folder}/suite", "./suite"])
def test_what_looks_like_a_path_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "suite").write_text(SUITE)
    assert find_suite(form.format(folder=tmp_path)).name == "mine"
    assert find_suite(Path(form.format(folder=tmp_path))).name == "mine"


def test_what_looks_like_a_name_is_never_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits-adv").write_text(SUITE)
    assert find_suite("digits-adv").name == "digits-adv"


@pytest.mark.parametrize("name", ["", "../suites/digits-adv", "absent.yaml", "absent.yml"])
def test_a_suite_that_is_not_there_is_an_error_of_the_request(name: str) -> None:
    with pytest.raises((UsageError, UnknownNameError)):
        find_suite(name)


def test_checkpoints_are_found_by_name_in_the_order_asked_for_each_once() -> None:
    names = ["digits-symvit", "digits-vit", "digits-symvit"]
    assert [checkpoint.name for checkpoint in find_checkpoints(names)] == ["digits-symvit", "digits-vit"]


def test_further_registries_add_checkpoints(tmp_path: Path) -> None:
    files = [registry(tmp_path, "mine"), registry(tmp_path, "yours", "other.yaml")]
    names = ["yours", "digits-vit"]
    assert [checkpoint.name for checkpoint in find_checkpoints(names, files)] == names
    assert list(read_registries(files)) == [*read_registry(shipped_registry()), "mine", "yours"]


def test_an_unknown_model_has_did_you_mean(tmp_path: Path) -> None:
    wanted = r"^unknown model 'mime'\. Did you mean 'mine'\?.* can be added with a registry file \(--registry\)\.$"
    with pytest.raises(UnknownNameError, match=wanted):
        find_checkpoints(["digits-vit", "mime"], [registry(tmp_path, "mine")])


def test_a_registry_that_repeats_a_shipped_name_is_refused(tmp_path: Path) -> None:
    path = registry(tmp_path, "digits-vit")
    with pytest.raises(DeclarationError) as caught:
        find_checkpoints(["digits-vit"], [path])
    assert str(shipped_registry()) in str(caught.value)
    assert str(path) in str(caught.value)


def test_what_is_neither_is_checked_as_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "list.yaml"
    path.write_text("[1, 2]")
    with pytest.raises(DeclarationError, match="line 1: must be a mapping, got a list"):
        validate_file(path)


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        validate_file(tmp_path / "absent.yaml")


def test_reading_declarations_needs_no_torch_and_no_tables() -> None:
    program = (
        "import sys; from robench.declare import find_checkpoints, find_suite;"
        "find_suite('digits-adv'); find_checkpoints(['digits-vit']);"
        "print(*[name for name in ('torch', 'timm', 'numpy', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == ""
