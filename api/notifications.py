"""Notifications and alerts."""

from starlette.responses import Response

from api import access, errors, requests, responses
from api.calls import Call, Subject
from api.responses import Json, json_answer
from api.routing import Routes
from reconciler.model.notification_types import NotificationType
from reconciler.model.principals import LOCAL, Permission
from reconciler.notifications.board import Sees
from reconciler.notifications.ledger import MOST
from reconciler.notifications.models import Cause, NotificationScope, UserStatus

routes = Routes()

# Notifications, and what each person did with them.
#
# Callers who may read a project see its notifications; those that name its keys are for callers who manage the keys.
# Organization admins see those of the organization, whichever project they choose. A notification about one person is
# for that person only. All other callers get `not found`.

LIST_PARAMETERS = frozenset({"limit", "after"})
# The sentence does not repeat the id, because the path may have any text.
MISSING = "There is no such notification; GET /v1/api/notifications lists those that are kept."


@routes.add("GET /v1/api/notifications", Subject.REACH, Permission.READ)
async def list_all(call: Call) -> Response:
    """List the notifications that the caller sees, the newest first."""
    query = requests.Query(call.query, known=LIST_PARAMETERS, strict=False)
    limit = query.integer("limit", lowest=1, highest=MOST, default=MOST)
    query.check()
    pages = call.services.board.pages(sees=seen_by(call), user=_person(call), after=query.text("after"), limit=limit)
    return responses.Streamed(responses.stream_array(b"notifications", pages))


@routes.add("GET /v1/api/notifications/{id}", Subject.REACH, Permission.READ)
async def get(call: Call) -> Response:
    """Show one notification."""
    return _answer(call, call.services.board.one(call.parameters["id"], sees=seen_by(call), user=_person(call)))


@routes.add("POST /v1/api/notifications/{id}/status", Subject.REACH, Permission.READ)
async def set_status(call: Call) -> Response:
    """Note what a person did with a notification."""
    person = _person(call)
    if person is None:
        raise errors.Forbidden("A key reads nothing; the status of a notification is a person's.")
    body = await requests.read_object(call, known=("userStatus",))
    status = body.choice("userStatus", list(UserStatus), required=True)
    body.check()
    board, sees = call.services.board, seen_by(call)
    shown = await board.set_status(call.parameters["id"], UserStatus(status or ""), sees=sees, user=person)
    return _answer(call, shown)


def _answer(call: Call, notification: bytes | None) -> Response:
    if notification is not None:
        return Json(responses.json_member(b"notification", notification))
    found = call.services.board.notification(call.parameters["id"])
    if found is not None and found.cause.scope is NotificationScope.ORGANIZATION:
        raise errors.Hidden(MISSING)
    raise access.missing(call, MISSING, project=None if found is None else found.cause.project)


def seen_by(call: Call) -> Sees:
    """Return the test for what the caller sees."""
    principal, person, reachable = call.principal, _person(call), access.reach(call)

    def sees(cause: Cause) -> bool:
        if cause.scope is NotificationScope.USER:
            return cause.user == person
        if cause.scope is NotificationScope.ORGANIZATION:
            return principal.organization_admin
        is_of_keys = cause.type is NotificationType.KEYS_TO_REVIEW
        if is_of_keys and not access.permits(call, Permission.MANAGE_KEYS, project=cause.project):
            return False
        return access.is_within(reachable, cause.project)

    return sees


def _person(call: Call) -> str | None:
    """Return the name under which a person's statuses are stored; None for a key."""
    return call.principal.name if call.principal == LOCAL else call.principal.user


# Test alerts.


@routes.add("POST /v1/alerts/test", Subject.ORGANIZATION, Permission.MANAGE_ORGANIZATION)
async def send_test_alert(call: Call) -> Response:
    """Send a test alert to one target or to all, and answer with the result."""
    body = await requests.read_object(call, known=("target",))
    target = body.text("target")
    body.check()
    outbox = call.services.outbox
    if outbox is None:
        raise errors.NotFound("The settings name nobody who is alerted; name a target in `alerts`.")
    tried = await outbox.test(target, request=call.request)
    if not tried:
        known = ", ".join(outbox.targets)
        raise errors.NotFound(f"The settings name no such target of alerts; those of `alerts` are {known}.")
    tests = [
        {
            "target": one.target,
            "taken": one.came.is_taken,
            "status": one.came.status,
            "seconds": round(one.seconds, 3),
            "message": one.came.why,
        }
        for one in tried
    ]
    return json_answer({"tests": tests})
