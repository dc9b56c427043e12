"""What is rendered is made once for each status, and anew when the notification changes."""

import json

from reconciler.notifications.models import UserStatus
from reconciler.notifications.rendering import RenderedNotifications
from tests.notifications.boards import PLACE
from tests.notifications.observing import FOUND, START, Book, at

UNREAD, READ, DISMISSED = UserStatus


def test_it_is_made_once_for_each_status_and_again_for_those_once_it_changed() -> None:
    book, rendered = Book(), RenderedNotifications(PLACE)
    book.look(FOUND, now=START)
    one = book.only
    rendered.changed(one.id)
    assert rendered.wanted() == [("N0001", UNREAD)]
    made = {status: rendered.of(one, status) for status in (UNREAD, DISMISSED)}
    assert [rendered.of(one, status) is text for status, text in made.items()] == [True, True]
    assert [json.loads(text)["spec"]["hidden"] for text in made.values()] == [False, True]
    rendered.want(one.id)
    assert rendered.wanted() == []
    book.look(now=at(minutes=1))
    rendered.changed(one.id)
    assert rendered.wanted() == [("N0001", UNREAD), ("N0001", DISMISSED)]
    assert b"Resolved: " in rendered.of(book.only, UNREAD)


def test_what_is_kept_no_longer_is_neither_made_nor_kept() -> None:
    book, rendered = Book(), RenderedNotifications(PLACE)
    book.look(FOUND, now=START)
    rendered.want(book.only.id, READ)
    rendered.forget(book.only.id)
    assert rendered.wanted() == []
    assert rendered.of(book.only, READ, is_kept=False) is not rendered.of(book.only, READ, is_kept=False)
