"""Claims of an ID token, and the roles that they grant.

The settings name claims and groups (`auth.oidc.customClaims`). A claim is a key of the ID token, not a path into it.
Its name is compared exactly, the name of a group in any case.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from reconciler.model import names as model_names
from reconciler.model.principals import Role, weaker
from reconciler.model.text import visible

if TYPE_CHECKING:
    from reconciler.settings.models import CustomClaims

# The rules of claims, by the names that reasons, tests and docs/claims.md cite.


class ClaimRule(StrEnum):
    """A rule of the interface. `Rule.DIRECT_4` is its rule 4 for direct claims."""

    DIRECT_1 = "direct claims 1"  # without a default role it is `viewer`
    DIRECT_2 = "direct claims 2"  # `service_org_admin` is "true": an organization admin, and the rest is ignored
    DIRECT_3 = "direct claims 3"  # a plain id has the default role, `<role>:<id>` its own
    DIRECT_4 = "direct claims 4"  # a person whose projects are named has no others
    DIRECT_5 = "direct claims 5"  # a role that does not exist is `viewer`; malformed entries are skipped
    DIRECT_6 = "direct claims 6"  # least privileged: of one project's roles, and of several projects' for the others
    DIRECT_7 = "direct claims 7"  # claims that cannot be parsed change nothing

    GROUPS_1 = "groups and roles 1"  # which names give which role
    GROUPS_2 = "groups and roles 2"  # the first name that matches counts
    GROUPS_3 = "groups and roles 3"  # the group of the organization admins
    GROUPS_4 = "groups and roles 4"  # a project's group, with or without a role
    GROUPS_5 = "groups and roles 5"  # with `service_default_role` no role is inferred
    GROUPS_6 = "groups and roles 6"  # with that, groups, and a role in `service_projects`, groups are ignored

    GROUP_IDS = "group_ids"  # they count if `groups` is empty


# Entries that name a project: `<project_id>` and `<role>:<project_id>`, in `service_projects` and after the prefix of a
# project's group.

_ROLES = {role.value: role for role in Role}


class ProjectEntry(NamedTuple):
    """An entry that names a project. `role` is its own role, None for a plain id; `rule` is the applied rule."""

    project: str
    role: Role | None
    rule: ClaimRule


def project_entry(text: str, *, rule: ClaimRule) -> ProjectEntry | None:
    """Parse an entry; None for a malformed one: an empty side, a second colon, an impossible name.

    Direct claims 3, 5. A possible name without a project is not malformed, but unknown.
    """
    own, colon, project = (part.strip() for part in text.rpartition(":"))
    if model_names.wrong_name(project) is not None or ":" in own or (colon and not own):
        return None
    if not colon:
        return ProjectEntry(project, None, rule)
    return ProjectEntry(project, _ROLES.get(own, Role.VIEWER), rule if own in _ROLES else ClaimRule.DIRECT_5)


def least_role(roles: Iterable[Role]) -> Role:
    """Return the least privileged of some roles (direct claims 6)."""
    return reduce(weaker, roles)


def pooled_roles(entries: Iterable[ProjectEntry]) -> Mapping[str, frozenset[ProjectEntry]]:
    """Return the entries of each project, each once and sorted, since their order has no meaning."""
    pool: dict[str, set[ProjectEntry]] = defaultdict(set)
    for one in entries:
        pool[one.project].add(one)
    return {project: frozenset(pool[project]) for project in sorted(pool)}


def own_roles(entries: Iterable[ProjectEntry]) -> frozenset[Role]:
    """Return the roles that entries give for one project."""
    return frozenset(one.role for one in entries if one.role is not None)


# Groups and roles of a provider: the interface's rules 1 to 4 for them.
#
# Names are compared in any case. A letter beyond ASCII that case folding turns into an ASCII letter (the Kelvin sign,
# the long s) does not match: otherwise a person who may make groups could evade a provider's protection of a name.


def inferred_role(texts: Iterable[str], names: "CustomClaims") -> Role | None:
    """Return the role of the first text that names one; None if none does (groups and roles 1, 2)."""
    roles = _roles(names)
    return next((roles[found] for one in texts if (found := _folded(one)) in roles), None)


def groups_grant_organization_admin(groups: Iterable[str], names: "CustomClaims") -> bool:
    """Return True if the group of the organization admins is among these (groups and roles 3)."""
    wanted = _folded(names.org_admin_group_name)
    return any(_folded(group) == wanted for group in groups)


def group_entries(groups: Iterable[str], names: "CustomClaims") -> list[ProjectEntry]:
    """Return the projects that groups name (groups and roles 4).

    A group with the name of a role or of the admins' group names no project, whatever the prefix is.
    """
    size, prefix = len(names.projects_group_prefix), _folded(names.projects_group_prefix)
    others = {*_roles(names), _folded(names.org_admin_group_name)}
    behind = [one[size:] for one in groups if _folded(one[:size]) == prefix and _folded(one) not in others]
    # Names of projects are in lower case. Letters beyond ASCII stay as they are, and make an entry malformed.
    lower = [one.lower() if one.isascii() else one for one in behind]
    found = [project_entry(one, rule=ClaimRule.GROUPS_4) for one in lower]
    return [one for one in found if one is not None]


def _roles(names: "CustomClaims") -> dict[tuple[bool, str], Role]:
    """Return the role of each name. If two roles have the same name, the least privileged counts. A name in the
    settings comes before a bare one.
    """
    bare = {_folded(role.value): role for role in Role}
    return bare | {
        _folded(names.admin_group_name): Role.ADMIN,
        _folded(names.user_group_name): Role.USER,
        _folded(names.viewer_group_name): Role.VIEWER,
    }


def _folded(text: str) -> tuple[bool, str]:
    return text.isascii(), text.casefold()


# Reading one claim: its JSON type, its entries, and how many there may be.
#
# A claim that is null counts as missing (OpenID Connect Core 1.0, 5.3.2), and so does a text that is empty or blank.

MOST_ENTRIES = 10_000  # of one claim; as many as there may be projects

_ELSEWHERE = "_claim_names"


class UnfitClaim(Exception):
    """A claim that cannot be parsed: a sentence with its name, without its value."""


def claim_text(claims: Mapping[str, object], name: str) -> str:
    """Return the text of a claim, unchanged; empty if it is missing. Raises UnfitClaim."""
    value = _value(claims, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UnfitClaim(f"The claim {visible(name)} must be a text")
    return value if value.strip() else ""


def claim_texts(claims: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return the entries of a claim that is a list of texts, or one text with commas; none if it is missing. They are
    in order, trimmed, and without blank ones. Raises UnfitClaim.
    """
    value = _value(claims, name)
    if value is None:
        return ()
    if isinstance(value, str):
        return tuple(one for one in split_claim(value, name) if one)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise UnfitClaim(f"The claim {visible(name)} must be a text or a list of texts")
    _is_bounded(len(value), name)
    # Lists are not split at commas, because names in a directory contain them (`cn=admins,dc=example`).
    return tuple(one for each in value if (one := each.strip()))


