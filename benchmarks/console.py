"""The console with many resources: what a page costs the service and a browser, what idle consoles cost, and what
others who use the API notice of people who click.
"""

import contextlib
import http.client
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from benchmarks import corpus, delivery_pacing, metrics
from benchmarks.beside import Beside
from benchmarks.daemons import BENCH, Daemon, daemon, until_read
from benchmarks.figures import Figure
from benchmarks.processes import cpu_seconds

PAGE_CPU_MS, PAGE_KB, VIEW_SECONDS, IDLE_SHARE, READ_P99_MS = 200.0, 300.0, 2.0, 0.25, 150.0
ROUNDS = 5
IDLE, PEOPLE = 200, 20
STREAMS_OF_ONE = IDLE // PEOPLE
CLICK_SECONDS = 2.0
READS_A_SECOND = 100
PASSWORD = "canary-password-of-the-benchmark"  # noqa: S105 - of a daemon that lives for a minute
CHROMIUM = "/usr/bin/chromium"


def measure(*, files: int, destinations: int, seconds: float) -> list[Figure]:
    """Look at every page, then idle, then click."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpus.make(folder / "corpus.git", files=files)
        with daemon(folder, repository=folder / "corpus.git") as running:
            until_read(running, files=files)
            metrics.deliver_to(running, destinations)
            cookies = [_signed_in(running, name) for name in _people(running)]
            paths = _paths(running)
            costs = {path: _cost(running, cookies[0], path) for path in paths}
            view, viewed = _first_view(running, cookies[0], ["/", "/problems", "/resources", "/delivery"])
            idle = _idle(running, cookies, seconds=seconds)
            request = delivery_pacing.request("GET", f"/v1/resources/Destination/{corpus.name(0)}", key=running.key)
            with _clicking(running, cookies, paths):
                beside = Beside(request, port=running.port, every=1 / READS_A_SECOND, file=folder / "read", paced=True)
                with beside as reading:
                    time.sleep(seconds)
                    reads = reading.ended()
    dearest = max(costs, key=lambda path: costs[path][0])
    largest = max(costs, key=lambda path: costs[path][1])
    of = f"{files:,} resources and {destinations:,} destinations"
    return [
        _limited(
            f"console, {of}: CPU of the dearest of {len(costs)} pages, {dearest}", costs[dearest][0], "ms", PAGE_CPU_MS
        ),
        _limited(f"console: the largest page, {largest}", costs[largest][1], "KB", PAGE_KB),
        _limited(f"console: first view in Chromium, the slowest of four, {viewed}", view, "s", VIEW_SECONDS),
        _limited(f"console: {IDLE} idle ones, of a core", idle, "", IDLE_SHARE),
        _limited(
            f"GET one, {READS_A_SECOND} a second, while {PEOPLE} people click, 99th percentile of {reads.requests}",
            reads.p99_ms,
            "ms",
            READ_P99_MS,
        ),
    ]


def _limited(what: str, ours: float, unit: str, limit: float) -> Figure:
    return Figure(what, f"{ours:.3g} {unit}".strip(), f"limit {limit:g} {unit}".strip(), f"{ours / limit:.2f}")


def _people(running: Daemon) -> list[str]:
    """Make people who may read everything."""
    names = [f"person-{number:02}" for number in range(PEOPLE)]
    for name in names:
        body = {"name": name, "password": PASSWORD, "organizationAdmin": True}
        if running.post("/v1/users", body).status != 201:
            raise RuntimeError(f"{name} was not made")
    return names


def _signed_in(running: Daemon, name: str) -> str:
    """Return the cookie of a person's session."""
    form = urlencode({"name": name, "password": PASSWORD, "back": "/"})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    with contextlib.closing(http.client.HTTPConnection(running.host, running.port, timeout=60)) as connection:
        connection.request("POST", "/sign-in", form, headers)
        answer = connection.getresponse()
        cookie = answer.getheader("Set-Cookie", "").partition(";")[0]
    if not cookie:
        raise RuntimeError(f"{name} is not signed in: {answer.status}")
    return cookie


