"""Buttons of the console: each is an operation of the API, and its refusals are those of the API."""

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from api import errors
from api.calls import Call, Subject
from api.pages import forms
from api.pages.asking import Api
from api.pages.forms import PagePath
from api.routing import Routes
from reconciler.auth.oidc import flows

routes = Routes(forms.STYLE)


class Action:
    """A button: its operation, the fields of its form that are parameters of the path and members of the body, and the
    sentence of a success.
    """

    def __init__(self, operation: str, done: str, *, path: Sequence[str] = (), body: Sequence[str] = ()) -> None:
        self.operation = operation
        self.done = done
        self.path = path
        self.body = body


ACTIONS = {
    "reconcile": Action("POST /v1/repositories/{name}/reconcile", "A run was asked for.", path=("name",)),
    "approve": Action(
        "POST /v1/repositories/{name}/approve",
        "The held deletions are approved; a run carries them out.",
        path=("name",),
        body=("commit",),
    ),
    "suspend": Action(
        "POST /v1/repositories/{name}/suspend", "The repository is suspended.", path=("name",), body=("reason",)
    ),
    "resume": Action("POST /v1/repositories/{name}/resume", "The repository is followed again.", path=("name",)),
    "replay": Action(
        "POST /v1/destinations/{name}/delivery/replay", "The dead letters are queued again.", path=("name",)
    ),
    "discard": Action(
        "POST /v1/destinations/{name}/delivery/discard", "It is discarded.", path=("name",), body=("what",)
    ),
    "replay-one": Action(
        "POST /v1/destinations/{name}/delivery/replay",
        "The dead letter is queued again.",
        path=("name",),
        body=("batch",),
    ),
    "discard-one": Action(
        "POST /v1/destinations/{name}/delivery/discard", "It is discarded.", path=("name",), body=("what", "batch")
    ),
    "dismiss": Action(
        "POST /v1/api/notifications/{id}/status", "The notification is noted.", path=("id",), body=("userStatus",)
    ),
}
"""The buttons by name."""

DONE = {name: action.done for name, action in ACTIONS.items()}

NO_BODY = frozenset({"reconcile"})  # operations that take no body at all


@routes.add(f"POST {PagePath.ACT}", Subject.PUBLIC)
async def act(call: Call) -> Response:
    """Do what a button says, and lead back to its page."""
    form = await forms.read_own_form(call)
    name, project, back = form.text("action"), form.text("project"), flows.local_path(form.text("back"))
    action = ACTIONS.get(name)
    if action is None:
        raise errors.BadRequest("There is no such action.")
    body = {field: form.text(field) for field in action.body}
    parameters: dict[str, Any] = {field: form.text(field) for field in action.path}
    await Api(call).ask(action.operation, project=project, body=None if name in NO_BODY else body, **parameters)
    return forms.elsewhere(f"{back}{'&' if '?' in back else '?'}done={name}")
