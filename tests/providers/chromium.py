"""Somebody in Debian's Chromium, driven through Playwright, and what went wrong on the pages that they saw.

What a page of ours must be like is in `looking`; what people do there is in the tests.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, sync_playwright

from tests.providers import found

ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
TIMEOUT_MILLISECONDS = 20_000
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
SERVICE = "127.0.0.1"  # what the pages of providers say is their own affair
MOST_TABS = 60

Scheme = Literal["light", "dark"]


@contextmanager
def running() -> Iterator[Browser]:
    """A browser, for as long as the context lasts."""
    program = found.chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS, timeout=TIMEOUT_MILLISECONDS)
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """Somebody with a browser of their own: no cookie of anybody else's, one page."""

    def __init__(self, browser: Browser, *, trusts_anybody: bool = False) -> None:
        """`trusts_anybody`: whatever certificate a server shows."""
        self.context: BrowserContext = browser.new_context(
            reduced_motion="reduce", locale="en-GB", ignore_https_errors=trusts_anybody
        )
        self.context.set_default_timeout(TIMEOUT_MILLISECONDS)
        self.complaints: list[str] = []  # what the console said, scripts raised, and went beyond this machine
        self.page: Page = self.context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(f"raised: {error}"))
        self.context.on("request", self._asked)

    def close(self) -> None:
        """End it, and with it its cookies."""
        self.context.close()

    def visit(self, url: str) -> None:
        """Go there, and wherever that leads."""
        self.page.goto(url)

    def become(self, scheme: Scheme, width: int) -> None:
        """Be somebody who likes it dark, or has a phone. `width` in CSS pixels."""
        self.page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        self.page.set_viewport_size({"width": width, "height": 800})

    def photograph(self, name: str) -> None:
        """Keep what the page looks like, whole, in the folder that the variable SCREENSHOTS names, if it does."""
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    def tab_to(self, name: str) -> None:
        """Press Tab until what has the focus is called this."""
        passed = []
        for _ in range(MOST_TABS):
            self.page.keyboard.press("Tab")
            passed.append(self.focused())
            if passed[-1] == name:
                return
        raise AssertionError(f"{self.page.url}: Tab does not reach {name!r}: {passed}")

    def press(self, name: str) -> None:
        """Go to a button or a link with Tab, and press Enter there."""
        self.tab_to(name)
        self.page.keyboard.press("Enter")

    def fill(self, name: str, text: str) -> None:
        """Go to a field with Tab, and write there."""
        self.tab_to(name)
        self.page.keyboard.press("Control+a")
        self.page.keyboard.type(text)

    def focused(self) -> str:
        """Return what has the focus, by what a screen reader would call it."""
        return str(self.page.evaluate(NAME_OF_FOCUSED))

    def heading(self) -> str:
        """The page's one heading of the first level."""
        return self.page.locator("h1").inner_text()

    def text(self) -> str:
        """Return what the page says."""
        return self.page.locator("body").inner_text()

    def _said(self, message: ConsoleMessage) -> None:
        page = urlsplit(message.page.url if message.page else "")
        if message.type in {"error", "warning"} and page.hostname == SERVICE and not _is_of_status(message):
            self.complaints.append(f"{message.type} on {page.path}: {message.text}")

    def _asked(self, request: Request) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in {"http", "https", "ws", "wss"} and parts.hostname not in LOOPBACK:
            self.complaints.append(f"asked {request.url}")


def _is_of_status(message: ConsoleMessage) -> bool:
    """Chromium says of each page with a status from 400 on that it could not be loaded, although it shows it."""
    is_page = message.page is not None and message.location.get("url") == message.page.url
    return is_page and message.text.startswith("Failed to load resource: the server responded with a status of ")


NAME_OF_FOCUSED = """() => {
  const one = document.activeElement;
  if (!one || one === document.body) return '';
  const label = one.labels && one.labels.length ? one.labels[0] : null;
  const told = one.getAttribute('aria-label') || (label || one).innerText || '';
  return told.trim().replace(/\\s+/g, ' ');
}"""
