"""The gallery of mechanisms: its table and pictures are those of the kept numbers, which are of today's models."""

import io
import re
from typing import Any

import numpy as np
import pytest
from conftest import ROOT
from PIL import Image

from robench.attention import ATTENTIONS
from robench.declare import read_registry, shipped_registry
from robench.figures.plots import LinePanel, MapPanel

PAGE = (ROOT / "docs" / "gallery.md").read_text()
MOST_BYTES = 40_000


@pytest.fixture(scope="module")
def gallery() -> Any:
    import mechanism_gallery

    return mechanism_gallery


def test_every_measured_mechanism_has_a_small_picture(gallery: Any) -> None:
    shown = re.findall(r"^\| \[`([\w-]+)`\]\(attention\.md#\1\), `digits-.*<img src=\"(\S+)\"", PAGE, re.MULTILINE)
    assert [kind for kind, _ in shown] == list(gallery.NUMBERS["mechanisms"])
    pictures = [ROOT / "docs" / path for _, path in shown]
    assert sorted(gallery.FOLDER.iterdir()) == sorted(pictures)
    assert {path.name: size for path in pictures if (size := path.stat().st_size) > MOST_BYTES} == {}


def test_the_numbers_are_of_the_models_of_the_registry(gallery: Any) -> None:
    import mechanism_numbers

    entries = read_registry(shipped_registry())
    models = mechanism_numbers.models()
    assert models.keys() <= ATTENTIONS.builtin.keys()
    measured = gallery.NUMBERS["mechanisms"]
    advice = "run scripts/mechanism_numbers.py"
    assert {kind: each["model"] for kind, each in measured.items()} == {k: each.name for k, each in models.items()}
    for kind, each in measured.items():
        entry: Any = entries[each["model"]]
        assert each["weights"] == entry.weights.sha256, advice
        assert entry.architecture.attention.kind == kind
        assert entry.training == entries["digits-vit"].training
    assert {kind: each["layer"] for kind, each in measured.items() if each["layer"] != 3} == {
        "rpc": 0,
        "rpc-asymmetric": 0,
    }
    assert [kind for kind, each in measured.items() if each["maps"] is None] == ["primal"]
    seeds = gallery.NUMBERS["seeds"]
    assert {name: each["weights"] for name, each in seeds.items()} == {
        name: each.weights.sha256 for name, each in entries.items() if each.seed_of == "digits-vit"
    }, advice
    last = [each["similarity"]["values"][-1] for each in (measured["softmax"], *seeds.values())]
    assert f"seeds of `digits-vit` it is {min(last):.3f} to {max(last):.3f} after" in " ".join(PAGE.split())


def test_growth_is_kept_of_every_mechanism(gallery: Any) -> None:
    assert list(gallery.GROWTH["mechanisms"]) == list(gallery.NUMBERS["mechanisms"])


def test_a_plot_has_the_numbers_with_intervals_beside_softmax(gallery: Any) -> None:
    similarity, cost, *maps = gallery.plot("rpc").panels
    assert isinstance(similarity, LinePanel)
    assert [series.model for series in similarity.series] == [series.model for series in cost.series]
    assert [series.model for series in similarity.series] == ["softmax", "rpc"]
    found = gallery.NUMBERS["mechanisms"]["rpc"]
    last = similarity.series[1].points[-1]
    assert (last.value, last.low, last.high) == tuple(found["similarity"][k][-1] for k in ("values", "low", "high"))
    last = cost.series[1].points[-1]
    growth = gallery.GROWTH["mechanisms"]["rpc"]["seconds"]
    assert (last.x, last.value, last.low) == (2048, 1e3 * growth["median"][-1], 1e3 * growth["low"][-1])
    assert all(isinstance(panel, MapPanel) for panel in maps)
    assert [panel.title for panel in maps] == ["layer 0, clean", "layer 0, attacked"]
    assert [[list(row) for row in panel.values] for panel in maps] == [found["maps"]["clean"], found["maps"]["pgd"]]
    assert len(gallery.plot("primal").panels) == 2


def test_both_maps_have_one_scale_and_the_picture_is_the_kept_one(gallery: Any) -> None:
    scales = {image.get_clim() for axes in gallery.figure_of("rpc").axes for image in axes.images}
    maps = gallery.NUMBERS["mechanisms"]["rpc"]["maps"]
    assert scales == {(0.0, np.max([maps["clean"], maps["pgd"]]))}
    drawn = np.asarray(Image.open(io.BytesIO(gallery.picture("rpc"))).convert("RGB")).astype(int)
    kept = np.asarray(Image.open(gallery.FOLDER / "rpc.png").convert("RGB")).astype(int)
    assert np.abs(drawn - kept).max() == 0, "run `make pictures`"
