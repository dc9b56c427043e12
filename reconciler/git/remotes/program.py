"""Running the `git` program with an environment, configuration and limits of our own."""

import asyncio
import os
import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes import processes
from reconciler.git.remotes.credentials import ANONYMOUS, Credentials, replace_file
from reconciler.git.remotes.https import Access, Https, Transport, quoted_path, split_trace
from reconciler.git.remotes.processes import Command, Finished
from reconciler.git.remotes.sources import MAX_MEMORY_BYTES
from reconciler.git.remotes.ssh import Ssh
from reconciler.model import clock
from reconciler.model.clock import Clock
from reconciler.model.errors import Refused, Transient

# Notes on a run, by which `errors` knows the cause.
REDIRECTED = "redirected to "
NO_SMART_PROTOCOL = "the remote does not speak Git's smart protocol"
TOO_MANY_OBJECTS = "it sends too many objects"

# Why a fetch has to be stopped early, read off what git tells of its progress: it brings too many objects, or goes on
# by the older protocol of http, by which objects come that nobody checks or counts.

LINE_BYTES = 16 * 1024  # of a line that goes on in the next piece

# Git's own lines stand at the beginning; before what the remote says of its side there is `remote: `.
_RECEIVING = re.compile(rb"[\r\n](?:Receiving|Unpacking|Indexing) objects: +[0-9]+% \([0-9]+/([0-9]{1,18})\)")
_STRAYED = re.compile(rb"=> Send header: GET (?!\S*/info/refs\?(?:\S*&)?service=git-upload-pack )[^\n]*\n")


class FetchWatch:
    """Watches one fetch with `--progress`. It is called with each piece of its standard error."""

    def __init__(self, most_objects: int, *, is_traced: bool = False) -> None:
        """Begin to watch. `is_traced`: standard error also has the trace of http."""
        self._most = most_objects
        self._is_traced = is_traced
        self._rest = b"\n"

    def __call__(self, piece: bytes) -> str | None:
        """Return why the fetch must be stopped; None as long as it may continue."""
        text = self._rest + piece
        self._rest = text[max(text.rfind(b"\n"), text.rfind(b"\r"), len(text) - LINE_BYTES, 0) :]
        if any(int(found) > self._most for found in _RECEIVING.findall(text)):
            return TOO_MANY_OBJECTS
        return NO_SMART_PROTOCOL if self._is_traced and _STRAYED.search(text) else None


# Running the `git` program with our own environment and configuration, and with limits on every resource.
#
# It gets no configuration of users or the system, no hooks and no prompts. The only protocol is local files, or with
# `remote` that of the repository's URL with its credentials (`https` and `ssh`). The caller knows the arguments and the
# meaning of the output.

# In a file, since options given with -c do not reach the upload-pack that git starts for the other repository.
# Names that would be hostile in a working tree are let through: nothing is ever checked out, snapshots report them
# by name, and one such file must not keep every other file from being read. Git would take memory for each processor.
CONFIGURATION = """\
[core]
	hooksPath = /dev/null
	bigFileThreshold = 32m
[fetch]
	fsckObjects = true
	unpackLimit = 1
[fetch "fsck"]
	hasDot = ignore
	hasDotdot = ignore
	hasDotgit = ignore
	fullPathname = ignore
	zeroPaddedFilemode = ignore
	badTimezone = ignore
[pack]
	threads = 2
	windowMemory = 64m
"""

# For what `git upload-pack` packs here, of a repository on this machine. To compress a folder of many files, or to find
# what changed in it, takes longer than all else, and is done once for many commits, when packs are joined. With git's
# own limit on the cache, 96 MiB, each step of a chain of differences takes fresh memory of the system's, which costs
# more than the step. Chains are short, because git asks for the types of all files of a changed folder, and follows the
# chain of each.
LOCAL_CONFIGURATION = """\
[core]
	deltaBaseCacheLimit = 16m
[pack]
	compression = 0
	window = 0
	depth = 5
"""

