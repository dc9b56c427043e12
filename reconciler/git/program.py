"""Running the `git` program, with an environment and configuration of ours alone and with every resource bounded.

No user's or system's configuration, no hooks, no prompts, no protocol but local files. What the arguments mean, and
what git's answers mean, is the caller's business.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from reconciler.errors import Refused
from reconciler.git.sources import CONTROL

CHUNK_BYTES = 64 * 1024
STDERR_BYTES = 64 * 1024
ULIMIT_BLOCK_BYTES = 512  # the unit of `ulimit -f` in a POSIX shell
REAP_SECONDS = 5.0  # a process that survives SIGKILL for so long hangs in the kernel (a dead network disk)

# In a file, since options given with -c do not reach the upload-pack that git starts for the other repository.
# Names that would be hostile in a working tree are let through: nothing is ever checked out, snapshots report them
# by name, and one such file must not keep every other file from being read.
CONFIGURATION = """\
[core]
	hooksPath = /dev/null
	logAllRefUpdates = false
	bigFileThreshold = 32m
	fsmonitor = false
[init]
	defaultRefFormat = files
[fetch]
	fsckObjects = true
	unpackLimit = 1
	writeCommitGraph = false
[fetch "fsck"]
	hasDot = ignore
	hasDotdot = ignore
	hasDotgit = ignore
	fullPathname = ignore
	zeroPaddedFilemode = ignore
	badTimezone = ignore
[transfer]
	bundleURI = false
[gc]
	auto = 0
[maintenance]
	auto = false
[protocol "ext"]
	allow = never
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run of git may take."""

    seconds: float
    output_bytes: int = 1 << 20
    file_bytes: int | None = None  # the largest file it may write: a fetch writes one pack


class Output(NamedTuple):
    """How a run of git ended. `truncated`: it wrote more than its limit and was stopped; `stdout` is the beginning."""

    status: int
    stdout: bytes
    stderr: str
    truncated: bool


class GitProgram:
    """The git program as this service runs it. `home` belongs to this object: nothing else may write there."""

    def __init__(self, home: Path, *, safe_directories: Iterable[Path] = ()) -> None:
        # Written here and not on a first use: git takes a missing configuration file for an empty one, and would
        # then run without any of these protections.
        self.home = home
        self.configuration = home / "gitconfig"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.trust(safe_directories)

    def trust(self, safe_directories: Iterable[Path]) -> None:
        """Let git read exactly these local repositories even when another user owns them, from the next run on."""
        _replace(self.configuration, CONFIGURATION + _safe_section(safe_directories))

    def environment(self) -> dict[str, str]:
        """Every variable that git sees; nothing is inherited but the search path for programs."""
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self.configuration),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "file",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_ADVICE": "0",
            "GIT_DEFAULT_HASH": "sha1",
            "GIT_DEFAULT_REF_FORMAT": "files",
        }

    async def run(self, *arguments: str, limits: Limits) -> Output:
        """Run `git arguments...` to its end.

        Raises TimeoutError when it takes longer than its limit. However this call ends, no process of it stays.
        """
        process = await self._start(arguments, limits)
        ended = False
        try:
            async with asyncio.timeout(limits.seconds):
                (stdout, truncated), (stderr, _) = await asyncio.gather(
                    _read(process.stdout, limit=limits.output_bytes, stop=process),
                    _read(process.stderr, limit=STDERR_BYTES, stop=None),
                )
                status = await process.wait()
                ended = not truncated
        finally:
            if not ended:
                await _end(process)
        return Output(status, stdout, stderr.decode("utf-8", "replace"), truncated)

    async def _start(self, arguments: tuple[str, ...], limits: Limits) -> asyncio.subprocess.Process:
        """The process. A caller who is cancelled meanwhile leaves none: asyncio would end git alone, not its group."""
        starting = asyncio.create_task(self._execute(arguments, limits), name="start git")
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(Refused):
                await _end(await starting)
            raise

    async def _execute(self, arguments: tuple[str, ...], limits: Limits) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                *_bounded(["git", *arguments], limits.file_bytes),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                cwd=self.home,
                env=self.environment(),
                start_new_session=True,  # a process group of its own, so that upload-pack and index-pack end with it
            )
        except FileNotFoundError as error:
            raise Refused("the program git is not on PATH; install it") from error


def _bounded(command: list[str], file_bytes: int | None) -> list[str]:
    """The command under a limit of the file size: by the shell, since a limit set after the start comes too late."""
    if file_bytes is None:
        return command
    # The signal is ignored, so that git says "File too large" instead of ending without a word.
    script = 'trap \'\' XFSZ; ulimit -f "$0" && exec "$@"'
    return ["/bin/sh", "-c", script, str(-(-file_bytes // ULIMIT_BLOCK_BYTES)), *command]


async def _read(
    stream: asyncio.StreamReader | None, *, limit: int, stop: asyncio.subprocess.Process | None
) -> tuple[bytes, bool]:
    """The first `limit` bytes of a stream. More than that stops the process, or is thrown away when there is none."""
    kept = bytearray()
    truncated = False
    while stream is not None and (chunk := await stream.read(CHUNK_BYTES)):
        room = limit - len(kept)
        kept += chunk[:room]
        if len(chunk) > room and not truncated:
            truncated = True
            if stop is not None:
                _kill(stop)
    return bytes(kept), truncated


async def _end(process: asyncio.subprocess.Process) -> None:
    _kill(process)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(REAP_SECONDS):
            await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill the whole group. Git leaves locks and temporary packs behind, which the mirror sweeps."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _safe_section(directories: Iterable[Path]) -> str:
    # Git compares with what it opened: of an ordinary repository and of a linked worktree, that is `.git`.
    paths = sorted({str(place) for folder in directories for place in (folder, folder / ".git")})
    return "[safe]\n" + "".join(f"\tdirectory = {_quoted(path)}\n" for path in paths)


def _quoted(path: str) -> str:
    # A lone or trailing asterisk would trust more than one folder, and a control character could end the line.
    if not path.startswith("/") or path.endswith("/*") or CONTROL.search(path):
        raise Refused(f"{path!r} cannot be trusted as the folder of a repository; give an absolute path")
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _replace(path: Path, text: str) -> None:
    """Write a whole file or none of it: git may be started at any moment, or the machine may stop."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
