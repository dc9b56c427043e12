"""Entries that name a project: `<project_id>` and `<role>:<project_id>`, in `service_projects` and behind the prefix of
a project's group.

Belongs here: reading one, and what several say about one project. Does not: where they stand (`claims`,
`claim_groups`), roles of projects that have none of their own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from reconciler.access.claim_rules import ClaimRule
from reconciler.model import names
from reconciler.model.principals import Role

_ROLES = {role.value: role for role in Role}
_RANK = {role: rank for rank, role in enumerate(Role)}  # a higher one is less privileged


class ProjectEntry(NamedTuple):
    """A project that is named. `role` is its own, None for a plain id; `rule` is the one that read it."""

    project: str
    role: Role | None
    rule: ClaimRule


def project_entry(text: str, *, rule: ClaimRule) -> ProjectEntry | None:
    """An entry, or None for one that is malformed: an empty side, a second colon, what could be no name at all.

    Direct claims 3, 5. What could be a name and is no project's is not malformed: it is unknown.
    """
    own, colon, project = (part.strip() for part in text.rpartition(":"))
    if names.wrong_name(project) is not None or ":" in own or (colon and not own):
        return None
    if not colon:
        return ProjectEntry(project, None, rule)
    return ProjectEntry(project, entry_role(own), rule if own in _ROLES else ClaimRule.DIRECT_5)


def entry_role(text: str) -> Role:
    """The role of this name, and `viewer` for any other text (direct claims 5)."""
    return _ROLES.get(text, Role.VIEWER)


def is_role(text: str) -> bool:
    """Whether a role is called so."""
    return text in _ROLES


def least_role(roles: Iterable[Role]) -> Role:
    """The least privileged of some roles (direct claims 6)."""
    return max(roles, key=_RANK.__getitem__)


def pooled_roles(entries: Iterable[ProjectEntry]) -> Mapping[str, frozenset[ProjectEntry]]:
    """What is said about each project, each thing once, sorted: in which order it was said means nothing."""
    pool: dict[str, set[ProjectEntry]] = defaultdict(set)
    for one in entries:
        pool[one.project].add(one)
    return {project: frozenset(pool[project]) for project in sorted(pool)}


def own_roles(entries: Iterable[ProjectEntry]) -> frozenset[Role]:
    """The roles that entries give one project."""
    return frozenset(one.role for one in entries if one.role is not None)
