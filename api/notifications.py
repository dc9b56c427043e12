"""Notifications: what somebody should know of the service, and what each person did with it.

Belongs here: who sees which, and what a path and a body say. Does not: what there is (`reconciler.notifying`).

What concerns a project is seen by whoever may read it, and what names its keys by whoever manages them; what concerns
the organization, by its admins, whichever project they choose; what concerns one person, by that person. All else does
not exist for whoever asks.
"""

from starlette.responses import Response

from api import answers, errors, judging, objects, queries, streams
from api.answers import Json
from api.calls import Call
from reconciler.model.notification_types import NotificationType
from reconciler.model.principals import LOCAL, Permission
from reconciler.notifications.board import Sees
from reconciler.notifications.ledger import MOST
from reconciler.notifications.models import Cause, NotificationScope, UserStatus

MANAGE_KEYS = Permission.MANAGE_KEYS
LIST_PARAMETERS = frozenset({"limit", "after"})
# The id is not repeated: it is any text that somebody put into a path.
MISSING = "There is no such notification; GET /v1/api/notifications lists those that are kept."


async def list_all(call: Call) -> Response:
    """GET /v1/api/notifications"""
    query = queries.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=MOST, default=MOST)
    query.check()
    pages = call.services.board.pages(sees=_sees(call), user=_person(call), after=query.text("after"), limit=limit)
    return streams.Streamed(streams.stream_array(b"notifications", pages))


async def get(call: Call) -> Response:
    """GET /v1/api/notifications/{id}"""
    return _answer(call, call.services.board.one(call.parameter("id"), sees=_sees(call), user=_person(call)))


async def set_status(call: Call) -> Response:
    """POST /v1/api/notifications/{id}/status"""
    queries.none_known(call.query)
    person = _person(call)
    if person is None:
        raise errors.Forbidden("A key reads nothing; the status of a notification is a person's.")
    body = await objects.read_object(call, known=("userStatus",))
    status = body.choice("userStatus", list(UserStatus), required=True)
    body.check()
    board, sees = call.services.board, _sees(call)
    shown = await board.set_status(call.parameter("id"), UserStatus(status or ""), sees=sees, user=person)
    return _answer(call, shown)


def _answer(call: Call, notification: bytes | None) -> Response:
    if notification is None:
        raise _missing(call)
    return Json(answers.json_member(b"notification", notification))


def _missing(call: Call) -> errors.NotFound:
    cause = call.services.board.cause(call.parameter("id"))
    if cause is not None and cause.scope is NotificationScope.ORGANIZATION:
        return errors.Hidden(MISSING)
    return judging.missing(call, MISSING, project=None if cause is None else cause.project)


def _sees(call: Call) -> Sees:
    """What whoever asks sees."""
    principal, reachable = call.principal, judging.reach(call)

    def sees(cause: Cause) -> bool:
        if cause.scope is NotificationScope.USER:
            return cause.user == principal.user
        if cause.scope is NotificationScope.ORGANIZATION:
            return principal.organization_admin
        if cause.type is NotificationType.KEYS_TO_REVIEW and not judging.permits(
            call, MANAGE_KEYS, project=cause.project
        ):
            return False
        return judging.is_within(reachable, cause.project)

    return sees


def _person(call: Call) -> str | None:
    """By what name a person's statuses are kept; None for a key."""
    return call.principal.name if call.principal == LOCAL else call.principal.user
