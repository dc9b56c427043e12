"""Whether a mirror is damaged, by looking into it: what a remote, or a program on it, says of that counts for nothing.

Belongs here: the look at our own objects and refs. Does not: when to take it (`explaining`), making a mirror anew
(`mirrors`).
"""

import asyncio
from pathlib import Path

from reconciler.git.refs import PRIVATE
from reconciler.remotes.program import GitProgram, Limits

CHECK_SECONDS = 300.0  # for each git of it, which reads all that the mirror holds


def is_mirror(path: Path) -> bool:
    """Whether what `git init` makes is all there. It was renamed into place whole, so a part missing is damage."""
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


async def is_damaged(path: Path, program: GitProgram) -> bool:
    """Whether a mirror cannot be used as it is: a part of it, a ref or an object is missing or broken.

    Found twice, since another task may be joining its packs. What takes too long, or is ended by a signal, is not
    known, so it is no damage.
    """
    return await _has_fault(path, program) and await _has_fault(path, program)


async def _has_fault(path: Path, program: GitProgram) -> bool:
    if not await asyncio.to_thread(is_mirror, path):
        return True
    packs = await asyncio.to_thread(_packs, path)
    checks = (
        ("for-each-ref", "--format=%(objecttype)", "--", PRIVATE),  # warns of broken refs, and ends well
        ("rev-list", "--objects", "--quiet", "--all"),
        *((("verify-pack", "--", *packs),) if packs else ()),
    )
    for check in checks:
        if await _fails(path, program, check):
            return True
    return False


async def _fails(path: Path, program: GitProgram, check: tuple[str, ...]) -> bool:
    try:
        output = await program.run(f"--git-dir={path}", *check, limits=Limits(seconds=CHECK_SECONDS))
    except TimeoutError:
        return False
    is_whole = not output.truncated and output.status >= 0
    return is_whole and (output.status != 0 or output.stderr != "")


def _packs(path: Path) -> list[str]:
    return sorted(str(index) for index in (path / "objects/pack").glob("*.idx"))
