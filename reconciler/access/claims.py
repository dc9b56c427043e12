"""What claims of an ID token grant: the rules of the interface, Authentication, one by one.

Belongs here: a pure function from claims to roles, and by which rule each was given. Does not: reading claims
(`claim_reading`), what an entry or a group means (`claim_entries`, `claim_groups`), who sends the claims
(`reconciler.oidc`), what somebody has already (`admitting`).

The rules have names (`claim_rules.Rule`), which stand beside what follows them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from reconciler.access import claim_entries, claim_groups, claim_reading
from reconciler.access.claim_entries import ProjectEntry
from reconciler.access.claim_names import ClaimNames
from reconciler.access.claim_reading import ReadClaims
from reconciler.access.claim_rules import ClaimRule
from reconciler.access.claim_values import UnfitClaim
from reconciler.model import names as naming
from reconciler.model.principals import Role
from reconciler.model.text import counted, visible

__all__ = ["ClaimNames", "GrantedRoles", "UnreadableClaims", "granted_roles"]

SHOWN = 10  # projects that one sentence names


@dataclass(frozen=True, slots=True)
class GrantedRoles:
    """What claims grant. `roles` are by project, sorted; empty for an organization admin, who needs none. `reasons` are
    sentences that say by which rule, a few however many projects there are; `unknown` are the projects that were named
    and do not exist, sorted. For whoever shows each project by itself, `because` has its rule, and `notes` the rest of
    the reasons.
    """

    organization_admin: bool
    roles: Mapping[str, Role]
    reasons: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    because: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether it opens nothing."""
        return not self.organization_admin and not self.roles


@dataclass(frozen=True, slots=True)
class UnreadableClaims:
    """Claims that cannot be parsed (direct claims 7): nothing changes. A sentence with a claim's name and no value."""

    reason: str


def granted_roles(
    claims: Mapping[str, object], names: ClaimNames, *, projects: Collection[str] | None
) -> GrantedRoles | UnreadableClaims:
    """What these claims grant in an organization with these projects; None takes every project that is named to exist.

    Which projects exist decides about themselves alone: the same claims mean the same for the others.
    """
    try:
        if claim_reading.claims_grant_organization_admin(claims, names):
            why = f'{visible(names.organization_admin)} is "true", and no other claim counts'
            return _organization_admin(f"{why} ({ClaimRule.DIRECT_2})")
        said = claim_reading.read_claims(claims, names)
    except UnfitClaim as unfit:
        return UnreadableClaims(f"{unfit} ({ClaimRule.DIRECT_7}).")
    said = _groups_6(said, names)
    if claim_groups.groups_grant_organization_admin(said.groups, names):
        why = f"the group {visible(names.org_admin_group)} makes one"
        return _organization_admin(f"{why} ({ClaimRule.GROUPS_3})", *said.notes)
    return _in_projects(said, names, projects)


def _organization_admin(because: str, *others: str) -> GrantedRoles:
    notes = (f"Organization admin: {because}.", *others)
    return GrantedRoles(organization_admin=True, roles={}, reasons=notes, notes=notes)


def _groups_6(said: ReadClaims, names: ClaimNames) -> ReadClaims:
    """Groups and roles 6, which the interface leaves open: groups are ignored altogether, their projects and the group
    of the organization admins too, and a project's own role stays its own.
    """
    has_own = bool(claim_entries.own_roles(said.entries))
    if said.default_role is None or not said.groups or not has_own:
        return said
    why = f"{visible(names.default_role)} is set, and {visible(names.projects)} gives a project a role of its own"
    return replace(said, groups=(), notes=(*said.notes, f"Groups are ignored: {why} ({ClaimRule.GROUPS_6})."))


