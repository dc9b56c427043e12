"""A restore puts the backup in the place of what was there, which stays under another name; or it changes nothing."""

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from reconciler.model.errors import ReconcilerError
from reconciler.ops import backup as ops_backup
from reconciler.ops.backup import RestoredBackup
from reconciler.store import audit
from reconciler.store.files import STORE, DatabasePlaces
from tests import needs
from tests.ops import scenes

STAMP = "replaced-20261122T061200000000Z"


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    """A backup of a store with a and b."""
    places = scenes.filled(tmp_path / "before", "a", "b")
    ops_backup.back_up(places, tmp_path / "backup", now=scenes.NOW, watch=scenes.watch())
    return tmp_path / "backup"


def restored(given: Path, places: DatabasePlaces) -> RestoredBackup:
    return ops_backup.restore(
        ops_backup.read_backup(given), places, by="machine:root", now=scenes.NOW, watch=scenes.watch()
    )


def refused(given: Path, places: DatabasePlaces) -> str:
    with pytest.raises(ReconcilerError) as caught:
        restored(given, places)
    return caught.value.message


def test_it_replaces_what_is_there_and_keeps_it(backup: Path, tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "c")
    done = restored(backup, places)
    kept = [places.operations.with_name(f"ops.db.{STAMP}"), places.store.with_name(f"store.db.{STAMP}")]
    assert done == RestoredBackup("2026-11-22T06:12:00.000Z", STORE.latest, tuple(kept))
    assert scenes.listing(tmp_path / "state") == ["ops.db", kept[0].name, "store.db", kept[1].name]
    assert (scenes.names(places.store), scenes.names(kept[1])) == (["a", "b"], ["c"])
    assert (scenes.sessions(places.operations), scenes.sessions(kept[0])) == (0, 1)
    assert places.store.stat().st_mode & 0o777 == 0o600


def test_its_audit_says_who_restored_what(backup: Path, tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "c")
    before = audit.verify(backup / "store.db")
    restored(backup, places)
    after = audit.verify(places.store, known=before.head)
    assert (after.links, after.events) == (before.links + 1, before.events + 1)
    with closing(sqlite3.connect(places.store)) as connection:
        told = connection.execute("select at, actor, action, kind, name, detail from audit order by id desc").fetchone()
    *what, detail = told
    assert what == ["2026-11-22T06:12:00.000Z", "machine:root", "restored", "Store", "store.db"]
    assert json.loads(detail) == {"backup": str(backup), "madeAt": "2026-11-22T06:12:00.000Z"}


def test_it_fills_an_empty_state_directory(backup: Path, tmp_path: Path) -> None:
    places = scenes.places(tmp_path / "state")
    assert restored(backup, places).kept == ()
    assert scenes.listing(tmp_path / "state") == ["ops.db", "store.db"]
    assert scenes.names(places.store) == ["a", "b"]


def test_the_log_of_a_killed_service_stays_with_its_store(backup: Path, tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "first", "c")
    writer = sqlite3.connect(places.store, isolation_level=None)
    writer.execute("pragma wal_autocheckpoint = 0")
    writer.execute("insert into project (name, created_at) values ('from the log', 'now')")
    killed = scenes.places(tmp_path / "state")
    for name in ("store.db", "store.db-wal"):
        shutil.copyfile(tmp_path / "first" / name, tmp_path / "state" / name)
    writer.close()
    [kept] = restored(backup, killed).kept
    assert scenes.names(killed.store) == ["a", "b"]
    with closing(sqlite3.connect(kept)) as connection:
        assert ("from the log",) in connection.execute("select name from project").fetchall()
    with closing(sqlite3.connect(killed.store)) as connection:
        assert ("from the log",) not in connection.execute("select name from project").fetchall()


def test_a_store_that_is_damaged_beyond_reading_is_replaced_and_kept(backup: Path, tmp_path: Path) -> None:
    places = scenes.places(tmp_path / "state")
    places.store.write_bytes(b"rubbish" * 2000)
    places.store.with_name("store.db-wal").write_bytes(b"more rubbish")
    [kept] = restored(backup, places).kept
    assert (scenes.names(places.store), kept.read_bytes()) == (["a", "b"], b"rubbish" * 2000)