def split_claim(value: str, name: str) -> tuple[str, ...]:
    """Split a text at its commas, and trim each part; some may be blank. Raises UnfitClaim for too many."""
    _is_bounded(value.count(",") + 1, name)
    return tuple(one.strip() for one in value.split(","))


def _value(claims: Mapping[str, object], name: str) -> object:
    value = claims.get(name)
    # A distributed claim is not in the token (OpenID Connect Core 1.0, 5.6.2). Some providers do that for people in
    # many groups: if it counted as no groups, they would lose their access.
    elsewhere = claims.get(_ELSEWHERE)
    if value is None and isinstance(elsewhere, dict) and name in elsewhere:
        raise UnfitClaim(f"The claim {visible(name)} must be in the token, and the provider only refers to it")
    return value


def _is_bounded(count: int, name: str) -> None:
    if count > MOST_ENTRIES:
        raise UnfitClaim(f"The claim {visible(name)} must not have more than {MOST_ENTRIES:,} entries")


# The parsed claims of an ID token, before the decision about roles.


@dataclass(frozen=True, slots=True)
class ReadClaims:
    """Parsed claims. `default_role` is None if it is not set; `entries` are those of `service_projects`; `groups` are
    the groups that count, from `group_ids` if there are no others; `notes` are sentences about skipped entries.
    """

    default_role: Role | None
    entries: tuple[ProjectEntry, ...]
    groups: tuple[str, ...]
    roles: tuple[str, ...]
    notes: tuple[str, ...]


