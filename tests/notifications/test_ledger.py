"""The ledger: a cause has one notification from when it begins until it is forgotten."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import ledger
from reconciler.notifications.models import Cause, Finding, NotificationState
from tests.notifications.observing import CAUSE, FOUND, START, Book, at

OTHER = Finding(Cause(NotificationType.PRUNE_HELD, "telemetry", "default"), details="Held.")
WORSE = replace(FOUND, severity=Severity.CRITICAL)
SAID_ELSE = replace(FOUND, details="It wants a password.")


def forgotten(book: Book, **how: Any) -> list[str]:
    return ledger.forgotten(book.kept.values(), **how)


def test_a_cause_opens_once_and_stays_as_it_is_as_long_as_it_is_the_same() -> None:
    book = Book()
    book.observe(FOUND, now=START)
    opened = book.only
    assert (opened.cause, opened.state, opened.version, opened.occurrences) == (CAUSE, NotificationState.OPEN, 1, 1)
    for minutes in range(1, 100):
        assert book.observe(FOUND, now=at(minutes=minutes)) == []
    assert book.only == opened


def test_it_ends_with_the_first_look_that_does_not_find_it() -> None:
    book = Book()
    book.observe(FOUND, OTHER, now=START)
    book.observe(OTHER, now=at(seconds=5))
    ended, open_ = book.kept["N0001"], book.kept["N0002"]
    assert (ended.state, ended.resolved, ended.modified, ended.version) == (
        NotificationState.RESOLVED,
        at(seconds=5),
        at(seconds=5),
        2,
    )
    assert (open_.state, open_.version) == (NotificationState.OPEN, 1)


def test_what_comes_back_soon_is_the_same_and_what_comes_back_later_another() -> None:
    book = Book()
    book.observe(FOUND, now=START)
    book.observe(now=at(minutes=1))
    book.observe(FOUND, now=at(minutes=16))
    again = book.only
    assert (again.state, again.version, again.occurrences, again.opened, again.began) == (
        NotificationState.OPEN,
        3,
        2,
        START,
        at(minutes=16),
    )
    book.observe(now=at(minutes=17))
    book.observe(FOUND, now=at(minutes=32, seconds=1))
    assert [(one.id, one.state) for one in book.kept.values()] == [
        ("N0001", NotificationState.RESOLVED),
        ("N0002", NotificationState.OPEN),
    ]


def test_a_cause_that_flaps_for_a_day_is_one_notification() -> None:
    book = Book()
    for minute in range(0, 24 * 60, 2):
        book.observe(FOUND, now=at(minutes=minute))
        book.observe(now=at(minutes=minute + 1))
    assert (book.only.occurrences, book.only.opened) == (720, START)


def test_its_sentences_change_once_a_minute_and_at_once_when_it_grows_worse() -> None:
    book = Book()
    book.observe(FOUND, now=START)
    assert book.observe(SAID_ELSE, now=at(seconds=59)) == []
    assert book.observe(WORSE, now=at(seconds=59))[0].version == 2
    assert book.observe(replace(SAID_ELSE, severity=Severity.CRITICAL), now=at(seconds=119))[0].version == 3
    assert book.only.details == SAID_ELSE.details


def test_what_fades_keeps_what_is_open_and_opens_nothing() -> None:
    book, fading = Book(), replace(FOUND, fading=True)
    assert book.observe(fading, now=START) == []
    book.observe(FOUND, now=at(seconds=5))
    assert book.observe(fading, now=at(seconds=10)) == []
    book.observe(now=at(seconds=15))
    assert book.observe(fading, now=at(seconds=20)) == []
    assert book.only.state is NotificationState.RESOLVED


def test_a_look_at_one_project_says_nothing_of_another() -> None:
    book = Book()
    elsewhere = replace(FOUND, cause=CAUSE._replace(project="acme"))
    book.observe(FOUND, elsewhere, now=START)
    book.observe(now=at(seconds=5), part="acme")
    assert [one.state for one in book.kept.values()] == [NotificationState.OPEN, NotificationState.RESOLVED]


def test_what_finds_no_room_opens_once_there_is_some() -> None:
    book = Book()
    changes = book.observe(FOUND, OTHER, now=START, most=1)
    assert [one.cause for one in changes] == [CAUSE]
    assert len(book.observe(FOUND, OTHER, now=at(seconds=5), most=3)) == 1
    assert len(book.kept) == 2


def test_of_a_cause_that_is_given_twice_the_first_counts() -> None:
    book = Book()
    assert len(book.observe(FOUND, WORSE, now=START)) == 1
    assert book.only.severity is FOUND.severity


def test_what_concerns_the_organization_finds_room_always() -> None:
    book = Book()
    degraded = Finding(
        Cause(NotificationType.STORE_DEGRADED), Severity.CRITICAL, "The store cannot be used as it should"
    )
    changes = book.observe(FOUND, OTHER, degraded, now=START, most=1)
    assert [one.cause for one in changes] == [CAUSE, degraded.cause]
    assert book.observe(FOUND, OTHER, degraded, now=at(seconds=5), most=1) == []


def test_what_ended_long_ago_is_forgotten_and_what_is_open_never() -> None:
    book = Book()
    book.observe(FOUND, OTHER, now=START)
    book.observe(OTHER, now=at(days=1))
    keep = timedelta(days=30)
    assert forgotten(book, now=at(days=30), retention=keep) == []
    assert forgotten(book, now=at(days=31), retention=keep) == ["N0001"]


def test_what_is_still_to_be_told_of_is_not_forgotten() -> None:
    book = Book()
    book.observe(FOUND, now=START)
    book.observe(now=at(minutes=1))
    ended, keep = book.only, timedelta(minutes=15)
    for due in ({"told_to": frozenset({"chat"})}, {"waiting": {"chat": START}}):
        book.kept["N0001"] = structs.replace(ended, **due)
        assert forgotten(book, now=at(days=31), retention=keep, most=0) == []
    book.kept["N0001"] = ended
    assert forgotten(book, now=at(days=31), retention=keep, most=0) == ["N0001"]


def test_what_may_come_back_is_not_forgotten_however_short_the_retention_is() -> None:
    book = Book()
    book.observe(FOUND, now=START)
    book.observe(now=at(minutes=1))
    keep = timedelta(milliseconds=1)
    assert forgotten(book, now=at(minutes=15, seconds=59), retention=keep) == []
    assert forgotten(book, now=at(minutes=16), retention=keep) == ["N0001"]


def test_too_many_lose_those_that_ended_first() -> None:
    book = Book()
    found = [replace(FOUND, cause=CAUSE._replace(subject=f"r{number}")) for number in range(4)]
    for number in range(4):
        book.observe(*found[number:], now=at(seconds=number))
    gone = forgotten(book, now=at(seconds=9), retention=timedelta(days=1), most=2)
    assert gone == ["N0001", "N0002"]


@given(st.lists(st.sets(st.sampled_from("abc")), max_size=30))
def test_whatever_is_found_what_is_open_is_what_the_last_look_found(looks: list[set[str]]) -> None:
    book = Book()
    for number, names in enumerate(looks):
        before = {one.id: one.version for one in book.kept.values()}
        found = [replace(FOUND, cause=CAUSE._replace(subject=name)) for name in sorted(names)]
        book.observe(*found, now=at(minutes=7 * number))
        open_ = [one.cause.subject for one in book.kept.values() if one.state is NotificationState.OPEN]
        assert sorted(open_) == sorted(names)
        assert all(one.version >= before.get(one.id, 0) for one in book.kept.values())
