"""The page in a real browser: it sorts, filters, compares, shows provenance, prints, and is accessible."""

import os
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from browser import axe_script, chromium, prefer, resize, what_is_missing
from leaderboard_examples import FINE, MASKED, adv_suite, fill, shift_suite

from robench.declare import read_registries
from robench.leaderboard import board_columns, leaderboard_of, render_html
from robench.leaderboard.board import Leaderboard, Settings
from robench.store import MemoryStore

pytestmark = pytest.mark.skipif(bool(what_is_missing()), reason=what_is_missing() or "nothing is missing")

MODELS = {"digits-vit": 0.5, "digits-symvit": 0.55, "digits-rpc-symvit": 0.3, "digits-boost-vit": 0.5, "nobody": 0.4}
HOSTILE = "<img src=x onerror=alert(1)>\u202e'\"</script>"
# By place of the header; the first is the model.
CLEAN, FGSM, LAST = 1, 2, 6


def made_up() -> Leaderboard:
    store, registry = MemoryStore(), read_registries()
    flags = {"digits-vit": (MASKED, FINE), "digits-symvit": (FINE,)}
    fill(store, adv_suite(), MODELS | {HOSTILE: 0.2}, half=["nobody"], flags=flags)
    fill(store, shift_suite(), {"digits-vit": 0.5, "digits-symvit": 0.55, "digits-rpc-symvit": 0.3})
    return leaderboard_of([adv_suite(), shift_suite()], store, checkpoints=registry)


@pytest.fixture(scope="module")
def board() -> Leaderboard:
    return made_up()


# Words of headers that take more than one line.
BROKEN_WORDS = """
    const heads = [...document.querySelectorAll("#board thead th:not([hidden]) button")];
    return heads.flatMap((button) => [button, ...button.children]).flatMap((element) => {
      const node = element.firstChild;
      return [...node.data.matchAll(/[^ -]+/g)].filter((word) => {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        return range.getClientRects().length > 1;
      }).map((word) => word[0]);
    });
"""
# A leaderboard to publish: twelve models, ten columns first.
HEADLINE = 10
PUBLISHED = [
    *("digits-vit", "digits-symvit", "digits-rpc-symvit", "digits-boost-vit", "digits-twicing-vit"),
    *("digits-bilateral-vit", "digits-primal-vit", "digits-rkde-vit", "nobody", "somebody-elses-model-of-a-long-name"),
    *("third", "last"),
]


@pytest.fixture(scope="module")
def published_board() -> Leaderboard:
    store, suites = MemoryStore(), [adv_suite(), shift_suite()]
    skills = {model: 0.25 + 0.03 * place for place, model in enumerate(PUBLISHED)}
    fill(store, adv_suite(), skills, half=["last"], flags={"digits-vit": (MASKED, FINE)})
    fill(store, shift_suite(), skills)
    columns = [column.key for column in board_columns(suites)]
    settings = Settings(
        title="Attention under attack",
        note="Made-up numbers.",
        headline=(*columns[-1:-5:-1], *columns[:6]),
        sort="adv/fgsm/top1_accuracy",
    )
    registry = read_registries()
    described = replace(registry["digits-vit"], paper="https://arxiv.org/abs/2010.11929", code="unknown")
    entries = registry | {"digits-vit": described}
    return leaderboard_of(suites, store, checkpoints=entries, settings=settings)


