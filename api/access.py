"""Access: the project that a call is about, and the permission that the caller needs there.

A project out of the caller's reach gets 404, even if it exists. An operation that the caller may not do in a known
project gets 403.
"""

from api import errors
from api.calls import Call, Subject
from reconciler.model import principals
from reconciler.model.error_codes import ErrorCode
from reconciler.model.principals import Permission

HEADER = b"x-service-project"

# The name is not repeated, because the path may have any text.
NO_PROJECT = "There is no such project."
NO_REPOSITORY = "There is no such repository; GET /v1/repositories lists those that are watched."


def judge(call: Call) -> None:
    """Set the project that the call is about. Raises `NotFound`, `Forbidden`, `BadRequest`."""
    assert call.operation is not None
    _, subject, permission = call.operation
    if permission is None:
        return
    if subject is Subject.ORGANIZATION:
        allowed = principals.may(call.principal, permission, role=None)
    elif subject is Subject.REACH:
        allowed = principals.is_for(call.principal, permission)
    else:
        call.project = _project(call, subject)
        allowed = permits(call, permission, project=call.project)
    if not allowed:
        raise forbidden(call, permission)


def _project(call: Call, subject: Subject) -> str:
    if subject is Subject.PROJECT:
        return chosen(call)
    if subject is Subject.REPOSITORY:
        return project_of_repository(call, call.parameters["name"])
    return reached(call, call.parameters["name"])


def permits(call: Call, permission: Permission, *, project: str) -> bool:
    """Return True if the caller has a permission in a project."""
    return principals.may(call.principal, permission, role=call.principal.role_in(project))


def forbidden(call: Call, permission: Permission) -> errors.Forbidden:
    """Return the error for a missing permission."""
    takes = principals.required_for(permission, call.principal.scopes)
    return errors.Forbidden(f"{call.principal.name} may not do this; it takes {takes}.")


def reach(call: Call) -> frozenset[str] | None:
    """Return the projects that a call may see: the chosen one, otherwise all within reach; None for every project.

    Raises `NotFound` for a chosen project that is out of reach, `BadRequest` for two.
    """
    if HEADER in call.named:
        return frozenset({chosen(call)})
    principal = call.principal
    if principal.organization_admin or principal.everywhere is not None:
        return None
    return frozenset(principal.roles)


def is_within(reachable: frozenset[str] | None, project: str) -> bool:
    """Return True if a project is among these."""
    return reachable is None or project in reachable


def chosen(call: Call) -> str:
    """Return the project of the header, or the caller's only one. Raises `NotFound`, `BadRequest`."""
    values = call.header(HEADER)
    if len(values) > 1:
        raise errors.BadRequest("The header X-Service-Project is given more than once.")
    asked = values[0].decode("latin-1").strip() if values else None
    found = principals.chosen(call.principal, asked, existing=call.directory.projects)
    if found is not None:
        return found
    if asked is None:
        sentence = "Choose a project with the header X-Service-Project; GET /v1/me lists yours."
        raise errors.NotFound(sentence, code=ErrorCode.PROJECT_REQUIRED)
    raise no_project(call, asked)


def reached(call: Call, project: str) -> str:
    """Return the project, if it is within the caller's reach. Raises `NotFound`, `BadRequest`."""
    # Errors about the chosen project come first: otherwise they would reveal if the other project exists.
    reachable = reach(call)
    if project not in call.directory.projects or not is_within(reachable, project):
        raise no_project(call, project)
    return project


def project_of_repository(call: Call, repository: str) -> str:
    """Return the project of a repository, if it is within the caller's reach. Raises `NotFound`, `BadRequest`."""
    reachable = reach(call)
    project = call.services.repositories.project_of(repository)
    if project is None or not is_within(reachable, project):
        raise missing(call, NO_REPOSITORY, code=ErrorCode.REPOSITORY_NOT_FOUND, project=project)
    return project


def no_project(call: Call, name: str | None) -> errors.NotFound:
    """Return the error for a project out of reach. The audit counts it if the project exists."""
    return missing(call, NO_PROJECT, code=ErrorCode.PROJECT_NOT_FOUND, project=name)


def missing(
    call: Call, sentence: str, *, project: str | None, code: ErrorCode = ErrorCode.NOT_FOUND
) -> errors.NotFound:
    """Return the error for a thing that this caller cannot see. The audit counts it if its project exists."""
    if project is not None and project in call.directory.projects:
        return errors.Hidden(sentence, code=code, project=project)
    return errors.NotFound(sentence, code=code)
