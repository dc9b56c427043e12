"""Objects in memory."""

import gc
from pathlib import Path

import pygit2
import pytest

from reconciler.git import snapshots
from reconciler.git.snapshots import MemoryObjects
from reconciler.model.errors import Refused
from tests.repositories import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository.init(tmp_path / "origin")
    repository.write("a.yaml", "stored")
    repository.commit()
    return repository


def objects(repository: Repository) -> list[Path]:
    return sorted((repository.path / ".git/objects").rglob("*"))


def test_are_read_back(repository: Repository) -> None:
    before = objects(repository)
    opened = pygit2.Repository(str(repository.path))
    kept = MemoryObjects(opened)
    blob = opened.create_blob(b"content\0")
    assert kept.read(str(blob)) == b"content\0"
    assert kept.read(repository.git("rev-parse", "HEAD:a.yaml")) == b"stored"
    with pytest.raises(KeyError):
        kept.read("0" * 40)
    assert opened.odb.read_header(blob) == (pygit2.enums.ObjectType.BLOB, len(b"content") + 1)
    assert blob in opened.odb
    assert objects(repository) == before


def test_leave_what_is_stored_as_it_is(repository: Repository) -> None:
    opened = pygit2.Repository(str(repository.path))
    MemoryObjects(opened)
    assert str(opened.revparse_single("HEAD").id) == repository.head()
    assert str(opened.revparse_single(repository.head()[:8]).id) == repository.head()
    with pytest.raises(KeyError):
        opened.odb.read("0" * 40)
    with pytest.raises(KeyError):
        opened.revparse_single("0" * 8)


def test_end_with_the_repository(repository: Repository) -> None:
    for number in range(20):
        opened = pygit2.Repository(str(repository.path))
        MemoryObjects(opened)
        blob, store = opened.create_blob(b"%d" % number), opened.odb
        opened.free()
        del opened
        gc.collect()
        assert blob in store  # which lives as long as somebody has it
    del store
    gc.collect()
    assert blob not in pygit2.Repository(str(repository.path)).odb


def test_are_refused_by_a_libgit2_that_has_none(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(snapshots._FUNCTIONS, "git_mempack_of_another_time", ())
    snapshots._library.cache_clear()
    with pytest.raises(Refused, match="cannot merge in memory; install pygit2 from its wheel"):
        MemoryObjects(pygit2.Repository(str(repository.path)))
