"""People on their way in: decided on what there is, written, and only then signed in; however many come at once."""

import asyncio
import json
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reconciler.auth import changes
from reconciler.auth.accounts import Accounts
from reconciler.auth.admission import AdmissionReason, NotAdmitted
from reconciler.auth.sessions import SessionLifetimes, Sessions
from reconciler.auth.sign_in import Entered, People
from reconciler.model.directory import Amendment, Audited, Directory, Project
from reconciler.model.principals import Role
from reconciler.settings.models import OIDC
from reconciler.store.contract import StoreFault
from reconciler.store.operations import SqliteOperations
from reconciler.store.records import SessionRow
from reconciler.store.sqlite import SqliteStore
from tests.auth import arrivals, directories
from tests.auth.arrivals import ADMIN, CLAIMS_DECIDE, POLICY, VERIFIED, VIEWER, code, invitation, proved
from tests.store.contract_access import amend, whole
from tests.store.engines import SqliteEngine

pytestmark = pytest.mark.anyio

LIFETIMES = SessionLifetimes(idle=7_200.0, absolute=43_200.0)
NOW = datetime(2026, 11, 21, 6, 12, tzinfo=UTC)
EMPTY = Directory(projects={name: Project(name, directories.AT) for name in ("default", "payments")})


class Operations(SqliteOperations):
    """The real file, before each of whose new sessions something else may happen."""

    before: Callable[[], Awaitable[None]] | None = None

    async def put_session(self, row: SessionRow, *, without: Collection[bytes] = ()) -> None:
        if self.before is not None:
            await self.before()
        await super().put_session(row, without=without)


class Service:
    """A start with people, on a directory."""

    def __init__(self, folder: Path, directory: Directory) -> None:
        self.folder, self._directory = folder, directory

    async def start(self) -> "Service":
        self.store, self.operations = SqliteStore(self.folder / "store.db"), Operations(self.folder / "ops.db")
        await amend(self.store, whole(self._directory))
        self.accounts = Accounts(self.store, await self.store.directory(), clock=lambda: NOW)
        self.sessions = Sessions(self.operations, self.accounts, lifetimes=LIFETIMES, clock=lambda: NOW)
        return self

    async def enter(
        self, who: str = "noa", *, policy: OIDC = POLICY, code: str = "", instead_of: str = "", **claims: Any
    ) -> Entered:
        people = People(self.accounts, self.sessions, policy=policy, clock=lambda: NOW)
        return await people.enter(proved(who, **claims), code=code, instead_of=instead_of, request="R1")

    async def entered(self, *coming: Awaitable[Entered]) -> list[Entered | AdmissionReason]:
        """Return who is let in, and why others are not, when all come at once."""
        found = await asyncio.gather(*coming, return_exceptions=True)
        return [_outcome(one) for one in found]

    async def remove(self, name: str) -> None:
        await self.accounts.amend(
            lambda directory: changes.remove_user(directory, name), actor="user:root", request=None
        )

    def events(self) -> list[tuple[str, ...]]:
        """Return actor, action and person of each event, without those that made the directory of the test."""
        with sqlite3.connect(self.folder / "store.db") as connection:
            rows = connection.execute("select actor, action, kind, name, request, detail from audit").fetchall()
        connection.close()
        return rows[1:]


def _outcome(found: Entered | BaseException) -> Entered | AdmissionReason:
    if isinstance(found, NotAdmitted):
        return found.why
    assert isinstance(found, Entered)
    return found


Starting = Callable[..., Awaitable[Service]]


@pytest.fixture
async def starting(tmp_path: Path) -> AsyncIterator[Starting]:
    started: list[Service] = []

    async def start(directory: Directory) -> Service:
        started.append(await Service(tmp_path, directory).start())
        return started[-1]

    yield start
    for service in started:
        await service.operations.close()
        await service.store.close()


async def test_whoever_is_let_in_is_written_with_an_event_and_signed_in(starting: Starting) -> None:
    service = await starting(arrivals.directory())
    token, user = await service.enter(**VIEWER, **VERIFIED)
    assert (user.name, user.email, user.created_at) == ("noa@example.com", "noa@example.com", directories.AT)
    session = service.sessions.find(token)
    assert session is not None
    assert (session.user, session.id_token) == (user.id, "canary-id-token")
    assert service.accounts.directory.roles_of(user) == {"payments": Role.VIEWER}
    assert await service.store.directory() == service.accounts.directory
    [event] = service.events()
    assert event[:5] == ("sign-in", "created", "User", "noa@example.com", "R1")
    detail = json.loads(event[5])
    assert (detail.pop("by") != [], detail) == (True, {"organizationAdmin": False, "roles": {"payments": "viewer"}})


async def test_who_comes_again_is_signed_in_and_nothing_is_written(starting: Starting) -> None:
    service = await starting(arrivals.directory())
    first = await service.enter("una")
    before = service.events()
    second = await service.enter("una", instead_of=first.token)
    assert (second.user, service.events()) == (first.user, before)
    assert service.sessions.find(first.token) is None
    assert service.sessions.find(second.token) is not None


