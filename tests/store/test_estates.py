"""An estate is copied whole, with nothing that belongs to the store that it came from, or not at all."""

import asyncio
import contextlib
import re
import shutil
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.cli import exits
from reconciler.model.errors import Refused
from reconciler.store import audit, engines, estates
from reconciler.store.audit import BrokenChain
from reconciler.store.estates import TABLES, CopiedEstate, Estate, StoredEstate, Table
from reconciler.store.files import DatabasePlaces
from reconciler.store.statements import Row
from tests.cli.conftest import Program
from tests.ops import scenes
from tests.store import chains, full_estates, looking, rows
from tests.store.engines import SqliteEngine, flip


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with a row in every table."""
    folder = tmp_path_factory.mktemp("full")
    asyncio.run(full_estates.fill(SqliteEngine(folder / "store.db"), many=3))
    return folder


@pytest.fixture
def source(tmp_path: Path, kept: Path) -> DatabasePlaces:
    shutil.copytree(kept, tmp_path / "source")
    return scenes.places(tmp_path / "source")


def copy(source: DatabasePlaces, target: DatabasePlaces) -> CopiedEstate:
    given, made = engines.stored_estate(source), engines.stored_estate(target)
    return estates.copy(given, made, watch=scenes.watch())


def tables(path: Path) -> Iterator[str]:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("select name from sqlite_schema where type = 'table'").fetchall()
    return (name for (name,) in found)


def content(places: DatabasePlaces) -> dict[str, list[tuple[object, ...]]]:
    found = {}
    for path in places:
        with closing(sqlite3.connect(path)) as connection:
            for name in tables(path):
                found[f"{path.name} {name}"] = connection.execute(f'select * from "{name}" order by 1, 2').fetchall()  # noqa: S608
    return found


def test_every_table_is_copied_or_known_to_be_left_out(source: DatabasePlaces) -> None:
    found = {name for path in source for name in tables(path)}
    assert found - {table.name for table in TABLES} == {"session"}
    assert {table.name for table in TABLES} - found == set()


def test_all_but_sessions_and_facts_of_one_engine_is_copied(source: DatabasePlaces, tmp_path: Path) -> None:
    target = scenes.places(tmp_path / "target")
    copied = copy(source, target)
    before, after = content(source), content(target)
    assert (len(before.pop("ops.db session")), after.pop("ops.db session")) == (1, [])
    assert ([key for key, _ in before.pop("ops.db fact")], after.pop("ops.db fact")) == (["flow_key"], [])
    facts = before.pop("store.db fact")
    left_out = [one for one in facts if one not in after["store.db fact"]]
    assert ([key for key, _ in left_out], after.pop("store.db fact")) == (
        ["traces"],
        [one for one in facts if one not in left_out],
    )
    assert after == before
    assert [name for name, found in before.items() if not found] == []
    assert {table.name: table.rows for table in copied.tables}["version"] == len(after["store.db version"])
    assert all(re.fullmatch("[0-9a-f]{64}", table.sha256) for table in copied.tables)


def test_the_copy_is_a_store_of_its_own_that_only_its_owner_reads(source: DatabasePlaces, tmp_path: Path) -> None:
    target = scenes.places(tmp_path / "target")
    copied = copy(source, target)
    assert scenes.listing(tmp_path / "target") == ["ops.db", "store.db"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in target} == {0o600}
    assert copied.chain.head == audit.verify(target.store).head
    assert (copied.chain.anchor.events, copied.damaged) == (1, [])

    async def shown(path: Path) -> object:
        store = SqliteEngine(path).open()
        try:
            return await looking.everything(store), await store.directory(), await store.attention("default", named=9)
        finally:
            await store.close()

    assert asyncio.run(shown(target.store)) == asyncio.run(shown(source.store))


def test_a_damaged_version_is_copied_as_it_is_and_told(source: DatabasePlaces, tmp_path: Path) -> None:
    flip(source.store, rows.body("d", 1))
    copied = copy(source, scenes.places(tmp_path / "target"))
    assert [(one.name, one.version) for one in copied.damaged] == [("d", 1)]


def test_a_broken_audit_is_refused(source: DatabasePlaces, tmp_path: Path) -> None:
    chains.tamper(source.store, "update audit set actor = 'key:other' where id = (select max(id) from audit)")
    with pytest.raises(BrokenChain):
        copy(source, scenes.places(tmp_path / "target"))
    assert scenes.listing(tmp_path / "target") == []


def test_a_target_that_is_there_and_a_source_that_is_not_are_refused(source: DatabasePlaces, tmp_path: Path) -> None:
    other = scenes.filled(tmp_path / "other", "a")
    before = content(other)
    with pytest.raises(
        Refused, match=r"^There is a store at .*/other/store\.db already; name a place where none is\.$"
    ):
        copy(source, other)
    assert content(other) == before
    with pytest.raises(Refused, match=r"^There is no store at "):
        copy(scenes.places(tmp_path / "nothing"), scenes.places(tmp_path / "target"))


def test_an_older_store_is_refused(tmp_path: Path) -> None:
    places = scenes.places(tmp_path / "old")
    scenes.older(places.store, 12)
    with pytest.raises(Refused, match=r"is of version 12, and this program copies version .* brings it there\.$"):
        copy(places, scenes.places(tmp_path / "target"))


def test_what_takes_too_long_leaves_nothing(source: DatabasePlaces, tmp_path: Path) -> None:
    target = scenes.places(tmp_path / "target")
    given, made = engines.stored_estate(source), engines.stored_estate(target)
    with pytest.raises(Refused, match="took longer than"):
        estates.copy(given, made, watch=scenes.watch_that_is_over())
    assert scenes.listing(tmp_path / "target") == []


class Forgetful:
    """A target whose disk loses the last row of a table."""

    def __init__(self, made: StoredEstate) -> None:
        self._made = made
        self.reading, self.verified = made.reading, made.verified

    @contextlib.contextmanager
    def writing(self) -> Iterator[Estate]:
        with self._made.writing() as estate:
            put = estate.put

            def forget(table: Table, columns: tuple[str, ...], coming: Iterable[Row]) -> None:
                read = list(coming)
                put(table, columns, read[:-1] if table.name == "run" else read)

            estate.put = forget  # type: ignore[method-assign,assignment]
            yield estate


def test_what_is_read_back_otherwise_is_refused(source: DatabasePlaces, tmp_path: Path) -> None:
    target = scenes.places(tmp_path / "target")
    given, made = engines.stored_estate(source), Forgetful(engines.stored_estate(target))
    with pytest.raises(Refused, match=r"^The table run is not in .*target/store.db as it was read from .*source/"):
        estates.copy(given, made, watch=scenes.watch())
    assert scenes.listing(tmp_path / "target") == []


# The command


def test_the_command_copies_a_state_directory(source: DatabasePlaces, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    told = Program(tmp_path)("store", "copy", str(source.store.parent), str(tmp_path / "target"))
    assert told.code == exits.OK, told.err
    lines = told.out.splitlines()
    assert re.fullmatch(r"fact: 4 rows, sha256 [0-9a-f]{64}", lines[0])
    assert lines[-1].startswith("audit: ")
    assert "people sign in again" in told.err
    assert content(scenes.places(tmp_path / "target"))["store.db version"] == content(source)["store.db version"]


def test_a_target_that_may_be_meant_as_a_folder_is_not_made_as_a_file(source: DatabasePlaces, tmp_path: Path) -> None:
    told = Program(tmp_path)("store", "copy", str(source.store.parent), str(tmp_path / "target"))
    expected = f"error: {tmp_path}/target is neither a folder nor a store; make the folder first\n"
    assert (told.code, told.err) == (exits.ERROR, expected)
    assert not (tmp_path / "target").exists()


def test_a_password_in_an_argument_is_refused(tmp_path: Path) -> None:
    for url in ("postgresql://ada:canary-x@127.0.0.1/a", "postgresql://127.0.0.1/a?password=canary-x"):
        told = Program(tmp_path)("store", "copy", url, str(tmp_path / "state"))
        assert told.code == exits.ERROR
        assert told.err.startswith("error: a password in an argument shows in the list of processes; ")