FAILED = 128  # the status with which git ends when it cannot go on


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run of git."""

    seconds: float
    output_bytes: int = 1 << 20
    file_bytes: int | None = None  # the largest file it may write: a fetch writes one pack
    objects: int | None = None  # the most that a fetch with --progress may bring
    memory_bytes: int = MAX_MEMORY_BYTES  # of each process, when it talks to a remote


class Output(NamedTuple):
    """The end of a run of git.

    `truncated`: it wrote more than its limit and was stopped; `stdout` is the beginning. `stderr` is the raw text of
    limited size, which may have the `secrets` of the run. `retry_after` is the number of seconds that the remote asks
    to wait; None if it did not say. `notes` are our own findings: why git was stopped, a redirect, the signal that
    ended it. The target of a redirect is text from the remote.
    """

    status: int
    stdout: bytes
    stderr: str
    truncated: bool
    retry_after: float | None = None
    notes: tuple[str, ...] = ()
    secrets: frozenset[bytes] = frozenset()


class GitProgram:
    """The git program as this service runs it. `home` belongs to this object: nothing else may write there.

    Of repositories of other users, it reads only those in `safe_directories`. Nothing is written until the first run.
    """

    def __init__(
        self,
        home: Path,
        *,
        safe_directories: Iterable[Path] = (),
        url: str = "",
        credentials: Credentials = ANONYMOUS,
        now: Clock = clock.now,
    ) -> None:
        self.home = home
        self.configuration = home / "gitconfig"
        self._now = now
        self._url = url
        self._safe_directories = frozenset(safe_directories)
        self._transport = _transport(url, credentials, home=home)
        self._is_installed = False
        self._installing = threading.Lock()  # a caller that is cancelled leaves its thread behind

    def environment(self, *, protocol: str = "file") -> dict[str, str]:
        """Return the variables of every run. Only the search path for programs is inherited."""
        return {
            **processes.environment(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self.configuration),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": protocol,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ADVICE": "0",
            "GIT_DEFAULT_HASH": "sha1",
            "GIT_DEFAULT_REF_FORMAT": "files",
            "TZ": "UTC",  # of times in files of signers
            "TMPDIR": str(self.home),
            "GIT_PROTOCOL": "version=2",  # of an upload-pack that we start: git tells it to those that it starts
            # glibc keeps freed memory: for a folder of many files, git would take the same pages again and again.
            "MALLOC_TOP_PAD_": str(8 << 20),
        }

    async def run(
        self, *arguments: str, limits: Limits, remote: bool = False, stdin: int = asyncio.subprocess.DEVNULL
    ) -> Output:
        """Run `git arguments...` to its end. With `remote`, it may connect to the URL, with the present credentials.
        `stdin` is a descriptor that it reads from its present position.

        Raises TimeoutError if it takes longer than its limit, and GitFault: unreachable if git cannot be started, and
        with `remote` unauthorized for an unusable file of credentials. In every case, no process of it remains.
        """
        try:
            async with asyncio.timeout(limits.seconds):
                if not self._is_installed or not self.configuration.exists():
                    await asyncio.to_thread(self._install)
                transport = self._transport if remote else Transport("file")
                async with transport.access() as access:
                    watch = None
                    if limits.objects is not None:
                        watch = FetchWatch(limits.objects, is_traced=transport.protocol in {"https", "http"})
                    command = Command(
                        arguments=("git", *arguments),
                        folder=self.home,
                        environment={**self.environment(protocol=transport.protocol), **access.environment},
                        descriptors=access.descriptors,
                        stdin=stdin,
                        seconds=limits.seconds,
                        output_bytes=limits.output_bytes,
                        file_bytes=limits.file_bytes,
                        data_bytes=limits.memory_bytes if remote else None,
                        watch=watch,
                    )
                    return self._output(await processes.run_command(command), access)
        except Transient as fault:
            raise GitFault(RepositoryState.UNREACHABLE, fault.message) from fault
        except Refused as refused:
            raise GitFault(RepositoryState.UNREACHABLE, refused.message, lasting=True) from refused

    def _install(self) -> None:
        """Write the files for every run. Call it before each run, because git ignores a missing configuration."""
        with self._installing:
            try:
                self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
                is_local = self._transport.protocol == "file"
                added = LOCAL_CONFIGURATION if is_local else self._transport.install()
                replace_file(self.configuration, CONFIGURATION + added + _safe_section(self._safe_directories))
            except OSError as error:
                told = f"the folder {self.home} cannot be written ({os.strerror(error.errno or 0)})"
                raise Transient(f"{told}; mend that, and it is made") from error
            self._is_installed = True

    def _output(self, finished: Finished, access: Access) -> Output:
        errors, answers = split_trace(finished.errors)
        led = answers.redirect(self._url)
        notes = [finished.stopped, None if led is None else f"{REDIRECTED}{led}"]
        if finished.stopped is not None and finished.status == 0:
            finished = finished._replace(status=FAILED)  # it ended by itself before the signal reached it
        if finished.status == 0 and answers.is_foreign:
            # Git takes any page for a repository of the oldest kind, which has no refs: it would seem to be empty.
            notes.append(NO_SMART_PROTOCOL)
            finished = finished._replace(status=FAILED, stdout=b"")
        if finished.status < 0 and not finished.truncated and finished.stopped is None:
            notes.append("a signal ended git")  # of somebody else, which says nothing of the repository
        return Output(
            finished.status,
            finished.stdout,
            errors.decode("utf-8", "replace"),
            finished.truncated,
            answers.retry_after(self._now()),
            tuple(note for note in notes if note is not None),
            access.secrets,
        )


def _transport(url: str, credentials: Credentials, *, home: Path) -> Transport:
    scheme = urlsplit(url).scheme or "file"
    if scheme in {"https", "http"}:
        return Https(url, credentials, home=home)
    return Ssh(credentials, home=home) if scheme == "ssh" else Transport(scheme)


def _safe_section(directories: Iterable[Path]) -> str:
    # Git compares with what it opened: of an ordinary repository and of a linked worktree, that is `.git`.
    paths = sorted({str(place) for folder in directories for place in (folder, folder / ".git")})
    return "[safe]\n" + "".join(f"\tdirectory = {_trusted(path)}\n" for path in paths)


def _trusted(path: str) -> str:
    if path.endswith("/*"):  # which would trust more than one folder
        raise Refused(f"{path!r} cannot be trusted as the folder of a repository; rename it")
    return quoted_path(path)
