"""Plug-ins of other distributions: known by name from metadata alone, imported on use, and each mistake told."""

import sys

import pytest
from plugin_examples import DECLARED, Installer

from robench.attacks import ATTACKS
from robench.attention import ATTENTIONS
from robench.core.errors import DeclarationError, PluginError, RobenchError
from robench.core.plugins import Plugins, claims, strays
from robench.corruptions import CORRUPTIONS
from robench.datasets import DATASETS
from robench.metrics import METRICS
from robench.models import BACKBONES
from robench.perturbations import PERTURBATIONS

OF_FAMILY: dict[str, Plugins[object]] = {
    "attack": ATTACKS, "corruption": CORRUPTIONS, "attention": ATTENTIONS, "dataset": DATASETS, "metric": METRICS,
}  # fmt: skip
ALL = {
    "attack:their-brighten", "corruption:their-fade", "attention:their-halved", "dataset:their-stripes",
    "metric:their_error",
}  # fmt: skip


DATACLASS = "@dataclass(frozen=True, slots=True, kw_only=True)\n"
NO_ATTACK = "wanted a frozen dataclass, a subclass of robench.attacks.base.Attack"


def message_of(family: str, name: str) -> str:
    with pytest.raises(PluginError) as caught:
        OF_FAMILY[family][name]
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, DeclarationError)
    assert isinstance(caught.value, RobenchError)
    assert str(caught.value).count(". ") <= 2
    return str(caught.value)


def broken_attack(install: Installer, declared: str, name: str = "their-brighten") -> str:
    """Install an attack, and return why it cannot be used: the same on look-up and in the list of all."""
    install(entries={f"attack:{name}": "Brighten"}, declared=declared)
    message = message_of("attack", name)
    assert dict(ATTACKS.broken()) == {name: message}
    assert name not in dict(ATTACKS.loaded())
    assert set(dict(ATTACKS.loaded())) == set(ATTACKS.builtin)
    assert message.startswith(f"attack {name!r} of their-plugins 1.0 cannot be used: ")
    assert "uninstall" in message
    return message


class TestNames:
    @pytest.mark.parametrize("entry", sorted(ALL))
    def test_are_known_and_imported_on_use_alone(self, install: Installer, entry: str) -> None:
        package = install()
        family, _, name = entry.partition(":")
        members = OF_FAMILY[family]
        assert name in members
        assert list(members) == [*members.builtin, name]
        assert len(members) == len(members.builtin) + 1
        assert f"{package}.declared" not in sys.modules
        assert members[name]
        assert f"{package}.declared" in sys.modules
        assert dict(members.loaded())[name] is members[name]

    def test_robench_alone_has_none(self) -> None:
        assert not [claim for claim in claims() if claim.owner.startswith("their")]
        assert all(list(members) == list(members.builtin) for members in OF_FAMILY.values())

    def test_perturbations_are_attacks_and_corruptions(self, install: Installer) -> None:
        install()
        assert list(PERTURBATIONS)[-2:] == ["their-brighten", "their-fade"]
        assert PERTURBATIONS["their-fade"] is CORRUPTIONS["their-fade"]
        assert PERTURBATIONS["their-brighten"] is ATTACKS["their-brighten"]
        assert "their-fade" not in ATTACKS

    def test_perturbations_have_each_member_of_their_parts(self) -> None:
        fade = type("Fade", (PERTURBATIONS["clean"],), {})
        parts = [Plugins(family, {family: fade}, base=object) for family in ("attack", "corruption")]
        joined = Plugins.joined({"clean": fade}, *parts, base=object)
        assert list(joined) == ["clean", "attack", "corruption"]
        assert {*ATTACKS.builtin, *CORRUPTIONS.builtin} < {*PERTURBATIONS.builtin}

    def test_an_unknown_name_is_a_key_error(self, install: Installer) -> None:
        install()
        with pytest.raises(KeyError):
            ATTACKS["their-nothing"]
        assert ATTACKS.get("their-nothing") is None
        assert 3 not in ATTACKS

    def test_names_of_distributions_are_in_the_normal_form(self, install: Installer) -> None:
        install("Their_Other.plugins", {"attack:a": "A"})
        assert [claim.owner for claim in claims() if claim.kind == "a"] == ["their-other-plugins 1.0"]

    def test_metadata_that_cannot_be_read_are_nobodys_matter(self, install: Installer) -> None:
        install()
        info = install.folder / "bad-1.0.dist-info"
        info.mkdir()
        (info / "entry_points.txt").write_bytes(b"[robench.plugins]\n\xff\xfe")
        install.refresh()
        assert "their-brighten" in ATTACKS


