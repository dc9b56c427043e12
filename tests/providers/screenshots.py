"""Photographs of every page of the console, of a daemon on the example repository: `make screenshots`.

    python -m tests.providers.screenshots FOLDER [--minutes 6] [--docs docs/images]

Nothing in them is made up: log records flow for as long as the charts need minutes, an endpoint refuses some of them,
a commit removes what is then held, and a proposal is planned. `--docs` also keeps the pictures of the documentation.
"""

import argparse
import contextlib
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from playwright.sync_api import FloatRect, Page, expect

from tests import daemons
from tests.api.pages.consoles import Endpoint, resource
from tests.daemons import Daemon, watched
from tests.providers import chromium, found, pictures
from tests.providers.chromium import Scheme, Visitor
from tests.servers import processes

FORGE = "https://github.com/example"
PASSWORD = "canary-correct-horse-battery"
ADA, GRACE = "Ada Lovelace", "Grace Hopper"
DAY = 86_400
REFUSED_EACH = 140  # seconds
SECRET = "${env:DESTINATION_DEFAULT__ORDERS}"
REFUSED = b"the field currency is missing"
LOOKS: list[tuple[Scheme, int]] = [("light", 1280), ("dark", 1280), ("light", 375), ("dark", 375)]
PAGES = {
    "overview": "/",
    "problems": "/problems",
    "resources": "/resources?q=orders",
    "resource": "/resources/default/Destination/orders-desk?from=1&version=3",
    "configuration": "/configurations/default/orders",
    "rendered": "/configurations/default/hosts",
    "delivery": "/delivery",
    "destination": "/delivery/default/refunds-desk",
    "runs": "/runs?repository=telemetry",
    "plans": "/plans",
    "notifications": "/notifications",
    "audit": "/audit",
    "projects": "/projects",
    "project": "/projects/default",
    "people": "/people",
    "keys": "/keys",
    "account": "/account",
}
REFERENCE = re.compile(r"\$\{env:(\w+)\}")
OF_DOCS = ("overview", "problems", "resource", "configuration", "destination", "plan")
WIDTH, MOST_HEIGHT = 1280, 900  # of a picture of the documentation


