"""`reconciler demo`: the daemon on a temporary copy of the example repository.

Repository, state and key are deleted when it stops. Secrets are made up. It also receives the records that the
example's webhook posts.
"""

import asyncio
import contextlib
import json
import logging
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click

from reconciler.cli import client, output, runs, tables
from reconciler.git import faults
from reconciler.model.errors import Refused
from reconciler.model.values import Value
from reconciler.ops import logging as ops_logging
from reconciler.server import daemon, serving, sign_in
from reconciler.server.parts import Running, StartPlan
from reconciler.settings import loading

REFERENCE = re.compile(r"\$\{env:(\w+)\}")
MADE_UP = "made up for the demonstration"  # the value of every secret
POLL_SECONDS = 0.1
SHOWN_BYTES = 500  # of a request that arrives
RENDERED = "hosts"  # the Configuration of the example that any Collector runs
DELIVERS = "Delivers    the Configuration orders; the others are for collectors (docs/what-has-effect.md)"
COLLECTOR = "/v1/resources/Configuration/{}/collector.yaml"
# Loggers that are silenced: the demonstration shows the outcome of each commit itself, and nobody needs to sign in.
UNSAID = ("reconciler.reconcile", "reconciler.auth.accounts", "reconciler.server.sign_in")
IDENTITY = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgSign=false")

HOST, PORT = "127.0.0.1", 8088  # as in FILE
FILE = Path("teams/orders/orders.yaml")
SECONDS = 30.0  # for one request


@click.command()
@click.option("--listen", help="Where to listen, host:port; 127.0.0.1:3001 when left out, or a free port.")
@click.option("--once", is_flag=True, help="Stop after the first table.")
def demo(listen: str | None, *, once: bool) -> None:
    """Run the daemon on a copy of the example repository, and show what each commit does."""
    with tempfile.TemporaryDirectory(prefix="reconciler-demo-") as temporary, _webhook() as port:
        repository = Path(temporary, "repository")
        _copy(repository, port)
        key = secrets.token_urlsafe(32)
        followed: Value = {"name": "example", "url": str(repository), "branch": "main", "interval": "5s"}
        overrides: dict[str, Value] = {
            "listen": listen or _free_address(),
            "apiKey": key,
            "stateDir": f"{temporary}/state",
            "repositories": [followed],
            "log.level": "warning",
        }
        # Neither a settings file nor the environment counts: they may belong to a real service.
        settings = loading.load(config=Path(os.devnull), environment={}, overrides=overrides).settings
        ops_logging.set_up(level=settings.log.level, style="text")
        for unsaid in UNSAID:
            logging.getLogger(unsaid).setLevel(logging.ERROR)

        async def show(running: Running) -> None:
            password = (settings.state_dir / sign_in.FILE).read_text(encoding="utf-8").strip()
            await _narrate(running, repository, key=key, password=password, port=port, once=once)

        environment = _pretend_secrets(repository)
        daemon.start(StartPlan(settings=settings, reload=lambda: settings, when_up=show, environment=environment))
    output.line("Stopped.")


# The copy, and made-up secrets.


def _example() -> Path:
    """Return the example repository: beside the package in a checkout, inside it in an installation."""
    package = Path(__file__).parent.parent
    for candidate in (package.parent / "examples" / "repo", package / "examples" / "repo"):
        if candidate.is_dir():
            return candidate
    raise Refused("The example repository is not installed; install the package anew.")


def _copy(target: Path, port: int) -> None:
    """Create a repository whose first commit has the example. Its webhook posts to the port."""
    shutil.copytree(_example(), target, ignore=shutil.ignore_patterns(".git"))
    file = target / FILE
    text = file.read_text(encoding="utf-8").replace(f"value: {PORT}\n", f"value: {port}\n")
    file.write_text(text, encoding="utf-8")
    _git(target, "init", "--quiet", "--initial-branch=main")
    _git(target, "add", "--all")
    _git(target, *IDENTITY, "commit", "--quiet", "--message=Copy the example")