def _paths(running: Daemon) -> list[str]:
    run = running.runs(BENCH)[0]["id"]
    resource = f"/resources/default/Destination/{corpus.name(7)}"
    return [
        *("/", "/problems", "/resources", "/resources?q=no-such-name", "/resources?status=incomplete,stale", resource),
        *("/configurations/default/configuration-00001", "/delivery", "/delivery/default/destination-00001", "/runs"),
        *(f"/runs/{run}", "/plans", "/notifications", "/audit", "/projects", "/projects/default", "/people", "/keys"),
    ]


def _page(running: Daemon, cookie: str, path: str) -> int:
    """Ask for a page; return its size in bytes. Raises RuntimeError for anything but a page."""
    with contextlib.closing(http.client.HTTPConnection(running.host, running.port, timeout=60)) as connection:
        connection.request("GET", path, headers={"Cookie": cookie})
        answer = connection.getresponse()
        body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{path}: {answer.status}")
    return len(body)


def _cost(running: Daemon, cookie: str, path: str) -> tuple[float, float]:
    """Return the CPU time of a page in milliseconds, the median of some, and its size in kilobytes."""
    size, times = _page(running, cookie, path), []
    for _ in range(ROUNDS):
        before = cpu_seconds(running.process.pid)
        for _ in range(3):
            _page(running, cookie, path)
        times.append((cpu_seconds(running.process.pid) - before) / 3 * 1000)
    return statistics.median(times), size / 1000


def _first_view(running: Daemon, cookie: str, paths: Sequence[str]) -> tuple[float, str]:
    """Return the longest time in seconds until a browser that was never here shows a page, and the page."""
    name, _, value = cookie.partition("=")
    url = f"http://{running.host}:{running.port}"
    found: dict[str, float] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for path in paths:
            times = []
            for _ in range(3):
                context = browser.new_context()
                context.add_cookies([{"name": name, "value": value, "url": url}])
                page, begun = context.new_page(), time.perf_counter()
                page.goto(url + path)
                page.locator("h1").wait_for()
                times.append(time.perf_counter() - begun)
                context.close()
            found[path] = statistics.median(times)
        browser.close()
    slowest = max(found, key=lambda path: found[path])
    return found[slowest], slowest


def _idle(running: Daemon, cookies: Sequence[str], *, seconds: float) -> float:
    """Return the share of a core that many open streams of events take while nothing happens."""
    connections = []
    for cookie in cookies:
        for _ in range(STREAMS_OF_ONE):
            connection = http.client.HTTPConnection(running.host, running.port, timeout=60)
            connection.request("GET", "/v1/events", headers={"Cookie": cookie})
            if connection.getresponse().status != 200:
                raise RuntimeError("a stream of events was refused")
            connections.append(connection)
    time.sleep(2)
    before = cpu_seconds(running.process.pid)
    time.sleep(seconds)
    share = (cpu_seconds(running.process.pid) - before) / seconds
    for connection in connections:
        connection.close()
    return share


@contextlib.contextmanager
def _clicking(running: Daemon, cookies: Sequence[str], paths: Sequence[str]) -> Iterator[None]:
    """Have each person go to another page every second."""
    ended = threading.Event()

    def click(cookie: str, seed: int) -> None:
        choice = random.Random(seed)  # noqa: S311 - which page somebody looks at
        while not ended.wait(CLICK_SECONDS * choice.uniform(0.5, 1.5)):
            _page(running, cookie, choice.choice(paths))

    people = [threading.Thread(target=click, args=(cookie, seed)) for seed, cookie in enumerate(cookies)]
    for one in people:
        one.start()
    try:
        yield
    finally:
        ended.set()
        for one in people:
            one.join()
