"""Buttons of the console. Each button is one operation of the API, with the API's refusals."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from api.pages.forms import Form, PagePath


@dataclass(frozen=True, slots=True)
class Action:
    """A button: its operation, the sentence of a success, and the fields of its form.

    Fields of `path` are parameters of the operation's path, those of `body` members of its body. `optional` members are
    left out if they are empty, and `flags` are true or false. Without any member there is no body.
    """

    operation: str
    done: str
    path: Sequence[str] = ("name",)
    body: Sequence[str] = ()
    optional: Sequence[str] = ()
    flags: Sequence[str] = ()
    has_body: bool = True

    def parameters(self, form: Form) -> dict[str, Any]:
        """Return the parameters of the path."""
        return {field: form.text(field) for field in self.path}

    def members(self, form: Form) -> dict[str, Any] | None:
        """Return the body; None for an operation that takes none."""
        if not self.has_body:
            return None
        members: dict[str, Any] = {field: form.text(field) for field in self.body}
        members |= {field: form.text(field) for field in self.optional if form.text(field)}
        return members | {field: form.text(field) == "true" for field in self.flags}


DELIVERY = "POST /v1/destinations/{name}/delivery"
MEMBER = "/v1/projects/{name}/members/{user}"
REPOSITORY = "POST /v1/repositories/{name}"

ACTIONS = {
    "reconcile": Action(f"{REPOSITORY}/reconcile", "A run was requested.", has_body=False),
    "approve": Action(
        f"{REPOSITORY}/approve", "The held deletions are approved; a run carries them out.", body=("commit",)
    ),
    "suspend": Action(f"{REPOSITORY}/suspend", "The repository is suspended.", body=("reason",), optional=("expiry",)),
    "resume": Action(f"{REPOSITORY}/resume", "The repository is followed again."),
    "replay": Action(f"{DELIVERY}/replay", "The dead letters are queued again."),
    "replay-one": Action(f"{DELIVERY}/replay", "The dead letter is queued again.", body=("batch",)),
    "discard": Action(f"{DELIVERY}/discard", "The records are discarded.", body=("what",)),
    "discard-one": Action(f"{DELIVERY}/discard", "The dead letter is discarded.", body=("what", "batch")),
    "note": Action(
        "POST /v1/api/notifications/{id}/status", "The notification is updated.", path=("id",), body=("userStatus",)
    ),
    "create-project": Action("POST /v1/projects", "The project is created.", path=(), body=("name",)),
    "member": Action(f"PUT {MEMBER}", "The role is given.", path=("name", "user"), body=("role",)),
    "remove-member": Action(
        f"DELETE {MEMBER}", "The person is not a member any more.", path=("name", "user"), has_body=False
    ),
    "withdraw": Action(
        "DELETE /v1/projects/{name}/invitations/{id}",
        "The invitation is withdrawn.",
        path=("name", "id"),
        has_body=False,
    ),
    "create-user": Action(
        "POST /v1/users", "The person is added.", path=(), body=("name",), optional=("displayName", "password")
    ),
    "set-password": Action("PATCH /v1/users/{name}", "The password is set.", body=("password",)),
    "set-admin": Action("PATCH /v1/users/{name}", "The person's rights are changed.", flags=("organizationAdmin",)),
    "remove-user": Action("DELETE /v1/users/{name}", "The person is removed.", has_body=False),
    "revoke-key": Action("DELETE /v1/api-keys/{id}", "The key is revoked.", path=("id",), has_body=False),
}
"""The buttons by name."""

DONE = {name: action.done for name, action in ACTIONS.items()}


DONE_SECONDS = 10  # in which the next page must load to show what was done
LONGEST_BACK = 2_048  # characters
_BACK = re.compile(r"/(?!/)[!-\[\]-~]*")  # a path of ours: no host, no backslash that a browser takes for a slash


def local(text: str) -> str:
    """Return the path and query of a page of ours, or that of the overview for any other text."""
    return text if len(text) <= LONGEST_BACK and _BACK.fullmatch(text) else PagePath.HOME
