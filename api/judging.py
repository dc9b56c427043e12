"""Which request needs what: every method of every path says so, or it cannot be built.

Belongs here: finding the project that a request is about, and turning a verdict into an answer. Does not: the verdict
(`reconciler.model.principals`), who asks (`api.auth`).

What somebody may not know of does not exist for them: that is a 404, whether it exists or not. What they may know of
and not do is a 403.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from starlette.responses import Response

from api import errors
from api.auth import authenticating
from api.calls import Call
from reconciler.model import principals
from reconciler.model.principals import AccessVerdict, Permission

Handler: TypeAlias = Callable[[Call], Awaitable[Response]]

HEADER = b"x-service-project"

# The name is not repeated: it is any text that somebody put into a path.
NO_PROJECT = "There is no such project."
NO_REPOSITORY = "There is no such repository; GET /v1/repositories lists those that are watched."


class PermissionPlace(Enum):
    """What a request is about."""

    PUBLIC = auto()  # no credential is asked for
    KNOWN = auto()  # whoever is known may: it is about themselves, or the handler judges each thing that it names
    REACH = auto()  # every project within reach, or the chosen one: what is shown is what may be seen
    ORGANIZATION = auto()
    PROJECT = auto()  # the chosen one
    NAMED_PROJECT = auto()  # the one in the path
    REPOSITORY = auto()  # the project that the repository in the path fills


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A handler, and who may call it."""

    handler: Handler
    place: PermissionPlace
    permission: Permission | None = None


def public(handler: Handler) -> AccessRule:
    """For everybody."""
    return AccessRule(handler, PermissionPlace.PUBLIC)


def known(handler: Handler) -> AccessRule:
    """For whoever has a credential."""
    return AccessRule(handler, PermissionPlace.KNOWN)


def within_reach(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever's credential is for such things at all; the handler shows what `reach` lets it."""
    return AccessRule(handler, PermissionPlace.REACH, permission)


def in_organization(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission whatever the project."""
    return AccessRule(handler, PermissionPlace.ORGANIZATION, permission)


def in_project(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission in the chosen project, which `call.project` is."""
    return AccessRule(handler, PermissionPlace.PROJECT, permission)


def of_project(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission in the project that the path names, which `call.project` is."""
    return AccessRule(handler, PermissionPlace.NAMED_PROJECT, permission)


def of_repository(handler: Handler, permission: Permission) -> AccessRule:
    """For whoever has the permission in the project of the repository that the path names, which `call.project` is."""
    return AccessRule(handler, PermissionPlace.REPOSITORY, permission)


def judge(call: Call, rule: AccessRule) -> None:
    """Set the project that the call is about. Raises `NotFound`, `Forbidden`, `BadRequest`."""
    if rule.permission is None:
        return
    verdict = _verdict(call, rule, rule.permission)
    if verdict is AccessVerdict.UNKNOWN:
        raise _missing(call, rule, call.project)
    if verdict is AccessVerdict.FORBIDDEN:
        takes = principals.required_for(rule.permission, call.principal.scopes)
        raise errors.Forbidden(f"{call.principal.name} may not do this; it takes {takes}.")


def again(call: Call) -> None:
    """Judge once more, by who the caller is now: a body or a password took its time, and the caller may have been
    removed, or been given another role, meanwhile. Raises what `judge` does, `Unauthenticated`.
    """
    session, services = call.state.get("session"), call.services
    now = services.accounts.still(call.principal, since=call.state["directory"])
    if now is None or (session is not None and not services.sessions.is_live(session)):
        challenge = authenticating.challenge(services.auth_type)
        raise errors.Unauthenticated("What you showed opens nothing any more.", challenge=challenge)
    call.state["principal"] = now
    call.judge(call)


def _verdict(call: Call, rule: AccessRule, permission: Permission) -> AccessVerdict:
    match rule.place:
        case PermissionPlace.ORGANIZATION:
            return principals.judge(call.principal, permission, project=None)
        case PermissionPlace.REACH:
            return AccessVerdict.ALLOWED if principals.is_for(call.principal, permission) else AccessVerdict.FORBIDDEN
        case _:
            call.project = call.state["project"] = _project(call, rule)
            return principals.judge(call.principal, permission, project=call.project)


def reach(call: Call) -> frozenset[str] | None:
    """The projects of which a call may see something: the chosen one, else all within reach; None for every project.

    Raises `NotFound` for a chosen project that is out of reach, `BadRequest` for two.
    """
    principal = call.principal
    asked = _asked(call)
    if asked is not None:
        return frozenset({_chosen(call, asked)})
    if principal.organization_admin or principal.everywhere is not None:
        return None
    return frozenset(principal.roles)


def permits(call: Call, permission: Permission, *, project: str) -> bool:
    """Whether who asks may do something in a project."""
    return principals.may(call.principal, permission, role=call.principal.role_in(project))


def is_within(reachable: frozenset[str] | None, project: str) -> bool:
    """Whether a project is among those."""
    return reachable is None or project in reachable


def _project(call: Call, rule: AccessRule) -> str:
    if rule.place is PermissionPlace.PROJECT:
        return chosen(call)
    # What is wrong with the chosen project comes first: told only of names that exist, it would tell which do.
    reachable = reach(call)
    name: str | None = call.parameter("name")
    if rule.place is PermissionPlace.REPOSITORY:
        name = call.services.repositories.project_of(call.parameter("name"))
    if name is None or name not in call.services.accounts.directory.projects or not is_within(reachable, name):
        raise _missing(call, rule, name)
    return name


def chosen(call: Call) -> str:
    """The project that a call means. Raises `NotFound`, `BadRequest`."""
    return _chosen(call, _asked(call))


def _chosen(call: Call, asked: str | None) -> str:
    found = principals.chosen(call.principal, asked, existing=call.services.accounts.directory.projects)
    if found is not None:
        return found
    if asked is None:
        raise errors.NotFound("Choose a project with the header X-Service-Project; GET /v1/me lists yours.")
    raise missing(call, NO_PROJECT, project=asked)


def missing(call: Call, sentence: str, *, project: str | None) -> errors.NotFound:
    """That there is no such thing, for whoever asks; the audit counts it when it is of a project that exists."""
    if project is not None and project in call.services.accounts.directory.projects:
        return errors.Hidden(sentence, project=project)
    return errors.NotFound(sentence)


def _asked(call: Call) -> str | None:
    if HEADER not in call.headers:
        return None
    values = call.header(HEADER)
    if len(values) > 1:
        raise errors.BadRequest("The header X-Service-Project is given more than once.")
    return values[0].decode("latin-1").strip()


def _missing(call: Call, rule: AccessRule, project: str | None) -> errors.NotFound:
    return missing(call, NO_REPOSITORY if rule.place is PermissionPlace.REPOSITORY else NO_PROJECT, project=project)
