"""Checks of the service, programs, repositories and certificates."""

import asyncio
import os
import re
import shutil
import ssl
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from reconciler.delivery import tls
from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source, source_of
from reconciler.model.errors import ReconcilerError, Refused
from reconciler.notifications import certificates
from reconciler.ops.doctor import DoctorFinding, error, ok, warning
from reconciler.settings.models import Settings
from reconciler.settings.repositories import Repository
from reconciler.worker import sandbox
from reconciler.worker.sandbox import Protections

NAME = "service"


def check_service(process: int | None) -> list[DoctorFinding]:
    """Return the finding that the service runs, or that it does not."""
    return [ok(NAME, "it does not run" if process is None else f"it runs (process {process})")]


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


async def check_repositories(repositories: Sequence[Repository], *, state: Path) -> list[DoctorFinding]:
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


async def _repository(named: Repository, remotes: Remotes) -> DoctorFinding:
    if named.suspend:
        return ok(REPOSITORY_NAME, f"{named.name} is suspended in the settings, and nobody looked")
    try:
        async with asyncio.timeout(REPOSITORY_SECONDS):
            head = await remotes.follow(source_of(named)).poll(insists=True)
    except ReconcilerError as fault:
        return error(REPOSITORY_NAME, f"{named.name}: {fault.message.rstrip('.')}", "")
    except TimeoutError:
        told = f"no answer within {REPOSITORY_SECONDS:g} seconds; look at the network, or at the server"
        return error(REPOSITORY_NAME, f"{named.name}: {told}", "")
    return ok(REPOSITORY_NAME, f"{named.name}: {head.ref or 'HEAD'} is at {head.commit[:SHOWN]}")


# Certificates: the listener's, and those of the trusted authorities.

CERTIFICATE_NAME = "certificates"


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
    if span is not None and span.since > now:
        return [error(CERTIFICATE_NAME, f"{chain} is not valid yet", "look at the clock, or wait")]
    return [_end(f"{chain}", None if span is None else span.until, now=now, todo=renew)]


def check_authorities(setting: str, path: Path, *, now: datetime) -> list[DoctorFinding]:
    """Check a file of authorities that a setting names. Raises OSError."""
    until = certificates.last_authority(path.read_text(encoding="ascii", errors="replace"))
    return [_end(f"{path}, the file of `{setting}`,", until, now=now, todo="put the present authorities into it")]


def _end(what: str, until: datetime | None, *, now: datetime, todo: str) -> DoctorFinding:
    if until is None:
        return error(CERTIFICATE_NAME, f"{what} holds no certificate (PEM)", todo)
    if until <= now:
        return error(CERTIFICATE_NAME, f"{what} has expired, so that connections fail", todo)
    if until <= now + certificates.SOON:
        return warning(CERTIFICATE_NAME, f"{what} ends {until:%Y-%m-%dT%H:%M:%SZ}", todo)
    return ok(CERTIFICATE_NAME, f"{what} is good until {until:%Y-%m-%d}")
