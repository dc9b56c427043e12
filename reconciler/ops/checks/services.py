"""Checks of the service, git, the sandbox and repositories."""

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from reconciler.git.remotes.following import Remotes
from reconciler.git.remotes.remote import RemotePlace
from reconciler.git.remotes.sources import Source, source_of
from reconciler.model.errors import ReconcilerError
from reconciler.ops.doctor import WORKER, DoctorFinding, error, ok, warning
from reconciler.settings.repositories import Repository
from reconciler.worker.client import COMMAND
from reconciler.worker.process import WorkerGone, WorkerProcess
from reconciler.worker.sandbox import Protections

NAME = "service"


def check_service(process: int | None) -> list[DoctorFinding]:
    """Return the finding that the service runs, or that it does not."""
    return [ok(NAME, "it does not run" if process is None else f"it runs (process {process})")]


# The sandbox of the process that reads what others wrote.

SANDBOX_NAME = "sandbox"
NOWHERE = "/nowhere"  # a path for the store and the mirrors of a worker without a job


def check_sandbox(
    state: Path, *, is_running: bool, command: Sequence[str] = (*COMMAND, NOWHERE, NOWHERE)
) -> list[DoctorFinding]:
    """Check landlock and seccomp: as the worker of the running service reported them, otherwise in a worker that is
    started for this.
    """
    which = "the worker of the service" if is_running else "a worker that is started from here"
    try:
        said = (state / WORKER).read_bytes() if is_running else None
        found = asyncio.run(_probed(command)) if said is None else msgspec.json.decode(said, type=Protections)
    except (OSError, WorkerGone, TimeoutError, msgspec.DecodeError):
        told = f"{which} could not be started, or could not be confined"
        return [error(SANDBOX_NAME, told, "look into the log of the service")]
    if found.missing:
        told = f"{which} is confined less than it could be: {', and '.join(found.missing)}"
        todo = "all works as it is; use a kernel that has landlock and seccomp, and let a container allow both"
        return [warning(SANDBOX_NAME, told, todo)]
    active = f"landlock (version {found.landlock} of its rules) and seccomp"
    return [ok(SANDBOX_NAME, f"{which} is confined by {active}")]


async def _probed(command: Sequence[str]) -> Protections:
    """Start a worker without a job, and end it. Raises OSError, WorkerGone, TimeoutError."""
    ended = asyncio.get_running_loop().create_future()
    worker = await WorkerProcess.start(command, seconds={}, unasked=ended.set_result)
    try:
        async with asyncio.timeout(PROGRAM_SECONDS):
            await asyncio.wait({worker.protections, ended}, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            raise WorkerGone(ended.result())
        return worker.protections.result()
    finally:
        await worker.end()


# The program git and its version. The poll of a repository shows if other programs are missing.

PROGRAM_NAME = "git"
OLDEST_GIT = (2, 39)  # that is tested
PROGRAM_SECONDS = 10.0


def check_git() -> list[DoctorFinding]:
    """Check that git is there, in a version that is tested. Raises OSError."""
    if shutil.which("git") is None:
        return [error(PROGRAM_NAME, "there is no program git", "install it, or put its folder into PATH")]
    try:
        done = subprocess.run(["git", "version"], capture_output=True, timeout=PROGRAM_SECONDS, check=False, cwd="/")
        said = done.stdout[:1000].decode("utf-8", "replace").strip() or "git"
    except subprocess.TimeoutExpired:
        said = "git"
    found = re.search(r"(\d+)\.(\d+)", said)
    if found is not None and (int(found[1]), int(found[2])) >= OLDEST_GIT:
        return [ok(PROGRAM_NAME, said)]
    oldest = ".".join(map(str, OLDEST_GIT))
    told = f"git says that it is `{said}`, and {oldest} is the oldest that is tested"
    return [warning(PROGRAM_NAME, told, "install a later one")]


# Repositories: each can be reached and has the followed ref. The check is one poll with the service's own code and
# limits.
#
# Nothing is fetched, and mirrors of the service are not changed: the poll uses its own folder, which is removed
# afterwards. Programs must be allowed to run there, because git gets a password from one. In `/tmp` of a container this
# is often forbidden.

REPOSITORY_NAME = "repositories"
REPOSITORY_SECONDS = 30.0  # for one repository, whatever its `timeout` is
SHOWN = 12  # characters of a commit


async def check_repositories(repositories: Sequence[Repository], *, state: Path) -> list[DoctorFinding]:
    """Poll all repositories at once. `state` is the state directory, into which no repository may lead."""
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
    """Return the state directory if programs cannot run in the folder for temporary files; otherwise None."""
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
