"""``robench analyse`` and its figure: kept numbers, means with intervals, refusals; outcomes stay as they are."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import MeasuredStore, Robench
from scipy import stats
from torch import nn

import robench as robench_package
from robench.core.errors import RobenchError

ENTROPY = ("analyse", "entropy", "--model", "digits-vit")


def test_numbers_are_kept_and_means_have_students_intervals(robench: Robench, tmp_path: Path) -> None:
    ended = robench(*ENTROPY, "--dataset", "digits", "--count", 12, "--results", tmp_path, "--json")
    assert ended.code == 0
    (found,) = json.loads(ended.stdout)
    (kept,) = (tmp_path / "analyses").iterdir()
    assert found["file"] == str(kept)
    rows = pd.read_parquet(kept)
    # Of digits-vit: 4 layers of 4 heads.
    assert len(rows) == 12 * 4 * 4
    by_example = rows.groupby(["layer", "example"])["value"].mean().unstack().to_numpy()
    statistic = found["statistics"]["entropy"]
    assert statistic["axes"] == ["layer"]
    np.testing.assert_allclose(statistic["mean"], by_example.mean(axis=1))
    wanted = stats.t.interval(0.95, 11, by_example.mean(axis=1), stats.sem(by_example, axis=1))
    np.testing.assert_allclose([statistic["low"], statistic["high"]], wanted)
    # The same analysis takes the other's place.
    ended = robench(*ENTROPY, "--dataset", "digits", "--count", 12, "--results", tmp_path)
    assert len(list((tmp_path / "analyses").iterdir())) == 1
    assert f"{statistic['mean'][0]:.4g} [{statistic['low'][0]:.4g}, {statistic['high'][0]:.4g}]" in ended.stdout
    assert "12 examples of digits; means over examples and heads" in ended.stdout


def test_attacked_examples_are_analysed_and_drawn_and_no_outcome_changes(
    robench: Robench, tmp_path: Path, measured_store: MeasuredStore
) -> None:
    results = measured_store.copied(tmp_path / "results")
    before = {path: path.read_bytes() for path in results.rglob("*") if path.is_file()}
    asked = ("--suite", measured_store.suite, "--condition", "fgsm", "--count", 3, "--results", results)
    ended = robench(*ENTROPY, *asked)
    assert ended.code == 0, ended.stderr
    files = sorted((results / "analyses").iterdir())
    assert len(files) == 2
    assert {path: path.read_bytes() for path in results.rglob("*") if path.is_file() and path not in files} == before
    figure = tmp_path / "figure.svg"
    assert robench("figure", "analysis", *files, "--output", figure).code == 0
    assert figure.read_bytes().startswith(b"<?xml")


def test_attacks_have_the_seed_of_the_suite_unless_another_is_given(
    robench: Robench, tmp_path: Path, small_suite: Callable[..., Path]
) -> None:
    suites = [small_suite(f"seed{seed}", **{"seed: 0": f"seed: {seed}"}) for seed in (0, 3)]
    values = []
    for suite, seed in ((suites[0], []), (suites[1], []), (suites[1], ["--seed", 0])):
        asked = (*ENTROPY, "--suite", suite, "--condition", "pgd", "--count", 2, *seed, "--results", tmp_path)
        clean, attacked = json.loads(robench(*asked, "--json").stdout)
        values.append((attacked["seed"], attacked["statistics"]["entropy"]["mean"]))
        assert clean["condition"] == "clean"
    assert [seed for seed, _ in values] == [0, 3, 0]
    assert values[0][1] == values[2][1] != values[1][1]


def test_random_samples_of_a_formula_are_counted(robench: Robench, tmp_path: Path) -> None:
    ended = robench("analyse", "softmax-noise", "--set", "num_samples=5", "--results", tmp_path)
    assert ended.code == 0
    assert "5 random samples; means over examples and heads [" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("entropi", "--model", "digits-vit", "--dataset", "digits"), "Did you mean 'entropy'?"),
        (("entropy", "--dataset", "digits"), "analysis entropy is of models: name some with --model"),
        (("entropy", "--model", "digits-vit"), "name the examples with --dataset, or with --suite"),
        (("entropy", "--model", "digits-vit", "--dataset", "digitz"), "Did you mean 'digits'?"),
        (("entropy", "--model", "digits-vit", "--dataset", "digits", "--condition", "pgd"), "add --suite"),
        (("entropy", "--model", "digits-vit", "--dataset", "digits", "--set", "a=1"), "has no field 'a'"),
        (
            ("projection-error", "--model", "digits-mgk-vit", "--dataset", "digits"),
            "needs keys in layers 0, 1, 2, 3, which",
        ),
    ],
)
def test_bad_input_is_refused(robench: Robench, tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    ended = robench("analyse", *arguments, "--results", tmp_path)
    assert ended.code == 2
    assert message in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_more_tokens_than_memory_are_refused(robench: Robench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 4 layers of 4 heads of 17 x 17 weights take 18 kB, more than an eighth of 100 kB.
    monkeypatch.setattr("robench.runs.analyses.os.sysconf", lambda name: 316)
    ended = robench(*ENTROPY, "--dataset", "digits", "--results", tmp_path)
    assert ended.code == 1
    assert "the weights of digits-vit for one example, of 17 tokens in 4 layers, take 0.0 GB" in ended.stderr
    # An analysis without weights goes on.
    given = ("analyse", "token-similarity", "--model", "digits-vit", "--dataset", "digits", "--count", 2)
    assert robench(*given, "--results", tmp_path).code == 0


def test_figures_of_different_examples_or_of_other_files_are_refused(robench: Robench, tmp_path: Path) -> None:
    for count in (2, 3):
        robench(*ENTROPY, "--dataset", "digits", "--count", count, "--results", tmp_path)
    files = sorted((tmp_path / "analyses").iterdir())
    ended = robench("figure", "analysis", *files, "--output", tmp_path / "x.svg")
    assert ended.code == 2
    assert "must be of the same examples" in ended.stderr
    other = tmp_path / "other.parquet"
    other.write_bytes(b"nothing")
    ended = robench("figure", "analysis", other, "--output", tmp_path / "x.svg")
    assert ended.code != 0
    assert "is not the result of an analysis" in ended.stderr


def test_from_python_modules_in_memory_are_analysed_and_those_without_hooks_are_refused(tmp_path: Path) -> None:
    vit = {"kind": "vit", "image_size": 32, "patch_size": 8, "num_classes": 10, "depth": 2, "dim": 32, "num_heads": 2}
    pixels = robench_package.ImagePreprocessing(mean=(0.5,) * 3, std=(0.5,) * 3)
    models = {"mine": (robench_package.build_model(vit), pixels)}
    given = {"suite": "digits-adv", "conditions": ["fgsm"], "count": 4, "results": tmp_path}
    clean, attacked = robench_package.analyse("attention-map", models, **given)
    assert (clean.facts["condition"], attacked.facts["condition"]) == ("clean", "fgsm")
    assert clean.numbers[0].values.shape == (4, 2, 4, 4)
    assert not np.array_equal(clean.numbers[0].values, attacked.numbers[0].values)
    assert len(list((tmp_path / "analyses").iterdir())) == 2
    plain = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 10))
    with pytest.raises(RobenchError, match="nothing can be seen of plain"):
        robench_package.analyse("entropy", {"plain": (plain, pixels)}, dataset="digits", count=2)
    # Another module of the same name has files of its own.
    again = {"mine": (robench_package.build_model(vit | {"depth": 3}), pixels)}
    robench_package.analyse("attention-map", again, **given)
    assert len(list((tmp_path / "analyses").iterdir())) == 4
    (formula,) = robench_package.analyse("smoothing-powers", settings={"num_points": 5})
    assert formula.numbers[0].values.shape == (4, 5)
