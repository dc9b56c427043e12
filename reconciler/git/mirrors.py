"""A mirror: a bare repository of our own, into which one branch of another repository is fetched.

Nothing is ever checked out, and the other repository is only read. Reading what was fetched is in `snapshots`.
Use one mirror from one task: nothing here locks.
"""

import asyncio
import contextlib
import re
import shutil
from pathlib import Path
from typing import NamedTuple

from reconciler.errors import Refused
from reconciler.git import faults, permissions
from reconciler.git.faults import GitFault, State
from reconciler.git.program import GitProgram, Limits, Output
from reconciler.git.sources import Source, check_branch

PRIVATE_REF = "refs/reconciler/head"  # one name whatever the branch is called, so that `a` can become `a/b`
OWN_SECONDS = 60.0  # for what git does in our own mirror alone
PROBE_BYTES = 64 * 1024  # enough refs to know that there are some
MANY_PACKS = 50  # every fetch adds one pack, and a read looks into all of them

SLOW = "look whether its disk hangs, or raise `timeout`"
SLOW_OWN = "look whether the disk of `stateDir` hangs"

OBJECT_ID = re.compile(r"[0-9a-f]{40}")
SHA256_CHARACTERS = 64

# What a killed git leaves behind. Nobody else writes into a mirror, so whatever is found is stale.
LEFTOVERS = (
    "*.lock",
    "refs/**/*.lock",
    "objects/tmp_*",
    "objects/incoming-*",
    "objects/[0-9a-f][0-9a-f]/tmp_*",
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/pack/*.lock",
)


class Head(NamedTuple):
    """The commit that a branch is at. `ref` is its full name, or `HEAD` when that names no branch."""

    ref: str
    commit: str

    @property
    def branch(self) -> str | None:
        """The branch's short name; None for a detached HEAD."""
        return self.ref.removeprefix("refs/heads/") if self.ref.startswith("refs/heads/") else None


class Mirror:
    """One bare repository under the state directory. Its content can be fetched again at any time."""

    def __init__(self, path: Path, program: GitProgram) -> None:
        self.path = path
        self.program = program

    async def ensure(self) -> None:
        """Make the mirror exist and be free of what a killed process left. Call it before anything else."""
        for leftover in (self._beside("new"), self._beside("old")):
            await asyncio.to_thread(_remove, leftover)
        if _is_repository(self.path):
            await asyncio.to_thread(_sweep, self.path)
        else:
            await self.rebuild()

    async def rebuild(self) -> None:
        """Start again with an empty mirror. Killed at any point, the next `ensure` ends what was begun."""
        fresh, old = self._beside("new"), self._beside("old")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await asyncio.to_thread(_remove, fresh)
        await self._own("init", "--quiet", "--bare", "--template=", "--initial-branch=none", "--", str(fresh))
        await asyncio.to_thread(_remove, old)
        _swap(fresh, path=self.path, old=old)
        await asyncio.to_thread(_remove, old)

    async def look(self, source: Source) -> Head:
        """Where the source's branch is now. Raises GitFault: unreachable, empty, branch-missing, unsupported-format."""
        wanted = source.ref or "HEAD"
        output = await self._ask(source, "ls-remote", "--symref", "--", source.operand, wanted)
        refs, symbolic = parse_refs(output.stdout)
        if wanted not in refs:
            raise await self._missing(source)
        if len(refs[wanted]) == SHA256_CHARACTERS:
            raise GitFault(
                State.UNSUPPORTED_FORMAT,
                f"{source.url} uses SHA-256 object names, which are not supported; convert it to SHA-1",
            )
        return Head(source.ref or _named(symbolic.get("HEAD", "HEAD")), refs[wanted])

    async def fetch(self, source: Source, head: Head) -> Head:
        """Bring the branch's whole history into the mirror; the answer is what came, maybe newer than `head`."""
        refspec = f"+{head.ref}:{PRIVATE_REF}"
        options = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance")
        try:
            await self._ask(source, "fetch", *options, "--", source.operand, refspec)
        except BaseException:
            _sweep(self.path)  # a killed fetch leaves a lock that would stop the next one
            raise
        if len(list((self.path / "objects/pack").glob("*.pack"))) > MANY_PACKS:
            await self._tidy()
        return Head(head.ref, await self._fetched(source))

    async def _ask(self, source: Source, *arguments: str, output_bytes: int = 1 << 20) -> Output:
        """Run git against the source, in the mirror; every way to fail becomes a GitFault."""
        limits = Limits(seconds=source.timeout, output_bytes=output_bytes, file_bytes=source.max_bytes)
        try:
            output = await self.program.run(f"--git-dir={self.path}", *arguments, limits=limits)
        except TimeoutError:
            raise GitFault(
                State.UNREACHABLE, f"{source.url} did not answer within {source.timeout:g} seconds; {SLOW}"
            ) from None
        if output.status != 0 and not output.truncated:
            raise await self._explained(source, output)
        return output

    async def _explained(self, source: Source, output: Output) -> GitFault:
        fault = faults.explain(output.stderr, source=source.url, mirror=str(self.path), limit=source.max_bytes)
        if not _is_repository(self.path):
            return GitFault(State.MIRROR_CORRUPT, f"the mirror of {source.url} is incomplete; {faults.REBUILT}")
        if fault.state is not State.UNREACHABLE:
            return fault
        message = await asyncio.to_thread(_out_of_reach, source)
        return fault if message is None else GitFault(State.UNREACHABLE, message)

    async def _missing(self, source: Source) -> GitFault:
        """Why a look found nothing: no ref at all, or no such branch."""
        output = await self._ask(source, "ls-remote", "--", source.operand, output_bytes=PROBE_BYTES)
        if not output.stdout:
            return GitFault(State.EMPTY, f"{source.url} has no commit yet; commit something to it")
        if source.branch is not None:
            return GitFault(
                State.BRANCH_MISSING, f"{source.url} has no branch {source.branch}; name another with `branch`"
            )
        unborn = await self._unborn(source)
        return GitFault(
            State.BRANCH_MISSING,
            f"the HEAD of {source.url} names {unborn}, which does not exist; name another with `branch`",
        )

    async def _unborn(self, source: Source) -> str:
        """The branch that a HEAD without commit names: git's protocol tells it only in newer versions."""
        limits = Limits(seconds=source.timeout)
        with contextlib.suppress(TimeoutError):
            output = await self.program.run("-C", str(source.folder), "symbolic-ref", "--short", "HEAD", limits=limits)
            name = output.stdout.decode("utf-8", "replace").strip()
            if output.status == 0 and name.isprintable():
                return f"the branch {name}"
        return "a branch"

    async def _fetched(self, source: Source) -> str:
        output = await self._ask(source, "rev-parse", "--verify", "--quiet", "--end-of-options", PRIVATE_REF)
        commit = output.stdout.decode("ascii", "replace").strip()
        if not OBJECT_ID.fullmatch(commit):
            raise GitFault(State.MIRROR_CORRUPT, f"the mirror of {source.url} is damaged; {faults.REBUILT}")
        return commit

    async def _tidy(self) -> None:
        """Join small packs. Nothing is dropped: commits that a force-push removed are still wanted for diffs."""
        await self._own(f"--git-dir={self.path}", "repack", "--quiet", "--geometric=2", "-d")

    async def _own(self, *arguments: str) -> None:
        """Run git in the mirror alone."""
        try:
            output = await self.program.run(*arguments, limits=Limits(seconds=OWN_SECONDS))
        except TimeoutError:
            raise GitFault(
                State.MIRROR_CORRUPT, f"git did not end within {OWN_SECONDS:g} seconds; {SLOW_OWN}"
            ) from None
        if output.status != 0:
            raise faults.explain(output.stderr, source="the repository", mirror=str(self.path), limit=0)

    def _beside(self, suffix: str) -> Path:
        # A leading dot: names of repositories have none, so this is nobody's mirror.
        return self.path.with_name(f".{self.path.name}.{suffix}")


def parse_refs(listing: bytes) -> tuple[dict[str, str], dict[str, str]]:
    """What `git ls-remote --symref` writes, as (object id by ref, target by symbolic ref)."""
    refs: dict[str, str] = {}
    symbolic: dict[str, str] = {}
    for line in listing.decode("utf-8", "surrogateescape").split("\n"):  # splitlines() also splits inside names
        value, _, name = line.partition("\t")
        if value.startswith("ref: "):
            symbolic[name] = value.removeprefix("ref: ")
        elif name:
            refs[name] = value
    return refs, symbolic


def _out_of_reach(source: Source) -> str | None:
    """Why git cannot find the repository, when it is for something that git does not tell."""
    closed = permissions.unreadable(source.folder)
    if closed is not None:
        return f"{source.url} cannot be read by this user; let the user {permissions.this_user()} read {closed}"
    return None if source.folder.exists() else f"{source.url} does not exist; put it there, or correct `url`"


def _named(target: str) -> str:
    """The ref that the source's HEAD names, or HEAD itself when the name is none that may be given to git."""
    try:
        check_branch(target)
    except Refused:
        return "HEAD"
    return target if target.startswith("refs/heads/") else "HEAD"


def _is_repository(path: Path) -> bool:
    """Whether what `git init` makes is all there. It was renamed into place whole, so a part missing is damage."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


def _sweep(path: Path) -> None:
    for pattern in LEFTOVERS:
        for leftover in path.glob(pattern):
            _remove(leftover)


def _swap(fresh: Path, *, path: Path, old: Path) -> None:
    """Put `fresh` where `path` is. Between the two renames there is none, which `ensure` takes as not yet made."""
    with contextlib.suppress(FileNotFoundError):
        path.rename(old)
    fresh.rename(path)


def _remove(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
