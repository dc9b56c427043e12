"""Signing in with a name and a password."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.auth import changes, sign_in
from reconciler.auth.accounts import Accounts
from reconciler.auth.rate_limits import PER_PAIR, SECONDS
from reconciler.auth.sign_in import AT_ONCE, REMEMBERED_SECONDS, WAITING, SigningIn, Throttled
from reconciler.store.sqlite import SqliteStore
from tests.auth import directories
from tests.store.contract_access import amend, whole

pytestmark = pytest.mark.anyio
PASSWORD = "correct horse battery staple"


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that grows whenever a password is compared with a hash."""
    ran: list[str] = []
    compare = sign_in.is_right_password

    def counted(password: str, encoded: str) -> bool:
        ran.append("compared")
        return compare(password, encoded)

    monkeypatch.setattr(sign_in, "is_right_password", counted)
    return ran


class Stopwatch:
    """A monotonic clock that moves when told."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
async def accounts(tmp_path: Path) -> AsyncIterator[Accounts]:
    store = SqliteStore(tmp_path / "store.db")
    await amend(store, whole(directories.directory()))
    found = Accounts(store, await store.directory(), clock=lambda: datetime(2026, 11, 21, tzinfo=UTC))
    await give_password(found, PASSWORD)
    yield found
    await store.close()


@pytest.fixture
def stopwatch() -> Stopwatch:
    return Stopwatch()


@pytest.fixture
def door(accounts: Accounts, stopwatch: Stopwatch) -> SigningIn:
    return SigningIn(accounts, monotonic=stopwatch)


async def give_password(accounts: Accounts, password: str) -> None:
    una = changes.with_password(accounts.directory.users["una"], sign_in.encode_password(password))
    await accounts.amend(lambda directory: changes.change_user(directory, una), actor="user:root", request="R")


async def name_of(door: SigningIn, name: str, password: str, address: str = "192.0.2.1") -> str | None:
    found = await door.principal(name, password, address=address)
    return None if found is None else found.name


@pytest.mark.parametrize(
    ("name", "password", "found"),
    [
        ("una", PASSWORD, "user:una"),
        ("una", PASSWORD + " ", None),
        ("una", "", None),
        ("una", "x" * 2_000, None),
        ("vic", PASSWORD, None),  # who has none
        ("vic", "nobody has this password", None),
        ("nobody", "nobody has this password", None),
        ("", "", None),
    ],
)
async def test_only_the_right_password_of_somebody_who_has_one_is_right(
    door: SigningIn, name: str, password: str, found: str | None
) -> None:
    assert await name_of(door, name, password) == found


async def test_what_was_right_is_remembered_for_a_while_and_only_that(
    door: SigningIn, stopwatch: Stopwatch, compared: list[str]
) -> None:
    await name_of(door, "una", PASSWORD)
    compared.clear()
    assert await name_of(door, "una", PASSWORD) == "user:una"
    assert compared == []
    assert await name_of(door, "una", "another password") is None
    stopwatch.seconds = REMEMBERED_SECONDS
    assert await name_of(door, "una", PASSWORD) == "user:una"
    assert len(compared) == 2


async def test_a_new_password_ends_the_old_one_at_once(door: SigningIn, accounts: Accounts) -> None:
    assert await name_of(door, "una", PASSWORD) == "user:una"
    await give_password(accounts, "another password")
    assert await name_of(door, "una", PASSWORD) is None
    assert await name_of(door, "una", "another password") == "user:una"


async def test_whoever_was_removed_signs_in_no_more(door: SigningIn, accounts: Accounts) -> None:
    await name_of(door, "una", PASSWORD)
    await accounts.amend(lambda directory: changes.remove_user(directory, "una"), actor="user:root", request="R")
    assert await name_of(door, "una", PASSWORD) is None


async def test_a_role_that_changes_is_another_role_at_the_next_request(door: SigningIn, accounts: Accounts) -> None:
    await name_of(door, "una", PASSWORD)
    await accounts.amend(
        lambda directory: changes.remove_member(directory, project="payments", name="una"),
        actor="user:root",
        request="R",
    )
    found = await door.principal("una", PASSWORD, address="192.0.2.1")
    assert found is not None
    assert found.roles == {}


@pytest.mark.parametrize(("name", "told"), [("una", "una"), ("a password by mistake", "somebody unknown")])
async def test_guessing_is_told_once_it_is_slowed_down(
    door: SigningIn, caplog: pytest.LogCaptureFixture, name: str, told: str
) -> None:
    for _ in range(PER_PAIR):
        await name_of(door, name, "a guess")
    with pytest.raises(Throttled):
        await name_of(door, name, "a guess")
    line = f"Signing in as {told} from 192.0.2.1 fails again and again; it is slowed down."
    assert [record.getMessage() for record in caplog.records] == [line]


async def test_guessing_is_slowed_down_where_it_comes_from_and_nobody_is_locked_out(
    door: SigningIn, stopwatch: Stopwatch
) -> None:
    for _ in range(PER_PAIR):
        assert await name_of(door, "una", "a guess") is None
    with pytest.raises(Throttled) as refusal:
        await name_of(door, "una", PASSWORD)
    assert (refusal.value.message, refusal.value.seconds) == ("Too many attempts to sign in failed; wait.", SECONDS)
    assert await name_of(door, "una", PASSWORD, address="192.0.2.2") == "user:una"
    stopwatch.seconds = SECONDS
    assert await name_of(door, "una", PASSWORD) == "user:una"


async def test_more_at_once_than_can_be_compared_soon_are_turned_away(door: SigningIn) -> None:
    attempts = [name_of(door, f"nobody{number}", "a guess", str(number)) for number in range(WAITING + 3)]
    answers = await asyncio.gather(*attempts, return_exceptions=True)
    assert [type(answer) for answer in answers].count(Throttled) == 3
    assert answers.count(None) == WAITING


async def test_guesses_that_come_together_are_counted_together(door: SigningIn, compared: list[str]) -> None:
    answers = await asyncio.gather(*(name_of(door, "una", f"guess {n}") for n in range(50)), return_exceptions=True)
    assert [type(answer) for answer in answers].count(Throttled) == 50 - len(compared)
    assert PER_PAIR <= len(compared) < PER_PAIR + AT_ONCE


async def test_a_password_that_comes_often_at_once_is_compared_for_the_first_alone(
    door: SigningIn, compared: list[str]
) -> None:
    answers = await asyncio.gather(*(name_of(door, "una", PASSWORD) for _ in range(50)))
    assert answers == ["user:una"] * 50
    assert len(compared) <= AT_ONCE