class TestMistakes:
    @pytest.mark.parametrize(
        ("line", "shown"),
        [
            ("raise RuntimeError('no licence')", "raised RuntimeError: no licence"),
            ("raise SystemExit(3)", "raised SystemExit: 3"),
            ("raise BaseException('all of it')", "raised BaseException: all of it"),
            ("import their_missing_dependency", "No module named 'their_missing_dependency'"),
            ("def", "raised SyntaxError"),
            ("raise ValueError('x' * 100_000)", "characters left out"),
        ],
    )
    def test_it_raises_on_import(self, install: Installer, line: str, shown: str) -> None:
        message = broken_attack(install, line)
        assert "importing their_plugins.declared" in message
        assert shown in message
        assert len(message) < 600

    @pytest.mark.parametrize(
        ("value", "shown"),
        [
            ("their_nowhere.attacks:A", "there is no module 'their_nowhere'"),
            *((each, "wanted package.module:Name") for each in ("their_plugins:", "a b:c", "their_plugins:A [extra]")),
        ],
    )
    def test_its_value_is_no_target_or_of_no_module(self, install: Installer, value: str, shown: str) -> None:
        install(entries={"attack:a": value})
        assert shown in message_of("attack", "a")

    @pytest.mark.parametrize(
        ("declared", "shown"),
        [
            ("", "there is no 'Brighten' in their_plugins.declared"),
            *((each, NO_ATTACK) for each in ("Brighten = 3", "class Brighten: pass", "def Brighten(): pass")),
            (DECLARED.replace(f"{DATACLASS}class Brighten", "class Brighten"), NO_ATTACK),
            (DECLARED.replace('    kind: ClassVar[str] = "their-brighten"\n', ""), "has no kind"),
            (DECLARED.replace("version: ClassVar[int] = 3", 'version: ClassVar[str] = "3"'), "has no version"),
            *(
                (DECLARED.replace("num_steps: Annotated", f"{each}: Annotated"), f"has a field {each!r}")
                for each in ("target", "distribution", "code")
            ),
        ],
    )
    def test_it_is_no_declaration(self, install: Installer, declared: str, shown: str) -> None:
        assert shown in broken_attack(install, declared)

    def test_it_is_of_another_family(self, install: Installer) -> None:
        install(
            entries={"attack:their-fade": "Fade", "metric:their-stripes": "STRIPES", "dataset:their_error": "ERROR"}
        )
        assert "wanted a frozen dataclass" in message_of("attack", "their-fade")
        assert "wanted an instance of robench.metrics.metric.Metric" in message_of("metric", "their-stripes")
        assert "wanted an instance of" in message_of("dataset", "their_error")

    def test_its_kind_is_not_the_entrys(self, install: Installer) -> None:
        message = broken_attack(install, DECLARED, "another")
        assert "has the kind 'their-brighten', wanted 'another'" in message

    def test_its_name_is_not_the_entrys(self, install: Installer) -> None:
        install(entries={"dataset:another": "STRIPES"})
        assert "has the name 'their-stripes', wanted 'another'" in message_of("dataset", "another")

    def test_a_corruption_does_not_tell_its_type(self, install: Installer) -> None:
        install(entries={"corruption:their-fade": "Fade"}, declared=DECLARED.replace("def corruption", "def another"))
        assert "does not define the property 'corruption'" in message_of("corruption", "their-fade")

    def test_what_is_broken_is_no_matter_of_others(self, install: Installer) -> None:
        install(entries={"attack:their-brighten": "Brighten", "attack:bad": "Nothing"})
        assert list(dict(ATTACKS.broken())) == ["bad"]
        assert ATTACKS["their-brighten"]
        assert ATTACKS["pgd"]


