"""Notifications as JSON, made once for each status that somebody gave them and kept until they change.

Belongs here: what is made already, and what is to be. Does not: which notifications there are, who gave which status
(`board`), their shape (`reconciler.notifications.rendering`).
"""

from reconciler.notifications import rendering
from reconciler.notifications.models import Notification, UserStatus
from reconciler.notifications.rendering import NotificationPlace


class RenderedNotifications:
    """What is kept here is of notifications as they are now; whoever changes one says so."""

    def __init__(self, place: NotificationPlace) -> None:
        self._place = place
        self._made: dict[UserStatus, dict[str, bytes]] = {status: {} for status in UserStatus}  # by id
        self._wanted: dict[tuple[str, UserStatus], None] = {}

    def want(self, identifier: str, status: UserStatus = UserStatus.UNREAD) -> None:
        """Have a notification made before it is asked for."""
        if identifier not in self._made[status]:
            self._wanted[identifier, status] = None

    def wanted(self) -> list[tuple[str, UserStatus]]:
        """What is to be made; from now on it is no longer wanted."""
        wanted, self._wanted = [*self._wanted], {}
        return wanted

    def changed(self, identifier: str) -> None:
        """A notification is another one now: it is made anew for all statuses for which it was."""
        self._wanted[identifier, UserStatus.UNREAD] = None
        for status, made in self._made.items():
            if made.pop(identifier, None) is not None:
                self._wanted[identifier, status] = None

    def forget(self, identifier: str) -> None:
        """There is no such notification any more."""
        for status, made in self._made.items():
            made.pop(identifier, None)
            self._wanted.pop((identifier, status), None)

    def of(self, one: Notification, status: UserStatus, *, is_kept: bool = True) -> bytes:
        """A notification as somebody sees it who gave it that status. What a list shows that began a moment ago may be
        kept no longer as it was then (`is_kept`), and then is made for it alone.
        """
        made = self._made[status].get(one.id) if is_kept else None
        if made is None:
            is_hidden = status is UserStatus.DISMISSED
            made = rendering.render_whole(rendering.render_notification(one, self._place, is_hidden=is_hidden), status)
            if is_kept:
                self._made[status][one.id] = made
        return made
