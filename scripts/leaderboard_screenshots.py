"""Writes docs/screenshots: the leaderboard's page on a desktop, on a phone, and in dark with a number's provenance.

Takes the page that ``robench leaderboard`` wrote: ``python scripts/leaderboard_screenshots.py leaderboard.html``.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "screenshots"
PHONE = (360, 740)
DESKTOP = (1280, 900)
# Down to the charts.
WHOLE = (1280, 1500)


def write_screenshots(page: Path, folder: Path = FOLDER) -> None:
    """Write the three pictures of a page."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import chromium, prefer, resize

    folder.mkdir(parents=True, exist_ok=True)
    with chromium(width=WHOLE[0], height=WHOLE[1]) as driver:
        prefer(driver, "light")
        driver.get(page.absolute().as_uri())
        driver.find_element("css selector", "#board .unfold").click()
        driver.save_screenshot(str(folder / "desktop.png"))
        driver.get(page.absolute().as_uri())
        resize(driver, *PHONE)
        driver.execute_script("document.querySelector('#board').scrollIntoView()")
        driver.save_screenshot(str(folder / "phone.png"))
        resize(driver, *DESKTOP)
        prefer(driver, "dark")
        driver.find_element("css selector", "#board tbody td button").click()
        driver.save_screenshot(str(folder / "dark.png"))


if __name__ == "__main__":
    write_screenshots(Path(sys.argv[1]))