def claims_grant_organization_admin(claims: Mapping[str, object], names: "CustomClaims") -> bool:
    """Return True if a claim makes an organization admin (direct claims 2). Raises UnfitClaim for a text that is
    neither `true` nor `false`.
    """
    text = claim_text(claims, names.organization_admin)
    if text not in ("", "true", "false"):
        claim = visible(names.organization_admin)
        raise UnfitClaim(f'The claim {claim} must be the text "true" or "false"')
    return text == "true"


def read_claims(claims: Mapping[str, object], names: "CustomClaims") -> ReadClaims:
    """Parse all other claims. Raises UnfitClaim if any cannot be parsed, even one that would not count."""
    notes: tuple[str, ...] = ()
    groups = claim_texts(claims, names.groups)
    if not groups and (groups := claim_texts(claims, names.group_ids)):
        name, other = visible(names.groups), visible(names.group_ids)
        notes = (f"{name} has no entry, so {other} counts ({ClaimRule.GROUP_IDS}).",)
    role = claim_text(claims, names.default_role).strip()
    if role and role not in _ROLES:
        name = visible(names.default_role)
        notes = (*notes, f"{name} names no role that exists, which counts as viewer ({ClaimRule.DIRECT_5}).")
    return ReadClaims(
        default_role=_ROLES.get(role, Role.VIEWER) if role else None,  # direct claims 5
        entries=_entries(claims, names),
        groups=groups,
        roles=claim_texts(claims, names.roles),
        notes=notes,
    )


def _entries(claims: Mapping[str, object], names: "CustomClaims") -> tuple[ProjectEntry, ...]:
    """Parse entries (direct claims 3, 5 and 7): malformed ones are skipped, unless there are no others."""
    text = claim_text(claims, names.projects)
    if not text:
        return ()
    found = [project_entry(one, rule=ClaimRule.DIRECT_3) for one in split_claim(text, names.projects)]
    good = tuple(one for one in found if one is not None)
    if not good:
        raise UnfitClaim(f"The claim {visible(names.projects)} must have an entry that is not malformed")
    return good


# Roles from claims: the rules of the interface, one by one. Comments name the rule (`ClaimRule`) that code implements.

SHOWN = 10  # projects that one sentence names


@dataclass(frozen=True, slots=True)
class GrantedRoles:
    """The access that claims grant. `roles` are sorted by project, and empty for an organization admin. `because` has
    the rule of each project, `notes` are further sentences. `unknown` are named projects that do not exist, sorted.
    """

    organization_admin: bool
    roles: Mapping[str, Role]
    notes: tuple[str, ...]
    because: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Return a few sentences about the rules, even for many projects."""
        alike: dict[tuple[Role, str], list[str]] = {}
        for project, role in self.roles.items():
            alike.setdefault((role, self.because[project]), []).append(project)
        together = [f"{_some(projects)}: {role}, {because}." for (role, because), projects in alike.items()]
        return (*together, *self.notes)

    @property
    def is_nothing(self) -> bool:
        """True when it opens nothing."""
        return not self.organization_admin and not self.roles


@dataclass(frozen=True, slots=True)
class UnreadableClaims:
    """Claims that cannot be parsed (direct claims 7), so access does not change: a sentence with a claim's name."""

    reason: str


def granted_roles(
    claims: Mapping[str, object], names: "CustomClaims", *, projects: Collection[str]
) -> GrantedRoles | UnreadableClaims:
    """Return the access that these claims grant with these projects.

    A project that does not exist only loses its own role: the roles of others stay the same.
    """
    try:
        if claims_grant_organization_admin(claims, names):
            why = f'{visible(names.organization_admin)} is "true", and no other claim counts'
            return _organization_admin(f"{why} ({ClaimRule.DIRECT_2})")
        said = read_claims(claims, names)
    except UnfitClaim as unfit:
        return UnreadableClaims(f"{unfit} ({ClaimRule.DIRECT_7}).")
    said = _groups_6(said, names)
    if groups_grant_organization_admin(said.groups, names):
        why = f"the group {visible(names.org_admin_group_name)} makes one"
        return _organization_admin(f"{why} ({ClaimRule.GROUPS_3})", *said.notes)
    return _in_projects(said, names, projects)


