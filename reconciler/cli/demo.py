"""`reconciler demo`: the daemon on a throw-away copy of a folder, committed to a repository made for it.

It shows what the product does and leaves nothing behind: repository, state and key go when it stops. References to
secrets lead to made-up ones (`pretending`). What the example's webhook posts arrives here, too (`receiving`).
"""

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import resources
from itertools import islice
from pathlib import Path

import click
import msgspec

from api import app
from reconciler.cli import output, pretending, receiving, tables
from reconciler.cli.receiving import RecordReceiver
from reconciler.git import faults
from reconciler.model.errors import Refused
from reconciler.ops import logging as ops_logging
from reconciler.server import daemon, serving
from reconciler.server.daemon import Running
from reconciler.settings import loading

POLL_SECONDS = 0.1
COPIED_FILES = 10_000  # a demonstration, not an import
SHOWN_BYTES = 500  # of what arrives in one request
TOLD_BY_THE_NARRATOR = "reconciler.reconciling"  # what becomes of each commit; in a service the log alone says it
ACCESS = "reconciler.auth.accounts"
FIRST_ADMIN = "reconciler.server.sign_in"  # somebody to sign in as, where the demonstration's key does
IDENTITY = ("-c", "user.name=Demo", "-c", "user.email=demo@localhost", "-c", "commit.gpgSign=false")


class _Status(msgspec.Struct):
    kind: str | None
    name: str | None
    status: str
    reason: str | None = None
    path: str | None = None
    line: int | None = None
    notes: tuple[str, ...] = ()


class _Run(msgspec.Struct):
    id: str
    commit: str | None
    outcome: str
    message: str | None
    statuses: tuple[_Status, ...] = ()