def _in_projects(said: ReadClaims, names: ClaimNames, projects: Collection[str] | None) -> GrantedRoles:
    """Direct claims 3, 4 and 6, groups and roles 4: who gets which role in the projects that are named."""
    of_groups, malformed = claim_groups.group_entries(said.groups, names)
    pool = claim_entries.pooled_roles((*said.entries, *of_groups))
    there = [one for one in pool if (naming.wrong_project(one) is None if projects is None else one in projects)]
    otherwise = _otherwise(said, names, pool)
    found = {project: _role(pool[project], names) or otherwise for project in there}
    unknown = tuple(sorted(pool.keys() - found.keys()))
    notes = (*said.notes, *_left_out(names, malformed, unknown), *_rest(pool, found))
    return GrantedRoles(
        organization_admin=False,
        roles={project: role for project, (role, _) in found.items()},
        reasons=(*_together(found), *notes),
        unknown=unknown,
        because={project: because for project, (_, because) in found.items()},
        notes=notes,
    )


def _together(found: Mapping[str, tuple[Role, str]]) -> list[str]:
    alike: dict[tuple[Role, str], list[str]] = {}
    for project, one in found.items():
        alike.setdefault(one, []).append(project)
    return [f"{_some(projects)}: {role}, {because}." for (role, because), projects in alike.items()]


def _role(entries: frozenset[ProjectEntry], names: ClaimNames) -> tuple[Role, str] | None:
    """A project's own role, and why; None for one that has none. Direct claims 6: of several, the least privileged."""
    roles = claim_entries.own_roles(entries)
    if not roles:
        return None
    if len(roles) > 1:
        return claim_entries.least_role(roles), f"the least privileged of its own roles ({ClaimRule.DIRECT_6})"
    rule = min(one.rule for one in entries if one.role is not None)
    words = {
        ClaimRule.DIRECT_3: f"its own role in {visible(names.projects)}",
        ClaimRule.DIRECT_5: "its own role does not exist, which counts as viewer",
        ClaimRule.GROUPS_4: "its own role in a group",
    }
    [role] = roles
    return role, f"{words[rule]} ({rule})"


def _otherwise(said: ReadClaims, names: ClaimNames, pool: Mapping[str, frozenset[ProjectEntry]]) -> tuple[Role, str]:
    """The role of a project that has none of its own, and why: the first of these that there is."""
    if said.default_role is not None:  # groups and roles 5: nothing is inferred then
        return said.default_role, f"the role in {visible(names.default_role)} ({ClaimRule.DIRECT_3})"
    # Projects that do not exist count here, else the same claims would mean something else in another organization.
    own = [role for entries in pool.values() for role in claim_entries.own_roles(entries)]
    if len(own) > 1:
        return claim_entries.least_role(own), f"the least privileged of the projects' own roles ({ClaimRule.DIRECT_6})"
    role = claim_groups.inferred_role((*said.groups, *said.roles), names)
    if role is not None:
        return role, f"the first of groups and roles that names a role ({ClaimRule.GROUPS_2})"
    return Role.VIEWER, f"no other role is given ({ClaimRule.DIRECT_1})"


def _left_out(names: ClaimNames, malformed: int, unknown: tuple[str, ...]) -> list[str]:
    prefix = visible(names.projects_group_prefix)
    groups = counted(malformed, "group")
    skipped = [f"Skipped: {groups} with the prefix {prefix} and no project behind it ({ClaimRule.GROUPS_4})."]
    missing = [f"Skipped: there is no project {_some(unknown)}."]
    return [*(skipped if malformed else []), *(missing if unknown else [])]


def _rest(pool: Collection[str], found: Collection[str]) -> list[str]:
    if found:
        return [f"No other project is opened ({ClaimRule.DIRECT_4})."]
    if pool:
        return [f"Nothing is granted: no project that is named exists ({ClaimRule.DIRECT_4})."]
    return ["Nothing is granted: no claim names a project or makes an organization admin."]


def _some(projects: Collection[str]) -> str:
    shown = ", ".join(list(projects)[:SHOWN])
    return shown if len(projects) <= SHOWN else f"{shown} and {len(projects) - SHOWN:,} more"