def _git(repository: Path, *arguments: str) -> None:
    """Run git in the demonstration's repository."""
    command = ["git", "-C", str(repository), *arguments]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except FileNotFoundError as error:
        raise Refused("git is not installed; install it and try again.") from error


def _free_address() -> str:
    """Return the default address, with any free port if its own is taken."""
    try:
        serving.bind("127.0.0.1", 3001).close()
    except Refused:
        return "127.0.0.1:0"
    return "127.0.0.1:3001"


def _pretend_secrets(repository: Path) -> dict[str, str]:
    """Return a made-up value for each variable that the example refers to."""
    texts = (file.read_text(encoding="utf-8") for file in repository.rglob("*.yaml"))
    return {name: MADE_UP for text in texts for name in REFERENCE.findall(text)}


# The output: each run when it has ended.


async def _narrate(running: Running, repository: Path, *, key: str, password: str, port: int, once: bool) -> None:
    """Tell the first run with all that a newcomer needs, then every further one. Records are posted to the port."""
    store = running.services.store
    told: set[str] = set()
    while True:
        recent = [run async for page in store.runs_pages(repository="example", projects=None, limit=1) for run in page]
        for run in map(json.loads, recent):
            if run["id"] in told:
                continue
            _, *statuses = [json.loads(shown) async for page in store.run_pages(run["id"]) for shown in page]
            _print_run(run, statuses)
            if once:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            if not told:
                _invite(running.address, repository, key=key, password=password, port=port)
            told.add(run["id"])
        await asyncio.sleep(POLL_SECONDS)


def _print_run(run: Value, statuses: list[dict[str, Value]]) -> None:
    if statuses:
        output.write("\n" + tables.table(runs.STATUS_COLUMNS, statuses))
        output.write(runs.status_reasons(statuses))
    commit, message = client.text(run, "commit"), client.text(run, "message")
    what = f"Commit {faults.short_commit(commit)}" if commit else "No commit"
    output.lines(["", f"{what}: {client.text(run, 'outcome')}." + (f" {message}" if message else "")])


def _invite(address: str, repository: Path, *, key: str, password: str, port: int) -> None:
    posted = f"Endpoint    http://{HOST}:{port}  log records with service.name=orders are posted to it"
    output.lines(
        (
            "",
            f"Repository  {repository}",
            f"Console     {address}  sign in as admin with the password {password}",
            f"Key         {key}",
            posted,
            DELIVERS,
            f"Rendered    the Configuration {RENDERED}; a Collector runs it, with the key as the password:",
            f"  otelcol --config={address.replace('://', f'://demo:{key}@')}{COLLECTOR.format(RENDERED)}",
            "",
            "Edit a file there and commit it, and the change shows here. In another terminal:",
            f"  export SERVICE_SERVER={address} SERVICE_API_KEY={key}",
            f"  {sys.argv[0]} get destinations",
            "",
            "Watching; stop with Ctrl-C.",
        )
    )


class Webhook(BaseHTTPRequestHandler):
    """Receives what the example's webhook posts, and prints the first bytes of each body."""

    timeout = SECONDS
    server: ThreadingHTTPServer

    def do_POST(self) -> None:
        """Print the body of a request, which comes from the demonstration itself."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        more = f" ... and {len(body) - SHOWN_BYTES:,} bytes more" if len(body) > SHOWN_BYTES else ""
        shown = body[:SHOWN_BYTES].decode("utf-8", "replace")
        output.line(f"http://{HOST}:{self.server.server_address[1]} got {shown}{more}")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextlib.contextmanager
def _webhook() -> Iterator[int]:
    """Listen at the example's port, or at any port if it is taken, and yield the port."""
    try:
        server = ThreadingHTTPServer((HOST, PORT), Webhook)
    except OSError:
        server = ThreadingHTTPServer((HOST, 0), Webhook)
    with server:
        threading.Thread(target=server.serve_forever, name="webhook", daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
