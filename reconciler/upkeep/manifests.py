"""What a backup says of itself: `manifest.json`, for people and for `reconciler restore`. Pure, save for reading it."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from reconciler.model.errors import Refused
from reconciler.settings import bounded_io
from reconciler.upkeep import files
from reconciler.upkeep.databases import KINDS, DatabaseKind

NAME = "manifest.json"
FORMAT = 1
MOST_BYTES = 1 << 20
WITHOUT = ("queues", "mirrors", "sessions", "settings", "files of secrets")


class File(msgspec.Struct, frozen=True):
    """One database: bytes, SHA-256 as hexadecimal digits, the version of its tables, how many rows each has."""

    name: str
    bytes: int
    sha256: str
    version: int
    rows: Mapping[str, int]


class Manifest(msgspec.Struct, frozen=True, rename="camel"):
    """A whole backup. `program` is the version that made it, `made_at` RFC 3339 in UTC."""

    format: int
    program: str
    made_at: str
    files: tuple[File, ...]
    without: tuple[str, ...] = WITHOUT

    def of(self, kind: DatabaseKind) -> File | None:
        """One of its files."""
        return next((file for file in self.files if file.name == kind.file), None)


def encode_manifest(manifest: Manifest) -> bytes:
    """As it is written: JSON that people read."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(folder: Path) -> Manifest:
    """That of a backup. Raises Refused for a folder that is none, or one that a later version made."""
    path = folder / NAME
    try:
        data = bounded_io.read_file(path, limit=MOST_BYTES)
        manifest = msgspec.json.decode(data, type=Manifest)
    except FileNotFoundError:
        raise Refused(f"{folder} is no backup: it has no {NAME}; name one that `reconciler backup` made.") from None
    except OSError as error:
        raise Refused(f"{path} cannot be read ({error.strerror}); mend that.") from error
    except (msgspec.DecodeError, bounded_io.NotAFile, bounded_io.FileTooLarge):
        raise Refused(f"{path} is not as `reconciler backup` wrote it; take another backup.") from None
    if manifest.format > FORMAT:
        raise Refused(
            f"{folder} is a backup of format {manifest.format}, made by version {manifest.program}, and this program "
            f"knows formats up to {FORMAT}; install that version."
        )
    return manifest


def check_manifest(folder: Path, manifest: Manifest) -> None:
    """Hold the files against what was written down of them. Raises Refused."""
    known = {kind.file for kind in KINDS}
    names = [file.name for file in manifest.files]
    if KINDS[0].file not in names or not known.issuperset(names):
        raise Refused(f"{folder / NAME} names other files than a backup has; take another backup.")
    for file in manifest.files:
        path = folder / file.name
        try:
            is_same = path.stat().st_size == file.bytes and files.file_digest(path) == file.sha256
        except OSError as error:
            raise Refused(f"{path} cannot be read ({error.strerror}); take another backup.") from error
        if not is_same:
            raise Refused(f"{path} is not what was written when the backup was made; take another backup.")
