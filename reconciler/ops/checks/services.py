"""Checks of the listener, programs, repositories, the clock and certificates."""

import asyncio
import errno
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec

from reconciler.delivery import tls
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source
from reconciler.model.errors import ReconcilerError, Refused
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.settings.models import Settings
from reconciler.settings.scalars import Address
from reconciler.worker import sandbox
from reconciler.worker.sandbox import Protections

# The listener: a running service answers there, or another one could listen there.

NAME = "listener"
SECONDS = 3.0
ANY_PORT = 0


def check_listener(setting: str, address: Address, *, process: int | None) -> list[DoctorFinding]:
    """Connect to a running service (`process`), otherwise listen for a moment."""
    where = f"`{setting}`, {address},"
    found = 0 if address.port == ANY_PORT else _listener_error(address, runs=process is not None)
    if process is not None and found:
        told = f"the service runs (process {process}) and does not answer at {where[:-1]} ({_why(found)})"
        return [warning(NAME, told, "look into its log: it starts, hangs, or has other settings")]
    if process is not None:
        return [ok(NAME, f"the service runs (process {process}); {where} is its listener")]
    if found == errno.EADDRINUSE:
        return [error(NAME, f"{where} is in use by another program", "end that, or choose another port")]
    if found == errno.EACCES:
        return [error(NAME, f"{where} is a port for root alone", "choose one from 1024 on, and put a proxy before it")]
    if found:
        return [error(NAME, f"{where} cannot be listened at ({_why(found)})", "correct it")]
    return [ok(NAME, f"the service does not run; {where} is free")]


def _listener_error(address: Address, *, runs: bool) -> int:
    """Return the number of the error, 0 without one."""
    try:
        if runs:
            socket.create_connection((_reached(address.host), address.port), timeout=SECONDS).close()
        else:
            _listen(address)
    except TimeoutError:
        return errno.ETIMEDOUT
    except OSError as problem:
        return problem.errno or errno.EADDRNOTAVAIL
    return 0


def _listen(address: Address) -> None:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen()