def _organization_admin(because: str, *others: str) -> GrantedRoles:
    return GrantedRoles(organization_admin=True, roles={}, notes=(f"Organization admin: {because}.", *others))


def _groups_6(said: ReadClaims, names: "CustomClaims") -> ReadClaims:
    """Apply groups and roles 6. The interface leaves details open: all groups are ignored, even those of projects and
    of the organization admins, and a project keeps its own role.
    """
    has_own = bool(own_roles(said.entries))
    if said.default_role is None or not said.groups or not has_own:
        return said
    why = f"{visible(names.default_role)} is set, and {visible(names.projects)} gives a project a role of its own"
    return replace(said, groups=(), notes=(*said.notes, f"Groups are ignored: {why} ({ClaimRule.GROUPS_6})."))


def _in_projects(said: ReadClaims, names: "CustomClaims", projects: Collection[str]) -> GrantedRoles:
    """Return the roles in the named projects (direct claims 3, 4 and 6, groups and roles 4)."""
    pool = pooled_roles((*said.entries, *group_entries(said.groups, names)))
    there = [one for one in pool if one in projects]
    otherwise = _otherwise(said, names, pool)
    found = {project: _role(pool[project], names) or otherwise for project in there}
    unknown = tuple(sorted(pool.keys() - found.keys()))
    return GrantedRoles(
        organization_admin=False,
        roles={project: role for project, (role, _) in found.items()},
        notes=(*said.notes, *_left_out(pool, found, unknown)),
        because={project: because for project, (_, because) in found.items()},
        unknown=unknown,
    )


def _role(entries: frozenset[ProjectEntry], names: "CustomClaims") -> tuple[Role, str] | None:
    """Return a project's own role and its rule; None without one. Direct claims 6: of several, the least privileged."""
    roles = own_roles(entries)
    if not roles:
        return None
    if len(roles) > 1:
        return least_role(roles), f"the least privileged of its own roles ({ClaimRule.DIRECT_6})"
    rule = min(one.rule for one in entries if one.role is not None)
    words = {
        ClaimRule.DIRECT_3: f"its own role in {visible(names.projects)}",
        ClaimRule.DIRECT_5: "its own role does not exist, which counts as viewer",
        ClaimRule.GROUPS_4: "its own role in a group",
    }
    [role] = roles
    return role, f"{words[rule]} ({rule})"


def _otherwise(
    said: ReadClaims, names: "CustomClaims", pool: Mapping[str, frozenset[ProjectEntry]]
) -> tuple[Role, str]:
    """Return the role of a project without its own role, and the rule: the first of these that exists."""
    if said.default_role is not None:  # groups and roles 5: nothing is inferred then
        return said.default_role, f"the role in {visible(names.default_role)} ({ClaimRule.DIRECT_3})"
    # Unknown projects count here: otherwise the same claims would mean something else in another organization.
    own = [role for entries in pool.values() for role in own_roles(entries)]
    if len(own) > 1:
        return least_role(own), f"the least privileged of the projects' own roles ({ClaimRule.DIRECT_6})"
    role = inferred_role((*said.groups, *said.roles), names)
    if role is not None:
        return role, f"the first of groups and roles that names a role ({ClaimRule.GROUPS_2})"
    return Role.VIEWER, f"no other role is given ({ClaimRule.DIRECT_1})"


def _left_out(pool: Collection[str], found: Collection[str], unknown: tuple[str, ...]) -> list[str]:
    skipped = [f"Skipped: there is no project {_some(unknown)}."] if unknown else []
    if found:
        return [*skipped, f"No other project is opened ({ClaimRule.DIRECT_4})."]
    if pool:
        return [*skipped, f"Nothing is granted: no project that is named exists ({ClaimRule.DIRECT_4})."]
    return ["Nothing is granted: no claim names a project or makes an organization admin."]


def _some(projects: Collection[str]) -> str:
    shown = ", ".join(list(projects)[:SHOWN])
    return shown if len(projects) <= SHOWN else f"{shown} and {len(projects) - SHOWN:,} more"
