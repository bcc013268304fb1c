"""Mechanisms, their training seeds and groups in a real browser, at both widths, in light and in dark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from browser import prefer, resize
from leaderboard_examples import adv_suite, fill, shift_suite
from test_leaderboard_page import TestAccessibility as Accessible
from test_leaderboard_page import all_of, driver, head, models, one, pytestmark, row_of, sort, status

from robench.leaderboard import leaderboard_of, render_html
from robench.leaderboard.board import Settings
from robench.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from robench.leaderboard.board import Leaderboard

__all__ = ["driver", "pytestmark"]

FGSM = "adv/fgsm/top1_accuracy"
LONG = "somebody-elses-adversarially-trained-model-of-a-long-name"
SKILLS = {"vit": 0.5, "vit@1": 0.53, "vit@2": 0.46, "rpc": 0.3, "rpc@1": 0.28, LONG: 0.6, f"{LONG}@1": 0.62, "one": 0.2}
WIDTHS, SCHEMES = (1280, 400), ("light", "dark")


@pytest.fixture(scope="module")
def seeds() -> Leaderboard:
    store, suites = MemoryStore(), [adv_suite(), shift_suite()]
    fill(store, adv_suite(), SKILLS)
    fill(store, shift_suite(), {name: skill for name, skill in SKILLS.items() if name != "vit@2"})
    headline = ("adv/clean/top1_accuracy", FGSM, "shift/sweep@2/255/top1_accuracy", "adv/pgd/top1_accuracy")
    settings = Settings(headline=headline, sort=FGSM, groups={"Clean": ("vit", "rpc", "one"), "Robust": ("some*",)})
    return leaderboard_of(suites, store, settings=settings)


@pytest.fixture(scope="module")
def address(seeds: Leaderboard, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("seeds") / "leaderboard.html"
    path.write_text(render_html(seeds))
    return path.as_uri()


@pytest.fixture(params=[(width, scheme) for width in WIDTHS for scheme in SCHEMES], ids="{0[0]}-{0[1]}".format)
def page(driver: Any, address: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    width, scheme = request.param
    resize(driver, width, 900)
    prefer(driver, scheme)
    driver.get("about:blank")
    driver.get(address)
    yield driver
    assert driver.get_log("browser") == []
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width


def click(page: Any, element: Any) -> None:
    page.execute_script("arguments[0].click()", element)


def unfolding(page: Any, model: str) -> Any:
    return one(row_of(page, model), ".unfold")


def boxes_are_beside_names(page: Any) -> bool:
    script = """
        return [...document.querySelectorAll("#board th.name .head")].every((head) => {
          const box = head.querySelector("input").getBoundingClientRect();
          const name = head.querySelector(".model button").getBoundingClientRect();
          return box.width >= 15 && box.right <= name.left && box.top < name.bottom && box.bottom > name.top;
        });
    """
    return bool(page.execute_script(script))


def test_a_row_a_mechanism_in_its_group_whose_seeds_unfold(page: Any, seeds: Leaderboard) -> None:
    wanted = {group: [row.model for row in rows] for group, rows in seeds.shown.groups.items()}
    assert [each.text for each in all_of(page, "tr.group")] == ["Clean: 3 models", "Robust: 1 model"]
    assert models(page) == [model for of in wanted.values() for model in of]
    unfolded = unfolding(page, "vit")
    assert (unfolded.text, unfolded.get_attribute("aria-expanded")) == ("3 seeds", "false")
    assert boxes_are_beside_names(page)
    click(page, unfolded)
    shown = models(page)
    assert shown[shown.index("vit") :][:4] == ["vit", "vit", "vit@1", "vit@2"]
    assert boxes_are_beside_names(page)
    # Seeds go with their mechanism in every order, and each group is sorted on its own.
    sort(page, 2)
    sort(page, 2)
    sorted_models = models(page)
    assert sorted_models[sorted_models.index("vit") :][:4] == ["vit", "vit", "vit@1", "vit@2"]
    assert sorted_models[-1] == LONG
    assert "Best of Clean: " in status(page)
    assert "Best of Robust: " in status(page)
    click(page, unfolding(page, "vit"))
    assert len(models(page)) == 4


def test_numbers_have_deviations_and_the_seeds_that_they_are_of(page: Any, seeds: Leaderboard) -> None:
    (row,) = [row for row in seeds.shown.rows if row.model == "vit"]
    columns = [column.key for column in seeds.columns]
    cells = all_of(row_of(page, "vit"), "td")
    estimate = row.cells[FGSM].estimate
    assert estimate is not None
    found = one(cells[1 + columns.index(FGSM)], "button")
    assert one(found, ".deviation").text == f"± {100 * (estimate.deviation or 0):.1f}"
    drawn = [path.get_attribute("d") for path in all_of(found, ".bar path")]
    low, high, value = (f"{100 * (each or 0):.1f}" for each in (estimate.low, estimate.high, estimate.value))
    assert drawn[1] == f"M{low} 4H{high}M{value} 0V8"
    assert drawn[0] == "".join(f"M{100 * each:.1f} 4h0" for each in estimate.of_seeds)
    # The seed that the second suite was not measured of.
    assert one(cells[1 + columns.index("shift/sweep@2/255/top1_accuracy")], ".count").text == "(2 of 3 seeds)"
    click(page, found)
    shown = one(page, "#details").text
    for words in ("vit (3 seeds)", "crossed random effects 95 % over training seeds and examples", "vit@2: "):
        assert words in shown
    for seed in row.seeds:
        (of_seed,) = [each for each in seeds.rows if each.model == seed]
        assert of_seed.measured["adv/fgsm"][0].measurement_key in shown


def test_heads_have_two_levels_and_span_the_columns_that_are_shown(page: Any) -> None:
    def levels() -> list[tuple[str, int]]:
        found = all_of(page, '#board thead th[scope="colgroup"]:not([hidden])')
        return [(each.text, int(each.get_attribute("colspan"))) for each in found]

    assert levels() == [("adv", 2), ("shift", 1), ("adv", 1)]
    fgsm = head(page, 3)
    assert (one(fgsm, ".metric").text, fgsm.text.split()) == ("top-1 accuracy", ["fgsm", "top-1", "accuracy"])
    click(page, one(page, "#further"))
    assert sum(count for _, count in levels()) == len(all_of(page, "#board thead tr + tr th"))


def test_the_address_gives_the_same_page_again(page: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    sort(page, 2)
    click(page, unfolding(page, "rpc"))
    one(page, "#search").send_keys("r")
    click(page, one(page, "#further"))
    kept, shown, said = page.current_url, models(page), status(page)
    for part in ("sort=adv%2Fclean%2Ftop1_accuracy", "order=descending", "open=rpc", "search=r", "columns=all"):
        assert part in kept
    page.get("about:blank")
    page.get(kept)
    assert (models(page), status(page)) == (shown, said)
    assert one(page, "#search").get_attribute("value") == "r"
    assert all(each.is_displayed() for each in all_of(page, "#board thead th[data-place]"))
    # The address of a sent page is read while the page is open, too; nonsense counts as nothing.
    page.execute_script("location.hash = 'open=vit&open=nobody&sort=nothing&columns=__proto__&family=x'")
    WebDriverWait(page, 60).until(lambda opened: "vit@1" in models(opened))
    assert "rpc@1" not in models(page)
    assert one(page, "#search").get_attribute("value") == ""


def test_a_mechanism_and_a_seed_are_compared_without_a_test(page: Any) -> None:
    click(page, unfolding(page, "rpc"))
    for model in ("vit", "rpc@1"):
        click(page, one(row_of(page, model), "input"))
    click(page, one(page, "#compare"))
    assert one(page, "#comparison h2").text == "vit (3 seeds) and rpc@1"
    assert {line.find_elements("css selector", "td")[-1].text for line in all_of(page, "#comparison tbody tr")} == {"—"}
    click(page, one(page, "#comparison .close"))
    # Folding takes the choice of a seed away.
    click(page, unfolding(page, "rpc"))
    assert not one(page, "#compare").is_enabled()
    click(page, one(row_of(page, "rpc"), "input"))
    click(page, one(page, "#compare"))
    tests = {line.find_elements("css selector", "td")[-1].text for line in all_of(page, "#comparison tbody tr")}
    assert "Welch's t over seeds" in tests


def test_axe_finds_nothing_serious_with_seeds_unfolded(page: Any) -> None:
    click(page, unfolding(page, "vit"))
    assert Accessible().problems(page) == []