def test_a_copy_of_the_store_alone_is_a_backup_too(tmp_path: Path) -> None:
    scenes.filled(tmp_path / "before", "a")
    places = scenes.filled(tmp_path / "state", "c")
    done = restored(tmp_path / "before" / "store.db", places)
    assert (done.made_at, done.version) == ("", STORE.latest)
    assert scenes.names(places.store) == ["a"]
    assert not places.operations.exists()  # nobody of another store is signed in


def test_an_older_store_is_restored_as_it_is(tmp_path: Path) -> None:
    scenes.older(tmp_path / "old.db", 3)
    places = scenes.filled(tmp_path / "state", "c")
    assert restored(tmp_path / "old.db", places).version == 3


def test_a_store_of_a_later_version_is_refused(backup: Path, tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "c")
    told = json.loads((backup / "manifest.json").read_text())
    told["files"][0]["version"] = STORE.latest + 1
    (backup / "manifest.json").write_text(json.dumps(told))
    assert refused(backup, places) == (
        f"The store in {backup}/store.db is of version {STORE.latest + 1}, and this program knows versions up to "
        f"{STORE.latest}: a later version of the program wrote it; install that one."
    )
    (backup / "manifest.json").write_text(json.dumps({**told, "format": 2, "program": "7.0"}))
    assert refused(backup, places) == (
        f"{backup} is a backup of format 2, made by version 7.0, and this program knows formats up to 1; install that "
        "version."
    )
    assert (scenes.names(places.store), scenes.sessions(places.operations)) == (["c"], 1)


def _no_manifest(backup: Path) -> None:
    (backup / "manifest.json").unlink()


def _bad_manifest(backup: Path) -> None:
    (backup / "manifest.json").write_text("{")


def _other_names(backup: Path) -> None:
    told = json.loads((backup / "manifest.json").read_text())
    told["files"][1]["name"] = "../../etc/passwd"
    (backup / "manifest.json").write_text(json.dumps(told))


def _flipped(backup: Path) -> None:
    data = bytearray((backup / "store.db").read_bytes())
    data[5000] ^= 1
    (backup / "store.db").write_bytes(data)


def _cut(backup: Path) -> None:
    os.truncate(backup / "store.db", 4096)


def _gone(backup: Path) -> None:
    (backup / "ops.db").unlink()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (_no_manifest, "{} is no backup: it has no manifest.json; name one that `reconciler backup` made."),
        (_bad_manifest, "{}/manifest.json is not as `reconciler backup` wrote it; take another backup."),
        (_other_names, "{}/manifest.json names other files than a backup has; take another backup."),
        (_flipped, "{}/store.db is not what was written when the backup was made; take another backup."),
        (_cut, "{}/store.db is not what was written when the backup was made; take another backup."),
        (_gone, "{}/ops.db cannot be read (No such file or directory); take another backup."),
    ],
)
def test_a_backup_that_is_not_whole_changes_nothing(spoil: object, told: str, backup: Path, tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "c")
    assert callable(spoil)
    spoil(backup)
    assert refused(backup, places) == told.format(backup)
    assert scenes.listing(tmp_path / "state") == ["ops.db", "store.db"]
    assert (scenes.names(places.store), scenes.sessions(places.operations)) == (["c"], 1)


def test_a_damaged_copy_changes_nothing(tmp_path: Path) -> None:
    places = scenes.filled(tmp_path / "state", "c")
    given = scenes.filled(tmp_path / "before", *(f"n{number}" for number in range(300))).store
    scenes.damage(given)
    assert "damaged" in refused(given, places) or "malformed" in refused(given, places)
    assert scenes.listing(tmp_path / "state") == ["ops.db", "store.db"]
    assert refused(tmp_path / "none", places) == (
        f"{tmp_path}/none is not there; name a folder that `reconciler backup` made."
    )


def test_what_root_restores_belongs_to_the_service(backup: Path, tmp_path: Path) -> None:
    needs.require_root()
    places = scenes.places(tmp_path / "state")
    os.chown(tmp_path / "state", 12345, 12345)
    restored(backup, places)
    assert [(path.stat().st_uid, path.stat().st_gid) for path in (places.store, places.operations)] == [
        (12345, 12345)
    ] * 2
