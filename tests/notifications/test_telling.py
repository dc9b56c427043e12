"""What is told outward: that a cause began and that it ended, to whoever wants it, and never often."""

from dataclasses import replace
from datetime import datetime

import pytest

from reconciler.notifications import telling
from reconciler.notifications.models import Cause, Notification, Severity, State, Type
from reconciler.notifications.telling import Filter
from tests.notifications.observing import CAUSE, FOUND, START, Book, at


def told_of(book: Book, now: datetime) -> State | None:
    """Tell of the only notification if that is due; what was told."""
    one = book.only
    state = telling.due(one, now=now)
    if state is not None:
        book.kept[one.id] = telling.told(one, state, now=now)
    return state


def test_a_cause_is_told_when_it_begins_and_when_it_ends_and_in_between_never() -> None:
    book = Book()
    book.look(FOUND, now=START)
    assert told_of(book, START) is State.OPEN
    book.look(replace(FOUND, facts={"message": "Another"}), now=at(minutes=5))
    assert told_of(book, at(minutes=5)) is None
    book.look(now=at(minutes=6))
    assert [told_of(book, at(minutes=6)), told_of(book, at(minutes=7))] == [State.RESOLVED, None]


def test_a_cause_that_flaps_is_told_once_in_a_quarter_of_an_hour() -> None:
    book, heard = Book(), []
    for minute in range(60):
        book.look(*([FOUND] if minute % 2 == 0 else []), now=at(minutes=minute))
        state = told_of(book, at(minutes=minute))
        heard += [(minute, state)] if state is not None else []
    assert heard == [
        (0, State.OPEN),
        (1, State.RESOLVED),
        (16, State.OPEN),
        (17, State.RESOLVED),
        (32, State.OPEN),
        (33, State.RESOLVED),
        (48, State.OPEN),
        (49, State.RESOLVED),
    ]


def test_one_that_came_back_and_stays_is_told_when_it_may_be() -> None:
    book = Book()
    book.look(FOUND, now=START)
    told_of(book, START)
    book.look(now=at(minutes=1))
    told_of(book, at(minutes=1))
    book.look(FOUND, now=at(minutes=2))
    assert [told_of(book, at(minutes=minute)) for minute in (2, 14, 15)] == [None, None, State.OPEN]


def test_one_that_grows_worse_is_told_to_those_who_had_not_heard_of_it() -> None:
    book, all_, critical = Book(), Filter(), Filter(severities={Severity.CRITICAL})
    book.look(FOUND, now=START)
    assert hear(book.only, State.OPEN, all_, critical) == [True, False]
    told_of(book, START)
    book.look(replace(FOUND, severity=Severity.CRITICAL), now=at(seconds=5))
    assert hear(book.only, State.OPEN, all_, critical) == [False, True]
    assert told_of(book, at(seconds=5)) is State.OPEN
    book.look(now=at(seconds=10))
    assert hear(book.only, State.RESOLVED, all_, critical) == [True, True]


def hear(one: Notification, state: State, *wanted: Filter) -> list[bool]:
    return [telling.wants(each, one, state) for each in wanted]


@pytest.mark.parametrize(
    ("wanted", "cause", "is_told"),
    [
        (Filter(), CAUSE, True),
        (Filter(), Cause(Type.DISK_LOW), True),
        (Filter(), CAUSE._replace(user="id-ana"), False),
        (Filter(severities={Severity.ERROR}), CAUSE, True),
        (Filter(severities={Severity.CRITICAL}), CAUSE, False),
        (Filter(types={Type.REPOSITORY_UNREACHABLE}), CAUSE, True),
        (Filter(types={Type.PRUNE_HELD}), CAUSE, False),
        (Filter(projects={"default"}), CAUSE, True),
        (Filter(projects={"acme"}), CAUSE, False),
        (Filter(projects={"default"}), Cause(Type.DISK_LOW), False),
    ],
)
def test_a_target_hears_what_it_wants_and_nothing_else(wanted: Filter, cause: Cause, is_told: bool) -> None:
    book = Book()
    book.look(replace(FOUND, cause=cause), now=START)
    assert hear(book.only, State.OPEN, wanted) == [is_told]
