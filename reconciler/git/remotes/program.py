"""Running the `git` program with an environment, configuration and limits of our own.

Each run has a thread of its own. `subprocess` starts a program with vfork; the event loop would copy the page tables of
this process, which takes several milliseconds of CPU. Only this thread closes its pipes, so it never closes a file that
another thread opened under the same number.
"""

import asyncio
import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.remotes.credentials import ANONYMOUS, Access, Credentials, Transport, quoted_path, replace_file
from reconciler.git.remotes.https import Https, split_trace
from reconciler.git.remotes.sources import MAX_MEMORY_BYTES
from reconciler.git.remotes.ssh import Ssh
from reconciler.model import clock
from reconciler.model.clock import Clock
from reconciler.model.errors import Refused, Transient, system_reason
from reconciler.settings import bounded_io

CHUNK_BYTES = 64 * 1024
STDERR_BYTES = 64 * 1024
ULIMIT_BLOCK_BYTES = 512  # the unit of `ulimit -f` in a POSIX shell
ULIMIT_DATA_BYTES = 1024  # the unit of `ulimit -d`
NOT_FOUND = 127  # the status of a shell that did not find the program
REAP_SECONDS = 5.0  # a process that survives SIGKILL this long hangs in the kernel (a dead network disk)
WAKE_SECONDS = 1.0  # between two checks if the program was killed while another process keeps its pipes open

Watch = Callable[[bytes], str | None]


