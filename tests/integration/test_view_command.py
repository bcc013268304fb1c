"""``robench view``: the inputs are those of a run, and in a browser examples are filtered by what fooled them."""

import base64
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import axe_script, chromium, what_is_missing
from conftest import Robench
from PIL import Image

from robench.store import FolderStore
from robench.store.adversarial import ONE_BUDGET

MODELS = ("--model", "digits-vit", "--model", "digits-rpc-symvit")


@pytest.fixture(scope="module")
def page_of_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A page of a suite of pgd and fgsm and the results that it shows."""
    import conftest

    from robench.cli.main import main

    folder = tmp_path_factory.mktemp("view")
    suite, results, page = folder / "small.yaml", folder / "r", folder / "view.html"
    suite.write_text(conftest.SMALL_SUITE.replace("NAME", "small").replace("8/255", "40/255").replace("150", "50"))
    keep = ("--keep-adversarial", "float32", "--executor", "serial")
    with pytest.MonkeyPatch.context() as patch:
        for arguments in (
            ("run", "--suite", suite, *MODELS, *keep, "--results", results),
            ("view", "--suite", suite, *MODELS, "--results", results, "--count", "12", "--output", page),
        ):
            patch.setattr("sys.argv", ["robench", *map(str, arguments)])
            with pytest.raises(SystemExit) as end:
                main()
            assert not end.value.code
    return page, results


def test_inputs_and_answers_are_those_of_the_run(page_of_run: tuple[Path, Path]) -> None:
    page, results = page_of_run
    store = FolderStore(results)
    articles = page.read_text().split("<article")[1:]
    assert len(articles) == 12
    kept = {}
    for record in store.records(lambda header: header.condition == "pgd"):
        examples = store.adversarial.get(record.shard.measurement_key, record.shard.key)
        assert examples is not None
        for row, outcome in enumerate(record.outcomes):
            kept[record.shard.checkpoint, outcome.example_id] = examples.points[ONE_BUDGET][row], outcome
    for article in articles:
        (example_id,) = re.findall(r"<h2>(\S+), class", article)
        for model in MODELS[1::2]:
            points, outcome = kept[model, example_id]
            pattern = rf'base64,(\S+)" alt="{example_id} under pgd of {model}"><p class="answer (\w+)">(\d) '
            ((address, kind, prediction),) = re.findall(pattern, article)
            drawn = np.asarray(Image.open(io.BytesIO(base64.b64decode(address))))
            levels = np.round(255 * points).astype(np.uint8).transpose(1, 2, 0)
            assert (drawn == levels.squeeze()).all()
            assert prediction == str(outcome.prediction)  # type: ignore[attr-defined]
            assert (kind == "right") == outcome.correct_top1  # type: ignore[attr-defined]


def test_results_that_are_not_there_are_refused(
    robench: Robench, small_suite: Callable[..., Path], tmp_path: Path
) -> None:
    ended = robench(
        "view", "--suite", small_suite(), *MODELS, "--results", tmp_path / "none", "--output", tmp_path / "v.html"
    )
    assert ended.code == 2
    assert "has no results of 'digits-vit'" in ended.stderr
    assert not (tmp_path / "v.html").exists()


@pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing() or "nothing is missing")
def test_in_a_browser_examples_are_filtered_by_what_fooled_them(page_of_run: tuple[Path, Path]) -> None:
    page, _ = page_of_run
    with chromium() as driver:
        driver.get(page.as_uri())

        def choose(field: str, text: str) -> set[str]:
            """Choose an option by its text; return the ids of the examples that are shown."""
            (option,) = [each for each in driver.find_elements("css selector", f"#{field} option") if each.text == text]
            option.click()
            titles = driver.find_elements("css selector", "article:not([hidden]) h2")
            assert driver.find_element("id", "status").text == f"{len(titles)} of 12 examples"
            return {each.text.split(",")[0] for each in titles}

        expected = fooled(page)
        vit, rpc = (expected[model] for model in MODELS[1::2])
        assert vit != rpc
        assert vit
        assert choose("by", "digits-vit: pgd") == vit
        assert choose("not", "digits-rpc-symvit: pgd") == vit - rpc
        assert choose("by", "digits-rpc-symvit: pgd") == set()
        assert choose("not", "digits-vit: pgd") == rpc - vit
        choose("by", "all")
        everything = choose("not", "—")
        assert len(everything) == 12
        driver.find_element("id", "search").send_keys(min(everything))
        assert driver.find_element("id", "status").text == "1 of 12 examples"
        assert driver.get_log("browser") == []
        script = axe_script()
        if script is not None:
            assert violations(driver, script) == []


def fooled(page: Path) -> dict[str, set[str]]:
    """The ids that the page's own words call fooled by pgd, by model."""
    found: dict[str, set[str]] = {model: set() for model in MODELS[1::2]}
    pattern = r'alt="(\S+) under pgd of (\S+)"><p class="answer fooled">'
    for example_id, model in re.findall(pattern, page.read_text()):
        found[model].add(example_id)
    return found


def violations(driver: Any, script: str) -> list[Any]:
    driver.execute_script(script)
    run = "const done = arguments[0]; axe.run().then((found) => done(found.violations.map((each) => each.id)))"
    return list(driver.execute_async_script(run))
