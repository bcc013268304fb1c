"""A headless Chromium for pages of robench's own, which lets nothing through to a network."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from selenium.webdriver import Chrome

PROGRAMS = ("chromium", "chromedriver")


def what_is_missing() -> str:
    """Return what keeps pages from being opened here, as a reason to skip a test; empty where nothing does."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    missing += [] if find_spec("selenium") else ["selenium"]
    return f"{', '.join(missing)} missing; apt-get install chromium chromium-driver" if missing else ""


def axe_script() -> str | None:
    """Return axe-core as the package axe-core-python brings it along; None without that package."""
    found = find_spec("axe_core_python")
    if found is None or found.origin is None:
        return None
    return (Path(found.origin).parent / "axe.min.js").read_text(encoding="utf-8")


@contextmanager
def chromium(*, width: int = 1280, height: int = 900) -> Iterator[Chrome]:
    """Open a browser of a size in CSS pixels, and close it at the end."""
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    # Without a sandbox, since tests run as root in containers; the pages are robench's own.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(argument)
    options.add_argument("--host-resolver-rules=MAP * ~NOTFOUND")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=ChromeService(executable_path=shutil.which("chromedriver")))
    try:
        resize(driver, width, height)
        yield driver
    finally:
        driver.quit()


def resize(driver: Any, width: int, height: int, *, scale: float = 1.0) -> None:
    """Give the page exactly so many CSS pixels: a window cannot be as narrow as a phone."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


def prefer(driver: Any, scheme: str) -> None:
    """Let the browser prefer ``light`` or ``dark``."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
