"""`reconciler demo`."""

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
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from importlib import resources
from itertools import islice
from pathlib import Path

import click
import msgspec

from api import app
from reconciler.cli import output, tables
from reconciler.git import faults
from reconciler.model import positions, secret_references
from reconciler.model.errors import Refused
from reconciler.model.secret_references import SecretReference, SecretSource
from reconciler.ops import logging as ops_logging
from reconciler.server import daemon, serving
from reconciler.server.daemon import Running
from reconciler.settings import loading

# Secrets for a demonstration: something made up for each reference in a folder, so that all of them lead somewhere.

VALUE = "made up for the demonstration"


def pretend_secrets(folder: Path, secrets: Path) -> dict[str, str]:
    """Write the files that are referred to below `secrets`, a project's folder; the variables that are."""
    found = set(secret_references_in(folder))
    for reference in sorted(found):
        if reference.source is SecretSource.FILE:
            file = secrets / reference.name
            with suppress(OSError):  # `a` and `a/b` cannot both be: what is missing is told like any other
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(VALUE)
    return {reference.name: VALUE for reference in found if reference.source is SecretSource.ENV}


def secret_references_in(folder: Path) -> Iterator[SecretReference]:
    """Every good reference in the files of a folder, as often as it stands there."""
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            yield from filter(None, secret_references.find_secret_references(_text(Path(above, name))))


def _text(file: Path) -> str:
    """What is in it, as far as a service would read it; nothing of a link or a pipe."""
    if file.is_symlink() or not file.is_file():
        return ""
    with file.open("rb") as opened:
        return opened.read(positions.FILE_LIMITS.bytes).decode("utf-8", "replace")


# The endpoint of a demonstration: takes what a webhook of the example repository posts, for somebody to see.
#
# It listens where the example says, or on any port of this machine when somebody has that: `redirect` writes that port
# into a copy of the example.

HOST, PORT = "127.0.0.1", 8088  # as in FILE
FILE = Path("teams/orders/orders.yaml")
HEAD_BYTES = 1 << 16
BODY_BYTES = 1 << 24  # a request has 1 MiB of records or one record, and that came in a request of 8 MiB
SECONDS = 30.0  # for one request
WAITING = 10  # bodies that nobody has shown yet; more wait for their answer
ANSWER = "HTTP/1.1 {} \r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def listen_for_records() -> socket.socket:
    """Where the example posts to, or any port. Raises Refused when there is none."""
    try:
        return _listening(PORT)
    except (Refused, OSError):
        return _listening(0)


def _listening(port: int) -> socket.socket:
    listener = serving.bind(HOST, port)
    try:
        listener.listen()  # only now is it sure that nobody else does
    except OSError:
        listener.close()
        raise
    return listener


def redirect_records(copy: Path, listener: socket.socket) -> None:
    """Have the webhook in a copy of the example post to the listener."""
    file, (_, port) = copy / FILE, listener.getsockname()
    file.write_text(file.read_text(encoding="utf-8").replace(f"value: {PORT}\n", f"value: {port}\n"), encoding="utf-8")


class RecordReceiver:
    """Takes one request of a connection."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._bodies: asyncio.Queue[bytes] = asyncio.Queue(WAITING)

    @property
    def address(self) -> str:
        """Its URL, without a path."""
        host, port = self._listener.getsockname()
        return f"http://{host}:{port}"

    @contextlib.asynccontextmanager
    async def receiving(self) -> AsyncIterator["RecordReceiver"]:
        """Take requests for as long as the context lasts."""
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=HEAD_BYTES)
        try:
            yield self
        finally:
            server.close()  # connections end with the loop: nobody is left to wait for them

    async def next(self) -> bytes:
        """The next body."""
        return await self._bodies.get()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gone = (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        try:
            with contextlib.suppress(*gone):
                async with asyncio.timeout(SECONDS):
                    writer.write(ANSWER.format(await self._take(reader)).encode())
                    await writer.drain()
        finally:
            writer.close()

    async def _take(self, reader: asyncio.StreamReader) -> int:
        """Read a request; the status that it is answered with."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0].strip()
        if not length.isdigit():
            return 411
        if len(length) > len(str(BODY_BYTES)) or int(length) > BODY_BYTES:
            return 413
        await self._bodies.put(await reader.readexactly(int(length)))
        return 200


# `reconciler demo`: the daemon on a throw-away copy of a folder, committed to a repository made for it.
#
# It shows what the product does and leaves nothing behind: repository, state and key go when it stops. References to
# secrets lead to made-up ones. What the example's webhook posts arrives here, too.

POLL_SECONDS = 0.1
COPIED_FILES = 10_000  # a demonstration, not an import
SHOWN_BYTES = 500  # of what arrives in one request
DELIVERS = "Delivers    the Configuration orders; the others are for collectors (docs/what-has-effect.md)"
TOLD_BY_THE_NARRATOR = "reconciler.reconcile"  # what becomes of each commit; in a service the log alone says it
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
        contextlib.nullcontext() if folder else listen_for_records() as listener,
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

        environment = pretend_secrets(place / "repository", settings.state_dir / "secrets" / "default")
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
        redirect_records(target, listener)
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
            *([DELIVERS] if endpoint else ()),
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