class Finished(NamedTuple):
    """The end of a program.

    `truncated`: it wrote more than its limit and was stopped; `stdout` is the beginning. `errors` is the end of its
    standard error, in whole lines. `stopped` is the reason if `watch` stopped it.
    """

    status: int
    stdout: bytes
    truncated: bool
    errors: bytes
    stopped: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A program with its arguments. It and its children inherit only these `descriptors`.

    `watch` gets all of its standard error, piece by piece, in another thread, and may stop it by returning a reason.
    """

    arguments: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    descriptors: tuple[int, ...] = ()
    stdin: int = subprocess.DEVNULL  # a descriptor that it reads from its present position
    seconds: float
    output_bytes: int
    file_bytes: int | None = None
    data_bytes: int | None = None  # of memory, for each process; files that it maps do not count
    watch: Watch | None = None


def base_environment(home: Path) -> dict[str, str]:
    """Return the variables of every program. Only the search path for programs is inherited."""
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "LC_ALL": "C"}


async def run_command(command: Command) -> Finished:
    """Run a program to its end.

    Raises TimeoutError if it takes longer than its limit, Refused if there is no such program, Transient if it cannot
    be started now. In every case, no process of it remains.
    """
    run = _Run(command)
    ended = bounded_io.on_thread(run.finish)
    try:
        async with asyncio.timeout(command.seconds):
            return await asyncio.shield(ended)
    finally:
        run.kill()
        if not ended.done():
            await _reaped(ended)


async def _reaped(ended: "asyncio.Future[Finished]") -> None:
    """Wait until a killed program has ended, even if the caller is cancelled again, since it takes only a moment."""
    loop = asyncio.get_running_loop()
    end = loop.time() + REAP_SECONDS + WAKE_SECONDS
    while not ended.done() and loop.time() < end:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({ended}, timeout=end - loop.time())
    if ended.done() and not ended.cancelled():
        ended.exception()  # mark it as retrieved: the caller is gone


class _Run:
    """A program and the thread that reads its output."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._lock = threading.Lock()  # so that a reused process number is never killed
        self._process: subprocess.Popen[bytes] | None = None
        self._is_over = False
        self._stdout = bytearray()
        self._truncated = False
        self._stderr = bytearray()
        self._is_cut = False
        self._stopped: str | None = None

    def kill(self) -> None:
        """Kill the program and its process group, unless it has ended."""
        with self._lock:
            self._is_over = True
            if self._process is not None and self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)

    def finish(self) -> Finished:
        """Start the program, and read its output until it has ended."""
        with self._lock:
            if self._is_over:
                raise Transient("the program was not started, since nobody waits for it")
            process = self._process = _started(self._command)
        try:
            self._read(process)
        finally:
            self._reap(process)
        status = process.returncode
        if status == NOT_FOUND:  # the shell reports it as a status
            _check_program(self._command)
        errors = bytes(self._stderr)
        if self._is_cut:  # the author of a partial line is unknown, and it may contain a part of a secret
            errors = errors.partition(b"\n")[2]
        return Finished(status, bytes(self._stdout), self._truncated, errors, self._stopped)

    def _read(self, process: "subprocess.Popen[bytes]") -> None:
        """Read both pipes to their ends, or until it is killed."""
        with selectors.DefaultSelector() as selector:
            for pipe, take in ((process.stdout, self._take_output), (process.stderr, self._take_error)):
                assert pipe is not None
                selector.register(pipe, selectors.EVENT_READ, take)
            while selector.get_map() and not self._is_over:
                for key, _ in selector.select(WAKE_SECONDS):
                    if chunk := os.read(key.fd, CHUNK_BYTES):
                        key.data(chunk)
                    else:
                        selector.unregister(key.fileobj)

    def _reap(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for its end. It is near, because the program closed its pipes or was killed."""
        while not self._is_over:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(WAKE_SECONDS)
                break
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(REAP_SECONDS)
        with self._lock:
            process.poll()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        if process.returncode is None:
            raise Transient(f"the program {self._command.arguments[0]} hangs in the kernel; it is tried again")

    def _take_output(self, chunk: bytes) -> None:
        room = self._command.output_bytes - len(self._stdout)
        self._stdout += chunk[:room]
        if len(chunk) > room:
            self._truncated = True
            self.kill()

    def _take_error(self, chunk: bytes) -> None:
        if self._command.watch is not None and self._stopped is None:
            self._stopped = self._command.watch(chunk)
            if self._stopped is not None:
                self.kill()
        self._stderr += chunk
        if len(self._stderr) > STDERR_BYTES:
            self._is_cut = True
            del self._stderr[:-STDERR_BYTES]


def _started(command: Command) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            _bounded(command),
            stdin=command.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            cwd=command.folder,
            env=command.environment,
            pass_fds=command.descriptors,
            start_new_session=True,  # a process group of its own, so that its children end with it
        )
    except OSError as error:
        if isinstance(error, FileNotFoundError):  # the program or the working directory is missing
            _check_program(command)
        told = f"the program {command.arguments[0]} cannot be started ({system_reason(error)})"
        raise Transient(f"{told}; it is tried again") from error


def _check_program(command: Command) -> None:
    if shutil.which(command.arguments[0], path=command.environment.get("PATH")) is None:
        raise Refused(f"the program {command.arguments[0]} is not on PATH; install it")


def _bounded(command: Command) -> tuple[str, ...]:
    """Return the command with its limits. The shell sets them, because after the start it would be too late."""
    limits = []
    if command.file_bytes is not None:
        # The signal is ignored, so that git says "File too large" instead of ending without a word.
        limits += ["trap '' XFSZ", f"ulimit -f {-(-command.file_bytes // ULIMIT_BLOCK_BYTES)}"]
    if command.data_bytes is not None:
        limits += [f"ulimit -d {-(-command.data_bytes // ULIMIT_DATA_BYTES)}"]
    if not limits:
        return command.arguments
    return ("/bin/sh", "-c", " && ".join([*limits, 'exec "$@"']), "sh", *command.arguments)


# Notes on a run, by which `errors` knows the cause.
REDIRECTED = "redirected to "
NO_SMART_PROTOCOL = "the remote does not speak Git's smart protocol"
TOO_MANY_OBJECTS = "it sends too many objects"

# Reasons to stop a fetch early, found in git's progress: it brings too many objects, or it uses the older http
# protocol, whose objects are not checked and counted.

LINE_BYTES = 16 * 1024  # of an incomplete line that continues in the next piece

# Git's own text begins at the start of a line. Text of the remote comes after `remote: `.
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

# In a file, because options with -c do not reach the upload-pack that git starts for the other repository. Names that
# would be hostile in a working tree are accepted: nothing is checked out, snapshots report them by name, and one such
# file must not block all others. One thread, because git needs memory for each thread.
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

# For packs that `git upload-pack` makes here, of a repository on this machine. Compressing a folder of many files, or
# finding its changes, takes longer than everything else, so it is done once for many commits, when packs are joined.
# With git's default cache of 96 MiB, each step of a delta chain takes new memory from the system, which costs more than
# the step. Delta chains are short, because git reads the types of all files of a changed folder through the chain of
# each.
LOCAL_CONFIGURATION = """\
[core]
	deltaBaseCacheLimit = 16m
[pack]
	compression = 0
	window = 0
	depth = 5
"""

FAILED = 128  # git's status after a fatal error


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

    It reads repositories of other users only if they are in `safe_directories`. Nothing is written until the first run.
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
        self._installing = threading.Lock()  # a cancelled caller leaves its thread running

    def environment(self, *, protocol: str = "file") -> dict[str, str]:
        """Return the variables of every run. Only the search path for programs is inherited."""
        return {
            **base_environment(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self.configuration),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": protocol,
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ADVICE": "0",
            "GIT_DEFAULT_HASH": "sha1",
            "GIT_DEFAULT_REF_FORMAT": "files",
            "TZ": "UTC",  # for times in files of signers
            "TMPDIR": str(self.home),
            "GIT_PROTOCOL": "version=2",  # for an upload-pack that we start; git sets it for its own
            # Let glibc keep freed memory: otherwise git would request the same pages again and again for a folder of
            # many files.
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
                    is_traced = transport.protocol in {"https", "http"}
                    watch = None if limits.objects is None else FetchWatch(limits.objects, is_traced=is_traced)
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
                    return self._output(await run_command(command), access, is_traced=is_traced)
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

    def _output(self, finished: Finished, access: Access, *, is_traced: bool) -> Output:
        errors, retry_after, notes = finished.errors, None, [finished.stopped]
        if finished.stopped is not None and finished.status == 0:
            finished = finished._replace(status=FAILED)  # the program ended by itself before the signal arrived
        if is_traced:
            errors, answers = split_trace(errors)
            retry_after, led = answers.retry_after(self._now()), answers.redirect(self._url)
            notes.append(None if led is None else f"{REDIRECTED}{led}")
            if finished.status == 0 and answers.is_foreign:
                # Git treats any page as a repository of the oldest protocol without refs, so it would seem empty.
                notes.append(NO_SMART_PROTOCOL)
                finished = finished._replace(status=FAILED, stdout=b"")
        if finished.status < 0 and not finished.truncated and finished.stopped is None:
            notes.append("a signal ended git")  # not ours, and unrelated to the repository
        return Output(
            finished.status,
            finished.stdout,
            errors.decode("utf-8", "replace"),
            finished.truncated,
            retry_after,
            tuple(note for note in notes if note is not None),
            access.secrets,
        )


def _transport(url: str, credentials: Credentials, *, home: Path) -> Transport:
    scheme = urlsplit(url).scheme or "file"
    if scheme in {"https", "http"}:
        return Https(url, credentials, home=home)
    return Ssh(credentials, home=home) if scheme == "ssh" else Transport(scheme)


def _safe_section(directories: Iterable[Path]) -> str:
    # Git compares with the path that it opened, which is `.git` for an ordinary repository and a linked worktree.
    paths = sorted({str(place) for folder in directories for place in (folder, folder / ".git")})
    return "[safe]\n" + "".join(f"\tdirectory = {_trusted(path)}\n" for path in paths)


def _trusted(path: str) -> str:
    if path.endswith("/*"):  # this would trust more than one folder
        raise Refused(f"{path!r} cannot be trusted as the folder of a repository; rename it")
    return quoted_path(path)
