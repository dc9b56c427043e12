"""Browsers that are signed in, through restarts, full disks and what is taken from people."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from reconciler.auth import changes as auth_changes
from reconciler.auth import sessions
from reconciler.auth.accounts import Accounts, Decide
from reconciler.auth.oidc.flows import LONGEST_HINT
from reconciler.auth.sessions import MOST, MOST_OF_ONE, SessionGone, SessionLifetimes, Sessions
from reconciler.model.clock import rfc3339
from reconciler.model.directory import User
from reconciler.model.principals import Role
from reconciler.store.contract import StoreFault
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import SessionRow
from reconciler.store.sqlite import SqliteStore
from tests.auth import directories
from tests.auth.conftest import Watch
from tests.store.contract_access import amend, whole
from tests.store.engines import SqliteEngine, full, read_only, writer

pytestmark = pytest.mark.anyio

LIFETIMES = SessionLifetimes(idle=7_200.0, absolute=43_200.0)
HOUR = timedelta(hours=1)
UNKNOWN = "_" * 42 + "8"


class Service:
    """A start with people: two files, the directory, and the sessions."""

    def __init__(self, folder: Path, watch: Watch) -> None:
        self.folder, self.watch = folder, watch

    async def start(self) -> "Service":
        self.store, self.operations = SqliteStore(self.folder / "store.db"), SqliteOperations(self.folder / "ops.db")
        self.accounts = Accounts(self.store, await self.store.directory(), clock=self.watch)
        self.sessions = Sessions(self.operations, self.accounts, lifetimes=LIFETIMES, clock=self.watch)
        await self.sessions.load()
        return self

    async def kill(self) -> None:
        """End without writing anything more."""
        await self.operations.close()
        await self.store.close()

    async def restart(self) -> None:
        await self.sessions.touch()
        await self.kill()
        await self.start()

    async def begin(self, name: str = "una", *, id_token: str = "", instead_of: str = "") -> str:
        directory = self.accounts.directory
        return await self.sessions.begin(
            directory.users[name], since=directory, id_token=id_token, instead_of=instead_of
        )

    async def change(self, decide: Decide) -> None:
        await self.accounts.amend(decide, actor="user:root", request="R")

    def who(self, *tokens: str) -> list[str | None]:
        """Return the persons of these sessions, by ids."""
        found = [self.sessions.find(token) for token in tokens]
        return [None if session is None else session.user for session in found]


@pytest.fixture
async def service(tmp_path: Path, watch: Watch) -> AsyncIterator[Service]:
    store = SqliteStore(tmp_path / "store.db")
    await amend(store, whole(directories.directory()))
    await store.close()
    started = await Service(tmp_path, watch).start()
    yield started
    await started.kill()


def set_role(name: str, role: Role, project: str = "payments") -> Decide:
    return lambda directory: auth_changes.set_member(directory, project=project, name=name, role=role)


def remove_role(name: str) -> Decide:
    return lambda directory: auth_changes.remove_member(directory, project="payments", name=name)


def remove(name: str) -> Decide:
    return lambda directory: auth_changes.remove_user(directory, name)


def set_user(name: str, **changes: object) -> Decide:
    return lambda directory: auth_changes.change_user(directory, replace(directory.users[name], **changes))  # type: ignore[arg-type]


class SlowAccounts(Accounts):
    """Reading the directory again takes until a test says so."""

    is_reading: asyncio.Event
    go_on: asyncio.Event

    async def reload(self) -> None:
        self.is_reading.set()
        await self.go_on.wait()
        await super().reload()


async def test_what_begins_and_ends_while_all_sessions_are_read_again_has_begun_and_ended(
    service: Service, watch: Watch
) -> None:
    accounts = SlowAccounts(service.store, service.accounts.directory, clock=watch)
    service.sessions = Sessions(service.operations, accounts, lifetimes=LIFETIMES, clock=watch, is_shared=True)
    accounts.is_reading, accounts.go_on = asyncio.Event(), asyncio.Event()
    stays, ends = await service.begin(), await service.begin("vic")
    reading = asyncio.create_task(service.sessions.load())
    await accounts.is_reading.wait()
    await service.sessions.end(ends)
    begins = await service.begin("root")
    accounts.go_on.set()
    await reading
    assert service.who(stays, ends, begins) == ["id-una", None, "id-root"]


# Beginning, finding, ending


async def test_a_session_is_found_by_what_its_cookie_holds_and_by_nothing_else(service: Service, watch: Watch) -> None:
    token = await service.begin(id_token="a.b.c")
    digest = sessions.session_digest(token)
    assert digest is not None
    at = rfc3339(watch.time)
    expected = SessionRow(digest, "id-una", 0, created_at=at, seen_at=at, id_token="a.b.c")
    assert service.sessions.find(token) == expected
    assert service.who(UNKNOWN, "", token + "A", digest.hex(), "é") == [None] * 5


async def test_what_is_on_the_disk_is_no_token(service: Service) -> None:
    token = await service.begin()
    await service.sessions.touch()
    stored = b"".join(path.read_bytes() for path in service.folder.glob("ops.db*"))
    assert (token.encode() in stored, (sessions.session_digest(token) or b"-") in stored) == (False, True)


async def test_signing_out_ends_one_session_for_ever(service: Service) -> None:
    first, second = await service.begin(), await service.begin()
    seen = service.sessions.find(first)
    assert (await service.sessions.end(first), await service.sessions.end(first)) == (seen, None)
    assert service.who(first, second) == [None, "id-una"]
    await service.restart()
    assert service.who(first, second) == [None, "id-una"]


async def test_a_session_that_was_there_before_signing_in_ends_with_it(service: Service) -> None:
    """Somebody else may know its token (session fixation)."""
    before = await service.begin("vic")
    after = await service.begin("una", instead_of=before)
    again = await service.begin("una", instead_of=UNKNOWN)
    assert service.who(before, after, again) == [None, "id-una", "id-una"]
    assert len(await service.operations.sessions()) == 2
    await service.restart()
    assert service.who(before, after, again) == [None, "id-una", "id-una"]


async def test_a_long_token_of_the_provider_is_left_out(service: Service) -> None:
    tokens = [await service.begin(id_token="x" * length) for length in (LONGEST_HINT, LONGEST_HINT + 1)]
    found = [service.sessions.find(token) for token in tokens]
    assert [len(session.id_token) for session in found if session is not None] == [LONGEST_HINT, 0]


# Time


async def test_a_session_lasts_as_long_as_it_is_used_and_half_a_day_at_most(service: Service, watch: Watch) -> None:
    used, unused = await service.begin(), await service.begin()
    watch.time += 1.9 * HOUR
    assert service.who(used) == ["id-una"]
    watch.time += 1.9 * HOUR
    assert service.who(used, unused) == ["id-una", None]
    for _ in range(8):
        watch.time += HOUR
        assert service.who(used) == ["id-una"]
    watch.time += 0.3 * HOUR
    assert service.who(used) == [None]
    assert (await service.sessions.end(used), await service.sessions.end(unused)) == (None, None)


async def test_a_restart_keeps_sessions_and_when_they_were_seen(service: Service, watch: Watch) -> None:
    used, unused = await service.begin(id_token="a.b.c"), await service.begin("vic")
    watch.time += HOUR
    seen = service.sessions.find(used)
    assert seen is not None
    await service.restart()
    watch.time += 1.5 * HOUR
    assert service.who(unused) == [None]
    assert service.sessions.find(used) == seen._replace(seen_at=rfc3339(watch.time))
    # What was over at the start is on the disk no more, either.
    watch.time += 3 * HOUR
    await service.restart()
    assert (service.who(used), await service.operations.sessions()) == ([None], [])


async def test_when_a_session_was_seen_last_may_be_lost_by_a_kill_and_no_session_is(
    service: Service, watch: Watch
) -> None:
    token = await service.begin()
    watch.time += HOUR
    assert service.who(token) == ["id-una"]
    await service.kill()
    await service.start()
    assert service.who(token) == ["id-una"]
    [row] = await service.operations.sessions()
    assert row.seen_at == row.created_at


async def test_a_clock_that_goes_back_a_little_signs_nobody_out_and_one_that_goes_back_far_everybody(
    service: Service, watch: Watch
) -> None:
    token = await service.begin()
    watch.time -= timedelta(seconds=59)
    found = service.sessions.find(token)
    assert found is not None
    assert found.seen_at == found.created_at
    watch.time -= HOUR
    assert service.who(token) == [None]
    watch.time += 2 * HOUR
    assert service.who(token) == [None]


async def test_what_is_over_goes_from_the_disk_without_being_asked_for(service: Service, watch: Watch) -> None:
    await service.begin("vic")
    watch.time += HOUR
    token = await service.begin()
    watch.time += 1.5 * HOUR
    await service.sessions.sweep()
    assert [row.user for row in await service.operations.sessions()] == ["id-una"]
    assert service.who(token) == ["id-una"]


async def test_it_is_kept_again_and_again_until_cancelled(service: Service, watch: Watch) -> None:
    token = await service.begin()
    watch.time += HOUR
    assert service.who(token) == ["id-una"]
    keeping = asyncio.create_task(service.sessions.keep(every=0.001))
    async with asyncio.timeout(10):
        while [row.seen_at for row in await service.operations.sessions()] != [rfc3339(watch.time)]:
            pass
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping


# How many


async def test_of_one_person_the_longest_unused_goes_when_there_are_too_many(service: Service, watch: Watch) -> None:
    tokens, other = [await service.begin() for _ in range(MOST_OF_ONE)], await service.begin("vic")
    watch.time += timedelta(minutes=1)
    assert service.who(tokens[0]) == ["id-una"]
    tokens += [await service.begin() for _ in range(2)]
    await service.sessions.touch()
    await service.restart()
    left = [number for number, token in enumerate(tokens) if service.sessions.find(token) is not None]
    assert (left, service.who(other)) == ([0, *range(3, MOST_OF_ONE + 2)], ["id-vic"])


async def test_of_all_the_longest_unused_goes_when_there_are_too_many(service: Service, watch: Watch) -> None:
    users = [directories.user(f"user-{number:04}") for number in range(MOST // MOST_OF_ONE)]
    await service.change(lambda directory: replace(whole(directory), users=tuple(users), members=(), projects=()))
    at = rfc3339(watch.time)
    later = rfc3339(watch.time + timedelta(seconds=1))
    rows = [
        SessionRow(number.to_bytes(32, "big"), users[number // MOST_OF_ONE].id, 0, at, later if number else at, "")
        for number in range(MOST)
    ]
    for row in rows[:3]:
        await service.operations.put_session(row)
    writer(service.folder / "ops.db").executemany(
        "insert into session (digest, user, losses, created_at, seen_at, id_token) values (?, ?, ?, ?, ?, ?)", rows[3:]
    )
    watch.time += timedelta(seconds=2)
    await service.restart()
    token = await service.begin("vic")
    await service.sessions.touch()
    found = await service.operations.sessions()
    assert (len(found), {row.digest for row in rows} - {row.digest for row in found}) == (MOST, {rows[0].digest})
    assert service.who(token) == ["id-vic"]


# What is taken from somebody


class Case(NamedTuple):
    """A change, and whose sessions it ends."""

    change: Decide
    ends: frozenset[str] = frozenset()


CASES = {
    "a role is lowered": Case(set_role("una", Role.VIEWER), frozenset({"una"})),
    "a role ends": Case(remove_role("ada"), frozenset({"ada"})),
    "a person goes": Case(remove("vic"), frozenset({"vic"})),
    "an admin becomes less": Case(set_user("max", organization_admin=False), frozenset({"max"})),
    "a password is changed": Case(set_user("una", password="$argon2id$2"), frozenset({"una"})),
    "a role is raised": Case(set_role("vic", Role.ADMIN)),
    "a role comes": Case(set_role("vic", Role.VIEWER, "default")),
    "a person becomes an admin": Case(set_user("una", organization_admin=True)),
    "a name is changed": Case(set_user("una", display_name="Una")),
}
NAMES = ("una", "vic", "ada", "max")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_whoever_loses_anything_loses_every_session_at_once_and_nobody_else(
    service: Service, case: Case, is_restarted: bool
) -> None:
    second_admin = directories.user("max", organization_admin=True)
    await service.change(lambda directory: auth_changes.create_user(directory, second_admin))
    tokens = {name: [await service.begin(name), await service.begin(name)] for name in NAMES}
    before = {name: [service.sessions.find(token) for token in held] for name, held in tokens.items()}
    await service.change(case.change)
    live = {
        name: [session is not None and service.sessions.is_live(session) for session in held]
        for name, held in before.items()
    }
    if is_restarted:
        await service.kill()
        await service.start()
    expected = {name: [name not in case.ends] * 2 for name in NAMES}
    found = {name: [service.sessions.find(token) is not None for token in held] for name, held in tokens.items()}
    assert (live, found) == (expected, expected)
    await service.sessions.sweep()
    assert {row.user for row in await service.operations.sessions()} == {f"id-{name}" for name in NAMES} - {
        f"id-{name}" for name in case.ends
    }


async def test_what_is_given_back_brings_no_session_back(service: Service) -> None:
    token = await service.begin()
    await service.change(remove_role("una"))
    await service.change(set_role("una", Role.USER))
    assert service.who(token) == [None]
    await service.restart()
    assert service.who(token) == [None]
    assert service.who(await service.begin()) == ["id-una"]


async def test_somebody_is_removed_although_sessions_cannot_be_written_and_theirs_stay_away(service: Service) -> None:
    token, other = await service.begin(), await service.begin("vic")
    with full(service.folder / "ops.db"):
        await service.change(remove_role("una"))
        assert service.who(token, other) == [None, "id-vic"]
    await service.kill()
    await service.start()
    assert service.who(token, other) == [None, "id-vic"]


async def test_what_cannot_be_written_takes_nothing_and_ends_no_session(service: Service) -> None:
    token = await service.begin()
    with SqliteEngine(service.store.path).full(service.store), pytest.raises(StoreFault):
        await service.change(set_user("una", password="x" * 100_000))
    assert service.who(token) == ["id-una"]


@pytest.mark.parametrize("change", [remove("una"), remove_role("una"), set_user("una", password="$argon2id$2")])
async def test_whoever_lost_something_since_they_were_recognised_gets_no_session(
    service: Service, change: Decide
) -> None:
    directory = service.accounts.directory
    other = await service.begin("vic")
    await service.change(change)
    with pytest.raises(SessionGone):
        await service.sessions.begin(directory.users["una"], since=directory, instead_of=other)
    kept = [row.user for row in await service.operations.sessions()]
    assert (kept, service.who(other)) == (["id-vic"], ["id-vic"])


async def test_whoever_loses_something_while_the_session_is_written_gets_none(service: Service) -> None:
    directory = service.accounts.directory
    beginning = asyncio.create_task(service.sessions.begin(directory.users["una"], since=directory))
    changing_role = asyncio.create_task(service.change(remove_role("una")))
    outcomes = await asyncio.gather(beginning, changing_role, return_exceptions=True)
    token = outcomes[0]
    assert isinstance(token, SessionGone) or service.who(str(token)) == [None]
    await service.restart()
    assert await service.operations.sessions() == []


async def test_somebody_who_was_never_there_gets_no_session(service: Service) -> None:
    stranger: User = directories.user("stranger")
    with pytest.raises(SessionGone):
        await service.sessions.begin(stranger, since=service.accounts.directory)


# Disks


async def test_a_full_disk_begins_nothing_and_ends_what_is_ended(service: Service) -> None:
    token, other = await service.begin(), await service.begin("vic")
    with read_only(service.folder / "ops.db"):
        with pytest.raises(StoreFault):
            await service.begin("ada", instead_of=other)
        with pytest.raises(StoreFault):
            await service.sessions.end(token)
        await service.sessions.touch()
        assert service.who(token, other) == [None, None]
    await service.sessions.touch()
    assert await service.operations.sessions() == []


async def test_when_sessions_were_seen_is_written_once_that_can_be(service: Service, watch: Watch) -> None:
    token = await service.begin()
    watch.time += HOUR
    assert service.who(token) == ["id-una"]
    with read_only(service.folder / "ops.db"):
        await service.sessions.touch()
    await service.sessions.touch()
    assert [row.seen_at for row in await service.operations.sessions()] == [rfc3339(watch.time)]


async def test_a_row_that_cannot_be_read_is_no_session(service: Service) -> None:
    token = await service.begin()
    [row] = await service.operations.sessions()
    for number, created_at in enumerate(("", "yesterday")):
        await service.operations.put_session(row._replace(digest=bytes([number]) * 32, created_at=created_at))
    await service.restart()
    assert (service.who(token), await service.operations.sessions()) == (["id-una"], [row])


async def test_whoever_goes_away_while_a_session_begins_leaves_one_that_is_counted(service: Service) -> None:
    beginning = asyncio.create_task(service.begin())
    await asyncio.sleep(0)
    beginning.cancel()
    with pytest.raises(asyncio.CancelledError):
        await beginning
    assert [row.user for row in await service.operations.sessions()] == ["id-una"]  # behind what is under way
    await service.change(remove("una"))
    await service.sessions.sweep()
    assert await service.operations.sessions() == []
