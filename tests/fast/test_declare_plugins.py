"""Plug-ins of others in suites and registries: by kind, and as ``kind: python`` with a target."""

import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from plugin_examples import DECLARED, UNREADABLE_FIELDS, Installer

from robench.core.errors import DeclarationError
from robench.core.identity import to_plain
from robench.core.suite import Suite
from robench.declare import parse_architecture, parse_suite
from robench.perturbations.sweep import Sweep

EPSILON = Fraction(8, 255)
ENSEMBLE = {"kind": "autoattack", "variant": "custom", "epsilons": ["2/255", "4/255"]}
NAMED = "@property\n    def epsilon_name(self)"
VIT = {"backbone": "vit", "image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 2, "dim": 8, "num_heads": 2}


def suite(*perturbations: object, metrics: list[object] | None = None, dataset: str = "digits") -> Suite:
    conditions = [{"name": "clean"}]
    conditions += [{"name": f"c{index}", "perturbation": each} for index, each in enumerate(perturbations)]  # type: ignore[dict-item]
    fields = {"name": "theirs", "version": 1, "seed": 0, "dataset": dataset, "batch_size": 10}
    return parse_suite({**fields, "conditions": conditions, "metrics": metrics or ["top1_accuracy"]})


def refused(*perturbations: object, **fields: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        suite(*perturbations, **fields)
    return str(caught.value)


def python(name: str, **fields: object) -> dict[str, object]:
    return {"kind": "python", "target": f"their_plugins.declared:{name}", **fields}


class TestByKind:
    def test_an_attack_a_corruption_a_dataset_and_a_metric(self, install: Installer) -> None:
        install()
        theirs = {"kind": "their-brighten", "epsilon": EPSILON, "num_steps": 2}, {"kind": "their-fade", "severity": 3}
        read = suite(*theirs, metrics=["their_error"], dataset="their-stripes")
        assert [each.perturbation.kind for each in read.conditions] == ["clean", "their-brighten", "their-fade"]
        assert [column.key for column in read.columns] == [f"{name}/their_error" for name in ("clean", "c0", "c1")]
        assert read.conditions[2].perturbation.corruption == ("their-fade", 3)

    def test_an_attention(self, install: Installer) -> None:
        install()
        plain: Any = to_plain(parse_architecture({**VIT, "attention": {"kind": "their-halved"}}))
        assert plain["attention"] == {"kind": "their-halved", "distribution": "their-plugins"}

    def test_a_sweep_and_a_member_of_an_ensemble(self, install: Installer) -> None:
        install()
        read = suite(
            {"kind": "their-brighten", "epsilons": ["2/255", "4/255"]},
            {**ENSEMBLE, "members": [{"kind": "their-brighten"}]},
        )
        sweep = read.conditions[1].perturbation
        assert isinstance(sweep, Sweep)
        assert [attack.epsilon_name for attack in sweep.at_budgets] == ["2/255", "4/255"]

    def test_mistakes_in_fields_are_told_like_all_others(self, install: Installer) -> None:
        install()
        message = refused({"kind": "their-brighten", "epsilon": EPSILON, "num_steps": 11, "norm": "l2"})
        assert "conditions[1].perturbation.num_steps: must be at most 10, got 11" in message
        message = refused({"kind": "their-brighten", "epsilon": EPSILON, "norm": "l2"})
        assert "must be linf for their-brighten" in message

    def test_types_of_corruptions_are_columns_of_their_own(self, install: Installer) -> None:
        install()
        read = suite(*({"kind": "their-fade", "severity": each} for each in range(1, 6)), metrics=["mean_error"])
        assert [column.conditions for column in read.columns] == [("clean", "c0", "c1", "c2", "c3", "c4")]

    @pytest.mark.parametrize("metric", ["corruption_error", "mean_corruption_error", "relative_mean_corruption_error"])
    def test_no_reference_knows_types_of_others(self, install: Installer, metric: str) -> None:
        install()
        message = refused(*({"kind": "their-fade", "severity": each} for each in range(1, 6)), metrics=[metric])
        assert f"{metric} needs digits-vit's errors under their-fade; take mean_error" in message

    def test_what_is_broken_is_a_problem_at_its_place(self, install: Installer) -> None:
        entries = {"attack:a": "Nothing", "dataset:b": "Nothing", "metric:c": "Nothing"}
        install(entries=entries)
        message = refused({"kind": "a"}, metrics=["c"])
        assert "conditions[1].perturbation.kind: attack 'a' of their-plugins 1.0 cannot be used" in message
        assert "metrics[0]: metric 'c' of their-plugins 1.0 cannot be used" in message
        assert "dataset: dataset 'b' of their-plugins 1.0 cannot be used" in refused(dataset="b")

    @pytest.mark.parametrize(("field", "wrong"), UNREADABLE_FIELDS.items())
    def test_fields_that_cannot_be_read_are_a_problem(self, install: Installer, field: str, wrong: str) -> None:
        install(declared=DECLARED.replace("num_steps: Annotated[int, Ge(1), Le(10)] = 1", field))
        message = refused({"kind": "their-brighten", "epsilon": EPSILON})
        cannot = "conditions[1].perturbation.kind: attack 'their-brighten' of their-plugins 1.0 cannot be used: "
        assert f"{cannot}their_plugins.declared:Brighten has " in message
        assert wrong in message
        assert "target 'their_plugins.declared:Brighten' has " in refused(python("Brighten", epsilon=EPSILON))

    @pytest.mark.parametrize(
        ("method", "code", "shown"),
        [
            (NAMED, "raise KeyError('x')", "Brighten: epsilon_name raised KeyError: 'x'"),
            (NAMED, "raise SystemExit(3)", "Brighten: epsilon_name raised SystemExit: 3"),
            ("def __post_init__(self)", "raise TypeError('no')", "it raised TypeError: no"),
        ],
    )
    def test_what_it_answers_or_raises_is_asked_before_anything_runs(
        self, install: Installer, method: str, code: str, shown: str
    ) -> None:
        answer = f"\n\n    {method} -> Any:\n        {code}\n"
        install(declared=DECLARED.replace("Le(10)] = 1\n", f"Le(10)] = 1{answer}"))
        assert shown in refused({"kind": "their-brighten", "epsilon": EPSILON})

    def test_what_an_attention_answers_its_backbone_is_a_problem(self, install: Installer) -> None:
        asked = "    def problems_in(self, *, num_tokens: int, depth: int) -> list[str]:\n        raise KeyError('x')\n"
        install(declared=DECLARED.replace('computed:HalvedAttention"\n', f'computed:HalvedAttention"\n\n{asked}'))
        with pytest.raises(DeclarationError, match="Vit: it raised KeyError: 'x'"):
            parse_architecture({**VIT, "attention": {"kind": "their-halved"}})

    @pytest.mark.parametrize("answer", ["(1, self.severity)", "(self.kind, 0)", "(self.kind, 6)", "3", "(self.kind,)"])
    def test_a_corruption_tells_its_kind_and_a_severity(self, install: Installer, answer: str) -> None:
        install(declared=DECLARED.replace("return self.kind, self.severity", f"return {answer}"))
        message = refused({"kind": "their-fade", "severity": 1})
        assert "its corruption must be ('their-fade', a severity from 1 to 5)" in message


class TestByTarget:
    def test_an_attack_a_corruption_and_a_metric(self, install: Installer) -> None:
        install(entries={})
        read = suite(
            python("Brighten", epsilon=EPSILON),
            python("Fade", severity=3),
            metrics=["top1_accuracy", {"kind": "python", "target": "their_plugins.declared:ERROR"}],
        )
        assert [each.perturbation.kind for each in read.conditions] == ["clean", "their-brighten", "their-fade"]
        assert read.metrics == ("top1_accuracy", "their_plugins.declared:ERROR")
        assert "clean/their_plugins.declared:ERROR" in [column.key for column in read.columns]
        assert "clean error" in [column.label for column in read.columns]
        plain: Any = to_plain(read.conditions[1].perturbation)
        assert len(plain["code"]) == 64

    def test_an_attention_and_what_a_distribution_names(self, install: Installer) -> None:
        install(entries={"attention:their-halved": "Halved"})
        plain: Any = to_plain(parse_architecture({**VIT, "attention": python("Halved")}))
        assert plain["attention"] == {"kind": "their-halved", "distribution": "their-plugins"}

    def test_a_sweep_and_a_member_of_an_ensemble_at_each_budget(self, install: Installer) -> None:
        install(entries={})
        read = suite(python("Brighten", epsilons=["2/255", "4/255"]), {**ENSEMBLE, "members": [python("Brighten")]})
        for condition in read.conditions[1:]:
            assert [attack.epsilon_name for attack in condition.perturbation.at_budgets] == ["2/255", "4/255"]

    def test_it_is_found_in_the_current_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "their_folder_code.py").write_text(DECLARED)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", [*sys.path])
        read = suite({"kind": "python", "target": "their_folder_code:Fade", "severity": 1})
        assert read.conditions[1].perturbation.kind == "their-fade"
        del sys.modules["their_folder_code"]

    @pytest.mark.parametrize(
        ("perturbation", "shown"),
        [
            ({"kind": "python"}, "perturbation.target: missing"),
            ({"kind": "python", "target": 3}, "perturbation.target: must be package.module:Name, got 3"),
            ({"kind": "python", "target": "a.b"}, "perturbation.target: must be package.module:Name, got 'a.b'"),
            ({"kind": "python", "target": "nowhere:A"}, "perturbation.target: target 'nowhere:A': no module"),
            (python("Nothing"), "perturbation.target: target 'their_plugins.declared:Nothing': there is no Nothing"),
            (python("Halved"), "perturbation.target: target 'their_plugins.declared:Halved' is the class Halved"),
            (python("ERROR"), "perturbation.target: target 'their_plugins.declared:ERROR' is of type Metric"),
            (python("Brighten"), "perturbation.epsilon: missing"),
            (python("Fade", severity=6), "perturbation.severity: must be at most 5, got 6"),
            (python("Fade", severity=1, strength=6), "perturbation.strength: unknown field 'strength'"),
            (python("Fade", epsilons=[1]), "perturbation.epsilons: must be left out for their-fade"),
            (python("Brighten", epsilons=["2/255", 0]), "perturbation.epsilons: must ascend, got 0 after 2/255"),
        ],
    )
    def test_mistakes_have_their_place(self, install: Installer, perturbation: object, shown: str) -> None:
        install(entries={})
        assert f"conditions[1].{shown}" in refused(perturbation)

    @pytest.mark.parametrize(
        ("metric", "shown"),
        [
            ("their_plugins.declared:ERROR", "metrics[0]: unknown metric 'their_plugins.declared:ERROR'"),
            (python("Fade"), "metrics[0].target: target 'their_plugins.declared:Fade' is the class Fade"),
            (python("ERROR", depth=3), "metrics[0].depth: unknown field 'depth'"),
            ({"kind": "python"}, "metrics[0].target: missing"),
            ({"kind": "pyton", "target": "a:b"}, "metrics[0]: must be text, got a mapping"),
        ],
    )
    def test_mistakes_of_metrics_have_theirs(self, install: Installer, metric: object, shown: str) -> None:
        install(entries={})
        assert shown in refused(metrics=[metric])

    def test_a_metric_given_twice_is_told(self, install: Installer) -> None:
        install(entries={})
        assert "given twice" in refused(metrics=[python("ERROR"), python("ERROR")])

    @pytest.mark.parametrize(
        ("code", "shown"),
        [
            ("raise SystemExit(2)", "importing their_plugins.declared raised SystemExit: 2"),
            ("import os; os.chdir('/'); print('noise'); raise RuntimeError('boom')", "raised RuntimeError: boom"),
        ],
    )
    def test_a_module_that_fails_is_contained(
        self, install: Installer, capfd: pytest.CaptureFixture[str], code: str, shown: str
    ) -> None:
        install(entries={}, declared=code)
        before = os.getcwd()  # noqa: PTH109  # what it is and not what it means
        assert shown in refused(python("Brighten"))
        assert os.getcwd() == before  # noqa: PTH109
        assert capfd.readouterr().out == ""
