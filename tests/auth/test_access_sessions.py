"""When a browser is signed in."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from reconciler.auth import sessions
from reconciler.auth.sessions import SessionLifetimes
from reconciler.model.clock import rfc3339
from reconciler.store.records import SessionRow
from tests.auth import directories

AT = datetime(2026, 11, 21, 6, 12, tzinfo=UTC)
LIFETIMES = SessionLifetimes(idle=60.0, absolute=300.0)
TOKEN = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
UNA = directories.user("una")


def session(*, created: float = 0, seen: float = 0) -> SessionRow:
    """One that began, and was seen, so many seconds after `AT`."""
    created_at, seen_at = [rfc3339(AT + timedelta(seconds=seconds)) for seconds in (created, seen)]
    return SessionRow(b"digest", UNA.id, 0, created_at=created_at, seen_at=seen_at, id_token="canary-id-token")


OF_UNA = session()


def test_what_is_kept_of_a_token_is_a_digest() -> None:
    kept = sessions.session_digest(TOKEN)
    assert kept is not None
    assert kept.hex() == "ea866a757e4c38babfa8127cbe9a409d3e1f93a00ff1488ff735fcf917afffd0"
    assert sessions.session_digest("_" * 42 + "8") != kept


@pytest.mark.parametrize(
    "text",
    ["", TOKEN[:-1], TOKEN + "A", TOKEN + "\n", TOKEN[:-1] + "=", TOKEN[:-1] + "é", TOKEN[:-1] + "\0", "x" * 10**6],
)
def test_what_is_no_token_has_no_digest(text: str) -> None:
    assert sessions.session_digest(text) is None


@pytest.mark.parametrize(
    ("one", "seconds", "is_over"),
    [
        (session(), 0, False),
        (session(), 59.999, False),
        (session(), 60, True),
        (session(seen=50), 109.999, False),
        (session(seen=250), 299.999, False),
        (session(seen=299), 300, True),
        (session(), -60, False),  # a clock that was set right
        (session(), -60.001, True),
        (session(seen=100), 40, False),
        (session(seen=100), 39, True),
        (session(created=100, seen=0), 30, True),
        (session(), 10**9, True),
    ],
)
def test_a_session_is_over_when_it_was_not_used_or_is_old_or_of_the_future(
    one: SessionRow, seconds: float, is_over: bool
) -> None:
    assert sessions.is_session_over(one, lifetimes=LIFETIMES, now=AT + timedelta(seconds=seconds)) is is_over


def test_a_session_is_of_the_person_as_they_were() -> None:
    assert sessions.is_session_of(OF_UNA, replace(UNA, name="other", display_name="Una", organization_admin=True))
    assert not sessions.is_session_of(OF_UNA, None)
    assert not sessions.is_session_of(OF_UNA, replace(UNA, losses=1))
    assert not sessions.is_session_of(OF_UNA._replace(losses=1), UNA)
    assert not sessions.is_session_of(OF_UNA, directories.user("vic"))


def test_what_a_session_says_of_itself_holds_no_token_and_no_digest() -> None:
    told = repr(OF_UNA)
    assert ("digest" in told, "canary" in told) == (False, False)
