"""What is told outward: that a cause began and that it ended, to whoever wants it, and never often."""

from dataclasses import replace
from datetime import datetime

import pytest

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import ledger
from reconciler.notifications.ledger import AlertFilter
from reconciler.notifications.models import Cause, Notification, NotificationState
from tests.notifications.observing import CAUSE, FOUND, START, Book, at


def told_of(book: Book, now: datetime, *to: str) -> NotificationState | None:
    """Tell of the only notification if that is due; what was told."""
    one = book.only
    state = ledger.due(one, now=now)
    if state is not None:
        book.kept[one.id] = ledger.told(one, state, to)
    return state


def test_a_cause_is_told_when_it_begins_and_when_it_ends_and_in_between_never() -> None:
    book = Book()
    book.look(FOUND, now=START)
    assert told_of(book, START) is NotificationState.OPEN
    book.look(replace(FOUND, facts={"message": "Another"}), now=at(minutes=5))
    assert told_of(book, at(minutes=5)) is None
    book.look(now=at(minutes=6))
    assert [told_of(book, at(minutes=6)), told_of(book, at(minutes=7))] == [NotificationState.RESOLVED, None]


def test_one_that_comes_back_is_told_at_once_and_its_end_when_it_stayed_away_for_a_quarter_of_an_hour() -> None:
    book, heard = Book(), []
    for minute in range(24 * 60):
        is_there = minute < 20 * 60 and minute % 2 == 0
        book.look(*([FOUND] if is_there else []), now=at(minutes=minute))
        state = told_of(book, at(minutes=minute))
        heard += [(minute, state)] if state is not None else []
    assert heard == [
        (0, NotificationState.OPEN),
        (1, NotificationState.RESOLVED),
        (2, NotificationState.OPEN),
        (20 * 60 - 1 + 15, NotificationState.RESOLVED),
    ]


def test_one_that_comes_back_before_its_end_was_told_is_the_same_however_late() -> None:
    book = Book()
    for minute in (0, 2):
        book.look(FOUND, now=at(minutes=minute))
        told_of(book, at(minutes=minute))
        book.look(now=at(minutes=minute + 1))
        told_of(book, at(minutes=minute + 1))
    book.look(FOUND, now=at(hours=5))
    assert (told_of(book, at(hours=5)), book.only.occurrences) == (None, 3)
    book.look(now=at(hours=6))
    assert [told_of(book, at(hours=6, minutes=minute)) for minute in (0, 14, 15)] == [
        None,
        None,
        NotificationState.RESOLVED,
    ]


def test_one_that_grows_worse_is_told_to_those_who_had_not_heard_of_it() -> None:
    book, all_, critical = Book(), AlertFilter(), AlertFilter(severities={Severity.CRITICAL})
    book.look(FOUND, now=START)
    assert hear(book.only, NotificationState.OPEN, all_, critical) == [True, False]
    told_of(book, START, "0")
    book.look(replace(FOUND, severity=Severity.CRITICAL), now=at(seconds=5))
    assert hear(book.only, NotificationState.OPEN, all_, critical) == [False, True]
    assert told_of(book, at(seconds=5), "1") is NotificationState.OPEN
    book.look(now=at(seconds=10))
    assert hear(book.only, NotificationState.RESOLVED, all_, critical) == [True, True]


def test_the_end_is_told_to_whoever_heard_of_the_beginning_whatever_they_want_by_now() -> None:
    book, all_, critical = Book(), AlertFilter(), AlertFilter(severities={Severity.CRITICAL})
    book.look(FOUND, now=START)
    told_of(book, START, "0", "2")
    book.kept[book.only.id] = ledger.untold(book.only, {"2"})
    assert [ledger.wants_anew(name, all_, book.only) for name in "012"] == [False, True, True]
    assert [ledger.wants_anew(name, critical, book.only) for name in "012"] == [False, False, False]
    book.look(now=at(seconds=10))
    assert hear(book.only, NotificationState.RESOLVED, critical, all_, all_) == [True, False, False]
    assert [ledger.wants_anew(name, all_, book.only) for name in "012"] == [False, False, False]


def hear(one: Notification, state: NotificationState, *wanted: AlertFilter) -> list[bool]:
    """Whether targets, whose names are numbers, hear of it."""
    return [ledger.wants(str(number), each, one, state) for number, each in enumerate(wanted)]


@pytest.mark.parametrize(
    ("wanted", "cause", "is_told"),
    [
        (AlertFilter(), CAUSE, True),
        (AlertFilter(), Cause(NotificationType.DISK_LOW), True),
        (AlertFilter(), CAUSE._replace(user="id-ana"), False),
        (AlertFilter(severities={Severity.ERROR}), CAUSE, True),
        (AlertFilter(severities={Severity.CRITICAL}), CAUSE, False),
        (AlertFilter(types={NotificationType.REPOSITORY_UNREACHABLE}), CAUSE, True),
        (AlertFilter(types={NotificationType.PRUNE_HELD}), CAUSE, False),
        (AlertFilter(projects={"default"}), CAUSE, True),
        (AlertFilter(projects={"acme"}), CAUSE, False),
        (AlertFilter(projects={"default"}), Cause(NotificationType.DISK_LOW), False),
    ],
)
def test_a_target_hears_what_it_wants_and_nothing_else(wanted: AlertFilter, cause: Cause, is_told: bool) -> None:
    book = Book()
    book.look(replace(FOUND, cause=cause), now=START)
    assert hear(book.only, NotificationState.OPEN, wanted) == [is_told]
