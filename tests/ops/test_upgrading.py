"""Before a store is brought to another version there is a verified copy of it beside it; without one it stays."""

import logging
import re
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.errors import Refused
from reconciler.ops import databases
from reconciler.store import database, files
from reconciler.store.files import OPERATIONS, STORE, DatabasePlaces
from tests.docs import pages
from tests.ops import scenes

PAGE = pages.read(pages.ROOT / "docs/upgrades.md")


def before(path: Path) -> Path | None:
    """The store's copy."""
    return next(iter(databases.copy_before_upgrade(beside(path), clock=lambda: 0.0)), None)


def beside(path: Path) -> DatabasePlaces:
    return DatabasePlaces(path, path.with_name("ops.db"))


def version(path: Path) -> int:
    return files.identify(path, STORE).version


def test_an_older_store_is_copied_and_the_log_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "store.db"
    scenes.older(path, 3)
    with caplog.at_level(logging.INFO):
        copy = before(path)
    assert copy == tmp_path / f"store.db.before-{STORE.latest}"
    assert (version(copy), scenes.sound(copy), copy.stat().st_mode & 0o777) == (3, "ok", 0o600)
    told = f"Copied the store to {copy} before it is brought from version 3 to {STORE.latest}."
    assert caplog.messages == [told]
    assert version(path) == 3
    assert scenes.listing(tmp_path) == ["store.db", copy.name]


def test_both_databases_are_copied_and_nobody_is_signed_in_in_a_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    places = scenes.places(tmp_path / "state")
    scenes.older(places.store, 3)
    scenes.older_operations(places.operations, 1)
    with caplog.at_level(logging.INFO):
        _, copy = databases.copy_before_upgrade(places, clock=lambda: 0.0)
    assert copy == places.operations.with_name(f"ops.db.before-{OPERATIONS.latest}")
    assert (files.identify(copy, OPERATIONS).version, scenes.sound(copy), copy.stat().st_mode & 0o777) == (
        1,
        "ok",
        0o600,
    )
    assert (scenes.sessions(copy), scenes.sessions(places.operations)) == (0, 1)
    assert caplog.messages[1] == (
        f"Copied the database of sessions and notifications to {copy} before it is brought from version 1 to "
        f"{OPERATIONS.latest}."
    )


def test_the_second_is_put_back_as_the_page_says(tmp_path: Path) -> None:
    places = scenes.places(tmp_path / "state")
    scenes.older_operations(places.operations, 1)
    databases.copy_before_upgrade(places, clock=lambda: 0.0)
    assert scenes.sessions(places.operations) == 1  # opened, so it is of this version now
    [block] = [block for block in pages.blocks(PAGE, "sh") if "ops.db" in block]
    commands = block.replace("/var/lib/reconciler", str(tmp_path / "state"))
    commands = re.sub(r"before-\d+", f"before-{OPERATIONS.latest}", commands)
    subprocess.run(["sh", "-e", "-c", commands], check=True, timeout=30)
    assert (files.identify(places.operations, OPERATIONS).version, scenes.sound(places.operations)) == (1, "ok")
    assert places.operations.stat().st_mode & 0o777 == 0o600


def test_where_the_second_cannot_be_copied_neither_is_changed(tmp_path: Path) -> None:
    places = scenes.places(tmp_path / "state")
    scenes.older(places.store, 3)
    scenes.older_operations(places.operations, 1)
    places.operations.with_name(f"ops.db.before-{OPERATIONS.latest}.partial").mkdir()
    with pytest.raises(Refused) as caught:
        databases.copy_before_upgrade(places, clock=lambda: 0.0)
    assert caught.value.message.startswith("The database of sessions and notifications could not be copied before it ")
    assert (version(places.store), files.identify(places.operations, OPERATIONS).version) == (3, 1)


@pytest.mark.parametrize("kind", ["none", "empty", "present", "later", "another program's", "rubbish"])
def test_what_is_not_changed_is_not_copied(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    if kind == "empty":
        path.touch()
    elif kind in ("present", "later"):
        scenes.older(path, STORE.latest)
    elif kind == "rubbish":
        path.write_bytes(b"rubbish" * 1000)
    elif kind == "another program's":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table a (b)")
    if kind == "later":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"pragma user_version = {STORE.latest + 1}")
    known = scenes.listing(tmp_path)
    assert (before(path), scenes.listing(tmp_path)) == (None, known)


def test_a_copy_of_an_earlier_upgrade_makes_room_for_another(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    scenes.older(path, 2)
    copy = before(path)
    assert copy is not None
    with closing(database.open_writer(path)) as connection:
        database.migrate(connection, steps=database.migrations()[:3])
        connection.execute("update fact set value = 7 where key = 'revision'")  # it was used since
    assert (before(path), version(copy)) == (copy, 3)


def test_the_newest_two_stay(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    for name in ("store.db.before-1", "store.db.before-2", "store.db.before-x", "other.db.before-1"):
        (tmp_path / name).touch()
    scenes.older(path, STORE.latest - 1)
    before(path)
    kept = [
        "other.db.before-1",
        "store.db",
        "store.db.before-2",
        f"store.db.before-{STORE.latest}",
        "store.db.before-x",
    ]
    assert scenes.listing(tmp_path) == sorted(kept)


def test_a_damaged_store_is_not_brought_to_another_version(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    scenes.older(path, 3)
    with path.open("r+b") as file:  # the page of some table
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096)
    with pytest.raises(Refused):
        before(path)
    assert scenes.listing(tmp_path) == ["store.db"]


def test_a_copy_that_takes_long_says_that_it_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    scenes.older(path, 3)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table ballast (data blob)")
        connection.executemany("insert into ballast values (zeroblob(1000000))", [()] * 20)  # three steps
        connection.commit()
    moments = iter(range(0, 10_000, 3))
    beats: list[int] = []
    databases.copy_before_upgrade(beside(path), clock=lambda: float(next(moments)), beating=lambda: beats.append(1))
    assert len(beats) >= 2
