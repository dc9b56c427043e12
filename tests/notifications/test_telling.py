"""Alerts: that a cause began and that it ended, to whoever wants it, and never often."""

from dataclasses import replace
from datetime import datetime

import pytest

from reconciler.model.notification_types import NotificationType, Severity
from reconciler.notifications import ledger
from reconciler.notifications.models import Cause
from reconciler.settings.models import AlertTarget
from tests.notifications import boards
from tests.notifications.observing import CAUSE, FOUND, START, Book, at

ALL = boards.target("all")
CRITICAL = boards.target("critical", severities=(Severity.CRITICAL,))


def told(book: Book, now: datetime, to: AlertTarget = ALL, *, is_told: bool = True) -> list[str]:
    """The alerts that a target gets now; it takes them, or they are given up."""
    alerts = ledger.due(book.kept.values(), to.name, now=now)
    for alert in alerts:
        one = book.kept[alert.notification]
        book.kept[one.id] = ledger.settled(one, to.name, alert, is_told=is_told)
    return ["resolved" if alert.is_end else "opened" for alert in alerts]


def late(book: Book, to: AlertTarget, now: datetime) -> int:
    """The number of notifications that a target is told of late, which wait for it then."""
    found = ledger.told_late(book.kept.values(), to, now=now)
    book.kept |= {one.id: one for one in found}
    return len(found)


def test_a_cause_is_told_when_it_begins_and_when_it_ends_and_in_between_never() -> None:
    book = Book(ALL)
    book.observe(FOUND, now=START)
    assert told(book, START) == ["opened"]
    book.observe(replace(FOUND, details="Another."), now=at(minutes=5))
    assert told(book, at(minutes=5)) == []
    book.observe(now=at(minutes=6))
    assert [told(book, at(minutes=6)), told(book, at(minutes=7))] == [["resolved"], []]


def test_one_that_comes_back_is_told_at_once_and_its_end_when_it_stayed_away_for_a_quarter_of_an_hour() -> None:
    book, heard = Book(ALL), []
    for minute in range(24 * 60):
        is_there = minute < 20 * 60 and minute % 2 == 0
        book.observe(*([FOUND] if is_there else []), now=at(minutes=minute))
        heard += [(minute, event) for event in told(book, at(minutes=minute))]
    assert heard == [(0, "opened"), (1, "resolved"), (2, "opened"), (20 * 60 - 1 + 15, "resolved")]


def test_one_that_comes_back_before_its_end_was_told_is_the_same_however_late() -> None:
    book = Book(ALL)
    for minute in (0, 2):
        book.observe(FOUND, now=at(minutes=minute))
        told(book, at(minutes=minute))
        book.observe(now=at(minutes=minute + 1))
        told(book, at(minutes=minute + 1))
    book.observe(FOUND, now=at(hours=5))
    assert (told(book, at(hours=5)), book.only.occurrences) == ([], 3)
    book.observe(now=at(hours=6))
    assert [told(book, at(hours=6, minutes=minute)) for minute in (0, 14, 15)] == [[], [], ["resolved"]]


def test_one_that_comes_back_while_its_end_is_told_is_told_again() -> None:
    book = Book(ALL)
    book.observe(FOUND, now=START)
    told(book, START)
    book.observe(now=at(seconds=5))
    [alert] = ledger.due(book.kept.values(), "all", now=at(seconds=5))
    book.observe(FOUND, now=at(seconds=10))
    book.kept[book.only.id] = ledger.settled(book.only, "all", alert, is_told=True)
    assert told(book, at(seconds=10)) == ["opened"]


def test_one_that_ends_before_its_beginning_is_told_is_told_twice_or_not_at_all() -> None:
    for is_told, expected in ((True, ["resolved"]), (False, [])):
        book = Book(ALL)
        book.observe(FOUND, now=START)
        book.observe(now=at(seconds=5))
        assert told(book, at(seconds=5), is_told=is_told) == ["opened"]
        assert told(book, at(seconds=5)) == expected


def test_one_that_grows_worse_is_told_to_those_who_had_not_heard_of_it() -> None:
    book = Book(ALL, CRITICAL)
    book.observe(FOUND, now=START)
    assert [told(book, START, to) for to in (ALL, CRITICAL)] == [["opened"], []]
    book.observe(replace(FOUND, severity=Severity.CRITICAL), now=at(seconds=5))
    assert [told(book, at(seconds=5), to) for to in (ALL, CRITICAL)] == [[], ["opened"]]
    book.observe(now=at(seconds=10))
    assert [told(book, at(seconds=10), to) for to in (ALL, CRITICAL)] == [["resolved"], ["resolved"]]


def test_the_end_is_told_to_whoever_heard_of_the_beginning_whatever_they_want_by_now() -> None:
    heard, gave_up = boards.target("heard"), boards.target("gave-up")
    book = Book(heard, gave_up)
    book.observe(FOUND, now=START)
    assert [told(book, START, heard), told(book, START, gave_up, is_told=False)] == [["opened"], ["opened"]]
    assert [late(book, one, START) for one in (heard, gave_up, ALL, CRITICAL)] == [0, 1, 1, 0]
    assert told(book, START, gave_up, is_told=False) == ["opened"]
    book.observe(now=at(seconds=10))
    wants_less = heard.model_copy(update={"severities": CRITICAL.severities})
    assert [told(book, at(seconds=10), one) for one in (wants_less, gave_up)] == [["resolved"], []]
    assert [late(book, one, at(seconds=10)) for one in (heard, gave_up, CRITICAL)] == [0, 0, 0]


def test_a_target_that_the_settings_do_not_name_any_more_is_new_when_it_comes_back() -> None:
    book = Book(ALL, CRITICAL)
    book.observe(replace(FOUND, severity=Severity.CRITICAL), now=START)
    told(book, START)
    one = ledger.only_to(book.only, {"another"})
    assert (one.waiting, one.told_to) == ({}, frozenset())
    assert ledger.only_to(book.only, {"all", "critical"}) == book.only


@pytest.mark.parametrize(
    ("target", "cause", "is_told"),
    [
        (ALL, CAUSE, True),
        (ALL, Cause(NotificationType.DISK_LOW), True),
        (ALL, CAUSE._replace(user="id-ana"), False),
        (boards.target("all", severities=(Severity.ERROR,)), CAUSE, True),
        (boards.target("all", severities=(Severity.CRITICAL,)), CAUSE, False),
        (boards.target("all", types=(NotificationType.REPOSITORY_UNREACHABLE,)), CAUSE, True),
        (boards.target("all", types=(NotificationType.PRUNE_HELD,)), CAUSE, False),
        (boards.target("all", projects=("default",)), CAUSE, True),
        (boards.target("all", projects=("acme",)), CAUSE, False),
        (boards.target("all", projects=("default",)), Cause(NotificationType.DISK_LOW), False),
    ],
)
def test_a_target_hears_what_it_wants_and_nothing_else(target: AlertTarget, cause: Cause, is_told: bool) -> None:
    book = Book(target)
    book.observe(replace(FOUND, cause=cause), now=START)
    assert told(book, START) == (["opened"] if is_told else [])
