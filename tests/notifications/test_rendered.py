"""What is rendered is kept, and made anew when the notification changes."""

import json

from reconciler.notifications.models import UserStatus
from reconciler.notifications.rendering import RenderedNotifications
from tests.notifications.boards import PLACE
from tests.notifications.observing import FOUND, START, Book, at


def test_what_somebody_sees_follows_the_notification_and_what_they_did_with_it() -> None:
    book, rendered = Book(), RenderedNotifications(PLACE)
    book.look(FOUND, now=START)
    opened = book.only
    for _ in range(2):
        found = [json.loads(rendered.of(opened, status)) for status in UserStatus]
        assert [one["spec"]["hidden"] for one in found] == [False, False, True]
        assert [one["status"]["userStatus"] for one in found] == [*UserStatus]
    book.look(now=at(minutes=1))
    assert b"Resolved: " in rendered.of(book.only, UserStatus.READ)
    assert b"Resolved: " not in rendered.of(opened, UserStatus.READ, is_kept=False)