class Source:
    """A repository with commits of people, at times before now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *arguments: str, **variables: str) -> str:
        """Run git here; what it wrote."""
        command = ["git", "-C", str(self.path), *arguments]
        done = subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, path: str, *documents: str) -> None:
        """Write a file."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n---\n".join(documents))

    def commit(self, message: str, author: str, *, seconds_ago: float) -> str:
        """Commit everything; the commit."""
        self.git("add", "--all")
        at = f"@{int(time.time() - seconds_ago)} +0000"
        address = f"{author.split(maxsplit=1)[0].lower()}@example.com"
        who = {"GIT_AUTHOR_NAME": author, "GIT_AUTHOR_EMAIL": address, "GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
        who |= {"GIT_COMMITTER_NAME": author, "GIT_COMMITTER_EMAIL": address}
        self.git("commit", "--quiet", "--no-gpg-sign", "--message", message, **who)
        return self.git("rev-parse", "HEAD")


def webhook(name: str, port: int, path: str, **parameters: object) -> str:
    """A Destination that the service delivers to."""
    given = {"scheme": "http", "hostname": "127.0.0.1", "port": port, "path": path, **parameters}
    spec = {"type": "webhook", "parameters": [{"name": one, "value": value} for one, value in given.items()]}
    return resource("Destination", name, spec, labels={"owner": "orders"})


def flow(name: str, *destinations: str) -> str:
    """A Configuration that takes records of a service."""
    spec = {
        "sources": [{"type": "otlp"}],
        "destinations": [{"name": one} for one in destinations],
        "selector": {"matchLabels": {"service.name": name}},
    }
    return resource("Configuration", name, spec, labels={"owner": "orders"})


def fill(telemetry: Source, platform: Source, *, good: int, strict: int) -> None:
    """Commit what both repositories hold at first. `good` and `strict` are ports of endpoints."""
    shutil.copytree(found.ROOT / "examples" / "repo", telemetry.path, dirs_exist_ok=True)
    telemetry.write("teams/orders/orders.yaml", webhook("orders-desk", good, "/orders"), flow("orders", "orders-desk"))
    once = {"retry_on_failure_enabled": False}
    telemetry.write(
        "teams/orders/refunds.yaml",
        webhook("refunds-desk", strict, "/refunds", **once),
        flow("refunds", "refunds-desk"),
    )
    telemetry.commit("Describe what the teams send", ADA, seconds_ago=3 * DAY)
    for name in ("berlin", "lisbon", "oslo", "porto", "turin", "wien"):
        platform.write(f"sites/{name}.yaml", resource("Destination", f"site-{name}", {"type": "otlp"}))
    platform.commit("Six sites", GRACE, seconds_ago=5 * DAY)


def change(daemon: Daemon, telemetry: Source, platform: Source, *, good: int) -> None:
    """Make changes that succeed, one that is refused, and one that is held; and plan a proposal."""
    orders = "teams/orders/orders.yaml"
    headers = {"X-Api-Key": SECRET}
    telemetry.write(orders, webhook("orders-desk", good, "/v2/orders"), flow("orders", "orders-desk"))
    daemon.applied("telemetry", telemetry.commit("Move the desk to its second version", GRACE, seconds_ago=7_400))
    desk = webhook("orders-desk", good, "/v2/orders", headers=headers)
    auditors = webhook("orders-audit", good, "/audit")
    telemetry.write(orders, desk, auditors, flow("orders", "orders-desk", "orders-audit"))
    daemon.applied("telemetry", telemetry.commit("Send the orders to the auditors too", ADA, seconds_ago=1_500))
    telemetry.write("teams/orders/stock.yaml", flow("stock", "stock-desk"))
    daemon.run_of("telemetry", telemetry.commit("Deliver the stock", ADA, seconds_ago=240))
    for name in ("lisbon", "oslo", "porto", "turin", "wien"):
        (platform.path / f"sites/{name}.yaml").unlink()
    platform.commit("Close five sites", GRACE, seconds_ago=600)
    daemons.until(lambda: daemon.repository("platform")["held"], "the deletion is held")


def propose(daemon: Daemon, telemetry: Source, *, good: int) -> str:
    """Plan a proposal; the id of the plan."""
    telemetry.git("switch", "--quiet", "--create", "proposal")
    desk = webhook("orders-desk", good, "/v3/orders")
    auditors = webhook("orders-audit", good, "/audit")
    telemetry.write("teams/orders/orders.yaml", desk, auditors, flow("orders", "orders-desk", "orders-audit"))
    telemetry.write("teams/orders/invoices.yaml", flow("invoices", "orders-desk"))
    (telemetry.path / "teams/orders/refunds.yaml").unlink()
    telemetry.commit("Replace the refunds by invoices", GRACE, seconds_ago=60)
    telemetry.git("switch", "--quiet", "main")
    answer = daemon.post("/v1/plan", {"repository": "telemetry", "head": "refs/heads/proposal"})
    return str(answer.body["plan"]["id"])


def people(daemon: Daemon) -> None:
    """Make people of each role, and a key."""
    for name, role in (("ada", "admin"), ("grace", "user"), ("linus", "viewer")):
        is_admin = name == "ada"
        given = {"name": name, "password": PASSWORD, "organizationAdmin": is_admin}
        assert daemon.post("/v1/users", given).status == 201
        body = json.dumps({"role": role}).encode()
        assert daemon.request("PUT", f"/v1/projects/default/members/{name}", body).status == 200
    made = daemon.post("/v1/api-keys", {"name": "pull requests", "role": "viewer", "project": "default"})
    assert made.status == 201, made


def send_until(ended: threading.Event, daemon: Daemon, strict: Endpoint) -> None:
    """Send records of orders and refunds, more and fewer, a second apart; now and then refunds are refused."""
    begin = time.monotonic()
    for number in itertools.count(1):
        passed = time.monotonic() - begin
        many = 40 + int(25 * math.sin(passed / 47) + 10 * math.sin(passed / 11))
        send(daemon, "orders", [f"order {number * 100 + one} was paid" for one in range(many)])
        is_refused = number % REFUSED_EACH == REFUSED_EACH // 2
        strict.status = 422 if is_refused else 200
        send(daemon, "refunds", [f"order {number} was paid back" for _ in range(3 if is_refused else many // 5)])
        if ended.wait(1):
            return


@contextlib.contextmanager
def flowing(daemon: Daemon, strict: Endpoint, *, seconds: float) -> Iterator[None]:
    """Records flow for some time before, and as long as the context lasts."""
    ended = threading.Event()
    thread = threading.Thread(target=send_until, args=(ended, daemon, strict))
    thread.start()
    try:
        time.sleep(seconds)
        yield
    finally:
        ended.set()
        thread.join()


def send(daemon: Daemon, service: str, bodies: list[str]) -> None:
    """Send log records in."""
    attributes = [{"key": "service.name", "value": {"stringValue": service}}]
    now = str(time.time_ns())
    records: list[dict[str, Any]] = [
        {"timeUnixNano": now, "severityText": "INFO", "body": {"stringValue": body}} for body in bodies
    ]
    logs = {"resourceLogs": [{"resource": {"attributes": attributes}, "scopeLogs": [{"logRecords": records}]}]}
    headers = {"Authorization": f"Bearer {daemon.key}", "Content-Type": "application/json"}
    answer = daemon.ask("POST", "/v1/logs", json.dumps(logs).encode(), headers)
    assert answer.status == 200, answer


@contextlib.contextmanager
def standing(folder: Path, url: str, strict: Endpoint, *, seconds: float) -> Iterator[tuple[Daemon, str]]:
    """The daemon with all of it, and the id of the plan."""
    endpoint = Endpoint()
    telemetry, platform = Source(folder / "telemetry"), Source(folder / "platform")
    fill(telemetry, platform, good=endpoint.port, strict=strict.port)
    texts = [SECRET, *(file.read_text() for file in telemetry.path.rglob("*.yaml"))]
    environment = {name: "made-up" for text in texts for name in REFERENCE.findall(text)}
    repositories = [
        watched("telemetry", telemetry.path, webURL=f"{FORGE}/telemetry"),
        watched("platform", platform.path, webURL=f"{FORGE}/platform"),
    ]
    settings = {"webURL": url, "listen": url.removeprefix("http://")}
    try:
        with daemons.running(
            folder / "daemon", repositories=repositories, settings=settings, environment=environment
        ) as daemon:
            people(daemon)
            daemon.applied("telemetry", telemetry.git("rev-parse", "HEAD"))
            daemon.applied("platform", platform.git("rev-parse", "HEAD"))
            change(daemon, telemetry, platform, good=endpoint.port)
            plan = propose(daemon, telemetry, good=endpoint.port)
            with flowing(daemon, strict, seconds=seconds):
                yield daemon, plan
    finally:
        endpoint.close()


def enter(page: Page, url: str) -> None:
    """Sign in."""
    page.goto(f"{url}/sign-in")
    page.get_by_label("User name").fill("ada")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def photograph(visitor: Visitor, url: str, pages: dict[str, str], folder: Path, docs: Path | None) -> None:
    """Keep every page in every look, and the pictures of the documentation."""
    page, blank = visitor.page, visitor.context.new_page()
    for title, path in pages.items():
        visitor.visit(url + path)
        if page.locator("#live").count() and page.locator("#live").get_attribute("data-live"):
            expect(page.locator("#connection")).to_have_text("live")
        for scheme, width in LOOKS:
            visitor.become(scheme, width)
            page.screenshot(path=folder / f"{title}-{scheme}-{width}.png", full_page=True)
        if docs and title in OF_DOCS:
            visitor.become("light", WIDTH)
            height = min(MOST_HEIGHT, int(page.evaluate("document.documentElement.scrollHeight")))
            clip: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": height}
            picture = page.screenshot(full_page=True, clip=clip)
            (docs / f"console-{title}.png").write_bytes(pictures.smaller(picture, blank))
    blank.close()


def main() -> None:
    """Take them."""
    parser = argparse.ArgumentParser(prog="screenshots", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where they are kept")
    parser.add_argument("--minutes", type=float, default=6.0, help="how long records flow first")
    parser.add_argument("--docs", type=Path, help="where the six pictures of the documentation are kept")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    strict = Endpoint(refusal=REFUSED)
    url = f"http://127.0.0.1:{processes.free_port()}"
    with tempfile.TemporaryDirectory(prefix="screenshots-") as temporary, contextlib.closing(strict):
        folder = Path(temporary)
        with standing(folder, url, strict, seconds=given.minutes * 60) as (daemon, plan), chromium.running() as browser:
            run = daemon.runs("telemetry", limit=1)[0]["id"]
            visitor = Visitor(browser)
            enter(visitor.page, url)
            pages = {**PAGES, "run": f"/runs/{run}", "plan": f"/plans/{plan}"}
            photograph(visitor, url, pages, given.folder, given.docs)
            visitor.close()


if __name__ == "__main__":
    main()
