"""Pictures of masks: they are the answers that a run scores, and in browsers examples are sorted by the pixels lost."""

from pathlib import Path

import numpy as np
import pytest
import torch
from browser import axe_script, chromium, what_is_missing
from torch import nn

import robench as package
from robench.core.suite import Suite
from robench.declarations.preprocessing import ImagePreprocessing
from robench.declare.suites import parse_suite
from robench.exports.pictures import Pictured
from robench.exports.view import drop_of, render_view
from robench.models.in_memory import in_memory_checkpoint
from robench.runs import RunRequest
from robench.runs.pictured import pictured, views_named
from robench.tasks.segmentation import IGNORED


class Network(nn.Module):
    """Logits of eleven classes from the colours around each pixel, at half of the resolution."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Conv2d(3, 11, 3, stride=2, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return nn.functional.interpolate(self.layers(images), size=images.shape[-2:], mode="bilinear")


SUITE = {
    "name": "few",
    "version": 1,
    "seed": 0,
    "dataset": "digit-scenes",
    "batch_size": 4,
    "conditions": [
        {"name": "clean"},
        {
            "name": "pgd",
            "perturbation": {"kind": "pgd", "epsilons": ["4/255", "64/255"], "step_size": "4/255", "num_steps": 4},
        },
        {"name": "fog", "perturbation": {"kind": "corruption", "type": "fog", "severity": 3, "constants": "cifar"}},
    ],
    "metrics": ["pixel_accuracy"],
}

CONDITIONS = ["pgd@4/255", "pgd@64/255", "fog"]


@pytest.fixture(scope="module")
def network() -> Network:
    return Network()


@pytest.fixture(scope="module")
def drawn(network: Network) -> list[Pictured]:
    """The first scenes, of one whole batch and of a part of the next."""
    suite: Suite = parse_suite(SUITE)
    checkpoint = in_memory_checkpoint(
        "mine", "0" * 64, ImagePreprocessing(mean=(0, 0, 0), std=(1, 1, 1)), Path.cwd(), "segmentation"
    )
    request = RunRequest(suites=(suite,), checkpoints=(checkpoint,), modules={"mine": network}, device="cpu")
    return pictured(request, views_named(suite, ["pgd", "fog"]), count=6)


def test_masks_are_the_models_answers_where_the_targets_count(network: Network, drawn: list[Pictured]) -> None:
    dataset = package.load_dataset("digit-scenes")
    for place, each in enumerate(drawn):
        target = dataset[place][1].numpy()
        assert each.true_mask is not None
        assert (each.true_mask == target).all()
        assert each.class_names == (*map(str, range(10)), "background")
        assert each.target == ""
        assert [shot.name for shot in each.shots] == CONDITIONS
        for shot in (each.clean, *each.shots):
            with torch.no_grad():
                own = network(torch.from_numpy(shot.pixels)[None])[0].argmax(0).numpy()
            assert shot.mask is not None
            assert (shot.mask == np.where(target == IGNORED, IGNORED, own)).all()
            counts = target != IGNORED
            assert shot.proportion == pytest.approx((own == target)[counts].sum() / counts.sum())
            assert shot.answer == f"{100 * (own == target)[counts].mean():.1f} % of pixels right"


@pytest.mark.slow
@pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing() or "nothing is missing")
def test_in_a_browser_examples_are_sorted_by_the_pixels_lost(drawn: list[Pictured], tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(render_view("few", {"mine": drawn}))
    drops = {each.example_id: [drop_of(each, shot) or 0.0 for shot in each.shots] for each in drawn}
    with chromium() as driver:
        driver.get(file.as_uri())

        def order() -> list[str]:
            return [each.text for each in driver.find_elements("css selector", "article:not([hidden]) h2")]

        options = {each.text: each for each in driver.find_elements("css selector", "#sort option")}
        assert not driver.find_elements("id", "by")
        largest = [max(drops[each]) for each in order()]
        assert largest == sorted(largest, reverse=True)
        orders = []
        for place, condition in enumerate(CONDITIONS):
            options[f"drop under mine: {condition}"].click()
            orders.append(order())
            lost = [drops[each][place] for each in orders[-1]]
            assert lost == sorted(lost, reverse=True)
        assert orders[1] != orders[2]
        driver.find_element("id", "search").send_keys(f"background {drawn[2].example_id}")
        assert order() == [drawn[2].example_id]
        swatches = driver.find_elements("css selector", ".legend rect")
        assert swatches[0].value_of_css_property("fill") == "rgb(230, 159, 0)"
        assert driver.find_elements("css selector", ".legend li")[-1].text == "not counted"
        assert driver.get_log("browser") == []
        script = axe_script()
        if script is not None:
            driver.execute_script(script)
            run = "const done = arguments[0]; axe.run().then((found) => done(found.violations.map((each) => each.id)))"
            assert driver.execute_async_script(run) == []
