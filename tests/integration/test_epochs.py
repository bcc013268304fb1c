"""``robench train --keep-epochs``, ``analyse --epochs`` and its figure: weights of each epoch become lines."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import Robench
from queue_examples import FIELDS, write_registry
from scipy import stats

from robench.analyses.base import Statistic
from robench.analyses.over_epochs import along_epochs
from robench.analyses.results import Analysed, Numbers, read_analysis
from robench.core.errors import IncompleteError, UsageError
from robench.declare import read_registry
from robench.figures import analysis_plot
from robench.figures.plots import LinePanel

KINDS = {
    "spread": Statistic(meaning="spread", unit="nats", axes=("layer", "head")),
    "ranks": Statistic(meaning="ranks", axes=("layer", "x"), x="rank"),
}


def made_up(model: str, epoch: int | None, names: tuple[str, ...] = ("spread", "ranks")) -> Analysed:
    """Return a result of 5 examples, 3 layers and 2 heads, or ranks."""
    generator = np.random.default_rng([len(model), epoch or 0])
    numbers = tuple(
        Numbers(
            name=name,
            statistic=KINDS[name],
            axes=("example", *KINDS[name].axes),
            values=generator.normal(size=(5, 3, 2)),
            x=np.arange(2.0) if name == "ranks" else None,
        )
        for name in names
    )
    facts = {"analysis": "made-up", "model": model, "condition": "clean", "dataset": "digits", "weights": f"{epoch}"}
    return Analysed(
        facts=facts if epoch is None else {**facts, "epoch": epoch}, examples=tuple("abcde"), numbers=numbers
    )


def test_from_training_to_figure(robench: Robench, tmp_path: Path) -> None:
    registry, kept = write_registry(tmp_path / "mine.yaml", {"first": FIELDS, "other": FIELDS}), tmp_path / "epochs"
    ended = robench("train", "first", "--keep-epochs", kept, "--registry", registry)
    assert ended.code == 0, ended.stderr
    weights = registry.parent / read_registry(registry)["first"].weights.uri
    names = [f"first-epoch-00{epoch}.safetensors" for epoch in range(4)]
    assert sorted(path.name for path in kept.iterdir()) == names
    assert (kept / names[3]).read_bytes() == weights.read_bytes()
    # Of another training.
    (kept / "other-epoch-004.safetensors").write_bytes(weights.read_bytes())
    refused = robench("train", "other", "--keep-epochs", kept, "--registry", registry)
    assert refused.code == UsageError.exit_code
    assert "other-epoch-004.safetensors is of another training, since other is trained for 3 epochs" in refused.stderr

    asked = ("analyse", "entropy", "--model", "first", "--dataset", "digits", "--count", 4, "--registry", registry)
    results = ("--results", tmp_path / "results")
    ended = robench(*asked, "--epochs", kept, *results, "--json")
    assert ended.code == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert [each["epoch"] for each in found] == [0, 1, 2, 3]
    assert all(f"-epoch-00{each['epoch']}-" in each["file"] for each in found)
    published = json.loads(robench(*asked, *results, "--json").stdout)[0]
    assert "epoch" not in published
    assert found[3]["weights"] == published["weights"]
    assert found[3]["statistics"] == published["statistics"]
    assert found[0]["statistics"] != found[3]["statistics"]

    table = robench(*asked, "--epochs", kept, *results).stdout.splitlines()
    rows = pd.read_parquet(found[2]["file"]).groupby("example")["value"].mean()
    low, high = stats.t.interval(0.95, 3, rows.mean(), stats.sem(rows))
    assert table[-3].split(maxsplit=1) == ["3", f"{_mean(found[3]['file']):.4g} {table[-3].split(maxsplit=2)[2]}"]
    assert table[-4].split(maxsplit=1) == ["2", f"{rows.mean():.4g} [{low:.4g}, {high:.4g}]"]
    assert table[-2].startswith("4 examples of digits; means over layers, examples and heads")

    files = [each["file"] for each in found]
    assert robench("figure", "analysis", *files, "--output", tmp_path / "x.svg").code == 0
    (panel,) = analysis_plot([read_analysis(tmp_path / each) for each in files[::-1]]).panels
    assert isinstance(panel, LinePanel)
    assert [(point.x, point.value) for point in panel.series[0].points][2] == (2, pytest.approx(rows.mean()))

    # A file that does not fit is refused by name, and so is a folder without files of the model.
    digits = robench("analyse", "entropy", "--model", "digits-vit", "--dataset", "digits", "--epochs", kept, *results)
    assert digits.code == UsageError.exit_code
    assert f"no weights of epochs of digits-vit in {kept}" in digits.stderr
    (kept / names[1]).rename(kept / "digits-vit-epoch-001.safetensors")
    digits = robench("analyse", "entropy", "--model", "digits-vit", "--dataset", "digits", "--epochs", kept, *results)
    assert digits.code != 0
    assert f"{kept / 'digits-vit-epoch-001.safetensors'} (weights of digits-vit) does not fit" in digits.stderr


def _mean(file: str) -> float:
    return float(pd.read_parquet(file)["value"].mean())


def test_lines_over_epochs_are_means_over_layers_and_their_seeds() -> None:
    """Compute means and intervals in loops over the numbers of single results, of two seeds and another model."""
    results = [made_up(model, epoch) for model in ("a", "a@1", "b") for epoch in (7, 0, 40)]
    (panel,) = analysis_plot(results).panels
    assert isinstance(panel, LinePanel)
    assert (panel.title, panel.x_label, panel.y_label, panel.is_logarithmic) == (
        "spread",
        "epoch",
        "spread (nats)",
        False,
    )
    assert [(series.model, series.is_seed) for series in panel.series] == [
        ("a", True),
        ("a", True),
        ("a", False),
        ("b", False),
    ]
    for place, epoch in enumerate((0, 7, 40)):
        of_seeds = [made_up(model, epoch).numbers[0].values.mean() for model in ("a", "a@1")]
        examples = [row.mean() for row in made_up("b", epoch).numbers[0].values]
        for series, values in ((panel.series[2], of_seeds), (panel.series[3], examples)):
            point = series.points[place]
            low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
            assert (point.x, point.value, point.low, point.high) == (
                epoch,
                *map(pytest.approx, (np.mean(values), low, high)),
            )


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([made_up("a", 0), made_up("a", None)], "results of epochs of a training and others"),
        ([made_up("a", 0), made_up("a", 1), made_up("a", 1)], "two results are made-up of a after epoch 1"),
        ([made_up("a", 0), made_up("a@1", 1)], "results of a@1 are of other epochs"),
    ],
)
def test_results_that_make_no_line_are_refused(results: list[Analysed], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        along_epochs(results)


def test_what_has_places_of_its_own_is_not_drawn_over_epochs() -> None:
    with pytest.raises(IncompleteError, match="no number for each layer or head to draw over epochs"):
        analysis_plot([made_up("a", 0, ("ranks",))])
