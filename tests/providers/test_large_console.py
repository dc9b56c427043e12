"""The console with 10,000 resources and 1,000 destinations, in Chromium: each page is bounded, and the search finds."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import expect

from benchmarks import corpus, metrics
from benchmarks.daemons import until_read
from tests import daemons
from tests.api.pages.consoles import PASSWORD
from tests.daemons import Daemon
from tests.providers.chromium import Visitor
from tests.servers import processes

pytestmark = [pytest.mark.providers, pytest.mark.slow]

FILES, DESTINATIONS = 10_000, 1_000
MOST_BYTES = 300_000
MOST_ELEMENTS = 8_000


@contextmanager
def large(folder: Path) -> Iterator[tuple[Daemon, str]]:
    """A daemon with all of it, and its URL."""
    port = processes.free_port()
    url = f"http://127.0.0.1:{port}"
    corpus.make(folder / "corpus.git", files=FILES)
    repositories = [daemons.watched("bench", folder / "corpus.git")]
    settings = {"listen": f"127.0.0.1:{port}", "webURL": url}
    with daemons.running(folder / "daemon", repositories=repositories, settings=settings) as daemon:
        until_read(daemon, files=FILES)
        metrics.deliver_to(daemon, DESTINATIONS)
        assert daemon.post("/v1/users", {"name": "root", "password": PASSWORD, "organizationAdmin": True}).status == 201
        yield daemon, url


def test_every_page_is_bounded(tmp_path: Path, visitor: Visitor) -> None:
    page = visitor.page
    with large(tmp_path) as (daemon, url):
        visitor.visit(f"{url}/sign-in")
        page.get_by_label("User name").fill("root")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        run = daemon.runs("bench")[0]["id"]
        for path in ("/", "/problems", "/resources", "/delivery", "/runs", f"/runs/{run}", "/audit", "/notifications"):
            answer = page.goto(url + path)
            assert answer is not None
            assert (path, answer.status) == (path, 200)
            assert (path, len(answer.body()) < MOST_BYTES) == (path, True)
            assert (path, page.locator("*").count() < MOST_ELEMENTS) == (path, True)
        page.goto(f"{url}/delivery")
        expect(page.locator("main")).to_contain_text(f"All {DESTINATIONS:,} destinations".replace(",", "\u202f"))
        page.goto(f"{url}/resources?q=destination-009")
        page.get_by_role("link", name="Next").click()
        expect(page.get_by_role("cell", name="destination-009999")).to_have_count(0)
        page.keyboard.press("/")
        page.keyboard.type("destination-009999")
        page.keyboard.press("Enter")
        page.get_by_role("link", name="destination-009999").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("destination-009999")