@pytest.fixture(scope="module")
def published_address(published_board: Leaderboard, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("published") / "leaderboard.html"
    path.write_text(render_html(published_board))
    return path.as_uri()


@pytest.fixture
def published(page: Any, published_address: str) -> Any:
    page.get(published_address)
    return page


@pytest.fixture(scope="module")
def address(board: Leaderboard, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "leaderboard.html"
    path.write_text(render_html(board))
    return path.as_uri()


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(driver: Any, address: str) -> Iterator[Any]:
    """A freshly loaded page, which must have said nothing on the console at the end."""
    resize(driver, 1280, 900)
    prefer(driver, "light")
    driver.get(address)
    yield driver
    assert driver.get_log("browser") == []


def all_of(page: Any, selector: str) -> list[Any]:
    return page.find_elements("css selector", selector)


def one(page: Any, selector: str) -> Any:
    return page.find_element("css selector", selector)


def models(page: Any) -> list[str]:
    """Names of the rows that are shown, from the top."""
    return [row.text for row in all_of(page, "#board tbody tr:not([hidden]) .model")]


def head(page: Any, place: int) -> Any:
    """Head of a column, counted from the model's."""
    return one(page, f'#board thead th[data-place="{place}"]')


def heads(page: Any) -> list[Any]:
    """Heads of all columns, in their order."""
    return [head(page, place) for place in range(len(all_of(page, "#board thead th[data-place]")))]


def sort(page: Any, place: int) -> None:
    page.execute_script("arguments[0].click()", one(head(page, place), "button"))


def row_of(page: Any, model: str) -> Any:
    return page.find_element("xpath", f"//tbody/tr[th//button[text()='{model}']]")


def status(page: Any) -> str:
    return str(one(page, "#status").text)


def values(board: Leaderboard, key: str) -> dict[str, float]:
    return {row.model: cell.estimate.value for row in board.rows if (cell := row.cells[key]).estimate is not None}


class TestRows:
    def test_a_column_sorts_best_first_then_worst_first_and_missing_last(self, page: Any, board: Leaderboard) -> None:
        by_value = values(board, "adv/fgsm/top1_accuracy")
        for order in (-1, 1):
            sort(page, FGSM)
            shown = [name for name in models(page) if name in by_value]
            assert [order * by_value[name] for name in shown] == sorted(order * by_value[name] for name in shown)
            assert models(page)[-1] == "nobody"
            wanted = "descending" if order < 0 else "ascending"
            assert head(page, FGSM).get_attribute("aria-sort") == wanted
            assert f"{'largest' if order < 0 else 'smallest'} first" in status(page)
        assert head(page, CLEAN).get_attribute("aria-sort") == "none"

    def test_errors_sort_smallest_first(self, page: Any, board: Leaderboard) -> None:
        (place,) = [place for place, each in enumerate(board.columns, 1) if each.key == "shift/digits-c/mean_error"]
        sort(page, place)
        by_value = values(board, "shift/digits-c/mean_error")
        assert models(page)[:3] == sorted(by_value, key=lambda model: by_value[model])

    def test_what_is_not_distinguishable_from_the_best_is_said_and_marked(self, page: Any, board: Leaderboard) -> None:
        sort(page, FGSM)
        close = {row.model for row in board.rows if (s := row.ranks.get("adv/fgsm/top1_accuracy")) and s.is_close}
        assert {row.text for row in all_of(page, "tr.in-group .model")} == close
        ranks = {row.model: rank for row in board.rows if (rank := row.ranks.get("adv/fgsm/top1_accuracy"))}
        (best,) = [model for model, rank in ranks.items() if rank.is_best]
        tested = [rank for rank in ranks.values() if rank.p]
        found = f"Best: {best}, from which {len(close) - 1} of the {len(tested)} tested are not distinguishable at 5 %."
        assert found in status(page)

    def test_a_column_without_a_test_says_so(self, page: Any, tmp_path: Path) -> None:
        store = MemoryStore()
        fill(store, adv_suite(), {"alone": 0.5})
        path = tmp_path / "alone.html"
        path.write_text(render_html(leaderboard_of([adv_suite()], store)))
        page.get(path.as_uri())
        sort(page, FGSM)
        assert "Best: alone, with no test in this column." in status(page)
        assert all_of(page, "tr.in-group") == []

    def test_rows_are_searched_and_filtered(self, page: Any) -> None:
        field = one(page, "#search")
        field.send_keys("symvit digits")
        assert models(page) == ["digits-rpc-symvit", "digits-symvit"]
        assert "2 of 6 models" in status(page)
        field.clear()
        field.send_keys("vit")
        one(page, "#filter-attention option[value='softmax + boost']").click()
        assert models(page) == ["digits-boost-vit"]
        one(page, "#filter-attention option[value='']").click()
        one(page, "#filter-family option[value='vit']").click()
        assert len(models(page)) == 4

    def test_columns_are_chosen(self, page: Any, board: Leaderboard) -> None:
        one(page, "#columns").click()
        boxes = all_of(page, "#chooser li input")
        assert len(boxes) == len(board.columns)
        boxes[0].click()
        headers = heads(page)
        assert [header.is_displayed() for header in headers[:3]] == [True, False, True]
        page.find_element("xpath", "//dialog//button[text()='None']").click()
        assert [header.get_attribute("hidden") for header in headers].count("true") == len(board.columns)
        page.find_element("xpath", "//dialog//button[text()='All']").click()
        assert not any(header.get_attribute("hidden") for header in headers)


class TestPublished:
    def test_it_fits_1280_pixels_without_scrolling_sideways(self, published: Any, published_board: Leaderboard) -> None:
        headers = heads(published)
        shown = [header.text for header in headers if header.is_displayed()]
        assert len(shown) == 1 + 1 + HEADLINE + 1
        assert len(published_board.columns) > HEADLINE
        for region in all_of(published, ".scroll"):
            assert published.execute_script(
                "return [arguments[0].scrollWidth - arguments[0].clientWidth, document.documentElement.scrollWidth]",
                region,
            ) == [0, 1280]
        assert published.execute_script(BROKEN_WORDS) == []

    def test_it_is_sorted_and_ranked_at_first(self, published: Any, published_board: Leaderboard) -> None:
        assert models(published) == [row.model for row in published_board.rows]
        assert models(published)[-1] == "last"
        (place,) = [
            place for place, each in enumerate(published_board.columns, 2) if each.key == published_board.settings.sort
        ]
        header = head(published, place)
        assert header.get_attribute("aria-sort") == "descending"
        ranks = [cell.text for cell in all_of(published, "#board td.rank")]
        assert ranks == ["—" if row.rank is None else str(row.rank) for row in published_board.rows]
        assert ranks[0] == "1"
        assert ranks[-1] == "—"
        sort(published, 1)
        assert models(published)[-1] == "last"
        assert [cell.text for cell in all_of(published, "#board td.rank")] == ranks
        assert "No rank: last: its number is missing: — (60 of 120 missing)." in one(published, "#notes").text

    def test_further_columns_are_unfolded_by_a_key(self, published: Any, published_board: Leaderboard) -> None:
        from selenium.webdriver.common.keys import Keys

        folding, headers = one(published, "#further"), heads(published)
        count = len(published_board.columns) - HEADLINE
        assert (folding.text, folding.get_attribute("aria-expanded")) == (f"Show {count} further columns", "false")
        folding.send_keys(Keys.ENTER)
        assert all(header.is_displayed() for header in headers)
        assert (folding.text, folding.get_attribute("aria-expanded")) == (f"Hide {count} further columns", "true")
        folding.send_keys(Keys.ENTER)
        assert sum(header.is_displayed() for header in headers) == HEADLINE + 3

    def test_title_captions_and_links(self, published: Any) -> None:
        assert published.title == one(published, "h1").text == "Attention under attack"
        assert "Made-up numbers.\nadv, version 1; shift, version 2" in one(published, "header").text
        for table in all_of(published, "table"):
            assert one(table, "caption").get_attribute("textContent")
            assert all(each.get_attribute("scope") in ("col", "colgroup", "row") for each in all_of(table, "th"))
        assert [link.get_attribute("href") for link in all_of(published, "a")] == ["https://arxiv.org/abs/2010.11929"]
        row_of(published, "digits-vit").find_element("css selector", ".model button").click()
        assert [link.text for link in all_of(published, "#details a")] == ["https://arxiv.org/abs/2010.11929"]
        assert "unknown" in one(published, "#details").text


class TestDialogs:
    def test_a_number_shows_its_provenance_in_one_click(self, page: Any, board: Leaderboard) -> None:
        all_of(row_of(page, "digits-vit"), "td button")[LAST - 2].click()
        shown = one(page, "#details").text
        measured = next(row for row in board.rows if row.model == "digits-vit").measured
        read = [each for name in ("clean", "pgd-half") for each in measured[f"adv/{name}"]]
        for each in read:
            assert each.measurement_key in shown
            assert each.weights_digest in shown
            assert each.fingerprint in shown
        for words in ("adv, version 1", "Wilson 95 %", "torch 2.15", "cpu", "4/255", "120", "robust accuracy"):
            assert words in shown
        assert "40 % of the gradients are zero; attack with square (rule: Carlini et al. 2019)" in shown
        assert "coupled rows" in shown

    def test_a_model_shows_what_it_is(self, page: Any) -> None:
        row_of(page, "digits-boost-vit").find_element("css selector", ".model button").click()
        shown = one(page, "#details").text
        assert "softmax + boost" in shown
        assert "vit, 4 layers, width 64, 4 heads, 32 px" in shown
        assert "Apache-2.0" in shown

    def test_two_rows_are_compared(self, page: Any, board: Leaderboard) -> None:
        button = one(page, "#compare")
        assert not button.is_enabled()
        for model in ("nobody", "digits-vit", "digits-rpc-symvit"):
            one(row_of(page, model), "input").click()
        assert not one(row_of(page, "nobody"), "input").is_selected()
        button.click()
        assert one(page, "#comparison h2").text == "digits-rpc-symvit and digits-vit"
        lines = [[cell.text for cell in all_of(line, "th, td")] for line in all_of(page, "#comparison tbody tr")]
        assert [line[0] for line in lines] == [column.label for column in board.columns]
        clean = values(board, "adv/clean/top1_accuracy")
        difference = 100 * (clean["digits-rpc-symvit"] - clean["digits-vit"])
        assert lines[0][3] == f"{difference:+.1f}"
        places = {row.model: place for place, row in enumerate(board.rows)}
        test = board.pairs["adv/clean/top1_accuracy"][places["digits-rpc-symvit"], places["digits-vit"]]
        p = min(1.0, test.p_value * board.columns[0].num_columns)
        assert lines[0][5] == "< 0.0001" if p < 0.0001 else float(lines[0][5]) == pytest.approx(p, rel=0.05)
        assert lines[0][4] == ("digits-vit" if p < 0.05 else "—")
        assert lines[0][6] == test.test
        errors = next(line for line in lines if "mean error" in line[0])
        assert errors[4:] == ["—", "—", "—"]
        # At 1,280 pixels.
        assert page.execute_script(
            "const e = document.querySelector('#comparison .scroll'); return e.scrollWidth <= e.clientWidth"
        )

    def test_a_gap_is_compared_with_nothing(self, page: Any) -> None:
        for model in ("nobody", "digits-vit"):
            one(row_of(page, model), "input").click()
        one(page, "#compare").click()
        line = all_of(page, "#comparison tbody tr")[FGSM - 1]
        texts = [cell.text for cell in all_of(line, "td")]
        assert "— (60 of 120 missing)" in texts
        assert texts[2:] == ["—", "—", "—", "—"]

    def test_names_of_strangers_are_text(self, page: Any) -> None:
        assert page.execute_script("return document.images.length") == 0
        (named,) = [each for each in all_of(page, "#board .model button") if "onerror" in each.text]
        named.click()
        assert one(page, "#details h2").text.startswith("<img src=x onerror=alert(1)>\\u{202e}'\"</script>")
        assert page.execute_script("return document.images.length") == 0


class TestKeyboardAndTheme:
    def test_keys_alone_sort_and_open_and_close(self, page: Any) -> None:
        from selenium.webdriver.common.keys import Keys

        one(head(page, CLEAN), "button").send_keys(Keys.ENTER)
        assert head(page, CLEAN).get_attribute("aria-sort") == "descending"
        number = one(page, "#board tbody td button")
        number.send_keys(Keys.ENTER)
        assert one(page, "#details").is_displayed()
        page.switch_to.active_element.send_keys(Keys.ESCAPE)
        assert not one(page, "#details").is_displayed()
        assert page.switch_to.active_element == number

    def test_the_theme_is_that_of_the_system_until_it_is_chosen(self, page: Any) -> None:
        def paper() -> str:
            return str(page.execute_script("return getComputedStyle(document.body).backgroundColor"))

        light = paper()
        prefer(page, "dark")
        dark = paper()
        assert light == "rgb(255, 255, 255)" != dark
        theme = one(page, "#theme")
        theme.click()
        assert (theme.text, paper()) == ("Theme: light", light)
        prefer(page, "light")
        theme.click()
        assert (theme.text, paper()) == ("Theme: dark", dark)
        theme.click()
        assert (theme.text, paper()) == ("Theme: system", light)


class TestMedia:
    def test_a_phone_scrolls_the_table_and_not_the_page(self, page: Any) -> None:
        resize(page, 360, 740)
        assert page.execute_script("return document.documentElement.scrollWidth") <= 360
        assert one(page, "#search").is_displayed()
        one(row_of(page, "digits-vit"), "td button").click()
        assert page.execute_script("return document.querySelector('#details').getBoundingClientRect().right") <= 360

    def test_it_prints(self, page: Any) -> None:
        printed = b64decode(page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True})["data"])
        assert printed.startswith(b"%PDF-")
        assert len(printed) > 10_000
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
        assert not one(page, "#tools").is_displayed()
        assert one(page, "#board").is_displayed()
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})

    def test_without_a_script_it_is_a_table_to_read(self, driver: Any, address: str, board: Leaderboard) -> None:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            driver.get(address)
            assert not one(driver, "#tools").is_displayed()
            assert len(all_of(driver, "#board tbody tr")) == len(board.rows)
            assert all_of(driver, "#board button") == []
            assert len(all_of(driver, "svg.chart")) == len(board.curves) + len(board.profiles)
        finally:
            driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.skipif(axe_script() is None, reason="axe-core is missing; pip install axe-core-python")
