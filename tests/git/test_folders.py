"""Folders that are kept for a moment."""

import pytest

from reconciler.git import snapshots
from reconciler.git.snapshots import FolderCache


class _Store:
    """Folders of a given size, and which of them were read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.read_names: list[str] = []

    def read(self, tree: str) -> bytes:
        self.read_names.append(tree)
        return tree.encode().ljust(self.size, b".")


def test_a_folder_is_read_once() -> None:
    store, kept = _Store(10), FolderCache()
    assert [kept.get(one, store.read) for one in "aba"] == [b"a.........", b"b.........", b"a........."]
    assert store.read_names == ["a", "b"]


def test_only_so_many_bytes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "MAX_CACHED_BYTES", 100)
    store, kept = _Store(40), FolderCache()
    for one in "abcab":
        kept.get(one, store.read)
    assert store.read_names == ["a", "b", "c", "a", "b"]
    kept.get("b", store.read)
    assert store.read_names[5:] == []


def test_what_cannot_be_read_is_not_kept() -> None:
    def fail(tree: str) -> bytes:
        raise KeyError(tree)

    kept = FolderCache()
    with pytest.raises(KeyError):
        kept.get("a", fail)
    assert kept.get("a", _Store(3).read) == b"a.."