@click.command()
@click.argument("folder", required=False, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--listen", help="Where to listen, host:port; 127.0.0.1:3001 when left out, or a free port.")
@click.option("--once", is_flag=True, help="Stop after the first table.")
def demo(folder: Path | None, listen: str | None, *, once: bool) -> None:
    """Run the daemon on a copy of FOLDER (the example repository when left out), and show what each commit does."""
    with (
        tempfile.TemporaryDirectory(prefix="reconciler-demo-") as temporary,
        contextlib.nullcontext() if folder else receiving.listen_for_records() as listener,
    ):
        place = Path(temporary)
        copy(folder or example(), place / "repository", listener)
        key = secrets.token_urlsafe(32)
        # Without the environment: what somebody has set for a real service has no place in a demonstration.
        settings = loading.load(
            config=write_settings(place), environment={}, overrides={"listen": listen or free_address(), "apiKey": key}
        ).settings
        ops_logging.set_up(level=settings.log.level, style="text")
        for unsaid in (TOLD_BY_THE_NARRATOR, ACCESS, FIRST_ADMIN):
            logging.getLogger(unsaid).setLevel(logging.ERROR)

        async def show(running: Running) -> None:
            narrator = Narrator(running, place / "repository", key=key)
            if listener is None:
                await narrator.narrate(once=once)
                return
            async with RecordReceiver(listener).receiving() as receiver:
                # Not a group: what one of them raises is for `daemon.start` as it is.
                await asyncio.gather(narrator.narrate(once=once, endpoint=receiver.address), show_arrivals(receiver))

        environment = pretending.pretend_secrets(place / "repository", settings.state_dir / "secrets" / "default")
        daemon.start(
            daemon.StartPlan(
                settings=settings,
                reload=lambda: settings,
                application=app.build,
                log_application=app.build_for_logs,
                when_up=show,
                environment=environment,
            )
        )
    output.line("Stopped.")


def example() -> Path:
    """The example repository: beside the package in a checkout, inside it when installed."""
    package = Path(str(resources.files("reconciler")))
    for candidate in (package.parent / "examples" / "repo", package / "examples" / "repo"):
        if candidate.is_dir():
            return candidate
    raise Refused("The example repository is not installed; name a folder of YAML files: reconciler demo FOLDER.")


def free_address() -> str:
    """The usual address, or any port of it when somebody has it: a demonstration should not fail for that."""
    try:
        serving.bind("127.0.0.1", 3001).close()
    except Refused:
        return "127.0.0.1:0"
    return "127.0.0.1:3001"


def copy(folder: Path, target: Path, listener: socket.socket | None) -> None:
    """A new repository whose first commit holds what the folder holds; of the example, its webhook posts to the
    listener.
    """
    count = sum(1 for _ in islice(files(folder), COPIED_FILES + 1))
    if count > COPIED_FILES:
        raise Refused(f"{folder} holds more than {COPIED_FILES:,} files, too many for a demonstration.")
    try:
        shutil.copytree(folder, target, ignore=shutil.ignore_patterns(".git"), symlinks=True)
    except shutil.Error as error:
        (place, _, why), *_ = error.args[0]
        raise Refused(f"{place} cannot be copied ({why}); name a folder of files that you may read.") from error
    if listener is not None:
        receiving.redirect_records(target, listener)
    git(target, "init", "--quiet", "--initial-branch=main")
    git(target, "add", "--all")
    if not git(target, "ls-files"):
        ignored = ", save what its .gitignore leaves out" if count else ""
        raise Refused(f"{folder} holds no files{ignored}; name a folder of YAML files: reconciler demo FOLDER.")
    git(target, *IDENTITY, "commit", "--quiet", "--message=Copy the example")


def files(folder: Path) -> Iterator[str]:
    """The names of the files that a copy gets."""
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        yield from names


def git(repository: Path, *arguments: str) -> bytes:
    """Run git in the demonstration's repository; what it writes."""
    command = ["git", "-C", str(repository), *arguments]
    try:
        return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
    except FileNotFoundError as error:
        raise Refused("git is not installed; install it and try again.") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise Refused(f"git could not prepare the repository: {said[0] if said else error.returncode}.") from error


def write_settings(place: Path) -> Path:
    """A settings file for this demonstration alone."""
    path = place / "config.json"
    repository = {"name": "example", "url": str(place / "repository"), "branch": "main", "interval": "5s"}
    settings = {"stateDir": str(place / "state"), "repositories": [repository], "log": {"level": "warning"}}
    path.write_bytes(msgspec.json.encode(settings))
    return path


class Narrator:
    """Says what each run did, as it comes."""

    def __init__(self, running: Running, repository: Path, *, key: str) -> None:
        self._running = running
        self._repository = repository
        self._key = key
        self._told: set[str] = set()

    async def narrate(self, *, once: bool, endpoint: str = "") -> None:
        """Tell the first run with all that a newcomer needs, then every further one. `endpoint`: where records go."""
        self._tell(await self._next())
        if once:
            os.kill(os.getpid(), signal.SIGTERM)
            return
        self._invite(endpoint)
        while True:
            self._tell(await self._next())

    async def _next(self) -> _Run:
        store = self._running.services.store
        while True:
            for recent in await store.runs(repository="example", limit=1):
                run = msgspec.json.decode(recent, type=_Run)
                if run.id not in self._told:
                    self._told.add(run.id)
                    _, *statuses = [shown async for page in store.run_pages(run.id) for shown in page]
                    told = tuple(msgspec.json.decode(status, type=_Status) for status in statuses)
                    return msgspec.structs.replace(run, statuses=told)
            await asyncio.sleep(POLL_SECONDS)

    def _tell(self, run: _Run) -> None:
        rows = [(one.status, one.kind or "", one.name or "", _place(one)) for one in run.statuses]
        if rows:
            colour = output.coloured(output.Color.AUTO)
            output.write("\n" + tables.render_table(("STATUS", "KIND", "NAME", "WHERE"), rows, colour=colour))
        for one in run.statuses:
            for reason in (one.reason or "").splitlines():
                output.line(reason)
            for note in one.notes:
                output.line(f"note: {note}")
        output.write("\n")
        output.line(_verdict(run))

    def _invite(self, endpoint: str) -> None:
        address = self._running.address
        lines = (
            "",
            f"Repository  {self._repository}",
            f"Address     {address}",
            f"Key         {self._key}",
            *([f"Endpoint    {endpoint}  log records with service.name=orders are posted to it"] if endpoint else ()),
            "",
            "Edit a file there and commit it, and the change shows here. In another terminal:",
            f"  export SERVICE_SERVER={address} SERVICE_API_KEY={self._key}",
            f"  {sys.argv[0]} get destinations",
            "",
            "Watching; stop with Ctrl-C.",
        )
        output.write("\n".join(lines) + "\n")


async def show_arrivals(receiver: RecordReceiver) -> None:
    """Show the bodies that are posted to the endpoint, or how they begin."""
    while True:
        body = await receiver.next()
        more = f" ... and {len(body) - SHOWN_BYTES:,} bytes more" if len(body) > SHOWN_BYTES else ""
        output.line(f"{receiver.address} got {body[:SHOWN_BYTES].decode('utf-8', 'replace')}{more}")


def _verdict(run: _Run) -> str:
    """What became of the commit, in one line."""
    what = "No commit" if run.commit is None else f"Commit {faults.short_commit(run.commit)}"
    return f"{what}: {run.outcome}." + (f" {run.message}" if run.message else "")


def _place(one: _Status) -> str:
    return f"{one.path}:{one.line}" if one.path else ""
