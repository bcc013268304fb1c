"""Who provides a declaration is found from it alone, and is part of every key but robench's own."""

import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from plugin_examples import Installer
from presence import present

from robench.attacks.pgd import Pgd
from robench.core.errors import DeclarationError
from robench.core.identity import key_of, to_plain
from robench.core.providers import install_command, provider_of, releases_of, title_of
from robench.core.user_code import code_digest
from robench.datasets import DATASETS
from robench.metrics import METRICS
from robench.models.vit import Vit
from robench.perturbations.sweep import Sweep

SIZES: dict[str, Any] = {"image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 2, "dim": 8, "num_heads": 2}
PGD = Pgd(epsilon=Fraction(8, 255), step_size=Fraction(2, 255), num_steps=4)


def declared_in(package: str) -> Any:
    return import_module(f"{package}.declared")


def brighten(package: str, epsilon: int = 8) -> Any:
    return declared_in(package).Brighten(epsilon=Fraction(epsilon, 255))


class TestProvider:
    def test_robench_has_none(self, install: Installer) -> None:
        install()
        assert provider_of(Pgd) is provider_of(PGD) is provider_of(DATASETS["digits"]) is None
        assert provider_of(METRICS["top1_accuracy"]) is None

    def test_of_a_class_and_its_instances_is_the_distribution(self, install: Installer) -> None:
        package = install()
        for thing in (declared_in(package).Brighten, brighten(package), declared_in(package).Fade(severity=2)):
            assert str(provider_of(thing)) == "their-plugins 1.0"

    def test_of_a_dataset_and_a_metric_is_the_distribution(self, install: Installer) -> None:
        install()
        assert str(provider_of(DATASETS["their-stripes"])) == "their-plugins 1.0"
        assert str(provider_of(METRICS["their_error"])) == "their-plugins 1.0"

    def test_is_found_through_another_module_that_names_the_class(self, install: Installer) -> None:
        package = install(entries={"attack:their-brighten": "their_plugins.computed:Named"})
        (install.folder / package / "computed.py").write_text(f"from {package}.declared import Brighten as Named\n")
        assert str(provider_of(declared_in(package).Brighten)) == "their-plugins 1.0"

    def test_of_code_without_a_distribution_is_its_digest(self, install: Installer) -> None:
        package = install(entries={})
        provider = present(provider_of(brighten(package)))
        assert provider.code == code_digest(declared_in(package))
        assert str(provider) == f"{package}.declared"

    def test_a_class_that_its_distribution_does_not_name_is_code(self, install: Installer) -> None:
        package = install(entries={"corruption:their-fade": "Fade"})
        provider = present(provider_of(declared_in(package).Brighten))
        assert not provider.distribution

    def test_a_broken_entry_names_nothing(self, install: Installer) -> None:
        package = install(entries={"attack:their-brighten": "their_nowhere:A"})
        assert str(provider_of(brighten(package))) == f"{package}.declared"

    def test_of_code_in_no_file_there_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        module = type(sys)("their_typed_in")
        monkeypatch.setitem(sys.modules, "their_typed_in", module)
        typed = type("Typed", (), {"__module__": "their_typed_in", "kind": "typed"})
        with pytest.raises(DeclarationError, match="in no file"):
            provider_of(typed)

    def test_a_title_names_it_but_for_robench(self, install: Installer) -> None:
        package = install()
        assert title_of("attack", PGD, "pgd") == "attack 'pgd'"
        assert title_of("attack", brighten(package), "x") == "attack 'x' of their-plugins 1.0"


class TestIdentity:
    def test_has_the_distribution_without_its_version(self, install: Installer) -> None:
        package = install()
        wanted = {"kind": "their-brighten", "version": 3, "epsilon": "8/255", "distribution": "their-plugins"}
        assert to_plain(brighten(package)) == wanted

    def test_has_the_digest_of_code_without_a_distribution(self, install: Installer) -> None:
        package = install(entries={})
        plain = to_plain(brighten(package))
        assert isinstance(plain, dict)
        assert plain["code"] == code_digest(declared_in(package))
        assert "distribution" not in plain

    def test_two_distributions_have_two_keys(self, install: Installer) -> None:
        packages = [install(name, {"attack:their-brighten": "Brighten"}) for name in ("their-first", "their-second")]
        assert len({key_of(brighten(package)) for package in packages}) == 2

    def test_of_an_attention_within_an_architecture(self, install: Installer) -> None:
        package = install()
        architecture = Vit(**SIZES, attention=declared_in(package).Halved())
        plain: Any = to_plain(architecture)
        assert plain["attention"] == {"kind": "their-halved", "distribution": "their-plugins"}
        assert "distribution" not in plain

    def test_of_attacks_within_a_sweep(self, install: Installer) -> None:
        package = install()
        plain: Any = to_plain(Sweep(attacks=(brighten(package, 2), brighten(package, 4))))
        assert [attack["distribution"] for attack in plain["attacks"]] == ["their-plugins"] * 2

    def test_of_robenchs_own_is_as_before(self) -> None:
        wanted = {"kind": "pgd", "version": 3, "epsilon": "8/255", "step_size": "2/255", "num_steps": 4}
        assert to_plain(PGD) == wanted


class TestReleases:
    def test_are_of_all_that_is_nested(self, install: Installer) -> None:
        first = install("their-first", {"attack:their-brighten": "Brighten"})
        second = install("their-second", {"attention:their-halved": "Halved"})
        sweep = Sweep(attacks=(brighten(first, 2), brighten(first, 4)))
        architecture = Vit(**SIZES, attention=declared_in(second).Halved())
        assert releases_of(sweep, architecture, None) == {"their-first": "1.0", "their-second": "1.0"}

    def test_of_robench_and_of_loose_code_there_are_none(self, install: Installer) -> None:
        assert releases_of(PGD, brighten(install(entries={}))) == {}


def test_a_clone_is_installed_from_its_folder_and_a_wheel_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert install_command("ray") == f"pip install --editable '{ROOT}[ray]'"
    monkeypatch.setattr("robench.core.providers._PACKAGE", tmp_path / "site-packages" / "robench")
    assert install_command("figures") == "pip install 'robench[figures]'"