class TestCollisions:
    def test_with_robenchs_own(self, install: Installer) -> None:
        install(entries={"attack:pgd": "Brighten"})
        message = message_of("attack", "pgd")
        assert "their-plugins 1.0" in message
        assert "robench already has one of this name" in message
        assert list(ATTACKS) == list(ATTACKS.builtin)
        assert "pgd" in dict(PERTURBATIONS.broken())
        assert ATTACKS["fgsm"]

    def test_between_two_distributions(self, install: Installer) -> None:
        install("their-first", {"attack:their-brighten": "Brighten"})
        install("their-second", {"attack:their-brighten": "Brighten", "attack:other": "Brighten"})
        message = message_of("attack", "their-brighten")
        assert "their-first 1.0" in message
        assert "their-second 1.0" in message
        assert list(ATTACKS).count("their-brighten") == 1

    def test_between_an_attack_and_a_corruption(self, install: Installer) -> None:
        install("their-first", {"attack:their-brighten": "Brighten"})
        install("their-second", {"corruption:their-brighten": "Fade"})
        with pytest.raises(PluginError, match="their-second"):
            PERTURBATIONS["their-brighten"]

    @pytest.mark.parametrize("entry", ["attack:clean", "attack:corruption", "corruption:pgd", "corruption:snow"])
    def test_with_any_perturbation(self, install: Installer, entry: str) -> None:
        install(entries={entry: "Brighten"})
        with pytest.raises(PluginError, match="robench already"):
            PERTURBATIONS[entry.partition(":")[2]]

    def test_the_same_distribution_twice_on_the_path_is_one(self, install: Installer) -> None:
        install()
        sys.path.append(str(install.folder))
        assert ATTACKS["their-brighten"]


class TestStrays:
    @pytest.mark.parametrize("entry", ["atack:a", "a", "attack", "attack:", "attack:A", "attack:python", "attack:a b"])
    def test_they_are_of_no_family_and_told(self, install: Installer, entry: str) -> None:
        install(entries={entry: "Brighten", "attack:their-brighten": "Brighten"})
        assert [claim.name for claim in strays()] == [entry]
        assert "must" in "".join(strays().values())
        assert list(ATTACKS) == [*ATTACKS.builtin, "their-brighten"]


class TestOfTheUser:
    def test_a_class_is_a_member_whatever_its_kind(self, install: Installer) -> None:
        package = install(entries={})
        assert ATTACKS.of_user(f"{package}.declared:Brighten").kind == "their-brighten"
        assert PERTURBATIONS.of_user(f"{package}.declared:Fade").kind == "their-fade"

    def test_a_metric_is_got_by_its_target(self, install: Installer) -> None:
        package = install(entries={})
        assert f"{package}.declared:ERROR" in METRICS
        assert METRICS[f"{package}.declared:ERROR"].name == "their_error"
        assert f"{package}.declared:Brighten" not in ATTACKS

    @pytest.mark.parametrize(
        ("target", "shown"),
        [
            ("their_nowhere:A", "no module 'their_nowhere'"),
            ("their_plugins.declared:Nothing", "there is no Nothing in their_plugins.declared"),
            ("their_plugins.declared:Halved", "wanted a frozen dataclass, a subclass of robench.attacks.base.Attack"),
        ],
    )
    def test_mistakes_are_told(self, install: Installer, target: str, shown: str) -> None:
        install(entries={})
        with pytest.raises(DeclarationError, match="target") as caught:
            ATTACKS.of_user(target)
        assert shown in str(caught.value)

    def test_backbones_have_a_python_of_their_own(self) -> None:
        assert "python" in BACKBONES
        assert "python" not in PERTURBATIONS
