"""The rules of what claims grant, by the names under which reasons, tests and docs/claims.md cite them.

Belongs here: one name for each rule of the interface (Authentication, Claims used for provisioning), with its meaning.
Does not: following them (`claims` and what stands beside it).
"""

from enum import StrEnum


class ClaimRule(StrEnum):
    """A rule of the interface. `Rule.DIRECT_4` is its rule 4 for direct claims."""

    DIRECT_1 = "direct claims 1"  # without a default role it is `viewer`
    DIRECT_2 = "direct claims 2"  # `service_org_admin` is "true": an organization admin, and the rest is ignored
    DIRECT_3 = "direct claims 3"  # a plain id has the default role, `<role>:<id>` its own
    DIRECT_4 = "direct claims 4"  # who has projects named has no others
    DIRECT_5 = "direct claims 5"  # a role that does not exist is `viewer`; malformed entries are skipped
    DIRECT_6 = "direct claims 6"  # least privileged: of one project's roles, and of several projects' for the others
    DIRECT_7 = "direct claims 7"  # what cannot be parsed changes nothing

    GROUPS_1 = "groups and roles 1"  # which names give which role
    GROUPS_2 = "groups and roles 2"  # the first name that matches counts
    GROUPS_3 = "groups and roles 3"  # the group of the organization admins
    GROUPS_4 = "groups and roles 4"  # a project's group, with or without a role
    GROUPS_5 = "groups and roles 5"  # with `service_default_role` no role is inferred
    GROUPS_6 = "groups and roles 6"  # with that, groups, and a role in `service_projects`, groups are ignored

    GROUP_IDS = "group_ids"  # they count where `groups` holds none