def _reached(host: str) -> str:
    """Return the address at which a listener at all addresses is reached."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - where others listen


def _why(number: int) -> str:
    return os.strerror(number).lower()


# The sandbox of the process that reads what others wrote.

SANDBOX_NAME = "sandbox"


def check_sandbox(probe: Callable[[], Protections] = sandbox.probe) -> list[DoctorFinding]:
    """Ask a process that is confined in the same way which of landlock and seccomp are active."""
    try:
        found = probe()
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        told = "the worker could not be started, or could not be confined"
        return [error(SANDBOX_NAME, told, "look into the log of the service, which tries the same")]
    if found.missing:
        told = f"the worker is confined less than it could be: {', and '.join(found.missing)}"
        todo = "all works as it is; use a kernel that has landlock and seccomp, and let a container allow both"
        return [warning(SANDBOX_NAME, told, todo)]
    active = f"landlock (version {found.landlock} of its rules) and seccomp"
    return [ok(SANDBOX_NAME, f"a worker that is started from here is confined by {active}")]


# Programs that the settings need, and the version of git.

PROGRAM_NAME = "programs"
OLDEST_GIT = (2, 39)  # that is tested
PROGRAM_SECONDS = 10.0
HTTPS = "git-remote-https"


def needed_programs(settings: Settings) -> tuple[str, ...]:
    """Return the programs beside git, sorted."""
    found: set[str] = set()
    for repository in settings.repositories:
        if repository.url.startswith("https:"):
            found.add(HTTPS)
        if repository.url.startswith("ssh:"):
            found.update(("ssh", "ssh-keygen"))
        if repository.verify.signers_file is not None:
            found.add("ssh-keygen")
    return tuple(sorted(found))


def check_programs(needed: tuple[str, ...]) -> list[DoctorFinding]:
    """Check that git and these are there. Raises OSError."""
    if shutil.which("git") is None:
        found = [error(PROGRAM_NAME, "there is no program git", "install it, or put its folder into PATH")]
        missing = [name for name in needed if name != HTTPS and shutil.which(name) is None]
    else:
        found = [_git_version(_said("version").strip() or "git")]
        folder = Path(_said("--exec-path").strip())
        missing = [name for name in needed if shutil.which(name) is None and not (folder / name).exists()]
    for name in missing:
        package = "the package of git that has it" if name == HTTPS else "openssh-client, or what has it here"
        told = f"there is no program {name}, which a repository of the settings needs"
        found.append(error(PROGRAM_NAME, told, f"install {package}"))
    return found


def _git_version(said: str) -> DoctorFinding:
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is not None and (int(found[1]), int(found[2])) >= OLDEST_GIT:
        return ok(PROGRAM_NAME, said)
    oldest = ".".join(map(str, OLDEST_GIT))
    told = f"git says that it is `{said}`, and {oldest} is the oldest that is tested"
    return warning(PROGRAM_NAME, told, "install a later one")


def _said(argument: str) -> str:
    try:
        done = subprocess.run(["git", argument], capture_output=True, timeout=PROGRAM_SECONDS, check=False, cwd="/")
    except subprocess.TimeoutExpired:
        return ""
    return done.stdout[:1000].decode("utf-8", "replace")


# Repositories: each can be reached and has what is followed. One poll, by the service's own code and limits.
#
# Nothing is fetched, and mirrors of the service are not touched: the poll has a folder of its own, which is removed
# afterwards. Programs may be run in it, since git asks for a password by one: in `/tmp` of a container they seldom may.

REPOSITORY_NAME = "repositories"
REPOSITORY_SECONDS = 30.0  # for one, however long `timeout` lets a git go on
SHOWN = 12  # characters of a commit


class NamedRepository(NamedTuple):
    """A repository of the settings; a suspended one is not polled."""

    name: str
    source: Source
    is_suspended: bool


async def check_repositories(repositories: Sequence[NamedRepository], *, state: Path) -> list[DoctorFinding]:
    """Poll all of them at once. `state` is the state directory, where no repository may lead."""
    if not repositories:
        return [ok(REPOSITORY_NAME, "the settings name none, so nothing is watched")]
    above = _folder_above(state)
    with tempfile.TemporaryDirectory(prefix=".reconciler-doctor-", dir=above, ignore_cleanup_errors=True) as folder:

        def place(_: Source) -> RemotePlace:
            number = len(list(Path(folder).iterdir()))
            home = Path(folder, str(number))
            home.mkdir()
            return RemotePlace(home / "mirror.git", home / "git", state)

        remotes = Remotes(place, clock=time.monotonic)
        try:
            return list(await asyncio.gather(*(_repository(each, remotes) for each in repositories)))
        finally:
            await remotes.close()


def _folder_above(state: Path) -> Path | None:
    """Return the state directory where the folder for temporary files runs no programs; otherwise None."""
    runs_no_programs = bool(os.statvfs(tempfile.gettempdir()).f_flag & os.ST_NOEXEC)
    is_ours = state.is_dir() and state.stat().st_uid == os.geteuid()
    return state if runs_no_programs and is_ours else None


async def _repository(named: NamedRepository, remotes: Remotes) -> DoctorFinding:
    if named.is_suspended:
        return ok(REPOSITORY_NAME, f"{named.name} is suspended in the settings, and nobody looked")
    try:
        async with asyncio.timeout(REPOSITORY_SECONDS):
            head = await remotes.follow(named.source).poll(insists=True)
    except ReconcilerError as fault:
        return error(REPOSITORY_NAME, f"{named.name}: {fault.message.rstrip('.')}", "")
    except TimeoutError:
        told = f"no answer within {REPOSITORY_SECONDS:g} seconds; look at the network, or at the server"
        return error(REPOSITORY_NAME, f"{named.name}: {told}", "")
    return ok(REPOSITORY_NAME, f"{named.name}: {head.ref or 'HEAD'} is at {head.commit[:SHOWN]}")


# The clock: nothing that was written before is later than now. The source of the time is not checked.

CLOCK_NAME = "clock"
SLACK = timedelta(minutes=2)
MOST_ENTRIES = 1000


def check_clock(now: datetime, folders: Iterable[Path]) -> list[DoctorFinding]:
    """Compare the time with that of the files in these folders. Raises OSError."""
    paths: list[Path] = []
    for folder in folders:
        paths += sorted(folder.iterdir())[:MOST_ENTRIES] if folder.is_dir() else []
    seconds, path = max(((path.lstat().st_mtime, path) for path in paths), default=(0.0, Path()))
    written = datetime.fromtimestamp(seconds, UTC)
    if written <= now + SLACK:
        return [ok(CLOCK_NAME, f"{now:%Y-%m-%dT%H:%M:%SZ}, later than every file; who sets it is not looked at")]
    told = f"it is {now:%Y-%m-%dT%H:%M:%SZ}, and {path} was written {written:%Y-%m-%dT%H:%M:%SZ}"
    todo = "set the clock, by NTP for instance: expiries, signatures and certificates depend on it"
    return [error(CLOCK_NAME, told, todo)]


# Certificates: the listener's, and those of the trusted authorities.

CERTIFICATE_NAME = "certificates"
SOON = timedelta(days=14)


def check_listener_certificate(
    chain: Path, read: Callable[[], ssl.SSLContext], *, now: datetime
) -> list[DoctorFinding]:
    """Check the listener's. `read` is how the service reads it, and raises Refused."""
    renew = "renew it, and `systemctl reload reconciler`"
    try:
        read()
    except Refused as problem:
        return [error(CERTIFICATE_NAME, problem.message.rstrip("."), "")]
    span = tls.certificate_span(chain.read_text(encoding="ascii", errors="replace"))
    if span is None:
        told = f"{chain} was read, and its end could not be"
        return [warning(CERTIFICATE_NAME, told, "look with `openssl x509 -text`")]
    if span.until <= now:
        return [error(CERTIFICATE_NAME, f"{chain} has expired, so that no client connects", renew)]
    if span.since > now:
        return [error(CERTIFICATE_NAME, f"{chain} is not valid yet", "look at the clock, or wait")]
    if span.until <= now + SOON:
        return [warning(CERTIFICATE_NAME, f"{chain} ends {span.until:%Y-%m-%dT%H:%M:%SZ}", renew)]
    return [ok(CERTIFICATE_NAME, f"{chain} fits its key, and is good until {span.until:%Y-%m-%d}")]


def check_authorities(setting: str, path: Path, *, now: datetime) -> list[DoctorFinding]:
    """Check a file of authorities that a setting names."""
    what = f"{path}, the file of `{setting}`,"
    fault = ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        fault = "holds no certificate (PEM)"
    except OSError as problem:
        fault = f"cannot be read ({problem.strerror})"
    if fault:
        return [error(CERTIFICATE_NAME, f"{what} {fault}", "put the authorities' certificates into it")]
    seconds = [ssl.cert_time_to_seconds(str(one["notAfter"])) for one in context.get_ca_certs()]
    ends = [datetime.fromtimestamp(end, UTC) for end in seconds]
    todo = "put the present ones into it"
    if ends and all(end <= now for end in ends):
        return [error(CERTIFICATE_NAME, f"{what} holds only authorities that have expired", todo)]
    if soon := sum(end <= now + SOON for end in ends):
        told = f"{what} holds {soon} of {len(ends)} authorities that have expired, or will in {SOON.days} days"
        return [warning(CERTIFICATE_NAME, told, todo)]
    return [ok(CERTIFICATE_NAME, f"{what} can be used")]
