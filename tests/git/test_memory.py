"""Objects in memory."""

import gc
import weakref
from pathlib import Path

import pygit2
import pytest

from reconciler.git.snapshots import MemoryObjects
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
    MemoryObjects(opened)
    blob = opened.create_blob(b"content\0")
    assert opened.odb.read(blob)[1] == b"content\0"
    assert opened.odb.read(repository.git("rev-parse", "HEAD:a.yaml"))[1] == b"stored"
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
    opened = pygit2.Repository(str(repository.path))
    kept = weakref.ref(MemoryObjects(opened))
    blob, store = opened.create_blob(b"content"), opened.odb
    opened.free()
    del opened
    gc.collect()
    assert blob in store  # which lives as long as somebody has it
    del store
    gc.collect()
    assert kept() is None
    assert blob not in pygit2.Repository(str(repository.path)).odb
