"""A mirror: a bare repository of our own, into which the followed refs of another repository are fetched.

Nothing is checked out, and the other repository is only read. This module also has polls, and the maintenance of a
mirror's files: leftovers of killed programs, packs, and unused folders. `snapshots` reads the fetched objects. At most
one task may write a mirror at a time: `remote` ensures that.
"""

import asyncio
import contextlib
import itertools
import logging
import re
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from reconciler.git import refs
from reconciler.git.faults import GitFault, RepositoryState
from reconciler.git.refs import Followed, RefHead, RefKind
from reconciler.git.remotes import commit_facts, credentials, errors
from reconciler.git.remotes.commit_facts import CommitFacts
from reconciler.git.remotes.program import NO_SMART_PROTOCOL, GitProgram, Limits, Output
from reconciler.git.remotes.sources import Source

# Leftovers of a killed git. Only we write into a mirror, so these files are stale.
LEFTOVERS = (
    "*.lock",
    "refs/**/*.lock",
    "objects/tmp_*",
    "objects/incoming-*",
    "objects/[0-9a-f][0-9a-f]",  # a fetch brings packs; single objects come only by a protocol without checks
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/pack/*.lock",
    "objects/pack/*.keep",
)


def sweep_mirror(mirror: Path) -> None:
    """Remove leftovers of killed git programs from a mirror. Nothing may write there meanwhile."""
    for pattern in LEFTOVERS:
        for leftover in mirror.glob(pattern):
            remove_files(leftover)


def measure_packs(mirror: Path) -> tuple[int, int]:
    """Return the number of packs and their size in bytes."""
    sizes = [file.stat().st_size for file in (mirror / "objects/pack").glob("*.pack")]
    return len(sizes), sum(sizes)


def remove_files(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


log = logging.getLogger(__name__)

OWN_SECONDS = 60.0  # for work of git in our own mirror only
TIDY_SECONDS = 300.0  # for joining packs, which writes most of them again
REFS_BYTES = 16 << 20  # of a list of our own refs
SHA256_CHARACTERS = 64
MANY_PACKS = 50  # every fetch adds one pack, and a read looks into all of them
FETCH = (
    "fetch",
    "--progress",  # needed to count objects
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--no-auto-maintenance",
)
# Objects from this machine are neither compressed nor stored as differences (see `program`): this does both, once.
REPACK = ("-c", "pack.compression=-1", "repack", "--quiet", "--geometric=2", "--window=10", "-d")
SLOW_DISK = "look whether its disk hangs, or raise `timeout`"
SLOW = "look whether the network or the server hangs, or raise `timeout`"
SLOW_OWN = "look whether the disk of `stateDir` hangs"


class Mirror:
    """One bare repository under the state directory. Its content can be fetched again at any time.

    Objects of the mirror `borrows` beside it are not fetched again, but read there.
    """

    def __init__(self, path: Path, program: GitProgram, *, url: str, borrows: str = "") -> None:
        self.path = path
        self.program = program
        self.url = url  # in messages
        self._borrows = borrows

    async def ensure(self) -> None:
        """Make the mirror if it is missing, and remove leftovers of killed processes. Call it first."""
        for leftover in (self._beside("new"), self._beside("old")):
            await _to_its_end(remove_files, leftover)
        if errors.is_mirror(self.path):
            await _to_its_end(sweep_mirror, self.path)
        else:
            await self.rebuild()

    async def rebuild(self) -> None:
        """Start again with an empty mirror. If the process is killed, the next `ensure` completes it."""
        fresh, old = self._beside("new"), self._beside("old")
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        await _to_its_end(remove_files, fresh)
        await self._git(
            "init", "--quiet", "--bare", "--template=", "--initial-branch=none", "--", str(fresh), is_made=False
        )
        if self._borrows:  # relative to our folder of objects, so that the file contains no name of a folder above
            (fresh / "objects/info/alternates").write_text(f"../../{self._borrows}/objects\n", encoding="utf-8")
        await _to_its_end(remove_files, old)
        # Between the two renames there is no mirror, as before it is made.
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(old)
        fresh.rename(self.path)
        await _to_its_end(remove_files, old)

    async def heads(self, private_refs: Collection[str] = (refs.PRIVATE,)) -> dict[str, RefHead]:
        """Return the commits of our refs, by default of all. Refs that lead to no commit are left out."""
        fields = "--format=%(refname) %(objecttype) %(objectname)"
        output = await self._git("for-each-ref", fields, "--", *sorted(private_refs), output_bytes=REFS_BYTES)
        lines = [line.split(" ") for line in output.stdout.decode("ascii", "replace").splitlines()]
        peeled = await self._peeled([target for _, kind, target in lines if kind == "tag"])
        commits = {target: target for _, kind, target in lines if kind == "commit"} | peeled
        return {
            ref: RefHead(ref, commits[target], tag="" if kind == "commit" else target)
            for ref, kind, target in lines
            if target in commits
        }

    async def reaches(self, commit: str) -> bool:
        """Return True if one of our refs leads to this commit. Other objects may exist that callers may not see."""
        if (await self._peeled([commit])).get(commit) != commit:
            return False
        lacking = await self._git("rev-list", "--max-count=1", commit, "--not", f"--glob={refs.PRIVATE}*")
        return not lacking.stdout

    async def facts(self, commit: str) -> CommitFacts:
        """Return the facts of a commit. Raises GitFault."""
        output = await self._git("--no-replace-objects", *commit_facts.READ, f"{commit}^{{commit}}", "--")
        return commit_facts.parse(commit, output.stdout)

    async def drop(self, private_refs: Collection[str]) -> None:
        """Delete these refs. Their commits stay."""
        if private_refs:
            orders = "".join(f"delete {ref}\n" for ref in sorted(private_refs))
            await self._git("update-ref", "--stdin", stdin=orders)

    async def poll(self, source: Source, followed: Collection[Followed]) -> Mapping[Followed, RefHead | Exception]:
        """Return the commit of each ref, or its own fault: branch-missing, empty, unsupported-format.

        Raises GitFault for a failure of the whole poll. `source` has the URL and the limits.
        """
        asked = sorted(followed)
        # Ask for the remote's HEAD too: usually it shows that the remote is not empty, without another call.
        patterns = dict.fromkeys(pattern for one in asked for pattern in (*one.patterns, refs.HEAD.full))
        output = await self.ask(source, "ls-remote", "--symref", "--", source.operand, *patterns)
        if output.truncated:
            raise GitFault(
                RepositoryState.UNSUPPORTED_FORMAT,
                f"{source.url} has too many refs whose names end like what is followed; remove some of them",
            )
        listing = refs.parse_listing(output.stdout)
        is_empty = not listing.refs
        found: dict[Followed, RefHead | Exception] = {
            one: head for one in asked if (head := one.found(listing)) is not None
        }
        for one, result in found.items():
            if isinstance(result, RefHead) and len(result.commit) == SHA256_CHARACTERS:
                found[one] = GitFault(
                    RepositoryState.UNSUPPORTED_FORMAT,
                    f"{source.url} uses SHA-256 object names, which are not supported; convert it to SHA-1",
                )
        lacking = [one for one in asked if one not in found]
        if lacking and is_empty:
            is_empty = not (await self.ask(source, "ls-remote", "--", source.operand)).stdout
        return found | {one: _absent(source, one, is_empty=is_empty) for one in lacking}

    async def fetch(self, source: Source, followed: Followed, head: RefHead) -> RefHead:
        """Fetch the whole history of a head into the mirror; return the fetched head, maybe a newer one.

        `source` has the URL and the limits. Raises GitFault.
        """
        limits = Limits(seconds=source.timeout, file_bytes=source.max_bytes, objects=source.max_objects)
        # Without these options, git succeeds with the incomplete history of a shallow repository. The missing part
        # would not be fetched later, even if the repository gets it.
        depth = "--unshallow" if (self.path / "shallow").exists() else "--update-shallow"
        await _to_its_end(sweep_mirror, self.path)  # a leftover lock would stop it
        status = None
        try:
            output = await self._run(source, *FETCH, depth, "--", source.operand, followed.refspec(head), limits=limits)
            status = output.status
        finally:
            if status != 0:  # a killed fetch may leave as much as one fetch may bring
                sweep_mirror(self.path)
        if NO_SMART_PROTOCOL in output.notes:  # unchecked objects: they go with the mirror
            raise GitFault(
                RepositoryState.MIRROR_CORRUPT,
                f"{source.url} went on without Git's smart protocol; its mirror is built again by itself",
            )
        if output.status != 0:
            fault = errors.vanished(source, followed, output)
            raise fault or await errors.explained_fault(source, output, mirror=self.path, program=self.program)
        held = (await self.heads([followed.private_ref])).get(followed.private_ref)
        await self._tidy()
        if held is None or (followed.is_fixed and held.commit != followed.name):
            raise errors.no_commit(source, followed)
        return held._replace(ref=head.ref)

    async def ask(self, source: Source, *arguments: str, output_bytes: int = 1 << 20) -> Output:
        """Run git against the source, in the mirror. Every failure becomes a GitFault."""
        limits = Limits(seconds=source.timeout, output_bytes=output_bytes)
        output = await self._run(source, *arguments, limits=limits)
        if output.status != 0 and not output.truncated:
            raise await errors.explained_fault(source, output, mirror=self.path, program=self.program)
        return output

    async def _run(self, source: Source, *arguments: str, limits: Limits) -> Output:
        try:
            return await self.program.run(f"--git-dir={self.path}", *arguments, limits=limits, remote=True)
        except TimeoutError:
            why = SLOW_DISK if source.is_local else SLOW
            told = f"{source.url} did not answer within {source.timeout:g} seconds; {why}"
            raise GitFault(RepositoryState.UNREACHABLE, told) from None

    async def _peeled(self, objects: Sequence[str]) -> dict[str, str]:
        """Return the commit of each object, following tags. Objects that lead to no commit are left out."""
        if not objects:
            return {}
        asked = "".join(f"{one}^{{commit}}\n" for one in objects)
        arguments = ("cat-file", "--batch-check=%(objectname)")
        output = await self._git(*arguments, stdin=asked, output_bytes=REFS_BYTES)
        answers = output.stdout.decode("ascii", "replace").splitlines()
        return {one: commit for one, commit in zip(objects, answers, strict=True) if refs.OBJECT_ID.fullmatch(commit)}

    async def _tidy(self) -> None:
        """Join small packs if there are many. Commits that a force-push removed are kept for diffs. A failure is only
        logged, because the fetched objects are usable, and the next fetch tries again.
        """
        packs, _ = await asyncio.to_thread(measure_packs, self.path)
        if packs > MANY_PACKS:
            try:
                await self._git(*REPACK, seconds=TIDY_SECONDS)
            except GitFault as fault:
                log.warning("The packs of the mirror of %s were not joined: %s", self.url, fault.message)

    async def _git(
        self,
        *arguments: str,
        is_made: bool = True,
        stdin: str = "",
        output_bytes: int = 1 << 20,
        seconds: float | None = None,
    ) -> Output:
        """Run git on our own files, in the mirror if it `is_made`, by default for at most OWN_SECONDS.

        Raises GitFault.
        """
        where = (f"--git-dir={self.path}",) if is_made else ()
        limits = Limits(seconds=seconds or OWN_SECONDS, output_bytes=output_bytes)
        try:
            with credentials.open_memory_file(stdin.encode()) as told:
                output = await self.program.run(*where, *arguments, limits=limits, stdin=told)
        except TimeoutError:
            # The mirror may be intact, and making it again would only add load.
            told_person = f"git did not end in the mirror of {self.url} within {limits.seconds:g} seconds"
            raise GitFault(RepositoryState.UNREACHABLE, f"{told_person}; {SLOW_OWN}") from None
        if output.status != 0:
            raise errors.of_mirror(self.url, output)
        return output

    def _beside(self, suffix: str) -> Path:
        # Names of mirrors have no leading dot, so this is never taken for a mirror.
        return self.path.with_name(f".{self.path.name}.{suffix}")


def _absent(source: Source, one: Followed, *, is_empty: bool) -> GitFault:
    if is_empty:
        return GitFault(RepositoryState.EMPTY, f"{source.url} has no commit yet; commit something to it")
    if one.kind is not RefKind.HEAD:
        return errors.missing(source, one)
    told = f"the HEAD of {source.url} names a branch that does not exist; name another with `branch`"
    return GitFault(RepositoryState.BRANCH_MISSING, told)


async def _to_its_end(act: Callable[[Path], None], path: Path) -> None:
    """Change files in a thread. A cancelled call still waits for it: a thread cannot be ended, and the next writer uses
    the same files.
    """
    acting = asyncio.ensure_future(asyncio.to_thread(act, path))
    try:
        await asyncio.shield(acting)
    except asyncio.CancelledError:
        await asyncio.wait({acting})
        raise


# Unused folders, mostly mirrors: they are renamed at once, and removed later.

GONE = re.compile(r"\..+\.[0-9]+\.gone")


def retire_folder(folders: Iterable[Path]) -> list[Path]:
    """Rename folders that exist, and return the new names, so that new folders can be made under the old ones."""
    aside: list[Path] = []
    for folder in folders:
        if folder.is_dir() and not folder.is_symlink():
            try:
                hidden = f".{folder.name.removeprefix('.')}"
                names = (folder.with_name(f"{hidden}.{number}.gone") for number in itertools.count())
                aside.append(folder.rename(next(name for name in names if not name.exists())))
            except OSError as problem:
                _log_leftover(problem)
    return aside


def remove_retired(folders: Sequence[Path]) -> None:
    """Remove folders in a thread that delays neither the start nor a stop: the next start continues with the rest."""
    if folders:
        threading.Thread(target=_remove, args=(folders,), name="remove-leftovers", daemon=True).start()


def _remove(folders: Sequence[Path]) -> None:
    for folder in folders:
        try:
            shutil.rmtree(folder)
        except OSError as problem:
            _log_leftover(problem)


def _log_leftover(problem: OSError) -> None:
    log.warning(
        "A folder of repositories that are no longer in the settings could not be removed (%s); mend the permissions,"
        " and the next start removes it.",
        problem,
    )
