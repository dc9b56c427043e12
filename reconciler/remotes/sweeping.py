"""Files of a mirror that no git uses any more: what killed ones left, and what is being replaced.

What a mirror is, and when it is swept, is in `mirrors`.
"""

import contextlib
import shutil
from collections.abc import Set
from pathlib import Path

# What a killed git leaves behind. Nobody else writes into a mirror, so whatever is found is stale.
LEFTOVERS = (
    "*.lock",
    "refs/**/*.lock",
    "objects/tmp_*",
    "objects/incoming-*",
    "objects/[0-9a-f][0-9a-f]",  # a fetch brings packs; single objects come by a protocol that nobody checks
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/pack/*.lock",
    "objects/pack/*.keep",
)


def sweep_mirror(mirror: Path) -> None:
    """Remove what killed git programs left in a mirror. Nobody may write there meanwhile."""
    for pattern in LEFTOVERS:
        for leftover in mirror.glob(pattern):
            remove_files(leftover)


def pack_files(mirror: Path) -> Set[str]:
    """The names of what there is of packs."""
    return frozenset(file.name for file in (mirror / "objects/pack").glob("pack-*"))


def measure_packs(mirror: Path) -> tuple[int, int]:
    """How many packs there are, and the bytes in them."""
    sizes = [file.stat().st_size for file in (mirror / "objects/pack").glob("*.pack")]
    return len(sizes), sum(sizes)


def keep_pack(mirror: Path, *, packs: Set[str]) -> None:
    """Remove all objects but those of these packs. Nobody may write there meanwhile."""
    sweep_mirror(mirror)
    for file in (mirror / "objects/pack").glob("pack-*"):
        if file.name not in packs:
            remove_files(file)


def swap_packs(fresh: Path, *, path: Path, old: Path) -> None:
    """Put `fresh` where `path` is. Between the two renames there is none, which is taken as not yet made."""
    with contextlib.suppress(FileNotFoundError):
        path.rename(old)
    fresh.rename(path)


def remove_files(path: Path) -> None:
    """Remove a file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
