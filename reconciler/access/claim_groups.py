"""What groups and roles of a provider mean: the interface's rules 1 to 4 for them.

Belongs here: matching their names. Does not: reading the claims (`claim_values`), when groups count (`claims`).

Names are compared in any case. A letter beyond ASCII that only becomes an ASCII one when its case is folded (the Kelvin
sign, the long s) matches none: who may make groups at a provider that guards a name must not find another spelling.
"""

from collections.abc import Iterable

from reconciler.access import claim_entries
from reconciler.access.claim_entries import ProjectEntry
from reconciler.access.claim_names import ClaimNames
from reconciler.access.claim_rules import ClaimRule
from reconciler.model.principals import Role


def inferred_role(texts: Iterable[str], names: ClaimNames) -> Role | None:
    """The role of the first text that names one, None without such (groups and roles 1, 2)."""
    roles = _roles(names)
    return next((roles[found] for one in texts if (found := _folded(one)) in roles), None)


def groups_grant_organization_admin(groups: Iterable[str], names: ClaimNames) -> bool:
    """Whether the group of the organization admins is among them (groups and roles 3)."""
    wanted = _folded(names.org_admin_group)
    return any(_folded(group) == wanted for group in groups)


def group_entries(groups: Iterable[str], names: ClaimNames) -> tuple[list[ProjectEntry], int]:
    """The projects that groups name, and how many groups have the prefix and name none (groups and roles 4).

    A group that is called like a role's or the admins' is that and no project's, whatever the prefix is.
    """
    size, prefix = len(names.projects_group_prefix), _folded(names.projects_group_prefix)
    others = {*_roles(names), _folded(names.org_admin_group)}
    behind = [one[size:] for one in groups if _folded(one[:size]) == prefix and _folded(one) not in others]
    found = [claim_entries.project_entry(_lower(one), rule=ClaimRule.GROUPS_4) for one in behind]
    return [one for one in found if one is not None], found.count(None)


def _roles(names: ClaimNames) -> dict[tuple[bool, str], Role]:
    """The role of each name. Where two roles are called the same, the least privileged counts; a name of the settings
    goes before a bare one.
    """
    bare = {_folded(role.value): role for role in Role}
    return bare | {
        _folded(names.admin_group): Role.ADMIN,
        _folded(names.user_group): Role.USER,
        _folded(names.viewer_group): Role.VIEWER,
    }


def _folded(text: str) -> tuple[bool, str]:
    return text.isascii(), text.casefold()


def _lower(text: str) -> str:
    # Projects are called in small letters. Others than ASCII's stay, and make an entry malformed.
    return text.lower() if text.isascii() else text
