"""The directory as the running service knows it."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from reconciler.auth import changes
from reconciler.auth.accounts import Accounts, Decide
from reconciler.model.directory import Amendment, Directory
from reconciler.model.principals import Role
from reconciler.store.contract import StoreFault
from reconciler.store.sqlite import SqliteStore
from tests.auth import directories
from tests.auth.conftest import Watch
from tests.store.contract_access import amend, whole
from tests.store.engines import SqliteEngine

pytestmark = pytest.mark.anyio
KEY = directories.key(directories.text(1), expires_at=directories.LATER)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    await amend(opened, whole(directories.directory(KEY)))
    yield opened
    await opened.close()


@pytest.fixture
async def accounts(store: SqliteStore, watch: Watch) -> Accounts:
    return Accounts(store, await store.directory(), clock=watch)


def events(folder: Path) -> list[tuple[str | None, ...]]:
    """Return the audited events."""
    with closing(sqlite3.connect(folder / "store.db")) as connection:
        return connection.execute(
            "select actor, action, kind, name, project, request, detail, at from audit"
        ).fetchall()


def removing(name: str) -> Decide:
    return lambda directory: changes.remove_user(directory, name)


async def test_what_changes_nothing_is_written_nowhere(accounts: Accounts, tmp_path: Path) -> None:
    before, there = accounts.directory, events(tmp_path)
    assert await accounts.amend(lambda _: None, actor="sign-in", request="R1") is None
    assert (accounts.directory is before, events(tmp_path)) == (True, there)


async def test_whoever_loses_a_role_has_that_counted_in_memory_and_in_the_store(
    accounts: Accounts, store: SqliteStore
) -> None:
    for role in (Role.VIEWER, Role.ADMIN):
        await accounts.amend(
            partial(changes.set_member, project="payments", name="una", role=role), actor="user:root", request="R1"
        )
    await accounts.amend(
        partial(changes.remove_member, project="payments", name="una"), actor="user:root", request="R1"
    )
    losses = {name: user.losses for name, user in accounts.directory.users.items() if user.losses}
    assert (losses, await store.directory()) == ({"una": 2}, accounts.directory)


async def test_a_change_is_written_with_its_event_and_seen_at_once(
    accounts: Accounts, store: SqliteStore, tmp_path: Path
) -> None:
    await accounts.amend(removing("una"), actor="user:root", request="R1")
    assert "una" not in accounts.directory.users
    assert await store.directory() == accounts.directory
    detail = '{"organizationAdmin": false, "roles": {"payments": "user"}}'
    assert events(tmp_path)[1:] == [
        ("user:root", "deleted", "User", "una", "", "R1", detail, "2026-11-21T06:12:00.000Z")
    ]


async def test_what_is_refused_changes_nothing(accounts: Accounts, store: SqliteStore) -> None:
    before = accounts.directory
    with pytest.raises(changes.Conflict):
        await accounts.amend(removing("root"), actor="user:root", request="R1")
    assert (accounts.directory, await store.directory()) == (before, before)


async def test_what_the_store_does_not_take_is_not_seen(accounts: Accounts, store: SqliteStore, tmp_path: Path) -> None:
    before = accounts.directory
    with SqliteEngine(tmp_path / "store.db").failing(store), pytest.raises(StoreFault):
        await accounts.amend(removing("una"), actor="user:root", request="R1")
    assert accounts.directory is before


async def test_a_change_whose_asker_is_gone_is_seen_when_it_is_stored(accounts: Accounts, store: SqliteStore) -> None:
    asking = asyncio.create_task(accounts.amend(removing("una"), actor="user:root", request="R1"))
    await asyncio.sleep(0)  # it runs until it waits for the store
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await accounts.amend(removing("vic"), actor="user:root", request="R2")
    assert await store.directory() == accounts.directory
    assert {"una", "vic"}.isdisjoint(accounts.directory.users)


async def test_changes_that_come_together_are_decided_one_after_the_other(accounts: Accounts) -> None:
    seen: list[Directory] = []

    def decide(name: str) -> Decide:
        def one(directory: Directory) -> Amendment:
            seen.append(directory)
            return changes.remove_user(directory, name)

        return one

    await asyncio.gather(*(accounts.amend(decide(name), actor="user:root", request="R") for name in ("una", "vic")))
    assert [("una" in directory.users, "vic" in directory.users) for directory in seen] == [(True, True), (False, True)]


async def test_a_key_is_recognised_until_it_expires_or_is_revoked(accounts: Accounts, watch: Watch) -> None:
    text = directories.text(1)
    assert getattr(accounts.holder(text), "name", None) == "key:K1"
    watch.time += timedelta(days=1)
    assert accounts.holder(text) is None
    watch.time -= timedelta(days=1)
    await accounts.amend(lambda present: changes.revoke_key(present, KEY), actor="user:root", request="R1")
    assert accounts.holder(text) is None


async def test_the_last_use_of_a_key_is_written_when_told_and_not_for_every_request(
    accounts: Accounts, store: SqliteStore
) -> None:
    accounts.holder(directories.text(1))
    assert (await store.directory()).keys[KEY.prefix].last_used_at is None
    await accounts.touch()
    assert (await store.directory()).keys[KEY.prefix].last_used_at == "2026-11-21T06:12:00.000Z"


async def test_a_project_that_two_ask_for_at_once_is_created_once(accounts: Accounts, store: SqliteStore) -> None:
    await asyncio.gather(*(accounts.ensure_project("search") for _ in range(3)))
    assert accounts.directory.projects["search"] == (await store.directory()).projects["search"]