async def test_of_many_who_are_the_first_one_is(starting: Starting) -> None:
    service = await starting(EMPTY)
    names = [f"p{number}" for number in range(8)]
    found = await service.entered(*(service.enter(name) for name in names))
    assert found.count(AdmissionReason.NOT_INVITED) == 7
    [first] = [one for one in found if isinstance(one, Entered)]
    assert first.user.organization_admin
    assert list(service.accounts.directory.users.values()) == [first.user]
    assert service.accounts.directory.roles_of(first.user) == {"default": Role.ADMIN, "payments": Role.ADMIN}
    assert len(service.events()) == 1


async def test_of_many_whom_claims_admit_each_is_and_one_is_the_first(starting: Starting) -> None:
    service = await starting(EMPTY)
    found = await service.entered(*(service.enter(f"p{number}", **VIEWER) for number in range(8)))
    admins = [one.user.organization_admin for one in found if isinstance(one, Entered)]
    assert sorted(admins) == [False] * 7 + [True]


async def test_one_who_comes_twice_at_once_is_one_person(starting: Starting) -> None:
    service = await starting(EMPTY)
    one, other = await service.entered(service.enter(), service.enter())
    assert isinstance(one, Entered)
    assert isinstance(other, Entered)
    assert one.user == other.user
    assert len(service.events()) == 1
    assert {service.sessions.find(each.token) is not None for each in (one, other)} == {True}


async def test_of_many_who_bring_one_code_one_is_let_in(starting: Starting) -> None:
    service = await starting(arrivals.directory(invitation(code=code(1))))
    names = [*(f"p{number}" for number in range(6)), "nil", "vic"]
    found = await service.entered(*(service.enter(name, code=code(1)) for name in names))
    assert found.count(AdmissionReason.WRONG_CODE) == 7
    assert service.accounts.directory.invitations == {}
    with pytest.raises(NotAdmitted) as refusal:
        await service.enter("late", code=code(1))
    assert refusal.value.why is AdmissionReason.WRONG_CODE


async def test_what_claims_take_is_written_before_the_person_is_turned_away(starting: Starting) -> None:
    service = await starting(arrivals.directory())
    token, una = await service.enter("una", policy=CLAIMS_DECIDE, service_projects="user:payments")
    with pytest.raises(NotAdmitted) as refusal:
        await service.enter("una", policy=CLAIMS_DECIDE)
    assert refusal.value.why is AdmissionReason.GRANTED_NOTHING
    assert service.accounts.directory.roles_of(una) == {}
    assert await service.store.directory() == service.accounts.directory
    assert service.sessions.find(token) is None  # also of another browser


async def test_whoever_is_turned_away_is_told_to_the_log(starting: Starting, caplog: pytest.LogCaptureFixture) -> None:
    service = await starting(arrivals.directory())
    with caplog.at_level(logging.INFO), pytest.raises(NotAdmitted):
        await service.enter(policy=CLAIMS_DECIDE, service_projects="gone", preferred_username="noa")
    assert caplog.messages == [
        "noa signs in: the claims name projects that do not exist, which are skipped: gone",
        "noa is not let in (GRANTED_NOTHING): What your provider says of you opens no project here; ask whoever "
        "manages your groups and roles there. Claims that came: iss, preferred_username, service_projects, sub.",
    ]
    assert service.events() == []


async def test_whoever_is_removed_on_the_way_in_is_told_so(starting: Starting) -> None:
    service = await starting(arrivals.directory())

    async def remove() -> None:
        service.operations.before = None
        await service.remove("una")

    service.operations.before = remove
    with pytest.raises(changes.Conflict, match=r"^Your access was changed while you signed in; sign in once more.$"):
        await service.enter("una")
    assert "una" not in service.accounts.directory.users
    with pytest.raises(NotAdmitted):
        await service.enter("una")


async def test_a_code_is_not_taken_by_somebody_whose_admission_is_not_written(
    starting: Starting, tmp_path: Path
) -> None:
    service = await starting(arrivals.directory(invitation(code=code(1))))
    before = service.accounts.directory
    with SqliteEngine(tmp_path / "store.db").failing(service.store), pytest.raises(StoreFault):
        await service.enter(code=code(1))
    assert service.accounts.directory is before
    assert (await service.enter(code=code(1))).user.name.startswith("person-")


async def test_whoever_gives_up_waiting_is_written_all_the_same(starting: Starting) -> None:
    service = await starting(arrivals.directory())
    reached, go = asyncio.Event(), asyncio.Event()

    async def wait() -> None:
        reached.set()
        await go.wait()

    service.operations.before = wait
    coming = asyncio.create_task(service.enter(**ADMIN))
    await reached.wait()
    coming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await coming
    go.set()
    person = service.accounts.directory.person(proved().identity)
    assert person is not None
    assert person.organization_admin
    assert await service.store.directory() == service.accounts.directory


async def test_invitations_are_judged_by_what_their_makers_may_now(starting: Starting) -> None:
    service = await starting(arrivals.directory(invitation(code=code(1))))
    await service.remove("ada")
    assert (await service.store.directory()).invitations == {}
    with pytest.raises(NotAdmitted):
        await service.enter("ada", code=code(1))  # who put it aside


async def test_neither_token_nor_digest_is_shown_by_accident(starting: Starting) -> None:
    service = await starting(arrivals.directory(invitation(code=code(1))))
    entered = await service.enter(code=code(1))
    assert entered.token not in repr(entered)
    digest = changes.code_digest(code(1))
    waiting = replace(invitation(code=code(1)), id="I9")
    assert repr(digest) not in repr(Amendment(Audited("created", "Invitation", "I9"), invitations=(waiting,)))
