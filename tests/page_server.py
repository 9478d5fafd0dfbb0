"""The page on loopback, and a real browser to look at it with, for the tests."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait
from starlette.types import ASGIApp

from tests.loopback import serve_app

SECONDS = 60.0
"""The longest wait for a condition."""
_FLAGS = (
    *(
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-dev-shm-usage",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1360,1000",
    ),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)


@contextmanager
def serve_page(app: ASGIApp) -> Iterator[str]:
    """Serve the page on a free loopback port, and give its address."""
    with serve_app(app) as server:
        yield f"{server.url}/"


def chromium() -> tuple[str, str] | None:
    """Return where Chromium and its driver are, or None where there are none."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    """A headless Chromium with what the tests do on the page."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get("about:blank")
        self.driver.get_log("browser")
        self.driver.get_log("performance")
        self.driver.get(address)
        self.see(".about dd")

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return WebDriverWait(self.driver, SECONDS, poll_frequency=0.05).until(
            lambda _: condition(), what
        )

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def see(self, selector: str, text: str = "") -> WebElement:
        """Wait for an element that is shown, with a text in it."""

        def found() -> WebElement | None:
            shown = (element for element in self.all(selector) if element.is_displayed())
            return next((element for element in shown if text in element.text), None)

        element: WebElement = self.until(found, f"{selector} with {text!r}")
        return element

    def ask(self, question: str, *, open_path: bool = True) -> None:
        """Ask a question, and open the fold with the reading path."""
        field = self.see("#question")
        field.clear()
        field.send_keys(question)
        self.see("#ask").click()
        if open_path:
            self.run("document.getElementById('path-fold').open = true")

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def texts(self, selector: str) -> list[str]:
        """Return the texts of elements, also of those that are folded away."""
        texts: list[str] = self.run(
            "return [...document.querySelectorAll(arguments[0])].map((element) => "
            "element.textContent)",
            selector,
        )
        return texts

    def media(self, **features: str) -> None:
        given = [
            {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": given})

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def reset(self) -> None:
        self.media()
        self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.driver.get("about:blank")

    def complaints(self) -> list[str]:
        """Return what the console has said since the page was opened."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def hosts(self) -> set[str]:
        """Return every host that was asked for anything since the page was opened."""
        hosts = set()
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                address = urlsplit(message["params"]["request"]["url"])
                if address.scheme not in ("about", "data"):
                    hosts.add(address.netloc)
        return hosts


@contextmanager
def browse(profile: Path) -> Iterator[Browser]:
    """Start the browser with a fresh profile."""
    paths = chromium()
    assert paths is not None
    os.environ["SE_OFFLINE"] = "true"
    options = ChromeOptions()
    options.binary_location = paths[0]
    for flag in (*_FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(paths[1]))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