@pytest.mark.parametrize("scheme", ["light", "dark"])
class TestAccessibility:
    def problems(self, page: Any) -> list[str]:
        # On a busy machine a large page takes longer than the 30 seconds of the driver.
        page.set_script_timeout(300)
        page.execute_script(axe_script())
        found = page.execute_async_script("axe.run(document).then(arguments[arguments.length - 1])")
        assert found["passes"]
        return [
            f"{each['id']}: {each['help']}: {node['html'][:200]} {node['any'][:1]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"][:3]
        ]

    def test_axe_finds_nothing_serious_on_the_page(self, page: Any, scheme: str) -> None:
        prefer(page, scheme)
        sort(page, FGSM)
        assert self.problems(page) == []

    @pytest.mark.slow
    def test_nor_on_a_page_with_ranks_links_and_folded_columns(self, published: Any, scheme: str) -> None:
        prefer(published, scheme)
        assert self.problems(published) == []

    @pytest.mark.slow
    def test_nor_in_its_dialogs(self, page: Any, scheme: str) -> None:
        prefer(page, scheme)
        one(row_of(page, "digits-vit"), "td button").click()
        assert self.problems(page) == []
        one(page, "#details .close").click()
        for model in ("digits-symvit", "digits-rpc-symvit"):
            one(row_of(page, model), "input").click()
        one(page, "#compare").click()
        assert self.problems(page) == []
        one(page, "#comparison .close").click()
        one(page, "#columns").click()
        assert self.problems(page) == []


def test_axe_is_there_where_everything_is_checked() -> None:
    assert axe_script() is not None or not os.environ.get("CI")
