"""A further commit of a repository on this machine, brought into our mirror by those steps of a fetch that are needed.

Belongs here: the commands, and whether what they brought is sound and whole. Does not: when this is tried, and what is
done when it fails (`mirrors`).

What is not whole never counts, since a commit is judged by what leads to it: all that is new is compared with what a
ref of ours leads to, which is whole, and whatever differs must be there. Objects that nothing leads to may lie about.
"""

from pathlib import Path
from typing import Protocol

from reconciler.git import trees
from reconciler.remotes.program import Output
from reconciler.remotes.sources import Source

MAX_PACK_BYTES = 8 << 20  # 8 MiB, not compressed: a folder of 160,000 names; a larger change is for `git fetch`
MAX_CHANGED_BYTES = 1 << 20  # 1 MiB of names of what changed: some 10,000 files

# What `git upload-pack` would run there, and with no more of that repository's configuration. To compress a folder of
# many files, or to find what changed in it, takes longer than all else, and is done once for many commits, when
# packs are joined. Such a folder may stand there as a chain of differences: with git's own limit, 96 MiB, each step
# of it takes fresh memory of the system's, which costs more than the step.
BASES = "core.deltaBaseCacheLimit=16m"
PACK = ("-c", "pack.compression=0", "-c", BASES, "pack-objects", "--revs", "--window=0", "--stdout", "--quiet")
STORE = ("index-pack", "--stdin", "--fsck-objects")
# Every entry, folders too, in which each new commit differs from each of its parents.
CHANGED = ("log", "--raw", "-z", "-r", "-t", "-m", "--root", "--no-renames", "--no-abbrev", "--format=")
HAS = ("cat-file", "--batch-check=%(objectname) %(objecttype)")

OBJECTS_AT = slice(8, 12)  # of the header of a pack, how many it holds


class AskMirror(Protocol):
    """Runs git within the limits of a source."""

    async def __call__(self, *arguments: str, stdin: bytes, output_bytes: int) -> Output:
        """Raises GitFault when git cannot be run, or takes too long."""


async def local_fetch(ask: AskMirror, source: Source, mirror: Path, *, commit: str, known: str) -> bool:
    """Have a mirror hold a commit with all its history; `known` is one that it holds, best the one before. False when
    that cannot be done in this way, for whatever reason; objects that came may stay then.
    """
    output = await ask(
        f"--git-dir={_place(source)}", *PACK, stdin=f"{commit}\n^{known}\n".encode(), output_bytes=MAX_PACK_BYTES
    )
    objects = int.from_bytes(output.stdout[OBJECTS_AT], "big")
    if output.status != 0 or output.truncated or objects > source.max_objects:
        return False
    at = f"--git-dir={mirror}"
    if objects and (await ask(at, *STORE, stdin=output.stdout, output_bytes=MAX_CHANGED_BYTES)).status != 0:
        return False
    return await _is_whole(ask, at, commit)


async def _is_whole(ask: AskMirror, at: str, commit: str) -> bool:
    """Whether all is there that a commit leads to beyond what our refs lead to."""
    told = await ask(at, *CHANGED, f"{commit}^{{commit}}", "--not", "--all", stdin=b"", output_bytes=MAX_CHANGED_BYTES)
    if told.status != 0 or told.truncated:
        return False
    try:
        needed = sorted({(commit, "commit"), *leads_to(told.stdout)})
    except ValueError:
        return False
    asked = "".join(f"{name}\n" for name, _ in needed).encode()
    found = await ask(at, *HAS, stdin=asked, output_bytes=2 * MAX_CHANGED_BYTES)
    return found.stdout.decode("ascii", "replace").splitlines() == [f"{name} {kind}" for name, kind in needed]


def leads_to(changed: bytes) -> set[tuple[str, str]]:
    """The objects that are new by what CHANGED tells, with their kinds; commits of submodules are elsewhere. Raises
    ValueError for anything else.
    """
    found = set()
    fields = iter(changed.split(b"\0"))
    for field in fields:
        if not field:
            continue  # between two commits, and at the end
        _, mode, _, name, _ = field.split(b" ")
        path = next(fields, None)  # which may be any
        if path is None or not field.startswith(b":"):
            raise ValueError("not a change")
        kind = int(mode, 8) & trees.KIND
        if kind not in {0, trees.SUBMODULE}:
            found.add((name.decode("ascii"), "tree" if kind == trees.FOLDER else "blob"))
    return found


def _place(source: Source) -> Path:
    """What git would open: the folder that has a worktree keeps its repository in one below, or names it there."""
    assert source.folder is not None
    inside = source.folder / ".git"
    return inside if inside.exists() else source.folder
